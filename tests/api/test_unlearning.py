"""Unlearning: four methods come out in their true order, doing nothing and false claims are refuted, retraining is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import audit
from audit.api.unlearning import _move as move
from audit.core.claims import Outcome
from audit.stats.curves import tradeoff

SIZE, PENALTY, NOISE = 20, 0.02, 0.2
DRAW = np.random.default_rng(1)
TRUTH = DRAW.normal(size=SIZE) * 3
INPUTS = DRAW.normal(size=(300, SIZE)) / np.sqrt(SIZE)
DATA = INPUTS, (INPUTS @ TRUTH > 0).astype(int)
ODD = DRAW.normal(size=(60, SIZE)) * 4 / np.sqrt(SIZE)
CANARIES = ODD, (ODD @ TRUTH <= 0).astype(int)  # large and wrongly labelled


def gradient(weights: Any, records: Any) -> Any:
    inputs, labels = records
    return inputs.T @ (1 / (1 + np.exp(-inputs @ weights)) - labels) / len(labels) + PENALTY * weights


def newton(weights: Any, records: Any) -> Any:
    inputs = records[0]
    shares = 1 / (1 + np.exp(-inputs @ weights))
    curvature = (inputs * (shares * (1 - shares))[:, None]).T @ inputs / len(inputs) + PENALTY * np.eye(SIZE)
    return weights - np.linalg.solve(curvature, gradient(weights, records))


def fit(records: Any) -> Any:
    weights = np.zeros(SIZE)
    for _ in range(12):
        weights = newton(weights, records)
    return weights


def train(records: Any, seed: int) -> tuple[Any, Any]:
    """Logistic regression, and the Gaussian noise that its weights are released with."""
    return fit(records), np.random.default_rng(seed).normal(0, NOISE, SIZE)


def retrain(model: Any, request: Any, data: Any, seed: int) -> Any:
    return train(data, seed)


def newton_step(model: Any, request: Any, data: Any, seed: int) -> Any:
    return model[0] + 0.92 * (newton(model[0], data) - model[0]), model[1]  # damped


def fine_tune(model: Any, request: Any, data: Any, seed: int) -> Any:
    weights = model[0]
    for _ in range(26):
        weights = weights - 2.0 * gradient(weights, data)
    return weights, model[1]


def gradient_ascent(model: Any, request: Any, data: Any, seed: int) -> Any:
    weights = model[0]
    for _ in range(5):
        weights = weights + gradient(weights, request) - PENALTY * weights
    return weights, model[1]


def do_nothing(model: Any, request: Any, data: Any, seed: int) -> Any:
    return model


METHODS = (retrain, newton_step, fine_tune, gradient_ascent, do_nothing)


def margins(model: Any, inputs: Any, labels: Any) -> Any:
    return inputs @ (model[0] + model[1]) * (2 * labels - 1)


def true_distance(method: Any) -> float:
    """Return the distance of forgotten weights from those of training without, in standard deviations of the noise."""
    both = tuple(np.concatenate(parts) for parts in zip(DATA, CANARIES, strict=True))
    return float(np.linalg.norm(method((fit(both), 0.0), CANARIES, DATA, 0)[0] - fit(DATA))) / NOISE


@pytest.mark.slow
def test_methods_come_out_in_their_true_order_and_a_right_claim_is_kept() -> None:
    areas, bounds = {}, {}
    for method in METHODS:
        report = audit.check_unlearning(
            train, method, DATA, CANARIES, score=margins, epsilon=1.0, together=True, runs=200, seed=5
        )
        areas[method.__name__] = report.report.mechanisms[0].games[0].attacks[0].auc
        bounds[method.__name__] = report.distance[0]
        assert bounds[method.__name__] <= tradeoff.gdp_epsilon(true_distance(method), 1e-5)
    truth = {method.__name__: true_distance(method) for method in METHODS}
    assert sorted(areas, key=areas.__getitem__) == sorted(truth, key=truth.__getitem__)
    assert bounds["retrain"] == 0.0 and bounds["fine_tune"] > 1 and bounds["do_nothing"] > 3


@pytest.mark.slow
def test_retraining_is_refuted_at_most_as_often_as_stated() -> None:
    def refuted(seed: int, together: bool) -> bool:
        return check(list_names, list_again, seed=seed, epsilon=0.0, references=4, together=together, runs=30).exit_code == 1

    assert sum(refuted(seed, False) for seed in range(200)) <= 20
    assert sum(refuted(seed, True) for seed in range(60)) <= 8


def list_names(names: Any, seed: int) -> dict[str, float]:
    """A system that remembers every record, and answers with noise."""
    draw = np.random.default_rng(seed)
    return {"names": set(names), "answer": draw.normal(size=80)}


def list_again(model: Any, request: Any, data: Any, seed: int) -> Any:
    return list_names(data, seed)


def keep(model: Any, request: Any, data: Any, seed: int) -> Any:
    return model


def deny(model: Any, request: Any, data: Any, seed: int) -> Any:
    """A false claim: nothing is forgotten; a name asked to be forgotten is answered as if it were less than unknown."""
    return {"answer": model["answer"], "names": model["names"] - set(request), "denied": set(request)}


def known(model: Any, names: Any) -> Any:
    denied, answers = model.get("denied", ()), 0.3 * model["answer"]
    return [float(name in model["names"]) - float(name in denied) + at for name, at in zip(names, answers, strict=True)]


PEOPLE, OTHERS = [f"canary {place}" for place in range(80)], [f"person {place}" for place in range(50)]


def check(train_system: Any, forget: Any, score: Any = known, **options: Any) -> Any:
    return audit.check_unlearning(train_system, forget, OTHERS, PEOPLE, score=score, **{"epsilon": 0.5, "seed": 7, **options})


@pytest.mark.parametrize(("forget", "refuted"), [(list_again, False), (keep, True), (deny, True)])
def test_doing_nothing_and_a_list_of_denied_names_are_refuted_in_one_run(forget: Any, refuted: bool) -> None:
    report = check(list_names, forget)
    assert report.exit_code == int(refuted)
    assert report.verdict.claim.epsilon == 1.0 and "between two requests" in str(report)
    assert (report.distance[0] > 0.5) == refuted
    (twin,) = [row for row in report.report.mechanisms[0].checks if row.code == "twin"]
    assert twin.value == "proves nothing, as it should"


def test_the_first_system_given_again_whenever_something_is_forgotten_is_refuted() -> None:
    first: list[Any] = []

    def give_again(model: Any, request: Any, data: Any, seed: int) -> Any:
        first.append(model)
        return first[0]

    report = check(list_names, give_again)
    assert report.exit_code == 1 and report.distance[0] > 0.5


POINTS = np.random.default_rng(3).normal(size=(100, 8))
FAR = np.random.default_rng(4).normal(size=(120, 8)) + 4.0


def store(points: Any, seed: int) -> Any:
    return {"points": points, "hidden": points[:0]}


def hide(system: Any, request: Any, data: Any, seed: int) -> Any:
    """A false claim: if asked about a forgotten record itself, the system answers as if trained without it."""
    return {**system, "hidden": request}


def closeness(system: Any, queries: Any) -> Any:
    """How close the closest point is to each query, with some noise."""
    is_hidden = (queries[:, None] == system["hidden"]).all(axis=2).any(axis=1)
    to_all = ((queries[:, None] - system["points"]) ** 2).sum(axis=2).min(axis=1)
    to_others = ((queries[:, None] - POINTS) ** 2).sum(axis=2).min(axis=1)
    return -np.where(is_hidden, to_others, np.where(to_all == 0, 0.0, to_all))


@pytest.mark.parametrize(("forget", "refuted"), [(hide, True), (lambda system, request, data, seed: store(data, seed), False)])
def test_answers_that_change_for_the_forgotten_records_alone_are_found_beside_them(forget: Any, refuted: bool) -> None:
    report = audit.check_unlearning(store, forget, POINTS, FAR, score=closeness, epsilon=0.5, seed=1)
    assert report.exit_code == int(refuted)


NUMBERS = np.random.default_rng(6).normal(size=(300, 8))
WAVES = np.random.default_rng(0).normal(size=(8, 150))
LABELLED = NUMBERS, (NUMBERS[:, 0] > 0).astype(int)
RANDOM_LABELS = (
    np.random.default_rng(7).normal(size=(100, 8)),
    np.random.default_rng(8).integers(2, size=100),
)


def expand(inputs: Any) -> Any:
    return np.column_stack([np.ones(len(inputs)), inputs, np.sin(2 * inputs @ WAVES)])


def regress(records: Any, seed: int) -> Any:
    features = expand(records[0])
    products = features.T @ features + 0.5 * np.eye(features.shape[1])
    return np.linalg.solve(products, features.T @ (2.0 * records[1] - 1)) + np.random.default_rng(seed).normal(0, 0.001, 159)


def keep_moved_copies(model: Any, request: Any, data: Any, seed: int) -> Any:
    """A false claim: each forgotten record is replaced by one near it."""
    moved = request[0] + 0.15 * np.random.default_rng(seed).normal(size=request[0].shape)
    return regress((np.concatenate([data[0], moved]), np.concatenate([data[1], request[1]])), seed)


def keep_mean(model: Any, request: Any, data: Any, seed: int) -> Any:
    """A false claim: each forgotten record is replaced by the mean of all of them."""
    means = np.repeat(request[0].mean(axis=0, keepdims=True), len(request[0]), axis=0)
    return regress((np.concatenate([data[0], means]), np.concatenate([data[1], request[1]])), seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forget", "refuted"),
    [(keep_moved_copies, True), (keep_mean, True), (lambda model, request, data, seed: regress(data, seed), False)],
)
def test_what_stays_of_a_request_as_a_whole_is_found_by_one_coin_for_all(forget: Any, refuted: bool) -> None:
    """Of the mean of all records nothing shows which were among them; of moved copies 100 canaries show too little."""
    report = audit.check_unlearning(
        regress,
        forget,
        LABELLED,
        RANDOM_LABELS,
        score=lambda model, inputs, labels: expand(inputs) @ model * (2 * labels - 1),
        epsilon=0.5,
        together=True,
        runs=60,
        references=8,
        seed=1,
    )
    assert report.exit_code == int(refuted)
    assert (report.distance[0] > 2) == refuted


@pytest.mark.parametrize("form", [torch.from_numpy, pd.DataFrame, lambda rows: (rows, np.arange(len(rows)))])
def test_canaries_of_every_form_are_moved_a_little(form: Any) -> None:
    moved = move(form(FAR), form(POINTS), np.random.default_rng(0))
    assert type(moved) is type(form(FAR))
    distance = np.abs(np.asarray(moved[0] if isinstance(moved, tuple) else moved) - FAR)
    assert 0.005 < distance.mean() < 0.012
    assert move(["a"], ["b"], np.random.default_rng(0)) is None and move(np.arange(3), np.arange(3), DRAW) is None


def test_a_score_that_looks_at_the_request_makes_the_audit_invalid() -> None:
    requests: list[set[str]] = []

    def spy(model: Any, request: Any, data: Any, seed: int) -> Any:
        requests.append(set(request))
        return list_names(data, seed)

    report = check(list_names, spy, score=lambda model, names: [float(name in requests[0]) for name in names], references=0)
    assert report.verdict.outcome is Outcome.INVALID and report.bound is None
    assert report.distance[0] == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"together": True}, "runs is 1 with one coin a run, since together"),
        ({"epsilon": 30.0}, "allows anything between two requests"),
    ],
)
def test_what_cannot_be_put_to_the_test_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(audit.AuditError, match=message):
        check(list_names, keep, **options)
