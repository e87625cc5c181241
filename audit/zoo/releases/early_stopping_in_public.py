"""A correct twin: the loss that ends the training is one on public data."""

from __future__ import annotations

from audit.zoo.releases.early_stopping import EarlyStopping


class EarlyStoppingInPublic(EarlyStopping):
    """A correct twin: the loss that ends the training is one on public data."""

    wrong = ""
    visibility = "a validation set that is not among the protected records"
    public_target = 0.5

    def exact(self) -> tuple[float, float]:
        """Return a bracket: all steps cost the claim, and the rule adds nothing."""
        return 0.0, self.epsilon


PLUGIN = EarlyStoppingInPublic
