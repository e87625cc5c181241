"""`audit mechanism` beside DP-Sniper at equal samples: its mechanisms, the pairs that its published run chose, its settings.

git clone https://github.com/eth-sri/dp-sniper; pip install mmh3 tensorboard
python benchmarks/mechanism_peers.py dp-sniper 300000

Both draw so many outputs on either data set of one pair and state a bound of confidence 95 %. DP-Sniper (Bichsel et al. 2021)
spends a third each on its logistic regression, its threshold and its count, with the classifier, feature transforms and
c = 0.its own 01 evaluation (`eval_sp2021`, with 10.7 million outputs for each there).
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import audit

CONFIDENCE, CLAIM = 0.95, 0.1
REFERENCE = "eval_sp2021/reference-results/dd_search_reg_data.log"
OUTPUTS = {
    "LaplaceMechanism": 1,
    "TruncatedGeometricMechanism": 1,
    "NoisyHist1": 5,
    "NoisyHist2": 5,
    "ReportNoisyMax1": 1,
    "ReportNoisyMax2": 1,
    "ReportNoisyMax3": 1,
    "ReportNoisyMax4": 1,
    "SparseVectorTechnique1": 20,
    "SparseVectorTechnique2": 20,
    "SparseVectorTechnique3": 30,
    "SparseVectorTechnique4": 20,
    "SparseVectorTechnique5": 10,
    "SparseVectorTechnique6": 10,
    "Rappor": 20,
    "OneTimeRappor": 20,
    "LaplaceParallel": 20,
    "SVT34Parallel": 80,
    "PrefixSum": 10,
    "NumericalSVT": 10,
}
"""Mechanisms of the evaluation and the inputs of their classifiers."""
MARKS = {
    "SparseVectorTechnique1": [-1],
    "SparseVectorTechnique2": [-1],
    "SparseVectorTechnique3": [-1000.0, -2000.0],
    "SparseVectorTechnique4": [-1],
    "SVT34Parallel": [-1, -1000.0, -2000.0],
}
"""Values of outputs that get an input of their own."""
OPTIONS: dict[str, dict[str, Any]] = {
    "LaplaceParallel": {"eps": 0.005, "n_parallel": 20},
    "SparseVectorTechnique1": {"c": 1, "t": 0.5},
    **{f"SparseVectorTechnique{i}": {"c": 1, "t": 1} for i in (2, 3, 4, 5, 6)},
}


def mechanisms() -> Iterator[tuple[str, Any]]:
    """Yield name and mechanism, as `dpsniper/experiments/exp_default.py` makes them."""
    from dpsniper.mechanisms import geometric, laplace, noisy_hist, parallel, prefix_sum, rappor, report_noisy_max
    from dpsniper.mechanisms import sparse_vector_technique as sparse

    homes = (geometric, laplace, noisy_hist, parallel, prefix_sum, rappor, report_noisy_max, sparse)
    for name in OUTPUTS:
        kind = next(getattr(home, name) for home in homes if hasattr(home, name))
        yield name, kind(**OPTIONS.get(name, {}))


def chosen_pairs(folder: Path) -> dict[str, tuple[Any, Any]]:
    """Return the pair of data sets that DP-Sniper's published run chose for each mechanism."""
    pairs = {}
    for line in (folder / REFERENCE).read_text().splitlines():
        entry = json.loads(line)
        if "best_result" in entry:
            best = entry["best_result"]
            pairs[entry["ctx"][0]] = tuple(vector(best[key]) for key in ("a1", "a2"))
    return pairs


def vector(text: str) -> Any:
    """Return the array that numpy printed so: whole numbers if no decimal point is."""
    kind = float if "." in text else int
    return np.array([kind(number) for number in text.strip("[]").split()])


def sniper(name: str, mechanism: Any, pair: tuple[Any, Any], samples: int) -> float:
    """Return DP-Sniper's lower bound."""
    from dpsniper.attack.dpsniper import DPSniper
    from dpsniper.classifiers.classifier_factory import LogisticRegressionFactory
    from dpsniper.classifiers.feature_transformer import FlagsFeatureTransformer
    from dpsniper.classifiers.torch_optimizer_factory import SGDOptimizerFactory
    from dpsniper.probability.estimators import EpsEstimator, PrEstimator
    from dpsniper.search.ddconfig import DDConfig

    third = samples // 3000 * 1000
    config = DDConfig(
        n_train=third,
        n=third,
        n_check=third,
        n_final=third,
        training_batch_size=third // 10,
        n_processes=1,
        confidence=CONFIDENCE,
    )
    factory = LogisticRegressionFactory(
        in_dimensions=OUTPUTS[name],
        optimizer_factory=SGDOptimizerFactory(learning_rate=0.3, momentum=0.3, step_size=500),
        feature_transform=FlagsFeatureTransformer(MARKS[name]) if name in MARKS else None,
        regularization_weight=0.001,
        epochs=10,
    )
    attack = DPSniper(mechanism, factory, config).best_attack(*pair)
    return float(EpsEstimator(PrEstimator(mechanism, third, config)).compute_eps_estimate(*pair, attack)[1])


def our_bound(mechanism: Any, pair: tuple[Any, Any], samples: int, seed: int) -> float:
    """Return our bound on epsilon."""

    def function(data: Any, rng: Any, size: int) -> Any:
        return mechanism.m(data, size)

    report = audit.mechanism(
        function, epsilon=CLAIM, pairs=[pair], adjacency="replace_one", samples=samples, confidence=CONFIDENCE, seed=seed
    )
    return float(report.epsilon.epsilon)


def seed_globally(number: int) -> None:
    """Seed the global generators, from which DP-Sniper and its mechanisms draw."""
    import torch

    np.random.seed(number)  # noqa: NPY002  the generator that the peer draws from
    torch.manual_seed(number)


def bounds(name: str, mechanism: Any, pair: tuple[Any, Any], samples: int, seed: int) -> tuple[float, float]:
    """Return DP-Sniper's bound and ours, each from its own outputs."""
    seed_globally(2 * seed)
    theirs = sniper(name, mechanism, pair, samples)
    seed_globally(2 * seed + 1)
    return theirs, our_bound(mechanism, pair, samples, seed)


def main(folder: Path, samples: int, repeats: int = 1) -> None:
    """Print the table of docs/use/mechanisms.md."""
    sys.path.insert(0, str(folder))
    logging.disable(logging.CRITICAL)
    pairs = chosen_pairs(folder)
    print(f"| Mechanism | DP-Sniper, {samples:,} | audit mechanism, {samples:,} |\n|---|---|---|")
    for name, mechanism in mechanisms():
        if name not in pairs:
            continue
        theirs, ours = np.transpose([bounds(name, mechanism, pairs[name], samples, seed) for seed in range(repeats)])
        print(f"| {name} | {np.mean(theirs):.3f} | {np.mean(ours):.3f} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
