"""Deployed procedures against small worlds that are added up outcome by outcome, and against what other libraries say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from audit.accounting import resolve
from audit.accounting.accountants._procedures import slack
from audit.accounting.accountants.reference import Reference
from audit.accounting.event_expressions import parse
from audit.core.adjacency import Adjacency
from audit.core.deployed_procedures import PROCEDURE_NODES, PROCEDURES
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_forms import decode, encode, kinds_by_name
from audit.core.events import Event

ADD, REPLACE, ZERO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT
GRID = np.linspace(-14.0, 14.0, 20_001)
TEXTS = {
    "MixtureOfGaussians": "MixtureOfGaussians(1.0, [0, 1, 2], [0.9, 0.08, 0.02])",
    "TruncatedPoisson": "TruncatedPoisson(1.0, 0.01, 100, 10000, 180)",
    "CyclicPoisson": "CyclicPoisson(1.0, 0.1, 100, 4, [1, 0.5])",
    "BufferedToeplitz": "BufferedToeplitz(5.0, [0.9, 0.5], [0.1, 0.2], 100, 2, 30)",
    "AdaptiveClipping": "AdaptiveClipping(1.01, 3.0)",
    "ProposeTestRelease": "ProposeTestRelease(0.5, 0.5, 30)",
    "SubsampleAggregate": "SubsampleAggregate(Laplace(10.0), 2)",
}


def bracket(event: Event | str, delta: float = 1e-5, adjacency: Adjacency = ADD) -> tuple[float, float]:
    requested = parse(event) if isinstance(event, str) else event
    return Reference().bracket(requested, delta=delta, adjacency=adjacency)


def density(weights: dict[float, float], noise: float) -> np.ndarray:
    """Density on the grid of Gaussian noise around sums, each with its probability."""
    parts = [chance * np.exp(-((GRID - total) ** 2) / (2 * noise**2)) for total, chance in weights.items()]
    return np.sum(parts, axis=0) / (noise * math.sqrt(2 * math.pi))


def worst_delta(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    """The hockey-stick divergence of two densities on the grid, in the worse direction."""
    width = GRID[1] - GRID[0]
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * width) for p, q in ((first, second), (second, first)))


def fixed_batches(data: tuple[float, ...], batch: int) -> dict[float, float]:
    subsets = list(itertools.combinations(data, batch))
    sums: dict[float, float] = {}
    for subset in subsets:
        sums[sum(subset)] = sums.get(sum(subset), 0.0) + 1 / len(subsets)
    return sums


def cut_batches(data: tuple[float, ...], rate: float, limit: int) -> dict[float, float]:
    """Sums of Poisson batches, a uniformly random part of those that are too large."""
    sums: dict[float, float] = {}
    for coins in itertools.product((False, True), repeat=len(data)):
        drawn = tuple(value for value, coin in zip(data, coins, strict=True) if coin)
        chance = rate ** len(drawn) * (1 - rate) ** (len(data) - len(drawn))
        for total, share in fixed_batches(drawn, min(limit, len(drawn))).items():
            sums[total] = sums.get(total, 0.0) + chance * share
    return sums


def neighbours(records: int) -> Iterator[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Small data sets of contributions in [-1, 1], each with and without its last record."""
    for remainder in itertools.combinations_with_replacement((-1.0, 0.0, 1.0), records - 1):
        for record in (-1.0, 1.0):
            yield (*remainder, record), remainder


@pytest.mark.parametrize(("noise", "batch"), [(1.0, 2), (2.0, 3), (0.7, 1)])
def test_fixed_batches_under_add_remove_are_the_worst_of_all_small_data_sets(noise: float, batch: int) -> None:
    low, high = bracket(f"SampledWithoutReplacement(Gaussian({noise}), 5, {batch})", 1e-3)
    for epsilon, holds in ((high, True), (low * (1 - 1e-3), False)):
        deltas = [
            worst_delta(density(fixed_batches(more, batch), noise), density(fixed_batches(remainder, batch), noise), epsilon)
            for more, remainder in neighbours(5)
        ]
        assert (max(deltas) <= 1e-3 * (1 + 1e-4)) is holds


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "limit"), [(0.05, 3), (0.1, 4)])
def test_cut_batches_cost_at_most_the_upper_end_on_all_small_data_sets(rate: float, limit: int) -> None:
    low, high = bracket(f"TruncatedPoisson(1.0, {rate}, 1, 6, {limit})", 1e-2)
    deltas = {
        epsilon: max(
            worst_delta(
                density(cut_batches(more, rate, limit), 1.0), density(cut_batches(remainder, rate, limit), 1.0), epsilon
            )
            for more, remainder in neighbours(6)
        )
        for epsilon in (low * (1 - 1e-3), high)
    }
    assert 0 < low < high < 1.2 * low
    assert min(deltas.values()) == deltas[high] <= 1e-2 * (1 + 1e-4) and max(deltas.values()) >= 1e-2 * (1 - 1e-4)


