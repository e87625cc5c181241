"""The results that an audit can show and its cost, before anything of it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

from audit.core.claims import Claim
from audit.core.errors import ConfigError
from audit.core.tables import Table, frame

if TYPE_CHECKING:
    import pandas as pd
from collections.abc import Sequence
from typing import TYPE_CHECKING

from audit.core.results import AuditReport
from audit.core.rounding import down, percent, up

PlanTable = Literal["ceilings", "power", "claims", "timing", "stopping"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingRow:
    """The most that one estimator of a game could prove: its bound on perfectly separated scores.

    Attributes:
        family: None, or the trade-off family inside which the figure holds.
        scores: of members and nonmembers together.
        bounds: that it will state: one for each attack that it judges, or one of all attacks if training may stop early.
    """

    mechanism: str
    game: str
    estimator: str
    family: str | None
    ceiling: float
    scores: int
    bounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRow:
    """The epsilon that one estimator of a game would catch, by simulation, and the runs needed to catch a violation.

    Attributes:
        claim: what a bound has to be above to count as a catch; 0 if nothing is claimed that it could refute.
        epsilon: the least true epsilon of a Gaussian mechanism that is caught with chance `power`; infinite if none is.
        draws: simulated audits behind each estimate of the chance.
        ceiling: the most that the estimator could prove.
        runs_to_proof: median runs to a proof at `epsilon`, of a game that stops; else None.
        violation: the true epsilon that is to be caught; None if nothing is claimed.
        needed: scores that catch it so often; None if nothing suffices.
        needed_runs: target runs that give so many.
        needed_hours: of training for them, as far as the time was measured.
        hours: of training for the game as it is.
    """

    mechanism: str
    game: str
    estimator: str
    family: str | None
    claim: float
    epsilon: float
    power: float
    draws: int
    ceiling: float
    runs_to_proof: float | None = None
    violation: float | None = None
    needed: int | None = None
    needed_runs: int | None = None
    needed_hours: float | None = None
    hours: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The time of one game's trainings on one recipe, one job after another on this machine.

    Attributes:
        mechanism: the recipe.
        game: and what is played on it.
        seconds: of training and observing all its models.
        models: that are trained.
        steps: of a job that were measured.
        together: models in the measured job; 1 if already one step of one model took long, and `seconds` is
            then too high, since models trained together share work.
    """

    mechanism: str
    game: str
    seconds: float
    models: int
    steps: int
    together: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppingRow:
    """A game that ends at the first proof, and the runs it has at most."""

    mechanism: str
    game: str
    most_runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """The results that an audit can show and its cost.

    Attributes:
        models: trained at most.
        model_steps: steps of all of them together, at most.
        bounds: that share the error.
        level: confidence of each of them.
        claims: of each mechanism, before anything is trained.
        left_out: attacks that the coins do not serve, and why.
        power: empty if it was not simulated.
        timing: empty if it was not measured.
        peak_disk_bytes: None if the model was not made.
    """

    models: int
    model_steps: int
    bounds: int
    level: float
    claims: Mapping[str, tuple[Claim, ...]]
    ceilings: Table[CeilingRow]
    left_out: tuple[str, ...]
    power: Table[PowerRow]
    stopping: Table[StoppingRow]
    timing: Table[Timing]
    peak_disk_bytes: int | None

    def to_pandas(self, table: PlanTable = "ceilings") -> pd.DataFrame:
        """Return a table of the plan as a data frame.

        Args:
            table: "ceilings", "power", "timing" and "stopping" have the columns of their rows; "claims" a row each claim.

        Raises:
            ConfigError: there is no such table.
        """
        if table == "claims":
            columns = ("mechanism", "epsilon", "delta", "source")
            rows = [(name, claim.epsilon, claim.delta, claim.source) for name, own in self.claims.items() for claim in own]
            return frame([dict(zip(columns, row, strict=True)) for row in rows], columns)
        tables = ("ceilings", "power", "timing", "stopping")
        if table not in tables:
            raise ConfigError(f"table is '{table}'; expected one of {', '.join([*tables, 'claims'])}")
        rows_of_table: Table[object] = getattr(self, table)
        return rows_of_table.to_pandas()

    def to_dict(self) -> dict[str, object]:
        """Return the plan as numbers, text, lists and mappings, as `audit plan --json` prints it."""
        claims = {
            name: [{"epsilon": claim.epsilon, "source": claim.source} for claim in own] for name, own in self.claims.items()
        }
        return {
            "models": self.models,
            "model_steps": self.model_steps,
            "bounds": self.bounds,
            "confidence_each": self.level,
            "claims": claims,
            "ceilings": [asdict(row) for row in self.ceilings],
            "left_out": list(self.left_out),
            "power": [asdict(row) for row in self.power],
            "stopping": [asdict(row) for row in self.stopping],
            "timing": [asdict(row) for row in self.timing],
            "peak_disk_bytes": self.peak_disk_bytes,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierRow:
    """One noise multiplier.

    Attributes:
        claimed: the smallest epsilon that an accountant states for one training.
        claimed_with_tuning: epsilon of releasing the best of a random number of trainings at this noise or more.
        proven: the largest bound for any mechanism, 0 if void; `ceiling`: what perfect scores would have proven.
        tpr: the largest true positive rate of an attack at the false positive rate `fpr`; None if no game states one.
        utility: mean over the models, and `spread` its standard deviation; None without a test set.
    """

    name: str
    noise_multiplier: float
    claimed: float
    claimed_with_tuning: float
    proven: float
    ceiling: float
    outcome: str
    fpr: float | None
    tpr: float | None
    utility: float | None
    spread: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """The rows by rising noise, and the report of the one run that they are from.

    Attributes:
        tuning: expected number of trainings of which the best is released, in `claimed_with_tuning`.
        metric: the name of the utility figure, "" without a test set.
    """

    rows: Table[FrontierRow]
    tuning: float
    metric: str
    report: AuditReport

    def to_pandas(self) -> pd.DataFrame:
        """Return a row per noise multiplier."""
        return self.rows.to_pandas()

    def __str__(self) -> str:
        head = ("noise", "claimed", f"best of {self.tuning:g}", "proven", "ceiling", "TPR", self.metric or "utility")
        lines = [head, *(_texts(row) for row in self.rows)]
        widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
        return "\n".join("  ".join(word.rjust(width) for word, width in zip(line, widths, strict=True)) for line in lines)


def _texts(row: FrontierRow) -> Sequence[str]:
    rate = "-" if row.tpr is None or row.fpr is None else f"{percent(row.tpr)} at {percent(row.fpr)}"
    utility = "-" if row.utility is None else f"{row.utility:.3f}"
    proven, ceiling = down(row.proven), down(row.ceiling)
    return f"{row.noise_multiplier:g}", up(row.claimed), up(row.claimed_with_tuning), proven, ceiling, rate, utility
