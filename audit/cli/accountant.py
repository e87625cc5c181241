"""`audit accountant`: the calculator people need daily (the battery that judges accountants: `accountant_battery`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.cli import accountant_check
from audit.cli.printing import AsJson, print_json, print_table
from audit.core import checks
from audit.core.errors import ConfigError, UnsupportedMechanism
from reports.words.rounding import down, near, up

if TYPE_CHECKING:
    from audit.core.adjacency import Adjacency
    from audit.core.events import Repeated
    from audit.core.protocols import Accountant

USUAL = ("rdp_classic", "rdp", "renyi", "pld", "reference")
DIGITS = 4
app = typer.Typer(help="Epsilon, noise and steps by all accountants side by side; and the battery that judges them.")
for command in (accountant_check.check, accountant_check.page, accountant_check.refresh):
    app.command()(command)

Names = Annotated[
    list[str] | None,
    typer.Option("--accountant", "-a", help="Name, name,field=value or module:object; may repeat. Default: the usual ones."),
]
Rate = Annotated[float, typer.Option(help="Probability that a record takes part in a step.")]
Delta = Annotated[float, typer.Option(help="Delta of every epsilon.")]
Relation = Annotated[str, typer.Option(help="add_remove, replace_one or zero_out.")]
Plot = Annotated[Path | None, typer.Option(help="SVG or PNG file of epsilon over steps.")]


@app.command()
def epsilon(
    noise: Annotated[float, typer.Option(help="Noise multiplier: standard deviation over clip norm.")],
    rate: Rate,
    steps: Annotated[int, typer.Option(help="Noisy steps that are released.")],
    delta: Delta = 1e-5,
    adjacency: Relation = "add_remove",
    accountant: Names = None,
    plot: Plot = None,
    as_json: AsJson = False,
) -> int:
    """What a DP-SGD training costs, by every accountant, with the proven bracket on the truth."""
    from audit.accounting.accountants.reference import Reference
    from audit.accounting.resolve import side_of

    relation = _relation(adjacency)
    mechanism = _dp_sgd(noise, rate, steps)
    accountants = _accountants(accountant)
    rows: list[dict[str, Any]] = []
    for name, one in accountants:
        try:
            claim = one.claim(mechanism, delta=delta, adjacency=relation)
            row = {"epsilon": claim.epsilon, "source": claim.source, "note": claim.note}
        except UnsupportedMechanism as error:
            row = {"epsilon": None, "source": "", "note": f"unsupported: {error}"}
        rows.append({"accountant": name, "side": side_of(one), **row})
    low, high = Reference().bracket(mechanism, delta=delta, adjacency=relation)
    if plot is not None:
        _draw_epsilon(plot, accountants, mechanism, delta, relation)
    if as_json:
        print_json({"delta": delta, "adjacency": adjacency, "truth": [low, high], "claims": rows})
        return 0
    print_table(
        f"epsilon at delta {delta:g} under {adjacency}; the truth lies in [{down(low, DIGITS)}, {up(high, DIGITS)}]",
        ("accountant", "epsilon", "times the truth", "note"),
        [(row["accountant"], _bound(row["epsilon"], row["side"]), _factor(row["epsilon"], high), row["note"]) for row in rows],
    )
    return 0


@app.command()
def noise(
    target_epsilon: Annotated[float, typer.Option(help="Budget that the training must stay within.")],
    rate: Rate,
    steps: Annotated[int, typer.Option(help="Noisy steps that are released.")],
    delta: Delta = 1e-5,
    adjacency: Relation = "add_remove",
    accountant: Names = None,
    as_json: AsJson = False,
) -> int:
    """The least noise multiplier that keeps a training within a budget, by every accountant."""
    from audit.accounting.calibration import calibrate_noise
    from audit.core.event_reading import phases

    checks.positive(target_epsilon, "--target-epsilon")
    checks.open_probability(delta, "--delta")
    checks.probability(rate, "--rate")
    relation = _relation(adjacency)
    rows: list[dict[str, Any]] = []
    for name, one in _accountants(accountant):
        try:
            found = calibrate_noise(
                one, target_epsilon=target_epsilon, delta=delta, sample_rate=rate, steps=steps, adjacency=relation
            )
            claim = one.claim(found, delta=delta, adjacency=relation)
            ((noise, _, _),) = phases(found)
            rows.append({"accountant": name, "noise_multiplier": noise, "epsilon": claim.epsilon, "note": _caveat(one)})
        except (UnsupportedMechanism, ConfigError) as error:
            rows.append({"accountant": name, "noise_multiplier": None, "epsilon": None, "note": str(error)})
    if as_json:
        print_json({"target_epsilon": target_epsilon, "delta": delta, "adjacency": adjacency, "noise": rows})
        return 0
    title = f"noise multiplier for epsilon {target_epsilon:g} at delta {delta:g} under {adjacency} (rounded up)"
    cells = [(row["accountant"], _bound(row["noise_multiplier"]), _bound(row["epsilon"]), row["note"]) for row in rows]
    print_table(title, ("accountant", "noise multiplier", "epsilon", "note"), cells)
    return 0


@app.command()
def steps(
    target_epsilon: Annotated[float, typer.Option(help="Budget that the training must stay within.")],
    noise: Annotated[float, typer.Option(help="Noise multiplier: standard deviation over clip norm.")],
    rate: Rate,
    delta: Delta = 1e-5,
    done: Annotated[int, typer.Option(help="Steps that were released already.")] = 0,
    adjacency: Relation = "add_remove",
    accountant: Names = None,
    as_json: AsJson = False,
) -> int:
    """How many steps are left in a budget, by every accountant."""
    from audit.accounting.calibration import steps_within

    checks.positive(target_epsilon, "--target-epsilon")
    checks.open_probability(delta, "--delta")
    checks.nonnegative(done, "--done")
    if not 0 < rate <= 1:
        raise ConfigError(f"--rate is {rate}; expected a number above 0 and up to 1: without sampling no step costs anything")
    relation = _relation(adjacency)
    rows: list[dict[str, Any]] = []
    for name, one in _accountants(accountant):
        try:
            most = steps_within(one, _dp_sgd(noise, rate, 1), target_epsilon=target_epsilon, delta=delta, adjacency=relation)
            rows.append({"accountant": name, "steps": most, "left": max(0, most - done), "note": _caveat(one)})
        except UnsupportedMechanism as error:
            rows.append({"accountant": name, "steps": None, "left": None, "note": str(error)})
    if as_json:
        print_json({"target_epsilon": target_epsilon, "delta": delta, "done": done, "steps": rows})
        return 0
    title = f"steps within epsilon {target_epsilon:g} at delta {delta:g} under {adjacency}, {done} done"
    cells = [(row["accountant"], str(row["steps"]), str(row["left"]), row["note"]) for row in rows]
    print_table(title, ("accountant", "steps in all", "steps left", "note"), cells)
    return 0


def _accountants(names: Sequence[str] | None) -> list[tuple[str, Accountant]]:
    from audit.accounting import resolve

    accountant_check.look_here(names or ())
    return [(name, resolve.subject(name)) for name in (names or USUAL)]


def _caveat(accountant: Accountant) -> str:
    """What to say of a budget that is kept by figures which are no upper bound."""
    from audit.accounting.resolve import side_of

    side = side_of(accountant)
    return "" if side == "upper" else f"{'a lower bound' if side == 'lower' else 'an estimate'}: the budget may be exceeded"


def _dp_sgd(noise_multiplier: float, rate: float, count: int) -> Repeated:
    from audit.core.events import dp_sgd

    return dp_sgd(noise_multiplier=noise_multiplier, clip_norm=1.0, sample_rate=rate, steps=count)


def _relation(name: str) -> Adjacency:
    from audit.core.adjacency import Adjacency

    if name not in list(Adjacency):
        raise ConfigError(f"--adjacency is '{name}'; expected one of {', '.join(Adjacency)}")
    return Adjacency(name)


def _draw_epsilon(
    path: Path, accountants: list[tuple[str, Accountant]], mechanism: Repeated, delta: float, relation: Adjacency
) -> None:
    from audit.accounting.calibration import trajectory
    from audit.accounting.regression import files
    from reports.figures.accountants import epsilon_over_steps

    curves = {}
    for name, one in accountants:
        try:
            found = trajectory(one, mechanism, delta=delta, adjacency=relation, points=25)
        except UnsupportedMechanism:
            continue  # the table says so
        curves[name] = (found.steps, found.epsilon)
    files.write_figure(path, epsilon_over_steps(curves, delta))


def _bound(value: float | None, side: str = "upper") -> str:
    """Four digits after the point: claims rounded up, lower bounds down, estimates to the nearest."""
    if value is None:
        return "-"
    return {"upper": up, "lower": down, "estimate": near}[side](value, DIGITS)


def _factor(value: float | None, truth: float) -> str:
    return "-" if value is None or truth <= 0 or not math.isfinite(truth) else f"{value / truth:.3f}"
