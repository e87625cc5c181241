"""Backdoors, poisoned membership and properties through the whole line, to the report's pages."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

import audit
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.game import Game, Inclusion
from audit.core.game_results import GameResult, TriggerResult
from audit.core.lower_bounds import read_ceiling
from audit.experiment.games.hypothesis import ClaimLimits
from reports.figures._scores import roc
from reports.formats.json import from_json, to_json
from reports.pages.document import sections
from reports.words import named
from tests.experiment.test_secrets import CONFIG as SECRETS
from tests.reports import sample
from tests.reports.test_languages import spoken

OFFLINE = {"kind": "offset", "online": False}


def config() -> dict[str, Any]:
    settings = copy.deepcopy(SECRETS)
    settings["data"] = {"kind": "digits", "train": 300, "pool": 400, "test": 40}
    settings["training"] = {"optimizer": "sgd", "learning_rate": 0.5, "batch_size": 60, "steps": 200}
    settings["mechanisms"] = settings["mechanisms"][:1]
    settings["games"] = [
        {
            "name": "backdoor",
            "access": "final_model",
            "canaries": {"kind": "backdoor", "poisons": 5},
            "count": 20,
            "runs": 4,
            "references": 4,
            "scorers": [OFFLINE],
            "estimators": ["one_run"],
        },
        {
            "name": "property",
            "access": "final_model",
            "canaries": {"kind": "property_group", "attribute": "label", "records": 120},
            "count": 1,
            "runs": 12,
            "references": 8,
            "scorers": ["shadow_models"],
            "estimators": ["reconstruction"],
        },
        {
            "name": "poisoned",
            "access": "final_model",
            "canaries": "poisoned_membership",
            "count": 30,
            "runs": 2,
            "references": 4,
            "scorers": [OFFLINE],
            "estimators": ["one_run"],
        },
    ]
    return settings


@pytest.fixture(scope="module")
def report() -> audit.AuditReport:
    return audit.run(config())


def games(report: audit.AuditReport) -> dict[str, GameResult]:
    return {f"{mechanism.name} {game.name}": game for mechanism in report.mechanisms for game in mechanism.games}


@pytest.mark.slow
def test_triggers_work_where_their_records_are_planted_and_only_there(report: audit.AuditReport) -> None:
    game = games(report)["plain backdoor"]
    result = game.trigger
    assert result is not None and result.records == 5 and result.allowed is None
    assert result.with_records + result.without_records == 80
    assert result.hits_with / result.with_records > 0.3
    assert result.hits_without / result.without_records < 0.15
    assert result.accuracy is not None and result.accuracy > 0.7
    (bound,) = game.bounds
    assert 0 < bound.epsilon < bound.ceiling and "group privacy" in bound.selected


@pytest.mark.slow
def test_a_property_is_guessed_and_proves_next_to_nothing_of_one_record(report: audit.AuditReport) -> None:
    game = games(report)["plain property"]
    guesses = game.attacks[0].guesses
    assert guesses is not None and guesses.secrets == 12 and guesses.baseline == 0.5 and guesses.right >= 10
    assert game.game.copies == 120 and all(read_ceiling(bound) < 0.05 for bound in game.bounds)
    assert "no canary is of class" not in game.note


@pytest.mark.slow
def test_copies_in_every_training_are_no_group(report: audit.AuditReport) -> None:
    game = games(report)["plain poisoned"]
    assert game.game.copies == 1 and game.trigger is None and "in every training" in game.game.canary


@pytest.mark.slow
def test_rows_of_the_coverage_table_turn(report: audit.AuditReport) -> None:
    status = {row.attack_class: row.status for row in report.coverage}
    assert status["Poisoning, backdoor"] == status["Property inference"] == status["Membership inference, black box"] == "run"
    assert status["Attribute inference"] == "not run"


@pytest.mark.slow
def test_the_report_says_it_and_survives_its_file(report: audit.AuditReport) -> None:
    assert from_json(to_json(report)).mechanisms == report.mechanisms
    texts = [text for section in sections(report) for text in spoken(section.blocks)]
    assert sum("poisoned records teach" in text for text in texts) == 1


def test_the_table_shows_both_shares_and_the_limit() -> None:
    report = sample.run()
    (first, *games), mechanism = report.mechanisms[0].games, report.mechanisms[0]
    result = TriggerResult(
        records=2, with_records=8, hits_with=6, without_records=10, hits_without=1, accuracy=0.9, allowed=0.9
    )
    changed = replace(mechanism, games=(replace(first, trigger=result), *games))
    texts = [
        text
        for section in sections(replace(report, mechanisms=(changed, *report.mechanisms[1:])))
        for text in spoken(section.blocks)
    ]
    assert any("poisoned records teach" in text for text in texts)
    assert {"6 of 8 (75.0)", "1 of 10 (10.0)", "90.0"} <= set(texts)


def test_no_limit_for_one_record_is_drawn_over_an_attack_on_a_group() -> None:
    report = sample.run()
    mechanism = report.mechanisms[-1]
    first = mechanism.games[0]
    assert mechanism.limit is not None and "most that any attack" in roc(mechanism, first).caption
    group = replace(first, game=replace(first.game, copies=4))
    plan = roc(mechanism, group)
    assert "most that any attack" not in plan.caption and "most that any attack" not in plan.alt


def test_a_single_secret_is_one_in_the_sentence_of_its_game() -> None:
    rules = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=1,
        runs=24,
        choices=2,
        secret="property",
        copies=60,
    )
    assert "one secret (property) takes one of 2 values" in named.game(rules)
    assert "60 records of each" in rules.describe()


@pytest.mark.parametrize(("records", "allowed"), [(1, 0.3), (2, 0.9), (3, 1 - 0.9 / 27)])
def test_what_a_claim_leaves_a_group(records: int, allowed: float) -> None:
    claim = Claim(epsilon=1.0986122886681098, delta=0.0, adjacency=Adjacency.ADD_REMOVE, source="declared")
    assert float(ClaimLimits(claim=claim).of_group(records).tpr(0.1)) == pytest.approx(allowed)
