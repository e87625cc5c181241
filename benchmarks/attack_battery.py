"""The 17-model problem: every scorer on one shared set of models, each model once the target.

Synthetic Purchase-like data (600 binary features, 100 classes: a random prototype per class, each bit
flipped with probability 0.375), 8000 records, half of them in each model; MLP 600-128-100 tanh, Adam 1e-3,
batch 64, 10 epochs. Prints AUC and TPR at 1 % and 0.1 % FPR, mean and sample standard deviation over
targets, beside an independent earlier measurement on a problem of the same description (whose data
generator was not kept; the flip rate here gives its test accuracy of 93 %); then the figures of formulas
found in other implementations on the same models. `--batches poisson` trains with the project's engine
instead: records by independent coins, Poisson batches, which expose members unevenly and leak a little less.

    python benchmarks/attack_battery.py [--models 17] [--records 8000] [--seed 0] [--references K]
        [--targets T] [--batches shuffled|poisson] [--flip MEAN SPREAD] [--markdown]
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from audit import evaluation, plugins
from audit.core.game import Access
from audit.core.mechanism import NonPrivate
from audit.core.protocols import TrainingJob
from audit.core.records import Array, Canaries, Dataset, Records, ReferenceView
from audit.core.seeds import Seed
from audit.stats import signals

FEATURES, CLASSES, FLIP = 600, 100, 0.375
BATCH, EPOCHS = 64, 10
MODEL: dict[str, Any] = {"kind": "mlp", "hidden": [128], "activation": "tanh"}
SCORERS: list[tuple[str, dict[str, object], str]] = [
    ("loss threshold", {"kind": "loss"}, "0.936 / 0.129 / 0.015"),
    ("modified entropy", {"kind": "modified_entropy"}, ""),
    ("attack P (rank among nonmembers of the class)", {"kind": "attack_p"}, ""),
    ("attack R (smoothed rank)", {"kind": "attack_r"}, ""),
    ("shadow classifier", {"kind": "shadow_classifier"}, ""),
    ("label only, calibrated", {"kind": "label_only", "calibrated": True}, ""),
    ("quantile regression on references", {"kind": "quantile"}, ""),
    ("offset, online", {"kind": "offset"}, "0.985 / 0.673 / 0.283"),
    ("LiRA online, per-example variance", {"kind": "lira", "variance": "per_example"}, "0.979 / 0.498 / 0.093"),
    ("LiRA online, fixed variance", {"kind": "lira"}, "0.986 / 0.660 / 0.345"),
    ("LiRA online, shrunk variance, Student-t", {"kind": "lira", "variance": "shrunk"}, "0.986 / 0.643 / 0.290"),
    ("LiRA online, fixed variance, shrunk shift", {"kind": "lira", "shift": "shrunk"}, ""),
    ("LiRA offline, one-sided, fixed variance", {"kind": "lira", "online": False}, "0.972 / 0.605 / 0.323"),
    ("RMIA/BASE log ratio, online", {"kind": "rmia"}, "0.979 / 0.602 / 0.376"),
    ("RMIA/BASE log ratio, offline", {"kind": "rmia", "online": False}, ""),
    ("learned combination", {"kind": "learned_combination"}, ""),
]


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
    models: int, records: int, batches: str, seed: Seed, flip: tuple[float, float] = (FLIP, 0.0)
) -> tuple[ReferenceView, Array]:
    """Logits `(models, records, classes)` with coins, and the labels."""
    pool = purchase_like(records, seed.child("data"), flip)
    random = seed.child("coins").numpy()
    if batches == "poisson":
        included = random.random((models, records)) < 0.5
        return ReferenceView(included=included, logits=with_engine(pool, included, seed)), pool.labels
    included = np.zeros((models, records), dtype=bool)
    for row in included:
        row[random.permutation(records)[: records // 2]] = True
    return ReferenceView(included=included, logits=with_shuffled_batches(pool, included, seed)), pool.labels


def with_engine(pool: Records, included: Array, seed: Seed) -> Array:
    """The project's own ensemble: every record enters every step by a coin."""
    from audit.trainers.sgd import SgdTrainer
    from audit.training import observe

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
        canaries=Canaries(kind="held_out", description="all records", records=pool, identifiers=np.arange(records)),
        included=included,
        seeds=tuple(seed.child("model", one) for one in range(len(included))),
        mechanism=NonPrivate(sample_rate=rate, steps=round(EPOCHS / rate)),
        model=MODEL,
        optimizer={"kind": "adam", "learning_rate": 1e-3},
        access=Access.FINAL_MODEL,
    )
    trained = SgdTrainer().fit(job, lambda done: None)
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


