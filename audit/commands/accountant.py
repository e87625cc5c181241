"""`audit accountant`: the calculator people need daily, and the battery that judges accountants."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.core.errors import ConfigError, UnsupportedMechanism
from reports.rounding import down, near, up

if TYPE_CHECKING:
    from audit.core.mechanism import Adjacency, DpSgd
    from audit.core.protocols import Accountant

USUAL = ("rdp_classic", "rdp", "renyi", "pld", "reference")
DIGITS = 4
app = typer.Typer(help="Epsilon, noise and steps by all accountants side by side; and the battery that judges them.")

Names = Annotated[
    list[str] | None,
    typer.Option("--accountant", "-a", help="Name, name,field=value or module:object; may repeat. Default: the usual ones."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
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
    as_json: Json = False,
) -> int:
    """What a DP-SGD training costs, by every accountant, with the proven bracket on the truth."""
    from audit.accountants.reference import Reference
    from audit.subjects import side_of

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
        return _print_json({"delta": delta, "adjacency": adjacency, "truth": [low, high], "claims": rows})
    _table(
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
    as_json: Json = False,
) -> int:
    """The least noise multiplier that keeps a training within a budget, by every accountant."""
    from audit.calibration import calibrate_noise

    relation = _relation(adjacency)
    rows: list[dict[str, Any]] = []
    for name, one in _accountants(accountant):
        try:
            found = calibrate_noise(
                one, target_epsilon=target_epsilon, delta=delta, sample_rate=rate, steps=steps, adjacency=relation
            )
            claim = one.claim(found, delta=delta, adjacency=relation)
            rows.append(
                {"accountant": name, "noise_multiplier": found.noise_multiplier, "epsilon": claim.epsilon, "note": _caveat(one)}
            )
        except (UnsupportedMechanism, ConfigError) as error:
            rows.append({"accountant": name, "noise_multiplier": None, "epsilon": None, "note": str(error)})
    if as_json:
        return _print_json({"target_epsilon": target_epsilon, "delta": delta, "adjacency": adjacency, "noise": rows})
    title = f"noise multiplier for epsilon {target_epsilon:g} at delta {delta:g} under {adjacency} (rounded up)"
    cells = [(row["accountant"], _bound(row["noise_multiplier"]), _bound(row["epsilon"]), row["note"]) for row in rows]
    _table(title, ("accountant", "noise multiplier", "epsilon", "note"), cells)
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
    as_json: Json = False,
) -> int:
    """How many steps are left in a budget, by every accountant."""
    from audit.calibration import steps_within

    relation = _relation(adjacency)
    rows: list[dict[str, Any]] = []
    for name, one in _accountants(accountant):
        try:
            most = steps_within(one, _dp_sgd(noise, rate, 1), target_epsilon=target_epsilon, delta=delta, adjacency=relation)
            rows.append({"accountant": name, "steps": most, "left": max(0, most - done), "note": _caveat(one)})
        except UnsupportedMechanism as error:
            rows.append({"accountant": name, "steps": None, "left": None, "note": str(error)})
    if as_json:
        return _print_json({"target_epsilon": target_epsilon, "delta": delta, "done": done, "steps": rows})
    title = f"steps within epsilon {target_epsilon:g} at delta {delta:g} under {adjacency}, {done} done"
    cells = [(row["accountant"], str(row["steps"]), str(row["left"]), row["note"]) for row in rows]
    _table(title, ("accountant", "steps in all", "steps left", "note"), cells)
    return 0


@app.command()
def check(
    accountant: Annotated[
        list[str] | None, typer.Option("--accountant", "-a", help="Name, name,field=value or module:object; may repeat.")
    ] = None,
    group: Annotated[list[str] | None, typer.Option(help="Part of the battery; may repeat.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="Cases whose id holds this text; may repeat.")] = None,
    seconds: Annotated[float, typer.Option(help="After which a case counts as a CRASH.")] = 60.0,
    all_cases: Annotated[bool, typer.Option("--all", help="Show the cases that are EXACT or UNSUPPORTED too.")] = False,
    junit: Annotated[Path | None, typer.Option(help="JUnit file to write.")] = None,
    plot: Annotated[Path | None, typer.Option(help="SVG or PNG file of claims against brackets (one accountant).")] = None,
    as_json: Json = False,
) -> int:
    """Judges accountants by the battery: WRONG, LOOSE, EXACT, UNSUPPORTED or CRASH per case. Exit code 1 on any WRONG."""
    from audit import battery, subjects
    from audit.commands import accountant_files

    cases = [one for one in battery.load() if _chosen(one, group, case)]
    if not cases:
        raise ConfigError(f"no case has group {group} and an id with {case}; leave the options out to see what there is")
    names = accountant or ["rdp"]
    _look_here(names)
    if plot is not None and len(names) > 1:
        raise ConfigError(f"--plot shows one accountant, {len(names)} were named")
    found = {}
    for name in names:
        found[name] = battery.run(subjects.subject(name), cases, seconds=seconds, told=None if as_json else _tick(len(cases)))
    if junit is not None:
        accountant_files.write(junit, accountant_files.junit(found))
    if plot is not None:
        from reports.accountant_figures import claims_against_brackets

        brackets = [one for one in found[names[0]] if one.case.kind == "bracket" and 0 < one.case.upper < math.inf]
        rows = [(str(one.finding), one.factor, one.case.lower / one.case.upper) for one in brackets]
        accountant_files.write_figure(plot, claims_against_brackets(rows, names[0]))
    code = 1 if any(one.finding is battery.Finding.WRONG for results in found.values() for one in results) else 0
    if as_json:
        _print_json({"exit_code": code, "accountants": accountant_files.as_json(found)})
        return code
    quiet = (battery.Finding.EXACT, battery.Finding.UNSUPPORTED)
    for name, results in found.items():
        counts = ", ".join(f"{kind} {sum(one.finding is kind for one in results)}" for kind in battery.Finding)
        shown = [one for one in results if all_cases or one.finding not in quiet]
        cells = [(one.case.id, str(one.finding), _plain(one.factor), f"{one.seconds:.2f}", one.message) for one in shown]
        title = f"{name}: {counts} ({sum(one.seconds for one in results):.1f} s)"
        _table(title, ("case", "finding", "factor", "seconds", "why"), cells)
    return code


@app.command()
def page(
    output: Annotated[Path, typer.Option("--output", "-o", help="Page to write.")] = Path("docs/accountants.md"),
    answers: Annotated[Path, typer.Option(help="Folder in which answers are kept.")] = Path("docs/accountants"),
    accountant: Annotated[
        list[str] | None, typer.Option("--accountant", "-a", help="Ask these only; the others' kept answers are judged.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Of CPU, after which a case counts as a CRASH.")] = 10.0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask everything again.")] = False,
) -> int:
    """Writes the page with the current verdict on every accountant: of those installed here, and of kept answers."""
    from audit.commands import accountant_answers, accountant_files, accountant_page

    runs = []
    for spec, name in accountant_page.SUBJECTS:
        typer.echo(spec, err=True)
        asked = accountant is None or spec in accountant
        runs.append(
            accountant_answers.collect(
                spec, name, answers, seconds=seconds, fresh=fresh and asked, told=_telling(spec) if asked else None, ask=asked
            )
        )
    accountant_files.write(output, accountant_page.render(runs).encode())
    print(output)
    return 0


@app.command()
def refresh(battery_file: Annotated[Path, typer.Argument(help="Battery file whose brackets are computed again.")]) -> int:
    """Computes every bracket of a battery file again (some minutes) and writes the file."""
    from audit import battery

    print(f"{battery.refresh(battery_file, told=lambda line: typer.echo(line, err=True))} cases")
    return 0


def _accountants(names: Sequence[str] | None) -> list[tuple[str, Accountant]]:
    from audit import subjects

    _look_here(names or ())
    return [(name, subjects.subject(name)) for name in (names or USUAL)]


def _look_here(names: Sequence[str]) -> None:
    """Lets `module:object` name a file of the working directory; last on the path, so that it hides nothing."""
    if any(":" in name for name in names) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def _caveat(accountant: Accountant) -> str:
    """What to say of a budget that is kept by figures which are no upper bound."""
    from audit.subjects import side_of

    side = side_of(accountant)
    return "" if side == "upper" else f"{'a lower bound' if side == 'lower' else 'an estimate'}: the budget may be exceeded"


def _dp_sgd(noise_multiplier: float, rate: float, count: int) -> DpSgd:
    from audit.core.mechanism import DpSgd

    return DpSgd(noise_multiplier=noise_multiplier, clip_norm=1.0, sample_rate=rate, steps=count)


def _relation(name: str) -> Adjacency:
    from audit.core.mechanism import Adjacency

    if name not in list(Adjacency):
        raise ConfigError(f"--adjacency is '{name}'; expected one of {', '.join(Adjacency)}")
    return Adjacency(name)


def _chosen(case: Any, groups: Sequence[str] | None, texts: Sequence[str] | None) -> bool:
    return (not groups or case.group in groups) and (not texts or any(text in case.id for text in texts))


def _draw_epsilon(
    path: Path, accountants: list[tuple[str, Accountant]], mechanism: DpSgd, delta: float, relation: Adjacency
) -> None:
    from audit.calibration import trajectory
    from audit.commands import accountant_files
    from reports.accountant_figures import epsilon_over_steps

    curves = {}
    for name, one in accountants:
        try:
            found = trajectory(one, mechanism, delta=delta, adjacency=relation, points=25)
        except UnsupportedMechanism:
            continue  # the table says so
        curves[name] = (found.steps, found.epsilon)
    accountant_files.write_figure(path, epsilon_over_steps(curves, delta))


def _telling(spec: str) -> Any:
    def told(case: Any) -> None:
        typer.echo(f"  {spec}: {case.id}", err=True)

    return told


def _tick(total: int) -> Any:
    """A progress line on stderr, where that is a terminal."""
    if not sys.stderr.isatty():
        return None
    seen = [0]

    def told(result: Any) -> None:
        seen[0] += 1
        end = "\n" if seen[0] == total else "\r"
        print(f"{seen[0]}/{total} {result.case.id[:60]:60}", end=end, file=sys.stderr, flush=True)

    return told


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=180)
    console.print(title, highlight=False, markup=False)
    if not rows:
        return
    table = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column in ("case", "accountant"))
    for row in rows:
        table.add_row(*(str(cell).replace("[", "\\[") for cell in row))
    console.print(table)


def _print_json(found: dict[str, Any]) -> int:
    def finite(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        if isinstance(value, dict):
            return {name: finite(one) for name, one in value.items()}
        return [finite(one) for one in value] if isinstance(value, list | tuple) else value

    print(json.dumps(finite(found), indent=1))
    return 0


def _bound(value: float | None, side: str = "upper") -> str:
    """Four digits after the point: claims rounded up, lower bounds down, estimates to the nearest."""
    if value is None:
        return "-"
    return {"upper": up, "lower": down, "estimate": near}[side](value, DIGITS)


def _plain(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"


def _factor(value: float | None, truth: float) -> str:
    return "-" if value is None or truth <= 0 or not math.isfinite(truth) else f"{value / truth:.3f}"
