"""Reference attack: how many models without the record are less confident than the target."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _reading as reading
from attacks.signals.confidences import Confidences
from attacks.signals.logits import Logits
from attacks.signals.losses import Losses
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import membership


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackR:
    """Scores each canary with the smoothed log odds of its rank among models without it.

    The per-record null distribution is estimated from the references without the canary and smoothed by
    a normal kernel: with `n` of them the plain rank takes only `n + 1` values and ties nearly all canaries.
    Finite; averaged over queries.

    References:
        Ye et al. 2022, arXiv 2111.09679, attack R.
    """

    @property
    def needs(self) -> Needs:
        """Outputs of the final model and two references."""
        return Needs(signals={Logits()}, instead={Losses()}, reductions={Confidences()}, references=2)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Smoothed log odds of the rank, `(m,)` float64."""
        included = reading.memberships(reference, 2, "attack_r", online=False)
        target_values, reference_values = reading.mean_confidences(target, reference, "attack_r")
        return membership.smoothed_rank(target_values, reference_values, included)


PLUGIN = AttackR
