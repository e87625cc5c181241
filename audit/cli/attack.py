"""`audit attack compare`: attacks side by side on the same models."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli import own_code
from audit.cli.printing import AsJson, print_json, print_plain, print_table
from audit.core.errors import ConfigError, OutputError
from audit.core.files import write_whole

if TYPE_CHECKING:
    from audit.core.evaluation import AttackFigure
    from audit.experiment.external.attack_comparison import AttackComparison

app = typer.Typer(name="attack", help="Compare attacks, also those of your own.", no_args_is_help=True)


@app.command("compare")
def compare(
    models: Annotated[
        Path,
        typer.Argument(metavar="MODELS", help="npz with included (k, m), and logits (k, m, c) with labels or losses (k, m)."),
    ],
    scorer: Annotated[
        list[str] | None, typer.Option(help="Attack to add: a name, or package.module:Class of your own; may repeat.")
    ] = None,
    battery: Annotated[bool, typer.Option(help="Compare with all attacks that these models can serve.")] = True,
    references: Annotated[
        int | None, typer.Option(min=0, help="Models each target is compared with. Default: all others.")
    ] = None,
    targets: Annotated[int | None, typer.Option(min=1, help="Models that are attacked. Default: all.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of attacks that draw.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw the table to this file (.svg or .png).")] = None,
    as_json: AsJson = False,
) -> int:
    """Attack every model with the others as its references, by every attack; print a table with errors over targets."""
    from audit.api.attack_comparison import compare_attacks

    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise ConfigError(f"--plot is '{plot}'; expected a file that ends in .svg or .png")
    own_code.add_working_folder(scorer or [])
    with own_code.prints_aside():
        comparison = compare_attacks(models, scorer or (), battery=battery, references=references, targets=targets, seed=seed)
    if plot is not None:
        _draw(comparison, plot)
    if as_json:
        print_json({"figures": [dataclasses.asdict(row) for row in comparison.rows], "not_run": dict(comparison.not_run)})
        return 0
    _show(comparison)
    return 0


def _show(comparison: AttackComparison) -> None:
    """Print the table, strongest first by TPR at 1 % FPR if enough nonmembers resolve it, else by AUC."""
    from audit.experiment.external.attack_comparison import LEAST_NONMEMBERS

    by_attack: dict[str, dict[str, AttackFigure]] = {}
    for row in comparison.rows:
        by_attack.setdefault(row.attack, {})[row.figure] = row
    figures = list(dict.fromkeys(row.figure for row in comparison.rows))
    order = sorted(by_attack, key=lambda name: -by_attack[name][figures[min(1, len(figures) - 1)]].mean)
    first = comparison.rows[0]
    cells = [[name, *(_cell(by_attack[name][figure]) for figure in figures)] for name in order]
    title = (
        f"{first.targets} targets, {first.references} references each, {first.canaries} records; mean, standard error over "
        "targets, and in brackets the gap to the best, target by target"
    )
    print_table(title, ["attack", *figures], cells)
    print_plain(
        *(
            f"not shown: {name}: needs {minimum:,} nonmembers or more"
            for name, minimum in LEAST_NONMEMBERS.items()
            if name not in figures
        ),
        *(f"not run: {name}: {reason}" for name, reason in comparison.not_run.items()),
    )


def _cell(row: AttackFigure) -> str:
    gap = "best" if row.gap == 0 and row.gap_error in (0.0, row.error) else f"{row.gap:+.3f} ± {row.gap_error:.3f}"
    return f"{row.mean:.3f} ± {row.error:.3f} ({gap})"


def _draw(comparison: AttackComparison, path: Path) -> None:
    from reports.figures import commands

    try:
        write_whole(path, commands.draw_comparison(comparison.rows)[path.suffix[1:]], mode=0o666)
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror}; choose another --plot") from error
