"""The law of a step's noise where a replay follows it: two calls show of each number which draw is in it, and how often.

Then nothing need be sampled: normal draws of deviation sigma C, one for each number, are what the accounting is about.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from audit.replays.recording import NUMBER, Recording, Schedule
from audit.step_checks.batches import Batch
from audit.step_checks.steps import Setting
from audit.step_checks.tensors import Tensors

_SEEDS = (982_451_653, 982_459_572)  # none that a step would give a generator itself
_ROUNDING = 1e-5  # relative, of a deviation in single precision


def has_claimed_noise(step: Any, calls: Iterable[tuple[Batch, Setting]]) -> bool:
    """True if in each call every number is released with a normal draw of its own, of deviation sigma C; False if not known."""
    from audit.replays.torch_noise import follow

    for batch, setting in calls:
        sides: list[tuple[Recording, Tensors]] = []
        for seed in _SEEDS:
            recording = Recording(seed=seed, schedule=Schedule.LATE)
            recording.public_seeds = frozenset()
            with follow(recording) as noise:
                outcome = step.outcome(batch, setting, seed)
                recording.at_return = True  # an empty batch returns noise alone
                release = step.read(outcome, setting)
            # an optimiser squares what it was given; without a record that is noise alone, and what was given is read here
            allowed = [] if len(batch[0]) else recording.read_early
            if len(recording.gaps) > len(allowed) or noise.has_few_seeds or set(recording.laws) != {"normal"}:
                return False
            sides.append((recording, release))
        if set(sides[0][0].seeds) & set(sides[1][0].seeds) or not _is_white(sides, setting):
            return False  # numbers of a seed that every run has are constants
    return True


def _is_white(sides: list[tuple[Recording, Tensors]], setting: Setting) -> bool:
    """True if both calls read each tensor as numbers with one draw each, no two the same, and of the claimed deviation."""
    draws: list[int] = []
    deviation = setting.noise_multiplier * setting.clip_norm
    for place, name in enumerate(reversed(sides[0][1]), 1):
        if any(len(recording.releases) < place for recording, _ in sides):
            return False
        entries = [recording.releases[-place] for recording, _ in sides]
        first, second = (np.ravel(release[name]) for _, release in sides)
        index, weight = entries[0].rows.index, entries[0].rows.weight
        if any(entry.kind != NUMBER or entry.rows.weight.shape != (first.size, 1) for entry in entries):
            return False
        if not np.array_equal(weight, entries[1].rows.weight) or not np.array_equal(index, entries[1].rows.index):
            return False
        read = np.ravel(entries[0].output) - np.ravel(entries[1].output)
        differs = read != 0
        # what is released is a multiple of what is read, and a constant
        scale = np.abs((first - second)[differs] / read[differs] * weight[differs, 0])
        if differs.mean() < 0.9 or np.abs(scale / deviation - 1).max(initial=0.0) > _ROUNDING:
            return False
        draws += index.ravel().tolist()
    return bool(draws) and len(set(draws)) == len(draws)
