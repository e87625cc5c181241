"""The audit of a mechanism: search for a pair and events, then count them on fresh outputs."""

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core import checks
from audit.core.claims import Claim, DeltaBound, Outcome, Verdict
from audit.core.errors import ConfigError
from audit.core.game import Assumption, Game
from audit.core.lower_bounds import LowerBound
from audit.core.rounding import below
from audit.core.seeds import Seed
from audit.mechanism_checks import search
from audit.mechanism_checks.report import MechanismReport
from audit.mechanism_checks.sampling import Outputs, Pair, Sampler
from audit.mechanism_checks.scores import MOST_COLUMNS, finite, granularity_scores
from audit.mechanism_checks.search import ChosenEvent
from audit.stats.bounds import planned_event, rank_exact
from audit.stats.bounds.rank_exact import Precedence
from audit.stats.curves import tradeoff

ESTIMATOR = "rank_exact"
FAMILIES = ("gdp",)
LEAST_SAMPLES = 100
SEARCH = 3  # one sample in so many is searched, the others are counted
SCOUT = 1_000  # outputs on either side of each pair, at first
CONTROL = 1e-3  # level of the test that outputs do not drift, at most
CONTROL_SHARE = 0.02  # of the error rate that it takes, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What is certified of a claim, and the share of the error rate that each answer takes.

    Attributes:
        claim: that is compared with the answers.
        confidence: with which all answers hold together.
        floating_point: whether the lowest bits of outputs are looked at.
    """

    claim: Claim
    confidence: float
    floating_point: bool

    def __post_init__(self) -> None:
        checks.nonnegative(self.claim.epsilon, "epsilon")
        checks.finite(self.claim.epsilon, "epsilon")
        checks.probability(self.claim.delta, "delta")
        checks.confidence(self.confidence)
        if self.claim.family is not None and self.claim.family not in FAMILIES:
            raise ConfigError(f"family is '{self.claim.family}'; expected {' or '.join(FAMILIES)}, or none")
        if self.claim.family == "gdp" and not 0 < self.claim.delta < 1:
            raise ConfigError("a claim of the family 'gdp' needs a delta between 0 and 1: at delta 0 its epsilon is infinite")

    @property
    def drift_level(self) -> float:
        """The error rate of the test that calls are independent."""
        return min(CONTROL, CONTROL_SHARE * (1 - self.confidence))

    @property
    def significance(self) -> float:
        """The error rate of each answer."""
        count = 2 + (self.claim.family is not None) + self.floating_point
        return (1 - self.confidence - self.drift_level) / count

    @property
    def goals(self) -> list[planned_event.Goal]:
        """The goals that events are chosen for: epsilon, delta and, if it is declared, the family."""
        goals: list[planned_event.Goal] = [
            functools.partial(planned_event.epsilon_goal, self.claim.delta),
            functools.partial(planned_event.delta_goal, self.claim.epsilon),
        ]
        return [*goals, planned_event.gdp_goal] if self.claim.family else goals


def check_mechanism(
    function: Callable[..., Any], pairs: Sequence[Pair], questions: Questions, *, samples: int, seed: int = 0
) -> MechanismReport:
    """Return bounds on epsilon and delta of a mechanism, and what they say of the claim.

    Guarantee: with probability at least `questions.confidence` all bounds hold and no drift is reported, if calls are
        independent and outputs on the same data follow one law (docs/use/mechanisms.md).

    Raises:
        ConfigError: too few samples, a claim that is no claim.
        DataError: outputs that cannot be read.
    """
    checks.count(samples, "samples", minimum=LEAST_SAMPLES)
    sampler, generator = Sampler(function=function), Seed(seed).child("mechanism").numpy()
    watch = _Watch()
    refusals = tuple(pair.name for pair in pairs if not sampler.accepts(pair, generator))
    pairs = [pair for pair in pairs if pair.name not in refusals]
    ranking = search.scout(sampler, pairs, min(SCOUT, samples // SEARCH), questions.goals[0], generator)
    watch.stop("scout")
    pair = ranking[0][0]
    outputs = sampler.draw(pair, samples // SEARCH, generator)
    events = search.choose(*outputs, questions.goals, generator)
    bits = None
    if questions.floating_point:
        bits = search.choose(*outputs, [questions.goals[1]], generator, _bits)[0]
    watch.stop("search")
    fresh = sampler.draw(pair, samples - samples // SEARCH, generator)
    tests = [event.test(*fresh, generator) for event in events]
    bounds = _Bounds(questions=questions, sides=(len(fresh[0]), len(fresh[1])))
    epsilon, delta = bounds.epsilon(events[0], tests[0]), bounds.delta(tests[1])
    fit = bounds.fit(events[2], tests[2]) if questions.claim.family else None
    floating_point = bounds.delta(bits.test(*fresh, generator)) if bits else None
    deltas = [("", delta), *([("by the lowest bits of outputs ", floating_point)] if floating_point else [])]
    drifts = any(_drifts(events[0], side, questions.drift_level / 2, generator) for side in fresh)
    watch.stop("count")
    return MechanismReport(
        name=function_name(function),
        verdict=_drift_verdict(questions.claim) if drifts else _verdict(questions.claim, epsilon, fit, deltas),
        epsilon=epsilon,
        delta=delta,
        fit=fit,
        floating_point=floating_point,
        pair=pair,
        refusals=refusals,
        scouts=tuple((pair.name, promise) for pair, promise in ranking),
        samples=samples,
        confidence=questions.confidence,
        seconds=watch.seconds,
    )


def function_name(function: Callable[..., Any]) -> str:
    """Return `module:name` of a function, or what an object with a method `__call__` prints as."""
    qualname = getattr(function, "__qualname__", None)
    return f"{function.__module__}:{qualname}" if qualname else str(function)


class _Watch:
    """Wall time by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = time.perf_counter()

    def stop(self, stage: str) -> None:
        moment = time.perf_counter()
        self.seconds[stage], self._start = moment - self._start, moment


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    """Tests turned into bounds, with what perfect events would have proved of `sides` outputs."""

    questions: Questions
    sides: tuple[int, int]

    def epsilon(self, choice: ChosenEvent, test: Precedence) -> LowerBound:
        claim, level = self.questions.claim, self.questions.significance
        bound = planned_event.epsilon_bound(test, claim.delta, level)
        ceiling = planned_event.epsilon_bound(rank_exact.separation(*self.sides), claim.delta, level)
        return self._lower_bound(choice, test, bound, ceiling)

    def delta(self, test: Precedence) -> DeltaBound:
        epsilon, level = self.questions.claim.epsilon, self.questions.significance
        bound = planned_event.delta_bound(test, epsilon, level)
        ceiling = planned_event.delta_bound(rank_exact.separation(*self.sides), epsilon, level)
        return DeltaBound(
            delta=bound,
            epsilon=epsilon,
            confidence=1 - level,
            estimator=ESTIMATOR,
            ceiling=max(bound, ceiling),
            assumes=(Assumption.INDEPENDENT_TRIALS,),
            game=Game.of_scores("independent_trials", sum(self.sides), self.questions.claim.adjacency),
        )

    def fit(self, choice: ChosenEvent, test: Precedence) -> LowerBound:
        claim, level = self.questions.claim, self.questions.significance
        mu, mu_ceiling = (planned_event.mu_bound(event, level) for event in (test, rank_exact.separation(*self.sides)))
        bound, ceiling = (tradeoff.gdp_epsilon(value, claim.delta) for value in (mu, mu_ceiling))
        return self._lower_bound(choice, test, bound, ceiling, mu)

    def _lower_bound(
        self, choice: ChosenEvent, test: Precedence, bound: float, ceiling: float, mu: float | None = None
    ) -> LowerBound:
        return LowerBound(
            epsilon=bound,
            delta=self.questions.claim.delta,
            confidence=1 - self.questions.significance,
            estimator=ESTIMATOR,
            comparisons=1,
            ceiling=max(bound, ceiling),
            assumes=(Assumption.INDEPENDENT_TRIALS,),
            family=None if mu is None else self.questions.claim.family,
            parameter=mu,
            selected=f"{choice.describe()} ({test.count:,} of {test.sample:,} against {test.rank:,} of {test.reference:,})",
        )


