"""Gradient norm: a record that has been fitted hardly pulls on the weights any more."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import reading
from audit.core.data import Array, ReferenceView, TargetView
from audit.core.errors import ConfigError
from audit.core.game import Access
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.stats.scoring import membership

_SIGNALS = {"all": "gradient_norms", "last": "last_gradient_norms"}


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
        """Final weights; one reference where calibrated."""
        return Needs(access=Access.FINAL_WEIGHTS, references=1 if self.calibrated else 0)

    def score(self, target: TargetView, reference: ReferenceView, seed: Seed) -> Array:
        """Minus the log norm, or how far it lies below that of models without the canary, `(m,)` float64."""
        known = reference if self.calibrated else reading.NO_REFERENCE
        ours, theirs = reading.log_lengths(target, known, "gradient_norm", _SIGNALS[self.layer])
        if not self.calibrated:
            return -ours
        included = reading.memberships(reference, 1, "gradient_norm", online=False)
        return membership.difference(-ours, -theirs, included, online=False)


PLUGIN = GradientNorm
