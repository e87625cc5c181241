"""Federated training against plain loops over clients, its rules, and the law of what each party sees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional as F

from attacks.canaries._gradients import SignedCosine
from audit.bounds.estimators.gaussian import Gaussian
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.canaries import Canaries, ClientBehaviour, CoordinateGradients
from audit.core.clip_quantile import ClipQuantile
from audit.core.data import Dataset
from audit.core.errors import ConfigError, DataError, ObservationError, UnsupportedMechanism
from audit.core.events import dp_sgd, sgd
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.core.views import Scores
from audit.data import clients
from audit.engine.compile_c import library
from audit.engine.compiled.compiled_gradients import ClientSteps, client_steps
from audit.engine.compiled.compiled_mlp import SOURCE
from audit.engine.federated.adaptive_clip import ClipNorms
from audit.engine.federated.federated import clipped_updates
from audit.engine.federated.federated_canaries import streams
from audit.engine.federated.federated_plan import LocalTraining, batches, split
from audit.mechanisms.federated import Federated
from audit.models.build import parameter_count, starting
from audit.stats.curves import tradeoff
from audit.trainers.federated import FederatedTrainer
from tests.broken_federated import NoiseInTheLog
from tests.engine import cases

MLP = {"kind": "mlp", "hidden": [8]}
CLIENTS = 7


def job(
    *, noise: float | None = 0.0, clip_norm: float = 0.3, rate: float = 1.0, rounds: int = 3, canaries: int = 0, **changes: Any
) -> TrainingJob:
    """Two federations on 40 records; with planted canaries if `canaries` says how many."""
    if noise is None:
        event = sgd(sample_rate=rate, steps=rounds, unit="client")
    else:
        event = dp_sgd(noise_multiplier=noise, clip_norm=clip_norm, sample_rate=rate, steps=rounds, unit="client")
    model = changes.pop("model", MLP)
    data = changes.pop("data", cases.dataset((5,)))
    parameters = parameter_count(model, data.train.inputs.shape[1:], data.classes)
    built = SignedCosine().make(data, max(canaries, 1), parameters, Seed(5))
    full = cases.job(event, canaries=built, model=model, data=data, models=2, access=Access.EACH_UPDATE, **changes)
    return full if canaries else replace(full, included=np.zeros((2, 1), dtype=bool))


def trainer(**changes: Any) -> FederatedTrainer:
    options = {"clients": CLIENTS, "local_steps": 3, "local_batch": 2, "slots": 3}
    return FederatedTrainer(**{**options, **changes})


def owned(data: Dataset) -> Dataset:
    """The same data; its train records belong to seven clients, most of them to the first."""
    return replace(data, owners=np.array([f"client {max(0, row - 33)}" for row in range(len(data.train))]))


def loop(provided: TrainingJob, plan: FederatedTrainer, model: int) -> dict[str, np.ndarray]:
    """One federation without noise or canaries, a client after the other, by plain autograd."""
    seed, data = provided.seeds[model], provided.dataset
    module = starting(provided.model, data.train.inputs.shape[1:], data.classes, seed.child("init"), None)
    held = split(data, plan.clients, plan.split, plan.concentration, Seed(plan.split_seed))
    sizes = np.array([len(rows) for rows in held])
    assert plan.split != "column" or sizes.tolist() == [34, 1, 1, 1, 1, 1, 1, 0, 0]
    local = LocalTraining(steps=plan.local_steps, batch=plan.local_batch, learning_rate=plan.local_learning_rate)
    rounds = provided.steps * plan.cohorts
    coins = seed.child("batches").numpy().random((rounds, plan.clients + len(provided.canaries))) < provided.sample_rate
    clip_norm = None if provided.noisy is None else provided.noisy.clip_norm
    adaptive = ClipQuantile.read(plan.adaptive_clip)
    for number in range(rounds):
        short = 0
        taking_part = np.flatnonzero(coins[number, : plan.clients])
        taking_part = taking_part[taking_part % plan.cohorts == number % plan.cohorts]
        total = [torch.zeros_like(parameter) for parameter in module.parameters()]
        if len(taking_part):
            chosen, real = batches(sizes[taking_part], local, seed.child("local", number).numpy())
        for place, client in enumerate(taking_part):
            if sizes[client] == 0:
                short += 1
                continue
            client_model = starting(provided.model, data.train.inputs.shape[1:], data.classes, seed.child("init"), None)
            client_model.load_state_dict(module.state_dict())
            optimizer = torch.optim.SGD(client_model.parameters(), lr=plan.local_learning_rate)
            for step in range(plan.local_steps):
                rows = held[client][chosen[place, step][real[place, step]]]
                optimizer.zero_grad()
                outputs = client_model(torch.from_numpy(data.train.inputs[rows].copy()))
                F.cross_entropy(outputs, torch.from_numpy(data.train.labels[rows].copy())).backward()
                optimizer.step()
            update = [
                old.detach() - new.detach() for old, new in zip(module.parameters(), client_model.parameters(), strict=True)
            ]
            norm = float(torch.cat([part.flatten() for part in update]).norm())
            short += clip_norm is not None and norm <= clip_norm
            weight = 1.0 if plan.example_cap is None else min(1.0, sizes[client] / plan.example_cap)
            factor = weight * (1.0 if clip_norm is None else min(1.0, clip_norm / norm))
            total = [full + factor * part for full, part in zip(total, update, strict=True)]
        with torch.no_grad():
            for parameter, full in zip(module.parameters(), total, strict=True):
                parameter.sub_(
                    provided.optimizer["learning_rate"] * full * plan.cohorts / (provided.sample_rate * plan.clients)
                )
        if adaptive is not None and clip_norm is not None:
            share = (short - len(taking_part) / 2) / (provided.sample_rate * plan.clients) + 0.5
            clip_norm *= float(np.exp(-adaptive.rate * (share - adaptive.quantile)))
    return {name: value.detach().numpy() for name, value in module.named_parameters()}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("noise", "rate", "options"),
    [
        (0.0, 1.0, {}),
        (0.0, 0.5, {"local_batch": None}),
        (None, 0.6, {"split": "uniform", "noise": "none"}),
        (0.0, 1.0, {"example_cap": 6, "slots": 64}),
        (0.0, 1.0, {"cohorts": 3}),
        (0.0, 1.0, {"split": "column", "clients": 9, "example_cap": 4}),
        (0.0, 1.0, {"split": "column", "clients": 9, "example_cap": 4, "compile": "on"}),
        (0.0, 0.5, {"local_batch": None, "compile": "on"}),
        (0.0, 0.5, {"adaptive_clip": {"quantile": 0.3, "rate": 1.0}}),
    ],
)
def test_clients_in_slots_are_a_plain_loop_over_clients(noise: float | None, rate: float, options: dict[str, Any]) -> None:
    provided, plan = job(noise=noise, rate=rate, data=owned(cases.dataset((5,)))), trainer(**options)
    done = plan.fit(provided, cases.silent).models
    for model in range(2):
        for name, value in loop(provided, plan, model).items():
            np.testing.assert_allclose(done.weights[name][model], value, rtol=0, atol=1e-6, err_msg=name)


def test_one_client_with_one_full_step_is_central_training() -> None:
    provided = job(noise=None, rounds=6, optimizer={"kind": "sgd", "learning_rate": 0.5, "momentum": 0.9})
    options = {"clients": 1, "local_steps": 1, "local_batch": None, "local_learning_rate": 1.0, "split": "uniform"}
    plan = trainer(noise="none", **options)
    done, data = plan.fit(provided, cases.silent).models, provided.dataset
    module = starting(provided.model, (5,), data.classes, provided.seeds[0].child("init"), None)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.9)
    for _ in range(6):
        optimizer.zero_grad()
        outputs = module(torch.from_numpy(data.train.inputs.copy()))
        F.cross_entropy(outputs, torch.from_numpy(data.train.labels.copy())).backward()
        optimizer.step()
    for name, value in module.named_parameters():
        np.testing.assert_allclose(done.weights[name][0], value.detach().numpy(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("compile_setting", ["off", "on"])
def test_a_federation_does_not_depend_on_its_neighbours_or_slots(compile_setting: str) -> None:
    provided = job(noise=1.0, rate=0.5, canaries=6)
    alone = replace(provided, seeds=provided.seeds[1:], included=provided.included[1:])
    both, item = (
        trainer(slots=slots, compile=compile_setting).fit(part, cases.silent).models
        for slots, part in ((2, provided), (5, alone))
    )
    for name, value in item.weights.items():
        np.testing.assert_allclose(both.weights[name][1], value[0], rtol=0, atol=1e-6)
    for name, value in item.extra.items():
        np.testing.assert_allclose(both.extra[name][1], value[0], rtol=0, atol=1e-5)


def test_the_whole_update_is_clipped_and_one_that_is_not_finite_is_zero() -> None:
    updates = torch.tensor([[3.0, 4.0], [0.3, 0.4], [float("nan"), 1.0], [float("inf"), 1.0], [0.0, 0.0]])
    clipped, finite = clipped_updates(updates, 1.0, torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0]))
    np.testing.assert_allclose(clipped, [[0.6, 0.8], [0.3, 0.4], [0, 0], [0, 0], [0, 0]], atol=1e-7)
    assert finite.tolist() == [True, True, False, False, True]
    bare, _ = clipped_updates(updates, None, torch.full((5,), 0.5))
    np.testing.assert_allclose(bare, [[1.5, 2.0], [0.15, 0.2], [0, 0], [0, 0], [0, 0]], atol=1e-7)


class Scaled(nn.Module):
    """A scalar parameter outside of any layer, and a layer that keeps statistics of its records."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.first, self.normal, self.last = nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.last(self.normal(self.first(inputs * 50.0))) * self.scale * 10


