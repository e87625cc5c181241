"""`audit ledger`: what was released about a data set over time, what it costs together, and what still fits."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.cli import ledger_history
from audit.cli.printing import AsJson, print_json, print_plain, print_result
from audit.core.errors import ConfigError
from audit.core.rounding import down, plural, up

if TYPE_CHECKING:
    from audit.accounting.ledger import Ledger, Release
    from audit.core.events import Event

app = typer.Typer(
    help="Keep a privacy budget: releases over time in a file, composed by an accountant. "
    "Exit code 1 if a release would exceed the budget.",
    no_args_is_help=True,
)
app.command()(ledger_history.sign)
app.command()(ledger_history.verify)
DIGITS = 4
File = Annotated[str, typer.Argument(metavar="FILE", help="File of the ledger.")]
Noise = Annotated[float | None, typer.Option(help="For a training: noise multiplier of DP-SGD.")]
Rate = Annotated[float | None, typer.Option(help="For a training: probability that a record takes part in a step.")]
Steps = Annotated[int | None, typer.Option(help="For a training: number of noisy steps.")]
Records = Annotated[int | None, typer.Option(help="For a metric (a mean of values in [0, 1]): number of private records.")]
Scale = Annotated[float | None, typer.Option(help="For a metric: scale of its Laplace noise.")]
Times = Annotated[int, typer.Option(help="Number of repetitions: trials of a search, epochs that are measured.")]
EventText = Annotated[
    str | None,
    typer.Option(
        "--event",
        help="For anything else: a file with an event, an Opacus history, a training config, a report.json; or an expression.",
    ),
]
Training = Annotated[str, typer.Option("--mechanism", help="Name of the training, where a config or report has several.")]
Groups = Annotated[
    list[str] | None, typer.Option("--group", help="Group of persons whose data it uses; may repeat. Default: everybody's.")
]


@app.command()
def create(
    file: File,
    budget: Annotated[float, typer.Option(help="Epsilon that may be spent in total.")],
    delta: Annotated[float, typer.Option(help="Delta of that epsilon.")] = 1e-5,
    adjacency: Annotated[str, typer.Option(help="Neighbouring data sets: add_remove, replace_one or zero_out.")] = "add_remove",
    accountant: Annotated[
        str, typer.Option("--accountant", "-a", help="Accountant that composes the releases (`audit ls accountants`).")
    ] = "reference",
) -> int:
    """Start an empty ledger."""
    from audit.accounting import ledger, ledger_database
    from audit.core.adjacency import Adjacency

    relation = Adjacency.by_name(adjacency, "--adjacency")
    book = ledger.Ledger(budget_epsilon=budget, delta=delta, adjacency=relation, accountant=accountant)
    book.ask()
    ledger_database.create(file, book)
    print_plain(f"{file}: epsilon {budget:g} at delta {delta:g} under {adjacency} may be spent")
    return 0


@app.command()
def record(
    file: File,
    name: Annotated[str, typer.Argument(help="Name of the release.")],
    noise: Noise = None,
    rate: Rate = None,
    steps: Steps = None,
    records: Records = None,
    scale: Scale = None,
    times: Times = 1,
    event: EventText = None,
    mechanism: Training = "",
    group: Groups = None,
    date: Annotated[str, typer.Option("--when", help="Time of the release in ISO 8601. Default: now.")] = "",
    note: Annotated[str, typer.Option(help="Note to keep with the release.")] = "",
    again: Annotated[bool, typer.Option("--again", help="It is a further release, though one like it is recorded.")] = False,
    as_json: AsJson = False,
) -> int:
    """Record a release. Exit code 1, and nothing is recorded, if it would exceed the budget.

    If the very same release (name, mechanism, note, groups) is there already, you are asked first; without a terminal, or with
    --json, that is an error unless --again is given.
    """
    from audit.accounting import ledger, ledger_database

    planned_event = _event((noise, rate, steps), (records, scale), (event, mechanism), times)
    release = ledger.Release(name=name, event=planned_event, when=_moment(date), note=note, groups=tuple(group or ()))
    if not again:
        _ask_if_recorded(ledger_database.load(file), release, as_json)
    ledger_database.record(file, release)
    book = ledger_database.read(file)
    if not as_json:
        print_plain(f"recorded as entry {len(book.hashes)}, and read again; the seal is {book.seal}")
    return _say(book.ledger, as_json, seal=book.seal)


def _ask_if_recorded(book: Ledger, release: Release, as_json: bool) -> None:
    """Ask before the same release spends twice, as a job that is run again would; refuse it without a terminal."""
    repeats = [row for row in book.releases if row.is_again(release)]
    if not repeats:
        return
    message = f"'{release.name}' with the same mechanism, note and groups was recorded at {repeats[-1].when}"
    if not as_json and sys.stdin.isatty() and typer.confirm(f"{message}. Is this a further release, which spends again?"):
        return
    raise ConfigError(f"{message}; nothing was recorded now. A further release of the same kind takes --again, or another name")


@app.command()
def plan(
    file: File,
    noise: Noise = None,
    rate: Rate = None,
    steps: Steps = None,
    records: Records = None,
    scale: Scale = None,
    times: Times = 1,
    event: EventText = None,
    mechanism: Training = "",
    group: Groups = None,
    as_json: AsJson = False,
) -> int:
    """Compute the total after a release and how often it still fits. Exit code 1 if it does not fit; records nothing."""
    from audit.accounting import ledger_database
    from audit.core.events import words

    planned_event = _event((noise, rate, steps), (records, scale), (event, mechanism), times)
    book = ledger_database.load(file)
    accountant = book.ask()
    total = book.total_claim(accountant, (planned_event,)).epsilon
    fits = book.affords(accountant, planned_event, group or ())
    repeats = book.most_repeats(accountant, planned_event, groups=group or (), limit=10_000)
    if as_json:
        before = book.total_claim(accountant).epsilon if book.releases else 0.0
        print_json({"fits": fits, "spent": before, "with_it": total, "budget": book.budget_epsilon, "times_that_fit": repeats})
    else:
        verdict, at_least = "fits" if fits else "does NOT fit", "at least " if repeats == 10_000 else ""
        print_plain(
            f"{words(planned_event)} {verdict}: it would bring the total to epsilon {up(total, DIGITS)} of "
            f"{book.budget_epsilon:g} at delta {book.delta:g}; it could be done {at_least}{repeats:,} times within the budget"
        )
    return 0 if fits else 1


@app.command()
def show(
    file: File,
    plot: Annotated[Path | None, typer.Option(help="Draw the budget over the releases to this SVG or PNG file.")] = None,
    as_json: AsJson = False,
) -> int:
    """List the releases with the total after each, and what is left. Exit code 1 if the budget is exceeded."""
    from audit.accounting import ledger, ledger_database

    book = ledger_database.load(file)
    if plot is not None:
        from audit.accounting.regression import files
        from reports.figures._ledger import trajectory

        files.write_figure(plot, trajectory(ledger.summary(book)))
    return _say(book, as_json)


@app.command()
def budget(
    file: File,
    epsilon: Annotated[float, typer.Argument(help="Epsilon that may be spent in total, from now on.")],
    note: Annotated[str, typer.Option(help="Reason, kept with the change.")],
    date: Annotated[str, typer.Option("--when", help="Time of the change in ISO 8601. Default: now.")] = "",
    as_json: AsJson = False,
) -> int:
    """Change the budget on purpose; the change and its reason stay in the ledger."""
    from audit.accounting import ledger_database

    return _say(ledger_database.change_budget(file, epsilon, moment=_moment(date), note=note), as_json)


@app.command()
def limit(
    file: File,
    name: Annotated[str, typer.Argument(help="Name of the limit.")],
    budget: Annotated[float, typer.Option(help="Epsilon that may be spent in total.")],
    note: Annotated[str, typer.Option(help="Reason, kept with the limit.")],
    delta: Annotated[float, typer.Option(help="Delta of that epsilon.")] = 1e-5,
    adjacency: Annotated[str, typer.Option(help="Neighbouring data sets: add_remove, replace_one or zero_out.")] = "add_remove",
    accountant: Annotated[str, typer.Option("--accountant", "-a", help="Accountant that composes the releases.")] = "reference",
    group: Annotated[str, typer.Option(help="Group of persons whose budget it is. Default: everybody.")] = "",
    date: Annotated[str, typer.Option("--when", help="Time of the change in ISO 8601. Default: now.")] = "",
    as_json: AsJson = False,
) -> int:
    """Change a ledger by a further budget: another claim about the same data, or the budget of a group of persons."""
    from audit.accounting import ledger_database
    from audit.accounting.ledger import Limit
    from audit.core.adjacency import Adjacency

    relation = Adjacency.by_name(adjacency, "--adjacency")
    further_budget = Limit(
        name=name, budget_epsilon=budget, delta=delta, adjacency=relation, accountant=accountant, group=group
    )
    return _say(ledger_database.set_limit(file, further_budget, moment=_moment(date), note=note), as_json)


def _event(
    training: tuple[float | None, float | None, int | None],
    metric: tuple[int | None, float | None],
    source: tuple[str | None, str],
    times: int,
) -> Event:
    """The one release that the options describe: a training, a metric, or whatever a file or an expression says."""
    from audit.accounting import ledger
    from audit.api.event_sources import read_event
    from audit.core.events import Repeated, dp_sgd

    groups: dict[str, Sequence[Any]] = {
        "--noise, --rate and --steps": training,
        "--records and --scale": metric,
        "--event": source[:1],
    }
    forms = [name for name, values in groups.items() if any(value is not None for value in values)]
    if len(forms) != 1 or any(value is None for value in groups[forms[0]]):
        raise ConfigError(f"a release is described by {'; or by '.join(groups)}: one of them, whole")
    if times < 1:
        raise ConfigError(f"--times is {times}; expected at least 1")
    noise, rate, steps = training
    records, scale = metric
    if records is not None and scale is not None:
        return ledger.accuracy_release("metric", records=records, scale=scale, times=times).event
    if noise is not None and rate is not None and steps is not None:
        example: Event = dp_sgd(noise_multiplier=noise, clip_norm=1.0, sample_rate=rate, steps=steps)
    else:
        example = read_event(source[0] or "", mechanism=source[1])
    return example if times == 1 else Repeated(mechanism=example, count=times)


def _moment(text: str) -> str:
    """The moment that was named, checked, or now."""
    if not text:
        return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"--when is '{text}'; expected ISO 8601, such as 2026-03-01 or 2026-03-01T12:00:00+00:00") from error
    return text


def _say(ledger: Ledger, as_json: bool, *, seal: str = "") -> int:
    from audit.accounting.ledger import summary

    book, limits = summary(ledger), [(row, ledger.total_spent(row)) for row in ledger.limits]
    total = book.releases[-1].epsilon if book.releases else 0.0
    remainder = max(0.0, book.budget - total)
    names = {"epsilon": "spent_after"}
    rows = [{names.get(name, name): value for name, value in asdict(release).items()} for release in book.releases]
    values = {"budget": book.budget, "delta": book.delta, "adjacency": str(book.adjacency), "accountant": book.accountant,
              "spent": total, "remaining": remainder, "releases": rows, "limits": [
                  {"name": row.name, "group": row.group, "budget": row.budget_epsilon, "delta": row.delta,
                   "adjacency": str(row.adjacency), "accountant": row.accountant, "spent": cost} for row, cost in limits
              ], **({"seal": seal} if seal else {})}  # fmt: skip
    lines = [
        f"{release.when:26} {up(release.epsilon, DIGITS):>10}  {release.name}: {release.mechanism}"
        f"{f' ({release.note})' if release.note else ''}"
        for release in book.releases
    ]
    spending = f"{up(total, DIGITS)} of {book.budget:g} at delta {book.delta:g} under {book.adjacency}"
    cost = f"{plural(len(book.releases), 'release')} cost epsilon {spending}"
    lines.append(f"{cost} ({book.accountant}); {down(remainder, DIGITS)} is left")
    for row, total_of_limit in limits:
        people = f" of the group '{row.group}'" if row.group else ""
        lines.append(
            f"limit '{row.name}'{people}: {up(total_of_limit, DIGITS)} of {row.budget_epsilon:g} at delta {row.delta:g} "
            f"under {row.adjacency} ({row.accountant})"
        )
    print_result(as_json, values, *lines)
    return 0 if total <= book.budget and all(cost <= row.budget_epsilon for row, cost in limits) else 1
