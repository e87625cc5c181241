"""Gradient matching: records are moved until their gradients are those that were seen. Many targets at once, each alone.

References:
    Zhu, Liu and Han 2019, arXiv 1906.08935 (deep leakage from gradients); Geiping et al. 2020, arXiv 2003.14053 (inverting
    gradients).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from audit.core import checks
from audit.core.errors import ConfigError, ObservationError

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSteps:
    """What a client does before it sends its update: steps of SGD on its records, as in federated averaging.

    One step on all records is a gradient. The adversary knows the plan, which the server sets, and simulates it.

    Attributes:
        batch: records of a step, one part of the client's records after the other; if None, all of them.

    References:
        McMahan et al. 2017, arXiv 1602.05629; Dimitrov et al. 2022, arXiv 2206.12395 (leakage from federated averaging).
    """

    learning_rate: float = 1.0
    steps: int = 1
    batch: int | None = None

    def __post_init__(self) -> None:
        checks.positive(self.learning_rate, "learning_rate")
        if self.steps < 1 or (self.batch is not None and self.batch < 1):
            raise ConfigError(f"steps is {self.steps} and batch {self.batch}; expected at least 1 each")

    def rows(self, step: int, records: int) -> slice:
        """The records of a step.

        >>> LocalSteps(steps=3, batch=2).rows(2, 4)
        slice(0, 2, None)
        """
        if self.batch is None or self.batch >= records:
            return slice(0, records)
        first = self.batch * (step % -(-records // self.batch))
        return slice(first, min(first + self.batch, records))


GRADIENT = LocalSteps()


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """Gradients or updates of N targets with what the adversary knows of them.

    Attributes:
        gradients: `(N, parameters)`, flattened in the order of `weights`: of the mean loss over a target's records, clipped and
            noisy if they were released so. Of several local steps, first weights less last over learning rate and steps.
        labels: `(N, b)` of the b records of each target; the adversary knows them, or inferred them.
        low, high: range of a record's values, which is public.
        centre, deviation: of public records' values, one number or one for each channel `(channels, 1, 1)`; if None, the
            middle of the range, and the range.
    """

    model: nn.Module
    weights: Parameters
    gradients: Tensor
    labels: Tensor
    shape: tuple[int, ...]
    low: float = 0.0
    high: float = 1.0
    local: LocalSteps = GRADIENT
    centre: Tensor | None = None
    deviation: Tensor | None = None

    def __post_init__(self) -> None:
        if (self.centre is None) != (self.deviation is None):
            raise ConfigError("of the centre and deviation of public records one is given; give both or neither")
        if self.deviation is not None and not (self.deviation > 0).all():
            raise ConfigError("a deviation of public records is not above 0, so records could not move in units of it")
        size = sum(weight.numel() for weight in self.weights.values())
        if self.gradients.ndim != 2 or self.gradients.shape[1] != size:
            raise ConfigError(f"gradients of shape {tuple(self.gradients.shape)} for {size} parameters; expected one row each")
        if self.labels.ndim != 2 or len(self.labels) != len(self.gradients):
            raise ConfigError(f"labels of shape {tuple(self.labels.shape)}; expected (targets, records of each)")
        if not torch.isfinite(self.gradients).all():
            raise ObservationError("a released gradient is not finite, so there is nothing to match")

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


def flat_gradient(model: nn.Module, weights: Parameters, records: Tensor, labels: Tensor) -> Tensor:
    """Gradient `(parameters,)` of the mean cross-entropy of records `(b, ...)`, differentiable in the records."""

    def loss(own: Parameters) -> Tensor:
        return nn.functional.cross_entropy(functional_call(model, dict(own), (records,)), labels)

    return torch.cat([part.reshape(-1) for part in grad(loss)(dict(weights)).values()])


def flat_update(model: nn.Module, weights: Parameters, records: Tensor, labels: Tensor, local: LocalSteps) -> Tensor:
    """Mean gradient `(parameters,)` along a client's local steps, differentiable in the records `(b, ...)`."""
    state, total = dict(weights), torch.zeros(())
    for step in range(local.steps):
        rows = local.rows(step, len(labels))
        slope = flat_gradient(model, state, records[rows], labels[rows])
        total = total + slope
        if step + 1 < local.steps:  # no gradient is taken at the weights after the last step
            pieces = slope.split([weight.numel() for weight in weights.values()])
            state = {
                name: weight - local.learning_rate * piece.view_as(weight)
                for (name, weight), piece in zip(state.items(), pieces, strict=True)
            }
    return total / local.steps


def model_gradients(
    model: nn.Module, weights: Parameters, records: Tensor, labels: Tensor, local: LocalSteps = GRADIENT
) -> Tensor:
    """Gradients, or updates over learning rate and steps, `(N, parameters)` of targets `(N, b, ...)` with labels `(N, b)`."""
    return vmap(lambda x, y: flat_update(model, weights, x, y, local))(records, labels).detach()


def clip_and_noise(gradients: Tensor, clip_norm: float, noise: float, generator: torch.Generator) -> Tensor:
    """Gradients clipped to l2 norm `clip_norm`, with normal noise of standard deviation `noise` on each coordinate."""
    checks.positive(clip_norm, "clip_norm")
    checks.nonnegative(noise, "noise")
    norms = gradients.norm(dim=1, keepdim=True)
    # a gradient of 0 divides to infinity, which the clamp makes 1
    clipped_gradients = gradients * torch.clamp(clip_norm / norms, max=1.0)
    return clipped_gradients + noise * torch.randn(clipped_gradients.shape, generator=generator)


