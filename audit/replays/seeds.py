"""Seeds of generators: one that the program drew, or the system, is a secret; any other makes a generator of constants.

Whole numbers that are drawn from many may serve as seeds; as long as they are none, they are not followed.
"""

import math
import random
from typing import Any

import numpy as np

from audit.replays.noisy import release_inside
from audit.replays.recording import Recording, active

MOST_OPTIONS = 1_000_000  # of a whole number that is a coin
_SMALL_SEED = 100  # bits, less than the system draws
KINDS: dict[type, Any] = {  # of generators, each with what makes one of plain numbers
    np.random.Generator: np.random.default_rng,
    np.random.RandomState: np.random.RandomState,
    random.Random: random.Random,
}


def running() -> Recording:
    """Return the recording of the program that runs now."""
    recording = active()
    if recording is None:
        raise RuntimeError(
            "a generator of a replay was kept and is used after the replay has ended; make one inside the function"
        )
    return recording


def as_shape(size: Any, *parameters: Any) -> tuple[int, ...]:
    """Return a size as a shape, without one that of the parameters."""
    if size is None:
        return np.broadcast_shapes(*(np.shape(item) for item in parameters)) if parameters else ()
    return (int(size),) if np.ndim(size) == 0 else tuple(int(part) for part in size)


def draw_seeds(first: int, count: int, size: Any) -> Any:
    """Return whole numbers from a range too large for coins: seeds, or else not followed."""
    recording, shape = running(), as_shape(size)
    draws = recording.entropy.integers(count, size=shape) if count < 2**63 else None
    if draws is None:
        draws = np.array([int.from_bytes(recording.entropy.bytes(64)) % count for _ in range(math.prod(shape))], dtype=object)
    draws = np.reshape(draws, -1)
    if recording.lean is not None and not recording.drawn_seeds:  # one that decides something as well
        draws[:1] = (recording.lean - first if recording.lean > 0 else -recording.lean * (count - 1)) % count
    numbers = first + draws
    keep_seeds(recording, numbers.tolist())
    return numbers.reshape(shape) if shape else numbers[0]


def keep_seeds(recording: Recording, numbers: list[int]) -> None:
    """Note whole numbers that may be seeds; as long as they are none, they are a gap."""
    for number in numbers:
        recording.gaps.append(gap := f"a number of more than {MOST_OPTIONS:,} that is no seed ({number})")
        recording.drawn_seeds[repr(number)] = gap


def note_seed(recording: Recording, generator: Any, seed: Any = None) -> None:
    """Keep a seed: one that the program drew, or the system, is a secret; any other makes a generator of constants."""
    source, text = _seed_text(seed)
    recording.constants.pop(id(generator), None)
    drawn = recording.drawn_seeds.get(source)
    if source != "None" and drawn is None:
        kind = next(kind for kind in KINDS if isinstance(generator, kind))
        recording.constants[id(generator)] = (generator, KINDS[kind](release_inside(seed)))  # the first is kept: so is its id
    elif drawn is not None:
        if text in recording.used_seeds:
            recording.gaps.append(f"numbers of a generator with the seed {text[:40]}, which two generators have")
        follow_seeds(recording, [drawn])
        recording.used_seeds.add(text)
    recording.seeds.append("of the system" if drawn else text)


def follow_seeds(recording: Recording, gaps: list[str]) -> None:
    """Remove the gaps of numbers that serve as seeds: they are followed from here."""
    for gap in gaps:
        if gap in recording.gaps:
            recording.gaps.remove(gap)


def _seed_text(seed: Any = None) -> tuple[str, str]:
    """Return the number that a seed is made from, and the seed itself, as texts; "None" if the system drew it."""
    if isinstance(seed, np.random.BitGenerator | np.random.SeedSequence):
        sequence: Any = getattr(seed, "seed_seq", seed)
        entropy = getattr(sequence, "entropy", None)
        source = "None" if _is_fresh(entropy) else _seed_text(entropy)[0]
        return source, f"{source}{getattr(sequence, 'spawn_key', None) or ''}"
    seed, parts = release_inside(seed), list[str]()
    if isinstance(seed, list | tuple | np.ndarray):  # of several drawn numbers
        parts = [repr(int(part)) for part in np.ravel(np.asarray(seed, dtype=object)).tolist()]
    recording = running()
    if parts and all(part in recording.drawn_seeds for part in parts):
        follow_seeds(recording, [recording.drawn_seeds[part] for part in parts[1:]])
        return parts[0], repr(parts)
    text = repr(int(seed) if isinstance(seed, np.integer) else seed)
    return text, text


def _is_fresh(entropy: Any) -> bool:
    """True if the system drew it while the program runs; of a number that was there before nobody knows who did."""
    if not isinstance(entropy, int) or entropy.bit_length() <= _SMALL_SEED:
        return False
    recording = running()
    is_given = repr(entropy) in recording.entropies_given
    if not is_given and entropy not in recording.entropies_drawn:
        recording.gaps.append("numbers of a generator with a seed from before the run")
    return not is_given


def _noting(kind: Any) -> Any:
    """Return a class of numpy's sources of bits that notes whether its seed was given or is of the system."""

    def make(self: Any, seed: Any = None, **options: Any) -> None:
        seed = release_inside(seed)
        kind.__init__(self, seed, **options)
        recording = active()
        if recording is None or isinstance(seed, np.random.SeedSequence):
            return
        if seed is None:
            recording.entropies_drawn.add(getattr(getattr(self, "seed_seq", self), "entropy", None))
        elif not isinstance(seed, int) or seed not in recording.entropies_drawn:  # a child has that of its parent
            recording.entropies_given.add(repr(seed))

    return type(kind.__name__, (kind,), {"__init__": make})


_BITS = (np.random.SeedSequence, np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
NOTING = {id(kind): _noting(kind) for kind in _BITS}
