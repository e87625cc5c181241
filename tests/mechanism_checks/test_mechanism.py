"""`audit.mechanism`: controls keep their claim, wrong twins are refuted, bounds are wrong as rarely as they say."""

from __future__ import annotations

import copy
import inspect
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch

import audit
from audit.api.mechanism import neighbouring_pairs
from audit.core.adjacency import Adjacency
from audit.core.claims import Outcome
from audit.core.errors import ConfigError
from audit.mechanism_checks import neighbours, scores
from audit.stats.bounds import binomial
from tests.mechanism_checks.controls import additive, statistics
from tests.mechanism_checks.controls.catalogue import KnownMechanism, controls, wrong_twins

SAMPLES, FEWER = 12_000, 1_500  # outputs of functions with and without `size`
ANSWERS = {"neighbours": "answers"}
RARE = {"sparse vector, algorithm 4": 120_000}  # an event of chance 0.05
NARROW = ["Gaussian, classic at 10"]  # true epsilon 10.39 if 10 is claimed: by the fit, from 10^5 outputs on


def check(entry: KnownMechanism, samples: int | None = None, **options: Any) -> Any:
    vectorised = "size" in inspect.signature(entry.function).parameters
    return audit.mechanism(
        entry.function,
        epsilon=entry.epsilon,
        delta=entry.delta,
        pairs=[(entry.pair.data, entry.pair.neighbour)],
        family=entry.family,
        floating_point=entry.floating_point,
        samples=samples or RARE.get(entry.name) or (SAMPLES if vectorised else FEWER),
        **options,
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("entry", controls(), ids=lambda entry: entry.name)
def test_a_control_keeps_its_claim(entry: KnownMechanism) -> None:
    report = check(entry)
    assert report.verdict.outcome is Outcome.CONSISTENT, str(report)
    assert entry.exact is None or report.epsilon.epsilon <= entry.exact
    assert report.exit_code == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("entry", [entry for entry in wrong_twins() if entry.name not in NARROW], ids=lambda entry: entry.name)
def test_a_wrong_twin_is_refuted(entry: KnownMechanism) -> None:
    report = check(entry)
    assert report.verdict.outcome is Outcome.VIOLATED, str(report)
    assert report.epsilon.epsilon <= entry.exact
    assert report.exit_code == 1


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (2.0, 3.0)])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_pairs_of_records_are_neighbours_once_each_under_their_name(
    adjacency: Adjacency, low: float, high: float, size: int
) -> None:
    pairs = neighbours.record_pairs(size, low, high, adjacency)
    contents = [(tuple(pair.data), tuple(pair.neighbour)) for pair in pairs]
    assert pairs and len(set(contents)) == len(contents) == len({pair.name for pair in pairs})
    for pair, (data, peer) in zip(pairs, contents, strict=True):
        if adjacency is Adjacency.ADD_REMOVE:
            assert len(data) == size + 1 and data[:-1] == peer
            continue
        assert len(data) == len(peer) == size and data[:-1] == peer[:-1] and data[-1] != peer[-1]
        words = {"low": low, "high": high, "middle": (low + high) / 2}
        if adjacency is Adjacency.ZERO_OUT:
            assert peer[-1] == 0 and pair.name.endswith("turned 0") and data[-1] == words[pair.name.split()[-4]]
        else:
            assert peer[-1] == words[pair.name.split()[-1]]


@pytest.mark.parametrize(
    ("pairs", "relation"),
    [
        ([([0.0, 1.0], [0.0])], Adjacency.ADD_REMOVE),
        ([(np.zeros(3), np.ones(3))], Adjacency.REPLACE_ONE),
        ([(np.zeros(2), np.zeros(3)), (np.zeros(3), np.zeros(2))], Adjacency.ADD_REMOVE),
        ([([0.0], []), ([0.0], [1.0])], "which are two claims"),
        ([([0.0, 1.0, 2.0], [0.0])], "differs by 2 in size"),
        ([(0.0, 1.0)], "no size tells"),
    ],
)
def test_the_claim_is_about_the_relation_of_the_pairs(pairs: Any, relation: Adjacency | str) -> None:
    if isinstance(relation, Adjacency):
        assert neighbouring_pairs(pairs)[1] is relation
        assert audit.mechanism(lambda data, rng: rng.normal(), epsilon=1.0, pairs=pairs, samples=100).to_dict()
    else:
        with pytest.raises(audit.ConfigError, match=relation):
            neighbouring_pairs(pairs)
    assert neighbouring_pairs(pairs, adjacency="zero_out")[1] is Adjacency.ZERO_OUT


