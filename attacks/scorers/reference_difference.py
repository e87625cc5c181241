"""Reference difference: how much more probable training made a text."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _canary_reading as canary_reading
from attacks.signals.initial_losses import InitialLosses
from attacks.signals.losses import Losses
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceDifference:
    """Scores each text with its loss before training minus its loss after it: the gain in log-probability of a token.

    The model before training is public: the base model of a fine-tuning is a reference that costs nothing.

    References:
        Carlini et al. 2021, arXiv 2012.07805; Mireshghallah et al. 2022, arXiv 2203.03929.
    """

    @property
    def needs(self) -> Needs:
        """Losses under the model and under the one that training began from; no references."""
        return Needs(signals={Losses(), InitialLosses()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Loss before minus loss after, `(m,)` float64."""
        after = canary_reading.text_signal(target, "losses", "reference_difference")
        return canary_reading.text_signal(target, "initial_losses", "reference_difference") - after


PLUGIN = ReferenceDifference
