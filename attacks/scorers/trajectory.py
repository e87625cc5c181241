"""Trajectory: how a record's loss came down during training, not only where it ended."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals._white_box import LossTrajectory
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import learned_score


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory:
    """Scores each canary with log odds of membership from its confidence at every checkpoint.

    Features: the logit-scaled confidence at each checkpoint, and its means over other models with and without the
    record at that checkpoint. A ridge logistic regression is fitted with every reference once in the target's place;
    the target and its coins take no part. Finite. The published attack distils the target to imitate its
    checkpoints; here the adversary sees them.

    Attributes:
        rows: about how many (reference, canary) pairs to train on at most (whole references; of more records than
            that an evenly spread part of one).

    References:
        Liu et al. 2022, arXiv 2208.14933 (loss trajectory).
    """

    rows: int = 64_000

    @property
    def needs(self) -> Needs:
        """All steps and four references."""
        return Needs(signals={LossTrajectory()}, references=4)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Log odds of membership, `(m,)` float64."""
        included = reading.memberships(reference, 4, "trajectory", online=True)
        target_values, reference_values = reading.trajectories(target, reference, "trajectory")
        return learned_score.signal_log_odds(
            np.swapaxes(target_values, -1, -2), np.swapaxes(reference_values, -1, -2), included, self.rows
        )


PLUGIN = Trajectory
