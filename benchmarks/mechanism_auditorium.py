"""`audit mechanism` beside DP-Auditorium's testers at equal samples, on its own mean mechanism, right and wrong.

git clone https://github.com/google/differential-privacy; pip install keras etils absl-py
KERAS_BACKEND=torch python benchmarks/mechanism_auditorium.py differential-privacy/python/dp_auditorium 10000

Both state a lower bound, confidence 95 %, on delta at the claimed epsilon 1 from so many outputs on either data set (10,000 in
its example). Modules are loaded without their packages, which need TensorFlow and Vizier; Keras on torch is in for
`tf.keras`, which is all that the hockey-stick tester uses.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import audit

CONFIDENCE, EPSILON = 0.95, 1.0
DATA, NEIGHBOUR = np.array([1.0, 0.0]), np.array([1.0])
BINS, RANGE = 100, (-10.0, 10.0)
FLAWS = {
    "right": (True, True),
    "mean by the true number": (False, True),
    "noise by the true number": (True, False),
    "both": (False, False),
}


def load(folder: Path) -> None:
    """Let modules of DP-Auditorium be imported without TensorFlow."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras
    from keras.src.utils import module_utils

    assert not module_utils.tensorflow.available, "TensorFlow is installed: load DP-Auditorium as it is"  # remembered by Keras
    sys.path.insert(0, str(folder))
    stand_in: Any = types.ModuleType("tensorflow")
    stand_in.keras = keras
    sys.modules["tensorflow"] = stand_in
    for name in ("dp_auditorium", "dp_auditorium.configs", "dp_auditorium.mechanisms", "dp_auditorium.testers"):
        package: Any = types.ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")))]
        sys.modules[name] = package


def mechanisms() -> Iterator[tuple[str, Any]]:
    """Yield its mean mechanism with each flaw that its configuration can have."""
    from dp_auditorium.configs import mechanism_config
    from dp_auditorium.mechanisms.mean import MeanMechanism

    for name, (mean, scale) in FLAWS.items():
        config = mechanism_config.MeanMechanismConfig(
            epsilon=EPSILON,
            delta=0.0,
            use_noised_counts_for_calculating_mean=mean,
            use_noised_counts_for_calculating_noise_scale=scale,
            max_value=1.0,
            min_value=0.0,
        )
        yield name, MeanMechanism(config, np.random.default_rng(0))


def testers() -> Iterator[tuple[str, Any]]:
    """Yield its testers of approximate differential privacy, with its own settings examples."""
    from dp_auditorium.configs import privacy_property, property_tester_config
    from dp_auditorium.testers import histogram_tester, hockey_stick_tester

    claim = privacy_property.ApproximateDp(epsilon=EPSILON, delta=0.0)
    histogram = property_tester_config.HistogramPropertyTesterConfig(
        test_discrete_mechanism=False, histogram_size=BINS, min_value=RANGE[0], max_value=RANGE[1], approximate_dp=claim
    )
    yield "histogram", histogram_tester.HistogramTester(histogram)
    training = hockey_stick_tester.make_default_hs_training_config()
    hockey = property_tester_config.HockeyStickPropertyTesterConfig(training_config=training, approximate_dp=claim)
    yield (
        "hockey stick",
        hockey_stick_tester.HockeyStickPropertyTester(hockey, hockey_stick_tester.make_default_hs_base_model()),
    )


def theirs(tester: Any, mechanism: Any, samples: int) -> float:
    """Return the larger bound on delta of the two directions, each at half of the error rate."""
    outputs = [np.asarray(mechanism(data, samples), np.float32) for data in (DATA, NEIGHBOUR)]
    flat = [values.ravel() for values in outputs] if type(tester).__name__ == "HistogramTester" else outputs
    level = (1 - CONFIDENCE) / 2
    return max(float(tester.estimate_lower_bound(*pair, level)) for pair in (flat, flat[::-1]))


def ours(mechanism: Any, samples: int) -> tuple[float, float]:
    """Return our bounds on delta at the claimed epsilon, and on epsilon."""

    def function(data: Any, rng: Any, size: int) -> Any:
        return mechanism(data, size)

    report = audit.mechanism(function, epsilon=EPSILON, pairs=[(DATA, NEIGHBOUR)], samples=samples, confidence=CONFIDENCE)
    return report.delta.delta, report.epsilon.epsilon


def main(folder: Path, samples: int) -> None:
    """Print the table of docs/use/mechanisms.md."""
    load(folder)
    kinds = list(testers())
    print(
        "| Mean mechanism | " + " | ".join(f"DP-Auditorium, {name}" for name, _ in kinds) + " | audit mechanism | its epsilon |"
    )
    print("|---|" + "---|" * (len(kinds) + 2))
    for name, mechanism in mechanisms():
        bounds = [max(0.0, theirs(tester, mechanism, samples)) for _, tester in kinds]
        delta, epsilon = ours(mechanism, samples)
        print(f"| {name} | {' | '.join(f'{bound:.4f}' for bound in bounds)} | {delta:.4f} | {epsilon:.2f} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