@pytest.mark.parametrize(
    "output",
    [
        lambda data, rng: rng.normal(size=2) * 1e300,
        lambda data, rng: -(10**400) if rng.random() < 0.5 else 10**400,
        lambda data, rng: {(1, "a"), (2, "b")} if rng.random() < 0.5 else {(1, "a")},
        lambda data, rng: frozenset({frozenset({1}), None}),
        lambda data, rng: np.array([np.inf, -1e308]) * rng.random(),
    ],
)
def test_outputs_of_any_size_and_shape_are_counted(output: Any) -> None:
    report = audit.mechanism(output, epsilon=1.0, pairs=[([0.0], [1.0])], samples=600)
    assert report.verdict.outcome is Outcome.CONSISTENT, str(report)


def test_whole_numbers_beyond_all_doubles_are_told_apart() -> None:
    report = audit.mechanism(lambda data, rng: (-1) ** int(data[0]) * 10**400, epsilon=1.0, pairs=[([0.0], [1.0])], samples=600)
    assert report.verdict.outcome is Outcome.VIOLATED


@pytest.mark.slow
@pytest.mark.parametrize("name", NARROW)
def test_a_narrow_violation_takes_more_outputs(name: str) -> None:
    entry = next(entry for entry in wrong_twins() if entry.name == name)
    assert check(entry, 600).verdict.outcome is Outcome.CONSISTENT  # the fit could have shown it, by luck
    report = check(entry, 400_000)
    assert report.verdict.outcome is Outcome.VIOLATED and report.fit.epsilon > 10, str(report)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("entry", [controls()[0], controls()[5], wrong_twins()[0]], ids=lambda entry: entry.name)
def test_bounds_come_near_the_truth(entry: KnownMechanism) -> None:
    assert check(entry, 100_000).epsilon.epsilon > 0.95 * entry.exact


# a true epsilon at which any larger bound is an error: every likelihood ratio is at its end, so a search shows most
TIGHT = {
    "randomised response": statistics.Response(statistics.response_truth(1.0)),
    "laplace": additive.LaplaceSum(1.0),
    "constant": lambda data, rng, size: np.zeros(size),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "repetitions"),
    [
        ("laplace", 50),
        pytest.param("randomised response", 100, marks=pytest.mark.slow),
        *(pytest.param(name, 1000, marks=pytest.mark.calibration) for name in TIGHT),
    ],
)
def test_false_alarms_are_as_rare_as_promised(law: str, repetitions: int) -> None:
    """Audits of mechanisms that keep their claim exactly: at most 5 % are refuted or called dependent."""
    claim = 0.0 if law == "constant" else 1.0
    alarms = 0
    for seed in range(repetitions):
        report = audit.mechanism(
            TIGHT[law], epsilon=claim, pairs=[([0.0], [1.0])], samples=600, floating_point=False, confidence=0.95, seed=seed
        )
        alarms += report.verdict.outcome in (Outcome.VIOLATED, Outcome.INVALID)
    assert binomial.rate_lower(alarms, repetitions, 0.01) <= 0.05, alarms
    if repetitions == 1000:
        print(f"{law}: {alarms} of {repetitions} null audits refuted")


@pytest.mark.parametrize("data", [np.ones(3), [1, 2], {"a": np.ones(2)}, "text", torch.ones(2)])
def test_a_pair_that_is_one_data_set_twice_is_refused(data: Any) -> None:
    for neighbour in (data, copy.deepcopy(data)):
        for ask in (audit.mechanism, audit.replay):
            with pytest.raises(ConfigError, match="pair 0 holds one data set twice"):
                arguments = {"pairs": [(data, neighbour)]} if ask is audit.mechanism else {"data": [(data, neighbour)]}
                ask(lambda data, rng: 0.0, epsilon=1.0, **arguments)


