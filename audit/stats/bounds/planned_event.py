"""One event, chosen on some outputs of a mechanism and tested on others.

It is "among the highest (or lowest) scores, which hold so much of one side", cut off at a rank fixed before: a single
precedence test of `audit.stats.bounds.rank_exact` at the full level. Equal scores are ordered at random, so a rank may cut an
atom.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from audit.stats.arrays import Array, Counts
from audit.stats.bounds import rank_exact, roots
from audit.stats.bounds.rank_exact import Precedence
from audit.stats.bounds.ranks import Memberships, geometric_grid, members_above
from audit.stats.curves import tradeoff

RATIO, RANK_RATIO = 1.1, 3.0  # between the ranks that are tried for an event, and those of a test of equality
CAUTION = 2.5  # standard errors by which both rates are moved to the safe side before events are compared
LEAST_DELTA = 1e-12  # deltas below are not distinguished from 0

Goal = Callable[[Array, Array], Array]  # what an event is chosen for: the bound that a TPR and an FPR would give


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEvent:
    """An event among ordered outputs.

    Attributes:
        share: of the outputs on `neighbour` (from the top) or on `data` (from the bottom) that the event holds.
        promise: the goal's estimate of the epsilon that it will prove.
    """

    share: float
    from_top: bool
    promise: float

    def test(self, ranking: Memberships) -> Precedence:
        """The precedence test of this event on a ranking of other outputs."""
        view = ranking if self.from_top else ~ranking[::-1]
        members, nonmembers = int(view.sum()), int((~view).sum())
        rank = min(max(round(self.share * nonmembers), 1), nonmembers)
        count = int(members_above(view)[rank - 1])
        return Precedence(count=count, sample=members, rank=rank, reference=nonmembers, from_top=self.from_top)


def order(first: Array, second: Array, generator: np.random.Generator) -> Memberships:
    """Return `(n,)` bool, from the highest score to the lowest: whether it is of `first`; equal scores in random order.

    >>> order(np.array([3.0, 1.0]), np.array([2.0]), np.random.default_rng(0)).tolist()
    [True, False, True]
    """
    values = np.concatenate([first, second])
    included = np.arange(len(values)) < len(first)
    return np.asarray(included[np.lexsort((generator.random(len(values)), -values))])


def plan(ranking: Memberships, goal: Goal) -> PlannedEvent:
    """The event that promises most, over a grid of ranks from both ends; to be tested on other outputs."""
    events = []
    for from_top in (True, False):
        view = ranking if from_top else ~ranking[::-1]
        members, nonmembers = int(view.sum()), int((~view).sum())
        grid: Counts = geometric_grid(nonmembers, nonmembers, RATIO)
        tpr, fpr = members_above(view)[grid - 1] / members, grid / nonmembers
        promises = goal(_cautious(tpr, members, -1), _cautious(fpr, nonmembers, 1))
        at = int(np.argmax(promises))
        events.append(PlannedEvent(share=float(fpr[at]), from_top=from_top, promise=float(promises[at])))
    return max(events, key=lambda event: event.promise)


def _cautious(rate: Array, count: int, sign: int) -> Array:
    """Rates moved by some standard errors, so that no event is chosen for its luck among hundreds."""
    error = np.sqrt(rate * (1 - rate) / count) + CAUTION / (2 * count)
    return np.clip(rate + sign * CAUTION * error, 0.0, 1.0)


def epsilon_goal(delta: float, tpr: Array, fpr: Array) -> Array:
    """The epsilon at `delta` of an event with these rates; minus infinity if it shows none."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(tpr - delta, 0)) - np.log(fpr))


def delta_goal(epsilon: float, tpr: Array, fpr: Array) -> Array:
    """The delta at `epsilon` of an event with these rates."""
    return np.asarray(tpr - math.exp(min(epsilon, 700.0)) * fpr)


def gdp_goal(tpr: Array, fpr: Array) -> Array:
    """The mu of Gaussian DP of an event with these rates; minus infinity if it shows none."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.nan_to_num(special.ndtri(tpr) - special.ndtri(fpr), nan=-math.inf))


def epsilon_bound(test: Precedence, delta: float, significance: float) -> float:
    """The largest epsilon that the test refutes at `delta`; 0 if it refutes none.

    Guarantee: exceeds the true epsilon at `delta` with probability at most `significance`, for outputs that are independent
        and identically distributed on each side and an event that was fixed without them (docs/theory/anytime.md, "One event").
    """
    family = functools.partial(tradeoff.epsilon_delta, delta=delta)
    return rank_exact.bound((test,), family, significance=significance)[0]


def delta_bound(test: Precedence, epsilon: float, significance: float) -> float:
    """The largest delta that the test refutes at `epsilon`; 0 if it refutes none. Guarantee: as `epsilon_bound`."""

    def is_refuted(log_delta: float) -> bool:
        curve = tradeoff.epsilon_delta(epsilon, min(math.exp(log_delta), 1.0))
        return rank_exact.refutes((test,), curve, significance=significance)

    lowest = math.log(LEAST_DELTA)
    if not is_refuted(lowest):
        return 0.0
    return math.exp(roots.last_rejected(is_refuted, start=lowest, stride=4.0, largest=0.0, resolution=1e-5))


def mu_bound(test: Precedence, significance: float) -> float:
    """The largest mu of Gaussian DP that the test refutes. Guarantee: as `epsilon_bound`, inside the family "gdp"."""
    return rank_exact.bound((test,), tradeoff.gdp, significance=significance)[0]


def differs(ranking: Memberships, significance: float) -> bool:
    """True if two halves of a sequence of scores are not from one law; wrongly with probability at most `significance`."""
    equality = tradeoff.epsilon_delta(0.0, 0.0)
    return any(
        rank_exact.refutes(rank_exact.precedence_tests(view, RANK_RATIO), equality, significance=significance / 2)
        for view in (ranking, ~ranking)
    )
