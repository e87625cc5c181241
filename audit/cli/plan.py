"""`audit plan`: the results that an audit can show and its costs, before it is run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.cli import canary_forms, own_code, plan_power
from audit.cli.printing import AsJson, print_json, print_plain, stdout_console
from audit.core.errors import ConfigError
from audit.core.rounding import down, up

if TYPE_CHECKING:
    from audit.config import Resolution
    from audit.core.claims import Claim
    from audit.core.plans import CeilingRow, RunPlan, Timing


MOST_PARAMETERS = 1 << 24  # of a model that a dry run makes and plays the games on


# One line for each game of a plan: whether it could refute what is claimed, before anything is trained.
def lines(plan: RunPlan) -> Iterator[str]:
    """Yield a sentence for each game of each training, in the order of the plan."""
    games = dict.fromkeys((row.mechanism, row.game) for row in plan.ceilings)
    for mechanism, game in games:
        rows = [row for row in plan.ceilings if (row.mechanism, row.game) == (mechanism, game)]
        yield f"{mechanism}, {game}: {_answer(plan.claims[mechanism], rows)}"


def _answer(claims: Sequence[Claim], rows: Sequence[CeilingRow]) -> str:
    best = max(rows, key=lambda row: row.ceiling)
    if not claims:
        return f"no claim to refute; could prove epsilon of up to {_kind(best)}"
    refutable = {claim: row for claim in claims if (row := _strongest(claim, rows)) and row.ceiling > claim.epsilon}
    remainder = [claim for claim in claims if claim not in refutable]
    parts = [f"can refute {_named(claim)} by {_kind(row)}" for claim, row in refutable.items()]
    if remainder:
        reason = (
            "an infinite claim asserts nothing"
            if all(math.isinf(claim.epsilon) for claim in remainder)
            else _explain_reach(remainder, rows)
        )
        parts.append(f"cannot refute {', '.join(_named(claim) for claim in remainder)}: {reason}")
    return "; ".join(parts)


def _strongest(claim: Claim, rows: Sequence[CeilingRow]) -> CeilingRow | None:
    """The row with the highest ceiling among those that speak of such a claim."""
    speaking = [row for row in rows if row.family in (None, claim.family)]
    return max(speaking, key=lambda row: row.ceiling, default=None)


def _explain_reach(claims: Sequence[Claim], rows: Sequence[CeilingRow]) -> str:
    """Return why none of these can be refuted."""
    strongest = [row for claim in claims if (row := _strongest(claim, rows)) is not None]
    if not strongest:
        return "no estimator of this game speaks of such a claim"
    row = max(strongest, key=lambda row: row.ceiling)
    return f"the most that perfect scores prove is {_kind(row)}; more canaries or runs prove more"


def _named(claim: Claim) -> str:
    return f"{up(claim.epsilon)} ({claim.source})"


def _kind(row: CeilingRow) -> str:
    inside = f" inside the family {row.family}" if row.family else ""
    return f"{down(row.ceiling)} ({row.estimator}{inside})"


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
    rehearse: Annotated[
        str | None, typer.Option(metavar="GAME", help="Try forms of canaries on rehearsals of this game; plan the best.")
    ] = None,
    canaries: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORM",
            help="A form to try, such as '{kind: clipbkd, norm: 2, count: 700}'; may repeat. Default: each kind that needs no "
            "key, at the game's count and twice that.",
        ),
    ] = None,
    rehearsals: Annotated[int, typer.Option(min=1, help="Rehearsals of each form, each with coins of its own.")] = 3,
    write: Annotated[
        Path | None, typer.Option(help="Write the config with the best form to this file, without a seed.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Print ceilings, power, error budget, time and cost of an audit before it is run."""
    from audit import config as configs

    if plot is not None and (not power or plot.suffix not in (".svg", ".png")):
        raise ConfigError(f"--plot {plot} draws the power as .svg or .png; give such a name, and leave out --no-power")
    if rehearse is None and (canaries or write):
        raise ConfigError("--canaries and --write belong to --rehearse GAME; name the game whose canaries are tried")
    forms: dict[str, Any] = {}
    resolution = configs.load(config, override or ())
    if rehearse is not None:
        request = canary_forms.Rehearse(game=rehearse, forms=tuple(canaries or ()), rehearsals=rehearsals, write=write)
        resolution, forms = request.choose(resolution, silent=as_json)
    target_power = violation if power else None
    return show(resolution, as_json=as_json, measure=measure, violation=target_power, plot=plot, forms=forms)


