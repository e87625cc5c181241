"""The standard toolkit for accuracy under privacy: how gradients are clipped, augmentation, averaged weights."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.engine.gradients.adaptive_clipping import Quantile
from audit.engine.random.counter_streams import WORDS, CounterStreams
from audit.engine.trial.own_augmentation import load_augmentation

CLIPPINGS = ("flat", "per_layer", "adaptive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Technique:
    """Choices that change what is learnt but not what is guaranteed; the trainers' keys of the same names say more.

    Attributes:
        clipping: "flat" clips an example's whole gradient to the clip norm C; "per_layer" clips each of its L layers
            to `C / sqrt(L)`. Either way one example moves the sum by at most C, so the mechanism is the same. "adaptive" lets C
            follow a quantile of the norms; the noise on the sum grows so much that the sum and the count of clipped
            examples together are the release that is accounted.
        copies: of each sampled example; their mean gradient is clipped once, so the mechanism is the same.
        encoder: first column of the matrix C of DP-FTRL: noise is correlated by its inverse, batches come in cycles; () adds
            independent noise to Poisson batches.
        averaging: decay of the moving average of the weights that is released: a function of what DP-SGD has released already.

    References:
        McMahan et al. 2018, arXiv 1710.06963 (per-layer clipping); De et al. 2022, arXiv 2204.13650 (augmentation
        multiplicity, averaged weights).
    """

    clipping: str = "flat"
    copies: int = 1
    flip: bool = False  # mirror each copy left to right with probability 1/2
    shift: int = 0  # move each copy by up to so many pixels in each direction, zeros coming in
    averaging: float = 0.0
    encoder: tuple[float, ...] = ()
    augmentation: str | None = None
    quantile: Quantile = field(default_factory=Quantile)  # how "adaptive" does so

    def __post_init__(self) -> None:
        checks.choice(self.clipping, "clipping", CLIPPINGS)
        if self.copies < 1 or self.shift < 0:
            raise ConfigError(f"copies is {self.copies} and shift {self.shift}; expected at least 1 and 0")
        if not 0 <= self.averaging < 1:
            raise ConfigError(f"averaging is {self.averaging}; expected a decay in [0, 1)")

    @property
    def augments(self) -> bool:
        return self.flip or self.shift > 0 or self.augmentation is not None


class Augmentation:
    """Random views of records of some shape, each model from its own stream, a fresh one every step.

    Flips and shifts are drawn on the device `counters`, the same for a view however a batch is cut into passes; None draws
    from generators on the host, which a function of the user's own always does. `ConfigError` for those of records that are no
    images.
    """

    def __init__(
        self, technique: Technique, seeds: tuple[Seed, ...], shape: tuple[int, ...], counters: torch.device | None = None
    ) -> None:
        if (technique.flip or technique.shift) and len(shape) != 3:
            raise ConfigError(f"flip and shift need images (channels, height, width); the records have shape {shape}")
        self._technique = technique
        self._own = None if technique.augmentation is None else load_augmentation(technique.augmentation)
        self._seeds = seeds
        self._generators: list[torch.Generator] = []
        self._counters: CounterStreams | None = None
        if counters is not None and (technique.flip or technique.shift):
            self._counters = CounterStreams([seed.child("augment") for seed in seeds], counters)
        self._step, self._first = 0, 0

    def start_step(self, step: int) -> None:
        """Begins the streams of one step, so that how many passes it takes leaves later steps alone."""
        self._step, self._first = step, 0
        if self._own is not None or (self._technique.augments and self._counters is None):
            self._generators = [torch.Generator() for _ in self._seeds]
            for generator, seed in zip(self._generators, self._seeds, strict=True):
                generator.manual_seed(seed.child("augment", step).integer())

    def views(self, inputs: Tensor) -> Tensor:
        """`(N * rows * copies, ...)` from `(N * rows, ...)`; copies of one record are neighbours."""
        technique = self._technique
        copies = inputs.repeat_interleave(technique.copies, dim=0) if technique.copies > 1 else inputs
        if not technique.augments:
            return copies
        images_per_model = len(copies) // len(self._seeds)
        if self._own is not None:
            parts = zip(copies.split(images_per_model), self._generators, strict=True)
            copies = torch.cat([self._own.views(part, generator) for part, generator in parts])
        if not (technique.flip or technique.shift):
            return copies
        # three an image whatever is asked for, so that a flip does not change with the shift
        draws = self._uniforms(images_per_model, copies.device)
        if technique.flip:
            copies = torch.where((draws[:, 0] < 0.5).view(-1, 1, 1, 1), copies.flip(-1), copies)
        return self._shift(copies, draws) if technique.shift else copies

    def _uniforms(self, images: int, device: torch.device) -> Tensor:
        """`(N * images, 3)` uniform numbers of the next pass."""
        if self._counters is None:
            return torch.cat([torch.rand(images, 3, generator=generator) for generator in self._generators]).to(device)
        steps = torch.full((1,), self._step, device=device)
        # a counter gives four words at a time, of which three are used
        numbers = self._counters.uniforms(steps, WORDS * self._first, WORDS * images).view(-1, WORDS)[:, :3]
        self._first += images
        return numbers

    def _shift(self, images: Tensor, draws: Tensor) -> Tensor:
        reach = self._technique.shift
        height, width = images.shape[2:]
        padded_images = torch.nn.functional.pad(images, (reach, reach, reach, reach))
        # clamped, since a product with a number just below 1 may round up to the end of the range
        down, right = (draws[:, column].mul(2 * reach + 1).long().clamp(max=2 * reach) for column in (1, 2))
        rows = (down.unsqueeze(1) + torch.arange(height, device=images.device)).unsqueeze(2)
        cols = (right.unsqueeze(1) + torch.arange(width, device=images.device)).unsqueeze(1)
        image = torch.arange(len(images), device=images.device).view(-1, 1, 1)
        return padded_images.permute(0, 2, 3, 1)[image, rows, cols].permute(0, 3, 1, 2).contiguous()


class AveragedWeights:
    """Moving average of the flat weights, warmed up so that the first steps do not linger.

    After `t` steps the decay is the smaller of `averaging` and `(1 + t) / (10 + t)`.
    """

    def __init__(self, decay: float, flat: Tensor) -> None:
        self._decay = decay
        self._steps = 0
        self.average = flat.clone()

    def step(self, flat: Tensor) -> None:
        self._steps += 1
        decay = min(self._decay, (1 + self._steps) / (10 + self._steps))
        self.average.lerp_(flat, 1.0 - decay)
