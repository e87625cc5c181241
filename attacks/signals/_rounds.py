"""What parties of a federation see of canary clients and examples in each round."""

from typing import ClassVar

from attacks.signals import _canary_reading as canary_reading
from attacks.signals._sizes import OnePerStep
from audit.core.canaries import Canaries
from audit.core.data import Array
from audit.core.models import OpenModels


class RoundProducts(OnePerStep):
    """Inner products of what a party sees in each round with the direction of each canary.

    Attributes:
        view: of what this party sees; all of it, by the party's name, if empty.
    """

    source: ClassVar[str] = "models"
    view: ClassVar[str] = ""

    def read(self, models: OpenModels, canaries: Canaries) -> Array:
        """`(N, m, rounds)`."""
        return canary_reading.sum_groups(models.round_products(self.view or self.source), canaries)


class LossDrops(OnePerStep):
    """How far the loss of each canary example falls in each round."""

    source: ClassVar[str]

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m, rounds)`; None for canary clients, which have no loss."""
        return None if canaries.are_gradients else canary_reading.sum_groups(models.round_loss_drops(self.source), canaries)


class SumProducts(RoundProducts):
    """Inner product of what the summing party gets in each round, less the honest clients' known sum, with the canary's
    direction, over the clip norm. Of a canary example: the cosine with its gradient.
    """

    key = "sum_products"
    source = "sums"


class ModelProducts(RoundProducts):
    """Inner product of the noisy sum behind each released model, less the honest clients' known sum, with the canary's
    direction, over the clip norm. Of a canary example: the cosine with its gradient.
    """

    key = "model_products"
    source = "models"


class UpdateProducts(RoundProducts):
    """Inner product of what arrives from a canary's slot in each round with its direction, over the clip norm; 0 in rounds
    that it does not take part in. Of a canary example: the cosine with its gradient.
    """

    key = "update_products"
    source = "updates"


class RoundLossDrops(LossDrops):
    """The loss under the model that clients were sent, minus that after the round's new model; 0 in rounds without one."""

    key = "round_loss_drops"
    source = "models"


class UpdateLossDrops(LossDrops):
    """The loss under the model that clients were sent, minus that after its client's update; 0 in rounds without one."""

    key = "update_loss_drops"
    source = "updates"


class CountProducts(RoundProducts):
    """What the steps of an adaptive clip norm say of the one canary client of a federation in each round: 1 if it takes part,
    plus the noise on the count of updates that are not clipped.
    """

    key = "count_products"
    view = "counts"


class DigitProducts(RoundProducts):
    """Inner product of the lowest digits of each released model with the canary's direction: of those beyond the decimal or
    binary place at which they look least like noise. A server may hide there what its noise covers elsewhere.
    """

    key = "digit_products"
    view = "digits"


class RoundLengths(RoundProducts):
    """The squared length of the noisy sum behind each released model, less the honest clients' known sum, over the clip norm
    squared, with the one canary client of each federation: whatever direction its update is turned to. The part along the
    known sum counts sqrt(d) times, so that an update which is taken for that sum shows.
    """

    key = "round_lengths"
    view = "lengths"
