"""`reports.figures`: each figure of a report by its own function, with the caption that says what its lines are."""

from __future__ import annotations

import pytest

from audit.core.errors import ConfigError
from reports import figures
from reports.formats.figures import planned
from reports.words.language import speaking
from tests.reports import sample


@pytest.mark.parametrize("name", figures.__all__)
def test_each_function_returns_its_figure_or_says_that_there_is_none(name: str) -> None:
    report = sample.run()
    draw = getattr(figures, name)
    if any(plan == name or plan.startswith(f"{name}.") for plan in planned(report)):
        figure = draw(report)
        assert figure.axes and figure.get_label() in {plan.caption for plan in planned(report).values()}
    else:
        with pytest.raises(ConfigError, match=f"has no figure '{name}'; it has: overview"):
            draw(report)


def test_a_figure_of_a_training_and_a_game_is_the_one_asked_for() -> None:
    report = sample.run()
    caption = figures.roc(report, "dp_sgd", "white_box").get_label()
    assert caption.startswith("dp_sgd, white_box") and "confidence" in caption and "chance" in caption
    with pytest.raises(ConfigError, match="no figure 'roc', training 'dp_sgd', game 'absent'"):
        figures.roc(report, "dp_sgd", "absent")
    with pytest.raises(ConfigError, match="no figure 'budget', training 'non_private'"):
        figures.budget(report, "non_private")


def test_the_words_follow_the_language() -> None:
    with speaking("zh"):
        figure = figures.roc(sample.run())
    assert "随机水平" in figure.get_label() and "假阳性率" in {axes.get_xlabel() for axes in figure.axes}