def scaled() -> nn.Module:
    return Scaled()


def moved(done: Any, model: int) -> dict[str, float]:
    """How far each tensor of a federation's model moved from its start."""
    start = dict(scaled_start(model).state_dict())
    return {
        name: float(np.linalg.norm(value[model] - start[name].numpy()))
        for name, value in done.weights.items()
        if value.dtype.kind == "f"
    }


def scaled_start(model: int) -> nn.Module:
    return starting(SCALED, (5,), 3, Seed(0).child("model", model).child("init"), None)


SCALED = {"factory": "tests.engine.test_federated:scaled"}


def test_scalars_and_statistics_are_clipped_with_the_rest_and_get_noise() -> None:
    plain = {"kind": "sgd", "learning_rate": 1.0}
    provided = job(model=SCALED, rounds=1, clip_norm=0.3, optimizer=plain)
    plan = trainer(local_batch=None, local_learning_rate=0.05)
    done, free = (
        plan.fit(provided, cases.silent).models,
        replace(plan, noise="none")
        .fit(replace(provided, mechanism=sgd(sample_rate=1.0, steps=1, unit="client")), cases.silent)
        .models,
    )
    for model in range(2):
        far, near = moved(free, model), moved(done, model)
        assert far["normal.running_var"] > 10, "statistics of large activations are most of an update"
        assert 0.25 < np.linalg.norm(list(near.values())) <= 0.3 + 1e-6
        assert near["scale"] > 0
    noisy = plan.fit(
        replace(provided, mechanism=cases.varied(provided.mechanism, noise_multiplier=5.0, unit="client")), cases.silent
    ).models
    assert all(moved(noisy, 0)[name] > 3 * moved(done, 0)[name] for name in ("scale", "normal.running_mean"))
    np.testing.assert_array_equal(noisy.weights["normal.num_batches_tracked"], 0)