def test_the_search_finds_the_pair() -> None:
    """A mechanism that hides all but the third of five answers."""
    report = audit.mechanism(
        lambda data, rng, size: data[2] + rng.laplace(0, 0.3, size), epsilon=1.0, neighbours="answers", samples=6000
    )
    assert report.verdict.outcome is Outcome.VIOLATED
    assert report.pair.data[2] != report.pair.neighbour[2]
    assert len(report.scouts) == 8


def test_records_are_added_and_removed() -> None:
    wrong = statistics.PrivateMean(1.0, private_count=False)
    report = audit.mechanism(wrong, epsilon=1.0, neighbours="records", adjacency="add_remove", size=3, samples=6000)
    assert report.verdict.outcome is Outcome.VIOLATED
    assert len(report.pair.data) == len(report.pair.neighbour) + 1


def test_the_lowest_bits_of_a_float_sum_are_seen_where_asked_for() -> None:
    entry = controls()[0]
    blind, seeing = (
        check(entry),
        audit.mechanism(entry.function, epsilon=1.0, pairs=[([0.0], [1.0])], floating_point=True, samples=SAMPLES),
    )
    assert blind.floating_point is None and blind.verdict.outcome is Outcome.CONSISTENT
    assert seeing.verdict.outcome is Outcome.VIOLATED and 0.1 < seeing.floating_point.delta < 0.4


