from __future__ import annotations

import math

import numpy as np
import pytest

from audit.stats import sequential
from audit.stats.sequential import EPSILONS, LEVELS, STAKES


def naive(members: np.ndarray, nonmembers: np.ndarray, delta: float, claim: int) -> float:
    """Largest wealth over time against one claim, every bettor followed pair by pair with plain floats."""
    wealth = {}
    best, seen_m, seen_n = 1.0, [], []
    factor = math.exp(EPSILONS[claim])
    for x, y in zip(members, nonmembers, strict=True):
        if seen_m:
            for direction in (0, 1):
                past = sorted(seen_n) if direction == 0 else sorted(-m for m in seen_m)
                hit_score, alarm_score = (x, y) if direction == 0 else (-y, -x)
                for level in LEVELS:
                    cut = past[len(past) - 1 - min(math.floor(level * len(past)), len(past) - 1)]
                    z = (hit_score > cut) - factor * (alarm_score > cut) - delta
                    for stake in STAKES:
                        key = (direction, level, stake)
                        wealth[key] = wealth.get(key, 1.0) * (1 + stake / (factor + delta) * z)
            best = max(best, sum(wealth.values()) / (2 * len(LEVELS) * len(STAKES)))
        seen_m.append(x)
        seen_n.append(y)
    return best


@pytest.mark.parametrize("claim", [0, 10, 40])
def test_wealth_equals_the_plain_game(claim: int) -> None:
    draw = np.random.default_rng(0)
    members, nonmembers = draw.normal(1.5, 1, 30), draw.normal(0, 1, 30)
    wealth = sequential.start(1e-3)
    for x, y in zip(members, nonmembers, strict=True):
        wealth = sequential.update(wealth, np.array([x]), np.array([y]))
    assert wealth.best[claim] == pytest.approx(math.log(naive(members, nonmembers, 1e-3, claim)), abs=1e-9)


def test_stopping_and_resuming_changes_nothing() -> None:
    draw = np.random.default_rng(1)
    members, nonmembers = draw.normal(1, 1, 60), draw.normal(0, 1, 60)
    straight = sequential.start(1e-5)
    for i in range(60):
        straight = sequential.update(straight, members[i : i + 1], nonmembers[i : i + 1])
    first = sequential.start(1e-5)
    for i in range(25):
        first = sequential.update(first, members[i : i + 1], nonmembers[i : i + 1])
    resumed = sequential.Wealth(
        delta=first.delta,
        members=first.members.copy(),
        nonmembers=first.nonmembers.copy(),
        log_wealth=first.log_wealth.copy(),
        best=first.best.copy(),
    )
    for i in range(25, 60):
        resumed = sequential.update(resumed, members[i : i + 1], nonmembers[i : i + 1])
    assert (resumed.best == straight.best).all()


def test_looking_after_every_pair_does_not_inflate_the_error() -> None:
    """Optional stopping on randomised response at the true epsilon."""
    draw, trials, alarms, truth = np.random.default_rng(2), 60, 0, 1.0
    for _ in range(trials):
        right = draw.random((2, 70)) < 1 / (1 + math.exp(-truth))
        size = np.abs(draw.normal(size=(2, 70)))
        members, nonmembers = np.where(right[0], size[0], -size[0]), np.where(right[1], -size[1], size[1])
        wealth = sequential.start(1e-9)
        for i in range(70):
            wealth = sequential.update(wealth, members[i : i + 1], nonmembers[i : i + 1])
        alarms += sequential.epsilon_refuted(wealth, 0.05) > truth  # `best` is the maximum over all times
    assert alarms <= 12


def test_evidence_only_grows_and_finds_a_leak() -> None:
    draw = np.random.default_rng(3)
    wealth, found = sequential.start(1e-5), []
    for one in sequential.groups(400):
        size = one.stop - one.start
        wealth = sequential.update(wealth, draw.normal(2, 1, size), draw.normal(0, 1, size))
        found.append(sequential.epsilon_refuted(wealth, 0.05))
    assert found == sorted(found)
    assert found[-1] > 1.5
    assert found[-1] <= sequential.perfect(400, 1e-5, 0.05)


def test_groups_cover_all_pairs_once() -> None:
    covered = [i for one in sequential.groups(333) for i in range(one.start, one.stop)]
    assert covered == list(range(333))


def test_unequal_sides_are_refused() -> None:
    with pytest.raises(ValueError, match="pairs"):
        sequential.update(sequential.start(0.0), np.ones(2), np.ones(3))


def test_an_average_over_attacks_is_the_plain_average_of_their_wealth() -> None:
    draw = np.random.default_rng(5)
    members, nonmembers = draw.normal(1, 1, (2, 12)), draw.normal(0, 1, (2, 12))
    joint = sequential.start_averaged(1e-5, 2)
    apart = [sequential.start(1e-5), sequential.start(1e-5)]
    best = np.zeros(len(sequential.EPSILONS))
    for turn in range(12):
        part = slice(turn, turn + 1)
        joint = sequential.update_averaged(joint, members[:, part], nonmembers[:, part])
        apart = [sequential.update(one, members[i, part], nonmembers[i, part]) for i, one in enumerate(apart)]
        wealth = np.mean([np.exp(one.log_wealth).sum(axis=(1, 2, 3)) for one in apart], axis=0)
        best = np.maximum(best, np.log(wealth))
    assert joint.best == pytest.approx(best)
    with pytest.raises(ValueError, match="1 and 2 attacks"):
        sequential.update_averaged(joint, members[:1], nonmembers)


def test_one_good_attack_among_bad_ones_is_enough_and_ten_bad_ones_prove_nothing() -> None:
    draw, alarms = np.random.default_rng(6), 0
    joint = sequential.start_averaged(1e-5, 5)
    for _ in range(60):
        members, nonmembers = draw.normal(size=(5, 3)), draw.normal(size=(5, 3))
        members[2] += 3.0
        joint = sequential.update_averaged(joint, members, nonmembers)
    assert sequential.epsilon_refuted(joint, 0.05) > 1.0
    for seed in range(20):
        stream = np.random.default_rng(seed)
        nothing = sequential.start_averaged(1e-5, 10)
        for _ in range(25):
            nothing = sequential.update_averaged(nothing, stream.normal(size=(10, 2)), stream.normal(size=(10, 2)))
        alarms += sequential.epsilon_refuted(nothing, 0.05) > 0 or nothing.best[0] >= np.log(20)
    assert alarms <= 5