def test_an_update_that_is_not_finite_leaves_the_others_alone() -> None:
    data = cases.dataset((5,))
    inputs = np.array(data.train.inputs)
    rows = split(data, CLIENTS, "dirichlet", 0.3, Seed(0))[2]
    inputs[rows] = np.nan
    broken = replace(data, train=replace(data.train, inputs=inputs))
    provided, options = job(data=broken, rounds=1), {"local_batch": None}
    done = trainer(**options).fit(provided, cases.silent).models
    assert all(np.isfinite(value).all() for value in done.weights.values())
    np.testing.assert_array_equal(done.executed.skipped, 1)


def test_the_denominator_does_not_count_replies() -> None:
    """At rate 0.5 the sum is divided by half of the clients, however many come."""
    provided, plan = job(rate=0.5, rounds=1, clip_norm=1e-3), trainer()
    done = plan.fit(provided, cases.silent).models
    replies = np.array(
        [(seed.child("batches").numpy().random((1, CLIENTS + 1)) < 0.5)[0, :CLIENTS].sum() for seed in provided.seeds]
    )
    assert len(set(replies.tolist())) > 1, "another seed: both federations got as many replies"
    for model, count in enumerate(replies):
        start = starting(MLP, (5,), 3, provided.seeds[model].child("init"), None)
        distance = np.sqrt(
            sum(np.square(done.weights[name][model] - value.detach().numpy()).sum() for name, value in start.named_parameters())
        )
        assert distance <= provided.optimizer["learning_rate"] * 1e-3 * count / (0.5 * CLIENTS) + 1e-6


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("noise", "deviations"),
    [
        ("none", {"updates": 0.0, "sums": 0.0, "models": 0.0}),
        ("central", {"updates": 0.0, "sums": 0.0, "models": 2.0}),
        ("local", {"updates": 2.0, "sums": 2.0 * CLIENTS**0.5, "models": 2.0 * CLIENTS**0.5}),
        ("distributed", {"updates": 2.0 / 5**0.5, "sums": 2.0, "models": 2.0}),
    ],
)
def test_each_party_sees_the_noise_that_its_claim_counts_on(noise: str, deviations: dict[str, float]) -> None:
    """Inner products are the coin plus noise of that size, for each of 40 canaries in 6 rounds of 2 federations."""
    provided = job(noise=None if noise == "none" else 2.0, rounds=6, canaries=40)
    done = trainer(noise=noise, dropped=2 if noise == "distributed" else 0).fit(provided, cases.silent).models
    for source, deviation in deviations.items():
        residuals = (done.extra[f"{source}/products"] - provided.included[:, :, None]).ravel()
        if deviation == 0:
            np.testing.assert_allclose(residuals, 0, atol=1e-5)
            continue
        spread = float((residuals**2).sum()) / deviation**2
        assert 1e-4 < stats.chi2.sf(spread, residuals.size) < 1 - 1e-4, source
        assert abs(residuals.mean()) < 4.5 * deviation / np.sqrt(residuals.size)
    if noise != "none":
        np.testing.assert_allclose(done.executed.noise_multiplier, 2.0, rtol=5 / np.sqrt(2 * done.executed.noise_draws))
    assert done.executed.largest_norm.max() <= (1 + 1e-5 if noise != "none" else 0)


