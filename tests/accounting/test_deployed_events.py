"""Deployed events against closed forms, exact sums and what other libraries say."""

from __future__ import annotations

import math

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting import pld
from dp_accounting.pld import privacy_loss_distribution

from audit.accounting.accountants import _makers
from audit.accounting.accountants._makers import SHARES, _yes_after_no, chances
from audit.accounting.accountants.reference import Reference
from audit.accounting.event_expressions import parse
from audit.core.adjacency import Adjacency
from audit.core.deployed_events import DEPLOYED, MatrixFactorization, NoisyMax, Skellam, SparseVector, encoder_sensitivity
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_forms import decode, encode, kinds_by_name
from audit.core.events import Event, Gaussian
from audit.stats.curves import lattice_pairs

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def bracket(event: Event | str, delta: float = 1e-5, adjacency: Adjacency = ADD) -> tuple[float, float]:
    requested = parse(event) if isinstance(event, str) else event
    return Reference().bracket(requested, delta=delta, adjacency=adjacency)


def naive_delta(log_mass: np.ndarray, shift: int, epsilon: float) -> float:
    """The hockey-stick divergence of integer noise from its shift, term by term."""
    absent, member = log_mass[shift:], log_mass[: len(log_mass) - shift]
    return float(np.maximum(np.exp(member) - np.exp(epsilon + absent), 0).sum())


def gaussian_masses(scale: float) -> np.ndarray:
    x = np.arange(-4000, 4001)
    log_mass = -(x**2) / (2 * scale**2)
    return log_mass - np.logaddexp.reduce(log_mass)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("noise", "sensitivity"), [(2.0, 1), (0.7, 1), (1.5, 4), (30.0, 1)])
def test_discrete_gaussian_noise_is_the_sum_over_its_outcomes(noise: float, sensitivity: int) -> None:
    low, high = bracket(f"DiscreteGaussian({noise}, {sensitivity})")
    masses = gaussian_masses(noise * sensitivity)
    assert naive_delta(masses, sensitivity, high) <= 1e-5 * (1 + 1e-6)
    assert naive_delta(masses, sensitivity, low * (1 - 1e-9)) >= 1e-5 * (1 - 1e-6)
    assert high - low <= 1e-3 * high


def test_skellam_noise_is_the_sum_over_its_outcomes() -> None:
    from scipy.stats import skellam

    low, high = bracket("Skellam(3.0, 2)")
    x = np.arange(-200, 201)
    masses = skellam.logpmf(x, 18.0, 18.0)
    assert naive_delta(masses, 2, high) <= 1e-5 * (1 + 1e-6) and naive_delta(masses, 2, low * (1 - 1e-9)) >= 1e-5 * (1 - 1e-6)


def test_composed_discrete_noise_is_near_the_continuous_where_it_is_large() -> None:
    low, high = bracket("100 * DiscreteGaussian(20.0)")
    gaussian = bracket("100 * Gaussian(20.0)")
    assert low == pytest.approx(gaussian[0], rel=2e-3) and high == pytest.approx(gaussian[1], rel=2e-3)


@pytest.mark.parametrize(("noise", "sensitivity", "count"), [(1.0, 1, 1), (1.0, 3, 10), (5.0, 2, 50)])
def test_discrete_laplace_noise_against_the_library(noise: float, sensitivity: int, count: int) -> None:
    low, high = bracket(f"{count} * DiscreteLaplace({noise}, {sensitivity})", 1e-6)
    theirs = privacy_loss_distribution.from_discrete_laplace_mechanism(
        1 / (noise * sensitivity), sensitivity=sensitivity
    ).self_compose(count)
    assert low <= theirs.get_epsilon_for_delta(1e-6) * (1 + 1e-6)
    assert high == pytest.approx(theirs.get_epsilon_for_delta(1e-6), rel=2e-3)


def test_integers_change_by_twice_as_much_where_one_is_replaced() -> None:
    assert bracket("DiscreteGaussian(4.0, 1)", adjacency=REPLACE) == pytest.approx(
        bracket("DiscreteGaussian(2.0, 2)"), rel=1e-3
    )


def test_matrices() -> None:
    identity = MatrixFactorization(noise_multiplier=2.0, coefficients=(1.0,), steps=50)
    assert encoder_sensitivity(identity) == 1.0
    banded = MatrixFactorization(noise_multiplier=2.0, coefficients=(1.0, 0.5, 0.25), steps=30, participations=4, separation=5)
    assert encoder_sensitivity(banded) == pytest.approx(2 * math.sqrt(1 + 0.25 + 0.0625))
    prefix = MatrixFactorization(noise_multiplier=2.0, coefficients=(1.0,) * 8, steps=8, participations=2, separation=3)
    assert encoder_sensitivity(prefix) == pytest.approx(math.sqrt(3 * 1 + 5 * 4))
    rising = MatrixFactorization(noise_multiplier=2.0, coefficients=(0.5, 1.0, 1.0), steps=8, participations=2, separation=2)
    with pytest.raises(UnsupportedMechanism, match="no sensitivity is proved"):
        encoder_sensitivity(rising)
    assert bracket(banded) == pytest.approx(bracket(Gaussian(noise_multiplier=2.0 / encoder_sensitivity(banded))))


