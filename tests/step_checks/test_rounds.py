"""Federated strategies as mechanisms: each defect is refuted by the check that names it, correct strategies are not accused."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit.cli import app
from audit.core.errors import ConfigError
from audit.step_checks.findings import PropertyStatus, StepReport
from audit.step_checks.rounds.bench import RoundBench, RoundClaim
from audit.step_checks.rounds.processing import SMALL
from audit.step_checks.rounds.run import check_strategy
from audit.step_checks.tensors import distance, spread
from tests.step_checks import flower_stand_in as stand_in


def checked(strategy: Any, **options: Any) -> StepReport:
    return check_strategy(strategy, **{"records": stand_in, **options})


def names(report: StepReport, status: PropertyStatus = PropertyStatus.FAILED) -> set[str]:
    return {finding.check for finding in report.findings if finding.status is status}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [stand_in.Correct(), stand_in.RefusesWeights(2.0, 0.5, 12)])
def test_a_correct_strategy_is_not_accused(strategy: Any) -> None:
    report = checked(strategy)
    assert names(report) == set() and report.open == ()
    assert len(report.findings) == 16


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("broken", "checks"),
    [
        (stand_in.NotClipped, {"clip.update", "clip.parameter", "clip.non_finite", "noise.influence"}),
        (stand_in.ScalarNotClipped, {"clip.parameter"}),
        (stand_in.NanPasses, {"clip.non_finite"}),
        (stand_in.ZeroRaises, {"clip.zero"}),
        (stand_in.ByPosition, {"clip.names"}),
        (stand_in.IntegersOut, {"clip.integer"}),
        (stand_in.WeightedByRecords, {"server.weights", "server.denominator", "noise.influence"}),
        (stand_in.DividedByReplies, {"server.denominator", "noise.influence"}),
        (stand_in.SignOfMean, {"server.influence", "noise.influence"}),
        (stand_in.LossComesOut, {"server.metrics"}),
        (stand_in.ReadTwice, {"server.iterable"}),
        (stand_in.NoNoise, {"noise.scale", "noise.influence"}),
        *(
            pytest.param(broken, {"noise.scale", "noise.influence"}, marks=pytest.mark.slow)
            for broken in (stand_in.HalfNoise, stand_in.NoiseDividedTwice)
        ),
        (stand_in.UniformNoise, {"noise.law"}),
        (stand_in.SameNoise, {"noise.scale", "noise.fresh", "noise.influence"}),
    ],
)
def test_each_defect_is_refuted_by_the_check_that_names_it(broken: type[stand_in.Correct], checks: set[str]) -> None:
    report = checked(broken())
    assert names(report) == checks, report
    assert all(finding.fix for finding in report.failures)


@pytest.mark.slow
def test_noise_from_a_global_generator_is_a_question() -> None:
    report = checked(stand_in.GlobalNoise())
    assert names(report) == set() and names(report, PropertyStatus.QUESTION) == {"noise.generator"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "checks"),
    [
        (stand_in.Adaptive, set()),
        (stand_in.WrongDirection, {"adaptive.direction"}),
        (stand_in.NoiseAfterUpdate, {"noise.scale", "noise.influence"}),
        (stand_in.CheapCount, {"adaptive.count"}),
        (stand_in.BareCount, {"adaptive.count"}),
        (stand_in.NormFollowsOutlier, {"adaptive.count"}),
        (stand_in.NoiseOfFirstNorm, {"noise.scale", "noise.law", "noise.influence"}),
        (stand_in.TwiceTheNorm, {"noise.influence"}),
        (stand_in.AdaptiveMomentum, set()),
    ],
)
def test_an_adaptive_clip_norm(broken: type[stand_in.Adaptive], checks: set[str]) -> None:
    assert names(checked(broken(), noise_multiplier=1.0)) == checks


@pytest.mark.slow
def test_clipping_by_clients_rests_on_their_mod() -> None:
    assert names(checked(stand_in.ClippedByClients())) == {"clip.update", "clip.parameter", "noise.influence"}
    report = checked(stand_in.ClippedByClients(), mods=[stand_in.clipping_mod])
    assert names(report) == set()
    assert names(report, PropertyStatus.QUESTION) == {"clip.trust"}
    both = checked(stand_in.Correct(), mods=[stand_in.clipping_mod])
    assert names(both) | names(both, PropertyStatus.QUESTION) == set()


@pytest.mark.slow
def test_influence_is_measured() -> None:
    by_check = {finding.check: finding for finding in checked(stand_in.ScalarNotClipped(num_sampled_clients=4)).findings}
    assert by_check["clip.parameter"].measured == pytest.approx(1000 / 4, rel=1e-3)
    assert by_check["clip.update"].measured == pytest.approx(1 / 4, rel=1e-3) == by_check["clip.update"].claimed
    halved = {finding.check: finding for finding in checked(stand_in.HalfNoise()).findings}
    assert halved["noise.scale"].measured == pytest.approx(0.5, rel=0.1)


def bench_of(strategy: Any) -> RoundBench:
    claim = RoundClaim(noise_multiplier=1.0, clip_norm=1.0, clients=10)
    return RoundBench(strategy=strategy, claim=claim, mods=(), records=stand_in)


def test_clients_with_equal_updates_send_records_of_their_own() -> None:
    ordinary, written = bench_of(stand_in.Correct()).ordinary.moved, bench_of(stand_in.ScalesReplies()).ordinary.moved
    assert ordinary is not None and written is not None
    assert distance(ordinary, written) == pytest.approx(0, abs=1e-6)


def test_a_neighbouring_round_is_played_once() -> None:
    bench = bench_of(stand_in.Correct())
    assert bench.processing.is_plain

    def plays(size: float, **changes: Any) -> int:
        before = bench.rounds
        bench.influence(bench.background("faint", SMALL), spread(SMALL, size), **changes)
        return bench.rounds - before

    assert [plays(1.0), plays(2.0), plays(2.0, records=[3] * 10), plays(2.0, records=[4] * 10)] == [2, 1, 2, 2]


@pytest.mark.slow
def test_a_failure_comes_with_replies_that_show_it_again(tmp_path: Path) -> None:
    paths = checked(stand_in.NanPasses()).save(tmp_path)
    assert [path.name for path in paths] == ["findings.json", "clip.non_finite.npz"]
    with np.load(paths[1], allow_pickle=False) as saved:
        assert np.isnan(saved["update0/bias"]).sum() == 1 and not saved["start/bias"].any()
    assert json.loads(paths[0].read_text())["failures"] == 1


@pytest.mark.slow
def test_nothing_of_the_strategy_or_of_the_global_generators_is_left_changed() -> None:
    strategy = stand_in.GlobalNoise()
    state, before = np.random.get_state()[1].copy(), dict(vars(strategy))  # noqa: NPY002
    checked(strategy)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert {name: vars(strategy)[name] for name in before} == before


@pytest.mark.slow
def test_a_strategy_may_hold_a_library() -> None:
    strategy = stand_in.Correct()
    strategy.library = np
    assert names(checked(strategy)) == set()


class Waits(stand_in.Correct):
    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> list[Any]:
        while len(grid.get_node_ids()) < 1000:
            pass
        return []


class Unrepeatable(stand_in.Correct):
    def noise(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng().normal(0, 1, shape)


class Refuses(stand_in.Correct):
    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        raise KeyError("norm_bit")


@pytest.mark.parametrize(
    ("strategy", "options", "words"),
    [
        (object(), {}, "no configure_train"),
        (Waits(), {}, "waits for more than 10 nodes"),
        (Unrepeatable(), {}, "an attribute noise_multiplier"),
        (Refuses(), {}, "KeyError: 'norm_bit'; do its clients need a mod"),
        (stand_in.Correct(num_sampled_clients=1), {}, "clients is 1; expected at least 2"),
        (SimpleNamespace(configure_train=None, aggregate_train=None), {}, "say what is claimed by noise_multiplier"),
    ],
)
def test_what_cannot_be_checked_is_refused(strategy: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        checked(strategy, **options)


def test_the_command_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.answer(["flower", "tests.step_checks.flower_stand_in"]) == 2
    assert "expected package.module:object" in capsys.readouterr().err
