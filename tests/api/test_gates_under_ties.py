"""A gate on a model that answers with labels alone: its outcome is the model's, and no seed's."""

from __future__ import annotations

import numpy as np
import pytest

import audit
from audit.cli import gates
from audit.core.data import Array
from tests.marks import slow

DRAW = np.random.default_rng(1)
INPUTS, LABELS = DRAW.normal(size=(600, 5)).astype(np.float32), DRAW.integers(3, size=600)
WEIGHTS = DRAW.normal(size=(5, 3))
LEARNED = {row.tobytes(): label for row, label in zip(INPUTS[:300:2], LABELS[:300:2], strict=True)}
LIMITS = (0.01, 0.02, 0.025, 0.03, 0.2, 0.25)


def answer(batch: Array) -> Array:
    """One label per record with the same logits for every record; half of the members have their own label."""
    rows = np.asarray(batch, dtype=np.float32)
    guesses = np.argmax(rows @ WEIGHTS, axis=1)
    labels = [LEARNED.get(row.tobytes(), guess) for row, guess in zip(rows, guesses, strict=True)]
    return np.eye(3)[labels] * 10.0


def check_model(seed: int) -> tuple[object, ...]:
    """Rates with their limits, and the outcome of a gate on the largest rate at several limits."""
    sides = (INPUTS[:300], LABELS[:300]), (INPUTS[300:], LABELS[300:])
    report = audit.check(answer, *sides, seed=seed, quiet=True).report
    attacks = [attack for result in report.mechanisms for game in result.games for attack in game.attacks]
    rates = [(attack.scorer, point.tpr, point.lower, point.upper) for attack in attacks for point in attack.tpr_at]
    outcomes = [
        [row.met for row in gates.gated(report, gates.read([f"tpr@{rate}%<={limit}"])).policy]
        for rate in (10, 1)
        for limit in LIMITS
    ]
    return tuple(rates), str(outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", slow([4, 200], [200]))
def test_the_same_model_has_the_same_rates_and_gates_for_every_seed(seeds: int) -> None:
    result = {check_model(seed) for seed in range(seeds)}
    assert len(result) == 1
    ((rates, outcomes),) = result
    assert "True" in outcomes and "False" in outcomes, "limits on both sides of the rate"
    assert all(lower <= rate <= upper for _, rate, lower, upper in rates if rate is not None)  # type: ignore[attr-defined]
