"""How much of a DP-SGD claim a black-box adversary can prove with a crafted record: MNIST, 1000 records, full batch.

RUNS models train on the same 1000 records; a coin decides for each whether one ClipBKD record (a direction
that no record uses, with its least likely label) is among them. The adversary sees the loss of that record
under the final model and nothing else. Trainings are independent, so every estimator for independent trials
applies. The initial weights may be those of a model that has already been trained on the records
(`--pretrained`), after which their gradients are small and the canary's is not: the worst-case
initialisation of Annamalai and De Cristofaro 2024, arXiv 2405.14106.

    python benchmarks/black_box_tight.py --root FOLDER_THAT_HOLDS_MNIST [--runs 200] [--epsilon 10] [--steps 100]
        [--model logistic|mlp|cnn] [--pretrained] [--learning-rate 1.0] [--seed 0]
"""

from __future__ import annotations

import argparse
import functools
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import reachable_bounds
import torch

from audit import plugins
from audit.accounting import calibration
from audit.bounds import budget
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.data import Dataset
from audit.core.event_reading import phases
from audit.core.events import sgd
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.core.views import Scores, View
from audit.data import load
from audit.engine.read import observe
from audit.experiment.line import findings
from audit.stats.bounds.score_distributions import ScoreLaw

DELTA, CONFIDENCE = 1e-5, 0.95
CLASSES = 10
KINDS: dict[str, dict[str, Any]] = {
    "logistic": {"kind": "logistic"},
    "mlp": {"kind": "mlp", "hidden": [32]},
    "cnn": {"kind": "cnn"},
}


@functools.cache
def dataset(root: str, seed: int) -> Dataset:
    spec = {"kind": "mnist", "root": root, "train": 1000, "pool": 1000, "test": 1000}
    return load.load(spec, Seed(seed).child("data"))


@functools.cache
def fitted(kind: str, root: str, seed: int) -> dict[str, np.ndarray]:
    """Weights of one model trained without privacy on the records that all runs share."""
    source = dataset(root, seed)
    maker = plugins.build("attacks.canaries", {"kind": "held_out"})
    job = TrainingJob(
        dataset=source,
        canaries=maker.make(source, 1, 1, Seed(seed)),
        included=np.zeros((1, 1), dtype=bool),
        seeds=(Seed(seed).child("pretrained"),),
        mechanism=sgd(sample_rate=0.1, steps=600),
        model=KINDS[kind],
        optimizer={"kind": "adam", "learning_rate": 1e-3},
        access=Access.FINAL_MODEL,
    )
    weights = plugins.build("audit.trainers", {"kind": "sgd"}).fit(job, lambda steps: None).weights
    return {name: value[0] for name, value in weights.items()}


def separated(runs: int, confidence: float = CONFIDENCE) -> float:
    """The most that any valid bound states without a family, at delta 0 for a moment: every guess of `runs` right.

    An epsilon-DP training lets every guess be right with chance `sigmoid(epsilon) ^ runs`; a test of level 1 - confidence
    cannot refute an epsilon at which that chance is larger than its level.
    """
    rate = (1 - confidence) ** (1 / runs)
    return float(np.log(rate / (1 - rate)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--model", choices=sorted(KINDS), default="logistic")
    parser.add_argument("--pretrained", action="store_true")
    parser.add_argument("--learning-rate", type=float, default=1.0)
    parser.add_argument("--norm", type=float, default=1.0, help="length of the canary in mean record lengths")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    seed, source = Seed(options.seed).child("audit"), dataset(str(options.root), options.seed)
    accountant = plugins.build("audit.accounting.accountants", {"kind": "pld"})
    mechanism = calibration.calibrate_noise(
        accountant, target_epsilon=options.epsilon, delta=DELTA, sample_rate=1.0, steps=options.steps
    )
    claim = accountant.claim(mechanism, delta=DELTA, adjacency=Adjacency.ADD_REMOVE)
    canary = plugins.build("attacks.canaries", {"kind": "clipbkd", "norm": options.norm}).make(source, 1, 1, seed)
    included = seed.child("coins").numpy().random((options.runs, 1)) < 0.5
    began = time.process_time()
    job = TrainingJob(
        dataset=source,
        canaries=canary,
        included=included,
        seeds=tuple(seed.child("run", run) for run in range(options.runs)),
        mechanism=mechanism,
        model=KINDS[options.model],
        optimizer={"kind": "sgd", "learning_rate": options.learning_rate},
        access=Access.FINAL_MODEL,
        start=fitted(options.model, str(options.root), options.seed) if options.pretrained else None,
    )
    trained = plugins.build("audit.trainers", {"kind": "dpsgd"}).fit(job, lambda steps: None)
    logits = observe.logits(job.model, trained.weights, canary.records.inputs, CLASSES)
    test = observe.logits(job.model, trained.weights, source.test.inputs, CLASSES)
    loss = plugins.build("attacks.scorers", {"kind": "loss"})
    nothing = View.of(included=np.empty((0, 1), dtype=bool))
    labels = canary.records.labels
    values = [loss.score(View.of(labels=labels, logits=item), nothing, seed)[0] for item in logits]
    game = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=1,
        runs=options.runs,
        canary=canary.description,
    )
    scores = Scores(values=np.array(values), included=included[:, 0], game=game, attack="loss", mechanism=mechanism)
    result = findings.attack_result(scores, confidence=CONFIDENCE)
    accuracy = float(np.mean(test.argmax(-1) == source.test.labels))
    spent = time.process_time() - began
    print(f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}, {spent:.0f} CPU s")
    start = " from pretrained weights" if options.pretrained else ""
    ((noise, _, _),) = phases(mechanism)
    print(
        f"{options.model}{start}: {options.runs} runs ({included.sum()} with the canary), {options.steps} full-batch steps, "
        f"noise multiplier {noise:.2f}, claim ({claim.epsilon:.2f}, {DELTA:g}); "
        f"mean test accuracy {accuracy:.3f}; AUC {result.auc:.3f}"
    )
    mu, sides = float(np.sqrt(options.steps)) / noise, (int(included.sum()), int((~included).sum()))
    law = ScoreLaw(kind="gaussian", parameter=mu, delta=DELTA)
    print(
        f"  limits: with scores that lose nothing of what the steps hold ({mu:.2f}-GDP), the median of any valid bound is at "
        f"most {reachable_bounds.claim_limit(law, *sides):.2f} (for any mechanism) "
        f"and {reachable_bounds.gdp_limit(mu, DELTA, *sides):.2f} (inside gdp); "
        f"perfectly separated scores would prove {separated(sum(sides)):.2f}, whatever the mechanism and the test"
    )
    for name in ("fdp_rank", "gaussian", "rank_exact", "clopper_pearson"):
        estimator = plugins.build("audit.bounds.estimators", {"kind": name})
        (bound,) = budget.bounds(scores, [estimator], delta=DELTA, confidence=CONFIDENCE, seed=seed)
        inside = f" inside the family {bound.family}" if bound.family else ""
        share = f"{bound.epsilon / claim.epsilon:.2f} of the claim (ceiling {bound.ceiling:.2f})"
        print(f"  {name}: epsilon at least {bound.epsilon:.2f}{inside}, {share}")


if __name__ == "__main__":
    main()
