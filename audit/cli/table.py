"""`audit table`: what a synthetic table says of the records that it was made from, or a generator against its claim."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.cli.printing import AsJson, print_result
from audit.core.errors import ConfigError
from audit.core.results import USUAL_FORMATS

if TYPE_CHECKING:
    from audit.api.training import TrainingReport
    from audit.core.results import AuditReport

Synthetic = Annotated[
    Path | None, typer.Argument(help="The synthetic table: CSV (plain or gzipped) or Parquet; none with --generator.")
]
Training = Annotated[Path, typer.Option(help="Records that it was made from, with the same columns.")]
Control = Annotated[
    Path | None, typer.Option(help="Records of the same people that it was made without, with the same columns.")
]
Generator = Annotated[
    str | None,
    typer.Option(
        help="Generator to audit by coins: package.module:generate(table, seed), or a command with {input} and {output} (CSV)."
    ),
]
Epsilon = Annotated[float | None, typer.Option(help="Epsilon that a --generator claims for a record.")]
Delta = Annotated[float, typer.Option(help="Delta that a --generator claims.")]
Canaries = Annotated[int, typer.Option(min=1, help="Records that coins put into the table of a --generator.")]
Kind = Annotated[
    list[str] | None,
    typer.Option(help="Kind of canaries: rare, extreme, duplicated, unseen; may repeat. Default: the first three in turn."),
]
WorstCase = Annotated[
    str, typer.Option(help="One canary and a table made for it, in many --runs: mixed, repeated or domain. Default: none.")
]
Runs = Annotated[int, typer.Option(min=1, help="Tables of a --generator that are judged.")]
References = Annotated[int, typer.Option(min=0, help="Shadow tables of a --generator, 0 or at least 4.")]
Secret = Annotated[list[str] | None, typer.Option(help="Column to infer from all others; may repeat. Default: each.")]
First = Annotated[
    str | None,
    typer.Option(metavar="COLUMNS", help="Columns of one of two tables to link, with commas. Default: the first half."),
]
Second = Annotated[str | None, typer.Option(metavar="COLUMNS", help="Columns of the other. Default: the second half.")]
Categorical = Annotated[
    list[str] | None, typer.Option(help="Column of numbers that name categories, compared for equality alone; may repeat.")
]
Attacks = Annotated[int, typer.Option(min=1, help="Attacks on training records, and on control records, of each risk.")]
PredicateColumns = Annotated[int, typer.Option(min=1, help="Columns of a predicate that singles out.")]
Neighbours = Annotated[int, typer.Option(min=1, help="Closest synthetic records on each side of a link.")]
Confidence = Annotated[float, typer.Option(help="Confidence with which all limits hold together.")]
LargestExcess = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        help="Exit code 1 if the excess of a risk is above this share with confidence; singling out has no limits.",
    ),
]
TableSeed = Annotated[
    int | None, typer.Option("--seed", help="Seed of records, predicates and coins. Default: 0; coins are drawn by the system.")
]
TableOutput = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the report. Default: none is written.")]


def table(
    training: Training,
    synthetic: Synthetic = None,
    control: Control = None,
    generator: Generator = None,
    epsilon: Epsilon = None,
    delta: Delta = 1e-5,
    canaries: Canaries = 200,
    kind: Kind = None,
    worst_case: WorstCase = "",
    runs: Runs = 1,
    references: References = 8,
    secret: Secret = None,
    first: First = None,
    second: Second = None,
    categorical: Categorical = None,
    attacks: Attacks = 1000,
    predicate_columns: PredicateColumns = 3,
    neighbours: Neighbours = 1,
    confidence: Confidence = 0.95,
    largest_excess: LargestExcess = None,
    seed: TableSeed = None,
    output: TableOutput = None,
    as_json: AsJson = False,
) -> int:
    """Attack a synthetic table, beside the same attacks on control records; or a generator, by coins, against its epsilon."""
    from audit.api.table_risks import table_risks
    from audit.cli import deliver
    from audit.experiment.external.table_risks import TableSettings
    from audit.experiment.line.provenance import command_line

    if output is not None:
        deliver.demand_new(output)
    if generator is not None or epsilon is not None:
        terms: dict[str, Any] = {"delta": delta, "canaries": canaries, "runs": runs, "references": references}
        if synthetic is not None or control is not None:
            raise ConfigError("--generator makes its tables itself: leave out SYNTHETIC and --control")
        terms |= {"confidence": confidence, "worst_case": worst_case, "categorical": tuple(categorical or ())}
        terms |= {"kinds": tuple(kind)} if kind else {}
        generator_report = _check(generator, training, epsilon, seed, **terms)
        scores = deliver.scores({"score": generator_report.untied_scores.ravel()}, generator_report.included.ravel())
        return deliver.finish(generator_report.report, output, as_json, USUAL_FORMATS, scores)
    if synthetic is None or control is None:
        raise ConfigError("SYNTHETIC and --control are needed, or --generator and --epsilon")
    settings = TableSettings(
        attacks=attacks,
        predicate_columns=predicate_columns,
        secrets=tuple(secret) if secret else None,
        first=_columns(first, "--first"),
        second=_columns(second, "--second"),
        neighbours=neighbours,
        confidence=confidence,
        seed=seed or 0,
    )
    report = table_risks(
        synthetic,
        training,
        control,
        categorical=tuple(categorical or ()),
        settings=settings,
        title=synthetic.name,
        command=command_line(),
    )
    return _deliver(report, output, largest_excess, as_json)


def _deliver(report: AuditReport, output: Path | None, largest_excess: float | None, as_json: bool) -> int:
    """Write and print a report on a table; return 1 if the excess of a risk is above the limit, else 0."""
    import reports
    from audit.execution import store

    folder: Path | None = None
    failures: list[str] = []
    if output is not None:
        files, failures = reports.attempt(report, USUAL_FORMATS)
        folder = store.write_outputs(output, files)
    risks = () if report.table is None else report.table.risks
    largest = max(risk.excess_lower for risk in risks)
    code = int(largest_excess is not None and largest > largest_excess)
    rows = [dataclasses.asdict(risk) for risk in risks]
    lines = [*str(report).splitlines(), *(f"note: {note}" for note in report.notes)]
    lines += [f"an excess is at least {largest:.1%}, the limit {largest_excess:.1%}"] if code else []
    lines += [f"report: {folder / 'report.pdf'}"] if folder is not None else []
    print_result(as_json, {"risks": rows, "exit_code": code, "folder": None if folder is None else str(folder)}, *lines)
    if folder is not None:
        reports.refuse_incomplete(failures, folder)
    return code


def _check(generator: str | None, training: Path, epsilon: float | None, seed: int | None, **terms: Any) -> TrainingReport:
    """Return what canaries prove of a generator that is a function, or a command."""
    from audit.api.generators import check_generator
    from audit.cli import own_code
    from audit.experiment.line.provenance import command_line

    if generator is None or epsilon is None:
        raise ConfigError("--generator and --epsilon belong together: a generator, and what it claims")
    own = "{input}" not in generator
    own_code.add_working_folder([generator] if own else [])
    with own_code.prints_aside():
        generate = own_code.find(generator, "generate") if own else generator
        return check_generator(generate, training, epsilon=epsilon, seed=seed, command=command_line(), **terms)


def _columns(text: str | None, option: str) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ConfigError(f"{option} is '{text}'; expected names of columns with commas between them")
    return names
