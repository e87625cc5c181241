"""Steps with noise that is large enough and wrong in its law."""

import torch
from torch import Generator, Tensor

from audit.zoo._reference import DpSgdStep, Tensors


class NoiseClamped(DpSgdStep):
    """Normal noise is clamped at three deviations."""

    wrong = "Bounded noise: an output outside of its range, or at its end, proves a record with certainty."
    visibility = "noise.clamp_(-3 * std, 3 * std) against outliers"
    refuted_by = "noise.law"
    noise_share = 0.0

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        deviation = noise_multiplier * clip_norm
        noise = super().noise(params, count, noise_multiplier, clip_norm, generator)
        return {name: value.clamp(-3 * deviation, 3 * deviation) for name, value in noise.items()}


SEEDS = 1_000  # seeds that the noise of a step may have


class NoiseFewSeeds(DpSgdStep):
    """Each step takes its noise from one of a thousand seeds."""

    wrong = "Noise comes from few seeds: who tries them all knows it, and two releases soon share theirs."
    visibility = "manual_seed(int(time.time()) % 1000), seeds of 16 bits, tables of noise made in advance"
    refuted_by = "noise.repeats"
    noise_share = 0.0

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        seed = int(torch.randint(SEEDS, (1,), generator=generator))
        return super().noise(params, count, noise_multiplier, clip_norm, torch.Generator().manual_seed(seed))


class NoiseFromBatch(DpSgdStep):
    """The noise is seeded from the batch size."""

    wrong = "Equal batches get equal noise: who repeats a query reads the sum."
    visibility = "reproducible seeding by step content"
    refuted_by = "noise.repeats"
    noise_share = 0.0

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        return super().noise(params, count, noise_multiplier, clip_norm, torch.Generator().manual_seed(count))


class NoiseHalfPrecision(DpSgdStep):
    """Noise is drawn in float16."""

    wrong = "The grid of a half-precision format survives in the release: its gaps depend on the sum."
    visibility = "autocast around the optimiser"
    refuted_by = "noise.resolution"
    noise_share = 0.0

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        noise = super().noise(params, count, noise_multiplier, clip_norm, generator)
        return {name: value.half().float() for name, value in noise.items()}


class NoiseMirrored(DpSgdStep):
    """One half of each tensor's noise is the other half with the opposite sign."""

    wrong = "Draws noise for half of each tensor and its negative for the other half: the sum of both halves has none."
    visibility = "antithetic sampling, a variance reduction of simulations, in place of independent noise"
    refuted_by = "noise.repeats"
    noise_share = 0.0

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        noise = super().noise(params, count, noise_multiplier, clip_norm, generator)
        for values in noise.values():
            flat = values.view(-1)
            half = len(flat) // 2
            flat[half : 2 * half] = -flat[:half]
        return noise


class NoiseSameSeed(DpSgdStep):
    """Every step draws the same noise."""

    wrong = "The generator is made anew from one seed in every step: the noise of two steps cancels."
    visibility = "manual_seed in the training step"
    refuted_by = "noise.repeats"
    noise_share = 0.0

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        return super().noise(params, count, noise_multiplier, clip_norm, torch.Generator().manual_seed(0))


class NoiseSameTensor(DpSgdStep):
    """All tensors get the same random numbers."""

    wrong = "The generator is reset before each tensor: known noise in one reveals the other."
    visibility = "a seed per layer that is the same for all"
    refuted_by = "noise.repeats"
    noise_share = 0.0

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        seed = int(torch.randint(2**31, (1,), generator=generator))
        return {
            name: super(NoiseSameTensor, self).noise(
                {name: value}, count, noise_multiplier, clip_norm, torch.Generator().manual_seed(seed)
            )[name]
            for name, value in params.items()
        }


class NoiseTruncated(DpSgdStep):
    """Normal noise cut off at two deviations, rescaled to the right variance."""

    wrong = "Bounded noise: an output outside of its range proves a record with certainty."
    visibility = "torch.nn.init.trunc_normal_ used as a noise source"
    refuted_by = "noise.law"
    noise_share = 0.0

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        deviation = noise_multiplier * clip_norm / 0.8796  # the standard deviation of a normal law cut off at 2
        noise = {}
        for name, value in params.items():
            draw = torch.randn(value.shape, generator=generator)
            while bool((draw.abs() > 2).any()):
                draw = torch.where(draw.abs() > 2, torch.randn(value.shape, generator=generator), draw)
            noise[name] = deviation * draw
        return noise


class NoiseUniform(DpSgdStep):
    """Uniform noise of the right variance."""

    wrong = "Bounded noise: an output outside of its range proves a record with certainty."
    visibility = "torch.rand in place of torch.randn"
    refuted_by = "noise.law"
    noise_share = 0.0

    def noise(self, params: Tensors, count: int, noise_multiplier: float, clip_norm: float, generator: Generator) -> Tensors:
        deviation = noise_multiplier * clip_norm
        return {
            name: deviation * 3**0.5 * (2 * torch.rand(value.shape, generator=generator) - 1) for name, value in params.items()
        }


class NoiseWhereMoved(DpSgdStep):
    """Noise is added only to coordinates that the batch moves."""

    wrong = "Coordinates whose sum is zero get no noise: which features or words a batch holds is released."
    visibility = "sparse gradients of embeddings whose noise is added to the rows of the batch alone"
    refuted_by = "noise.missing"
    noise_share = 0.0

    def noisy(self, total: Tensor, noise: Tensor) -> Tensor:
        """Return the clipped sum, with noise if it is not zero."""
        return total + noise * (total != 0)
