"""Signals of weights and steps on records and on gradient canaries."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attacks.signals._sizes import OnePerCanary, OnePerStep
from audit.core.canaries import Canaries
from audit.core.data import Array
from audit.core.models import OpenModels
from audit.stats.scoring import signals


class GradientNorms(OnePerCanary):
    """The l2 norm of each record's loss gradient in all parameters."""

    key = "gradient_norms"
    source = "weights"

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m)`; None if canaries are gradients."""
        return None if canaries.records is None else models.gradient_norms(canaries.records)


class Inside(OnePerCanary):
    """What `representations` says of each record under the signal's key."""

    key: ClassVar[str]
    source = "weights"

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m, ...)`; None if canaries are gradients, or if no linear layer gives the outputs."""
        inside = None if canaries.records is None else models.representations(canaries.records)
        return None if inside is None else np.asarray(getattr(inside, self.key))


class HiddenRepresentations(Inside):
    """Inputs of the last linear layer, or their image under one random map to 256 numbers if they are wider."""

    key = "hidden"

    def size(self, classes: int, steps: int) -> int:
        return 256


class ClassDistances(Inside):
    """The distance of each hidden representation to the mean of the other records of the class."""

    key = "class_distances"


class LastGradientNorms(Inside):
    """The l2 norm of each record's loss gradient in the last linear layer, if one gives the outputs."""

    key = "last_gradient_norms"


class StepProducts(OnePerStep):
    """The inner product of each step's noisy residual sum with the canary's unit gradient, divided by the clip norm."""

    key = "step_products"
    source = "steps"

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m, steps)`; None if canaries are records."""
        return models.step_products() if canaries.are_gradients else None


class WeightProducts(OnePerCanary):
    """The inner product of first minus last weights with the canary's unit gradient."""

    key = "weight_products"
    source = "weights"

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m)`; None if canaries are records, or if the first weights were not kept."""
        return models.weight_products(canaries) if canaries.are_gradients else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LossTrajectory:
    """The loss of each record under the model at some steps, the last included."""

    key = "loss_trajectory"
    source = "steps"

    def size(self, classes: int, steps: int) -> int:
        return 8

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m, checkpoints)` float32; None if canaries are gradients, or if no checkpoints were kept."""
        checkpoints = models.checkpoints()
        if canaries.records is None or not checkpoints:
            return None
        inputs, labels = canaries.records.inputs, canaries.records.labels
        losses = [signals.cross_entropy(checkpoint.outputs(inputs), labels) for checkpoint in checkpoints]
        return np.stack(losses, axis=-1).astype(np.float32)
