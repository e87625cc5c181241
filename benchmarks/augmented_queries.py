"""LiRA that asks about several views of each image: the models of `real_data.py` without DP, one data set.

Prints AUC and TPR of online LiRA with fixed variance, each model once the target, for several numbers of views (the image,
mirrored, shifted by a pixel). The models were trained without augmentation.

    python benchmarks/augmented_queries.py --root FOLDER --out OUT [--data cifar10] [--views 1 2 6 18] [--models 17] [--seed 0]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import real_problems
from attack_battery import row

from attacks.signals._queries import make_views
from audit import plugins
from audit.core.seeds import Seed
from audit.core.views import View
from audit.engine.read import observe
from audit.experiment.describe import leave_one_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="where packed data may be unpacked")
    parser.add_argument("--data", choices=["cifar10", "mnist", "fashion_mnist"], default="cifar10")
    parser.add_argument("--views", type=int, nargs="*", default=[1, 2, 6, 18])
    parser.add_argument("--models", type=int, default=17)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    problem, seed = real_problems.PROBLEMS[options.data], Seed(options.seed)
    dataset = real_problems.read(options.data, options.root, options.out, problem, seed.child("data"))
    training_design = real_problems.training_designs(problem, [])[0]
    job = real_problems.planned(dataset, problem, training_design, options.models, seed.child("recipe", 0))
    began = time.process_time()
    weights = training_design.trainer.fit(job, lambda steps: None).weights
    trained = observe.EnsembleReader(problem.model, weights, dataset.pool.inputs[:2], dataset.classes)
    observed = np.stack([trained.outputs(view) for view in make_views(dataset.pool.inputs, max(options.views))], axis=1)
    print(f"{options.data}: {options.models} models, trained and observed in {time.process_time() - began:.0f} CPU s")
    models = View.of(
        included=job.included,
        logits=observed[:, 0],
        **{f"augmented_logits_{count}": observed[:, :count] for count in options.views if count > 1},
    )
    for count in options.views:
        attack = plugins.build("attacks.scorers", {"kind": "lira", "augmentations": count})
        began = time.process_time()
        result = leave_one_out.leave_one_out(attack, models, dataset.pool.labels, seed)
        print(row(f"LiRA, {count} views", result, "", (time.process_time() - began) / options.models, True), flush=True)


if __name__ == "__main__":
    main()