def test_clients_that_drop_out_send_nothing() -> None:
    """With all but one of them gone the sum has the norm of one update at most, whoever that is in each round."""
    done = trainer(noise="distributed", dropped=CLIENTS - 1).fit(job(noise=0.0, rounds=1), cases.silent).models
    complete = trainer(noise="distributed").fit(job(noise=0.0, rounds=1), cases.silent).models

    def steps(models: Any) -> np.ndarray:
        moves = [(models.weights[name] - start).reshape(2, -1) for name, start in models.initial.items()]
        return np.linalg.norm(np.concatenate(moves, axis=1), axis=1)

    assert (steps(done) <= 0.3 * 0.5 / CLIENTS + 1e-6).all() and (steps(complete) > 0.3 * 0.5 / CLIENTS).all()


def test_sampled_canaries_are_seen_in_the_rounds_that_they_take_part_in() -> None:
    provided = job(noise=0.0, rate=0.4, rounds=5, canaries=30)
    done = trainer(noise="local").fit(provided, cases.silent).models
    for model, seed in enumerate(provided.seeds):
        coins = seed.child("batches").numpy().random((5, CLIENTS + 30)) < 0.4
        expected = coins[:, CLIENTS:].T & provided.included[model][:, None]
        for source in ("updates", "sums", "models"):
            np.testing.assert_allclose(done.extra[f"{source}/products"][model], expected, atol=1e-5)
        np.testing.assert_array_equal(done.executed.batch_sizes[model], coins.sum(1))


