"""A game with training that may stop at the first proof: the evidence over its models, and the result at the end."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.claims import Claim, NegativeControl
from audit.core.lower_bounds import ReportedBound


@dataclass(frozen=True, slots=True, kw_only=True)
class BetWeight:
    """What one attack's bets alone would have come to, at the same times as the evidence that they are a part of."""

    attack: str
    log_evidence: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One estimator's bets against one claim, over the models of a game.

    Attributes:
        family: None if the evidence holds for any mechanism, else the family of trade-off curves inside which it does.
        models: target models seen at each point, ascending, 0 first.
        log_evidence: natural logarithm of the e-value there: what a fortune of 1 has become by bets that are fair or worse
            if the claim is true.
        threshold: refuted is what ever reaches it: the logarithm of 1 over the error rate that the bound may have.
        proved: models after which it was first reached, or None.
        stakes: of each attack that scored the models; their sum over the number of planned attacks is the e-value.
    """

    estimator: str
    family: str | None
    claim: Claim
    models: tuple[int, ...]
    log_evidence: tuple[float, ...]
    threshold: float
    proved: int | None
    stakes: tuple[BetWeight, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A game with training that may stop at the first proof.

    Attributes:
        planned: target models at most.
        used: target models that count: all that were planned, or those trained when the proof came.
        looks: how often it could have ended, at most.
        bounds: of all attacks together, one for each estimator; they hold at every time at once.
        evidence: of each estimator against each claim that it can refute.
        control: the same bets on coins drawn anew.
    """

    planned: int
    used: int
    looks: int
    bounds: tuple[ReportedBound, ...]
    evidence: tuple[Evidence, ...]
    control: NegativeControl | None = None

    @property
    def proved(self) -> int | None:
        """Models after which the first claim was refuted, or None."""
        return min((evidence.proved for evidence in self.evidence if evidence.proved is not None), default=None)
