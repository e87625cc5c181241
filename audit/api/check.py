"""One call on a model that is already trained: what attacks on its outputs find out about its training records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.core.results import IN_WORDS
from audit.core.rounding import SPACE, down, percent, plural
from audit.core.tables import Table

if TYPE_CHECKING:
    import pandas as pd

    from audit.core.data import Array
    from audit.core.lower_bounds import LowerBound
    from audit.core.protocols import Target
    from audit.core.results import AuditReport
    from audit.data.members import Side
    from audit.experiment.external.inspection import Inspection, References, ReferenceTraining


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRow:
    """One attack: its AUC with limits if it was run, else why it was not.

    Attributes:
        status: "run", or "not run" followed by the reason.
        tpr: true positive rate at a false positive rate of `fpr`, None if too few nonmembers were given for it.
    """

    attack: str
    status: str
    auc: float | None = None
    auc_lower: float | None = None
    auc_upper: float | None = None
    fpr: float | None = None
    tpr: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelCheck:
    """What a check of a trained model found, with the scores of every record by every attack; `print` shows it in short."""

    inspection: Inspection

    @property
    def report(self) -> AuditReport:
        """The whole report."""
        return self.inspection.report

    @property
    def attacks(self) -> Table[AttackRow]:
        """Return one row per attack, by AUC, then those that were not run."""
        rows = []
        for attack in self.report.mechanisms[0].games[0].attacks:
            points = [point for point in attack.tpr_at if point.tpr is not None]
            smallest = min(points, key=lambda point: point.target_fpr, default=None)
            rows.append(
                AttackRow(
                    attack=attack.scorer,
                    status="run",
                    auc=attack.auc,
                    auc_lower=attack.auc_lower,
                    auc_upper=attack.auc_upper,
                    fpr=None if smallest is None else smallest.target_fpr,
                    tpr=None if smallest is None else smallest.tpr,
                )
            )
        rows.sort(key=lambda row: -(row.auc or 0.0))
        unused = (AttackRow(attack=name, status=f"not run: {reason}") for name, reason in self.inspection.not_run.items())
        return Table([*rows, *unused])

    @property
    def bound(self) -> LowerBound | None:
        """The largest bound on epsilon for any mechanism; None if no coins decided membership, or the audit is void."""
        return max(self.report.mechanisms[0].bounds, key=lambda bound: bound.epsilon, default=None)

    def __str__(self) -> str:
        from audit.experiment.external.inspected import SPLIT_NOTE

        report, included = self.report, self.inspection.included
        members, count = int(included.sum()), len(included)
        lines = [
            f"{plural(members, 'member')}, {plural(count - members, 'nonmember')}: {IN_WORDS[report.outcome]}",
            *(f"  {remark}" for remark in report.remarks if remark != SPLIT_NOTE),
            f"  strongest attack: {self._strongest()}",
            f"  epsilon: {self._proof(report)}",
            f"  members and nonmembers: {self._guard(report)}",
            *self._suggest_attacks(),
        ]
        lines += [f"  {name} ranks these records as {attack} does" for name, attack in self.inspection.repeats.items()]
        evaluation = report.mechanisms[0].games[0].evaluation
        if evaluation is not None and evaluation.usage is not None:
            usage = evaluation.usage
            lines.append(f"  share of these records that was trained on, by {usage.scorer}: {usage.target}")
        lines += [f"  claim of epsilon {row.claim.epsilon:g}: {row.reason}" for row in report.mechanisms[0].verdicts]
        return "\n".join(lines)

    def _suggest_attacks(self) -> list[str]:
        waiting = sum("reference models" in reason for reason in self.inspection.not_run.values())
        attacks = f"{plural(waiting, 'further attack')} {'compares' if waiting == 1 else 'compare'}"
        return [f"  {attacks} with reference models: references=audit.ReferenceTraining(train)"] if waiting else []

    def _strongest(self) -> str:
        row, rate = self.attacks[0], ""
        if row.auc is None:
            return f"{row.attack}; one record a side says nothing of how often it is right"
        if row.tpr is not None:
            rate = f"; it finds {percent(row.tpr).replace(SPACE, '')} of the members at a false positive rate of {row.fpr:g}"
        return f"{row.attack}, AUC {row.auc:.3f} ({row.auc_lower:.3f} to {row.auc_upper:.3f}){rate}"

    def _proof(self, report: AuditReport) -> str:
        if report.mechanisms[0].is_void:
            return "none is proven: a check of this audit failed, so its bounds are void"
        if self.bound is None:
            return (
                "none follows, because a data split decided membership. To get one, let random coins decide it: call "
                "audit.draw_coins before the training (docs/use/trained-models.md)"
            )
        return (
            f"at least {down(self.bound.epsilon)} at delta {report.delta:g} with confidence {report.confidence:g}; perfect "
            f"attacks would have proved {down(self.bound.ceiling)}"
        )

    def _guard(self, report: AuditReport) -> str:
        rows = [check for check in report.mechanisms[0].checks if check.code == "blind"]
        return rows[0].value if rows else "not compared without the model"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per attack, those that were not run included."""
        return self.attacks.to_pandas()

    def save(self, path: str | Path) -> Path:
        """Write the report to a file, in the format that its suffix names (.pdf, .json, ...), and return its path.

        Raises:
            ConfigError: no format has this suffix.
            OutputError: the file could not be written.
        """
        import reports

        return reports.save(self.report, path)


