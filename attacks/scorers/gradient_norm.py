"""Gradient norm: a record that has been fitted hardly pulls on the weights any more."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _reading as reading
from attacks.signals._white_box import GradientNorms, LastGradientNorms
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.models import Signal
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import membership

_SIGNALS: dict[str, Signal] = {"all": GradientNorms(), "last": LastGradientNorms()}


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientNorm:
    """Scores each canary with minus the log of the l2 norm of its loss gradient. Finite.

    Attributes:
        layer: "all" parameters, or the "last" linear layer alone.
        calibrated: subtract the mean over references without the canary, so that hard records do not pass for others.

    References:
        Nasr et al. 2019, arXiv 1812.00910 (white-box gradients as membership signal).
    """

    layer: str = "all"
    calibrated: bool = False

    def __post_init__(self) -> None:
        if self.layer not in _SIGNALS:
            raise ConfigError(f"gradient_norm.layer is '{self.layer}'; expected {' or '.join(_SIGNALS)}")

    @property
    def needs(self) -> Needs:
        """Final weights; one reference if calibrated."""
        return Needs(signals={_SIGNALS[self.layer]}, references=1 if self.calibrated else 0)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Minus the log norm, or how far it is below that of models without the canary, `(m,)` float64."""
        references = reference if self.calibrated else reading.NO_REFERENCE
        target_values, reference_values = reading.log_lengths(target, references, "gradient_norm", _SIGNALS[self.layer].key)
        if not self.calibrated:
            return -target_values
        included = reading.memberships(reference, 1, "gradient_norm", online=False)
        return membership.difference(-target_values, -reference_values, included, online=False)


PLUGIN = GradientNorm
