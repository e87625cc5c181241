"""A synthetic table and the records that it was made from, as a report."""

from dataclasses import dataclass, replace

from attacks.tables.columns import TableTriple
from audit.bounds.budget import Budget
from audit.core.phrases import phrase
from audit.core.provenance import DataSummary
from audit.core.results import AuditReport
from audit.experiment.external.table_risks import TableSettings, shared_records, table_audit
from audit.experiment.games.settings import Settings
from audit.experiment.line import report as reporting
from audit.experiment.line.provenance import make_provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    synthetic: str = "synthetic"
    training: str = "training"
    control: str = "control"
    sha256: str = ""


def inspect_table(tables: TableTriple, table_settings: TableSettings, settings: Settings, source: TableSource) -> AuditReport:
    """The report on a synthetic table. No epsilon follows: no one tossed a coin for a record. `DataError` for tables that are
    too small or lack a column, `ConfigError` for settings that do not fit them.
    """
    result = table_audit(tables, table_settings)
    names = f"{source.synthetic} of {source.training}, beside {source.control}"
    config = settings.text(
        synthetic=source.synthetic,
        training=source.training,
        control=source.control,
        sha256=source.sha256,
        attacks=table_settings.attacks,
        predicate_columns=table_settings.predicate_columns,
        neighbours=table_settings.neighbours,
        splits=table_settings.splits,
        secrets=list(table_settings.secrets or tables.names),
        **{name: list(getattr(table_settings, name) or ()) for name in ("first", "second")},
        categorical=list(result.categorical),
    )
    frame = reporting.Frame(
        kind="table",
        title=settings.title or names,
        created=settings.timestamp(),
        budget=Budget(
            delta=settings.delta, confidence=table_settings.confidence, comparisons=len(result.risks), certificates=0
        ),
        data=DataSummary(
            name=names,
            source="training (train) and control (pool) records as given",
            sha256=source.sha256,
            train=result.training_records,
            pool=result.control_records,
            test=0,
            classes=0,
            features=f"{len(result.columns)} columns",
        ),
        model=f"{result.synthetic_records:,} synthetic records",
        config=config,
        provenance=make_provenance(settings, config),
    )
    return replace(reporting.report([], frame), coverage=(), notes=_notes(tables), table=result)


def _notes(tables: TableTriple) -> tuple[str, ...]:
    """Return what is to be known of control records that are training records in every column."""
    shared, twins = shared_records(tables)
    if not shared:
        return ()
    return (
        phrase(
            "{shared} of {control} control records equal a training record in every column ({twins} of "
            "{training} training records equal another one). If these are the same people, take them out of the "
            "control table: they make the risks look smaller.",
            shared=shared,
            control=len(tables.control),
            twins=twins,
            training=len(tables.training),
        ),
    )