def _bits(first: Any, second: Any) -> Any:
    return granularity_scores(first.shape[1])


def _drifts(choice: ChosenEvent, outputs: Outputs, level: float, generator: np.random.Generator) -> bool:
    """True if numbers or scores of earlier calls are not like those of later ones, wrongly with chance `level` at most."""
    rows = choice.encoder.encode(outputs)
    columns = [choice.score(rows), *rows[:, :MOST_COLUMNS].T]
    half = len(rows) // 2
    rankings = (planned_event.order(values[:half], values[half:], generator) for values in map(finite, columns))
    return any(planned_event.differs(ranking, level / len(columns)) for ranking in rankings)


def _verdict(claim: Claim, epsilon: LowerBound, fit: LowerBound | None, deltas: Sequence[tuple[str, DeltaBound]]) -> Verdict:
    """Refuted by any of the bounds; out of reach if no event could have refuted it."""
    refutations = []
    if epsilon.epsilon > claim.epsilon:
        refutations.append((epsilon, f"epsilon is at least {below(epsilon.epsilon, claim=claim.epsilon)} at the claimed delta"))
    for text, bound in deltas:
        if bound.delta > claim.delta:
            refutations.append(
                (epsilon, f"{text}delta is at least {below(bound.delta, claim=claim.delta)} at the claimed epsilon")
            )
    if fit is not None and fit.epsilon > claim.epsilon:
        inside = below(fit.epsilon, claim=claim.epsilon)
        text = f"mu of Gaussian DP is at least {below(fit.parameter or 0.0)}, an epsilon of {inside} inside that family"
        refutations.append((fit, text))
    if refutations:
        reason = "; ".join(text for _, text in refutations)
        return Verdict(claim=claim, outcome=Outcome.VIOLATED, bound=refutations[0][0], reason=reason[0].upper() + reason[1:])
    ceilings = [epsilon.ceiling, *([fit.ceiling] if fit else [])]
    if max(ceilings) <= claim.epsilon and all(bound.ceiling <= claim.delta for _, bound in deltas):
        reason = f"No event of so few outputs could prove more than epsilon {max(ceilings):.3g}: ask for more samples"
        return Verdict(claim=claim, outcome=Outcome.OUT_OF_REACH, bound=epsilon, reason=reason)
    reason = "No bound lies above the claim, although one could have"
    return Verdict(claim=claim, outcome=Outcome.CONSISTENT, bound=epsilon, reason=reason)


def _drift_verdict(claim: Claim) -> Verdict:
    reason = (
        "Outputs of earlier and of later calls on the same data follow different laws: calls are not independent. Let the "
        "function start anew in every call"
    )
    return Verdict(claim=claim, outcome=Outcome.INVALID, bound=None, reason=reason)
