"""`audit accountant epsilon | delta`: what a mechanism costs, by several accountants beside the proven bracket."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.accounting.subjects import named, usual
from audit.cli import accountant_options as shared
from audit.cli import own_code
from audit.cli.printing import AsJson, print_json, print_table
from audit.core.errors import ConfigError, UnsupportedMechanism

if TYPE_CHECKING:
    from audit.core.adjacency import Adjacency
    from audit.core.costs import CostSheet, WhatIfRow
    from audit.core.events import Event


def _csv(sheet: CostSheet) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["delta", "truth_at_least", "truth_at_most", *sheet.accountants])
    for delta, line in zip(sheet.deltas, sheet.curve, strict=True):
        claims = ("" if value is None else value for value in line.claims)
        writer.writerow([delta, line.lower, line.upper, *claims])
    return stream.getvalue()


CLAIM_COLUMNS = ("accountant", "epsilon", "times the truth", "note")
WHAT_IF_COLUMNS = ("changes", "truth at least", "truth at most")
WhatIf = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if", help="Other values, noise=0.8,1.2 or steps=x2,x4 (factors): a table of what they cost; may repeat."
    ),
]
Over = Annotated[str, typer.Option(help="What the curve of --plot is over: delta, or steps (of a repeated mechanism).")]


def epsilon(
    event: shared.EventText = None,
    noise: shared.Noise = None,
    rate: shared.Rate = None,
    steps: shared.Steps = None,
    phase: shared.Phases = None,
    mechanism: shared.Training = "",
    delta: shared.Delta = 1e-5,
    adjacency: shared.Relation = "add_remove",
    group_size: shared.Group = 1,
    what_if: WhatIf = None,
    accountant: shared.Names = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write epsilon over delta to this CSV file.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write all of it, with the curve, as an HTML page of a report.")] = None,
    plot: shared.Plot = None,
    over: Over = "delta",
    as_json: AsJson = False,
) -> int:
    """Compute the epsilon of a mechanism by each accountant, beside a proven bracket on the true epsilon."""
    from audit.accounting import costs as cost_sheets
    from audit.accounting.regression import files
    from audit.api import accountant as library
    from audit.core.event_forms import encode

    if over not in ("delta", "steps"):
        raise ConfigError(f"--over is '{over}'; expected delta or steps")
    files.check_outputs(event, {"--csv": csv_file, "--page": page, "--plot": plot})
    own_code.add_working_folder(accountant or ())
    question_event = shared.parse_event(
        event, {"--noise": noise, "--rate": rate, "--steps": steps}, phases=phase or (), training=mechanism
    )
    names, relation = accountant or list(usual(question_event, delta)), shared.find_relation(adjacency)
    terms: dict[str, Any] = {"delta": delta, "adjacency": relation, "group_size": group_size}
    costs = library.epsilon(question_event, accountants=names, **terms)
    rows = _what_if(question_event, what_if, accountants=names, **terms)
    curve = plot if over == "delta" else None
    if csv_file or page or curve:
        sheet = cost_sheets.sheet(question_event, subjects=list(named(names)), variants=rows, **terms)
        _write_sheet(sheet, csv_file, page, curve)
    if plot is not None and over == "steps":
        _draw_steps(plot, names, question_event, delta, relation)
    if as_json:
        answers = {"claims": [asdict(row) for row in costs.rows], "what_if": [asdict(row) for row in rows]}
        question = {"event": encode(question_event), **terms}
        print_json(question | {"truth": [costs.lower, costs.upper], "doubt": costs.doubt} | answers)
        return 0
    group = f" for {group_size} records" if group_size > 1 else ""
    truth = shared.truth_text(costs.lower, costs.upper, costs.doubt)
    title = f"{question_event}: epsilon at delta {delta:g} under {adjacency}{group}; {truth}"
    cells = (
        (row.accountant, shared.bound(row.epsilon, row.side), shared.factor(row.epsilon, costs.upper), row.note)
        for row in costs.rows
    )
    print_table(title, CLAIM_COLUMNS, list(cells))
    if rows:
        print_table("what if", (*WHAT_IF_COLUMNS, *names), _what_if_cells(rows, names))
    return 0


def _write_sheet(sheet: CostSheet, csv_file: Path | None, page: Path | None, plot: Path | None) -> None:
    """Write table, page and curve of the costs to the files that are given."""
    from audit.accounting.regression import files
    from reports import costs
    from reports.figures import _costs

    if csv_file is not None:
        files.write(csv_file, _csv(sheet).encode())
    if page is not None:
        files.write(page, costs.page(sheet))
    if plot is not None:
        files.write_figure(plot, _costs.drawing(sheet))


def delta(
    epsilon: Annotated[float, typer.Option("--epsilon", "--target-epsilon", help="Epsilon of every delta.")],
    event: shared.EventText = None,
    noise: shared.Noise = None,
    rate: shared.Rate = None,
    steps: shared.Steps = None,
    phase: shared.Phases = None,
    mechanism: shared.Training = "",
    adjacency: shared.Relation = "add_remove",
    group_size: shared.Group = 1,
    accountant: shared.Names = None,
    as_json: AsJson = False,
) -> int:
    """Compute the delta of a mechanism at an epsilon by each accountant, beside a proven bracket on the true delta."""
    from audit.api import accountant as library
    from audit.core.event_forms import encode

    own_code.add_working_folder(accountant or ())
    question_event = shared.parse_event(
        event, {"--noise": noise, "--rate": rate, "--steps": steps}, phases=phase or (), training=mechanism
    )
    costs = library.delta(
        question_event,
        epsilon=epsilon,
        adjacency=shared.find_relation(adjacency),
        group_size=group_size,
        accountants=accountant or None,
    )
    if as_json:
        settings = {"event": encode(question_event), "epsilon": epsilon, "adjacency": adjacency, "group_size": group_size}
        answers = {"truth": [costs.lower, costs.upper], "doubt": costs.doubt, "claims": [asdict(row) for row in costs.rows]}
        print_json(settings | answers)
        return 0
    truth = costs.doubt or f"the truth lies in [{_significant(costs.lower, -1)}, {_significant(costs.upper, 1)}]"
    print_table(
        f"{question_event}: delta at epsilon {epsilon:g} under {adjacency}; {truth}",
        ("accountant", "delta", "note"),
        [(row.accountant, _significant(row.delta, -1 if row.side == "lower" else 1), row.note) for row in costs.rows],
    )
    return 0


def _significant(value: float | None, side: int) -> str:
    """Four significant digits, rounded down (`side` -1) or up."""
    if value is None:
        return "-"
    text = f"{value:.3e}"
    if (float(text) - value) * side < 0:
        mantissa, exponent = text.split("e")
        text = f"{float(mantissa) + side * 1e-3:.3f}e{exponent}"
    return f"{float(text):.4g}"


def _what_if(event: Event, texts: Sequence[str] | None, **terms: Any) -> Sequence[WhatIfRow]:
    from audit.api import accountant as library

    changes: dict[str, list[str]] = {}
    for text in texts or ():
        quantity, equals, values = text.partition("=")
        if not equals or not values:
            raise ConfigError(f"--what-if is '{text}'; expected noise=0.8,1.2 or rate=... or steps=x2,x4")
        changes.setdefault(quantity, []).extend(values.split(","))
    return library.what_if(event, changes, **terms) if changes else ()  # type: ignore[arg-type]


def _what_if_cells(rows: Sequence[WhatIfRow], names: Sequence[str]) -> list[tuple[str, ...]]:
    return [
        (
            ", ".join(row.changes),
            shared.bound(row.lower, "lower"),
            shared.bound(row.upper),
            *(shared.bound(row.claims[name]) for name in names),
        )
        for row in rows
    ]


def _draw_steps(path: Path, accountants: Sequence[str], event: Event, delta: float, relation: Adjacency) -> None:
    from audit.accounting import resolve
    from audit.accounting.calibration import trajectory
    from audit.accounting.regression import files
    from audit.core.event_reading import repetition
    from reports.figures.accountants import epsilon_over_steps

    training = repetition(event)
    if training is None:
        raise ConfigError(f"--over steps needs a repeated mechanism; this is {event}")
    curves = {}
    for name in accountants:
        try:
            curve = trajectory(resolve.accountant(name), training, delta=delta, adjacency=relation, points=25)
        except UnsupportedMechanism:
            continue  # the table says so
        curves[name] = (curve.steps, curve.epsilon)
    files.write_figure(path, epsilon_over_steps(curves, delta))
