"""Every choice that an estimator offers, on any scores: small, tied, infinite, separated, one a side."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit import plugins
from audit.bounds import claim_test
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.errors import DataError
from audit.core.events import dp_sgd
from audit.core.game import Game, Inclusion
from audit.core.lower_bounds import LowerBound
from audit.core.seeds import Seed
from audit.core.views import Scores

PACKAGE, DELTA = "audit.bounds.estimators", 1e-5
FULL = dp_sgd(noise_multiplier=2.0, clip_norm=1.0, sample_rate=1.0, steps=4)
OF_SECRETS = {"one_run_secrets", "reconstruction"}  # tests/conformance/test_secret_estimators.py has theirs
SPECS: list[dict[str, Any]] = [
    *[{"kind": name} for name in plugins.names(PACKAGE) if name not in OF_SECRETS],
    {"kind": "clopper_pearson", "threshold_by": "split"},
    {"kind": "clopper_pearson", "threshold_by": "fixed", "threshold": 0.0},
    {"kind": "fdp_rank", "statistic": "auc"},
    {"kind": "fdp_rank", "statistic": "rank"},
    {"kind": "gaussian", "statistic": "paired"},
    {"kind": "one_run", "calibration": "each"},
    {"kind": "one_run", "guess_fractions": [1.0]},
    {"kind": "one_run_fdp", "family": "dp_sgd"},
    {"kind": "product_channel", "family": "any"},
    {"kind": "product_channel", "family": "dp_sgd", "guess_fractions": [0.5, 1.0]},
    {"kind": "rank_exact", "family": "gdp"},
    {"kind": "sequential", "family": "gdp"},
    {"kind": "sequential", "family": "dp_sgd"},
]
EVERY = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: "-".join(str(value) for value in spec.values()))
GRIDDED = ("sequential",)  # bounds on a grid of epsilons


def scores(members: Any, nonmembers: Any) -> Scores:
    values = np.concatenate([np.asarray(members, dtype=float), np.asarray(nonmembers, dtype=float)])
    rules = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.ALL_STEPS,
        inclusion=Inclusion.COINS,
        canaries=len(values),
        independent_noise=True,
    )
    return Scores(values=values, included=np.arange(len(values)) < len(members), game=rules, mechanism=FULL)


def bound(spec: dict[str, Any], what: Scores, confidence: float = 0.95, delta: float = DELTA) -> LowerBound:
    return plugins.build(PACKAGE, spec).lower_bound(what, delta=delta, confidence=confidence, seed=Seed(1))


@pytest.mark.sampled(1)
@EVERY
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_any_scores_at_all_give_a_bound_and_the_same_answer_to_a_claim(spec: dict[str, Any], data: st.DataObject) -> None:
    numbers = st.one_of(st.floats(allow_nan=False, width=32), st.sampled_from([0.0, 1.0, np.inf, -np.inf]))
    drawn = scores(*(data.draw(st.lists(numbers, min_size=1, max_size=25)) for _ in range(2)))
    result = bound(spec, drawn)
    assert 0 <= result.epsilon <= result.ceiling
    requested: dict[str, Any] = {"delta": DELTA, "confidence": 0.95, "seed": Seed(1)}
    estimator, step = plugins.build(PACKAGE, spec), 0.2 if spec["kind"] in GRIDDED else 0.02
    assert not claim_test.refutes(estimator, drawn, epsilon=result.epsilon + step, **requested)
    if result.epsilon > step:
        assert claim_test.refutes(estimator, drawn, epsilon=result.epsilon - step, **requested)


@pytest.mark.slow
@EVERY
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_order_alone_counts_and_caution_never_proves_more(spec: dict[str, Any], data: st.DataObject) -> None:
    numbers = st.integers(-6, 6)
    members, nonmembers = (data.draw(st.lists(numbers, min_size=8, max_size=25)) for _ in range(2))
    plain = scores([value + 9 for value in members], nonmembers)
    order = np.arange(len(plain.values))
    if all(value not in ("sequential", "split", "paired") for value in spec.values()):  # these take trials by their place
        order = np.array(data.draw(st.permutations(order.tolist())))
    result = bound(spec, plain).epsilon
    moved = dataclasses.replace(plain, values=3 * plain.values[order], included=plain.included[order])
    assert bound(spec, moved).epsilon == result  # the fixed threshold, 0, stays if it is
    if spec.get("threshold_by") == "split":
        return  # its threshold is chosen anew for every confidence and delta
    assert bound(spec, plain, confidence=data.draw(st.floats(0.951, 0.9995))).epsilon <= result + 2e-3
    assert bound(spec, plain, confidence=data.draw(st.floats(0.5, 0.949))).epsilon >= result - 2e-3
    assert bound(spec, plain, delta=data.draw(st.floats(2e-5, 0.3))).epsilon <= result + 2e-3


@pytest.mark.slow
@EVERY
def test_a_larger_delta_never_proves_more_of_few_tied_scores(spec: dict[str, Any]) -> None:
    if spec.get("threshold_by") == "split":
        pytest.skip("its threshold is chosen anew for every delta")
    tied = scores([9] * 13 + [4], [0] * 7 + [4, 3, 3, 3])
    result = [bound(spec, tied, delta=delta).epsilon for delta in (1e-9, 1e-5, 1e-3, 0.015625, 0.1, 0.3)]
    assert result == sorted(result, reverse=True)


@pytest.mark.sampled(2)
@EVERY
def test_the_ends_of_what_scores_can_be(spec: dict[str, Any]) -> None:
    item = bound(spec, scores([1.0], [-1.0]))
    assert item.epsilon == 0 <= item.ceiling
    high, low = (np.random.default_rng(1).permutation(count) + 1.0 for count in (80, 90))
    separated = bound(spec, scores(high, -low))
    backwards = bound(spec, scores(-high, low))
    assert separated.epsilon > 1.5
    assert backwards.epsilon == 0 or spec["kind"] == "clopper_pearson"
    infinite = bound(spec, scores(np.full(80, np.inf), np.full(90, -np.inf)))
    assert infinite.epsilon > 1.5
    ties = [bound(spec, scores(np.ones(40), np.ones(40))).epsilon for _ in range(2)]
    assert ties[0] == ties[1] <= 1.0
    with pytest.raises(DataError, match="0 member"):
        bound(spec, scores([], [1.0]))


@pytest.mark.parametrize("spec", [{"kind": "sequential"}, {"kind": "clopper_pearson", "threshold_by": "split"}])
def test_rows_sorted_by_score_are_refused_where_their_order_counts(spec: dict[str, Any]) -> None:
    draw = np.random.default_rng(2)
    members, nonmembers = draw.normal(1, 1, 40), draw.normal(0, 1, 50)
    assert bound(spec, scores(members, nonmembers)).epsilon >= 0
    for rows in ((np.sort(members), nonmembers), (members, -np.sort(nonmembers))):
        with pytest.raises(DataError, match=r"are sorted; .* in the order of records or trials, or use rank_exact"):
            bound(spec, scores(*rows))
    few_values = bound(spec, scores([0.0] + [1.0] * 39, [0.0] * 50))
    assert few_values.epsilon > 0, "rows that chance alone sorts now and then"


@pytest.mark.slow
@EVERY
def test_thousands_of_scores(spec: dict[str, Any]) -> None:
    draw = np.random.default_rng(0)
    result = bound(spec, scores(draw.normal(1, 1, 3000), draw.normal(0, 1, 3500)))
    assert 0.5 < result.epsilon <= min(result.ceiling, 4.5)
