"""Single steps as trials: what each kind of scores may be, how often bounds are wrong, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import audit
from audit.bounds import control
from audit.bounds.steps import StepProducts, StepScores, demand_rate
from audit.core.claims import NoNoiseFits, StepBound
from audit.core.errors import ConfigError, DataError, ExecutionMismatch
from audit.core.events import Repeated, dp_sgd
from audit.stats.bounds import binomial
from audit.stats.curves import dp_sgd_curve, tradeoff

DELTA = 1e-5


def sgd(noise: float, rate: float, steps: int) -> Repeated:
    return dp_sgd(noise_multiplier=noise, clip_norm=1.0, sample_rate=rate, steps=steps)


@pytest.mark.slow
def test_single_steps_compose() -> None:
    """Full batches: each step is a Gaussian mechanism, so thousands of steps pin the noise down."""
    draw, noise, steps = np.random.default_rng(4), 5.0, 400
    held = np.arange(8000) < 4000
    result = audit.step_bound(
        StepProducts(values=draw.normal(held / noise, 1), held=held), mechanism=sgd(noise, 1.0, steps), delta=DELTA
    )
    truth = dp_sgd_curve.epsilon_floor(noise, 1.0, steps, DELTA)
    assert result.family == "gdp" and result.participations is None and result.trials == 8000
    assert result.parameter is not None and 2.0 < result.parameter < 4.0 == math.sqrt(steps) / noise
    assert 0.4 * truth < result.epsilon < truth < result.ceiling


@pytest.mark.slow
def test_steps_whose_sampling_was_seen_say_more_and_are_not_wrong_more_often() -> None:
    """Runs of 300 canaries, half of them in, and 100 steps; the noise is known."""
    mechanism = sgd(0.7, 0.025, 100)
    truth = dp_sgd_curve.epsilon_floor(0.7, 0.025, 100, DELTA)
    wrong, observed, unseen = 0, [], []
    for run in range(10):
        draw = np.random.default_rng(run)
        held = np.repeat(draw.random(300) < 0.5, 100)
        took = held & (draw.random(len(held)) < 0.025)
        values = took + 0.7 * draw.standard_normal(took.shape)
        steps = StepProducts(values=values, held=held, took_part=took)
        result = audit.step_bound(steps, mechanism=mechanism, delta=DELTA)
        wrong += result.parameter is not None and result.parameter < 0.7
        observed.append(result.epsilon)
        assert result.participations == took.sum() and "sampled as claimed" in result.trust and "single steps" in result.game
        if run < 1:
            unseen.append(audit.step_bound(StepProducts(values=values, held=held), mechanism=mechanism, delta=DELTA).epsilon)
    assert wrong <= 3  # 0.5 expected; more than 3 has a chance below 0.2 %
    assert np.mean(observed) > 0.6 * truth and observed[0] > 1.2 * unseen[0]


def adapted(seed: int, steps: int, rate: float) -> StepScores:
    """Scores that show how often the canary took part in the past, and nothing of the step itself."""
    draw = np.random.default_rng(seed)
    took = draw.random(steps) < rate
    past = np.concatenate([[0], np.cumsum(took)[:-1]])
    return StepScores(values=past + 1e-3 * draw.standard_normal(steps), took_part=took)


@pytest.mark.slow
def test_bets_hold_for_scores_that_depend_on_the_past() -> None:
    """Nothing of a step's own coin is in these scores; a leak on top of them is seen."""
    mechanism, wrong, chosen = sgd(1000.0, 0.1, 400), 0, 0
    for seed in range(15):
        result = audit.step_bound(adapted(seed, 400, 0.1), mechanism=mechanism, delta=DELTA)
        wrong += result.parameter is not None and result.parameter < 1000.0
    assert wrong <= 4  # 0.75 expected; more has a chance below 0.1 %
    for seed in range(5):
        scores = adapted(seed, 400, 0.1)
        values = np.where(scores.took_part, scores.values + 400.0, scores.values)
        observed = audit.step_bound(StepScores(values=values, took_part=scores.took_part), mechanism=mechanism, delta=DELTA)
        chosen += observed.epsilon > 0
    assert chosen == 5  # and they do see what leaks


def test_bets_find_the_noise_of_a_leaking_step() -> None:
    draw = np.random.default_rng(2)
    took = draw.random(4000) < 0.1
    state = np.cumsum(draw.standard_normal(4000)) / 50  # of the run: adapted, not independent
    steps = StepScores(values=took + 0.3 * draw.standard_normal(4000) + state, took_part=took)
    result = audit.step_bound(steps, mechanism=sgd(0.6, 0.1, 4000), delta=DELTA)
    assert result.parameter is not None and result.parameter < 1.5
    assert 0 < result.epsilon < result.ceiling and result.participations == took.sum()


def test_participations_are_held_against_the_claimed_rate() -> None:
    draw = np.random.default_rng(0)
    took = draw.random(100_000) < 0.002
    values = took + draw.standard_normal(100_000)
    held = np.ones(100_000, dtype=bool)
    for steps in (StepProducts(values=values, held=held, took_part=took), StepScores(values=values, took_part=took)):
        with pytest.raises(ExecutionMismatch, match="means about 2000"):
            audit.step_bound(steps, mechanism=sgd(1.0, 0.02, 500), delta=DELTA)


