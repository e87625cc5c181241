"""Canary examples inside clients, compared with a plain loop over clients and examples by autograd."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional as F

from audit.core.access import Access
from audit.core.canaries import Canaries, CanaryRecords
from audit.core.events import dp_sgd, sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.engine.federated.federated_plan import LocalTraining, RecordNoise, batches, split
from audit.models.build import starting
from audit.trainers.federated import FederatedTrainer
from tests.engine import cases

MLP = {"kind": "mlp", "hidden": [8]}
CLIENTS, ROUNDS, CLIP, SHARE = 5, 3, 0.3, 0.8


def job(noise: float | None = 0.0, **changes: Any) -> TrainingJob:
    """Two federations with twelve canary examples, half of them in."""
    data = cases.dataset((5,))
    canaries = Canaries(kind="held_out", description="records", payload=CanaryRecords(records=data.pool.take(np.arange(12))))
    event = sgd(sample_rate=1.0, steps=ROUNDS, unit="client")
    if noise is not None:
        event = dp_sgd(noise_multiplier=noise, clip_norm=CLIP, sample_rate=1.0, steps=ROUNDS, unit="client")
    full = cases.job(event, canaries=canaries, model=MLP, data=data, models=2, access=Access.EACH_UPDATE, **changes)
    coins = np.random.default_rng(3).random((2, 12)) < 0.5
    return replace(full, included=coins, optimizer={"kind": "sgd", "learning_rate": SHARE})


def trainer(**changes: Any) -> FederatedTrainer:
    options = {"clients": CLIENTS, "local_steps": 2, "local_batch": None, "slots": 4, "hosts": 2, "unit": "example"}
    return FederatedTrainer(**{**options, **changes})


def flat(tensors: Iterator[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def loss_of(module: torch.nn.Module, inputs: np.ndarray, labels: np.ndarray) -> torch.Tensor:
    return F.cross_entropy(module(torch.from_numpy(inputs.copy())), torch.from_numpy(labels.copy()))


def loop(provided: TrainingJob, plan: FederatedTrainer, model: int) -> dict[str, np.ndarray]:
    """What parties see of one federation without noise, and its last weights: a client, then an example, after the other."""
    seed, data, records = provided.seeds[model], provided.dataset, provided.canaries.records
    assert records is not None
    held = split(data, CLIENTS, plan.split, plan.concentration, Seed(plan.split_seed))
    module = starting(MLP, (5,), data.classes, seed.child("init"), None)
    observed = {name: np.zeros((12, ROUNDS)) for name in ("updates", "sums", "models", "updates drop", "models drop")}
    for number in range(ROUNDS):
        updates = []
        for client in range(CLIENTS):
            places = [row for row in range(12) if row % plan.hosts == client and provided.included[model][row]]
            inputs = np.concatenate([data.train.inputs[held[client]], records.inputs[places]])
            labels = np.concatenate([data.train.labels[held[client]], records.labels[places]])
            worker = starting(MLP, (5,), data.classes, seed.child("init"), None)
            worker.load_state_dict(module.state_dict())
            optimizer = torch.optim.SGD(worker.parameters(), lr=plan.local_learning_rate)
            for _ in range(plan.local_steps):
                optimizer.zero_grad()
                loss_of(worker, inputs, labels).backward()
                optimizer.step()
            update = flat(module.parameters()) - flat(worker.parameters())
            updates.append(update * min(1.0, CLIP / float(update.norm())))
        after = starting(MLP, (5,), data.classes, seed.child("init"), None)
        step = flat(module.parameters()) - SHARE * torch.stack(updates).sum(0) / CLIENTS
        torch.nn.utils.vector_to_parameters(step, after.parameters())
        for row in range(12):
            item = slice(row, row + 1)
            module.zero_grad()
            before = loss_of(module, records.inputs[item], records.labels[item])
            before.backward()
            gradient = flat(parameter.grad for parameter in module.parameters() if parameter.grad is not None)
            mine = updates[row % plan.hosts]
            moved = starting(MLP, (5,), data.classes, seed.child("init"), None)
            torch.nn.utils.vector_to_parameters(flat(module.parameters()) - mine, moved.parameters())
            hosts = torch.stack(updates[: plan.hosts]).sum(0)
            for name, vector in (("updates", mine), ("sums", hosts), ("models", hosts)):
                observed[name][row, number] = float(F.cosine_similarity(gradient, vector, dim=0))
            for name, later in (("updates drop", moved), ("models drop", after)):
                observed[name][row, number] = float(
                    (before - loss_of(later, records.inputs[item], records.labels[item])).detach()
                )
        module = after
    return {**observed, **{name: value.detach().numpy() for name, value in module.named_parameters()}}


def test_what_parties_see_of_examples_is_a_plain_loop() -> None:
    provided, plan = job(), trainer()
    done = plan.fit(provided, cases.silent).models
    for model in range(2):
        expected = loop(provided, plan, model)
        for source in ("updates", "sums", "models"):
            np.testing.assert_allclose(done.extra[f"{source}/products"][model], expected[source], atol=2e-5)
        for source in ("updates", "models"):
            np.testing.assert_allclose(done.extra[f"{source}/loss_drops"][model], expected[f"{source} drop"], atol=1e-5)
        for name, value in done.weights.items():
            np.testing.assert_allclose(value[model], expected[name], atol=1e-6)


def test_coins_decide_what_hosts_train_on_and_nothing_else() -> None:
    provided = job()
    changed = replace(provided, included=np.stack([provided.included[0], ~provided.included[1]]))
    first, second = (trainer().fit(which, cases.silent).models for which in (provided, changed))
    for name, value in first.weights.items():
        np.testing.assert_allclose(value[0], second.weights[name][0], atol=1e-7)
    assert any(np.abs(value[1] - second.weights[name][1]).max() > 1e-4 for name, value in first.weights.items())


def test_local_noise_hides_examples_in_the_update_of_their_client() -> None:
    """Far more noise than signal: cosines with an update are those with a random direction, of variance 1 / d."""
    provided = job(noise=1e4)
    done = trainer(noise="local").fit(provided, cases.silent).models
    size = sum(value[0].size for value in done.weights.values())
    cosines = done.extra["updates/products"]
    spread = float((cosines**2).mean() * size)
    # canaries of one host meet the same noise, so there are 2 models x 2 hosts x 3 rounds of independent directions
    assert stats.chi2.ppf(1e-4, 12) / 12 < spread < stats.chi2.ppf(1 - 1e-4, 12) / 12
    assert set(done.extra) == {f"{source}/products" for source in ("updates", "sums", "models")} | {
        f"{source}/loss_drops" for source in ("updates", "models")
    }


def test_hosts_that_do_not_take_part_show_nothing() -> None:
    event = dp_sgd(noise_multiplier=0.0, clip_norm=CLIP, sample_rate=0.4, steps=ROUNDS, unit="client")
    provided = replace(job(), mechanism=event)
    done = trainer().fit(provided, cases.silent).models
    for model, seed in enumerate(provided.seeds):
        present = seed.child("batches").numpy().random((ROUNDS, CLIENTS)) < 0.4
        shown = done.extra["updates/products"][model] != 0
        np.testing.assert_array_equal(shown, present[:, np.arange(12) % 2].T)


def inside(**changes: Any) -> FederatedTrainer:
    """DP-SGD in each client: four steps over batches of half of its records, clipped to 0.05."""
    options = {"noise": "records", "record_rate": 1.0, "record_noise": 0.0, "record_clip": 0.05, "local_steps": 4, "hosts": 1}
    return trainer(**{**options, **changes})


def test_clients_that_clip_records_are_a_plain_loop_over_records() -> None:
    """One client, one round, no noise: every record's gradient is clipped before they are added up."""
    provided = replace(job(noise=None), mechanism=sgd(sample_rate=1.0, steps=1, unit="client"))
    plan = inside(clients=1, local_learning_rate=0.5)
    done = plan.fit(provided, cases.silent).models
    records = provided.canaries.records
    assert records is not None
    data = provided.dataset
    inputs = np.concatenate([data.train.inputs, records.inputs[provided.included[0]]])
    labels = np.concatenate([data.train.labels, records.labels[provided.included[0]]])
    module = starting(MLP, (5,), data.classes, provided.seeds[0].child("init"), None)
    first = flat(module.parameters())
    for _ in range(4):
        total = torch.zeros_like(first)
        for row in range(len(inputs)):
            module.zero_grad()
            loss_of(module, inputs[row : row + 1], labels[row : row + 1]).backward()
            gradient = flat(parameter.grad for parameter in module.parameters() if parameter.grad is not None)
            total += gradient * min(1.0, 0.05 / float(gradient.norm()))
        step = flat(module.parameters()) - 0.5 * total / len(data.train)
        torch.nn.utils.vector_to_parameters(step, module.parameters())
    expected = first - SHARE * (first - flat(module.parameters()))
    weights = np.concatenate([done.weights[name][0].ravel() for name, _ in module.named_parameters()])
    np.testing.assert_allclose(weights, expected.numpy(), atol=1e-6)