@pytest.mark.parametrize(("noise", "limit"), [(1.0, 1), (0.5, 3)])
def test_batches_that_are_all_cut_are_batches_of_one_size(noise: float, limit: int) -> None:
    low, high = bracket(f"TruncatedPoisson({noise}, 1.0, 1, 5, {limit})", 1e-3)
    assert (low, high) == bracket(f"SampledWithoutReplacement(Gaussian({noise}), 5, {limit})", 1e-3)
    assert low > bracket(f"Gaussian({noise})", 1e-3)[1]  # a record that pushes another one out moves the sum twice
    worst = {
        epsilon: max(
            worst_delta(
                density(cut_batches(more, 1.0, limit), noise), density(cut_batches(remainder, 1.0, limit), noise), epsilon
            )
            for more, remainder in neighbours(5)
        )
        for epsilon in (low * (1 - 1e-3), high)
    }
    assert worst[high] <= 1e-3 * (1 + 1e-4) and worst[low * (1 - 1e-3)] >= 1e-3


@pytest.mark.slow
def test_cut_batches_against_the_library_and_the_uncut() -> None:
    text = "TruncatedPoisson(1.0, 0.05, 10, 1000, 92)"
    theirs = resolve.subject("dp_accounting_pld,interval=1e-2").claim(parse(text), delta=1e-5, adjacency=ADD).epsilon
    low, high = bracket(text)
    assert low <= theirs * (1 + 1e-6) and theirs * 0.95 <= high <= theirs * 1.05
    uncut = bracket("dp_sgd(1.0, 0.05, 10)")
    assert low < uncut[0] and uncut[1] < high
    assert bracket("TruncatedPoisson(1.0, 0.05, 10, 1000, 1000)") == uncut
    requested = parse("TruncatedPoisson(1.0, 0.05, 10, 1000, 55)")
    (_, high), reason = Reference().explain(requested, delta=1e-5, adjacency=ADD)
    assert math.isinf(high) and "cut so often" in reason


def test_a_mixture_is_the_integral_of_its_densities() -> None:
    low, high = bracket("MixtureOfGaussians(1.0, [0, 1, 2], [0.9, 0.08, 0.02])", 1e-4)
    moved, remainder = density({0.0: 0.9, 1.0: 0.08, 2.0: 0.02}, 1.0), density({0.0: 1.0}, 1.0)
    assert worst_delta(moved, remainder, high) <= 1e-4 * (1 + 1e-4)
    assert worst_delta(moved, remainder, low * (1 - 1e-4)) > 1e-4 and high < 1.001 * low


@pytest.mark.slow
def test_composed_mixtures_against_the_library() -> None:
    theirs = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        1.0, [0, 0.5, 1], [0.5, 0.3, 0.2], value_discretization_interval=1e-2
    ).self_compose(20)
    low, high = bracket("20 * MixtureOfGaussians(1.0, [0, 0.5, 1], [0.5, 0.3, 0.2])")
    assert low <= theirs.get_epsilon_for_delta(1e-5) * (1 + 1e-6)
    assert high == pytest.approx(theirs.get_epsilon_for_delta(1e-5), rel=1e-2)


@pytest.mark.slow
def test_a_mixture_of_one_shift_is_a_sampled_release() -> None:
    low, high = bracket("30 * MixtureOfGaussians(1.3, [1, 0, 1], [0.02, 0.95, 0.03])")
    sampled = bracket("dp_sgd(1.3, 0.05, 30)")
    assert low <= sampled[1] and sampled[0] <= high < 1.001 * low
    assert bracket("MixtureOfGaussians(1.3, [0], [1])") == (0.0, 0.0)


