"""Generators of numbers that carry their law: numpy's Generator and RandomState, the functions of `numpy.random`, Python's
`random`.

While a program runs, the names of its sources are replaced wherever a module holds them. The draws of a run come from its
recording, so that a run can be repeated with other noise. A generator whose seed the program did not draw has no secret: its
numbers are constants (`Recording.constants`). A sampler that is not listed here draws plain numbers and is noted in
`Recording.gaps`.
"""

import copy
import math
import random
from typing import Any

import numpy as np

from audit.replays.noisy import NoisyArray, holds_noise, release_inside
from audit.replays.recording import CHOICE, NoiseRows, Recording, Schedule, active
from audit.replays.seeds import MOST_OPTIONS, as_shape, draw_seeds, note_seed, running

_OPAQUE = """permuted beta chisquare dirichlet f hypergeometric logseries multivariate_hypergeometric negative_binomial
    noncentral_chisquare noncentral_f pareto poisson power standard_t triangular vonmises wald weibull zipf bytes multinomial
    rayleigh lognormal random_raw standard_cauchy""".split()  # noqa: SIM905
_PLAIN_BITS = np.random.PCG64  # whose name is replaced while a program runs
_NO_ROWS = NoiseRows(value=np.zeros(0), index=np.zeros((0, 1), dtype=np.int64), weight=np.zeros((0, 1)))


