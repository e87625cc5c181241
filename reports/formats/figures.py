"""Which drawings a report has: blue is a claim, red a measurement, grey chance and ceilings, in every one of them."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from audit.core.results import AuditReport
from audit.core.rounding import decimals
from reports import answer, headline, parties
from reports.figures import _bounds, _costs, _evidence, _ledger, _parties, _plots, _scores, _utility
from reports.figures._plots import Drawing, Plan
from reports.words.report_cache import once_per_report
from reports.words.translation import translated


class Figures:
    """Renders figures/<name>.svg and figures/<name>.png."""

    has_words: ClassVar[bool] = True

    def render(self, report: AuditReport) -> Mapping[str, bytes]:
        """Each drawing of the report under both names."""
        files = {}
        for drawing in drawings(translated(report)).values():
            files[f"figures/{drawing.name}.svg"] = drawing.svg
            files[f"figures/{drawing.name}.png"] = drawing.png
        return files


@once_per_report
def planned(report: AuditReport) -> Mapping[str, Plan]:
    """The figures of the report by name, with their words in the current language, before anything is drawn."""
    with decimals(report.places):
        return {plan.name: plan for plan in plans(report)}


@once_per_report
def drawings(report: AuditReport) -> Mapping[str, Drawing]:
    """All drawings of the report by name, in the current language; each drawn once for all formats."""
    images = {}
    with decimals(report.places):
        for plan in planned(report).values():
            figure = _plots.draw_figure(plan.height_mm, plan.paint)
            images[plan.name] = Drawing(name=plan.name, caption=plan.caption, alt=plan.alt, figure=figure)
    return images


def plans(report: AuditReport) -> Iterator[Plan]:
    """The figures in the order of the pages."""
    if any(game.bounds for game in report.games):
        yield _bounds.overview(report)
    if parties.of_report(report):
        yield _parties.plan(report)
    for mechanism in answer.paged_trainings(report):
        if mechanism.trajectories:
            yield _bounds.budget(report, mechanism)
        if len(headline.levels(mechanism)) > 1:
            yield _bounds.access(mechanism)
        for game in mechanism.games:
            if game.watched is not None and game.watched.evidence:
                yield _evidence.evidence(mechanism, game, game.watched)
            if game.attacks and game.game.choices == 1:
                yield _scores.roc(mechanism, game)
                yield _scores.scores(mechanism, game)
    if any(mechanism.utility for mechanism in report.mechanisms):
        yield _utility.utility(report)
    yield from (_costs.plan(sheet) for sheet in report.costs if _costs.is_drawn(sheet))
    if report.ledger is not None:
        yield _ledger.plan(report.ledger)


PLUGIN = Figures