@pytest.mark.slow
def test_cyclic_batches_are_one_release_a_turn() -> None:
    first, last = math.hypot(1, 0.5), 1.0  # the encoder ends with the last batch
    turn, final = (
        privacy_loss_distribution.from_gaussian_mechanism(1.5 / length, sampling_prob=0.2, value_discretization_interval=1e-3)
        for length in (first, last)
    )
    theirs = turn.self_compose(3).compose(final).get_epsilon_for_delta(1e-5)
    low, high = bracket("CyclicPoisson(1.5, 0.2, 10, 3, [1, 0.5])")
    assert low <= theirs * (1 + 1e-6) and high == pytest.approx(theirs, rel=2e-3)
    assert bracket("CyclicPoisson(1.0, 0.2, 100, 1)") == bracket("dp_sgd(1.0, 0.2, 100)")


def test_buffers_are_the_matrix_that_they_stand_for() -> None:
    coefficients = [1.0] + [0.1 * 0.9**i + 0.2 * 0.5**i for i in range(99)]
    assert bracket("BufferedToeplitz(5.0, [0.9, 0.5], [0.1, 0.2], 100, 2, 30)") == pytest.approx(
        bracket(f"MatrixFactorization(5.0, {coefficients}, 100, 2, 30)"), rel=1e-12
    )


@pytest.mark.slow
def test_adaptive_clipping_costs_what_one_release_with_the_noise_of_both_does() -> None:
    sum_noise = (1 / 1.0**2 - 1 / (2 * 3.0) ** 2) ** -0.5  # Andrew et al. 2021, Theorem 1
    for adjacency in (ADD, REPLACE):
        low, high = bracket(f"50 * PoissonSampled(AdaptiveClipping({sum_noise!r}, 3.0), 0.02)", 1e-5, adjacency)
        plain = bracket("dp_sgd(1.0, 0.02, 50)", 1e-5, adjacency)
        assert low == pytest.approx(plain[0], rel=1e-6) and high == pytest.approx(plain[1], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("test", "release", "threshold"), [(0.5, 0.5, 30.0), (1.0, 0.1, 10.0), (2.0, 1.0, 2.0)])
def test_propose_test_release_holds_where_the_bound_does_and_where_it_does_not(
    test: float, release: float, threshold: float
) -> None:
    delta = math.exp(-test * threshold) / 2 * 1.001
    low, high = bracket(f"ProposeTestRelease({test}, {release}, {threshold})", delta)
    assert 0 < low < high == pytest.approx(test + release, rel=1e-2)
    assert math.isinf(bracket(f"ProposeTestRelease({test}, {release}, {threshold})", delta / 1.01)[0])

    def passes(distance: int) -> float:
        gap = test * (threshold - distance)
        return 0.5 * math.exp(-gap) if gap >= 0 else 1 - 0.5 * math.exp(gap)

    places = np.linspace(-60 / release, 60 / release + 1, 100_001)

    def outcomes(distance: int, centre: float) -> np.ndarray:
        """Chance of no release, and of a release at each place."""
        masses = np.exp(-np.abs(places - centre) * release)
        return np.concatenate([[1 - passes(distance)], passes(distance) * masses / masses.sum()])

    def cost(first: np.ndarray, second: np.ndarray) -> float:
        return max(float(np.maximum(p - math.exp(high) * q, 0).sum()) for p, q in ((first, second), (second, first)))

    broken = passes(0)  # the bound holds for neither data set: any release distinguishes them
    assert broken <= delta
    for distance in range(40):
        assert cost(outcomes(distance, 0.0), outcomes(distance + 1, 1.0)) <= delta


@pytest.mark.slow
@pytest.mark.parametrize(("test", "release", "threshold"), [(0.5, 0.5, 30.0), (1.0, 0.1, 10.4), (2.0, 1.0, 5.9)])
def test_propose_test_release_costs_at_least_what_one_of_its_kind_does(test: float, release: float, threshold: float) -> None:
    """Randomised response as the release, of data at every distance: the lower end is what the worst of them needs."""

    def outcomes(distance: int, answer: int) -> np.ndarray:
        gap = test * (threshold - distance)
        passes = 0.5 * math.exp(-gap) if gap >= 0 else 1 - 0.5 * math.exp(gap)
        share = 1 / (1 + math.exp(-release))
        return np.array([1 - passes, *(passes * (share if answer == shown else 1 - share) for shown in (0, 1))])

    delta = 0.01
    low, high = bracket(f"ProposeTestRelease({test}, {release}, {threshold})", delta)
    costs = []
    for distance in range(40):
        first, second = outcomes(distance, 0), outcomes(distance + 1, 1)
        for p, q in ((first, second), (second, first)):
            costs.append(float(np.maximum(p - math.exp(low * (1 - 1e-3)) * q, 0).sum()))
    assert max(costs) >= delta * (1 - 1e-9) and 0 < low < high
    assert bracket(f"3 * ProposeTestRelease({test}, {release}, {threshold})", delta)[0] > low


