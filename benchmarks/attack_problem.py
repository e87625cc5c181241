"""The 17-model problem of `attack_battery.py`: Purchase-like records, coins, and models trained on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.core.access import Access
from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Array, Dataset, Records
from audit.core.events import sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.core.views import View

FEATURES, CLASSES, FLIP = 600, 100, 0.375
BATCH, EPOCHS = 64, 10
MODEL: dict[str, Any] = {"kind": "mlp", "hidden": [128], "activation": "tanh"}


def purchase_like(records: int, seed: Seed, flip: tuple[float, float] = (FLIP, 0.0)) -> Records:
    """Binary records around one random prototype per class; `flip`: mean and spread of the records' flip rates."""
    random = seed.numpy()
    prototypes = random.random((CLASSES, FEATURES)) < 0.5
    labels = random.integers(0, CLASSES, records)
    rates = np.full(records, flip[0])
    if flip[1]:
        rates = np.clip(flip[0] + flip[1] * random.standard_normal(records), 0.05, 0.48)
    inputs = prototypes[labels] ^ (random.random((records, FEATURES)) < rates[:, None])
    return Records(inputs=inputs.astype(np.float32), labels=labels.astype(np.int64))


def train_models(
    models: int,
    records: int,
    seed: Seed,
    *,
    batches: str = "shuffled",
    coins: str = "halves",
    flip: tuple[float, float] = (FLIP, 0.0),
) -> tuple[View, Array]:
    """Logits `(models, records, classes)` with coins, and the labels."""
    pool = purchase_like(records, seed.child("data"), flip)
    random = seed.child("coins").numpy()
    if batches == "poisson":
        included = random.random((models, records)) < 0.5
        return View.of(included=included, logits=with_engine(pool, included, seed)), pool.labels
    included = balanced(models, records, random) if coins == "balanced" else halves(models, records, random)
    return View.of(included=included, logits=with_shuffled_batches(pool, included, seed)), pool.labels


def halves(models: int, records: int, random: np.random.Generator) -> Array:
    """A random half of the records for each model."""
    included = np.zeros((models, records), dtype=bool)
    for row in included:
        row[random.permutation(records)[: records // 2]] = True
    return included


def balanced(models: int, records: int, random: np.random.Generator) -> Array:
    """Half of the records for each model and half of the models for each record, to within one."""
    wanted = np.repeat([models // 2, models - models // 2], [records - records // 2, records // 2])[random.permutation(records)]
    included = random.random((models, records)).argsort(axis=0).argsort(axis=0) < wanted
    size = records // 2
    while True:
        sizes = included.sum(axis=1)
        most, least = int(sizes.argmax()), int(sizes.argmin())
        moved = min(int(sizes[most]) - size, size - int(sizes[least]))
        if moved > 0:  # records from the fullest model to the emptiest leave every record's count alone
            rows = random.choice(np.flatnonzero(included[most] & ~included[least]), moved, replace=False)
            included[most, rows], included[least, rows] = False, True
        elif sizes[most] != sizes[least]:  # the counts do not add up: one record changes its own
            item, member = (most, True) if sizes[most] > size else (least, False)
            included[item, random.choice(np.flatnonzero(included[item] == member))] = not member
        else:
            return included


def with_engine(pool: Records, included: Array, seed: Seed) -> Array:
    """The project's own ensemble: every record enters every step by a coin."""
    from audit.engine.read import observe
    from audit.trainers._ensemble import SgdTrainer

    records = len(pool)
    everyone = purchase_like(records + 64, seed.child("data")).take(np.arange(records, records + 64))
    dataset = Dataset(
        name="purchase-like",
        source="synthetic",
        sha256="",
        classes=CLASSES,
        train=everyone,
        pool=pool,
        test=everyone,
        pool_index=np.arange(records),
    )
    rate = BATCH / (records / 2)
    job = TrainingJob(
        dataset=dataset,
        canaries=Canaries(
            kind="held_out", description="all records", payload=CanaryRecords(records=pool, identifiers=np.arange(records))
        ),
        included=included,
        seeds=tuple(seed.child("model", item) for item in range(len(included))),
        mechanism=sgd(sample_rate=rate, steps=round(EPOCHS / rate)),
        model=MODEL,
        optimizer={"kind": "adam", "learning_rate": 1e-3},
        access=Access.FINAL_MODEL,
    )
    trained = SgdTrainer().fit(job, lambda done: None).models
    return observe.logits(MODEL, trained.weights, pool.inputs, CLASSES)


def with_shuffled_batches(pool: Records, included: Array, seed: Seed) -> Array:
    """The earlier recipe: every epoch passes once over a model's records in a new order; one batched program."""
    import torch

    models, inputs, labels = len(included), torch.tensor(pool.inputs), torch.tensor(pool.labels)
    random = seed.child("shuffle").numpy()

    def uniform(*shape: int, fan_in: int) -> torch.Tensor:
        drawn = random.uniform(-1, 1, (models, *shape)).astype(np.float32) / np.sqrt(fan_in).astype(np.float32)
        return torch.tensor(drawn, requires_grad=True)

    hidden = MODEL["hidden"][0]
    weights = [uniform(FEATURES, hidden, fan_in=FEATURES), uniform(hidden, CLASSES, fan_in=hidden)]
    biases = [uniform(1, hidden, fan_in=FEATURES), uniform(1, CLASSES, fan_in=hidden)]

    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.baddbmm(biases[1], torch.tanh(torch.baddbmm(biases[0], x, weights[0])), weights[1])

    optimizer = torch.optim.Adam([*weights, *biases], lr=1e-3)
    rows = [np.flatnonzero(row) for row in included]
    for _ in range(EPOCHS):
        order = np.stack([random.permutation(row) for row in rows])
        for start in range(0, order.shape[1], BATCH):
            batch = torch.tensor(order[:, start : start + BATCH])
            losses = torch.nn.functional.cross_entropy(forward(inputs[batch]).transpose(1, 2), labels[batch], reduction="none")
            optimizer.zero_grad()
            losses.mean(1).sum().backward()
            optimizer.step()
    with torch.no_grad():
        return torch.cat([forward(part.expand(models, -1, -1)) for part in inputs.split(1000)], 1).numpy()
