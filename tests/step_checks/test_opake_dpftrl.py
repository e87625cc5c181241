"""Opake's DP-FTRL through checks of our own: noise, sensitivity, samplers and accounting; they run if it is installed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from audit.api import accountant
from audit.core.events import Gaussian, Repeated, dp_sgd
from audit.stats.sampling_tests import membership, poisson_tails
from audit.step_checks.run import check_step

SIGNIFICANCE = 1e-7

dpftrl = pytest.importorskip("opake.dpftrl", reason="needs opake, and Python 3.13")
key = pytest.importorskip("opake.random", reason="needs opake, and Python 3.13").key
clipped = pytest.importorskip("opake.types", reason="needs opake, and Python 3.13").clipped

STEPS, SEPARATION, TAKES, NUMBERS, NOISE, CLIP = 8, 4, 2, 4000, 1.5, 2.0
LEVEL = 1e-9
STRATEGIES = {
    "identity": dpftrl.identity_strategy,
    "banded": lambda: dpftrl.band_mf_strategy(bands=3),
    "banded inverse root": lambda: dpftrl.bisr_strategy(bandwidth=3),
    "banded root": lambda: dpftrl.bsr_strategy(bandwidth=3, alpha=1.0, beta=0.0),
    "buffered": lambda: dpftrl.blt_strategy(max_buffers=2),
    "replayed": lambda: dpftrl.lambda_cgd_strategy(lambda_=0.5),
}


def noise_of_a_training(strategy: Any, seed: int) -> np.ndarray:
    """Return the noise of every step over the clip norm, `(steps, numbers)`."""
    zero = {"weight": torch.zeros(NUMBERS)}
    add, state = dpftrl.mf_gaussian_noise(
        zero, strategy, n_steps=STEPS, min_sep=SEPARATION, max_participations=TAKES, noise_multiplier=NOISE, key=key(seed)
    )
    rows = []
    for _ in range(STEPS):
        release, state = add(clipped(zero, max_norm=CLIP), state)
        rows.append(release.pytree["weight"].double().numpy())
    return np.stack(rows) / CLIP


def participations() -> Iterator[np.ndarray]:
    """Yield each pattern of steps that a record may take part in, with either sign of each gradient."""
    for places in itertools.combinations(range(STEPS), TAKES):
        if min(np.diff(places)) >= SEPARATION:
            for sign in (1.0, -1.0):
                pattern = np.zeros(STEPS)
                pattern[list(places)] = 1.0, sign
                yield pattern


def chance_of_claim(noise: np.ndarray, mu: float) -> float:
    """Return the p-value of a claimed mu of Gaussian DP, given the noise of all steps `(steps, numbers)`.

    What a record does in the steps that it takes part in is `u`; its mu is the root of `u' S^-1 u` for noise of covariance `S`.
    `u' S^-1 u` over `u' W^-1 u`, with `W` the scatter of `n` draws, is chi-square with `n - steps + 1` degrees of freedom.
    """
    precision = np.linalg.inv(noise @ noise.T)
    largest = max(float(pattern @ precision @ pattern) for pattern in participations())
    return float(stats.chi2.cdf(mu**2 / largest, NUMBERS - STEPS + 1))


def claimed_mu(strategy: Any) -> float:
    """Return the mu that Opake's accounting of noise without amplification is computed from."""
    return float(strategy.sensitivity(n_steps=STEPS, min_sep=SEPARATION, max_participations=TAKES)) / NOISE


@pytest.mark.parametrize("name", sorted(set(STRATEGIES) - {"identity"}))
def test_the_noise_of_all_steps_together_hides_every_participation(name: str) -> None:
    strategy = STRATEGIES[name]()
    noise = noise_of_a_training(strategy, seed=3)
    assert chance_of_claim(noise, claimed_mu(strategy)) > LEVEL
    assert chance_of_claim(noise, claimed_mu(strategy) / 2) < LEVEL, "half of it would be refuted"


def test_the_identity_forgets_that_records_take_part_again() -> None:
    """Its sensitivity is 1 for any setting; banded noise of one band, the same matrix, counts every participation."""
    identity, one_band = dpftrl.identity_strategy(), dpftrl.band_mf_strategy(bands=1)
    noise = noise_of_a_training(identity, seed=3)
    assert chance_of_claim(noise, claimed_mu(identity)) < LEVEL
    assert claimed_mu(one_band) == pytest.approx(math.sqrt(TAKES) * claimed_mu(identity))
    assert chance_of_claim(noise, claimed_mu(one_band)) > LEVEL


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_noise_is_normal_and_new_in_every_training(name: str) -> None:
    first, second = (noise_of_a_training(STRATEGIES[name](), seed) for seed in (3, 4))
    white = np.linalg.solve(np.linalg.cholesky(np.cov(first)), first).ravel()
    assert stats.kstest(white, "norm").pvalue > LEVEL
    correlation = float(np.corrcoef(first.ravel(), second.ravel())[0, 1])
    assert abs(correlation) < 6 / math.sqrt(NUMBERS)