def worst_by_search(event: MatrixFactorization) -> float:
    """The sensitivity over all patterns of participation, contributions being equal: brute force."""
    from itertools import combinations, pairwise

    column = np.zeros(event.steps)
    column[: len(event.coefficients)] = event.coefficients
    encoder = np.array([np.concatenate([np.zeros(j), column[: event.steps - j]]) for j in range(event.steps)]).T
    best = 0.0
    for count in range(1, event.participations + 1):
        for places in combinations(range(event.steps), count):
            if all(later - earlier >= event.separation for earlier, later in pairwise(places)):
                best = max(best, float(np.linalg.norm(encoder[:, list(places)].sum(axis=1))))
    return best


@pytest.mark.parametrize("separation", [1, 2, 3, 4])
def test_the_sensitivity_is_the_worst_over_all_patterns(separation: int) -> None:
    for coefficients in ((1.0, 0.5, 0.375), (1.0, 0.9, 0.8, 0.7, 0.1), (1.0,)):
        event = MatrixFactorization(
            noise_multiplier=1.0, coefficients=coefficients, steps=9, participations=3, separation=separation
        )
        assert encoder_sensitivity(event) == pytest.approx(worst_by_search(event))


def test_trees_against_the_library() -> None:
    theirs = pld.PLDAccountant().compose(dp_accounting.GaussianDpEvent(3.0 / math.sqrt(4)))
    low, high = bracket("SingleEpochTreeAggregationDpEvent(3.0, 15)")
    assert low <= theirs.get_epsilon(1e-5) * (1 + 1e-6) and high == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-3)


@pytest.mark.slow
def test_selections_and_thresholds_have_two_ends() -> None:
    """From above as any mechanism with their guarantee, from below as one example of each."""
    low, high = bracket("SparseVector(1.0, 1.0, 1)")
    assert 1.9 < low < high <= 2.0
    low, high = bracket("NoisyMax(1.0, 'exponential')")
    assert 0.97 < low <= high <= 1.0
    low, high = bracket("NoisyMax(1.0, 'laplace')")
    assert 0.99 < low < high <= 1.0
    assert bracket("20 * NoisyMax(0.5)") == bracket("20 * Exponential(0.5)")
    assert bracket("2 * NoisyMax(0.5)")[1] < bracket("2 * NoisyMax(0.5, 'laplace')")[1]
    assert bracket("NoisyMax(0.0) + SparseVector(0.0, 1.0) + SparseVector(1.0, 0.0)")[0] == 0.0
    assert 0.0 <= bracket("NoisyMax(2000.0, 'laplace')")[0] <= 2000.0


@pytest.mark.parametrize("noise", ["gumbel", "exponential", "laplace"])
def test_the_example_of_a_selection_happens(noise: str) -> None:
    """Two candidates with scores `start` apart, and then `start` plus epsilon in units of the noise's scale."""
    rng = np.random.default_rng(3)
    event = NoisyMax(epsilon=1.5, noise=noise)  # type: ignore[arg-type]
    drawn = {"gumbel": rng.gumbel, "exponential": rng.exponential, "laplace": rng.laplace}[noise](size=(2, 200_000))
    for share in (0.5, 0.8):
        start = 1.5 * (share - 1)
        frequencies = [float((drawn[0] > drawn[1] + gap).mean()) for gap in (start, start + 1.5)]
        if noise == "gumbel":
            (loss, _), (chance, _) = zip(*reversed(_makers.two_outcomes(1.5, share)("remove", -40.0).atoms), strict=True)
            assert 0 < loss < 1.5 and 0 < chance < 1
            odds = [value / (1 - value) for value in frequencies]
            assert math.log(odds[0] / odds[1]) == pytest.approx(1.5, abs=0.03)
        else:
            assert frequencies == pytest.approx(chances(event, share), abs=0.005)


def test_the_example_of_a_test_happens() -> None:
    rng = np.random.default_rng(4)
    event = SparseVector(threshold_epsilon=1.5, query_epsilon=2.0, positives=2)
    noise = rng.laplace(scale=2 * 2 / 2.0, size=400_000) - rng.laplace(scale=1 / 1.5, size=400_000)
    for share in (0.5, 0.9):
        frequencies = [float((noise > gap).mean()) for gap in (share - 1, share)]
        assert frequencies == pytest.approx(chances(event, share), abs=0.004)


MANY = [
    (NoisyMax(epsilon=1.5, noise="laplace"), 3, (1.0, 1.0), 0, 1.5),
    (SparseVector(threshold_epsilon=1.5, query_epsilon=2.0, positives=2), 4, (1 / 1.5, 2.0), 2, 1.0),
]


