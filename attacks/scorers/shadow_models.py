"""Shadow models: what models of your own with and without a group of records answer on records of its kind."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _reading as reading
from attacks.signals._queries import QueryConfidences
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import membership


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowModels:
    """Scores each group by the log-likelihood ratio of the target's mean confidence on its queries.

    One normal law for the shadow models that were trained with the group and one for those without, with a common variance.

    References:
        Ateniese et al. 2015, arXiv 1306.4447; Suri and Evans 2022, arXiv 2109.06024; Carlini et al. 2022, arXiv 2112.03570.
    """

    @property
    def needs(self) -> Needs:
        """Outputs of the final model on queries, and four shadow models."""
        return Needs(signals={QueryConfidences()}, references=4)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Log-likelihood ratio of each group, `(m,)` float64.

        Raises:
            ObservationError: canaries without queries, fewer than four shadow models, or groups that all or none of them have.
        """
        target_values, reference_values = reading.mean_queries(target, reference, "shadow_models", QueryConfidences.key)
        included = reading.memberships(reference, 4, "shadow_models", online=True)
        return membership.likelihood_ratio(target_values, reference_values, included)


PLUGIN = ShadowModels