def loss(params: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return the mean cross entropy of a batch, as Opake asks for it."""
    return torch.nn.functional.cross_entropy(x @ params["weight"].T + params["bias"], y)


def first_step(
    params: Any, batch: Any, generator: torch.Generator, *, noise_multiplier: float, clip_norm: float, divisor: float
) -> Any:
    """Return the parameters after the first of several steps with banded noise."""
    clip, clip_state = dpftrl.clipped_grad(loss, clipping_norm=clip_norm, batch_argnums=(1, 2))
    add, noise_state = dpftrl.mf_gaussian_noise(
        params, STRATEGIES["banded"](), n_steps=STEPS, min_sep=SEPARATION, max_participations=TAKES,
        noise_multiplier=noise_multiplier, key=key(int(torch.randint(2**31, (), generator=generator))),
    )  # fmt: skip
    total, _ = clip(params, *batch, state=clip_state)
    release, _ = add(total, noise_state)
    return {name: value - release.pytree[name] / divisor for name, value in params.items()}


@pytest.mark.slow
def test_the_first_step_is_not_accused() -> None:
    stream, generator = np.random.default_rng(0), torch.Generator().manual_seed(1)
    params = {"weight": torch.randn((3, 6), generator=generator) * 0.5, "bias": torch.zeros(3)}
    sample = (stream.normal(size=(16, 6)).astype(np.float32), stream.integers(3, size=16))
    coefficient = float(STRATEGIES["banded"]().coefficients(n_steps=STEPS)[0])
    deviations = dict.fromkeys(params, 1.0 * 0.5 / coefficient)  # of the first row of the inverse
    report = check_step(
        first_step, params, sample, noise_multiplier=coefficient, clip_norm=0.5, divisor=16.0,
        deviations={name: deviation * coefficient for name, deviation in deviations.items()},
    )  # fmt: skip
    assert report.failures == (), str(report)


def test_cyclic_samples_are_poisson_within_their_group() -> None:
    """Records of a group are drawn in every third step alone, by the stated rate."""
    bands, records, steps = 3, 600, 300
    sampler = dpftrl.CyclicPoissonSampler(range(records), sample_rate=0.1, bands=bands, n_steps=steps, key=key(3))
    table = membership(list(sampler), records)
    groups = [np.flatnonzero(table[step::bands].any(axis=0)) for step in range(bands)]
    assert sum(map(len, groups)) == len(set(np.concatenate(groups))) <= records
    for step, group in enumerate(groups):
        drawn = [np.flatnonzero(row[group]).tolist() for row in table[step::bands]]
        assert min(poisson_tails(membership(drawn, len(group)), 0.1).values()) > SIGNIFICANCE


def test_balls_keep_their_bin_in_every_epoch() -> None:
    """Each record is in one bin, the same in every epoch, uniformly."""
    bins, records = 10, 2000
    sampler = dpftrl.BallsInBinsSampler(range(records), num_bins=bins, n_steps=3 * bins, key=key(5))
    table = membership(list(sampler), records)
    epochs = table.reshape(3, bins, records)
    assert (epochs.sum(axis=1) == 1).all() and (epochs == epochs[0]).all()
    assert stats.chisquare(epochs[0].sum(axis=1)).pvalue > LEVEL


def test_the_accounting_lies_in_the_bracket() -> None:
    """Of banded noise without amplification, and on cyclic Poisson samples, for which each group counts its own steps."""
    accounting = pytest.importorskip("opake.dpftrl.accounting")
    strategy, steps = dpftrl.band_mf_strategy(bands=3), 30
    plain = accounting.mf_gaussian(2.0, strategy, n_steps=STEPS, min_sep=SEPARATION, max_participations=TAKES)
    sensitivity = strategy.sensitivity(n_steps=STEPS, min_sep=SEPARATION, max_participations=TAKES)
    sampled = accounting.poisson(accounting.mf_gaussian(2.0, strategy), sample_rate=0.1, n_steps=steps)
    alone = strategy.sensitivity(n_steps=steps, min_sep=steps, max_participations=1)
    for process, event in (
        (plain, Repeated(mechanism=Gaussian(noise_multiplier=2.0 / sensitivity), count=1)),
        (sampled, dp_sgd(noise_multiplier=2.0 / alone, clip_norm=1.0, sample_rate=0.1, steps=steps // 3)),
    ):
        bracket = accountant.epsilon(event, delta=1e-5, accountants=["pld"])
        assert bracket.lower - 1e-4 <= process.epsilon_at(1e-5) <= bracket.upper + 1e-3
