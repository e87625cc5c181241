"""A report of very many trainings: pages for the gravest, a row for each, and seconds instead of minutes."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

import reports
from audit.core.claims import Outcome
from audit.core.results import AuditReport
from reports import answer
from reports.formats import figures
from reports.formats.json import from_json, to_json
from reports.pages.blocks import Paragraph, Table
from reports.pages.document import sections
from tests.reports import sample


def many(count: int) -> AuditReport:
    """`count` consistent trainings, and as the last a refuted one."""
    report = sample.run(Outcome.VIOLATED)
    consistent = (replace(sample.dp_sgd(), name=f"t{i}") for i in range(count))
    return replace(report, mechanisms=(*consistent, replace(sample.dp_sgd(Outcome.VIOLATED), name="refuted")))


def test_a_report_of_few_trainings_has_pages_for_each() -> None:
    report = sample.run()
    assert answer.paged_trainings(report) == tuple(sorted(report.mechanisms, key=lambda training: not training.claims))


def test_the_gravest_of_many_trainings_have_pages_and_the_rest_are_counted() -> None:
    report = many(100)
    paged_trainings = answer.paged_trainings(report)
    games = sum(len(training.games) for training in paged_trainings)
    assert "refuted" in [training.name for training in paged_trainings]  # the only refuted one, which is the last
    assert len(paged_trainings) <= games == answer.MOST_GAMES
    pages = sections(report)
    names = {plan.name for plan in figures.planned(report).values() if plan.name.startswith("roc.")}
    assert 0 < len(names) <= answer.MOST_GAMES
    blocks = [block for page in pages for block in page.blocks]
    said = [block.text for block in blocks if isinstance(block, Paragraph) and "101 trainings" in str(block.text)]
    assert said == [
        f"Pages and drawings show the gravest {len(paged_trainings)} of 101 trainings, {games} of "
        f"{sum(len(training.games) for training in report.mechanisms)} games; report.json holds all."
    ]
    assert sum(len(training.games) for training in report.mechanisms) in [
        len(block.rows) for block in blocks if isinstance(block, Table)
    ]


def test_a_training_of_many_games_has_pages_for_the_first() -> None:
    report, training = sample.run(), sample.dp_sgd()
    games = tuple(replace(training.games[0], name=f"g{i}") for i in range(90))
    paged_trainings = answer.paged_trainings(replace(report, mechanisms=(replace(training, games=games),)))
    assert [len(result.games) for result in paged_trainings] == [answer.MOST_GAMES]


def test_many_trainings_are_laid_out_in_seconds() -> None:
    report = many(400)
    begin = time.process_time()
    sections(report)
    assert time.process_time() - begin < 5  # 147 s for 1,200 when the whole report was hashed for each


@pytest.mark.slow
def test_many_trainings_are_written_in_every_usual_format() -> None:
    begin = time.process_time()
    files = reports.render(from_json(to_json(many(300))))
    assert time.process_time() - begin < 25
    assert len(files) < 200