class Counting:
    """A mechanism that remembers its calls: its outputs drift."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, data: Any, rng: np.random.Generator) -> float:
        self.calls += 1
        return float(rng.normal()) + self.calls / 100


def test_calls_that_are_not_independent_are_no_evidence() -> None:
    report = audit.mechanism(Counting(), epsilon=1.0, pairs=[([0.0], [1.0])], samples=2000)
    assert report.verdict.outcome is Outcome.INVALID and report.exit_code == 3
    assert "calls are not independent" in report.verdict.reason


def test_few_outputs_cannot_refute_a_large_claim() -> None:
    report = audit.mechanism(additive.LaplaceSum(0.01), epsilon=50.0, pairs=[([0.0], [1.0])], samples=300)
    assert report.verdict.outcome is Outcome.OUT_OF_REACH and report.exit_code == 3
    assert report.epsilon.ceiling < math.log(300)


OUTPUTS = {
    "texts": lambda data, rng: "yes" if rng.random() < 0.5 + 0.4 * data[0] else "no",
    "None": lambda data, rng: None if rng.random() < 0.5 + 0.4 * data[0] else 1,
    "lists of several lengths": lambda data, rng: [1.0] * (1 + int(rng.random() < 0.5 + 0.4 * data[0])),
    "dictionaries": lambda data, rng: {"count": int(rng.random() < 0.5 + 0.4 * data[0]), "name": "a"},
    "truth values": lambda data, rng: bool(rng.random() < 0.5 + 0.4 * data[0]),
    "sets": lambda data, rng: {"a", "b"} if rng.random() < 0.5 + 0.4 * data[0] else {"a"},
    "arrays": lambda data, rng: np.array([[rng.random() < 0.5 + 0.4 * data[0], 3.0]]),
    "masks": lambda data, rng: np.ma.masked_array([1.0, 2.0], mask=[rng.random() < 0.5 + 0.4 * data[0], False]),
    "masks in lists": lambda data, rng: [np.ma.masked_array(3, mask=rng.random() < 0.5 + 0.4 * data[0]), 1.0],
    "masks of texts": lambda data, rng: np.ma.masked_array(["a"], mask=[rng.random() < 0.5 + 0.4 * data[0]]),
    "masks of many": lambda data, rng, size: np.ma.masked_array(
        np.ones(size, int), mask=rng.random(size) < 0.5 + 0.4 * data[0]
    ),
    "infinities": lambda data, rng: math.inf if rng.random() < 0.5 + 0.4 * data[0] else 0.0,
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", OUTPUTS)
def test_outputs_of_any_kind_are_read(kind: str) -> None:
    """Chances .5 and .9: epsilon log 5 in one direction."""
    report = audit.mechanism(OUTPUTS[kind], epsilon=0.5, pairs=[([0.0], [1.0])], samples=2000)
    assert 0.9 < report.epsilon.epsilon < math.log(5), str(report)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": -1.0}, "epsilon is -1"),
        ({"epsilon": math.inf}, "epsilon is inf"),
        ({"delta": 1.5}, "delta is 1.5"),
        ({"samples": 10}, "samples is 10"),
        ({"family": "laplace"}, "family is 'laplace'"),
        ({"family": "gdp"}, "needs a delta"),
        ({"pairs": []}, "pairs is empty"),
        ({"pairs": [[1, 2, 3]]}, r"pair 0 is a list of 3; expected \(data, neighbour\)"),
        ({"neighbours": "rows"}, "neighbours is 'rows'"),
        ({"neighbours": "records", "low": 2.0}, "low = 2.0 and high = 1.0"),
        ({"adjacency": "swap"}, "adjacency is 'swap'"),
        ({"function": 3}, "mechanism: function is 3; expected a Callable"),
        ({"function": lambda data, rng: object()}, "returned a object"),
        ({"function": lambda data, rng, size: np.zeros(3)}, "size=.* and returned 3"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, Any], message: str) -> None:
    arguments = {"function": additive.LaplaceSum(1.0), "epsilon": 1.0, "neighbours": "answers", **options}
    with pytest.raises(audit.AuditError, match=message):
        audit.mechanism(arguments.pop("function"), **arguments)


def test_a_seed_repeats_an_audit() -> None:
    first, second = (audit.mechanism(additive.LaplaceSum(0.5), epsilon=1.0, **ANSWERS, samples=2000, seed=3) for _ in range(2))
    assert first.epsilon == second.epsilon and first.to_dict()["pair"] == second.to_dict()["pair"]


@pytest.mark.slow
def test_a_sum_over_many_numbers_is_found() -> None:
    """40 bits, each a little likelier to be 1 on the data: no dozen of them shows what all together do."""

    def bits(data: Any, rng: np.random.Generator, size: int) -> Any:
        return (rng.random((size, 40)) < 0.5 + 0.05 * data[0]).astype(float)

    report = audit.mechanism(bits, epsilon=0.5, pairs=[([0.0], [1.0])], samples=20_000)
    assert report.verdict.outcome is Outcome.VIOLATED and "linear classifier" in report.epsilon.selected


def test_numbers_that_mark_an_event_are_an_input_of_their_own() -> None:
    """The leak is a small shift of plain numbers; marks of -1,000 among them would drown it in their sum."""
    stream = np.random.default_rng(0)
    is_mark = stream.random((8_000, 30)) < 0.5
    plain = np.where(is_mark, -1000.0, stream.normal(size=is_mark.shape))
    first, second = (plain.copy(), plain[::-1].copy())
    first[~is_mark] += 0.3
    score = scores.linear_classifier(first[::2], second[::2])
    higher = score(first[1::2])[:, None] > score(second[1::2])[None, :]
    assert higher.mean() > 0.7


@pytest.mark.slow
def test_memory_for_a_linear_classifier_does_not_grow_with_outputs() -> None:
    stream = np.random.default_rng(0)
    first, second = (stream.normal(mean, 1, size=(50_000, 100)).astype(np.float32) for mean in (0.05, 0.0))
    tracemalloc.start()
    score = scores.linear_classifier(first[:40_000], second[:40_000])
    values = score(first)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120e6, "all rows as features would be 64 MB, standardised in a design 128 MB, scored 80 MB"
    np.testing.assert_allclose(values[[0, 25_000, -1]], score(first[[0, 25_000, -1]]))
    assert len(values) == len(first) and score(first[:0]).shape == (0,)
    assert (values[40_000:] > np.median(score(second[40_000:]))).mean() > 0.6