def peer_forms(models: ReferenceView, labels: Array) -> list[tuple[str, Callable[[int, Array], Array], str]]:
    """Formulas of other implementations on the same models: target and indices of references to scores."""
    confidence = signals.scaled_confidence(models.logits, labels)
    p = 1 / (1 + np.exp(-confidence))
    coins = models.included

    def sides(target: int, rest: Array) -> tuple[Array, Array]:
        values = confidence[rest]
        found = np.where(coins[rest], values, np.nan), np.where(coins[rest], np.nan, values)
        for side in found:  # a record without any model on one side takes all of them
            lacking = np.isnan(side).all(axis=0)
            side[:, lacking] = values[:, lacking]
        return found

    def density(x: Array, mean: Array, std: Array | float) -> Array:
        return -0.5 * ((x - mean) / std) ** 2 - np.log(std)

    def member_std_for_both(target: int, rest: Array) -> Array:
        member, nonmember = sides(target, rest)
        std = float(np.nanstd(member))
        x = confidence[target]
        return density(x, np.nanmedian(member, axis=0), std) - density(x, np.nanmedian(nonmember, axis=0), std)

    def two_sided(target: int, rest: Array) -> Array:
        _, nonmember = sides(target, rest)
        return -density(confidence[target], np.nanmedian(nonmember, axis=0), float(np.nanstd(nonmember)))

    def quantised(target: int, rest: Array) -> Array:
        ratios = p[target] / p[rest].mean(axis=0)
        population = np.sort(ratios[~coins[target]][:2000])
        return np.searchsorted(population, ratios, side="right") / len(population)

    return [
        ("LiRA online, spread of members for both sides", member_std_for_both, "0.984 / 0.648 / 0.351"),
        ("LiRA offline, two-sided density", two_sided, "0.925 / 0.212 / 0.031"),
        ("RMIA as a count over 2000 nonmembers (ties not broken)", quantised, ""),
    ]


def row(name: str, result: evaluation.LeaveOneOut, earlier: str, seconds: float, markdown: bool) -> str:
    found = [f"{one.mean:.3f} ± {one.std:.3f}" for one in evaluation.spreads(result)]
    cells = [name, *found, *["-"] * (3 - len(found)), earlier or "-", f"{seconds:.2f}"]
    if markdown:
        return "| " + " | ".join(cells) + " |"
    return f"{cells[0]:56s}{cells[1]:>16s}{cells[2]:>16s}{cells[3]:>16s}   {cells[4]:24s}{cells[5]:>6s}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=17)
    parser.add_argument("--records", type=int, default=8000)
    parser.add_argument("--references", type=int, default=None, help="use only the first K other models (default: all)")
    parser.add_argument("--targets", type=int, default=None, help="number of models to attack (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--flip", type=float, nargs=2, default=[FLIP, 0.0], help="mean and spread of the records' flip rates")
    parser.add_argument("--batches", choices=["shuffled", "poisson"], default="shuffled")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    started = time.process_time()
    models, labels = train_models(options.models, options.records, options.batches, Seed(options.seed), tuple(options.flip))
    right = signals.correct(models.logits, labels)
    print(f"machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}")
    spent = time.process_time() - started
    print(
        f"{options.models} models, {options.records} records; trained and observed in {spent:.1f} CPU s; "
        f"accuracy on members {right[models.included].mean():.3f}, on others {right[~models.included].mean():.3f}"
    )
    header = ["score", "AUC", "TPR at 1 % FPR", "TPR at 0.1 % FPR", "earlier", "CPU s per target"]
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header) if options.markdown else "  ".join(header))
    targets = list(range(options.targets or options.models))
    for name, spec, earlier in SCORERS:
        attack = plugins.build("attacks.scorers", spec)
        if attack.needs.references > (options.references or options.models - 1):
            continue
        began = time.process_time()
        result = evaluate(attack, models, labels, targets, options.references)
        print(row(name, result, earlier, (time.process_time() - began) / len(targets), options.markdown), flush=True)
    for name, formula, earlier in peer_forms(models, labels):
        began = time.process_time()
        values = [formula(one, np.delete(np.arange(options.models), one)[: options.references]) for one in targets]
        result = evaluation.LeaveOneOut(values=np.stack(values), included=models.included[targets], models=np.asarray(targets))
        print(row(name, result, earlier, (time.process_time() - began) / len(targets), options.markdown), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"total {time.process_time() - started:.1f} CPU s, peak {peak:.2f} GB")


def evaluate(attack, models, labels, targets, references):  # type: ignore[no-untyped-def]
    """Leave-one-out with all others as references, or with the first K of them."""
    if references is None:
        return evaluation.leave_one_out(attack, models, labels, Seed(0), targets)
    parts = []
    for one in targets:
        kept = np.append(np.delete(np.arange(len(models)), one)[:references], one)
        some = ReferenceView(included=models.included[kept], logits=models.logits[kept])
        parts.append(evaluation.leave_one_out(attack, some, labels, Seed(0), [references]))
    return evaluation.LeaveOneOut(
        values=np.concatenate([part.values for part in parts]),
        included=np.concatenate([part.included for part in parts]),
        models=np.asarray(targets),
    )


if __name__ == "__main__":
    main()
