"""Public bounds from guesses of secrets: inputs accepted, inputs refused, and the results."""

from __future__ import annotations

import numpy as np
import pytest

import audit


def test_guesses_of_one_run() -> None:
    draw = np.random.default_rng(0)
    drawn = draw.integers(4, size=500)
    scores = draw.normal(size=(500, 4)) + 2 * np.eye(4)[drawn]
    plain = audit.secret_lower_bound(scores, drawn, delta=1e-5)
    assert 0.5 < plain.epsilon < plain.ceiling and plain.game.choices == 4
    assert audit.secret_lower_bound(scores, drawn, delta=1e-5, prior=np.full(4, 0.25)) == plain
    strong = np.where(np.eye(4)[drawn] == 1, 0.7, 0.1)
    assert audit.secret_lower_bound(scores, drawn, delta=1e-5, prior=strong).epsilon < plain.epsilon
    with pytest.raises(audit.AssumptionError, match="conversion: group"):
        audit.secret_lower_bound(scores, drawn, delta=1e-5, adjacency="add_remove")
    converted = audit.secret_lower_bound(scores, drawn, delta=1e-5, adjacency="add_remove", conversion="group")
    assert 0 < converted.epsilon < 0.51 * plain.epsilon


def test_right_answers_of_independent_trials() -> None:
    any_mechanism = audit.reconstruction_bound(90, 100, 0.1, delta=1e-5)
    replaced = audit.reconstruction_bound(90, 100, 0.1, delta=1e-5, adjacency="replace_one")
    gaussian = audit.reconstruction_bound(90, 100, 0.1, delta=1e-5, family="gdp")
    assert 1.5 < any_mechanism.epsilon < replaced.epsilon < gaussian.epsilon
    assert gaussian.family == "gdp" and gaussian.parameter is not None and any_mechanism.family is None
    assert audit.reconstruction_bound(12, 100, 0.1, delta=1e-5).epsilon == 0


@pytest.mark.parametrize(
    ("scores", "drawn", "message"),
    [
        ([1.0, 2.0], [0, 1], "a row for each secret"),
        ([[1.0, 2.0]], [2], "from 0 to 1"),
        ([[1.0, 2.0]], [0.5], "from 0 to 1"),
        ([[1.0, np.nan]], [0], "NaN"),
    ],
)
def test_scores_that_are_none(scores: list[list[float]], drawn: list[float], message: str) -> None:
    with pytest.raises(audit.DataError, match=message):
        audit.secret_lower_bound(scores, drawn, delta=1e-5)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ([0.2, 0.3, 0.5], "shape \\(3,\\) for scores of shape \\(4, 2\\)"),
        ([[0.5], [0.5], [0.5], [0.5]], "shape \\(4, 1\\)"),
        (["a", "b"], "cannot be read as numbers"),
        ([[0.5, 0.5], [1.0]], "prior is .*; expected an array"),
        ([0.0, 1.0], "drawn value of 2 secrets has chance 0, the first is secret 1"),
        ([1.0, 1e-300 - 1e-300], "drawn value of 2 secrets has chance 0, the first is secret 0"),
    ],
)
def test_priors_that_contradict_what_was_drawn(prior: list, message: str) -> None:
    scores, drawn = np.eye(2)[[1, 0, 1, 0]], np.array([1, 0, 1, 0])
    with pytest.raises(audit.AuditError, match=message):
        audit.secret_lower_bound(scores, drawn, delta=1e-5, prior=prior)
    with pytest.raises(audit.DataError, match="scores cannot be read"):
        audit.secret_lower_bound([["a", "b"]], [0], delta=1e-5)
    with pytest.raises(audit.ConfigError, match=r"drawn is .*; expected an array"):
        audit.secret_lower_bound(scores, [[1], [1, 2]], delta=1e-5)


def test_counts_that_are_none() -> None:
    impossible = ((3, 2, 0.1), (-1, 2, 0.1), (0, 0, 0.1), (1, 2, 0.0), (1, 2, 1.0), (1.5, 2, 0.1), (1, np.inf, 0.1))
    impossible += (
        (10**18, 10**18, 0.1),
        (1, 10**400, 0.1),
        (1, 2, 1e-320),
    )  # a limit that is rounded to 1 would prove an infinite epsilon
    for successes, trials, baseline in impossible:
        with pytest.raises(audit.ConfigError):
            audit.reconstruction_bound(successes, trials, baseline, delta=1e-5)
    with pytest.raises(audit.ConfigError, match="family"):
        audit.reconstruction_bound(1, 2, 0.5, delta=1e-5, family="dp_sgd")
    with pytest.raises(audit.DataError, match="sum 1"):
        audit.secret_lower_bound([[1.0, 2.0]], [0], delta=1e-5, prior=[0.5, 0.6])
