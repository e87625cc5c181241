"""The exact values of mechanisms: published rows, and a slow naive twin that counts outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from audit.stats.curves import tradeoff
from tests.marks import slow
from tests.mechanism_checks.controls import additive, selection, statistics
from tests.mechanism_checks.controls.catalogue import KnownMechanism, controls, wrong_twins
from tests.mechanism_checks.controls.sparse_vector import SparseVectorTechnique, step_pair


def sparse(mechanism: SparseVectorTechnique, below: int, above: int) -> float:
    return mechanism.epsilon(*step_pair(below, above))


@pytest.mark.parametrize(("below", "exact"), [(1, 0.396), (5, 0.900), (20, 1.000)])
def test_sparse_vector_algorithm_1(below: int, exact: float) -> None:
    assert sparse(SparseVectorTechnique(2.0, 4.0), below, 1) == pytest.approx(exact, abs=5e-4)


@pytest.mark.parametrize(("above", "exact"), [(1, 1.033), (2, 1.380), (5, 1.659), (20, 1.749)])
def test_sparse_vector_algorithm_4(above: int, exact: float) -> None:
    mechanism = SparseVectorTechnique(4.0, 4 / 3, None)
    assert sparse(mechanism, 1, above) == pytest.approx(exact, abs=6e-4)
    assert sparse(mechanism, 20, above) <= (1 + 6 * above) / 4  # the worst case of Lyu et al.


@pytest.mark.parametrize(("queries", "exact"), [(1, 0.7367), (2, 1.5295394), (5, 4.0308213), (10, 8.3466145), (20, 17.143679)])
def test_sparse_vector_algorithm_6(queries: int, exact: float) -> None:
    """Exact values by 30-digit quadrature (mpmath)."""
    assert sparse(SparseVectorTechnique(2.0, 2.0, None), queries, queries) == pytest.approx(exact, abs=5e-5)


def test_sparse_vector_algorithm_5_has_an_event_of_one_side_alone() -> None:
    mechanism = SparseVectorTechnique(2.0, 0.0, None)
    answers, neighbour, pattern = step_pair(1)
    assert math.exp(mechanism.log_probability(answers, pattern)) == pytest.approx(0.5 * (1 - math.exp(-0.5)), abs=1e-6)  # 0.196
    assert mechanism.log_probability(neighbour, pattern) == -math.inf
    assert mechanism.epsilon(answers, neighbour, pattern) == math.inf


@pytest.mark.parametrize(("candidates", "exact"), [(2, 1.0), (10, 1.776), (100, 1.977)])
def test_exponential_without_the_factor_2(candidates: int, exact: float) -> None:
    high, low = np.eye(candidates)[0], 1 - np.eye(candidates)[0]
    assert selection.ExponentialChoice(1.0).epsilon(high, low) == pytest.approx(exact, abs=5e-4)
    assert selection.ExponentialChoice(0.5).epsilon(high, low) <= 1


def test_laplace_and_randomised_response() -> None:
    assert additive.LaplaceSum(1.0).epsilon() == 1.0
    assert additive.LaplaceSum(0.5).epsilon() == 2.0
    assert statistics.Response(0.75).epsilon() == pytest.approx(1.0986, abs=5e-5)
    assert statistics.Response(statistics.response_truth(1.0)).epsilon() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("deviation", "delta", "sensitivity", "exact"),
    [
        (additive.inverted_deviation(1.0, 1e-5), 1e-5, 1.0, 32.6),
        (additive.inverted_deviation(0.1, 1e-5), 1e-5, 1.0, 1.97),
        (additive.classic_deviation(10.0, 1e-5), 1e-5, 1.0, 10.39),
        (additive.classic_deviation(20.0, 1e-5), 1e-5, 1.0, 25.4),
        (additive.classic_deviation(10.0, 0.1), 0.1, 1.0, 14.73),
        (additive.classic_deviation(1.0, 1e-5), 1e-5, 2.0, 1.61),
        (additive.classic_deviation(1.0, 1e-5), 1e-5, 1.0, 0.751),
    ],
)
def test_gaussian(deviation: float, delta: float, sensitivity: float, exact: float) -> None:
    digits = 0.05 if exact > 20 else 5e-3
    assert additive.GaussianSum(deviation).epsilon(delta, sensitivity) == pytest.approx(exact, abs=digits)


def test_classic_gaussian_in_delta() -> None:
    assert additive.GaussianSum(additive.classic_deviation(10.0, 0.1)).delta(10.0) == pytest.approx(0.405, abs=1e-3)


@pytest.mark.parametrize(("delta", "first"), [(1e-10, 9.85), (1e-6, 8.8), (1e-5, 8.45), (1e-3, 7.5), (1e-2, 6.8), (0.1, 5.75)])
def test_the_classic_formula_is_first_false_at(delta: float, first: float) -> None:
    def excess(epsilon: float) -> float:
        return tradeoff.gdp_delta(1 / additive.classic_deviation(epsilon, delta), epsilon) - delta

    low, high = 1.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
    assert low == pytest.approx(first, abs=0.06)


def test_float_laplace_reaches_few_outputs_of_its_neighbour() -> None:
    delta = additive.FloatLaplaceSum(16).delta(0.0, 1.0)
    assert 0.8 < delta < 1.0  # a coarser grid shares fewer outputs


@pytest.mark.slow
def test_float_laplace_of_all_uniforms_of_single_precision() -> None:
    assert additive.FloatLaplaceSum(24).delta(0.0, 1.0) == pytest.approx(0.80, abs=0.03)


def discrete_epsilon(entry: KnownMechanism, count: int) -> float:
    """The largest log ratio of the frequencies of an output: a naive twin of the exact values."""
    stream = np.random.default_rng(0)
    sides = [np.asarray(entry.function(data, stream, size=count)) for data in (entry.pair.data, entry.pair.neighbour)]
    rows = [[row.tobytes() for row in side.reshape(count, -1)] for side in sides]
    names = sorted(set(rows[0]) | set(rows[1]))
    place = {name: at for at, name in enumerate(names)}
    first, second = (np.bincount([place[name] for name in side], minlength=len(names)) for side in rows)
    often = np.minimum(first, second) > 2000
    return float(np.abs(np.log(first[often]) - np.log(second[often])).max())


COUNTED = [
    "permute and flip",
    "report noisy max",
    "exponential, 10 candidates",
    "randomised response, 5 values",
    "exponential without the factor 2, 10 candidates",
]


@pytest.mark.parametrize("name", slow(COUNTED, COUNTED[1:]))
def test_an_exact_value_is_what_is_counted(name: str) -> None:
    entry = next(entry for entry in (*controls(), *wrong_twins()) if entry.name == name)
    assert discrete_epsilon(entry, 200_000) == pytest.approx(entry.exact, abs=0.08)


def test_a_histogram_releases_a_lone_category_with_probability_delta() -> None:
    histogram = statistics.ThresholdedHistogram(1.0, statistics.histogram_threshold(1.0, 0.05))
    stream = np.random.default_rng(0)
    rate = np.mean(["b" in histogram(["a", "a", "b"], stream) for _ in range(4000)])
    assert histogram.delta() == pytest.approx(0.05)
    assert rate == pytest.approx(0.05, abs=0.015)
