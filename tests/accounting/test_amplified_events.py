"""Random allocation, shuffled answers and the best of several runs, against small worlds added up outcome by outcome."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from audit.accounting import resolve
from audit.accounting.accountants import _closed_forms
from audit.accounting.accountants.reference import Reference
from audit.accounting.event_expressions import parse
from audit.core.adjacency import Adjacency
from audit.core.deployed_procedures import AMPLIFIED, AMPLIFIED_NODES
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_forms import decode, encode, kinds_by_name
from audit.core.events import Event
from audit.stats.curves.loss_pairs import Direction, LossPair
from audit.stats.curves.random_allocation import random_allocation

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def bracket(text: str, delta: float = 1e-5, adjacency: Adjacency = ADD) -> tuple[float, float]:
    return Reference().bracket(parse(text), delta=delta, adjacency=adjacency)


def hockey_stick(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in ((first, second), (second, first)))


# ---- random allocation ---------------------------------------------------------------------------------------------


def two_places(noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Masses of two releases, with a record in either of them and without, on a fine grid."""
    x = np.linspace(-9 * noise, 9 * noise + 1, 2001)
    absent, present = (np.exp(-((x - centre) ** 2) / (2 * noise**2)) for centre in (0.0, 1.0))
    absent, present = absent / absent.sum(), present / present.sum()
    return (present[:, None] * absent + absent[:, None] * present) / 2, absent[:, None] * absent


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "delta"), [(1.0, 1e-3), (2.0, 1e-4)])
def test_two_places_are_a_double_integral(noise: float, delta: float) -> None:
    low, high = bracket(f"RandomAllocation({noise}, 2)", delta)
    present, absent = two_places(noise)
    assert hockey_stick(present, absent, high) <= delta * (1 + 1e-3)
    assert hockey_stick(present, absent, low * (1 - 1e-3)) >= delta and high < 1.001 * low


def draws(noise: float, steps: int, epochs: int, member: bool) -> np.ndarray:
    """Losses of epochs in the world of the record, or in that without it."""
    generator = np.random.default_rng(3)
    losses = np.zeros(200_000)
    for _ in range(epochs):
        x = generator.normal(scale=noise, size=(len(losses), steps))
        x[:, 0] += member
        losses += np.log(np.exp((2 * x - 1) / (2 * noise**2)).mean(axis=1))
    return losses


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "steps", "epochs"), [(1.0, 10, 1), pytest.param(1.5, 20, 3, marks=pytest.mark.slow)])
def test_the_bracket_holds_what_is_drawn(noise: float, steps: int, epochs: int) -> None:
    delta = 0.01
    low, high = bracket(f"{epochs} * RandomAllocation({noise}, {steps})", delta)
    present, absent = draws(noise, steps, epochs, True), draws(noise, steps, epochs, False)
    for epsilon, way in ((low, 1), (high, -1)):
        terms = [np.maximum(1 - np.exp(epsilon - losses), 0) for losses in (present, -absent)]
        worst = max(terms, key=lambda term: term.mean())
        assert way * (worst.mean() - delta) > -5 * worst.std() / math.sqrt(len(worst))


def delta_of_places(noise: float, steps: int, epsilon: float, draws: int = 20) -> float:
    """Delta of removing a record: an integral over its release, averaged over draws of all the others."""
    generator = np.random.default_rng(5)
    x = np.linspace(1 - 10 * noise, 1 + 10 * noise, 20_001)
    weights = np.exp(-((x - 1) ** 2) / (2 * noise**2))
    ratios = np.exp((2 * x - 1) / (2 * noise**2))
    costs = []
    for _ in range(draws):
        peers = np.exp((2 * generator.normal(0, noise, steps - 1) - 1) / (2 * noise**2)).sum()
        costs.append(weights @ np.maximum(1 - math.exp(epsilon) * steps / (ratios + peers), 0) / weights.sum())
    return float(np.mean(costs))


