"""What is claimed, what is proven, and how the two are: types that cannot be mistaken for each other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from audit.core.adjacency import Adjacency
from audit.core.game import Assumption, Game
from audit.core.lower_bounds import CommonTerms, FamilyBound, LowerBound, ReportedBound, VoidBound, read_ceiling
from audit.core.rounding import down

MOST_CERTIFICATES = 10_000  # simulated audits behind one certificate: as many tell an error of 0.05 to 0.002, and end in hours
OUTSIDE = 0.01  # chance that the error rate of simulated audits is outside of its limits

# where a stated epsilon claims to lie: at or above the true one, at or below it, or near it (which is no bound)
Side = Literal["upper", "lower", "estimate"]

DECLARED = "declared"  # how the source of a claim begins that an owner states


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An upper bound that a user states: "this training is (epsilon, delta)-DP".

    Attributes:
        epsilon: may be infinite (no guarantee at this delta).
        source: the accountant's name and version; "declared", or "declared (by whom)", of what an owner states.
        unit: what one record protects ("example", "user", ...).
        family: name of the trade-off family that the claim asserts as a whole, or None for a bare
            (epsilon, delta) pair. A bound that tests that same family can refute the claim.
        note: what the figure leaves out or assumes, in words.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    source: str
    unit: str = "example"
    family: str | None = None
    note: str = ""

    @property
    def is_declared(self) -> bool:
        """True if an owner states the claim and no accountant computed it."""
        return self.source.startswith(DECLARED)

    def can_be_refuted_by(self, bound: ReportedBound) -> bool:
        """True if a bound is evidence against the claim; one inside a family speaks of claims of that family alone."""
        return bound.delta == self.delta and bound.family in (None, self.family)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure without a guarantee (bootstrap, credible interval, point estimate). Never compared with a claim."""

    epsilon: float
    delta: float
    estimator: str
    warning: str