def test_noise_of_clients_that_noise_their_steps_has_its_law() -> None:
    """A learning rate of 1 and far more noise than gradients: an update's variance is that of the noise of all its steps."""
    provided = replace(job(noise=None), mechanism=sgd(sample_rate=1.0, steps=1, unit="client"))
    plan = inside(record_noise=1e4, local_learning_rate=1.0)
    done = plan.fit(provided, cases.silent).models
    batch = len(provided.dataset.train) / CLIENTS
    deviation = 1e4 * 0.05 / batch * np.sqrt(4)  # of one update
    moved = []
    for model, seed in enumerate(provided.seeds):
        module = starting(MLP, (5,), provided.dataset.classes, seed.child("init"), None)
        moved += [(done.weights[name][model] - value.detach().numpy()).ravel() for name, value in module.named_parameters()]
    values = np.concatenate(moved) / (SHARE * deviation / np.sqrt(CLIENTS))
    assert 1e-4 < stats.chi2.sf(float((values**2).sum()), values.size) < 1 - 1e-4


def test_batches_of_records_are_poisson() -> None:
    private = RecordNoise(rate=0.3, clip_norm=1.0, noise_multiplier=0.0, batch=1.0)
    local = LocalTraining(steps=200, private=private)
    rows, real = batches(np.array([40, 7]), local, np.random.default_rng(1))
    counts = real.sum(2)
    for client, size in enumerate((40, 7)):
        assert abs(counts[client].mean() - 0.3 * size) < 4 * np.sqrt(0.21 * size / 200)
        assert rows[client][real[client]].max() < size
        for chosen, mask in zip(rows[client], real[client], strict=True):
            assert len(set(chosen[mask])) == mask.sum(), "each record at most once"
    assert counts[0].std() > 2, "batches differ in size"


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, None])
def test_held_examples_are_told_from_others_by_what_their_client_sends(noise: float | None) -> None:
    """Means over 8 federations: members' losses fall further by their own client's update."""
    provided = job(noise=noise)
    coins = np.random.default_rng(5).random((8, 12)) < 0.5
    seeds = tuple(Seed(9).child("federation", number) for number in range(8))
    many = replace(provided, included=coins, seeds=seeds)
    plan = trainer(clients=8, local_steps=6, local_learning_rate=0.5, noise="none" if noise is None else "central")
    drops = plan.fit(many, cases.silent).models.extra["updates/loss_drops"].sum(2)
    assert stats.mannwhitneyu(drops[coins], drops[~coins], alternative="greater").pvalue < 1e-3