def draw(law: str, size: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Return `loc + scale * z` for new base draws of a law."""
    recording = running()
    shape = as_shape(size, loc, scale)
    sampler = {"uniform": "random", "exponential": "standard_exponential", "normal": "standard_normal"}.get(law)
    if law.startswith("geometric "):
        values = recording.entropy.geometric(-math.expm1(-float(law.partition(" ")[2])), shape).astype(np.float64)
    else:
        values = getattr(recording.entropy, sampler or law)(size=shape)
    index = recording.draw(law, values)[..., None]
    noisy = NoisyArray(recording, np.zeros(shape), index, np.ones((*shape, 1)), pure=True)
    if law == "uniform" and recording.schedule is Schedule.COINS:
        noisy = release_inside(noisy)
    if not _is_plain(scale, 1.0):
        noisy = noisy * scale
    return noisy if _is_plain(loc, 0.0) else noisy + loc


def _is_plain(item: Any, number: float) -> bool:
    return type(item) in (int, float) and item == number


def _choose(probabilities: Any, *terms: str) -> int:
    """Release one of several with known probabilities."""
    recording = running()
    with np.errstate(divide="ignore"):
        logs = np.log(np.asarray(probabilities, dtype=np.float64))
    place = int(recording.entropy.choice(len(logs), p=np.exp(logs) / np.exp(logs).sum()))
    return int(recording.release(CHOICE, _NO_ROWS, place, log_probabilities=logs, terms=terms))


def choose(population: Any, size: Any, replace: bool, p: Any) -> Any:
    """Return what `Generator.choice` does; one item by probabilities is a release with its own law."""
    recording = running()
    items = np.arange(population) if np.ndim(population) == 0 and not holds_noise(population) else np.asarray(population)
    # two opposite numbers are a sign times a number: noise that adds up with other noise, not a release
    if p is None and items.shape == (2,) and items.dtype.kind in "if" and items[0] == -items[1] != 0:
        shape = as_shape(size)
        index = recording.draw("sign", recording.entropy.choice([-1.0, 1.0], shape))[..., None]
        return NoisyArray(recording, np.zeros(shape), index, np.full((*shape, 1), abs(float(items[1]))))
    if not len(items):
        return recording.entropy.choice(items, size, replace)
    law = (
        np.full(len(items), 1 / len(items))
        if p is None
        else release_inside(np.asarray(p, dtype=np.float64) if not holds_noise(p) else p)
    )
    if size is None:
        return items[_choose(law)]
    shape = as_shape(size)
    if replace:
        return items[np.array([_choose(law) for _ in range(math.prod(shape))], dtype=np.int64).reshape(shape)]
    if (
        p is None and recording.schedule is Schedule.COINS
    ):  # an order that is not released: any coupling of both runs bounds the loss
        return recording.entropy.choice(items, shape, replace=False)
    remaining, places = np.array(law, dtype=np.float64), []
    for _ in range(math.prod(shape)):
        places.append(_choose(remaining / remaining.sum(), *(("order",) if p is None else ())))
        remaining[places[-1]] = 0.0
    return items[np.array(places, dtype=np.int64).reshape(shape)]


def _with_location(law: str) -> Any:
    return lambda self, loc=0.0, scale=1.0, size=None: draw(law, size, loc, scale)


def _standard(law: str) -> Any:
    return lambda self, size=None, dtype=None, out=None: _into(out, draw(law, _size(size, out)))


class _Sources:
    """Samplers that a Generator and a RandomState have under the same names."""

    laplace, normal, gumbel, logistic = map(_with_location, ("laplace", "normal", "gumbel", "logistic"))
    standard_normal, random = map(_standard, ("normal", "uniform"))

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        return draw("exponential", size, 0.0, scale)

    def standard_exponential(self, size: Any = None, dtype: Any = None, method: Any = None, out: Any = None) -> Any:
        return _into(out, draw("exponential", _size(size, out)))

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        return draw("uniform", size, low, np.asarray(high) - np.asarray(low))

    def geometric(self, p: Any, size: Any = None) -> Any:
        return draw(f"geometric {-math.log1p(-float(p))!r}", size) if np.ndim(p) == 0 else self._plain("geometric", p, size)

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = None) -> Any:
        return draw("exponential", size, 0.0, scale) if _is_plain(shape, 1.0) else self._plain("gamma", shape, scale, size)

    def standard_gamma(self, shape: Any, size: Any = None, **options: Any) -> Any:
        return draw("exponential", size) if _is_plain(shape, 1.0) else self._plain("standard_gamma", shape, size)

    def multivariate_normal(self, mean: Any, cov: Any, size: Any = None, *options: Any, **keywords: Any) -> Any:
        values, vectors = np.linalg.eigh(np.asarray(cov, dtype=np.float64))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return draw("normal", (*(() if size is None else as_shape(size)), len(root))) @ root.T + mean

    def integers(self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False) -> Any:
        first, last = (0, low) if high is None else (low, high)
        if np.ndim(first) or np.ndim(last):
            return self._plain("integers", low, high, size)
        count = int(last) - int(first) + bool(endpoint)
        if count > MOST_OPTIONS:
            numbers = draw_seeds(int(first), count, size)
            return numbers.astype(dtype) if np.ndim(numbers) else numbers
        shape = as_shape(size)
        values = np.array([_choose(np.full(count, 1 / count)) for _ in range(math.prod(shape))], dtype=np.int64) + int(first)
        return values.reshape(shape).astype(dtype) if shape else int(values[0])

    def choice(self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True) -> Any:  # noqa: PLR0917 (numpy's own)
        return choose(a, size, replace, p) if axis == 0 else self._plain("choice", a, size, replace, p, axis)

    def permutation(self, x: Any, axis: int = 0) -> Any:
        items = np.arange(x) if np.ndim(x) == 0 else x
        order = choose(len(items), len(items), False, None)
        return items[order] if isinstance(items, NoisyArray | np.ndarray) else np.asarray(items)[order]

    def shuffle(self, x: Any, axis: int = 0) -> None:
        order = choose(len(x), len(x), False, None)
        items = [x[i] for i in order.tolist()]
        if isinstance(x, np.ndarray):
            x[...] = np.array(x)[order]
        else:
            x[:] = items

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        if _is_plain(n, 1):
            shares = np.broadcast_to(release_inside(p), as_shape(size, p)).astype(np.float64)
            coins = np.array([_choose([1 - share, share]) for share in shares.ravel().tolist()], dtype=np.int64)
            return coins.reshape(shares.shape) if shares.ndim else int(coins[0])
        return self._plain("binomial", n, p, size)

    def _plain(self, name: str, *args: Any, **options: Any) -> Any:
        recording = running()
        recording.gaps.append(f"numbers of {name}")
        return getattr(recording.entropy, name)(*release_inside(args), **release_inside(options))


def _size(size: Any, out: Any) -> Any:
    return size if out is None else out.shape


def _read_state() -> None:
    """Note that the program reads the state of a generator, which reveals all draws."""
    running().gaps.append("the state of a generator, which the program reads")


def _into(out: Any, noisy: Any) -> Any:
    if out is None:
        return noisy
    out[...] = noisy
    return out


def _opaque(name: str) -> Any:
    return lambda self, *args, **options: self._plain(name, *args, **options)


for _name in _OPAQUE:
    setattr(_Sources, _name, _opaque(_name))


class FollowedGenerator(_Sources, np.random.Generator):  # type: ignore[misc]
    """A `numpy.random.Generator` with draws that are base draws of the program that runs."""

    def __init__(self, *seed: Any) -> None:
        recording = active()
        super().__init__(_PLAIN_BITS(0))
        if recording is not None and seed:
            note_seed(recording, self, seed[0])

    @property
    def bit_generator(self) -> Any:
        """The source of bits, which reveals all draws: what the program does with it is not followed."""
        _read_state()
        return super().bit_generator

    def __copy__(self) -> Any:
        return self  # with the same bits

    def __deepcopy__(self, memo: Any) -> Any:
        return _twin(self)

    def __reduce__(self) -> Any:
        _read_state()
        return FollowedGenerator, ()

    def spawn(self, n_children: int) -> Any:
        """Return other generators; all draw from the recording."""
        return [FollowedGenerator() for _ in range(n_children)]


def _twin(generator: Any) -> Any:
    """Return a generator that draws what another one would: so if both draw, their numbers are the same."""
    recording = running()
    twin = type(generator)()
    group = recording.twins.setdefault(id(generator), [generator])
    group.append(twin)
    recording.twins[id(twin)] = group
    if id(generator) in recording.constants:
        recording.constants[id(twin)] = (twin, copy.deepcopy(recording.constants[id(generator)][1]))
    return twin


def _note_draw(recording: Recording, generator: Any) -> None:
    """Note that a generator draws; if it has a copy that did as well, their numbers are not followed."""
    group = recording.twins.get(id(generator))
    if group is not None:
        drawn = recording.twin_draws.setdefault(id(group), set())
        drawn.add(id(generator))
        if len(drawn) > 1:
            recording.gaps.append("numbers of a generator and of its copy")


class FollowedRandomState(_Sources, np.random.RandomState):  # type: ignore[misc]
    """A `numpy.random.RandomState` with draws that are base draws of the program that runs."""

    def __init__(self, *seed: Any) -> None:
        recording = active()
        super().__init__(0)
        if recording is not None and seed:
            note_seed(recording, self, seed[0])

    __copy__, __deepcopy__ = FollowedGenerator.__copy__, FollowedGenerator.__deepcopy__

    def __reduce__(self) -> Any:
        _read_state()
        return FollowedRandomState, ()

    def seed(self, *seed: Any) -> None:
        note_seed(running(), self, *seed)

    def rand(self, *shape: int) -> Any:
        return draw("uniform", shape or None)

    def randn(self, *shape: int) -> Any:
        return draw("normal", shape or None)

    random_sample = _Sources.random

    def random_integers(self, low: Any, high: Any = None, size: Any = None) -> Any:
        return self.integers(1 if high is None else low, low if high is None else high, size, endpoint=True)

    def get_state(self, legacy: Any = True) -> Any:
        """Return a state, which reveals all draws: what the program does with it is not followed."""
        _read_state()
        return super().get_state(legacy)

    def tomaxint(self, size: Any = None) -> Any:
        """Return plain whole numbers, which are not followed."""
        return self._plain("integers", 2**62, size=size)

    def randint(self, low: Any, high: Any = None, size: Any = None, dtype: Any = int) -> Any:
        return self.integers(low, high, size)


class FollowedRandom(random.Random):
    """Python's `random.Random` with draws that are base draws of the program that runs."""

    def __init__(self, seed: Any = None) -> None:
        super().seed(0)
        recording = active()
        if recording is not None:
            note_seed(recording, self, seed)

    def seed(self, a: Any = None, version: int = 2) -> None:
        recording = active()
        if recording is not None:
            note_seed(recording, self, a)
        super().seed(0)

    def random(self) -> Any:
        return draw("uniform", None)

    def gauss(self, mu: Any = 0.0, sigma: Any = 1.0) -> Any:
        return draw("normal", None, mu, sigma)

    normalvariate = gauss

    def uniform(self, a: Any, b: Any) -> Any:
        return a + (b - a) * draw("uniform", None)

    def expovariate(self, lambd: Any = 1.0) -> Any:
        return draw("exponential", None) / lambd

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        places = range(start) if stop is None else range(start, stop, step)
        if len(places) > MOST_OPTIONS:
            return places[int(draw_seeds(0, len(places), None))] if step != 1 else int(draw_seeds(places[0], len(places), None))
        return places[_choose(np.full(len(places), 1 / len(places)))]

    def randint(self, a: int, b: int) -> int:
        return self.randrange(a, b + 1)

    def choice(self, seq: Any) -> Any:
        if len(seq) == 2 and all(type(item) in (int, float) for item in seq) and seq[0] == -seq[1]:
            return choose(np.array(seq, dtype=np.float64), None, True, None)
        return seq[self.randrange(len(seq))]

    def choices(self, population: Any, weights: Any = None, *, cum_weights: Any = None, k: int = 1) -> Any:
        law = np.ones(len(population)) if weights is None else np.asarray(weights, dtype=np.float64)
        law = law if cum_weights is None else np.diff(cum_weights, prepend=0.0)
        return [population[_choose(law / law.sum())] for _ in range(k)]

    def shuffle(self, x: Any) -> None:
        x[:] = [x[i] for i in choose(len(x), len(x), False, None).tolist()]

    def sample(self, population: Any, k: int, *, counts: Any = None) -> Any:
        items = list(population)
        return [items[i] for i in choose(len(items), k, False, None).tolist()]

    def getstate(self) -> Any:
        """Return a state, which reveals all draws: what the program does with it is not followed."""
        if active() is not None:
            _read_state()
        return super().getstate()

    def getrandbits(self, k: int) -> int:
        """Return plain bits, which are not followed unless they serve as a seed."""
        if 2**k > MOST_OPTIONS:
            return int(draw_seeds(0, 2**k, None))
        running().gaps.append("bits of random.getrandbits")
        return int(running().entropy.integers(2**k))


def _or_constant(name: str, method: Any) -> Any:
    """Return a sampler that draws from the recording, or, of a generator of constants, as that generator does."""

    def sampler(self: Any, *args: Any, **options: Any) -> Any:
        recording = running()
        _note_draw(recording, self)
        _, constant = recording.constants.get(id(self), (None, None))
        if constant is None:
            return method(self, *args, **options)
        return getattr(constant, name)(*release_inside(args), **release_inside(options))

    return sampler


GENERATORS: dict[type, Any] = {
    np.random.Generator: FollowedGenerator,
    np.random.RandomState: FollowedRandomState,
    random.Random: FollowedRandom,
}
for _plain, _source in GENERATORS.items():
    for _name, _method in {**(vars(_Sources) if issubclass(_source, _Sources) else {}), **vars(_source)}.items():
        if hasattr(_plain, _name) and not _name.startswith("__") and _name not in ("seed", "bit_generator"):
            setattr(_source, _name, _or_constant(_name, _method))
