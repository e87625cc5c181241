"""Games of users: one coin a user, bounds on a user's epsilon or converted to a record's, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import audit
from audit.checks import blind
from audit.cli.app import answer
from audit.core.claims import Outcome
from audit.core.errors import ConfigError, DataError
from audit.core.lower_bounds import read_epsilon
from audit.core.results import AuditReport
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.external.inspection import References, Settings, examine, examine_outputs
from audit.experiment.external.units import read_users, user_scores
from audit.stats.curves.tradeoff import gdp_epsilon

USERS = 150


def response(epsilon: float, seed: int, *, most: int = 5, users: int = USERS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Losses, coins by user and users by record, of a release that answers each user's coin as epsilon-DP allows."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, most + 1, users)
    sizes[0] = most
    units, coins = np.repeat(np.arange(users), sizes), audit.draw_coins(users, seed)
    reported = coins ^ (random.random(users) > 1 / (1 + np.exp(-epsilon)))
    return np.where(reported[units], 0.5, 2.0) + 0.0, coins, units


def audited(losses: np.ndarray, coins: np.ndarray, units: np.ndarray, **settings: Any) -> AuditReport:
    provided = Settings(coins=coins, certificates=0, scorers=("loss",), **settings)
    names = np.array([f"p{number:03d}" for number in units])
    return examine_outputs(View.of(losses=losses), coins[units], provided, units=names, index=units).report


def proven(report: AuditReport) -> float:
    return max(map(read_epsilon, report.mechanisms[0].all_bounds))


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("claim_unit", "divisor"), [("user", 1), ("record", 5)])
def test_bounds_are_about_the_user_and_converted_for_a_claim_of_records(claim_unit: str, divisor: int) -> None:
    """The release is 2-DP for a user, and for a record of users with up to five records if it is 0.4-DP for each."""
    bounds = [proven(audited(*response(2.0, seed), claim_unit=claim_unit)) for seed in range(20)]
    assert np.mean(bounds) > 0.5 / divisor
    assert sum(bound > 2.0 / divisor for bound in bounds) <= 4  # 20 with 5 %: more than 4 with probability 0.003


def test_the_claim_says_whom_it_protects() -> None:
    losses, coins, units = response(6.0, 1)
    by_user = audited(losses, coins, units, claim_epsilon=1.0)
    assert by_user.mechanisms[0].claims[0].unit == "user" and by_user.outcome is Outcome.VIOLATED
    game = by_user.mechanisms[0].games[0].game
    assert (game.canaries, game.copies, game.unit) == (USERS, 1, "user") and "one user" in game.describe()
    by_record = audited(losses, coins, units, claim_epsilon=1.0, claim_unit="record")
    game = by_record.mechanisms[0].games[0].game
    assert game.copies == 5 and "at most 5 records of each" in game.describe() and "one record" in game.describe()
    assert by_record.outcome is not Outcome.VIOLATED
    assert any("5 records to one record" in note for note in by_record.notes)


def test_records_of_a_user_add_up() -> None:
    random, coins = np.random.default_rng(0), audit.draw_coins(USERS, 3)
    units = np.repeat(np.arange(USERS), 12)
    losses = np.exp(random.normal(0, 1, len(units)) - 0.4 * coins[units])
    by_user = audited(losses, coins, units).mechanisms[0].games[0].attacks[0]
    members = coins[units]
    by_record = np.mean(losses[members][:, None] < losses[~members][None, :])
    assert by_user.auc > by_record + 0.15, (by_user.auc, by_record)
    values = np.array([1.0, np.inf, -np.inf, 3.0])
    assert np.isfinite(user_scores(values, read_users(np.array(["a", "a", "b", "b"])) or pytest.fail())).all()


@pytest.mark.slow
def test_references_are_by_user_and_every_model_is_once_the_target() -> None:
    random = np.random.default_rng(2)
    units = np.repeat(np.arange(60), 3)
    names = np.array([f"p{number:02d}" for number in units])
    coins = np.stack([audit.draw_coins(60, 100 + model) for model in range(9)])
    level = random.normal(0, 2, len(units))
    margins = level + random.normal(0, 1, (9, len(units))) + 1.5 * coins[:, units]
    logits = np.stack([margins, np.zeros_like(margins)], axis=2)
    labels = np.arange(len(units)) % 2
    logits[:, labels == 1] = logits[:, labels == 1][..., ::-1]
    references = References(included=coins[1:, units], logits=logits[1:])
    settings = Settings(coins=coins[0], certificates=0)
    view = View.of(labels=labels, logits=logits[0])
    result = examine_outputs(view, coins[0][units], settings, units=names, index=units, references=references)
    evaluation = result.report.mechanisms[0].games[0].evaluation
    assert evaluation is not None and evaluation.targets == 9
    assert {len(values) for values in result.scores.values()} == {60}
    auc = {row.scorer: row.figures[0].mean for row in evaluation.scorers}
    assert auc["lira"] > 0.9, auc
    broken = replace(references, included=references.included ^ (np.arange(len(units)) == 7))
    with pytest.raises(DataError, match="record 7"):
        examine_outputs(view, coins[0][units], settings, units=names, index=units, references=broken)


@pytest.mark.slow
def test_alike_records_of_a_user_do_not_alarm_the_guard() -> None:
    alarms = 0
    for seed in range(12):
        random = np.random.default_rng(seed)
        units, coins = np.repeat(np.arange(60), 10), audit.draw_coins(60, seed)
        x = random.normal(0, 1, (60, 4))[units] + random.normal(0, 0.1, (600, 4))
        y = np.arange(600) % 2
        sides = [{"x": x[rows], "y": y[rows], "unit": units[rows]} for rows in (coins[units], ~coins[units])]
        report = examine(lambda batch: np.tanh(batch[:, :2]), *sides, Settings(certificates=0, scorers=("loss",))).report
        alarms += report.outcome is Outcome.INVALID
    assert alarms <= 1


@pytest.mark.slow
def test_a_trained_reference_takes_whole_users(tmp_path: Path) -> None:
    random, coins = np.random.default_rng(3), audit.draw_coins(40, 8)
    units = np.repeat(np.arange(40), 3)
    x, y = random.normal(size=(120, 2)).astype(np.float32), np.arange(120) % 2
    sides = [{"x": x[rows], "y": y[rows], "unit": units[rows], "index": units[rows]} for rows in (coins[units], ~coins[units])]
    observed = []

    def fit(records: Any, seed: int) -> Any:
        observed.append({row.tobytes() for row in records[0]})
        return lambda batch: np.stack([batch[:, 0], batch[:, 1]], axis=1)

    audit.check(None, *sides, coins=coins, references=audit.ReferenceTraining(train=fit, runs=3), quiet=True)
    for records in observed:
        present = np.array([row.tobytes() in records for row in x])
        assert all(present[units == user].all() or not present[units == user].any() for user in range(40))


def test_what_does_not_fit_is_refused() -> None:
    losses, coins, units = response(1.0, 4)
    names = np.array([f"p{number}" for number in units])
    both = coins[units] ^ (np.arange(len(units)) == 0)
    assert (units == units[0]).sum() > 1
    with pytest.raises(DataError, match="draw coins by user"):
        examine_outputs(View.of(losses=losses), both, Settings(), units=names)
    with pytest.raises(DataError, match="the same for all records of a user"):
        examine_outputs(View.of(losses=losses), coins[units], Settings(coins=coins), units=names, index=np.arange(len(units)))
    with pytest.raises(ConfigError, match="no 'unit' says whose each record is"):
        examine_outputs(View.of(losses=losses), coins[units], Settings(claim_unit="user"))
    with pytest.raises(ConfigError, match="expected 'record' or 'user'"):
        Settings(claim_unit="household")
    with pytest.raises(DataError, match="at least 2"):
        read_users(np.array(["a", "a"]))


@pytest.mark.slow
def test_the_command_reads_users_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    losses, coins, units = response(6.0, 5)
    np.savez(tmp_path / "p.npz", losses=losses, member=coins[units], unit=units)
    np.savez(tmp_path / "coins.npz", coins=coins)
    command = ["model", "--target", str(tmp_path / "p.npz"), "--coins", str(tmp_path / "coins.npz"), "--claim-epsilon", "1"]
    assert answer([*command, "-o", str(tmp_path / "by_user")]) == 1
    assert "about adding or removing a user" in capsys.readouterr().out
    assert answer([*command, "--claim-unit", "record", "-o", str(tmp_path / "by_record")]) in (0, 3)


def test_the_guard_takes_labels_that_are_all_the_same() -> None:
    random = np.random.default_rng(0)
    included = random.random(80) < 0.5
    assert not blind.guard(random.normal(size=(80, 3)), np.zeros(80, np.int64), included, Seed(0)).has_bias


def summed(seed: int, *, noise: float, most: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Losses of a release that adds Gaussian noise to each user's number of records: `most / noise`-GDP for a user."""
    random = np.random.default_rng(seed)
    units, coins = np.repeat(np.arange(USERS), most), audit.draw_coins(USERS, seed)
    noisy = most * coins + random.normal(0, noise, USERS)
    return 100 - noisy[units], coins, units


