"""A gate for diffprivlib: each promise is one test; what is known to be wrong stands in diffprivlib.json with its reason.

pip install epsilon-audit pytest diffprivlib 'scikit-learn<1.6'
pytest examples/maintainers/test_diffprivlib.py     # two pass, one is an accepted defect
"""

from pathlib import Path

import numpy as np
import pytest
from diffprivlib import tools

import audit
from audit.testing import assert_baseline

BASE = np.array([0.2, 0.9, 0.4])
PROMISES = {
    "mean": (tools.mean, {"bounds": (0.0, 1.0)}, 0.0),
    "count_nonzero": (tools.count_nonzero, {}, 0.0),
    "mean of a value that is not a number": (tools.mean, {"bounds": (0.0, 1.0)}, np.nan),
}


@pytest.mark.parametrize("name", PROMISES)
def test_a_tool_keeps_its_epsilon(name: str) -> None:
    tool, options, value = PROMISES[name]
    pair = BASE, np.array([0.2, 0.9, value])

    def query(records: np.ndarray, rng: np.random.Generator) -> float:
        state = np.random.RandomState(rng.integers(2**31))  # what the library takes
        return float(tool(records, epsilon=1.0, random_state=state, **options))

    report = audit.replay(query, [pair], epsilon=1.0, adjacency="replace_one", sampling_seconds=0)
    if report.exit_code == 3:  # noise of unknown law: outputs are sampled
        report = audit.mechanism(query, epsilon=1.0, pairs=[pair], samples=2000)
    assert_baseline(name, report, Path(__file__).with_name("diffprivlib.json"))
