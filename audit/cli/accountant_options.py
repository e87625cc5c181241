"""What the calculators of `audit accountant` have in common: the event that is asked about, and who is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.core.errors import ConfigError
from audit.core.rounding import down, near, up

if TYPE_CHECKING:
    from audit.core.adjacency import Adjacency
    from audit.core.events import Event

DIGITS = 4
EventText = Annotated[
    str | None,
    typer.Argument(
        metavar="[EVENT]",
        help="Mechanism: an expression such as 'dp_sgd(1.0, 0.01, 1000) + 20 * Laplace(10)'; a JSON or YAML file with an "
        "event, an Opacus history, a dp-accounting event or jax-privacy parameters; a training config, by path or name.",
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--accountant", "-a", help="Accountant: name, name,field=value or module:object; may repeat. Default: the usual ones."
    ),
]
Noise = Annotated[float | None, typer.Option(help="In place of EVENT: noise multiplier of DP-SGD, std over clip norm.")]
Rate = Annotated[float | None, typer.Option(help="In place of EVENT: probability that a record takes part in a step.")]
Steps = Annotated[int | None, typer.Option(help="In place of EVENT: number of noisy steps that are released.")]
Phases = Annotated[
    list[str] | None, typer.Option("--phase", help="In place of EVENT: noise,rate,steps of a phase of DP-SGD; may repeat.")
]
Training = Annotated[str, typer.Option("--mechanism", help="Name of the training, where a config has several.")]
Delta = Annotated[float, typer.Option(help="Delta of every epsilon.")]
Relation = Annotated[str, typer.Option(help="Neighbouring data sets: add_remove, replace_one or zero_out.")]
Group = Annotated[int, typer.Option(min=1, help="Number of records that change together.")]
Plot = Annotated[Path | None, typer.Option(help="Draw the curve to this SVG or PNG file.")]


def parse_event(
    text: str | None,
    numbers: Mapping[str, float | None],
    *,
    constants: Mapping[str, float] | None = None,
    phases: Sequence[str] | None = None,
    training: str = "",
) -> Event:
    """Return the one event that the arguments of a command describe; `ConfigError` for none, several, or half of one.

    Args:
        numbers: by the options of DP-SGD that the command has; `constants` are the others, which it sets itself.
        phases: noise, rate and steps of each phase; None if the command has no such option.
    """
    from audit.api.event_sources import read_event
    from audit.core.events import Composed, dp_sgd

    forms = [text is not None, bool(phases), any(value is not None for value in numbers.values())]
    *peers, last = numbers
    names = f"{', '.join(peers)} and {last}"
    if sum(forms) != 1:
        or_phases = "" if phases is None else ", or --phase noise,rate,steps"
        raise ConfigError(f"a mechanism is an EVENT, or {names}{or_phases}; expected one of these, here are {sum(forms)}")
    if text is not None:
        return read_event(text, mechanism=training)
    if phases:
        parts = tuple(_phase(phase) for phase in phases)
        return parts[0] if len(parts) == 1 else Composed(parts=parts)
    gaps = [name for name, value in numbers.items() if value is None]
    if gaps:
        raise ConfigError(f"{' and '.join(gaps)} missing: DP-SGD needs {names}")
    noise, rate, steps = ({**numbers, **(constants or {})}[name] for name in ("--noise", "--rate", "--steps"))
    return dp_sgd(noise_multiplier=noise, clip_norm=1.0, sample_rate=rate, steps=steps)  # type: ignore[arg-type]


def _phase(text: str) -> Event:
    from audit.core.events import dp_sgd

    try:
        noise, rate, steps = (float(value) for value in text.split(","))
    except ValueError as error:
        raise ConfigError(f"--phase is '{text}'; expected noise,rate,steps such as 1.0,0.01,1000") from error
    return dp_sgd(noise_multiplier=noise, clip_norm=1.0, sample_rate=rate, steps=int(steps) if steps == int(steps) else steps)  # type: ignore[arg-type]


def find_relation(name: str) -> Adjacency:
    from audit.core.adjacency import Adjacency

    return Adjacency.by_name(name, "--adjacency")


def bound(value: float | None, side: str = "upper") -> str:
    """Return four digits after the point: claims rounded up, lower bounds down, estimates to the nearest."""
    if value is None:
        return "-"
    return {"upper": up, "lower": down, "estimate": near}[side](value, DIGITS)


def factor(value: float | None, truth: float) -> str:
    """Return a claim over the truth, "-" if either is missing."""
    return "-" if value is None or truth <= 0 or not math.isfinite(truth) else f"{value / truth:.3f}"


def truth_text(lower: float, upper: float, doubt: str) -> str:
    """Return the bracket on the truth in words, or why there is none."""
    return doubt or f"the truth lies in [{down(lower, DIGITS)}, {up(upper, DIGITS)}]"
