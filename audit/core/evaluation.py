"""What the trained models of a game say about its attacks, each once the target: descriptive, proves no epsilon."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure over targets: mean, sample standard deviation and range. Targets share references, so no interval."""

    figure: str
    mean: float
    std: float
    lowest: float
    highest: float
    targets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerSpread:
    """One scorer with every trained model once its target."""

    scorer: str
    figures: tuple[Spread, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSpread:
    """How exposed one record is over the targets that trained on it.

    Attributes:
        record: a keyed hash, never the row itself.
        fpr: median over those targets of the share of nonmembers that score at least as high.
        found: share of those targets in which the record is found.
        targets: how many trained on it.
    """

    record: str
    label: str
    fpr: float
    found: float
    targets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpread:
    """Attack AUC inside one value of a column, over targets."""

    column: str
    group: str
    canaries: int
    auc: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitSpread:
    """An attack on a unit's records at once, if a column names the unit (a person, say) that each record belongs to.

    The adversary is given several records of one unit, all of them trained on or none, and averages their scores.

    Attributes:
        units: values of the column with records on both sides in every target.
        records: canaries a unit, on average.
        figures: AUC and TPR over targets, with units instead of records.
    """

    column: str
    units: int
    records: float
    figures: tuple[Spread, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """A threshold that the adversary sets on its own models, and its rates on the target; means over targets.

    Attributes:
        precision: share of members among those called members if `prior` of all candidates are; None if no one is called.
    """

    nominal_fpr: float
    realised_fpr: float
    tpr: float
    precision: float | None
    prior: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Which share of a data set a model was trained on, estimated from how many of its records an attack calls members.

    Attributes:
        share: None if the attack distinguishes members of references from their nonmembers no better than guessing.
        lower, upper: limits of the share, for a target trained as its references were; one model is one observation.
        references: models with the rates that the estimate rests on.
    """

    share: float | None
    lower: float
    upper: float
    confidence: float
    references: int

    def __str__(self) -> str:
        limits = f"{self.lower:.0%} to {self.upper:.0%} with confidence {self.confidence:g}, {self.references} references"
        return f"not told by this attack ({limits})" if self.share is None else f"about {self.share:.0%} ({limits})"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSpread:
    """The estimate of `Usage` for every model as the target, beside the truth.

    Attributes:
        target: of the first model; `truth` its true share.
        error: mean distance of estimate and truth over targets with an estimate; None if none has one.
        covered: share of targets with limits that hold the truth.
    """

    scorer: str
    target: Usage
    truth: float
    error: float | None
    covered: float
    targets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fidelity:
    """Whether references resemble the target. `matches` False: the attack is weak, which says nothing for the model.

    Attributes:
        target_accuracy: on (members, non-members) of the target; `reference_accuracy`: means over references.
        distance: Kolmogorov-Smirnov distance between the target's losses and all references', the larger
            of members and non-members.
        typical: the largest such distance of any one reference against the others.
    """

    target_accuracy: tuple[float, float]
    reference_accuracy: tuple[float, float]
    distance: float
    typical: float
    matches: bool
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What the trained models of a game say about its attacks, each model once the target. Descriptive: proves no epsilon.

    Attributes:
        targets: models that were attacked with all others as references. `spared`: models that were references only, because
            attacking each of very many models takes too long.
        leading: the scorer with the largest mean AUC; all that follows is about its scores.
        at_fpr: false positive rate at which records count as found.
        reproducibility: mean overlap (Jaccard) of the lists of records found in two targets that both trained on them;
            None if all lists are empty. `chance`: the same for random lists of those lengths.
        records: the most exposed ones, worst first.
        units: the same attack on all records of a unit at once, for columns with enough units.
        usage: which share of the records each model was trained on, as estimated from the rates of the others.
        fidelity: the worst over the target runs, None if fewer than three references were trained.
    """

    targets: int
    scorers: tuple[ScorerSpread, ...]
    leading: str
    at_fpr: float
    reproducibility: float | None
    chance: float | None
    records: tuple[RecordSpread, ...]
    thresholds: tuple[Calibrated, ...]
    groups: tuple[GroupSpread, ...]
    fidelity: Fidelity | None
    units: tuple[UnitSpread, ...] = ()
    spared: int = 0
    usage: UsageSpread | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackFigure:
    """One figure of one attack over targets.

    Attributes:
        mean: over targets; `error` its standard error over targets (NaN of one target).
        gap: mean difference to the attack with the largest mean of this figure, target by target; `gap_error` its error.
        targets: models that were attacked; `references` models that each was compared with; `canaries` records of each.
    """

    attack: str
    figure: str
    mean: float
    error: float
    gap: float
    gap_error: float
    targets: int
    references: int
    canaries: int