def test_canaries_of_a_cohort_are_seen_in_its_rounds() -> None:
    """Two cohorts: every canary is in each step of the accounting once, and the noise is that of its round."""
    provided = job(noise=0.0, rounds=4, canaries=30)
    done = trainer(cohorts=2).fit(provided, cases.silent).models
    for source in ("updates", "sums", "models"):
        np.testing.assert_allclose(done.extra[f"{source}/products"], np.repeat(provided.included[:, :, None], 4, 2), atol=1e-5)
    assert done.executed.steps == 4
    np.testing.assert_array_equal(done.executed.batch_sizes, CLIENTS + 30)
    noisy = job(noise=2.0, rounds=4, canaries=40)
    observed = trainer(cohorts=2).fit(noisy, cases.silent).models.extra["models/products"] - noisy.included[:, :, None]
    assert 1e-4 < stats.chi2.sf(float((observed**2).sum()) / 4, observed.size) < 1 - 1e-4


def test_owners_that_do_not_fit_are_refused() -> None:
    data = cases.dataset((5,))
    with pytest.raises(DataError, match=r"name the columns in data\.client"):
        split(data, 9, "column", 1.0, Seed(0))
    with pytest.raises(DataError, match="belong to 7 clients, and 'clients' is 6; raise it to 7"):
        split(owned(data), 6, "column", 1.0, Seed(0))


def test_splits_hold_every_record_once() -> None:
    labels = np.random.default_rng(0).integers(0, 10, 500)
    for held in (
        clients.dirichlet(labels, 60, 0.1, np.random.default_rng(1)),
        clients.uniform(500, 60, np.random.default_rng(1)),
    ):
        assert len(held) == 60 and min(map(len, held)) >= 1
        np.testing.assert_array_equal(np.sort(np.concatenate(held)), np.arange(500))
    few = clients.dirichlet(labels, 20, 0.05, np.random.default_rng(2))
    many = clients.dirichlet(labels, 20, 100.0, np.random.default_rng(2))

    def classes(held: tuple[np.ndarray, ...]) -> float:
        return float(np.mean([len(np.unique(labels[rows])) for rows in held]))

    assert classes(few) < 5 and classes(many) > 9
    with pytest.raises(DataError, match="3 training records for 4 clients"):
        clients.uniform(3, 4, np.random.default_rng(0))
    with pytest.raises(DataError, match="needs class labels"):
        clients.dirichlet(np.linspace(0, 1, 9), 2, 1.0, np.random.default_rng(0))