def answers(seed: int, *, epsilon: float, most: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Losses of a release in which each record of a user answers for itself: epsilon-DP a record, `most` times that a user."""
    random = np.random.default_rng(seed)
    units, coins = np.repeat(np.arange(USERS), most), audit.draw_coins(USERS, seed)
    reported = coins[units] ^ (random.random(len(units)) > 1 / (1 + np.exp(-epsilon)))
    return np.where(reported, 0.5, 2.0) + 0.0, coins, units


@pytest.mark.slow
@pytest.mark.parametrize("claim_unit", ["user", "record"])
@pytest.mark.parametrize("mechanism", ["summed", "answers"])
def test_bounds_of_users_hold_for_a_noisy_sum_and_for_answers_of_each_record(mechanism: str, claim_unit: str) -> None:
    """Of 100 audits at 95 %, more than 12 are wrong with probability 0.0015 if 5 % are allowed."""
    if mechanism == "summed":  # at delta 1e-5; 1.05-GDP for a user, 0.21-GDP for a record
        mu = 5 / 4.75 if claim_unit == "user" else 1 / 4.75
        truth = gdp_epsilon(mu, 1e-5)
        reports = [audited(*summed(seed, noise=4.75), claim_unit=claim_unit) for seed in range(100)]
    else:
        truth = 2.1 if claim_unit == "user" else 0.7
        reports = [audited(*answers(seed, epsilon=0.7), claim_unit=claim_unit) for seed in range(100)]
    bounds = np.array([proven(report) for report in reports])
    assert (bounds > truth).sum() <= 12 and bounds.max() > 0