def delta_of_pair(pair: LossPair, epsilon: float) -> float:
    return sum(mass * -math.expm1(min(epsilon - loss, 0.0)) for loss, mass in pair.atoms)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "steps", "epsilon"), [(0.5, 20_000, 4.7), pytest.param(0.45, 10_000, 6.0, marks=pytest.mark.slow)]
)
def test_round_off_of_many_places_is_counted_on_its_side(noise: float, steps: int, epsilon: float) -> None:
    truth = delta_of_places(noise, steps, epsilon)
    below, above = (random_allocation(noise, steps, "remove", side) for side in ("below", "above"))
    assert delta_of_pair(below, epsilon) <= truth <= delta_of_pair(above, epsilon)
    assert sum(mass for _, mass in above.atoms) == pytest.approx(1, abs=1e-12)
    with pytest.raises(ArithmeticError, match="round-off"):
        random_allocation(noise, steps, "remove", "below", resolution=truth / 2)


@pytest.mark.parametrize(("noise", "steps"), [(0.03, 3), (0.1, 10), (30.0, 5000)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_sums_that_leave_the_grid_are_placed_on_its_side(noise: float, steps: int, direction: Direction) -> None:
    below, above = (random_allocation(noise, steps, direction, side, points=1 << 12) for side in ("below", "above"))
    for pair in (below, above):
        assert sum(mass for _, mass in pair.atoms) == pytest.approx(1, abs=1e-9)
    assert all(delta_of_pair(below, epsilon) <= delta_of_pair(above, epsilon) for epsilon in (0.0, 1.0, 5.0))


@pytest.mark.slow
def test_one_place_is_a_plain_release_and_more_places_hide_better() -> None:
    assert bracket("RandomAllocation(2.0, 1)") == bracket("Gaussian(2.0)")
    ends = [bracket(f"RandomAllocation(2.0, {steps})") for steps in (1, 8)]
    assert ends[0][0] > ends[1][1] > ends[1][0] > 0
    assert math.isinf(bracket("RandomAllocation(0.0, 5)")[0])


@pytest.mark.slow
def test_allocation_mixes_with_other_releases() -> None:
    low, high = bracket("RandomAllocation(1.0, 100) + 20 * Laplace(10)")
    assert bracket("20 * Laplace(10)")[1] < low < high < 1.002 * low  # 100 places are bracketed to 0.2 %


# ---- shuffled answers ----------------------------------------------------------------------------------------------


def histogram(inputs: tuple[int, ...], parameter: float, buckets: int) -> dict[tuple[int, ...], float]:
    """Chance of each histogram of answers."""
    chances: dict[tuple[int, ...], float] = Counter()
    for answers in itertools.product(range(buckets), repeat=len(inputs)):
        chance = 1.0
        for answer, value in zip(answers, inputs, strict=True):
            chance *= parameter / buckets + (1 - parameter) * (answer == value)
        chances[tuple(answers.count(bucket) for bucket in range(buckets))] += chance
    return chances


@pytest.mark.parametrize(("parameter", "buckets", "delta"), [(0.5, 3, 0.05), (0.6, 2, 0.05), (0.3, 3, 0.1)])
def test_shuffled_answers_of_all_small_data_sets(parameter: float, buckets: int, delta: float) -> None:
    low, high = bracket(f"Shuffled(RandomizedResponse({parameter}, {buckets}), 5)", delta, REPLACE)
    worst = {low: 0.0, high: 0.0}
    for peers in itertools.combinations_with_replacement(range(buckets), 4):
        worlds = [histogram((value, *peers), parameter, buckets) for value in (0, 1)]
        first, second = (np.array([world[key] for key in sorted(worlds[0])]) for world in worlds)
        worst = {epsilon: max(cost, hockey_stick(first, second, epsilon)) for epsilon, cost in worst.items()}
    assert worst[high] <= delta * (1 + 1e-6) and worst[low] >= delta * (1 - 1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.05), (2.0, 0.1)])
