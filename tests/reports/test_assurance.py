"""What simulation says of a game, in words."""

from __future__ import annotations

import math
from dataclasses import replace

from audit.core.claims import Certificate
from audit.core.game import Inclusion
from reports.pages import training
from reports.pages.blocks import Missing, Paragraph
from tests.reports import sample


def words(block: object) -> str:
    assert isinstance(block, Paragraph)
    parts = block.text if isinstance(block.text, tuple) else (block.text,)
    return "".join(part if isinstance(part, str) else part.text for part in parts).replace("\xa0", " ")


def test_both_figures_are_said_with_their_numbers() -> None:
    game = sample.black_box(1, 1.0, 2.5, 1.5)
    caught, wrong = (words(block) for block in training.simulation_blocks(game))
    assert "80 % probability" in caught and "6.31 by one_run against ε ≤ 2.50" in caught
    assert "1.07 by gaussian inside the family" in caught and "for the proof of any leakage" in caught
    assert "From 25 or more simulated audits at each ε, which show that probability to 16 percentage points" in caught
    assert "1 of 200 simulated audits of scores that show nothing" in wrong
    assert "3 of 100 simulated audits of randomised response with ε = 1" in wrong
    assert "At most 3.0 % and 1.5 % is promised" in wrong
    assert "(99 % limits on that rate: 0.0 % to 3.7 %)" in wrong and "searched for" not in wrong
    assert "do not rely" not in wrong


def test_the_limit_by_the_few_searched_bounds_stands_beside_that_by_all_tests() -> None:
    """None of 200, of which 10 were searched: Clopper and Pearson at 99 % give 2.6 % and 41.1 %."""
    game = sample.black_box(1, 1.0, 2.5, 1.5)
    few = replace(game.certificates[0], wrong=0, lower=0.0, upper=0.4113)
    _, wrong = (words(block) for block in training.simulation_blocks(replace(game, certificates=(few,))))
    assert "(99 % limits on that rate: 0.0 % to 2.6 %; to 41.1 % by those whose bounds were searched for)" in wrong


def test_what_cannot_be_caught_and_what_is_wrong_too_often_is_said() -> None:
    game = replace(
        sample.black_box(1, 1.0, 2.5, 1.5),
        detectable=(sample.detectable("one_run", math.inf, 8.0),),
        certificates=(
            Certificate(law="nothing leaks", epsilon=0.0, wrong=40, repetitions=100, nominal=0.05, lower=0.27, upper=0.53),
        ),
    )
    caught, wrong = (words(block) for block in training.simulation_blocks(game))
    assert "by one_run nothing at all against ε ≤ 8.00" in caught
    assert "40 of 100" in wrong and "do not rely on these bounds" in wrong


def test_what_was_not_simulated_is_named_and_splits_say_nothing() -> None:
    game = replace(sample.black_box(1, 1.0, 2.5, 1.5), detectable=(), certificates=())
    assert [type(block) for block in training.simulation_blocks(game)] == [Missing, Missing]
    split = replace(game, game=replace(game.game, inclusion=Inclusion.SPLIT))
    assert training.simulation_blocks(split) == []
