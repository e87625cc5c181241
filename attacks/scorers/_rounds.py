"""Attacks of parties of a federation, each reading its own view of every round."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from attacks.signals import _canary_reading as canary_reading
from attacks.signals._rounds import (
    CountProducts,
    DigitProducts,
    ModelProducts,
    RoundLengths,
    RoundLossDrops,
    SumProducts,
    UpdateLossDrops,
    UpdateProducts,
)
from audit.core import checks
from audit.core.data import Array
from audit.core.event_reading import noisy_steps, unit
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import normal


# The score of canary clients and examples from their inner products with what one party sees in each round.
def score(target: View, attack: str, key: str) -> Array:
    """Return the log-likelihood ratio of the sampled Gaussian mechanism added over rounds `(m,)`; the plain sum without noise.

    If every client takes part in every round the ratio is a rising line in the plain sum, which is taken then, and where
    canaries are examples, of which no law is known.

    References:
        Neyman, Pearson 1933 (most powerful tests). Andrew et al. 2023, arXiv 2302.03098 (canary clients). Li et al. 2022,
        arXiv 2202.10209 (cosines of examples).
    """
    products = canary_reading.products(target, attack, key)
    claimed = noisy_steps(target.mechanism)
    examples = target.mechanism is not None and unit(target.mechanism) == "example"
    if examples or claimed is None or claimed.noise_multiplier == 0 or claimed.sample_rate == 1:
        return np.asarray(products.sum(axis=1))
    ratios = normal.log_likelihood_ratio_subsampled_gaussian(products, claimed.noise_multiplier, claimed.sample_rate)
    return np.asarray(ratios.sum(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundScorer:
    """An attack on one signal of rounds."""

    attack: ClassVar[str]
    signal: ClassVar[type[Any]]

    @property
    def needs(self) -> Needs:
        return Needs(signals={self.signal()})


class ProductScorer(RoundScorer):
    """An attack on inner products with canary clients and examples."""

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        return score(target, self.attack, self.signal.key)


VIEWS: Mapping[str, type[Any]] = {
    "models": ModelProducts,
    "sums": SumProducts,
    "updates": UpdateProducts,
    "counts": CountProducts,
    "digits": DigitProducts,
    "lengths": RoundLengths,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewScorer:
    """An attack on the single rounds of one party.

    Attributes:
        view: what the party gets: the "models", the "sums", each of the "updates", the lowest "digits" of the models, or,
            with one canary client in each federation, the "lengths" of the sums behind the models and the "counts" behind a
            clip norm that moves.
    """

    attack: ClassVar[str]

    view: str = "models"

    def __post_init__(self) -> None:
        checks.choice(self.view, f"{self.attack}.view", tuple(VIEWS))

    @property
    def needs(self) -> Needs:
        return Needs(signals={VIEWS[self.view]()})

    def products(self, target: View) -> Array:
        """Return inner products with each canary in each round, `(m, rounds)` float64."""
        return canary_reading.products(target, self.attack, VIEWS[self.view].key)


class LossDropScorer(RoundScorer):
    """An attack on falls of the loss of canary examples."""

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        return np.asarray(canary_reading.products(target, self.attack, self.signal.key).sum(axis=1))


class SumProduct(ProductScorer):
    """Scores canary clients and examples for a party that learns the sum of each round and nothing else (secure aggregation).

    It knows the data of all honest clients, as the definition of differential privacy grants, so their sum is subtracted.
    """

    attack = "sum_product"
    signal = SumProducts


class ModelProduct(ProductScorer):
    """Scores canary clients and examples for whoever receives the global model after each round.

    If the server takes plain or momentum steps, the noisy sums follow from the models. After Adam's they do so only in exact
    arithmetic, so what is proven then is about who sees the sums. The honest clients' sum is subtracted, as for `SumProduct`.
    """

    attack = "model_product"
    signal = ModelProducts


class UpdateProduct(ProductScorer):
    """Scores canary clients and examples for a party that receives each update alone, and so knows who took part."""

    attack = "update_product"
    signal = UpdateProducts


class RoundLossDrop(LossDropScorer):
    """Scores examples inside clients, for who sees the model after each round: their loss before a round minus that after it.

    References: Nasr, Shokri, Houmansadr 2019, arXiv 1812.00910, section 4 (passive attackers of federated learning).
    """

    attack = "round_loss_drop"
    signal = RoundLossDrops


class UpdateLossDrop(LossDropScorer):
    """Scores examples inside clients, for who sees each update alone: their loss before a round minus that after it.

    References: Nasr, Shokri, Houmansadr 2019, arXiv 1812.00910, section 4 (passive attackers of federated learning).
    """

    attack = "update_loss_drop"
    signal = UpdateLossDrops


_SMALLEST = 1e-12  # a round without any noise is at distance 0, whose logarithm is no score


class RoundExactness(ViewScorer):
    """Scores canary clients by minus the logarithm of the least distance to 1 of their inner products, over rounds.

    A client that takes part adds 1 to the product, so one round without noise gives it away, although the sum over all
    rounds, which has the noise of the others, looks as it should. So does noise that is a multiple of something coarse.
    """

    attack = "round_exactness"

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        return np.asarray(-np.log(np.abs(self.products(target) - 1).min(axis=1) + _SMALLEST))


class RoundSpread(ViewScorer):
    """Scores canary clients by the variance of their inner products over rounds.

    A client takes part in some rounds only, so its part comes and goes. Fresh noise in each round drowns that; noise that is
    the same in every round cancels from the differences and hides nothing, although every single round looks as it should.
    """

    attack = "round_spread"

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        return np.asarray(self.products(target).var(axis=1))


class RoundExtreme(ViewScorer):
    """Scores canary clients by their largest inner product over rounds.

    Noise of the right variance that ends somewhere (uniform, cut off) hides nothing beyond its end.
    """

    attack = "round_extreme"

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        return np.asarray(self.products(target).max(axis=1))


class RoundTotal(ViewScorer):
    """Scores canary clients by the plain sum of what is seen of them over rounds.

    With view "lengths" it asks whether anything enters for an update, in whatever direction: of one that is not finite,
    say. With view "digits" it looks for the sum behind the digits that noise covers.
    """

    attack = "round_total"

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        return np.asarray(self.products(target).sum(axis=1))