def test_aggregates_of_blocks_move_by_twice_the_bound_whatever_happens_to_the_record() -> None:
    for noise in (10.0, 3.0):
        for way in (ADD, REPLACE, ZERO):
            ends = bracket(f"SubsampleAggregate(Gaussian({noise}))", 1e-5, way)
            assert ends == pytest.approx(bracket(f"Gaussian({noise / 2})"))
    assert bracket("SubsampleAggregate(Laplace(10.0), 2)") == pytest.approx(bracket("Laplace(2.5)"), rel=1e-6)
    assert bracket("SubsampleAggregate(ApproximateDp(0.3, 0.0))") == bracket("ApproximateDp(0.3, 0.0)")


@pytest.mark.slow
def test_batches_that_are_cut_in_any_of_several_runs_count_for_each() -> None:
    once = "TruncatedPoisson(1.0, 0.01, 100, 10000, 155)"
    chance = slack(parse(once))
    assert 1e-6 < chance < 1e-3
    for runs in (f"30 * {once}", f"Tuned({once}, 30, 1.0)", f"Tuned({once}, 30, 1e400)", f"Shuffled({once}, 30)"):
        assert slack(parse(runs)) == pytest.approx(30 * chance, rel=1e-12)
    assert slack(parse(f"Tuned({once}, 0.5, 1e400)")) == pytest.approx(chance / 2)
    ends, reason = Reference(tolerance=1e-2).explain(parse(f"Tuned({once}, 1000)"), delta=20 * chance, adjacency=ADD)
    assert math.isinf(ends[1]) and "cut so often" in reason


@pytest.mark.parametrize(
    ("text", "adjacency"),
    [
        ("Grouped(SampledWithoutReplacement(Gaussian(1.0), 10, 5), 2)", ADD),
        ("SampledWithoutReplacement(Gaussian(1.0), 10, 5)", ZERO),
        ("Grouped(CyclicPoisson(1.0, 0.1, 10, 2), 2)", ADD),
        ("CyclicPoisson(1.0, 0.1, 10, 2, [1, 0.5])", REPLACE),
        ("MixtureOfGaussians(1.0, [0, 1], [0.5, 0.5])", REPLACE),
        ("SubsampleAggregate(PoissonSampled(Gaussian(1.0), 0.1))", ADD),
        ("SubsampleAggregate(RandomAllocation(1.0, 2))", ADD),
        ("SubsampleAggregate(2 * MixtureOfGaussians(1.0, [0, 1], [0.5, 0.5]))", ZERO),
        ("SubsampleAggregate(CyclicPoisson(1.0, 0.1, 10, 2))", ADD),
        ("BufferedToeplitz(1.0, [0.9], [1.5], 9, 2, 3)", ADD),
        ("Grouped(ProposeTestRelease(0.5, 0.5, 30), 2)", ADD),
    ],
)
def test_what_is_not_proven_is_refused(text: str, adjacency: Adjacency) -> None:
    with pytest.raises(UnsupportedMechanism):
        bracket(text, adjacency=adjacency)


@pytest.mark.parametrize("kind", [*PROCEDURES, *PROCEDURE_NODES], ids=lambda kind: kind.__name__)
def test_files_hold_every_procedure(kind: type[Event]) -> None:
    event = parse(TEXTS[kind.__name__])
    assert type(event) is kind and decode(encode(event)) == event and kinds_by_name()[kind.__name__] is kind


def test_values_that_mean_nothing_are_refused() -> None:
    texts = """MixtureOfGaussians(0.0, [1], [1]); MixtureOfGaussians(1.0, [1], [0.5]); MixtureOfGaussians(1.0, [-1], [1])
        MixtureOfGaussians(1.0, [1, 2], [1]); CyclicPoisson(1.0, 0.1, 10, 1, [1, 1]); AdaptiveClipping(1.0, -1.0)
        BufferedToeplitz(1.0, [1.5], [1], 3); BufferedToeplitz(1.0, [0.5], [1, 2], 3); ProposeTestRelease(0, 1, 1)
        TruncatedPoisson(1.0, 0.1, 10, 0, 5); SubsampleAggregate(Gaussian(1.0), 0)"""
    for text in texts.replace("\n", ";").split(";"):
        with pytest.raises(ConfigError):
            parse(text)