def test_what_it_cannot_train_is_refused() -> None:
    records = cases.job(dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=1.0, steps=1, unit="client"))
    about_examples = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=1.0, steps=1)
    riders = replace(records, canaries=replace(records.canaries, behaviour=ClientBehaviour()))
    with pytest.raises(UnsupportedMechanism, match="about one example plants records"):
        trainer(unit="example").fit(riders, cases.silent)
    with pytest.raises(UnsupportedMechanism, match="about one example plants records"):
        trainer(unit="example").fit(job(), cases.silent)
    with pytest.raises(ConfigError, match="hosts is 8 of 7 clients"):
        trainer(unit="example", hosts=8).fit(records, cases.silent)
    with pytest.raises(UnsupportedMechanism, match="statistics of its batches"):
        trainer(unit="example").fit(replace(records, model=SCALED), cases.silent)
    with pytest.raises(UnsupportedMechanism, match="use mechanism 'federated'"):
        trainer().fit(replace(job(), mechanism=about_examples), cases.silent)
    with pytest.raises(UnsupportedMechanism, match="use mechanism 'federated'"):
        trainer(noise="none").fit(job(), cases.silent)
    with pytest.raises(ConfigError, match="split is 'columns'"):
        trainer(split="columns")
    with pytest.raises(ConfigError, match="slots is 0"):
        trainer(slots=0)
    with pytest.raises(ConfigError, match="local_steps 0"):
        trainer(local_steps=0)
    units = Canaries(kind="dirac", description="", payload=CoordinateGradients(coordinates=np.arange(3)))
    done = trainer().fit(replace(job(), canaries=units, included=np.ones((2, 3), dtype=bool)), cases.silent).models
    np.testing.assert_allclose(done.extra["updates/products"], 1.0)


def test_noise_that_canaries_of_one_run_meet_is_independent() -> None:
    """Residuals over 96 federations: the variance that the claim counts on, no correlation between two canaries."""
    event = dp_sgd(noise_multiplier=2.0, clip_norm=1.0, sample_rate=0.5, steps=2, unit="client")
    data = cases.dataset((5,))
    canaries = SignedCosine().make(data, 12, parameter_count(MLP, (5,), 3), Seed(5))
    provided = cases.job(event, canaries=canaries, model=MLP, data=data, models=96, access=Access.EACH_UPDATE)
    done = trainer(clients=3, local_steps=1).fit(provided, cases.silent).models
    coins = np.stack([seed.child("batches").numpy().random((2, 15)) < 0.5 for seed in provided.seeds])
    sent = coins[:, :, 3:].transpose(0, 2, 1) & provided.included[:, :, None]
    residuals = (done.extra["models/products"] - sent).transpose(0, 2, 1).reshape(-1, 12)
    assert 1e-4 < stats.chi2.sf((residuals**2).sum() / 4.0, residuals.size) < 1 - 1e-4
    correlation = np.corrcoef(residuals.T)[np.triu_indices(12, 1)]
    assert np.abs(correlation).max() < 5 / np.sqrt(len(residuals))
    assert 1e-4 < stats.chi2.sf(len(residuals) * (correlation**2).sum(), len(correlation)) < 1 - 1e-4


@pytest.mark.slow
def test_bounds_from_canary_clients_are_above_the_truth_as_rarely_as_they_say() -> None:
    """60 audits of a mechanism with a known curve, 30 canaries each, at 90 %: the true epsilon refuted at most 14 times."""
    noise, rounds, delta = 1.5, 2, 1e-5
    event = dp_sgd(noise_multiplier=noise, clip_norm=1.0, sample_rate=1.0, steps=rounds, unit="client")
    data = cases.dataset((5,))
    canaries = SignedCosine().make(data, 30, parameter_count(MLP, (5,), 3), Seed(5))
    provided = cases.job(event, canaries=canaries, model=MLP, data=data, models=60, access=Access.RELEASED_MODELS)
    half = np.random.default_rng(0).permuted(np.tile(np.arange(30) < 15, (60, 1)), axis=1)
    done = trainer(clients=3, local_steps=1).fit(replace(provided, included=half), cases.silent).models
    values = done.extra["models/products"].sum(2)
    game = Game(
        adjacency=Adjacency.ZERO_OUT,
        access=Access.RELEASED_MODELS,
        inclusion=Inclusion.COINS,
        canaries=30,
        independent_noise=True,
    )
    truth = tradeoff.gdp_epsilon(np.sqrt(rounds) / noise, delta)
    estimator = Gaussian()
    wrong = sum(
        estimator.refutes(
            Scores(values=row, included=coins, game=game), epsilon=truth, delta=delta, confidence=0.9, seed=Seed(0)
        )
        for row, coins in zip(values, half, strict=True)
    )
    assert wrong <= stats.binom.isf(1e-3, 60, 0.1)
    powerful = Scores(values=values.ravel(), included=half.ravel(), game=replace(game, runs=60))
    assert estimator.lower_bound(powerful, delta=delta, confidence=0.95, seed=Seed(0)).epsilon > 0.8 * truth