def test_the_ceiling_is_that_of_these_steps() -> None:
    few = StepProducts(values=np.arange(6.0), held=np.arange(6) >= 3)
    result = audit.step_bound(few, mechanism=sgd(1.0, 0.1, 1000), delta=DELTA)
    assert result.epsilon == 0 and result.ceiling == 0


def take_part(rate: float, *, size: float = 20.0) -> StepProducts:
    """Steps whose canary takes part with this chance and is then seen through little noise; the sampler is not seen."""
    draw, held = np.random.default_rng(0), np.arange(400) % 2 == 0
    return StepProducts(values=size * (held & (draw.random(400) < rate)) + draw.standard_normal(400), held=held)


def test_no_number_is_given_where_even_no_noise_does_not_fit() -> None:
    """A tenth of the steps is claimed, half of them show the canary: no noise makes that likely, nor does none."""
    claimed = sgd(1.0, 0.1, 1000)
    result = audit.step_bound(take_part(0.5), mechanism=claimed, delta=DELTA)
    assert isinstance(result, NoNoiseFits) and not hasattr(result, "epsilon") and result.parameter is None
    assert str(result).startswith("no noise fits: these 400 single steps refute every member of the family 'dp_sgd'")
    honest = audit.step_bound(take_part(0.1), mechanism=claimed, delta=DELTA)
    assert isinstance(honest, StepBound) and 0 < honest.epsilon < math.inf == honest.ceiling
    always = audit.step_bound(take_part(1.0), mechanism=sgd(1.0, 0.99, 10), delta=DELTA)
    assert isinstance(always, StepBound) and 0 < always.epsilon <= always.ceiling < math.inf  # no noise would fit these
    seen = take_part(1.0)
    known = StepProducts(values=seen.values, held=seen.held | True, took_part=seen.held)
    assert isinstance(audit.step_bound(known, mechanism=sgd(1.0, 0.5, 10), delta=DELTA), StepBound)


@pytest.mark.slow
def test_steps_without_sampling_are_bounded_inside_gaussian_privacy() -> None:
    draw, held = np.random.default_rng(5), np.arange(2000) % 2 == 0
    result = audit.step_bound(
        StepProducts(values=held + draw.standard_normal(2000), held=held), mechanism=sgd(1.0, 1.0, 4), delta=DELTA
    )
    assert result.family == "gdp" and result.parameter is not None and 1.5 < result.parameter < 2.2  # two is the truth
    assert result.epsilon == pytest.approx(tradeoff.gdp_epsilon(result.parameter, DELTA), rel=1e-6)
    nothing = audit.step_bound(
        StepProducts(values=np.arange(6.0), held=np.arange(6) >= 3), mechanism=sgd(9.0, 1.0, 4), delta=DELTA
    )
    assert (nothing.family, nothing.parameter, nothing.epsilon) == ("gdp", 0.0, 0.0)


def test_what_is_no_score_of_steps_is_refused() -> None:
    coins = np.arange(4) % 2 == 0
    for build in (
        lambda: StepProducts(values=np.array([0.0, np.nan, 1.0, 2.0]), held=coins),
        lambda: StepProducts(values=np.zeros(4), held=coins[:3]),
        lambda: StepProducts(values=np.zeros(4), held=np.zeros(4)),
        lambda: StepProducts(values=np.zeros(4), held=coins, took_part=~coins),
        lambda: StepScores(values=np.zeros((2, 2)), took_part=coins),
    ):
        with pytest.raises(DataError, match="expected"):
            build()
    with pytest.raises(DataError):
        audit.step_bound(StepProducts(values=np.zeros(4), held=coins | True), mechanism=sgd(1.0, 0.5, 4), delta=DELTA)
    with pytest.raises(ConfigError, match="no coin"):
        audit.step_bound(StepScores(values=np.zeros(4), took_part=coins), mechanism=sgd(1.0, 1.0, 4), delta=DELTA)


def test_participations_rarer_than_one_in_a_million_are_refused_and_no_others() -> None:
    for participations, steps, rate in ((163, 1000, 0.11), (60, 1000, 0.11)):
        chance = binomial.two_sided(participations, steps, rate)
        assert 1e-12 < chance < 1e-6
        with pytest.raises(ExecutionMismatch, match=f"{participations} of {steps} steps"):
            demand_rate(participations, steps, rate)
    demand_rate(155, 1000, 0.11)


@pytest.mark.parametrize("rate", [0.003, 0.05, 0.2])
def test_a_control_allows_as_many_alarms_as_its_rate_has_but_once_in_a_thousand(rate: float) -> None:
    limit = control.make_control(0, rate).allowed
    assert (
        stats.binom.sf(limit, control.REPETITIONS, rate)
        <= control.SIGNIFICANCE
        < stats.binom.sf(limit - 1, control.REPETITIONS, rate)
    )
    assert control.make_control(limit, rate).passed and not control.make_control(limit + 1, rate).passed
