"""The 17-model problem: every scorer on one shared set of models, each model once the target.

Synthetic Purchase-like data (600 binary features, 100 classes: a random prototype per class, each bit
flipped with probability 0.375), 8000 records, half of them in each model; MLP 600-128-100 tanh, Adam 1e-3,
batch 64, 10 epochs. Prints AUC and TPR at 1 % and 0.1 % FPR, mean and sample standard deviation over
targets, beside an independent earlier measurement on a problem of the same description (its data
generator was not kept; the flip rate here gives its test accuracy of 93 %); then the figures of formulas
found in other implementations on the same models. `--coins balanced` gives every record to half of the models
(8 or 9 of 17), as the original research code does; the coins of the others then show the target's, as the last
row measures. `--batches poisson` trains with the project's engine instead: records by independent coins, Poisson batches,
which expose members unevenly and leak a little less.

    python benchmarks/attack_battery.py [--models 17] [--records 8000] [--seed 0] [--references K]
        [--targets T] [--coins halves|balanced] [--batches shuffled|poisson] [--flip MEAN SPREAD] [--markdown]
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import time
from collections.abc import Callable

import numpy as np
from attack_problem import FLIP, train_models

from audit import plugins
from audit.core.data import Array
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.describe import leave_one_out
from audit.stats.scoring import signals

SCORERS: list[tuple[str, dict[str, object], str]] = [
    ("loss threshold", {"kind": "loss"}, "0.936 / 0.129 / 0.015"),
    ("modified entropy", {"kind": "modified_entropy"}, ""),
    ("attack P (rank among nonmembers of the class)", {"kind": "attack_p"}, ""),
    ("attack R (smoothed rank)", {"kind": "attack_r"}, ""),
    ("shadow classifier", {"kind": "shadow_classifier"}, ""),
    ("label only, calibrated", {"kind": "label_only", "calibrated": True}, ""),
    ("quantile regression on references", {"kind": "reference_quantile"}, ""),
    ("offset, online", {"kind": "offset"}, "0.985 / 0.673 / 0.283"),
    ("LiRA online, per-example variance", {"kind": "lira", "variance": "per_example"}, "0.979 / 0.498 / 0.093"),
    ("LiRA online, fixed variance", {"kind": "lira"}, "0.986 / 0.660 / 0.345"),
    ("LiRA online, fixed variance, predictive", {"kind": "lira", "variance": "predictive"}, ""),
    ("LiRA online, shrunk variance, Student-t", {"kind": "lira", "variance": "shrunk"}, "0.986 / 0.643 / 0.290"),
    ("LiRA online, fixed variance, shrunk shift", {"kind": "lira", "shift": "shrunk"}, ""),
    ("LiRA offline, one-sided, fixed variance", {"kind": "lira", "online": False}, "0.972 / 0.605 / 0.323"),
    ("RMIA/BASE log ratio, online", {"kind": "rmia"}, "0.979 / 0.602 / 0.376"),
    ("RMIA/BASE log ratio, offline", {"kind": "rmia", "online": False}, ""),
    ("learned combination", {"kind": "learned_combination"}, ""),
]


def peer_forms(models: View, labels: Array) -> list[tuple[str, Callable[[int, Array], Array], str]]:
    """Formulas of other implementations on the same models: target and indices of references to scores."""
    confidence = signals.scaled_confidence(models["logits"], labels)
    p = 1 / (1 + np.exp(-confidence))
    coins = models.included

    def sides(target: int, remaining: Array) -> tuple[Array, Array]:
        values = confidence[remaining]
        result = np.where(coins[remaining], values, np.nan), np.where(coins[remaining], np.nan, values)
        for side in result:  # a record without any model on one side takes all of them
            lacking = np.isnan(side).all(axis=0)
            side[:, lacking] = values[:, lacking]
        return result

    def density(x: Array, mean: Array, std: Array | float) -> Array:
        return -0.5 * ((x - mean) / std) ** 2 - np.log(std)

    def member_std_for_both(target: int, remaining: Array) -> Array:
        member, nonmember = sides(target, remaining)
        std = float(np.nanstd(member))
        x = confidence[target]
        return density(x, np.nanmedian(member, axis=0), std) - density(x, np.nanmedian(nonmember, axis=0), std)

    def two_sided(target: int, remaining: Array) -> Array:
        _, nonmember = sides(target, remaining)
        return -density(confidence[target], np.nanmedian(nonmember, axis=0), float(np.nanstd(nonmember)))

    def two_sided_own(target: int, remaining: Array) -> Array:
        _, nonmember = sides(target, remaining)
        spread = np.nanstd(nonmember, axis=0) + 1e-6
        return -density(confidence[target], np.nanmean(nonmember, axis=0), spread)

    def plain_mean(target: int, remaining: Array) -> Array:
        return np.asarray(np.log(p[target] / p[remaining].mean(axis=0)))

    def count(target: int, remaining: Array) -> Array:
        return -coins[remaining].sum(axis=0).astype(np.float64)

    def quantised(target: int, remaining: Array) -> Array:
        ratios = p[target] / p[remaining].mean(axis=0)
        population = np.sort(ratios[~coins[target]][:2000])
        return np.searchsorted(population, ratios, side="right") / len(population)

    return [
        ("LiRA online, spread of members for both sides", member_std_for_both, "0.984 / 0.648 / 0.351"),
        ("LiRA offline, two-sided density, common spread", two_sided, ""),
        ("LiRA offline, two-sided density, spread per example", two_sided_own, "0.925 / 0.212 / 0.031"),
        ("RMIA/BASE, plain mean over references", plain_mean, "0.979 / 0.602 / 0.376"),
        ("RMIA as a count over 2000 nonmembers (ties not broken)", quantised, ""),
        ("how few references hold the record (no model is asked)", count, ""),
    ]


def row(name: str, result: leave_one_out.LeaveOneOut, earlier: str, seconds: float, markdown: bool) -> str:
    actual = [f"{item.mean:.3f} ± {item.std:.3f}" for item in leave_one_out.spreads(result)]
    cells = [name, *actual, *["-"] * (3 - len(actual)), earlier or "-", f"{seconds:.2f}"]
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
    parser.add_argument("--coins", choices=["halves", "balanced"], default="halves")
    parser.add_argument("--batches", choices=["shuffled", "poisson"], default="shuffled")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    started = time.process_time()
    models, labels = train_models(
        options.models,
        options.records,
        Seed(options.seed),
        batches=options.batches,
        coins=options.coins,
        flip=tuple(options.flip),
    )
    right = signals.correct(models["logits"], labels)
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
        values = [formula(item, np.delete(np.arange(options.models), item)[: options.references]) for item in targets]
        result = leave_one_out.LeaveOneOut(
            values=np.stack(values), included=models.included[targets], models=np.asarray(targets)
        )
        print(row(name, result, earlier, (time.process_time() - began) / len(targets), options.markdown), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"total {time.process_time() - started:.1f} CPU s, peak {peak:.2f} GB")


def evaluate(attack, models, labels, targets, references):  # type: ignore[no-untyped-def]
    """Leave-one-out with all others as references, or with the first K of them."""
    if references is None:
        return leave_one_out.leave_one_out(attack, models, labels, Seed(0), targets)
    parts = []
    for item in targets:
        retained = np.append(np.delete(np.arange(len(models)), item)[:references], item)
        some = View.of(included=models.included[retained], logits=models["logits"][retained])
        parts.append(leave_one_out.leave_one_out(attack, some, labels, Seed(0), [references]))
    return leave_one_out.LeaveOneOut(
        values=np.concatenate([part.values for part in parts]),
        included=np.concatenate([part.included for part in parts]),
        models=np.asarray(targets),
    )


if __name__ == "__main__":
    main()