@pytest.mark.parametrize(
    "optimizer", [{"kind": "adam", "learning_rate": 0.01}, {"kind": "sgd", "learning_rate": 1.0, "momentum": 0.9}]
)
def test_server_optimisers_move_by_the_mean_update(optimizer: dict[str, Any]) -> None:
    """Against torch's own optimiser on the mean update, which the models of plain averaging show."""
    provided, plan = job(rounds=1, optimizer={"kind": "sgd", "learning_rate": 1.0}), trainer()
    plain = plan.fit(provided, cases.silent).models
    peer = plan.fit(replace(provided, optimizer=optimizer), cases.silent).models
    kind = torch.optim.Adam if optimizer["kind"] == "adam" else torch.optim.SGD
    options = {"lr": optimizer["learning_rate"]} | ({"momentum": 0.9} if "momentum" in optimizer else {})
    start = starting(MLP, (5,), 3, provided.seeds[0].child("init"), None)
    theirs = kind(start.parameters(), **options)
    for name, parameter in start.named_parameters():
        parameter.grad = parameter.detach() - torch.from_numpy(plain.weights[name][0])
    theirs.step()
    for name, parameter in start.named_parameters():
        np.testing.assert_allclose(peer.weights[name][0], parameter.detach().numpy(), atol=2e-6)


OPTIMIZERS = (
    {"kind": "sgd", "learning_rate": 0.5, "momentum": 0.9, "weight_decay": 0.1, "schedule": "linear", "warmup": 2},
    {"kind": "adam", "learning_rate": 0.01},
)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_sums_are_read_off_released_models(optimizer: dict[str, Any]) -> None:
    done = trainer(noise="none").fit(job(noise=None, rounds=5, canaries=30, optimizer=optimizer), cases.silent).models
    np.testing.assert_allclose(done.extra["models/products"], done.extra["sums/products"], atol=1e-5)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_noise_that_is_in_the_stated_sum_alone_is_not_in_what_the_models_show(optimizer: dict[str, Any]) -> None:
    provided = job(noise=2.0, rounds=3, canaries=30, optimizer=optimizer)
    lying = NoiseInTheLog(clients=CLIENTS, local_steps=3, local_batch=2, slots=3)
    if optimizer["kind"] == "adam":
        with pytest.raises(ObservationError, match="not what optimizer 'adam' makes of the sum"):
            lying.fit(provided, cases.silent)
        return
    shown = lying.fit(provided, cases.silent).models.extra["models/products"]
    np.testing.assert_allclose(shown, np.repeat(provided.included[:, :, None], 3, 2), atol=1e-4)


def test_compiled_steps_are_taken_where_they_can_be_and_what_prevents_them_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    records = (torch.zeros(4, 5), torch.zeros(4, dtype=torch.int64))
    module = starting(MLP, (5,), 3, Seed(1), None)
    assert client_steps(module, records, "off", 1e12) is None and client_steps(module, records, "auto", 10.0) is None
    if library(SOURCE) is not None:
        assert isinstance(client_steps(module, records, "auto", 1e12), ClientSteps)
        with pytest.raises(DataError, match="labels up to 9"):
            client_steps(module, (records[0], records[1] + 9), "on", 1.0)
    assert not caplog.records
    assert client_steps(nn.Sequential(nn.Linear(5, 4), nn.GELU(), nn.Linear(4, 3)), records, "on", 1.0) is None
    assert "compile: on has no effect: the model is not a chain" in caplog.text


