"""The budget ledger as a drawing and a table: what was spent after each release, against what may be spent."""

import math
from typing import Any

import numpy as np

from audit.core.provenance import BudgetLedger
from reports.figures import _plots
from reports.figures._plots import Plan
from reports.pages.blocks import Block, Paragraph, Strong, Table, Tone, layout
from reports.words import named
from reports.words.language import at_delta, count, down, elide, epsilon, many, power, say, up
from reports.words.phrases import figure_block

NAME = _plots.file_name("ledger")
_LETTERS = 16
_MOST_LABELS = 12


def plan(book: BudgetLedger) -> Plan:
    """The trajectory figure with its words."""
    total = book.releases[-1].epsilon if book.releases else 0.0
    return Plan(
        name=NAME,
        caption=say("ledger.privacy_budget_of_these_data", many=many("noun.release", len(book.releases))),
        alt=say(
            "ledger.step_chart_over_releases_at",
            count=count(len(book.releases)),
            power=power(book.delta),
            up=up(total),
            up_2=up(book.budget),
        ),
        height_mm=60,
        paint=lambda figure: _paint(figure, book),
    )


def trajectory(book: BudgetLedger) -> tuple[bytes, bytes]:
    """SVG and PNG of the figure on its own."""
    figure = plan(book)
    return _plots.draw(figure.height_mm, figure.paint)


def _paint(figure: Any, book: BudgetLedger) -> None:
    axes = figure.add_axes((0.075, 0.4, 0.8, 0.56))
    epsilons = np.array([0.0, *(release.epsilon for release in book.releases)])
    # an infinite epsilon has no height, so the line ends before it
    drawn_epsilons = np.where(np.isfinite(epsilons), epsilons, np.nan)
    places = np.arange(len(epsilons))
    axes.step(
        [*places, len(epsilons)],  # one step more, so that the last release has a width
        [*drawn_epsilons, drawn_epsilons[-1]],
        where="post",
        color=_plots.COLOURS[Tone.CLAIM],
        linewidth=1.5,
    )
    axes.plot(places[1:], drawn_epsilons[1:], "o", color=_plots.COLOURS[Tone.CLAIM], markersize=3)
    axes.axhline(book.budget, color=_plots.COLOURS[Tone.CHANCE], linewidth=1.0, linestyle="--")
    top = max([book.budget, *(epsilon for epsilon in epsilons if math.isfinite(epsilon))])
    axes.text(
        1.01,
        book.budget,
        say("ledger.budget", up=up(book.budget)),
        transform=axes.get_yaxis_transform(),
        va="center",
        fontsize=7.5,
    )
    axes.set_xlim(0, max(len(book.releases) + 0.5, 1))
    axes.set_ylim(0, top * 1.12)
    axes.set_ylabel(say("bar.at", power=power(book.delta)))
    stride = max(1, math.ceil(len(book.releases) / _MOST_LABELS))
    labels = list(range(0, len(book.releases), stride))
    names = [elide(book.releases[place].name, _LETTERS) for place in labels]
    axes.set_xticks([place + 1 for place in labels], names, rotation=30, ha="right", fontsize=7)
    _plots.grid(axes, "y")


def blocks(book: BudgetLedger, drawing: Plan) -> tuple[Block, ...]:
    """The section of a report: a sentence, the figure, every release."""
    total = book.releases[-1].epsilon if book.releases else 0.0
    budget_rest = max(0.0, book.budget - total)
    over = "" if total <= book.budget else say("ledger.the_budget_is_exceeded")
    sentence = say(
        "ledger.all_releases_about_these_data",
        epsilon=epsilon(up(total)),
        at_delta=at_delta(book.delta),
        adjacency=named.adjacency(book.adjacency),
        up=up(book.budget),
        down=down(budget_rest),
        over=over,
        accountant=book.accountant,
    )
    columns = layout("ledger.when:0.2 ledger.release:0.22 ledger.what:0.43 >ledger.so_far:0.15")
    rows = tuple(
        (
            release.when or say("ledger.not_recorded"),
            release.name,
            f"{release.mechanism}{f'; {release.note}' if release.note else ''}",
            up(release.epsilon),
        )
        for release in book.releases
    )
    table = Table(caption=say("ledger.releases_in_their_order_is"), columns=columns, rows=rows)
    return (Paragraph(text=(Strong(say("ledger.budget_2")), sentence)), figure_block(drawing), *((table,) if rows else ()))
