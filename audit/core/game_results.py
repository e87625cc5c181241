"""What one game showed: its attacks with their curves and bounds, and the records and groups with outlying scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from audit.core.access import Access
from audit.core.claims import Certificate, Detectable, Estimate, NegativeControl
from audit.core.evaluation import Evaluation
from audit.core.evidence import Watched
from audit.core.game import Game
from audit.core.lower_bounds import ReportedBound, report_bound
from audit.core.tables import frame

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUnit:
    """What a score of a text counts.

    Attributes:
        quantity: in words.
        levels: growing figures from which on secrets are counted.
        by_chance: the most that the mean is over secrets that were never trained on; None if that depends on the model.
    """

    quantity: str
    levels: tuple[float, ...]
    by_chance: float | None = None


@runtime_checkable
class SecretScorer(Protocol):
    """An attack that scores how much of a text's secret is given away, in a unit."""

    @property
    def unit(self) -> SecretUnit: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RocCurve:
    """An empirical ROC, thinned for drawing, with a simultaneous band on the true positive rate.

    Attributes:
        fpr, tpr: points of the curve, `fpr` increasing.
        lower, upper: band on TPR at each point; holds for all points at once with `confidence`.
        members, nonmembers: how many scores on each side; no rate below 1/nonmembers is shown.
    """

    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    confidence: float
    band: str
    members: int
    nonmembers: int

    def to_pandas(self) -> pd.DataFrame:
        """Return the points as a data frame with the columns fpr, tpr, lower, upper."""
        return frame(
            [
                {"fpr": fpr, "tpr": tpr, "lower": lower, "upper": upper}
                for fpr, tpr, lower, upper in zip(self.fpr, self.tpr, self.lower, self.upper, strict=True)
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TprAtFpr:
    """The last ROC point with FPR at or under the target; None fields if the target is below 1/nonmembers."""

    target_fpr: float
    tpr: float | None
    realised_fpr: float | None
    lower: float | None
    upper: float | None
    false_positives: int | None
    true_positives: int | None
    allowed: float | None = None

    @classmethod
    def blank(cls, target_fpr: float, allowed: float | None) -> Self:
        """The rate that too few records, or those of an edition, do not determine."""
        unknown = dict.fromkeys(("tpr", "realised_fpr", "lower", "upper", "false_positives", "true_positives"))
        return cls(target_fpr=target_fpr, allowed=allowed, **unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts of member and nonmember scores in common bins."""

    edges: tuple[float, ...]
    members: tuple[int, ...]
    nonmembers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessResult:
    """How often an attack named the true value of a secret. Success, baseline and bound are three things; none is another.

    Attributes:
        secrets: that were guessed, over all target runs.
        right: of them.
        lower, upper: Clopper-Pearson limits on the chance of a right guess, for secrets with their own releases.
        baseline: chance of a right guess without the release, by naming the likeliest value of each prior.
        imputed: of these secrets, those with the true value as the likeliest one; None if so few would name them.
        allowed: the most that the tightest claim, and the mechanism's curve if it is known, leave a guess of that baseline;
            None if nothing is claimed.
        exposure: mean over secrets of log2 of the values minus log2 of the true one's rank, in bits; None if values are not
            equally likely.
        null_exposure: its mean if nothing leaks: ranks are uniform.
    """

    secrets: int
    right: int
    lower: float
    upper: float
    baseline: float
    imputed: int | None
    allowed: float | None = None
    exposure: float | None = None
    null_exposure: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerResult:
    """How often target models answered a trigger as its poisoned records taught, in trainings with them and without.

    Attributes:
        records: poisoned ones of each trigger.
        with_records, hits_with: triggers with records in a training, and those of them that were answered.
        without_records, hits_without: triggers without.
        accuracy: on test records without a trigger, mean over the same models; None without test records.
        allowed: the largest share with the records that the tightest claim leaves at the share without them, by group privacy;
            None if nothing is claimed.
    """

    records: int
    with_records: int
    hits_with: int
    without_records: int
    hits_without: int
    accuracy: float | None = None
    allowed: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelCount:
    """Secrets with a figure of at least `level`: of planted ones, and of those that coins left out."""

    level: float
    members: int
    nonmembers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretFigures:
    """What an attack gets of secrets behind texts, in its own unit. A success rate, never an epsilon.

    Attributes:
        quantity: what is counted, in words.
        members, nonmembers: secrets that were planted and that were not, over all target runs.
        mean_members, mean_nonmembers: of the figure; None if an edition withholds them.
        by_chance: the most that its mean is over secrets that were never trained on; None if that depends on the model.
        levels: growing; the last of extraction is the whole secret, k-eidetically memorised for k = `texts`.
        texts: the most training texts that hold one planted secret.
    """

    quantity: str
    members: int
    nonmembers: int
    mean_members: float | None
    mean_nonmembers: float | None
    by_chance: float | None
    levels: tuple[LevelCount, ...]
    texts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackResult:
    """One scorer in one game.

    Attributes:
        auc, auc_lower, auc_upper: None if one side has a single record, of which the AUC is 0, 1/2 or 1 by chance.
        guesses: in a game of secrets.
        secrets: of an attack with a unit for its scores of texts: exposure, extraction.
        access: the least an adversary has to see for this attack; None if that is all that the game shows.
    """

    scorer: str
    auc: float | None
    auc_lower: float | None
    auc_upper: float | None
    roc: RocCurve
    tpr_at: tuple[TprAtFpr, ...]
    histogram: Histogram
    bounds: tuple[ReportedBound, ...]
    estimates: tuple[Estimate, ...] = ()
    control: NegativeControl | None = None
    access: Access | None = None
    guesses: GuessResult | None = None
    secrets: SecretFigures | None = None

    @property
    def auc_or_zero(self) -> float:
        """Return the AUC, 0 if there is none."""
        return self.auc or 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExposure:
    """One audited record: how far its score is from the others. `record` is a keyed hash, never the row itself."""

    record: str
    label: str
    score: float
    rank: int
    fpr: float
    member: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResult:
    """One slice: a class, or a value of the user's column; limits hold for all slices at once if scores are independent."""

    group: str
    members: int
    nonmembers: int
    auc: float | None
    accuracy: float | None
    auc_lower: float | None = None
    auc_upper: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GameResult:
    """One game with all attacks that were played in it.

    Attributes:
        certificates: simulated error rates of the largest of its bounds.
        detectable: what its estimators would have caught.
        watched: how training went if it could stop at the first proof, with the bounds of all attacks together.
        trigger: in a game of backdoors.
    """

    name: str
    game: Game
    attacks: tuple[AttackResult, ...]
    records: tuple[RecordExposure, ...] = ()
    groups: tuple[GroupResult, ...] = ()
    models: int = 0
    note: str = ""
    certificates: tuple[Certificate, ...] = ()
    detectable: tuple[Detectable, ...] = ()
    evaluation: Evaluation | None = None
    watched: Watched | None = None
    trigger: TriggerResult | None = None

    @property
    def bounds(self) -> tuple[ReportedBound, ...]:
        """All bounds: each attack's own, and those of all attacks together."""
        together = self.watched.bounds if self.watched is not None else ()
        return (*(bound for attack in self.attacks for bound in attack.bounds), *together)

    def type_bounds(self, *, void: bool) -> GameResult:
        """The same with every bound under the type of its condition."""
        attacks = tuple(replace(attack, bounds=_report(attack.bounds, void)) for attack in self.attacks)
        stopping = self.watched
        if stopping is not None:
            stopping = replace(stopping, bounds=_report(stopping.bounds, void))
        return replace(self, attacks=attacks, watched=stopping)

    def for_any_mechanism(self) -> GameResult:
        """The same without the results inside a family: its epsilon is not that of a run outside."""
        attacks = tuple(replace(attack, bounds=_for_any_mechanism(attack.bounds)) for attack in self.attacks)
        stopping = self.watched
        if stopping is not None:
            evidence = tuple(bets for bets in stopping.evidence if bets.family is None)
            stopping = replace(stopping, bounds=_for_any_mechanism(stopping.bounds), evidence=evidence)
        detectable = tuple(figure for figure in self.detectable if figure.family is None)
        return replace(self, attacks=attacks, watched=stopping, detectable=detectable)

    @property
    def controls(self) -> tuple[NegativeControl, ...]:
        """All negative controls that were made."""
        checks = [attack.control for attack in self.attacks] + [self.watched.control if self.watched is not None else None]
        return tuple(control for control in checks if control is not None)


def _for_any_mechanism(bounds: tuple[ReportedBound, ...]) -> tuple[ReportedBound, ...]:
    return tuple(bound for bound in bounds if bound.family is None)


def _report(bounds: tuple[ReportedBound, ...], void: bool) -> tuple[ReportedBound, ...]:
    return tuple(report_bound(bound, void=void) for bound in bounds)