def test_the_clones_of_any_pure_randomiser_are_added_up(epsilon: float, delta: float) -> None:
    """Every count of the theorem, term by term: A + D of C + 1 with C binomial (n - 1, exp(-epsilon))."""
    records, chance, clone = 6, math.exp(epsilon) / (1 + math.exp(epsilon)), math.exp(-epsilon)
    first, second = np.zeros((records + 1, records + 2)), np.zeros((records + 1, records + 2))
    for size in range(records):
        weight = math.comb(records - 1, size) * clone**size * (1 - clone) ** (records - 1 - size)
        for count in range(size + 1):
            mass = weight * math.comb(size, count) / 2**size
            first[size, count + 1] += mass * chance
            first[size, count] += mass * (1 - chance)
            second[size, count + 1] += mass * (1 - chance)
            second[size, count] += mass * chance
    low, high = bracket(f"Shuffled(ApproximateDp({epsilon}, 0.0), {records})", delta, REPLACE)
    assert hockey_stick(first, second, high) <= delta * (1 + 1e-6)
    assert hockey_stick(first, second, high * (1 - 2e-3)) > delta and 0 < low < high


@pytest.mark.slow
def test_shuffling_amplifies_and_nobody_else_is_no_shuffling() -> None:
    alone = bracket("Shuffled(RandomizedResponse(0.5, 3), 1)", 1e-5, REPLACE)
    assert alone == bracket("RandomizedResponse(0.5, 3)", 1e-5, REPLACE)
    many = bracket("Shuffled(RandomizedResponse(0.5, 3), 300)", 1e-5, REPLACE)
    assert many[1] < 0.4 * alone[0]
    again = bracket("4 * Shuffled(RandomizedResponse(0.5, 3), 300)", 1e-5, REPLACE)
    assert many[1] < again[0] <= again[1] < 4 * many[1]


# ---- the best of several runs ---------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("mean", "shape"), [(10, "1.0"), (10, "0"), (20, "2.0"), (10, "1e400")])
def test_tuning_is_bounded_as_the_library_does(mean: int, shape: str) -> None:
    text = f"Tuned(20 * Gaussian(5.0), {mean}, {shape})"
    theirs = resolve.subject("dp_accounting_rdp").claim(parse(text), delta=1e-5, adjacency=ADD).epsilon
    low, high = bracket(text)
    run = bracket("20 * Gaussian(5.0)")
    assert high == pytest.approx(theirs, rel=0.02)
    assert run[1] < low < high < 1.5 * low


def test_pure_runs_stay_pure_and_the_worst_known_one_is_inside() -> None:
    """A run answers 1 with chance p or p', and 1 is best; a geometric number of runs answers 0 only if all did."""
    low, high = bracket("Tuned(ApproximateDp(1.0, 0.0), 10, 1.0)", 1e-6)
    assert 2.5 < low <= high <= 3 * (1 + 1e-6)
    gamma = 0.1

    def none(chance: float) -> float:
        return gamma * (1 - chance) / (1 - (1 - gamma) * (1 - chance))

    for chance in np.linspace(0.01, 0.9, 30):
        peer = min(chance * math.e, 1 - (1 - chance) / math.e)
        first, second = (np.array([none(p), 1 - none(p)]) for p in (chance, peer))
        assert hockey_stick(first, second, high) <= 1e-6


def law_of_runs(mean: float, shape: float) -> np.ndarray:
    """Chance of each number of runs, by the product formula of Papernot and Steinke 2022, Definition 1."""
    numbers = np.arange(1, 3000)
    if math.isinf(shape):
        return np.exp(-mean + np.cumsum(np.log(mean / numbers)))
    low, high = 1e-9, 1 - 1e-12
    for _ in range(200):
        gamma = (low + high) / 2
        growth = np.log1p(-gamma) + np.log(np.abs(np.where(numbers > 1, numbers - 1 + shape, 1.0)) / numbers)
        law = np.exp(np.cumsum(growth))
        law /= law.sum()
        low, high = (gamma, high) if law @ numbers > mean else (low, gamma)
    return law


