"""The beta-binomial precedence test: how many members outrank the k-th highest nonmember, k fixed in advance.

The theorem and its proof are in docs/theory/independent-trials.md, section "RankExact".
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from audit.stats.arrays import Array, Counts
from audit.stats.bounds import roots
from audit.stats.bounds.ranks import Memberships, geometric_grid, members_above, nonmembers_below
from audit.stats.curves.tradeoff import Family, TradeoffCurve

NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
NEGLIGIBLE = 1e-7  # share of a test's level that the quadrature may leave out; added to the p-value
LEVELS = np.array([1e-6, 1e-3, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 0.999, 1 - 1e-6])


@dataclass(frozen=True, slots=True, kw_only=True)
class Precedence:
    """One test: `count` of `sample` scores of one side are beyond the `rank`-th extreme of the other side's `reference`.

    Attributes:
        from_top: members above a high nonmember; else nonmembers below a low member.
    """

    count: int
    sample: int
    rank: int
    reference: int
    from_top: bool

    def describe(self) -> str:
        """The test in words."""
        if self.from_top:
            return f"{self.count} of {self.sample} members above nonmember {self.rank} from the top"
        return f"{self.count} of {self.sample} nonmembers below member {self.rank} from the bottom"


def precedence_tests(ranking: Memberships, ratio: float) -> tuple[Precedence, ...]:
    """The family of tests: ranks 1, ratio, ratio^2, ... up to half of each side, from both ends; the sizes alone fix it."""
    members, nonmembers = int(ranking.sum()), int((~ranking).sum())
    high, low = (geometric_grid(size, size // 2, ratio) for size in (nonmembers, members))
    above, below = members_above(ranking)[high - 1], nonmembers_below(ranking)[low - 1]
    return (
        *_family(above, members, high, nonmembers, from_top=True),
        *_family(below, nonmembers, low, members, from_top=False),
    )


def separation(members: int, nonmembers: int) -> Precedence:
    """The test that only perfect separation passes: all members above the highest nonmember."""
    return Precedence(count=members, sample=members, rank=1, reference=nonmembers, from_top=True)


def _family(counts: Counts, sample: int, grid: Counts, reference: int, *, from_top: bool) -> list[Precedence]:
    return [
        Precedence(count=count, sample=sample, rank=rank, reference=reference, from_top=from_top)
        for count, rank in zip(counts.tolist(), grid.tolist(), strict=True)
    ]


def p_value(test: Precedence, curve: TradeoffCurve, resolution: float = 1e-12) -> float:
    """The chance of at least `test.count` under the least favourable pair of `curve`.

    `integral of P[Binomial(sample, g(u)) >= count] dBeta(u; rank, reference - rank + 1)` by Gauss-Legendre on panels that
    follow both factors and the bends of the curve; `resolution` of mass is left out and added.

    Guarantee: a valid p-value of "the mechanism satisfies this curve" for independent, identically distributed scores on
        each side, the rank being fixed in advance. Non-decreasing as the curve grows.

    >>> from audit.stats.curves.tradeoff import epsilon_delta
    >>> test = Precedence(count=15, sample=100, rank=5, reference=100, from_top=True)
    >>> round(p_value(test, epsilon_delta(0.0, 0.0)), 9)
    0.006994732
    """
    if test.count <= 0:
        return 1.0
    view = curve if test.from_top else curve.mirror()
    nodes, weights = _panels(test, view, resolution)
    first, second = float(test.rank), float(test.reference - test.rank + 1)
    log_density = special.xlogy(first - 1, nodes) + special.xlog1py(second - 1, -nodes) - special.betaln(first, second)
    chance = special.betainc(test.count, test.sample - test.count + 1, np.clip(view.tpr(nodes), 0.0, 1.0))
    return float(min(1.0, np.sum(weights * np.exp(log_density) * chance) + resolution))


def _panels(test: Precedence, view: TradeoffCurve, resolution: float) -> tuple[Array, Array]:
    """Return nodes and weights on the bulk of the threshold's law, cut where either factor turns."""
    law = _threshold_quantiles(test.rank, test.reference, resolution)
    turns = 1 - view.tnr(1 - _turning_rates(test.count, test.sample))  # where the curve reaches those rates
    edges = np.clip(np.concatenate([law, turns, view.knots]), law[0], law[-1])
    edges = np.unique(edges)
    half, middle = np.diff(edges) / 2, (edges[1:] + edges[:-1]) / 2
    nodes = (middle[:, None] + half[:, None] * NODES).ravel()
    return np.clip(nodes, 0.0, 1.0), (half[:, None] * WEIGHTS).ravel()


def _promise(test: Precedence) -> float:
    """About a lower limit on the ratio of rates: which test to look at first."""
    hits = test.count - 1.6 * math.sqrt(test.count)
    return hits / test.sample * test.reference / (test.rank + 2.0 * math.sqrt(test.rank))


@functools.lru_cache(maxsize=4096)
def _threshold_quantiles(rank: int, reference: int, resolution: float) -> Array:
    """Quantiles of the false positive rate at the threshold, the outermost leaving out `resolution` of its mass."""
    first, second = float(rank), float(reference - rank + 1)
    levels = np.concatenate([[resolution / 2], LEVELS])
    return np.append(special.betaincinv(first, second, levels), special.betainccinv(first, second, resolution / 2))


@functools.lru_cache(maxsize=4096)
def _turning_rates(count: int, sample: int) -> Array:
    """True positive rates between which so many hits go from unlikely to likely."""
    return np.asarray(special.betaincinv(count, sample - count + 1, LEVELS))


def refutes(tests: tuple[Precedence, ...], curve: TradeoffCurve, *, significance: float) -> bool:
    """True if one of `tests` refutes `curve` at `significance / len(tests)`: `bound` at a single parameter.

    Guarantee: refutes a curve that the mechanism satisfies with probability at most `significance`.
    """
    level = significance / max(len(tests), 1)
    return any(p_value(test, curve, level * NEGLIGIBLE) <= level for test in sorted(tests, key=_promise, reverse=True))


def bound(
    tests: tuple[Precedence, ...],
    family: Family,
    *,
    significance: float,
    start: float = 0.0,
    resolution: float = 1e-6,
    largest: float = 1e4,
) -> tuple[float, Precedence | None]:
    """The largest parameter above `start` that one of `tests` refutes at `significance / len(tests)`, and that test; else
    that, None.

    Guarantee: exceeds the true parameter with probability at most `significance` (Bonferroni over a family fixed in
        advance; each p-value is monotone in the parameter).
    """
    level = significance / max(len(tests), 1)
    best, best_test = start, None
    for test in sorted(tests, key=_promise, reverse=True):  # the largest first: the others then take one look each

        def chance(parameter: float, test: Precedence = test) -> float:
            return p_value(test, family(parameter), level * NEGLIGIBLE)

        parameter = roots.last_significant(chance, level, start=best, resolution=resolution, largest=largest)
        if parameter > best:
            best, best_test = parameter, test
    return best, best_test
