"""Who receives every update: how much of the canary is in what its client sends."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.scorers import _round_products
from attacks.signals.update_products import UpdateProducts
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateProduct:
    """Scores canary clients and examples for a party that receives each update alone, and so knows who took part."""

    @property
    def needs(self) -> Needs:
        """Each update, and canary clients or examples."""
        return Needs(signals={UpdateProducts()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Log-likelihood ratio, or sum of products, of each canary, `(m,)` float64."""
        return _round_products.score(target, "update_product", UpdateProducts.key)


PLUGIN = UpdateProduct
