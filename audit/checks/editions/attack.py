"""Memberships from constraints: with certainty by cuts, pairs and propagation; by rank from least squares; by seeds."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from audit.checks.editions.constraints import Constraints, rank
from audit.checks.membership import draw_coins
from audit.core.data import Array
from audit.core.seeds import Seed

MOST_DIFFERENT = 400  # records in which two thresholds differ, for their difference to be its own constraint
ROUNDS = 50  # of propagation
SLACK = 1e-6
SWEEPS = 60  # of projections
DATES = range(20_000_101, 20_351_232)
SMALL = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recovery:
    """What an attacker learned of the coins of one game.

    Attributes:
        certain: `(n,)` 1 or 0 of each record with a membership that follows, -1 of each other.
        ranking: `(n,)`, larger for records that are more likely members.
        contradicts: no memberships meet all constraints, so that nothing certain follows from them.
    """

    certain: Array
    ranking: Array
    contradicts: bool = False


def recover(equations: Constraints, prior: Array) -> Recovery:
    """Return what follows from the constraints of some reports and from the chances `(n,)` of membership by the model alone."""
    rows = _with_differences(equations)
    certain, contradicts = propagate(rows)
    return Recovery(certain=certain, ranking=_least_squares(equations, prior, certain), contradicts=contradicts)


def _with_differences(equations: Constraints) -> Constraints:
    is_cut = np.isin(equations.weights, (0.0, 1.0)).all(axis=1)
    weights, low, high = equations.weights[is_cut], equations.low[is_cut], equations.high[is_cut]
    sizes = weights.sum(axis=1)
    apart = sizes[:, None] + sizes[None] - 2 * weights @ weights.T
    first, second = np.nonzero(np.triu((apart > 0) & (apart <= MOST_DIFFERENT)))
    order = np.argsort(apart[first, second], kind="stable")[:6_000]
    first, second = first[order], second[order]
    return equations.join(
        Constraints(weights=weights[first] - weights[second], low=low[first] - high[second], high=high[first] - low[second])
    )


def propagate(equations: Constraints) -> tuple[Array, bool]:
    """Return the coins `(n,)` that all solutions in whole numbers share (-1: not equations to), and whether there is none.

    Sound: a coin is fixed only if its other value alone breaks a constraint, whatever the open to_true are.
    """
    certain = np.full(equations.weights.shape[1], -1, dtype=np.int8)
    for _ in range(ROUNDS):
        is_open = certain < 0
        fixed_sums = equations.weights[:, ~is_open] @ certain[~is_open]
        free = np.where(is_open, equations.weights, 0.0)
        smallest_sum = fixed_sums + np.minimum(free, 0).sum(axis=1)
        largest_sum = fixed_sums + np.maximum(free, 0).sum(axis=1)
        if (smallest_sum > equations.high + SLACK).any() or (largest_sum < equations.low - SLACK).any():
            return np.full_like(certain, -1), True
        size = np.abs(free)
        to_high = (size > (equations.high - smallest_sum)[:, None] + SLACK) & is_open  # may not take its larger contribution
        to_low = (size > (largest_sum - equations.low)[:, None] + SLACK) & is_open  # may not take its smaller one
        to_true = ((to_low & (free > 0)) | (to_high & (free < 0))).any(axis=0)
        zeros = ((to_high & (free > 0)) | (to_low & (free < 0))).any(axis=0)
        if not (to_true | zeros).any():
            break
        if (to_true & zeros).any():
            return np.full_like(certain, -1), True
        certain[to_true], certain[zeros] = 1, 0
    return certain, False


def _least_squares(equations: Constraints, prior: Array, certain: Array) -> Array:
    """Return the chances nearest to the prior that meet the constraints (Dykstra's projections), ties as the prior has them."""
    scale = np.linalg.norm(equations.weights, axis=1, keepdims=True)
    weights, scale = equations.weights[scale[:, 0] > 0] / scale[scale > 0][:, None], scale[scale > 0]
    low, high = (ends[np.linalg.norm(equations.weights, axis=1) > 0] / scale for ends in (equations.low, equations.high))
    chances, shifts, beyond = prior.astype(np.float64), np.zeros(len(weights)), np.zeros(len(prior))
    for _ in range(SWEEPS):
        sums = weights @ chances
        for row in np.flatnonzero((shifts != 0) | (sums > high) | (sums < low)):
            total = weights[row] @ chances + shifts[row]
            step = min(max(total, low[row]), high[row]) - total
            chances, shifts[row] = chances + (shifts[row] + step) * weights[row], -step
        inside = np.clip(chances + beyond, 0, 1)
        chances, beyond = inside, chances + beyond - inside
    return np.where(certain >= 0, certain + (certain - 0.5) * 2, chances + SLACK * prior)


def chances(values: Array, members: int, stated_area: float = 1.0) -> Array:
    """Return chances of membership `(n,)` that rise with the rank of a score and add up to the number of members.

    They are as far apart as the stated area of the scores says, and no farther than ranks allow. Chances that claim more
    than scores say would be torn by the constraints, and ranked worse.
    """
    ranks, share = (rank(values) - 0.5) / len(values), members / len(values)
    farthest = ranks * 2 * share if share <= 0.5 else 1 - (1 - ranks) * 2 * (1 - share)
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if _mean_area(share + middle * (farthest - share)) < stated_area else (low, middle)
    return np.asarray(share + high * (farthest - share))


def _mean_area(chances_of_records: Array) -> float:
    """Return the area of a ranking by chances if these are true."""
    rising = np.sort(chances_of_records)
    below = np.cumsum(1 - rising) - (1 - rising) / 2
    return float(rising @ below / max(rising.sum() * (1 - rising).sum(), 1e-12))


def guessed_seed(included: Array) -> int | None:
    """Return the seed that can be guessed (a small number, a date) and draws these very memberships; None if there is none."""
    count = len(included)
    for seed in _guesses():
        if np.array_equal(draw_coins(count, seed), included):
            return seed
        if np.array_equal(Seed(seed).child("coins").numpy().random(count) < 0.5, included):
            return seed
    return None


def _guesses() -> Iterator[int]:
    yield from range(SMALL)
    yield from (date for date in DATES if 1 <= date // 100 % 100 <= 12 and 1 <= date % 100 <= 31)


def area(ranking: Array, included: Array) -> float:
    """Return the area under the ROC curve of a ranking; ties count half."""
    order = np.sort(ranking[~included])
    below = np.searchsorted(order, ranking[included], side="left") + np.searchsorted(order, ranking[included], side="right")
    return float(below.mean() / 2 / max(len(order), 1))