def total_variation(records: Tensor) -> Tensor:
    """Mean absolute difference between neighbouring pixels of each target `(N, b, channels, rows, columns)`, `(N,)`."""
    down = (records[..., 1:, :] - records[..., :-1, :]).abs().flatten(1).mean(dim=1)
    across = (records[..., :, 1:] - records[..., :, :-1]).abs().flatten(1).mean(dim=1)
    return down + across


@dataclass(frozen=True, slots=True, kw_only=True)
class InvertingGradients:
    """Cosine distance of gradients with a penalty on total variation that decays over the run, by plain Adam.

    A fixed small penalty leaves single targets stuck, a fixed large one blurs all of them; one that decays does neither.
    Records begin at the centre of public ones, if it is known, and move in units of their deviation, else of the range. The
    records with the least distance of gradients and penalty, at its last weight, are kept; the truth is never looked at.

    Attributes:
        learning_rate: of Adam at the start; falls to 0 along half a cosine.
        variation: weight of the total variation at the start, and `variation_end` at the end, geometrically in between.
        signed: Adam is given the signs of the pixels' gradients (Geiping et al. 2020), which ReLU and pooling leave uneven.

    References: Geiping, Bauermeister, Droege, Moeller 2020, arXiv 2003.14053.
    """

    iterations: int = 1000
    learning_rate: float = 0.1
    variation: float = 0.05
    variation_end: float = 5e-5
    signed: bool = False

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ConfigError(f"iterations is {self.iterations}; expected at least 1")
        checks.positive(self.learning_rate, "learning_rate")
        checks.positive(self.variation, "variation")
        checks.positive(self.variation_end, "variation_end")

    def reconstruct(self, released: Released, generator: torch.Generator) -> Tensor:
        """Records `(N, b, ...)` in the range of `released`."""
        targets, batch = released.labels.shape
        start = torch.randn((targets, batch, *released.shape), generator=generator)
        if released.centre is None or released.deviation is None:
            centre, unit, start = torch.tensor(released.middle), torch.tensor(released.high - released.low), start / 10
        else:
            centre, unit = released.centre, released.deviation
        place = start.clone().requires_grad_(True)
        optimiser = torch.optim.Adam([place], lr=self.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.iterations)
        best, least = start * unit + centre, torch.full((targets,), math.inf)
        distance = cosine_distance(released)
        for step in range(self.iterations):
            records = place * unit + centre
            distances = distance(records)
            penalty = total_variation(place) if len(released.shape) == 3 else torch.zeros(targets)
            with torch.no_grad():
                # before the step, since the distances are those of the records as they are now
                values = distances + self.variation_end * penalty
                better = values < least
                best[better], least[better] = records[better], values[better]
            weight = self.variation * (self.variation_end / self.variation) ** (step / self.iterations)
            optimiser.zero_grad()
            # targets share nothing, so one sum gives each its own gradient
            (distances + weight * penalty).sum().backward()  # type: ignore[no-untyped-call]
            if self.signed and place.grad is not None:
                place.grad.sign_()
            optimiser.step()
            schedule.step()
            with torch.no_grad():
                place.copy_(((place * unit + centre).clamp(released.low, released.high) - centre) / unit)
        return best


def cosine_distance(released: Released) -> Callable[[Tensor], Tensor]:
    """One minus the cosine of the gradients of records `(N, b, ...)` with those released, `(N,)`."""
    # a gradient of 0 has no direction: its cosine is 0
    directions = released.gradients / released.gradients.norm(dim=1, keepdim=True).clamp_min(1e-30)

    def distance(records: Tensor) -> Tensor:
        own = vmap(lambda x, y: flat_update(released.model, released.weights, x, y, released.local))(records, released.labels)
        cosine: Tensor = (own * directions).sum(dim=1) / own.norm(dim=1).clamp_min(1e-30)
        return 1 - cosine

    return distance


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepLeakage:
    """Squared distance of gradients by L-BFGS, one target after the other: for smooth activations and small images."""

    iterations: int = 300

    def reconstruct(self, released: Released, generator: torch.Generator) -> Tensor:
        """Records `(N, b, ...)`; values outside of the range are cut off at the end."""
        # one after the other, since L-BFGS has one step length for all its variables
        rows = [self._one_target(released, index, generator) for index in range(len(released.labels))]
        return torch.stack(rows).clamp(released.low, released.high)

    def _one_target(self, released: Released, index: int, generator: torch.Generator) -> Tensor:
        labels, gradients = released.labels[index], released.gradients[index]
        scale = gradients.square().sum().clamp_min(1e-30)  # so that tolerances mean the same for all models
        start = torch.randn((len(labels), *released.shape), generator=generator) * (released.high - released.low) / 10
        records = (start + released.middle).requires_grad_(True)
        optimiser = torch.optim.LBFGS(
            [records], max_iter=self.iterations, tolerance_grad=1e-12, tolerance_change=1e-14, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            optimiser.zero_grad()
            own = flat_update(released.model, released.weights, records, labels, released.local)
            loss = (own - gradients).square().sum() / scale
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        optimiser.step(closure)  # type: ignore[no-untyped-call]
        return records.detach()
