"""How little noise the separation betrays: a bound on the effective noise multiplier of DP-SGD."""

import functools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.bounds.estimators import _shared
from audit.bounds.estimators._shared import TRIALS
from audit.core import checks
from audit.core.game import Assumption
from audit.core.lower_bounds import LowerBound
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.event_curves import MOST_SIGNAL, EventCurves, signal_noise
from audit.stats.arrays import Counts
from audit.stats.bounds import least_favourable, rank_exact, rank_search, rank_sums, roots, shifts
from audit.stats.bounds.ranks import Memberships
from audit.stats.curves import tradeoff

NO_NOISE_FITS = "; refuted is DP-SGD of this sampling with any noise and with none: the scores fit no member of the family"
STATISTICS = ("likelihood", "auc", "rank")


@dataclass(frozen=True, slots=True, kw_only=True)
class FdpRank:
    """Refutes the trade-off curve of DP-SGD (sample rate and steps as claimed) for every noise multiplier above the one found.

    Attributes:
        statistic: "likelihood" (the members' sum of the likelihood ratios that the claimed curve gives to their ranks) or
            "auc", both with an exact null by simulating the least favourable pair; or "rank" (precedence tests at ranks
            fixed in advance), which also is used if so many scores make simulations too dear.

    Guarantee: `parameter` is below the true effective noise multiplier with probability at most `1 - confidence`, for trials
        independent and identically distributed given membership and a mechanism with the trade-off curve of DP-SGD
        with the claimed sample rate and steps and some noise. `epsilon` is that noise's at `delta`, from below; it holds
        inside the family "dp_sgd" only. It is infinite if the sampling as claimed is refuted with any noise and with none.
    References: Dong, Roth and Su 2019, arXiv 1905.02383; Nasr et al. 2023, arXiv 2302.07956.
    """

    assumes: ClassVar[frozenset[Assumption]] = TRIALS

    statistic: str = "likelihood"
    ratio: float = 3.0

    def __post_init__(self) -> None:
        checks.choice(self.statistic, "statistic", STATISTICS)
        _shared.demand_ratio(self.ratio)

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The epsilon at `delta` of the largest noise multiplier not refuted.

        Raises:
            DataError: one side is empty.
            UnsupportedMechanism: the scores carry no DP-SGD mechanism to take sample rate and steps from.
            ConfigError: delta is 0, at which every epsilon of DP-SGD is infinite.
        """
        ranking, mechanism = _ranking(scores, delta, confidence), _mechanism(scores)
        signal, description, tests = _search(self, ranking, mechanism, 1 - confidence)
        members = int(ranking.sum())
        top = _ceiling(self, (members, len(ranking) - members), mechanism, confidence)
        if ranking[:members].all():
            signal = max(signal, top)  # no draws are needed for the largest sum of scores, which has one order alone
        without_noise = mechanism.without_noise
        no_noise_fits = (
            signal >= MOST_SIGNAL
            and without_noise is not None
            and self.refutes_curve(scores, without_noise, delta=delta, confidence=confidence)
        )
        epsilon = math.inf if no_noise_fits else _epsilon(signal, mechanism, delta)
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="fdp_rank",
            comparisons=tests,
            ceiling=max(epsilon, _epsilon(top, mechanism, delta)),
            assumes=tuple(self.assumes),
            family=mechanism.family,
            parameter=None if no_noise_fits else mechanism.parameter(signal),
            selected=f"{description}{NO_NOISE_FITS * no_noise_fits}" if signal > 0 else "",
        )

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """True if the statistic refutes the noise that has this epsilon at `delta`, at the claimed sample rate and steps."""
        ranking, mechanism, significance = _ranking(scores, delta, confidence), _mechanism(scores), 1 - confidence
        signal = mechanism.signal_of(epsilon, delta)
        if math.isinf(signal):
            return False
        exact = self._refutes_exactly(ranking, _curve(mechanism)(signal), significance)
        if exact is not None:
            return exact
        sides = int(ranking.sum()), int((~ranking).sum())
        scores_of_ranks = self._rank_scores(sides, mechanism)
        if self._keeps_null(ranking, scores_of_ranks, significance):
            return False
        test = _point_test(self, sides, (mechanism, signal), significance)
        return test.refutes(least_favourable.rank_score_sum(ranking, scores_of_ranks))

    def refutes_curve(self, scores: Scores, curve: tradeoff.TradeoffCurve, *, delta: float, confidence: float) -> bool:
        """Return whether the statistic, chosen for the claimed mechanism, refutes this curve."""
        ranking, mechanism, significance = _ranking(scores, delta, confidence), _mechanism(scores), 1 - confidence
        exact = self._refutes_exactly(ranking, curve, significance)
        if exact is not None:
            return exact
        members = int(ranking.sum())
        scores_of_ranks = self._rank_scores((members, len(ranking) - members), mechanism)
        shift = shifts.CurveShift(lambda _: curve)
        test = least_favourable.PointTest(shift, 0.0, scores_of_ranks, members=members, significance=significance)
        return test.refutes(least_favourable.rank_score_sum(ranking, scores_of_ranks))

    def _refutes_exactly(self, ranking: Memberships, curve: tradeoff.TradeoffCurve, significance: float) -> bool | None:
        """Return what tests without draws say; None if it is for the draws to say."""
        sides = int(ranking.sum()), int((~ranking).sum())
        if not self._simulations(sides, significance):
            tests = rank_exact.precedence_tests(ranking, self.ratio)
            return rank_exact.refutes(tests, curve, significance=significance)
        if ranking[: sides[0]].all() and rank_exact.refutes((rank_exact.separation(*sides),), curve, significance=significance):
            return True
        return None

    def _simulations(self, sides: tuple[int, int], significance: float) -> bool:
        return self.statistic != "rank" and least_favourable.simulations_for(*sides, significance) > 0

    def _keeps_null(self, ranking: Memberships, scores: Counts, significance: float) -> bool:
        """True if not even the claim that nothing leaks is refuted; of the AUC its exact law says so, which no draws decide."""
        if least_favourable.plainly_null(ranking, scores, significance):
            return True
        members, wins = int(ranking.sum()), least_favourable.wins(ranking)
        return self.statistic == "auc" and rank_sums.tail(members, len(ranking) - members, wins) > significance

    def _rank_scores(self, sides: tuple[int, int], mechanism: EventCurves) -> Counts:
        if self.statistic == "auc":
            return least_favourable.auc_scores(sum(sides))
        return _likelihood_scores(mechanism, *sides)


def _ranking(scores: Scores, delta: float, confidence: float) -> Memberships:
    return _shared.rank(scores, "fdp_rank", delta, confidence, inside=True)


def _mechanism(scores: Scores) -> EventCurves:
    return _shared.demand_curves(scores, "fdp_rank", "rank_exact or gaussian")


def _curve(mechanism: EventCurves) -> tradeoff.Family:
    """Curves by signal, the inverse of the noise multiplier."""
    return lambda signal: mechanism.at(signal_noise(signal))


def _epsilon(signal: float, mechanism: EventCurves, delta: float) -> float:
    return mechanism.epsilon(signal_noise(signal), delta)


def _search(estimator: FdpRank, ranking: Memberships, mechanism: EventCurves, significance: float) -> tuple[float, str, int]:
    """The largest signal refuted, by which statistic, and the number of tests."""
    return _find_bound(estimator, ranking.tobytes(), mechanism, significance)


@functools.lru_cache(maxsize=64)
def _find_bound(estimator: FdpRank, memberships: bytes, mechanism: EventCurves, significance: float) -> tuple[float, str, int]:
    """`_search`, kept because a report asks again: the bounds over the steps end with that of its tables."""
    ranking = np.frombuffer(memberships, dtype=bool)
    sides, family = (int(ranking.sum()), int((~ranking).sum())), _curve(mechanism)
    if not estimator._simulations(sides, significance):
        tests = rank_exact.precedence_tests(ranking, estimator.ratio)
        signal, test = rank_exact.bound(tests, family, significance=significance, largest=MOST_SIGNAL, resolution=1e-4)
        return signal, test.describe() if test is not None else "", len(tests)
    scores = estimator._rank_scores(sides, mechanism)
    words = "AUC over all pairs" if estimator.statistic == "auc" else "likelihood ratios of the claimed curve"
    if estimator._keeps_null(ranking, scores, significance):
        return 0.0, "", 1
    signal = rank_search.rank_bound(
        ranking,
        shifts.CurveShift(family),
        scores,
        significance=significance,
        guess=_guess(ranking, family, significance),
        largest=MOST_SIGNAL,
    )
    return signal, words, 1


@functools.lru_cache(maxsize=64)
def _likelihood_scores(mechanism: EventCurves, members: int, nonmembers: int) -> Counts:
    """Scores that best separate the claimed mechanism from one that leaks nothing; the claim is known before the scores are."""
    family = _curve(mechanism)
    largest = family(1 / max(mechanism.noise_multiplier, 1 / MOST_SIGNAL))
    return least_favourable.likelihood_scores(largest, family(0.0), members, nonmembers)


@functools.lru_cache(maxsize=128)
def _point_test(
    estimator: FdpRank, sides: tuple[int, int], at: tuple[EventCurves, float], significance: float
) -> least_favourable.PointTest:
    """The test of a mechanism with a signal; kept for simulated audits, which share its draws."""
    mechanism, signal = at
    return least_favourable.PointTest(
        shifts.CurveShift(_curve(mechanism)),
        signal,
        estimator._rank_scores(sides, mechanism),
        members=sides[0],
        significance=significance,
    )


def _guess(ranking: Memberships, family: tradeoff.Family, significance: float) -> float:
    """A signal that the AUC probably refutes, by the normal approximation."""
    target = least_favourable.auc_floor_guess(ranking, significance)
    rejects = roots.foresee(lambda signal: tradeoff.auc(family(signal)) - target, resolution=1e-2)
    return roots.last_rejected(rejects, largest=MOST_SIGNAL, resolution=1e-2, stride=0.5)


@functools.lru_cache(maxsize=256)
def _ceiling(estimator: FdpRank, sides: tuple[int, int], mechanism: EventCurves, confidence: float) -> float:
    """The signal refuted by perfect separation."""
    members, nonmembers = sides
    perfect = np.arange(members + nonmembers) < members
    if not estimator._simulations(sides, 1 - confidence):
        return _search(estimator, perfect, mechanism, 1 - confidence)[0]
    top = rank_exact.separation(members, nonmembers)  # no other configuration reaches the largest sum of scores
    return rank_exact.bound((top,), _curve(mechanism), significance=1 - confidence, largest=MOST_SIGNAL, resolution=1e-4)[0]


PLUGIN = FdpRank
