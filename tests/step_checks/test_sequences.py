"""Sequences of rounds on one live strategy: defects that no single round shows are found, unusual correct ones are accepted."""

from __future__ import annotations

import pytest

from audit.core.errors import ConfigError
from audit.step_checks.findings import PropertyStatus
from audit.step_checks.rounds.probes._rows import Sequences
from audit.step_checks.rounds.run import check_strategy
from tests.step_checks import flower_stand_in as stand_in
from tests.step_checks import sequence_strategies as strategies
from tests.step_checks.sequence_strategies import PROCESSED, RIGHT, WRONG
from tests.step_checks.test_rounds import bench_of


@pytest.mark.sampled(1)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_defect_over_rounds_is_found_by_noise_over_influence(wrong: type[stand_in.Correct]) -> None:
    (finding,) = Sequences().run(bench_of(wrong()))
    assert finding.status is PropertyStatus.FAILED and finding.fix
    assert finding.measured is not None and finding.measured < 0.85


@pytest.mark.slow
@pytest.mark.parametrize("right", RIGHT + PROCESSED)
def test_a_correct_strategy_with_unusual_releases_is_accepted(right: type[stand_in.Correct]) -> None:
    report = check_strategy(right(), records=stand_in)
    assert report.failures == () and report.open == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_other_noise_of_a_correct_strategy_accuses_it_no_more(seed: int) -> None:
    for strategy in (stand_in.Correct(2.0, 0.5, 12), strategies.Momentum()):
        assert check_strategy(strategy, records=stand_in, seed=seed).failures == ()


def test_noise_that_copies_share_is_said_and_accuses_nobody() -> None:
    (finding,) = Sequences().run(bench_of(strategies.NoiseFromCounter()))
    assert finding.status is PropertyStatus.GAP and "hold its generator" in finding.message


def test_a_model_that_is_not_finite_is_named_as_such() -> None:
    with pytest.raises(ConfigError, match=r"NaN or infinity in 'weight', 'bias', 'scale', as 0/0 does"):
        check_strategy(strategies.NeverDefined(), records=stand_in)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("wrong", "check"), [(strategies.TotalForNotFinite, "clip.non_finite"), (strategies.LastCountsThrice, "clip.update")]
)
def test_a_client_that_replies_last_moves_no_more(wrong: type[stand_in.Correct], check: str) -> None:
    assert [failure.check for failure in check_strategy(wrong(), records=stand_in).failures] == [check]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        (strategies.SketchedNoise, "noise.fresh"),
        (strategies.SignQuarterNoise, "server.influence"),
        (strategies.LayersScaledBeforeNoise, "server.influence"),
        (strategies.NoiseOfTheSumsSign, "noise.influence"),
    ],
)
def test_a_wrong_strategy_whose_model_is_no_mean_plus_noise_is_found(wrong: type[stand_in.Correct], check: str) -> None:
    assert check in [failure.check for failure in check_strategy(wrong(), records=stand_in).failures]