def test_updates_that_overflow_in_compiled_steps_count_as_zero() -> None:
    provided = job(noise=0.0, rounds=2, data=cases.dataset((5,)))
    huge = replace(provided.dataset.train, inputs=provided.dataset.train.inputs * np.float32(1e30))
    provided = replace(provided, dataset=replace(provided.dataset, train=huge))
    done = trainer(compile="on", local_learning_rate=1e30).fit(provided, cases.silent).models
    assert done.executed.skipped.min() > 0 and all(np.isfinite(value).all() for value in done.weights.values())


def test_an_adaptive_clip_norm_comes_to_the_quantile_of_the_norms() -> None:
    updates = torch.eye(40) * torch.linspace(0.1, 4.0, 40)[:, None]
    settings = ClipQuantile(quantile=0.8, rate=0.3)
    norms = ClipNorms(
        settings, clients=40, deviation=2.0, clip_norm=0.5, streams=streams([Seed(3)], "n"), like=torch.zeros(1, 40)
    )
    for _ in range(200):
        norms.take(updates, torch.zeros(40, dtype=torch.int64))
        norms.advance(None)
    assert float(norms.ratios[0]) * 0.5 == pytest.approx(3.2, rel=0.15)


@pytest.mark.parametrize(
    "setting",
    [
        {"quantile": "a"},
        {"quantile": 1.0},
        {"rate": True},
        {"rate": -1.0},
        {"rate": 1e3},
        {"share": [0.1]},
        {"quantil": 0.4},
        3,
    ],
)
def test_settings_of_a_moving_clip_norm_that_mean_nothing_are_refused_by_the_mechanism_and_its_trainer(setting: Any) -> None:
    for make in (FederatedTrainer, Federated):
        with pytest.raises(ConfigError, match="adaptive_clip"):
            make(clients=10, adaptive_clip=setting, **({"noise_multiplier": 1.0} if make is Federated else {}))


def test_a_client_that_sends_zeros_moves_the_count_of_an_adaptive_clip_norm_by_one_half() -> None:
    counts = []
    for update in (5.0, 0.1, 0.0, torch.nan, None):
        norms = ClipNorms(
            ClipQuantile(), clients=3, deviation=0.0, clip_norm=1.0, streams=streams([Seed(3)], "n"), like=torch.zeros(1, 2)
        )
        clients = [0.1, 5.0] if update is None else [0.1, 5.0, update]
        norms.take(torch.tensor([[client, 0.0] for client in clients]), torch.zeros(len(clients), dtype=torch.int64))
        counts.append(float(norms.counts[0]))
    assert counts == [-0.5, 0.5, 0.0, 0.0, 0.0]


def test_the_sum_and_the_count_of_an_adaptive_clip_norm_have_together_the_noise_that_is_claimed() -> None:
    settings, claimed = ClipQuantile(share=0.2), 3.0
    training = replace(job(noise=claimed, rounds=300, canaries=1), included=np.array([[True], [False]]))
    extra = trainer(adaptive_clip={"share": 0.2, "rate": 0.01}, local_steps=1).fit(training, cases.silent).models.extra
    sums, counts = (extra[f"{name}/products"][:, 0] for name in ("models", "counts"))
    assert sums.mean(1) == pytest.approx([1, 0], abs=0.6) and counts.mean(1) == pytest.approx([1, 0], abs=1.2)
    assert sums.std(1) == pytest.approx([claimed * settings.sum_noise] * 2, rel=0.15)
    assert counts.std(1) == pytest.approx([2 * settings.count_noise(claimed)] * 2, rel=0.15)
    assert 1 / claimed**2 == pytest.approx((claimed * settings.sum_noise) ** -2 + (2 * settings.count_noise(claimed)) ** -2)