LAWS = [(10, -0.5, 1.0), (3, math.inf, 0.3)]
MORE_LAWS = [(30, -0.9, 1.0), (5, 0.0, 1.0), (10, 1.0, 0.3), (4, 2.5, 1.0), (10, -0.5, 3.0), (2, -0.99, 0.3)]


@pytest.mark.parametrize(
    ("mean", "shape", "epsilon"), [*LAWS, *(pytest.param(*law, marks=pytest.mark.slow) for law in MORE_LAWS)]
)
def test_the_best_of_runs_of_three_scores_is_added_up(mean: float, shape: float, epsilon: float) -> None:
    """Every number of runs, each run of three scores of any chances that its epsilon allows: the worst is in the bracket."""
    low, high = bracket(f"Tuned(ApproximateDp({epsilon}, 0.0), {mean}, {shape if math.isfinite(shape) else '1e400'})", 1e-4)
    law, grid = law_of_runs(mean, shape), np.logspace(-6, -0.31, 40)
    polynomial = np.polynomial.Polynomial([max(0.0, 1 - float(law.sum())), *law])

    def best(top: np.ndarray, middle: np.ndarray) -> np.ndarray:
        none_above = polynomial(1 - top), polynomial(1 - top - middle)
        return np.array([1 - none_above[0], none_above[0] - none_above[1], none_above[1]])

    top, middle = (axis.ravel() for axis in np.meshgrid(grid, grid))
    first, other_left = 1 - top - middle, 1 - top * math.exp(epsilon) - middle * math.exp(-epsilon)
    holds = (other_left > 0) & (first <= math.exp(epsilon) * other_left) & (other_left <= math.exp(epsilon) * first)
    top, middle = top[holds], middle[holds]
    laws = best(top, middle), best(top * math.exp(epsilon), middle * math.exp(-epsilon))

    def worst(claim: float) -> float:
        return max(np.maximum(p - math.exp(claim) * q, 0).sum(axis=0).max() for p, q in (laws, laws[::-1]))

    assert worst(high) <= 1e-4 <= worst(low * (1 - 1e-3))


def test_tuning_composes() -> None:
    assert bracket("2 * Tuned(ApproximateDp(0.5, 0.0), 10, 1.0)", 1e-6)[1] <= 3 * (1 + 1e-6)
    mixed = bracket("Tuned(Gaussian(5.0), 10, 1.0) + Gaussian(5.0)")
    assert bracket("2 * Gaussian(5.0)")[0] <= mixed[0] * (1 + 1e-3) < mixed[1]


