"""Who sums the updates: how much of the canary is in each sum."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.scorers import _round_products
from attacks.signals.sum_products import SumProducts
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View


@dataclass(frozen=True, slots=True, kw_only=True)
class SumProduct:
    """Scores canary clients and examples for a party that learns the sum of each round and nothing else (secure aggregation).

    It knows the data of all honest clients, as the definition of differential privacy grants, so their sum is subtracted.
    """

    @property
    def needs(self) -> Needs:
        """The sums, and canary clients or examples."""
        return Needs(signals={SumProducts()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Log-likelihood ratio, or sum of products, of each canary, `(m,)` float64."""
        return _round_products.score(target, "sum_product", SumProducts.key)


PLUGIN = SumProduct
