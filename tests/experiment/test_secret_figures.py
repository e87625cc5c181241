"""What attacks on texts get of secrets: means, counts at levels, and how many texts hold a secret."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attacks.scorers._figures import Loss
from attacks.scorers._secrets import DiscoverableExtraction, Exposure, Extraction
from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Records
from audit.core.game_results import AttackResult, LevelCount, SecretFigures, SecretScorer
from audit.core.results import AuditReport
from audit.core.views import Scores
from audit.experiment.describe.description import with_secrets
from audit.experiment.line.findings import attack_result
from audit.stats.scoring import texts
from reports.editions.external import external
from reports.formats.json import to_json
from tests.reports import sample

GAME = next(game.game for mechanism in sample.run().mechanisms for game in mechanism.games)


def scores(values: np.ndarray, included: np.ndarray) -> Scores:
    return Scores(values=values, included=included, game=GAME, attack="extraction", mechanism=None)


def canaries(labels: list[list[int]], copies: int = 1) -> Canaries:
    table = np.array(labels)
    return Canaries(
        kind="texts",
        description="texts",
        payload=CanaryRecords(records=Records(inputs=np.abs(table), labels=table), copies=copies),
    )


def figures(values: list[float], labels: list[list[int]], attack: object, copies: int = 1) -> SecretFigures | None:
    sides = scores(np.array(values), np.arange(len(values)) % 2 == 0)
    result = attack_result(sides, confidence=0.95)
    return with_secrets(result, attack, sides, canaries(labels, copies)).secrets  # type: ignore[arg-type]


def test_counts_and_means_of_both_sides() -> None:
    result = figures([1.0, 0.0, 0.5, 0.5, 0.0, 0.0], [[-1, -1, 3]] * 6, Extraction())
    assert result == SecretFigures(
        quantity="share of a secret written greedily",
        members=3,
        nonmembers=3,
        mean_members=0.5,
        mean_nonmembers=pytest.approx(1 / 6),
        by_chance=None,
        levels=(LevelCount(level=0.5, members=2, nonmembers=1), LevelCount(level=1.0, members=1, nonmembers=0)),
        texts=1,
    )


def test_texts_that_hold_a_secret_are_counted() -> None:
    user = [-1, 4, -1, 4, -1, 4]  # three texts side by side, each with its secret
    assert figures([1.0, 0.0], [user, user], Extraction()).texts == 3  # type: ignore[union-attr]
    assert figures([1.0, 0.0], [[-1, -1, 4]] * 2, Extraction(), copies=5).texts == 5  # type: ignore[union-attr]


def test_units_of_scorers() -> None:
    assert isinstance(Extraction(), SecretScorer) and not isinstance(Loss(), SecretScorer)
    assert figures([1.0, 0.0], [[-1, 4]] * 2, Loss()) is None
    assert Exposure(candidates=64).unit.levels == (3.0, 6.0)
    losses = np.random.default_rng(0).normal(size=(65, 4000))  # the very law that is fitted, and the mean is above 1 / ln 2
    assert texts.extrapolated_exposure(losses[0], losses[1:]).mean() > 1.48
    assert Exposure(extrapolated=True).unit.by_chance is None
    assert DiscoverableExtraction(queries=50).unit.quantity == "chance that 50 samples hold a whole secret"


def report_with(attack: AttackResult) -> AuditReport:
    """The sample report, every game of its first training having this attack alone."""
    report = sample.run()
    first = report.mechanisms[0]
    games = tuple(replace(game, attacks=(attack,)) for game in first.games)
    return replace(report, mechanisms=(replace(first, games=games), *report.mechanisms[1:]))


@pytest.mark.parametrize("high", [1, 60])
def test_an_edition_has_no_level_of_the_scores_however_many_secrets_lie_beyond_it(high: int) -> None:
    """A level is a threshold of the scores: a single secret beyond it would be named. Shares of secrets are not among the
    fields that an edition lists, so those of many secrets do not leave either."""
    values = np.linspace(0.0, 0.4, 200)
    included = np.arange(200) % 2 == 0
    values[:high] = 0.6
    table = scores(values, included)
    result = with_secrets(attack_result(table, confidence=0.95), Extraction(), table, canaries([[-1, 4]] * 200))
    assert result.secrets is not None and result.secrets.levels[0].members + result.secrets.levels[0].nonmembers == high
    report = report_with(result)
    edition = external(report)
    attacks = [attack for mechanism in edition.mechanisms for game in mechanism.games for attack in game.attacks]
    assert attacks and not [attack for attack in attacks if attack.secrets is not None]
    assert Extraction().unit.quantity in to_json(report).decode(), "the whole report has the figures"
    assert Extraction().unit.quantity not in to_json(edition).decode()
