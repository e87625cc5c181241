"""`audit plan`: what an audit can show and what it costs, before it is run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.cli import plan_power
from audit.cli.printing import AsJson, print_json, print_plain, stdout_console
from audit.core.errors import ConfigError
from audit.core.rounding import down, up

if TYPE_CHECKING:
    from audit.config import Resolution
    from audit.core.claims import LowerBound
    from audit.experiment.spec import Experiment

ConfigName = Annotated[
    str, typer.Argument(metavar="CONFIG|NAME", help="A YAML file, or the name of a shipped config (see `audit ls configs`).")
]
Overrides = Annotated[list[str] | None, typer.Option("--set", metavar="A.B=C", help="Override one value; may repeat.")]


def plan(
    config: ConfigName,
    override: Overrides = None,
    measure: Annotated[
        bool,
        typer.Option("--measure/--no-measure", help="Train a few steps of each game to estimate the time (takes seconds)."),
    ] = True,
    power: Annotated[
        bool, typer.Option("--power/--no-power", help="Simulate what each estimator would detect (takes seconds to a minute).")
    ] = True,
    violation: Annotated[
        float,
        typer.Option(
            min=1.0, help="True epsilon, as a multiple of the claim, for which the needed scores and hours are printed."
        ),
    ] = 2.0,
    plot: Annotated[Path | None, typer.Option(help="Draw the power to this file (.svg or .png).")] = None,
    as_json: AsJson = False,
) -> int:
    """Print ceilings, power, error budget, time and cost of an audit before it is run."""
    from audit import config as configs

    if plot is not None and (not power or plot.suffix not in (".svg", ".png")):
        raise ConfigError(f"--plot {plot} draws the power as .svg or .png; give such a name, and leave out --no-power")
    target_power = violation if power else None
    return show(configs.load(config, override or ()), as_json=as_json, measure=measure, violation=target_power, plot=plot)


def show(
    config: Resolution,
    *,
    as_json: bool,
    measure: bool,
    violation: float | None = None,
    plot: Path | None = None,
    call_factory: bool = True,
) -> int:
    """The plan of a config on stdout; with `violation` its power, drawn to `plot`. A model's factory may stay uncalled."""
    from audit.experiment import assemble

    rows = figures(assemble.assemble(config.config, call_factory=call_factory), measure=measure, violation=violation)
    if plot is not None:
        plan_power.draw(rows["power"], plot)
    if as_json:
        print_json(rows)
    else:
        _print(rows)
    return 0


def figures(experiment: Experiment, *, measure: bool = False, violation: float | None = None) -> dict[str, Any]:
    """What an audit will do and the most it could show: each bound on perfectly separated scores.

    With `measure` a few steps are trained and `timing` says how long all will take; with `violation` what it would catch
    is simulated, and what it takes to catch a true epsilon of so many times the claim.
    """
    from audit.experiment import run as line
    from audit.experiment import timing
    from audit.experiment.disk import bytes_needed

    games = line.rehearse_all(experiment) if experiment.parameters else []  # a dry run leaves a user's model unmade
    rows = _ceilings(experiment)
    tops = {(row["mechanism"], row["game"], row["estimator"]): row["ceiling"] for row in rows}
    claims = {
        recipe.name: line.state(recipe, line.adjacency_of(experiment, recipe), experiment.budget.delta).claims
        for recipe in experiment.recipes
    }
    times = timing.estimate(experiment) if measure else []
    table = []
    if violation is not None:
        seconds = {(time.mechanism, time.game): time.seconds for time in times}
        table = plan_power.powers(experiment, claims, seconds, violation)
        for row in table:
            row["ceiling"] = tops[row["mechanism"], row["game"], row["estimator"]]
    return {
        "models": experiment.models,
        "model_steps": experiment.model_steps,
        "bounds": experiment.budget.comparisons,
        "confidence_each": experiment.budget.level,
        "claims": {name: [{"epsilon": c.epsilon, "source": c.source} for c in claims] for name, claims in claims.items()},
        "ceilings": rows,
        "left_out": [f"{game.recipe}, game {game.play.name}: {note}" for game in games for note in game.notes],
        "power": table,
        "stopping": [
            {"mechanism": recipe.name, "game": play.name, "most_runs": play.runs}
            for recipe, play in experiment.pairs
            if play.stops
        ],
        "timing": [asdict(time) for time in times],
        "peak_disk_bytes": bytes_needed(experiment) if experiment.parameters else None,
    }


