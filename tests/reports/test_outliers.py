"""Records are named only if they differ from the others more than chance allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from audit.core.game_results import GameResult, RecordExposure
from reports import outliers
from reports.tables import game as game_tables
from tests.reports import sample


def _game(member_scores: np.ndarray, nonmember_scores: np.ndarray) -> GameResult:
    game = sample.model().mechanisms[0].games[0]
    roc = replace(game.attacks[0].roc, members=len(member_scores), nonmembers=len(nonmember_scores))
    scores = np.r_[member_scores, nonmember_scores]
    top = np.argsort(-scores, kind="stable")[:30]
    records = tuple(
        RecordExposure(
            record=f"r{i}",
            label="",
            score=float(scores[i]),
            rank=rank + 1,
            fpr=float(np.mean(nonmember_scores >= scores[i])),
            member=bool(i < len(member_scores)),
        )
        for rank, i in enumerate(top.tolist())
    )
    return replace(game, attacks=(replace(game.attacks[0], roc=roc),), records=records)


@pytest.mark.slow
def test_scores_that_show_nothing_name_nobody_too_often() -> None:
    generator = np.random.default_rng(7)
    named = 0
    for _ in range(100):
        result = outliers.target_outliers(_game(generator.normal(size=60), generator.normal(size=2000)))
        assert result is not None
        named += bool(result.records)
    assert named <= stats.binom.ppf(0.999, 100, outliers.SIGNIFICANCE)


def test_members_that_stand_out_are_named_and_no_nonmember_is() -> None:
    generator = np.random.default_rng(8)
    members = np.r_[np.full(10, 9.0), generator.normal(size=50)]
    result = outliers.target_outliers(_game(members, generator.normal(size=2000)))
    assert result is not None and {item.score for item, _ in result.records} == {9.0}
    assert all(item.member and above == 0 for item, above in result.records) and len(result.records) == 10


def test_games_of_several_targets_have_no_one_rank() -> None:
    game = _game(np.ones(5), np.zeros(5))
    assert outliers.target_outliers(replace(game, game=replace(game.game, runs=2))) is None


def test_the_tail_is_that_of_the_binomial() -> None:
    for trials, probability in ((5, 0.3), (40, 0.025), (3000, 0.01)):
        for successes in (0, 1, 4, trials):
            expected = stats.binom.sf(successes - 1, trials, probability)
            assert np.isclose(outliers.tail(successes, trials, probability), expected, rtol=1e-8, atol=1e-300)


def test_a_column_without_a_label_is_left_out_of_the_table() -> None:
    """Texts have none."""
    member = RecordExposure(record="ab12", label="", score=6.0, rank=1, fpr=0.0, member=True)
    for label, width in (("", 3), ("ward", 4)):
        stand_out = outliers.Outliers(records=((replace(member, label=label), 0),), tested=100, nonmembers=100)
        table = game_tables.records(stand_out)
        assert len(table.columns) == width == len(table.rows[0])
