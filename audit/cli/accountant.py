"""`audit accountant`: the calculator people need daily (the battery that judges accountants: `accountant_battery`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.api.accountant import USUAL
from audit.cli import accountant_check
from audit.cli.printing import AsJson, print_json, print_table
from audit.core import checks
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.rounding import down, near, up

if TYPE_CHECKING:
    from audit.core.adjacency import Adjacency
    from audit.core.events import Repeated

DIGITS = 4
app = typer.Typer(help="Compute epsilon, noise or steps by several accountants side by side, or test an accountant.")
for command in (accountant_check.check, accountant_check.page, accountant_check.refresh):
    app.command()(command)

Names = Annotated[
    list[str] | None,
    typer.Option(
        "--accountant", "-a", help="Accountant: name, name,field=value or module:object; may repeat. Default: the usual ones."
    ),
]
Rate = Annotated[float, typer.Option(help="Probability that a record takes part in a step.")]
Delta = Annotated[float, typer.Option(help="Delta of every epsilon.")]
Relation = Annotated[str, typer.Option(help="Neighbouring data sets: add_remove, replace_one or zero_out.")]
Plot = Annotated[Path | None, typer.Option(help="Draw epsilon over the steps to this SVG or PNG file.")]


@app.command()
def epsilon(
    noise: Annotated[float, typer.Option(help="Noise multiplier: standard deviation over clip norm.")],
    rate: Rate,
    steps: Annotated[int, typer.Option(help="Number of noisy steps that are released.")],
    delta: Delta = 1e-5,
    adjacency: Relation = "add_remove",
    accountant: Names = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> int:
    """Compute the epsilon of a DP-SGD training by each accountant, beside a proven bracket on the true epsilon."""
    from audit.api import accountant as library

    accountant_check.look_here(accountant or ())
    mechanism, names = _dp_sgd(noise, rate, steps), accountant or USUAL
    costs = library.epsilon(mechanism, delta=delta, adjacency=_relation(adjacency), accountants=names)
    if plot is not None:
        _draw_epsilon(plot, names, mechanism, delta, costs.adjacency)
    if as_json:
        rows = [asdict(row) for row in costs.rows]
        print_json({"delta": delta, "adjacency": adjacency, "truth": [costs.lower, costs.upper], "claims": rows})
        return 0
    print_table(
        f"epsilon at delta {delta:g} under {adjacency}; the truth lies in "
        f"[{down(costs.lower, DIGITS)}, {up(costs.upper, DIGITS)}]",
        ("accountant", "epsilon", "times the truth", "note"),
        [(row.accountant, _bound(row.epsilon, row.side), _factor(row.epsilon, costs.upper), row.note) for row in costs.rows],
    )
    return 0


@app.command()
def noise(
    target_epsilon: Annotated[float, typer.Option(help="Epsilon that the training may cost at most.")],
    rate: Rate,
    steps: Annotated[int, typer.Option(help="Number of noisy steps that are released.")],
    delta: Delta = 1e-5,
    adjacency: Relation = "add_remove",
    accountant: Names = None,
    as_json: AsJson = False,
) -> int:
    """Compute the smallest noise multiplier that keeps a training within a budget, by each accountant."""
    from audit.api import accountant as library

    checks.positive(target_epsilon, "--target-epsilon")
    checks.open_probability(delta, "--delta")
    checks.probability(rate, "--rate")
    accountant_check.look_here(accountant or ())
    rows = library.noise(
        target_epsilon=target_epsilon,
        sample_rate=rate,
        steps=steps,
        delta=delta,
        adjacency=_relation(adjacency),
        accountants=accountant or USUAL,
    )
    if as_json:
        table = [asdict(row) for row in rows]
        print_json({"target_epsilon": target_epsilon, "delta": delta, "adjacency": adjacency, "noise": table})
        return 0
    title = f"noise multiplier for epsilon {target_epsilon:g} at delta {delta:g} under {adjacency} (rounded up)"
    cells = [(row.accountant, _bound(row.noise_multiplier), _bound(row.epsilon), row.note) for row in rows]
    print_table(title, ("accountant", "noise multiplier", "epsilon", "note"), cells)
    return 0


@app.command()
def steps(
    target_epsilon: Annotated[float, typer.Option(help="Epsilon that the training may cost at most.")],
    noise: Annotated[float, typer.Option(help="Noise multiplier: standard deviation over clip norm.")],
    rate: Rate,
    delta: Delta = 1e-5,
    prior_steps: Annotated[int, typer.Option("--done", help="Number of steps that were already released.")] = 0,
    adjacency: Relation = "add_remove",
    accountant: Names = None,
    as_json: AsJson = False,
) -> int:
    """Compute how many steps a budget still allows, by each accountant."""
    from audit.api import accountant as library

    checks.positive(target_epsilon, "--target-epsilon")
    checks.open_probability(delta, "--delta")
    checks.nonnegative(prior_steps, "--done")
    if not 0 < rate <= 1:
        raise ConfigError(f"--rate is {rate}; expected a number above 0 and up to 1: without sampling no step costs anything")
    accountant_check.look_here(accountant or ())
    rows = library.steps(
        target_epsilon=target_epsilon,
        noise_multiplier=noise,
        sample_rate=rate,
        released=prior_steps,
        delta=delta,
        adjacency=_relation(adjacency),
        accountants=accountant or USUAL,
    )
    if as_json:
        table = [asdict(row) for row in rows]
        print_json({"target_epsilon": target_epsilon, "delta": delta, "done": prior_steps, "steps": table})
        return 0
    title = f"steps within epsilon {target_epsilon:g} at delta {delta:g} under {adjacency}, {prior_steps} done"
    cells = [(row.accountant, str(row.steps), str(row.left), row.note) for row in rows]
    print_table(title, ("accountant", "steps in all", "steps left", "note"), cells)
    return 0


def _dp_sgd(noise_multiplier: float, rate: float, count: int) -> Repeated:
    from audit.core.events import dp_sgd

    return dp_sgd(noise_multiplier=noise_multiplier, clip_norm=1.0, sample_rate=rate, steps=count)


def _relation(name: str) -> Adjacency:
    from audit.core.adjacency import Adjacency

    return Adjacency.by_name(name, "--adjacency")


def _draw_epsilon(path: Path, accountants: Sequence[str], mechanism: Repeated, delta: float, relation: Adjacency) -> None:
    from audit.accounting import resolve
    from audit.accounting.calibration import trajectory
    from audit.accounting.regression import files
    from reports.figures.accountants import epsilon_over_steps

    curves = {}
    for name in accountants:
        try:
            curve = trajectory(resolve.subject(name), mechanism, delta=delta, adjacency=relation, points=25)
        except UnsupportedMechanism:
            continue  # the table says so
        curves[name] = (curve.steps, curve.epsilon)
    files.write_figure(path, epsilon_over_steps(curves, delta))


def _bound(value: float | None, side: str = "upper") -> str:
    """Four digits after the point: claims rounded up, lower bounds down, estimates to the nearest."""
    if value is None:
        return "-"
    return {"upper": up, "lower": down, "estimate": near}[side](value, DIGITS)


def _factor(value: float | None, truth: float) -> str:
    return "-" if value is None or truth <= 0 or not math.isfinite(truth) else f"{value / truth:.3f}"