def _ceilings(experiment: Experiment) -> list[dict[str, Any]]:
    """The most that each estimator of each game could prove; games with the same terms are computed once."""
    import numpy as np

    from audit.bounds.budget import bounds
    from audit.core.views import Scores
    from audit.experiment.insertion import plant, rules_of

    whole, seed = experiment.budget, experiment.seed.child("plan")
    rows: list[dict[str, Any]] = []
    ceilings: dict[str, list[LowerBound]] = {}
    for recipe, play in experiment.pairs:
        planting = plant(experiment.dataset, play, experiment.parameters, seed)
        included = planting.included[: play.runs].ravel()
        rules = rules_of(play, planting, play.access)
        terms = repr((recipe.mechanism, rules, play.estimators, len(included), int(included.sum())))
        if terms not in ceilings:
            values = np.where(included, 1.0, -1.0) * (1 + np.arange(len(included)) / len(included))
            scores = Scores(values=values, included=included, game=rules, mechanism=recipe.mechanism)
            ceilings[terms] = [*bounds(scores, play.estimators, delta=whole.delta, confidence=whole.level, seed=seed)]
        rows += [
            {
                "mechanism": recipe.name,
                "game": play.name,
                "estimator": bound.estimator,
                "family": bound.family,
                "ceiling": bound.ceiling,
                "scores": len(included),
            }
            for bound in ceilings[terms]
        ]
    return rows


def _print(rows: dict[str, Any]) -> None:
    """The plan as a table on stdout."""
    from rich.table import Table

    console = stdout_console()
    qualifier = "up to " if rows["stopping"] else ""
    console.print(
        f"{qualifier}{rows['models']} models, {rows['model_steps']:,} model-steps; {rows['bounds']} bounds, "
        f"each at confidence {rows['confidence_each']:.4f}"
    )
    for name, claims in rows["claims"].items():
        claims_text = ", ".join(f"{up(claim['epsilon'])} ({claim['source']})" for claim in claims) or "no claim"
        print_plain(f"{name}: {claims_text}")
    table = Table("mechanism", "game", "estimator", "family", "scores", "most it could prove")
    for row in rows["ceilings"]:
        ceiling = down(row["ceiling"])
        table.add_row(row["mechanism"], row["game"], row["estimator"], row["family"] or "any", f"{row['scores']:,}", ceiling)
    console.print(table)
    for row in rows["stopping"]:
        console.print(f"{row['mechanism']}, {row['game']}: at most {row['most_runs']} runs; training stops at the first proof")
    print_plain(*rows["left_out"])
    if rows["power"]:
        plan_power.show(rows["power"], console)
    if rows["timing"]:
        _show_timing(rows["timing"], console)
    if rows["peak_disk_bytes"] is None:
        console.print("disk: not known, because the model's factory is not called in a dry run (`audit plan` calls it)")
    else:
        console.print(f"at most {rows['peak_disk_bytes'] / 2**20:,.0f} MiB on disk")


def _show_timing(rows: list[dict[str, Any]], console: Any) -> None:
    from rich.table import Table

    table = Table("mechanism", "game", "models", "measured", "time")
    for row in rows:
        steps_text = f"{row['steps']} steps x {row['together']}"
        table.add_row(row["mechanism"], row["game"], str(row["models"]), steps_text, _duration(row["seconds"]))
    console.print(table)
    console.print(f"training: {_duration(sum(row['seconds'] for row in rows))} on this machine, one job after another")


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    return f"{hours:.1f} h" if hours >= 2 else f"{minutes:.0f} min" if minutes >= 2 else f"{seconds:.0f} s"
