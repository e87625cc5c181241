"""An attack of your own on losses is compared on logits as well; equal scores give chance in every figure."""

from __future__ import annotations

import numpy as np
import pytest

import audit
from attacks.signals.logits import Losses
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View


class LowLoss:
    """Minus the loss, and nothing else of the models."""

    needs = Needs(signals={Losses()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        return -np.asarray(target["losses"])


def test_logits_give_the_losses_that_an_attack_asks_for() -> None:
    random = np.random.default_rng(0)
    included, labels = random.random((4, 120)) < 0.5, random.integers(0, 3, 120)
    logits = random.normal(size=(4, 120, 3)) + 2 * included[..., None] * np.eye(3)[labels]
    losses = (
        np.log(np.exp(logits).sum(-1))
        - np.take_along_axis(logits, np.broadcast_to(labels[None, :, None], (4, 120, 1)), 2)[..., 0]
    )
    name = f"{__name__}:LowLoss"
    by_logits = audit.compare_attacks({"included": included, "logits": logits, "labels": labels}, [name], battery=False)
    by_losses = audit.compare_attacks({"included": included, "losses": losses}, [name], battery=False)
    assert not by_logits.not_run
    assert [row.mean for row in by_logits.rows] == pytest.approx([row.mean for row in by_losses.rows])


@pytest.mark.slow
def test_a_model_that_shows_nothing_gives_chance_at_every_rate() -> None:
    coins = audit.draw_coins(1000, 7)
    x, y = np.arange(1000, dtype=np.float32)[:, None], np.arange(1000) % 2
    sides = [(x[mask], y[mask]) for mask in (coins, ~coins)]
    report = audit.check(lambda batch: np.zeros((len(batch), 2)), *sides, quiet=True).report
    for attack in report.mechanisms[0].games[0].attacks:
        assert attack.auc == 0.5
        for point in attack.tpr_at:
            assert point.tpr is None or point.tpr == pytest.approx(point.realised_fpr, abs=0.004)
