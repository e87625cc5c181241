"""How much of a DP-SGD claim one training run can prove from inside: MNIST, an MLP, gradient canaries.

CANARIES unit gradients along their own parameters enter the noisy sums of one run in place of records',
each by a coin. Prints the bound of every estimator at each access level as a share of the PLD claim, mean and
range over SEEDS runs: from all noisy steps, and from the difference of first and last weights alone. "Sampling seen"
splits single steps by whether the canary took part in that very step, which the auditor who runs the sampler knows.

    python benchmarks/white_box.py --root FOLDER_THAT_HOLDS_MNIST [--canaries 1000 5000] [--seeds 3]
        [--epsilon 8] [--sample-rate 0.025] [--steps 400] [--hidden 32]
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path

import numpy as np
import torch

import audit
from audit import plugins
from audit.accounting import calibration
from audit.bounds import budget
from audit.bounds.steps import StepProducts
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.canaries import Canaries
from audit.core.claims import NoNoiseFits, StepBound
from audit.core.data import Array, Dataset
from audit.core.events import Repeated
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.core.views import Scores, View
from audit.data import load
from audit.engine.random.sampling import EnsembleSampler, Law
from audit.engine.read import observe
from audit.models import build

DELTA, CONFIDENCE = 1e-5, 0.95
ESTIMATORS = {
    Access.ALL_STEPS: ("one_run", "one_run_fdp", "rank_exact", "gaussian", "fdp_rank"),
    Access.FINAL_WEIGHTS: ("one_run", "one_run_fdp"),
}
SCORERS = {Access.ALL_STEPS: "gradient_product", Access.FINAL_WEIGHTS: "weight_difference"}


def observed(
    source: Dataset, canaries: Canaries, mechanism: Repeated, hidden: int, seed: Seed
) -> tuple[Array, dict[Access, View]]:
    """The coins of one run and what each adversary sees of it."""
    included = seed.child("coins").numpy().random((1, len(canaries))) < 0.5
    job = TrainingJob(
        dataset=source,
        canaries=canaries,
        included=included,
        seeds=(seed.child("run"),),
        mechanism=mechanism,
        model={"kind": "mlp", "hidden": [hidden]},
        optimizer={"kind": "sgd", "learning_rate": 0.5},
        access=Access.ALL_STEPS,
    )
    trained = plugins.build("audit.trainers", {"kind": "dpsgd"}).fit(job, lambda steps: None).models
    if trained.products is None or trained.initial is None:
        raise SystemExit("the trainer recorded no products")
    final = {name: value for name, value in trained.weights.items() if name in trained.initial}
    difference = observe.weight_products(trained.initial, final, canaries)
    views = {
        Access.ALL_STEPS: View.of(step_products=trained.products[0], mechanism=mechanism),
        Access.FINAL_WEIGHTS: View.of(weight_products=difference[0], mechanism=mechanism),
    }
    return included[0], views


def taken_part(law: Law, steps: int, batches: tuple[Seed, ...], included: Array) -> Array:
    """Which canary was in which step, `(runs, m, steps)`: the sampler run again on the streams of the runs' batches."""
    sampler = EnsembleSampler(law, batches, included, as_gradients=True)
    blocks = [sampler.block().extra for _ in range(-(-steps // law.block_steps))]
    return np.concatenate([item for item in blocks if item is not None])[:steps].transpose(1, 2, 0)


def shares(options: argparse.Namespace, canaries: int, run: int) -> dict[tuple[Access, str], float]:
    """Each bound of one run as a share of the claim."""
    seed = Seed(options.seed).child("run", run)
    spec = {"kind": "mnist", "root": str(options.root), "train": 8000, "pool": 1000, "test": 1000}
    source = load.load(spec, seed.child("data"))
    accountant = plugins.build("audit.accounting.accountants", {"kind": "pld"})
    mechanism = calibration.calibrate_noise(
        accountant, target_epsilon=options.epsilon, delta=DELTA, sample_rate=options.sample_rate, steps=options.steps
    )
    claim = accountant.claim(mechanism, delta=DELTA, adjacency=Adjacency.ADD_REMOVE).epsilon
    shape = source.train.inputs.shape[1:]
    parameters = build.parameter_count({"kind": "mlp", "hidden": [options.hidden]}, shape, source.classes)
    planted = plugins.build("attacks.canaries", {"kind": "dirac_gradient"}).make(source, canaries, parameters, seed)
    included, views = observed(source, planted, mechanism, options.hidden, seed)
    nothing = View.of(included=np.empty((0, canaries), dtype=bool))
    result = {}
    for access, view in views.items():
        game = Game(
            adjacency=Adjacency.ADD_REMOVE,
            access=access,
            inclusion=Inclusion.COINS,
            canaries=canaries,
            independent_noise=access == Access.ALL_STEPS,
            canary=planted.description,
        )
        values = plugins.build("attacks.scorers", {"kind": SCORERS[access]}).score(view, nothing, seed)
        scores = Scores(values=values, included=included, game=game, attack=SCORERS[access], mechanism=mechanism)
        for name in ESTIMATORS[access]:
            estimator = plugins.build("audit.bounds.estimators", {"kind": name})
            (bound,) = budget.bounds(scores, [estimator], delta=DELTA, confidence=CONFIDENCE, seed=seed)
            result[access, f"{name}{f' (family {bound.family})' if bound.family else ''}"] = bound.epsilon / claim
    steps = views[Access.ALL_STEPS]["step_products"]
    held = np.repeat(included, steps.shape[1])
    blind = StepProducts(values=steps.ravel(), held=held)
    single = audit.step_bound(blind, mechanism=mechanism, delta=DELTA)
    if isinstance(single, NoNoiseFits):
        raise SystemExit(f"{single}; choose another --seed")
    result[Access.ALL_STEPS, "single steps, composed (family dp_sgd)"] = single.epsilon / claim
    law = Law(population=len(source.train) + canaries, rate=options.sample_rate)
    (took,) = taken_part(law, mechanism.count, (seed.child("run").child("batches"),), included[None])
    seeing = StepProducts(values=steps.ravel(), held=held, took_part=took.ravel())
    single = audit.step_bound(seeing, mechanism=mechanism, delta=DELTA)
    assert isinstance(single, StepBound)  # given its coins a step without noise shows all
    result[Access.ALL_STEPS, "single steps, sampling seen, composed (family dp_sgd)"] = single.epsilon / claim
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--canaries", type=int, nargs="*", default=[1000, 5000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--sample-rate", type=float, default=0.025)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}; epsilon {options.epsilon:g}, ")
    print(f"sample rate {options.sample_rate:g}, {options.steps} steps; each bound at {CONFIDENCE:g} on its own\n")
    print("| canaries | access | estimator | share of the claim: mean (range) |\n|---|---|---|---|")
    for canaries in options.canaries:
        began = time.process_time()
        runs = [shares(options, canaries, run) for run in range(options.seeds)]
        for access, name in runs[0]:
            values = [run[access, name] for run in runs]
            figures = f"{np.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"
            print(f"| {canaries} | {access.name} | {name} | {figures} |", flush=True)
        print(f"| {canaries} | | {(time.process_time() - began) / options.seeds:.0f} CPU s a run | |", flush=True)


if __name__ == "__main__":
    main()
