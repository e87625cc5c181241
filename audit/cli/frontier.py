"""`audit frontier`: a config at several noise multipliers, with utility, claims and proofs in a table and a figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from audit.cli import child, options, own_code
from audit.cli.plan import ConfigName
from audit.cli.printing import AsJson, print_result
from audit.core.errors import ConfigError


def frontier(
    config: ConfigName,
    noise: Annotated[str, typer.Option(help="Noise multipliers with commas between them, such as 0.5,1,2,4.")],
    mechanism: Annotated[
        str | None, typer.Option(help="Mechanism of the config that is varied. Default: the one with noise.")
    ] = None,
    tuning: Annotated[
        float | None,
        typer.Option(help="Expected number of trainings of which the best is released. Default: the multipliers'."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for table, figure and the run. Default: none is written.")
    ] = None,
    resume: options.Resume = False,
    as_json: AsJson = False,
) -> int:
    """Compare utility, claimed and proven epsilon over noise multipliers, in one run. Exit code as of `audit run`."""
    from audit import config as configs
    from audit.api.frontier import frontier as run_frontier
    from audit.core.files import write_whole
    from audit.experiment.line import report as summary

    child.separate(configs.load(config, ()).config.execution.kind)
    with own_code.prints_aside():
        result = run_frontier(
            config,
            _numbers(noise),
            mechanism=mechanism,
            tuning=tuning,
            output=None if output is None else output / "run",
            resume=resume,
        )
    table = result.to_pandas()
    if output is not None:
        from reports.figures.commands import write_frontier

        write_whole(output / "frontier.csv", table.to_csv(index=False).encode())
        write_whole(output / "frontier.svg", write_frontier(result))
    rows, code = json.loads(table.to_json(orient="records", double_precision=15)), summary.code(result.report)
    values = {"rows": rows, "tuning": result.tuning, "metric": result.metric, "exit_code": code}
    print_result(as_json, values, *str(result).splitlines())
    return code


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ConfigError(f"--noise is '{text}'; expected numbers with commas between them, such as 0.5,1,2,4") from None
