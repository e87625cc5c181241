"""Steps with noise that is too small, or missing in places."""

import math
from collections.abc import Mapping

import torch
from torch import Generator, Tensor

from audit.zoo._reference import DpSgdStep, Tensors, weighted_sum


class NoiseNone(DpSgdStep):
    """No noise is added."""

    wrong = "The noise multiplier is never used."
    visibility = "a flag that is not passed on"
    refuted_by = "noise.missing"
    noise_share = 0.0

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        return {name: torch.zeros_like(value) for name, value in params.items()}


class NoiseSquareRoot(DpSgdStep):
    """The variance is set to sigma."""

    wrong = "The standard deviation is the root of what was accounted: variance and deviation confused."
    visibility = "np.random.normal and torch.normal called with a variance"
    refuted_by = "noise.variance"

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        return super().noise(params, count, math.sqrt(noise_multiplier), clip_norm, generator)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        return math.sqrt(noise_multiplier)


class NoiseDividedTwice(DpSgdStep):
    """The noise is divided by the batch size twice."""

    wrong = "Noise is added to the mean with the deviation of noise that is divided again."
    visibility = "noise scaled by 1/B before it is added to a sum"
    refuted_by = "noise.variance"

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        return super().noise(params, count, noise_multiplier / max(1, count), clip_norm, generator)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        return noise_multiplier / divisor


class NoiseWithoutClipNorm(DpSgdStep):
    """The noise is not multiplied by C."""

    wrong = "Noise has standard deviation sigma instead of sigma times C: too little wherever C is above 1."
    visibility = "a missing factor; clip norm changed later"
    refuted_by = "noise.variance"

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        return super().noise(params, count, noise_multiplier, 1.0, generator)

    def effective_noise(self, noise_multiplier: float, clip_norm: float, divisor: float) -> float:
        return noise_multiplier / clip_norm


SHARES = 4  # parties that add noise


class NoiseInShares(DpSgdStep):
    """A correct twin: four parties add a quarter of the variance each."""

    wrong = ""
    visibility = "noise of several devices under secure aggregation"

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        parts = [super(NoiseInShares, self).noise(params, count, noise_multiplier, clip_norm, generator) for _ in range(SHARES)]
        return {name: torch.stack([part[name] for part in parts]).sum(0) / SHARES**0.5 for name in params}


SIZE = 4  # records in an accumulation piece


class NoiseEachPiece(DpSgdStep):
    """Noise is added once per accumulation piece of four records."""

    wrong = (
        "The noise of a batch grows with its number of pieces, and the accounting knows one: more noise than claimed, "
        "utility lost, the batch size released."
    )
    visibility = "gradient accumulation around a private optimiser"
    refuted_by = "noise.variance"

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        pieces = max(1, -(-count // SIZE))
        return super().noise(params, count, noise_multiplier * pieces**0.5, clip_norm, generator)


class NoiseLastPiece(DpSgdStep):
    """Noise is added when a piece of four records is complete, once a batch; a batch that ends in a shorter piece gets none."""

    wrong = "Noise is added when the last accumulation piece is full; a batch of another size is released without noise."
    visibility = '"if (step + 1) % accumulation == 0" around noise and update'
    refuted_by = "noise.missing"
    noise_share = 0.0

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        if count % SIZE:
            return {name: torch.zeros_like(value) for name, value in params.items()}
        return super().noise(params, count, noise_multiplier, clip_norm, generator)


class NoiseMissingLayer(DpSgdStep):
    """The last layer gets no noise."""

    wrong = "One parameter group is left out of the noise."
    visibility = "heads added after the privacy engine was attached"
    refuted_by = "noise.missing"
    noise_share = 0.0

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        noise = super().noise(params, count, noise_multiplier, clip_norm, generator)
        last = list(params)[-1]
        return noise | {last: torch.zeros_like(params[last])}


class NoiseMissingRow(DpSgdStep):
    """One coordinate of a large tensor gets no noise."""

    wrong = "Masks the noise of one coordinate, whose gradient is released; the tensor's variance hardly shows it."
    visibility = "noise masked like a padding row of an embedding that is trained all the same"
    refuted_by = "noise.missing"
    noise_share = 0.0

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        """Return the noise that is added to the sum for a batch of `count` records."""
        noise = super().noise(params, count, noise_multiplier, clip_norm, generator)
        noise["hidden.weight"][0, 0] = 0.0
        return noise


class NoiseBeforeClip(DpSgdStep):
    """The noisy sum is clipped, the gradients are not."""

    wrong = "Noise is added first and the result clipped: the clip bounds nothing that one record does."
    visibility = "clip_grad_norm_ after the noise in a training loop"
    refuted_by = "noise.variance"
    noise_share = 0.0

    def __call__(
        self,
        params: Mapping[str, Tensor],
        batch: tuple[Tensor, Tensor],
        generator: Generator,
        *,
        noise_multiplier: float,
        clip_norm: float,
        divisor: float,
    ) -> Tensors:
        """Return the parameters after one step on `batch`."""
        sums = self.total(dict(params), *batch, clip_norm=1e9)
        noise = self.noise(dict(params), len(batch[1]), noise_multiplier, clip_norm, generator)
        noisy = {name: (sums[name] + noise[name])[None] for name in sums}
        total = weighted_sum(noisy, self.factors(noisy, clip_norm))
        return {name: value - total[name] / divisor for name, value in params.items()}


class NoiseSkipsEmpty(DpSgdStep):
    """An empty batch is skipped, noise and all."""

    wrong = "No noise for an empty batch: that it was empty is released."
    visibility = '"if len(batch) == 0: continue"'
    refuted_by = "noise.missing"
    noise_share = 0.0

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        if count == 0:
            return {name: torch.zeros_like(value) for name, value in params.items()}
        return super().noise(params, count, noise_multiplier, clip_norm, generator)
