"""The figures of a report as matplotlib figures, one function each; drawn once for all formats.

Each returns the figure as the documents show it, in the style of the reports; `figure.get_label()` is its caption, which
says what bands and lines represent and where chance is. Colours mean the same in all: blue a claim, red a measurement, grey
chance and ceilings. Inside `reports.words.language.speaking("zh")` the words are Chinese.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from audit.core.errors import ConfigError
from audit.core.results import AuditReport
from audit.core.rounding import decimals

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["access", "budget", "evidence", "ledger", "overview", "parties", "roc", "scores", "utility"]


def overview(report: AuditReport) -> Figure:
    """Return what is proven of each game against what is claimed and what could have been proven.

    Raises:
        ConfigError: no bound was computed.
    """
    return _figure(report, "overview")


def roc(report: AuditReport, training: str | None = None, game: str | None = None) -> Figure:
    """Return the ROC of a game's leading attack on log axes, with its band, beside the trade-off of its two errors.

    Args:
        training, game: their names; None takes the first that has such a figure.

    Raises:
        ConfigError: there is no such training or game, or no attack was run in it.
    """
    return _figure(report, "roc", training, game)


def scores(report: AuditReport, training: str | None = None, game: str | None = None) -> Figure:
    """Return the outlines of member and nonmember scores of a game; arguments and errors as for `roc`."""
    return _figure(report, "scores", training, game)


def evidence(report: AuditReport, training: str | None = None, game: str | None = None) -> Figure:
    """Return the e-values against each claim over the models of a game that could stop early; arguments as for `roc`."""
    return _figure(report, "evidence", training, game)


def budget(report: AuditReport, training: str | None = None) -> Figure:
    """Return claimed and proven epsilon over the steps of a training; None takes the first that accountants cover.

    Raises:
        ConfigError: there is no such training, or no accountant covers it.
    """
    return _figure(report, "budget", training)


def access(report: AuditReport, training: str | None = None) -> Figure:
    """Return what each adversary can show of a training, by its access; if attacks at two kinds of access were run."""
    return _figure(report, "access", training)


def parties(report: AuditReport) -> Figure:
    """Return the promise to each party of a training and each party's proof, if several parties look at one training."""
    return _figure(report, "parties")


def utility(report: AuditReport) -> Figure:
    """Return what each training is good for, with the spread over its models."""
    return _figure(report, "utility")


def ledger(report: AuditReport) -> Figure:
    """Return the budget of the data over all releases, if the report holds a ledger."""
    return _figure(report, "ledger")


def _figure(report: AuditReport, kind: str, training: str | None = None, game: str | None = None) -> Figure:
    from reports.figures._plots import draw_figure, file_name
    from reports.formats.figures import planned
    from reports.words.translation import translated

    local = translated(report)
    plans = planned(local)
    pairs = [(result.name, row.name) for result in local.mechanisms for row in result.games]
    pairs += [(result.name, "") for result in local.mechanisms]
    names = [kind, *(file_name(kind, *(part for part in pair if part)) for pair in pairs if _fits(pair, training, game))]
    plan_name = next((name for name in names if name in plans), None)
    if plan_name is None:
        requested = "".join(f", {word} '{name}'" for word, name in (("training", training), ("game", game)) if name is not None)
        raise ConfigError(f"the report has no figure '{kind}'{requested}; it has: {', '.join(plans) or 'none'}")
    with decimals(report.places):
        figure = draw_figure(plans[plan_name].height_mm, plans[plan_name].paint)
    figure.set_label(plans[plan_name].caption)
    return figure


def _fits(pair: tuple[str, str], training: str | None, game: str | None) -> bool:
    return training in (None, pair[0]) and (game is None or game == pair[1])