def show(
    config: Resolution,
    *,
    as_json: bool,
    measure: bool,
    violation: float | None = None,
    plot: Path | None = None,
    call_factory: bool = True,
    forms: Mapping[str, Any] = MappingProxyType({}),
) -> int:
    """The plan of a config on stdout; with `violation` its power, drawn to `plot`. A model's factory may stay uncalled.

    Args:
        forms: what rehearsals showed of forms of canaries; part of what `as_json` prints.
    """
    from audit.experiment.line.assemble import assemble
    from audit.experiment.plan.plan import make_plan

    with own_code.prints_aside():
        experiment = assemble(config.config, seed=0, call_factory=call_factory)
        most = math.inf if call_factory else MOST_PARAMETERS
        plan = make_plan(experiment, measure=measure, violation=violation, most_parameters=most)
    if plot is not None:
        plan_power.draw(plan.power, plot)
    if as_json:
        print_json({**plan.to_dict(), **forms})
    else:
        _print(plan)
    return 0


def _print(plan: RunPlan) -> None:
    """The plan as a table on stdout."""
    from rich.table import Table

    console = stdout_console()
    qualifier = "up to " if plan.stopping else ""
    console.print(
        f"{qualifier}{plan.models} models, {plan.model_steps:,} model-steps; {plan.bounds} bounds (an estimator states one "
        f"for each attack), each at confidence {plan.level:.4f}"
    )
    for name, claims in plan.claims.items():
        claims_text = ", ".join(f"{up(claim.epsilon)} ({claim.source})" for claim in claims) or "no claim"
        print_plain(f"{name}: {claims_text}")
    table = Table("mechanism", "game", "estimator", "family", "scores", "bounds", "most it could prove")
    for row in plan.ceilings:
        family, scores = row.family or "any", f"{row.scores:,}"
        table.add_row(row.mechanism, row.game, row.estimator, family, scores, str(row.bounds), down(row.ceiling))
    console.print(table)
    print_plain(*lines(plan))
    for stop in plan.stopping:
        console.print(f"{stop.mechanism}, {stop.game}: at most {stop.most_runs} runs; training stops at the first proof")
    print_plain(*plan.left_out)
    if plan.power:
        plan_power.show(plan.power, console)
    if plan.timing:
        _show_timing(plan.timing, console)
    if plan.peak_disk_bytes is None:
        console.print("disk: not known, because the model's factory is not called in a dry run (`audit plan` calls it)")
    else:
        console.print(f"at most {plan.peak_disk_bytes / 2**20:,.0f} MiB on disk")


def _show_timing(rows: Sequence[Timing], console: Any) -> None:
    from rich.table import Table

    table = Table("mechanism", "game", "models", "measured", "time")
    for row in rows:
        table.add_row(row.mechanism, row.game, str(row.models), f"{row.steps} steps x {row.together}", _duration(row.seconds))
    console.print(table)
    console.print(
        f"training: {_duration(sum(row.seconds for row in rows))} on this machine, one job after another; "
        "statistics and report come on top (certificates: 0 leaves out the simulated error rates, most of that)"
    )


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    return f"{hours:.1f} h" if hours >= 2 else f"{minutes:.0f} min" if minutes >= 2 else f"{seconds:.0f} s"
