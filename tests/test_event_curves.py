"""The table of trade-off curves by event, and that nothing else asks an event for its class."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, special

from audit import event_curves
from audit.bounds.estimators.fdp_rank import FdpRank
from audit.core.adjacency import Adjacency
from audit.core.deployed_events import MatrixFactorization
from audit.core.errors import ConfigError
from audit.core.event_reading import noisy_steps, repetition, shape
from audit.core.events import Composed, Event, Gaussian, Laplace, PoissonSampled, Repeated, dp_sgd, sgd
from audit.event_curves import EventCurves, find_curves, signal_noise
from audit.experiment.games.hypothesis import limit_curve
from audit.stats.curves import dp_sgd_curve

ROOT = Path(__file__).resolve().parents[1]
ASKS = re.compile(r"isinstance\(.*\b(Repeated|PoissonSampled|Gaussian|NonPrivate|Laplace)\b")
READERS = ("audit/accounting/", "audit/core/event_")  # accountants, and the modules that read and rewrite trees


def test_only_accountants_and_readers_of_events_ask_for_a_class() -> None:
    offenders = [
        f"{path.relative_to(ROOT)}:{number}"
        for package in ("audit", "attacks", "reports")
        for path in sorted((ROOT / package).rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(READERS)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if ASKS.search(line)
    ]
    assert offenders == []


def test_curves_of_dp_sgd_are_built_in_one_module() -> None:
    users = {
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "audit").rglob("*.py"))
        if "dp_sgd_curve" in path.read_text(encoding="utf-8") and "audit/stats/" not in str(path)
    }
    assert users == {"audit/event_curves.py"}


def test_the_curves_are_those_of_the_claimed_rate_and_steps() -> None:
    event = dp_sgd(noise_multiplier=1.5, clip_norm=0.7, sample_rate=0.1, steps=30)
    curves = find_curves(event)
    assert curves is not None and curves.family == "dp_sgd" and curves.noise_multiplier == 1.5
    assert curves.at(1.5) is dp_sgd_curve.sgd(1.5, 0.1, 30)
    assert curves.symmetric(1.5) is dp_sgd_curve.symmetric_sgd(1.5, 0.1, 30)
    assert curves.epsilon(1.5, 1e-5) == dp_sgd_curve.epsilon_floor(1.5, 0.1, 30, 1e-5)
    assert curves.parameter(0.5) == 2.0 and curves.parameter(0.0) == math.inf == signal_noise(0.0)
    full = find_curves(dp_sgd(noise_multiplier=2.0, clip_norm=1.0, sample_rate=1.0, steps=4))
    assert full is not None and full.family == "gdp" and full.parameter(0.5) == 1.0


@pytest.mark.parametrize(
    "event",
    [
        sgd(sample_rate=0.1, steps=3),
        Gaussian(noise_multiplier=1.0),
        Laplace(noise_multiplier=1.0),
        Repeated(mechanism=Gaussian(noise_multiplier=1.0), count=3),
        Composed(parts=(dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.1, steps=3),)),
        None,
    ],
    ids=str,
)
def test_other_events_have_none(event: Event | None) -> None:
    assert find_curves(event) is None and noisy_steps(event) is None


def test_an_event_enters_by_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain Gaussian, as DP-SGD of one step that every record takes part in."""

    def plain(event: Event) -> EventCurves | None:
        assert isinstance(event, Gaussian)
        return event_curves.DpSgdCurves(noise_multiplier=event.noise_multiplier, sample_rate=1.0, steps=1)

    event = Gaussian(noise_multiplier=0.5)
    assert limit_curve(event, Adjacency.ADD_REMOVE) is None
    monkeypatch.setattr(event_curves, "CURVES", {**event_curves.CURVES, shape(event): plain})
    curves, limit = find_curves(event), limit_curve(event, Adjacency.ADD_REMOVE)
    assert curves is not None and limit is not None
    assert limit.tpr == tuple(curves.at(0.5).tpr(limit.fpr).tolist())
    assert FdpRank()._rank_scores((3, 3), curves) is not None


def test_matrix_factorisation_is_a_gaussian_of_what_a_record_moves() -> None:
    event = MatrixFactorization(noise_multiplier=3.0, coefficients=(1.0, 0.5), steps=6, participations=2, separation=3)
    curves, limit = find_curves(event), limit_curve(event, Adjacency.ADD_REMOVE)
    mu = math.sqrt(2 * 1.25) / 3
    fpr = np.array([0.0, 0.01, 0.3, 1.0])
    assert curves is not None and curves.family == "gdp" and curves.parameter(1 / curves.noise_multiplier) == pytest.approx(mu)
    tpr = special.ndtr(special.ndtri(fpr) + mu)  # the most powerful test between two normal laws `mu` apart
    np.testing.assert_allclose(curves.at(curves.noise_multiplier).tpr(fpr), tpr, atol=2e-4)
    assert limit is not None and curves.epsilon(curves.noise_multiplier, 1e-5) <= epsilon_of_mu(mu, 1e-5) + 1e-6


@pytest.mark.parametrize(
    "event",
    [
        MatrixFactorization(noise_multiplier=1.0, coefficients=(0.5, 1.0, 1.0), steps=6, participations=2, separation=1),
        MatrixFactorization(noise_multiplier=1.0, coefficients=(0.0,), steps=6),
    ],
    ids=["rising coefficients, of which no sensitivity is proved", "nothing is encoded"],
)
def test_matrix_factorisation_without_a_proved_sensitivity_has_no_curve(event: Event) -> None:
    assert find_curves(event) is None


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Epsilon of Gaussian differential privacy, by bisection (Balle and Wang 2018)."""

    def excess(epsilon: float) -> float:
        return float(special.ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * special.ndtr(-mu / 2 - epsilon / mu) - delta)

    return float(optimize.brentq(excess, 0.0, 100.0))


def test_only_a_repeated_event_has_steps_to_follow() -> None:
    event = dp_sgd(noise_multiplier=1.5, clip_norm=0.7, sample_rate=0.1, steps=30)
    assert repetition(event) is event and repetition(Gaussian(noise_multiplier=1.0)) is None
    assert shape(event) == (Repeated, PoissonSampled, Gaussian)


def test_curves_that_do_not_fit_into_memory_name_the_rate() -> None:
    curves = find_curves(dp_sgd(noise_multiplier=3.0, clip_norm=1.0, sample_rate=1e-6, steps=20))
    assert curves is not None
    with pytest.raises(ConfigError, match=r"sample_rate 1e-06 over 20 steps need more memory .* raise sample_rate"):
        curves.at(event_curves.dp_sgd_curve.LEAST_NOISE)