def poisson_tuned_answers(mean: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Laws of how often no run, a bad and a good best answer come up, a run being randomised response with epsilon 1."""
    laws = []
    for good in (1 / (1 + math.e), math.e / (1 + math.e)):
        none, bad = math.exp(-mean), math.exp(-mean * good)
        once = np.array([[none, 1 - bad], [bad - none, 0.0]])
        law = np.zeros((count + 1, count + 1))
        law[0, 0] = 1.0
        for _ in range(count):
            law = sum(weight * np.roll(law, place, axis=(0, 1)) for place, weight in np.ndenumerate(once) if weight > 0)
        laws.append(law.ravel())
    return laws[0], laws[1]


@pytest.mark.parametrize(("mean", "count"), [(0.1, 20), (0.5, 30), (0.9, 30), (3.0, 5)])
def test_a_poisson_number_of_runs_composes_with_the_outcome_of_no_run(mean: float, count: int) -> None:
    high = bracket(f"{count} * Tuned(ApproximateDp(1.0, 0.0), {mean}, 1e400)", 1e-5, REPLACE)[1]
    assert 0 < high < math.inf and hockey_stick(*poisson_tuned_answers(mean, count), high) <= 1e-5


def test_thousands_of_runs_are_bounded_from_below_by_the_chance_that_none_shows_a_score() -> None:
    rare = np.linspace(0.1, 18.0, 2000)  # runs with a score that is rarer on the other data set, of 5,000 expected ones
    with np.errstate(invalid="raise"):
        low, high = bracket("Tuned(ApproximateDp(0.5, 0.0), 5000, 1e400)")
    assert 0.9 * float(np.max(np.log(np.exp(-rare * math.exp(-0.5)) - 1e-5) + rare)) < low < high


def test_a_rare_run_costs_no_less_than_the_release_beside_it() -> None:
    low, high = bracket("Concentrated(0.5) + Tuned(Gaussian(1.0), 0.001, 1e400)")
    alone = bracket("Gaussian(1.0)")[0]
    assert alone <= low * (1 + 1e-3) and alone < high


def test_runs_whose_scores_tell_nothing_apart_are_bounded_from_above_alone() -> None:
    low, high = bracket("Tuned(Gaussian(0.13), 6, 1e400)", 5e-5, REPLACE)
    assert low == 0 and high > 100


# ---- all of them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "adjacency"),
    [
        ("RandomAllocation(1.0, 10)", REPLACE),
        ("Grouped(RandomAllocation(1.0, 10), 2)", ADD),
        ("PoissonSampled(RandomAllocation(1.0, 10), 0.5)", ADD),
        ("Shuffled(RandomizedResponse(0.5, 3), 10)", ADD),
        ("Shuffled(Gaussian(1.0), 10)", REPLACE),
        ("Shuffled(ApproximateDp(1.0, 1e-6), 10)", REPLACE),
        ("Tuned(SampledWithoutReplacement(Gaussian(1.0), 10, 3), 5)", REPLACE),
    ],
)
def test_what_is_not_proven_is_refused(text: str, adjacency: Adjacency) -> None:
    with pytest.raises(UnsupportedMechanism):
        bracket(text, adjacency=adjacency)


@pytest.mark.parametrize("kind", [*AMPLIFIED, *AMPLIFIED_NODES], ids=lambda kind: kind.__name__)
def test_files_hold_all_of_them(kind: type[Event]) -> None:
    texts = {"RandomAllocation": "RandomAllocation(1.0, 7)", "Shuffled": "Shuffled(RandomizedResponse(0.5, 3), 10)",
             "Tuned": "Tuned(Laplace(2.0), 5, 1e400)"}  # fmt: skip
    event = parse(texts[kind.__name__])
    assert type(event) is kind and decode(encode(event)) == event and kinds_by_name()[kind.__name__] is kind


def test_values_that_mean_nothing_are_refused() -> None:
    texts = """RandomAllocation(1.0, 0); Shuffled(Laplace(1.0), 0); Tuned(Laplace(1.0), 0); Tuned(Laplace(1.0), 5, -1.0)
        Tuned(Laplace(1.0), 0.5, 1.0); RandomAllocation(-1.0, 3)"""
    for text in texts.replace("\n", ";").split(";"):
        with pytest.raises(ConfigError):
            parse(text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "adjacency"),
    [
        ("Concentrated(0.5) + Laplace(3.0)", ADD),
        ("Shuffled(RandomizedResponse(0.5, 3), 10)", REPLACE),
        ("Tuned(Gaussian(1.0), 10, 1.0)", ADD),
        ("RandomAllocation(1.0, 2)", ADD),
    ],
)
def test_an_upper_end_that_is_false_is_seen(text: str, adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch) -> None:
    """Divergences that are too small, as a wrong formula gives them: the lower end has to speak against them."""
    monkeypatch.setattr(_closed_forms, "by_divergence", lambda *_: 0.01)
    Reference._explain.cache_clear()
    ends, reason = Reference(tolerance=1e-2).explain(parse(text), delta=1e-5, adjacency=adjacency)
    assert ends == (0.0, math.inf) and "cross" in reason
    Reference._explain.cache_clear()


def test_tiny_deltas_are_not_claimed_for_random_allocation() -> None:
    ends, reason = Reference().explain(parse("RandomAllocation(1.0, 10)"), delta=1e-15, adjacency=ADD)
    assert ends == (0.0, math.inf) and "random allocation" in reason
