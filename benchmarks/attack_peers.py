"""The project's LiRA and SACRO-ML's on the very same models: the problem of `attack_battery.py`.

Needs `pip install sacroml` (2.0.1 was used); its scoring function is called with the probabilities of
the same models, so training and data are out of the comparison. Prints AUC, TPR at 1 % and 0.1 % FPR over
the first TARGETS models (default: all), each against all others, CPU seconds per target, and the differences between
counterparts, target by target.

    python benchmarks/attack_peers.py [--models 17] [--targets T] [--records 8000] [--seed 0] [--arrays FILE]

FILE is an npz that `real_data.py` wrote (cifar10-without-dp-17-0.npz, say): its models in place of the problem's.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from attack_battery import row
from attack_problem import train_models
from peer_packages import Models, sacro

from audit import plugins
from audit.core.data import Array
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.describe import leave_one_out
from audit.stats.bounds import roc

OURS: dict[str, dict[str, object]] = {
    "lira": {"kind": "lira"},
    "lira, variance predictive": {"kind": "lira", "variance": "predictive"},
    "lira, variance per_example": {"kind": "lira", "variance": "per_example"},
    "lira, online False": {"kind": "lira", "online": False},
    "learned_combination": {"kind": "learned_combination"},
}
COUNTERPARTS = [
    ("lira", "online-carlini, fix_variance True"),
    ("lira, variance predictive", "online-carlini, fix_variance True"),
    ("lira, variance per_example", "online-carlini, fix_variance False"),
    ("lira, online False", "offline, fix_variance True"),
    ("learned_combination", "online-carlini, fix_variance True"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=17)
    parser.add_argument("--records", type=int, default=8000)
    parser.add_argument("--targets", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--arrays", type=Path, default=None)
    options = parser.parse_args()
    if options.arrays is None:
        models, labels = train_models(options.models, options.records, Seed(options.seed))
    else:
        with np.load(options.arrays, allow_pickle=False) as stored:
            models, labels = View.of(included=stored["included"], logits=stored["logits"]), stored["labels"]
    targets = list(range(options.targets or len(models)))
    known = Models(logits=np.asarray(models["logits"], np.float64), labels=np.asarray(labels), included=models.included)
    ours, theirs = {}, {}
    for name, spec in OURS.items():
        began = time.process_time()
        ours[name] = leave_one_out.leave_one_out(plugins.build("attacks.scorers", spec), models, labels, Seed(0), targets)
        print(row(f"ours: {name}", ours[name], "", (time.process_time() - began) / len(targets), True), flush=True)
    for mode in ("online-carlini", "offline", "offline-carlini"):
        for fix_variance in (True, False):
            score = sacro(mode, fix_variance)(known, Path())
            began = time.process_time()
            values = np.stack([score(item) for item in targets])
            result = leave_one_out.LeaveOneOut(values=values, included=models.included[targets], models=np.asarray(targets))
            name = f"{mode}, fix_variance {fix_variance}"
            theirs[name] = result
            print(row(f"SACRO-ML: {name}", result, "", (time.process_time() - began) / len(targets), True), flush=True)
    print("\nours minus theirs, target by target: mean ± standard error")
    for attack_name, peer in COUNTERPARTS:
        gaps = figures(ours[attack_name]) - figures(theirs[peer])
        cells = [f"{gap.mean():+.4f} ± {gap.std(ddof=1) / len(gap) ** 0.5:.4f}" for gap in gaps.T]
        print(f"| {attack_name} | {peer} | " + " | ".join(cells) + " |")


def figures(scored: leave_one_out.LeaveOneOut) -> Array:
    """AUC, TPR at 1 % and at 0.1 % FPR of each target, `(targets, 3)`."""
    return np.array(
        [
            [
                roc.auc(values[coins], values[~coins]),
                *(leave_one_out.tpr_at(values[coins], values[~coins], fpr) for fpr in leave_one_out.FPRS),
            ]
            for values, coins in zip(scored.values, scored.included, strict=True)
        ]
    )


if __name__ == "__main__":
    main()
