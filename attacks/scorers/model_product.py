"""Who gets every released model: how much of the canary is in the steps between them."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.scorers import _round_products
from attacks.signals.model_products import ModelProducts
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelProduct:
    """Scores canary clients and examples for whoever receives the global model after each round.

    If the server takes plain or momentum steps, the noisy sums follow from the models. After Adam's they do so only in exact
    arithmetic, so what is proven then is about who sees the sums. The honest clients' sum is subtracted, as the definition of
    differential privacy grants.
    """

    @property
    def needs(self) -> Needs:
        """All released models, and canary clients or examples."""
        return Needs(signals={ModelProducts()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Log-likelihood ratio, or sum of products, of each canary, `(m,)` float64."""
        return _round_products.score(target, "model_product", ModelProducts.key)


PLUGIN = ModelProduct
