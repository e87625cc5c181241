"""Clients that hold one record each and do their worst with it, compared with plain autograd and the invariant of clipping."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from audit.core.access import Access
from audit.core.canaries import Canaries, CanaryRecords, ClientBehaviour, DirectionGradients
from audit.core.errors import ConfigError
from audit.core.events import dp_sgd, sgd
from audit.core.training import TrainingJob
from audit.models.build import starting
from audit.trainers.federated import FederatedTrainer
from tests.engine import cases

MLP = {"kind": "mlp", "hidden": [8]}
CLIENTS, CLIP = 10, 0.3


def job(
    behaviour: ClientBehaviour, included: list[bool], *, clipped: bool = True, rounds: int = 1, **changes: Any
) -> TrainingJob:
    """One federation without noise; each canary is a client with one record."""
    data = cases.dataset((5,))
    records = data.pool.take(np.arange(len(included)))
    canaries = Canaries(kind="clients", description="", payload=CanaryRecords(records=records), behaviour=behaviour)
    event = sgd(sample_rate=1.0, steps=rounds, unit="client")
    if clipped:
        event = dp_sgd(noise_multiplier=0.0, clip_norm=CLIP, sample_rate=1.0, steps=rounds, unit="client")
    full = cases.job(event, canaries=canaries, model=MLP, data=data, models=2, access=Access.EACH_UPDATE, **changes)
    coins = np.array([included, [False] * len(included)])
    same = (full.seeds[0], full.seeds[0])
    return replace(full, seeds=same, included=coins, optimizer={"kind": "sgd", "learning_rate": 1.0})


def trainer(**changes: Any) -> FederatedTrainer:
    options = {"clients": CLIENTS, "local_steps": 2, "local_learning_rate": 0.4, "slots": 3}
    return FederatedTrainer(**{**options, **changes})


def moved(provided: TrainingJob, plan: FederatedTrainer) -> np.ndarray:
    """How far the released model is from that of the same federation without the canary clients, flattened."""
    weights = plan.fit(provided, cases.silent).models.weights
    return np.concatenate([(value[1] - value[0]).ravel() for _, value in sorted(weights.items())])


def flat_weights(provided: TrainingJob) -> np.ndarray:
    """Weights of the first released model, flattened."""
    weights = trainer().fit(provided, cases.silent).models.weights
    return np.concatenate([value[0].ravel() for _, value in sorted(weights.items())])


def update_of(provided: TrainingJob, record: int) -> np.ndarray:
    """What a client with that record alone sends, by autograd, in the order of names."""
    records = provided.canaries.records
    assert records is not None
    module = starting(MLP, (5,), provided.dataset.classes, provided.seeds[0].child("init"), None)
    before = {name: value.detach().clone() for name, value in module.named_parameters()}
    optimizer = torch.optim.SGD(module.parameters(), lr=0.4)
    for _ in range(2):
        optimizer.zero_grad()
        outputs = module(torch.from_numpy(records.inputs[[record]].copy()))
        F.cross_entropy(outputs, torch.from_numpy(records.labels[[record]].copy())).backward()
        optimizer.step()
    after = dict(module.named_parameters())
    return np.concatenate([(before[name] - after[name]).detach().numpy().ravel() for name in sorted(before)])


def test_a_client_of_one_record_multiplies_what_it_learned() -> None:
    provided = job(ClientBehaviour(boost=3.0), [True, False, True, True], clipped=False)
    expected = 3 * sum(update_of(provided, record) for record in (0, 2, 3)) / CLIENTS
    np.testing.assert_allclose(moved(provided, trainer(noise="none")), expected, rtol=0, atol=1e-6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("boost", [1.0, 50.0, 1e6])
def test_g_clients_move_the_mean_by_g_clip_norms_over_n_at_most(boost: float) -> None:
    """The invariant, whatever they send; with a boost it is met, because clients that share a label push alike."""
    provided = job(ClientBehaviour(boost=boost), [True, True, False, True])
    shift, limit = float(np.linalg.norm(moved(provided, trainer()))), 3 * CLIP / CLIENTS
    assert shift <= limit * (1 + 1e-5)
    alone = job(ClientBehaviour(boost=boost), [True, False, False, False])
    assert float(np.linalg.norm(moved(alone, trainer()))) == pytest.approx(CLIP / CLIENTS, rel=1e-4) or boost == 1
    measured = trainer().fit(provided, cases.silent).models.executed
    assert measured.largest_norm.max() <= 1 + 1e-5


def test_without_a_clip_the_boost_breaks_the_invariant() -> None:
    provided = job(ClientBehaviour(boost=50.0), [True, True, False, True], clipped=False)
    assert float(np.linalg.norm(moved(provided, trainer(noise="none")))) > 10 * CLIP / CLIENTS


def test_records_that_clients_claim_do_not_count_beyond_the_cap() -> None:
    provided = job(ClientBehaviour(boost=1e3), [True, True, False, True])
    assert float(np.linalg.norm(moved(provided, trainer(example_cap=5)))) <= 3 * CLIP / CLIENTS * (1 + 1e-5)


@pytest.mark.slow
def test_a_free_rider_sends_the_last_step_back_and_reads_no_record() -> None:
    provided = job(ClientBehaviour(trains=False), [True, True], rounds=3)
    peer = replace(
        provided,
        canaries=replace(provided.canaries, payload=CanaryRecords(records=provided.dataset.pool.take(np.array([7, 9])))),
    )
    np.testing.assert_array_equal(flat_weights(provided), flat_weights(peer))
    honest = job(ClientBehaviour(), [False, False], rounds=3)  # no one sends anything beside the clients
    assert np.abs(flat_weights(provided) - flat_weights(honest)).max() > 1e-4
    first = [replace(plan, mechanism=replace(plan.mechanism, count=1)) for plan in (provided, honest)]
    np.testing.assert_array_equal(*map(flat_weights, first), "there is no step to send back in the first round")


@pytest.mark.parametrize("noise", ["central", "local"])
def test_nothing_that_is_released_depends_on_the_coin_of_a_free_rider(noise: str) -> None:
    """They are a control for every party: federations that differ in the coins alone are equal in all that is seen."""
    provided = job(ClientBehaviour(trains=False), [True, True, False], rounds=3)
    noisy = dp_sgd(noise_multiplier=0.2, clip_norm=CLIP, sample_rate=0.5, steps=3, unit="client")
    plans = [replace(provided, mechanism=noisy, included=coins) for coins in (provided.included, ~provided.included)]
    first, second = (trainer(noise=noise).fit(plan, cases.silent).models for plan in plans)
    assert "updates/products" in first.extra and np.abs(first.extra["updates/products"]).max() > 0
    for name, value in {**first.weights, **first.extra}.items():
        np.testing.assert_array_equal(value, {**second.weights, **second.extra}[name], name)


def test_parties_see_nothing_of_an_update_that_counts_as_zero() -> None:
    """A signal is of what was sent: a NaN does not get past the clip, so its sender's coin cannot be seen in any update."""
    provided = job(ClientBehaviour(), [True, True, False])
    rows = np.eye(3, 75, dtype=np.float32)
    planted = replace(provided.canaries, payload=DirectionGradients(directions=rows, orthogonal=True))
    for behaviour, expected in ((ClientBehaviour(finite=False), [0.0, 0.0, 0.0]), (ClientBehaviour(), [1.0, 1.0, 0.0])):
        plan = replace(provided, canaries=replace(planted, behaviour=behaviour))
        observed = trainer().fit(plan, cases.silent).models.extra
        np.testing.assert_allclose(observed["updates/products"][0, :, 0], expected, atol=1e-6)
    local = dp_sgd(noise_multiplier=0.5, clip_norm=CLIP, sample_rate=1.0, steps=1, unit="client")
    plan = replace(provided, canaries=replace(planted, behaviour=ClientBehaviour(finite=False)), mechanism=local)
    observed = trainer(noise="local").fit(plan, cases.silent).models.extra["updates/products"]
    assert np.abs(observed).min() > 0
    np.testing.assert_array_equal(observed[0], observed[1], "both federations have the same noise, and no coin adds to it")


def test_parties_see_the_clients_updates() -> None:
    """Who gets each update sees its direction; the clients that are out send zero."""
    observed = trainer().fit(job(ClientBehaviour(boost=50.0), [True, False, True]), cases.silent).models.extra
    assert (observed["updates/products"][0, [0, 2]] > 0.5).all() and (observed["updates/products"][0, 1] == 0).all()
    assert (observed["updates/products"][1] == 0).all()


def test_a_boost_is_a_positive_number() -> None:
    with pytest.raises(ConfigError, match="boost"):
        ClientBehaviour(boost=0.0)
