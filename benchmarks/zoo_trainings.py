"""Audits that train with an entry of the zoo: what each proves of the claim, beside what the step checks find in one step."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from audit import plugins
from audit.bounds import steps
from audit.bounds.steps import StepProducts
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.data import Array
from audit.core.game import Game, Inclusion
from audit.core.protocols import Estimator
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.zoo._reference import DpSgdStep, Tensors, outputs, small_parameters
from audit.zoo._survey import ZooClaim

BLACK_BOX, WHITE_BOX, PER_STEP, MANY_RUNS = "black-box, one run", "white-box, one run", "per step", "many runs"
AUDITS = (BLACK_BOX, WHITE_BOX, PER_STEP, MANY_RUNS)
FEATURES, CLASSES, RECORDS, CANARIES, RUNS = 6, 3, 60, 100, 64
CONFIDENCE = 0.95
CANARY_SCALE = 8.0  # of the one input that is a canary's own, so that its gradient is clipped
LEARNING_RATE = 0.1
Step = Callable[..., Tensors]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What one audit proves of an entry.

    Attributes:
        audit: its name.
        epsilon: lower bound, confidence 95 %.
        seconds: CPU time.
    """

    audit: str
    epsilon: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ZooTraining:
    """A training as an auditor sees it.

    Attributes:
        products: `(steps, canaries)`, each release along each canary's direction, which was fixed before.
        took_part: `(steps, canaries)` bool, True if the canary was in the batch.
        final: parameters after the last step.
    """

    products: Array
    took_part: Array
    final: Tensors


def prove(step: Step, plan: ZooClaim) -> list[Proof]:
    """Return what each audit in `AUDITS` proves of trainings with that step, which is as `audit.check_step` takes it."""
    watch = time.process_time()
    bound = _many_runs(step, plan)
    return [*one_training(step, plan), Proof(audit=MANY_RUNS, epsilon=bound, seconds=time.process_time() - watch)]


def one_training(step: Step, plan: ZooClaim) -> list[Proof]:
    """Return what the audits of one training prove: by its last model, by all releases, and by single steps."""
    watch = time.process_time()
    canaries, coins = _canaries(CANARIES), Seed(1).child("coins").numpy().random(CANARIES) < 0.5
    training = _train(step, plan, canaries, coins, seed=1)
    training_seconds = time.process_time() - watch
    proofs = []
    for name, scores in ((BLACK_BOX, _losses(training.final, canaries)), (WHITE_BOX, training.products.sum(0))):
        watch = time.process_time()
        game = _game(name, CANARIES, 1)
        bound = _bound("one_run", scores, coins, game, plan.delta)
        proofs.append(Proof(audit=name, epsilon=bound, seconds=training_seconds + time.process_time() - watch))
    watch = time.process_time()
    membership = np.broadcast_to(coins, training.products.shape)
    products = StepProducts(values=training.products.ravel(), held=membership.ravel(), took_part=training.took_part.ravel())
    bound = steps.bound(products, plan.event(), delta=plan.delta, confidence=CONFIDENCE, seed=Seed(0)).epsilon
    return [*proofs, Proof(audit=PER_STEP, epsilon=bound, seconds=training_seconds + time.process_time() - watch)]


def _many_runs(step: Step, plan: ZooClaim) -> float:
    """Lower bound from trainings with and without one canary, by the last model's loss on it."""
    canary, coins = _canaries(1), np.arange(RUNS) % 2 == 0
    runs = [_train(step, plan, canary, np.array([coin]), seed=1000 + i) for i, coin in enumerate(coins)]
    scores = np.array([_losses(run.final, canary)[0] for run in runs])
    game = _game(MANY_RUNS, 1, RUNS)
    return _bound("both_ends", scores, coins, game, plan.delta)


def _bound(estimator: str, scores: Array, coins: Array, game: Game, delta: float) -> float:
    table = Scores(values=scores, included=coins, game=game)
    instance: Estimator = plugins.build("audit.bounds.estimators", {"kind": estimator})
    return instance.lower_bound(table, delta=delta, confidence=CONFIDENCE, seed=Seed(0)).epsilon


def _game(name: str, canaries: int, runs: int) -> Game:
    access = Access.by_name("all_steps") if name == WHITE_BOX else Access.FINAL_MODEL
    return Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=access,
        inclusion=Inclusion.COINS,
        canaries=canaries,
        runs=runs,
        canary="records with an input of their own",
    )


def _canaries(count: int) -> tuple[Tensor, Tensor]:
    """Return records `(count, features + CANARIES)`, each with one input that no other record has, and random labels."""
    inputs = torch.zeros(count, FEATURES + CANARIES)
    inputs[torch.arange(count), FEATURES + torch.arange(count)] = CANARY_SCALE
    return inputs, torch.as_tensor(Seed(2).child("labels").numpy().integers(CLASSES, size=count))


def _ordinary() -> tuple[Tensor, Tensor]:
    """Return the records that every training sees."""
    stream = Seed(3).child("records").numpy()
    inputs = torch.zeros(RECORDS, FEATURES + CANARIES)
    inputs[:, :FEATURES] = torch.as_tensor(stream.normal(size=(RECORDS, FEATURES)), dtype=torch.float32)
    return inputs, torch.as_tensor(stream.integers(CLASSES, size=RECORDS))


def _start() -> Tensors:
    """Return the network's first parameters, in which the canaries' inputs count for nothing yet."""
    params = small_parameters(FEATURES + CANARIES, classes=CLASSES)
    params["hidden.weight"][:, FEATURES:] = 0.0
    return params


def _train(step: Step, plan: ZooClaim, canaries: tuple[Tensor, Tensor], coins: Array, *, seed: int) -> ZooTraining:
    """Train on the canaries with true coins beside ordinary records, and observe every release."""
    stream, generator = Seed(seed).child("batches").numpy(), torch.Generator().manual_seed(seed)
    inputs, labels = (torch.cat(parts) for parts in zip(_ordinary(), canaries, strict=True))
    params = _start()
    columns = FEATURES + torch.arange(len(coins))  # the weights of a canary's own input, where no other record has a gradient
    directions = DpSgdStep().record_gradients(params, *canaries)["hidden.weight"][torch.arange(len(coins)), :, columns]
    directions = directions / directions.norm(dim=1, keepdim=True)
    available = np.concatenate([np.ones(RECORDS, dtype=bool), coins])
    products, took_part = [], []
    for _ in range(plan.steps):
        batch = (stream.random(len(available)) < plan.sample_rate) & available
        rows = torch.as_tensor(np.flatnonzero(batch))
        result = step(params, (inputs[rows], labels[rows]), generator, **plan.setting)
        release = (params["hidden.weight"] - result["hidden.weight"]) * plan.divisor
        products.append((release[:, columns].T * directions).sum(1).numpy() / plan.clip_norm)
        took_part.append(batch[RECORDS:])
        params = {name: value + LEARNING_RATE * (result[name] - value) for name, value in params.items()}
    finite = np.nan_to_num(np.stack(products).astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30)
    return ZooTraining(products=finite, took_part=np.stack(took_part), final=params)


def _losses(params: Tensors, records: tuple[Tensor, Tensor]) -> Array:
    """Minus the loss of each record under one set of parameters, `(n,)`; -1e30 if it is not finite."""
    copies = {name: value.expand(len(records[1]), *value.shape) for name, value in params.items()}
    losses = torch.nn.functional.cross_entropy(outputs(copies, records[0]), records[1], reduction="none")
    return np.nan_to_num(-losses.numpy().astype(np.float64), nan=-1e30, posinf=1e30, neginf=-1e30)