@pytest.mark.parametrize(("event", "others", "scales", "positives", "gap"), MANY)
def test_the_examples_of_many_happen(
    event: NoisyMax | SparseVector, others: int, scales: tuple[float, float], positives: int, gap: float
) -> None:
    """So many stay below the noise of one, and the positives above it: the frequencies of both data sets."""
    rng = np.random.default_rng(5)
    size = 100_000
    threshold = rng.laplace(scale=scales[0], size=(size, 1))
    no, yes = (rng.laplace(scale=scales[1], size=(size, count)) for count in (others, positives))
    frequencies = [
        float(((no + move <= threshold).all(axis=1) & (yes - move > threshold).all(axis=1)).mean()) for move in (0.0, gap)
    ]
    assert frequencies == pytest.approx(chances(event, float(others)), abs=0.004)


@pytest.mark.slow
@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.02, 20.0), (20.0, 0.02), (3.0, 5.0)])
@pytest.mark.parametrize("counts", [(3, 0), (30, 2), (100, 1)])
def test_chances_of_many_against_quadrature_at_30_digits(scales: tuple[float, float], counts: tuple[int, int]) -> None:
    for places in ((0.0, 0.0), (1.0, -1.0)):
        assert _yes_after_no(scales, counts, places) == pytest.approx(_naive(scales, counts, places), rel=1e-10, abs=1e-16)


def _naive(scales: tuple[float, float], counts: tuple[int, int], places: tuple[float, float]) -> float:
    def below(value: mpmath.mpf) -> mpmath.mpf:
        return mpmath.exp(value) / 2 if value < 0 else 1 - mpmath.exp(-value) / 2

    def density(noise: mpmath.mpf) -> mpmath.mpf:
        no, yes = below((noise - places[0]) / scales[1]) ** counts[0], below(-(noise - places[1]) / scales[1]) ** counts[1]
        return mpmath.exp(-abs(noise) / scales[0]) / (2 * scales[0]) * no * yes

    with mpmath.workdps(30):
        steps = [sign * step for sign in (-1, 1) for step in (0, 1, 2, 3, 5, 7, 10, 15, 20, 40)]
        kinks = [(0.0, scales[0]), *((place, scales[1]) for place in places)]
        ends = sorted(
            {min(max(place + scale * step, -40 * scales[0]), 40 * scales[0]) for place, scale in kinks for step in steps}
        )
        return float(mpmath.quad(density, ends))


@pytest.mark.parametrize("positives", [1, 3])
def test_many_tests_reach_the_guarantee_and_never_exceed_it(positives: int) -> None:
    event = SparseVector(threshold_epsilon=0.7, query_epsilon=1.1, positives=positives)
    losses = [math.log(first / second) for first, second in (chances(event, share) for share in SHARES)]
    assert max(losses) <= 1.8 and max(losses) > 1.799


@pytest.mark.parametrize(("threshold", "query"), [(1e300, 1.0), (1e-300, 1.0), (50.0, 1e-4), (1e-4, 50.0)])
def test_an_example_is_never_worth_more_than_the_guarantee(threshold: float, query: float) -> None:
    event = SparseVector(threshold_epsilon=threshold, query_epsilon=query)
    for share in SHARES:
        first, second = chances(event, share)
        assert 0 < second <= first < 1 and math.log(first / second) <= (threshold + query) * (1 + 1e-9)


@pytest.mark.slow
def test_deployed_events_mix() -> None:
    low, high = bracket("dp_sgd(1.0, 0.01, 100) + 5 * DiscreteGaussian(4.0) + TreeAggregation(5.0, 100)")
    assert 0 < low <= high < 1.01 * low


def test_deployed_events_group_and_are_not_sampled() -> None:
    assert bracket("Grouped(DiscreteGaussian(4.0, 1), 2)") == pytest.approx(bracket("DiscreteGaussian(2.0, 2)"), rel=1e-3)
    with pytest.raises(UnsupportedMechanism, match="Poisson sampling"):
        bracket("PoissonSampled(DiscreteGaussian(1.0), 0.1)")


@pytest.mark.parametrize("kind", DEPLOYED, ids=lambda kind: kind.__name__)
def test_files_hold_every_deployed_event(kind: type[Event]) -> None:
    texts = {
        "NoisyMax": "NoisyMax(1.0, 'laplace')",
        "SparseVector": "SparseVector(0.5, 0.5, 2)",
        "MatrixFactorization": "MatrixFactorization(1.0, [1.0, 0.5], 10, 2, 3)",
        "TreeAggregation": "TreeAggregation(1.0, 7)",
    }
    event = parse(texts.get(kind.__name__, f"{kind.__name__}(2.0, 3)"))
    assert type(event) is kind and decode(encode(event)) == event and kinds_by_name()[kind.__name__] is kind


def test_values_that_mean_nothing_are_refused() -> None:
    for text in ("DiscreteGaussian(0.0)", "DiscreteLaplace(1.0, 0)", "Skellam(1.0, 1.5)", "NoisyMax(1.0, 'normal')",
                 "MatrixFactorization(1.0, [], 3)", "TreeAggregation(1.0, 0)"):  # fmt: skip
        with pytest.raises(ConfigError):
            parse(text)
    with pytest.raises(MemoryError, match="at most"):
        lattice_pairs.discrete_gaussian(1e6, 1)
    assert "no bracket" in Reference().explain(Skellam(noise_multiplier=1e5), delta=1e-5, adjacency=ADD)[1]
