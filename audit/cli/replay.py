"""`audit replay`: a program and its neighbour with the same releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli import own_code, progress
from audit.cli.printing import AsJson, print_result

Function = Annotated[str, typer.Argument(help="The program: package.module:function(data, rng), or (data).")]
Data = Annotated[
    str, typer.Option(help="package.module:object with a data set, or a list of pairs (data, neighbour); may be a function.")
]
Epsilon = Annotated[float | None, typer.Option(help="Epsilon that is claimed.")]
Delta = Annotated[float, typer.Option(help="Delta that is claimed.")]
Mu = Annotated[float | None, typer.Option(help="Mu of Gaussian differential privacy that is claimed, instead of epsilon.")]
AdjacencyName = Annotated[str, typer.Option(help="Relation of the data sets: add_remove, replace_one or zero_out.")]
Unit = Annotated[str | None, typer.Option(help="Column or key that names the user, if the claim is about users.")]
Low = Annotated[float | None, typer.Option(help="Smallest number of a record. Default: that of the data.")]
High = Annotated[float | None, typer.Option(help="Largest number of a record. Default: that of the data.")]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Folder for replay.html, .json, .sarif and test_witness.py, a failing test."),
]
Transcripts = Annotated[
    int, typer.Option(min=0, help="Transcripts of the worst pair with losses that bound epsilon at delta; kept in -o FOLDER.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


def replay(
    function: Function,
    data: Data,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    mu: Mu = None,
    adjacency: AdjacencyName = "add_remove",
    unit: Unit = None,
    low: Low = None,
    high: High = None,
    output: Output = None,
    transcripts: Transcripts = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Compare a program with itself on neighbours, by its own releases. Exit code 1 if its claim is refuted, 3 if undecided.
    Executes its module."""
    from audit.api.replay import replay as audit_replay
    from audit.core.files import make_folder
    from audit.replays.neighbours import MOST_PAIRS

    if output is not None:
        make_folder(output)  # before the minutes that a replay may take
    own_code.add_working_folder([function, data])

    def advance(done: int, total: int) -> None:
        if done == 1:
            watcher.skip(MOST_PAIRS - total)
        watcher.advance(1)

    with own_code.prints_aside(), progress.bar("pairs", MOST_PAIRS, quiet=quiet) as watcher:
        report = audit_replay(
            own_code.find(function, "function"),
            own_code.instance(data),
            epsilon=epsilon,
            delta=delta,
            mu=mu,
            adjacency=adjacency,
            unit=unit,
            low=low,
            high=high,
            progress=advance,
        )
    if output is not None:
        report.save(output)
    lines, table = str(report).splitlines(), report.to_dict()
    if transcripts:
        from audit.replays.run import Program
        from audit.replays.transcript_bound import bound_epsilon

        pair, path = (report.worst.data, report.worst.neighbour), None if output is None else output / "transcripts.json"
        program = Program(own_code.find(function, "function"))
        interval = bound_epsilon(program, pair, runs=transcripts, delta=delta, path=path)
        lines.append(f"  losses   {interval}")
        table["transcripts"] = interval.to_dict()
    print_result(as_json, table, *lines)
    return report.exit_code