def check(
    model: Callable[..., Any] | Target | None = None,
    members: Side | Any = None,
    nonmembers: Side | Any = None,
    *,
    loss_of: Callable[[Any], Any] | None = None,
    claim_epsilon: float | None = None,
    claim_unit: str | None = None,
    delta: float = 1e-5,
    confidence: float = 0.95,
    coins: Array | None = None,
    randomised_seed: int | None = None,
    references: References | ReferenceTraining | Any | None = None,
    overlap: str = "refuse",
    seed: int = 0,
    quiet: bool = False,
) -> ModelCheck:
    """Attack a trained model, print what was found in a few lines, and return it.

    Args:
        model: a `torch.nn.Module`, or a function of arrays; it gives logits or probabilities, `(n, classes)`. None
            if `references` trains it here, on the members.
        loss_of: in place of `model`, `fn(batch) -> (n,)`, the loss of each record, lower if the model fits it better: for
            graphs, masks, diffusion, survival times and whatever else. Members and nonmembers may then be arrays, tuples or
            dictionaries of them, frames, lists of any records, data sets and loaders (docs/use/trained-models.md).
        members: records that it was trained on, exactly as it takes them: `(x, y)` of arrays or tensors, a `Dataset`, a
            `DataLoader`, or the path of an npz with x and y.
        nonmembers: records of the same kind that it was not trained on.
        claim_epsilon: the epsilon that is claimed for the training; it is compared with what was proved.
        claim_unit: "record" or "user", whom the claim protects. By default "user" if members and nonmembers are mappings that
            name the user of each record under `unit`, beside `x` and `y` (one coin per user then decides), else "record".
        coins: `(n,)` bool, that decided which records were trained on (`audit.draw_coins`); without them no epsilon follows.
        randomised_seed: in place of `coins`, the seed that they were drawn with.
        references: further models of your own, for the attacks that compare; or `audit.ReferenceTraining`, which trains them.
        overlap: "refuse" records that are on both sides, or "drop" them.
        quiet: print nothing.

    Raises:
        ConfigError: a setting that cannot be used.
        DataError: records or coins that cannot be used; the message names what to do.
        ObservationError: the model's outputs are not finite.
    """
    from audit.core.errors import ConfigError
    from audit.experiment.external.inspection import Settings, demand_references, examine
    from audit.experiment.external.own_losses import examine_losses

    settings = Settings(
        delta=delta,
        confidence=confidence,
        seed=seed,
        claim_epsilon=claim_epsilon,
        claim_unit=claim_unit,
        coins=coins,
        randomised_seed=randomised_seed,
        overlap=overlap,
        command="audit.check",
    )
    if members is None or nonmembers is None:
        raise ConfigError("members and nonmembers are both needed: audit.check(model, (x_train, y_train), (x_test, y_test))")
    if loss_of is not None and model is not None:
        raise ConfigError("both model and loss_of are given; give the model alone, or loss_of, which asks the model itself")
    demand_references(references)
    if loss_of is None:
        inspection = examine(model, members, nonmembers, settings, references)
    else:
        inspection = examine_losses(loss_of, members, nonmembers, settings, references)
    result = ModelCheck(inspection=inspection)
    if not quiet:
        print(result)
    return result