class Outcome(StrEnum):
    """What can be said of a claim. There is no word for "safe"."""

    VIOLATED = "violated"  # a bound is above the claim
    CONSISTENT = "consistent"  # no bound above the claim, and one could have been
    OUT_OF_REACH = "out_of_reach"  # no bound above the claim, and none could have been
    INVALID = "invalid"  # the negative control failed or an assumption was found false

    @property
    def exit_code(self) -> int:
        """Return what a command answers: 1 for a finding, 3 if nothing could be tested, else 0."""
        if self is Outcome.VIOLATED:
            return 1
        return 0 if self is Outcome.CONSISTENT else 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One claim compared with the bounds that are able to refute it."""

    claim: Claim
    outcome: Outcome
    bound: ReportedBound | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativeControl:
    """The same statistics on coins shuffled anew: how often anything was "proved" from nothing."""

    repetitions: int
    false_alarms: int
    allowed: int
    passed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """How often the largest bound of a game was wrong in simulation: same estimators, attacks, number of scores, error share.

    Attributes:
        law: what the scores were drawn from: nothing leaks, or randomised response, in which every threshold has the same
            likelihood ratio and a search that is not paid for shows most.
        epsilon: the truth under that law.
        wrong: of `repetitions` simulated audits put a bound above it.
        nominal: the error rate that all those bounds together promise.
        lower, upper: Clopper-Pearson limits at 99 % on the chance that a bound is wrong: the larger ones of all audits,
            in which the truth was put to the tests, and of the few alone in which bounds were searched for.
    """

    law: str
    epsilon: float
    wrong: int
    repetitions: int
    nominal: float
    lower: float
    upper: float

    @property
    def kept(self) -> bool:
        """True if the promise explains the count: False if the whole interval on the error rate is above it."""
        return self.lower <= self.nominal


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedBound(LowerBound):
    """A lower bound that is alone, outside of a report: with the game it holds in and its own error rate.

    Attributes:
        game: the rules that the scores were obtained under.
        certificates: how often this estimator is wrong at this number of scores and this confidence, by simulation; empty
            if it was not asked for or would have taken long.
        remarks: what in the scores looks odd for that game, one sentence each.
    """

    game: Game
    certificates: tuple[Certificate, ...] = ()
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        inside = f" inside the family '{self.family}'" if self.family else ""
        text = (
            f"epsilon >= {math.floor(self.epsilon * 1000) / 1000:g} at delta {self.delta:g}{inside}, confidence "
            f"{self.confidence:.4g} ({self.estimator}; perfect scores would prove {self.ceiling:.3f})"
        )
        return "; ".join([text, *self.remarks])


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBound(LowerBound):
    """A lower bound inside the family "dp_sgd" from single steps, each a trial, composed over all steps that are claimed.

    Attributes:
        game: what was a trial, by which scores, and what the adversary sees.
        trust: what is taken from the sampler without proof.
        trials: single steps that were scored.
        participations: steps that a canary took part in; None if the sampler's coins were not seen.
    """

    game: str
    trust: str
    trials: int
    participations: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoNoiseFits(CommonTerms):
    """Single steps, as of `StepBound`, that refute DP-SGD of the claimed sampling with any noise: no epsilon follows."""

    family: str
    game: str
    trust: str
    trials: int
    participations: int | None

    def __str__(self) -> str:
        return (
            f"no noise fits: these {self.trials} single steps refute every member of the family '{self.family}' at confidence "
            f"{self.confidence:.4g} ({self.estimator}). The canary took part more often than claimed, or the steps are no "
            "independent trials; check the sampler and what was taken off each sum"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaBound:
    """What the scores prove of delta at one epsilon: it is at least this, except with probability 1 - confidence.

    Attributes:
        delta: the bound, 0 if nothing is proved; never above `ceiling`.
        ceiling: the largest delta that perfect scores would have proved in this game.
        family: None if the bound holds for any mechanism; else the family inside which it holds, and only there.
        game: the rules that the scores were obtained under.
    """

    delta: float
    epsilon: float
    confidence: float
    estimator: str
    ceiling: float
    assumes: tuple[Assumption, ...]
    game: Game
    family: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detectable:
    """The least true epsilon of a Gaussian mechanism that an estimator in this game would have caught with chance `power`.

    Attributes:
        claim: what a bound has to be above to count as a catch; 0 if nothing was claimed that it could refute.
        epsilon: infinite if even an almost unprotected mechanism would have been missed.
        draws: simulated audits behind each estimate of the chance.
    """

    estimator: str
    family: str | None
    claim: float
    epsilon: float
    power: float
    draws: int


# A lower bound in English words, always with the condition that it holds under.
def name_condition(bound: ReportedBound) -> str:
    """Return for which mechanisms a bound holds."""
    if isinstance(bound, VoidBound):
        return "none: void"
    return "any mechanism" if bound.family is None else f"the family {bound.family} only"


def show_figure(bound: ReportedBound) -> str:
    """Return the figure of a bound with its condition."""
    match bound:
        case VoidBound():
            return f"void: {down(bound.void_epsilon)}"
        case FamilyBound():
            return f"{down(bound.epsilon_inside)} inside {bound.family} only"
    return down(bound.epsilon)


def show_proof(bound: ReportedBound) -> str:
    """Return a bound with its condition and its ceiling, in words."""
    ending = f"by {bound.estimator}; ceiling {down(read_ceiling(bound))}"
    match bound:
        case VoidBound():
            return f"void, nothing is proven: the figure is {down(bound.void_epsilon)} {ending}"
        case FamilyBound():
            return f"inside the family {bound.family} only, epsilon at least {down(bound.epsilon_inside)} {ending}"
    return f"epsilon at least {down(bound.epsilon)} for any mechanism {ending}"


def split_by_condition(bound: ReportedBound | None) -> tuple[float | None, float | None, str | None]:
    """Return what is proven for any mechanism, what inside a family, and that family; nothing of a void bound."""
    match bound:
        case LowerBound():
            return bound.epsilon, None, None
        case FamilyBound():
            return None, bound.epsilon_inside, bound.family
    return None, None, None
