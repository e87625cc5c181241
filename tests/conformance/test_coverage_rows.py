"""Every class of attack in the report's list: its own title, and each game in one of them."""

from __future__ import annotations

import pytest

from audit import plugins
from audit.experiment.line.report import attack_classes, coverage
from tests.reports import sample

PACKAGE = plugins.FOLDERS["coverage"]
GAMES = [game for report in (sample.run(), sample.model()) for result in report.mechanisms for game in result.games]


@pytest.mark.parametrize("name", plugins.names(PACKAGE))
def test_what_no_game_covers_is_listed(name: str) -> None:
    row = plugins.build(PACKAGE, {"kind": name})
    (listed,) = coverage([], [row])
    assert (listed.attack_class, listed.done, listed.status) == (row.attack_class, *row.absent) and listed.status != "run"


def test_each_game_is_of_one_class() -> None:
    assert GAMES
    assert all(sum(row.covers(game) for row in attack_classes()) == 1 for game in GAMES)


def test_titles_and_positions_are_all_different() -> None:
    rows = plugins.in_order(PACKAGE).values()
    assert len({row.position for row in rows}) == len({row.attack_class for row in rows}) == len(rows)
