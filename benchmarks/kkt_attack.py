"""Records from the weights of a small ReLU network alone: what makes training past zero loss come to rest (KKT attack).

A homogeneous network that separates two classes, trained long after that by gradient descent, tends in direction to weights
with `theta = sum_i lambda_i y_i grad f(x_i)`, `lambda_i >= 0` and 0 but for the records nearest to the boundary. The attack
looks for records and multipliers that solve this. It knows the weights, the range of the records and that there are two
classes of about equal size; no record and no label.

References:
    Haim et al. 2022, arXiv 2206.07758 (the attack); Lyu and Li 2020, arXiv 1906.05890 (the stationary point, and steps divided
    by the loss); Frei et al. 2023, arXiv 2210.07082 (nearly orthogonal records: such a network has rank two).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from audit.core import checks
from audit.core.errors import ConfigError, ObservationError


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLayers:
    """`f(x) = outputs . relu(hidden x + biases)`, which is homogeneous in its weights: no bias behind the first layer.

    Attributes:
        hidden: `(units, features)`.
        biases: `(units,)`.
        outputs: `(units,)`.

    Raises:
        ConfigError: shapes that do not fit.
        ObservationError: a weight that is not finite, or all of them 0.
    """

    hidden: Tensor
    biases: Tensor
    outputs: Tensor

    def __post_init__(self) -> None:
        units = len(self.outputs)
        if self.hidden.ndim != 2 or {self.hidden.shape[:1], self.biases.shape, self.outputs.shape} != {(units,)}:
            raise ConfigError(
                f"hidden of shape {tuple(self.hidden.shape)}, biases {tuple(self.biases.shape)} and outputs "
                f"{tuple(self.outputs.shape)}; expected (units, features), (units,) and (units,)"
            )
        if not math.isfinite(self.norm) or self.norm == 0:
            raise ObservationError(f"the weights have norm {self.norm}; expected a finite one above 0")

    @property
    def first(self) -> Tensor:
        """Weights and biases of the hidden layer, `(units, features + 1)`."""
        return torch.cat([self.hidden, self.biases[:, None]], dim=1)

    @property
    def norm(self) -> float:
        """Of all weights together."""
        return math.sqrt(float(self.first.square().sum() + self.outputs.square().sum()))

    def answers(self, records: Tensor) -> Tensor:
        """`f` of records `(n, features)`, `(n,)`."""
        return torch.relu(with_constant(records) @ self.first.T) @ self.outputs


def with_constant(records: Tensor) -> Tensor:
    """Records `(n, features)` with a last feature of 1, which biases multiply."""
    return torch.cat([records, records.new_ones(len(records), 1)], dim=1)


def residual(network: TwoLayers, records: Tensor, multipliers: Tensor, sharpness: float = math.inf) -> Tensor:
    """Squared length of `theta - sum_i m_i grad f(x_i)` as a share of that of theta; differentiable in records and multipliers.

    Args:
        records: `(n, features)`.
        multipliers: `(n,)`, each with the sign of its record's class.
        sharpness: of the sigmoid in place of ReLU's step, in units of a hidden unit's weights; infinite for the step itself.
    """
    inputs, first, outputs = with_constant(records), network.first, network.outputs
    before = inputs @ first.T
    if math.isinf(sharpness):
        step = (before > 0).to(before.dtype)
    else:
        step = torch.sigmoid(sharpness * before / first.norm(dim=1).clamp_min(1e-12))
    own_first = outputs[:, None] * ((multipliers[:, None] * step).T @ inputs)
    own_outputs = multipliers @ (before * step)
    missing = (first - own_first).square().sum() + (outputs - own_outputs).square().sum()
    return missing / network.norm**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What the attack found: records `(m, features)`, their classes `(m,)` of -1 and 1 and the multipliers `(m,)` it gave them.

    `residual` is the share of the weights' squared length that they leave unexplained.
    """

    records: Tensor
    classes: Tensor
    multipliers: Tensor
    residual: float

    def heaviest(self, share: float = 0.05) -> Tensor:
        """The records with a multiplier above a share of the largest; the rest explains next to nothing."""
        return self.records[self.multipliers > share * self.multipliers.max()]


@dataclass(frozen=True, slots=True, kw_only=True)
class StationaryRecords:
    """Adam on the residual over candidates and the logarithms of their multipliers; half of the candidates in each class.

    ReLU's step has no slope to follow, so a sigmoid represents it that grows ten times as sharp over the run.

    Attributes:
        candidates: more than there are records; four times as many serve.
        iterations: of Adam; its learning rates fall to 0 along half a cosine.
        learning_rate: of the records, as a share of half the range.
        multiplier_rate: of the logarithms of the multipliers.
        sharpness: of the sigmoid at the start.
        spread: standard deviation of the start about the middle, as a share of half the range.
    """

    candidates: int
    iterations: int = 2000
    learning_rate: float = 0.01
    multiplier_rate: float = 0.05
    sharpness: float = 20.0
    spread: float = 0.5

    def __post_init__(self) -> None:
        if self.candidates < 2 or self.iterations < 1:
            raise ConfigError(f"{self.candidates} candidates and {self.iterations} iterations; expected at least 2 and 1")
        for name in ("learning_rate", "multiplier_rate", "sharpness", "spread"):
            checks.positive(getattr(self, name), name)

    def reconstruct(self, network: TwoLayers, low: float, high: float, generator: torch.Generator) -> Candidates:
        """Candidates in the range from `low` to `high` of each feature, which is public."""
        if not low < high:
            raise ConfigError(f"the range is from {low} to {high}; expected the first below the second")
        half, kind = (high - low) / 2, network.hidden.dtype
        start = torch.randn((self.candidates, network.hidden.shape[1]), generator=generator, dtype=kind)
        records = (start * self.spread * half + (low + high) / 2).clamp(low, high).requires_grad_(True)
        classes = torch.ones(self.candidates, dtype=kind)
        classes[self.candidates // 2 :] = -1
        logarithms = torch.full((self.candidates,), math.log(25 / self.candidates), dtype=kind).requires_grad_(True)
        optimiser = torch.optim.Adam(
            [
                {"params": [records], "lr": self.learning_rate * half},
                {"params": [logarithms], "lr": self.multiplier_rate},
            ]
        )
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, self.iterations)
        for step in range(self.iterations):
            sharpness = self.sharpness * (1 + 9 * step / self.iterations)
            loss = residual(network, records, logarithms.exp() * classes, sharpness)
            records.grad, logarithms.grad = torch.autograd.grad(loss, [records, logarithms])
            optimiser.step()
            schedule.step()
            with torch.no_grad():
                records.clamp_(low, high)
        places, multipliers = records.detach(), logarithms.detach().exp()
        remainder = float(residual(network, places, multipliers * classes, 10 * self.sharpness))
        return Candidates(records=places, classes=classes, multipliers=multipliers, residual=remainder)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPastZeroLoss:
    """Long gradient descent on the exponential loss, all records in each step: the training that the attack is about.

    Steps are divided by the loss, which changes how fast the same path is walked and not if it leads, and are such that the
    logarithm of the loss falls by about `rate` in each.

    Attributes:
        units: of the hidden layer.
        steps: of gradient descent.
        scale: of the hidden weights at the start, times what keeps the size of signals.
        rate: see above.
    """

    units: int
    steps: int
    scale: float = 0.3
    rate: float = 0.1

    def network(self, records: Tensor, classes: Tensor, generator: torch.Generator) -> TwoLayers:
        """The network at the end.

        Args:
            records: `(n, features)`.
            classes: `(n,)` of -1 and 1.

        Raises:
            ObservationError: if the classes are not separated, so nothing is known of the direction of the weights; or
                the gradient is 0.
        """
        inputs, kind = with_constant(records), records.dtype
        first = torch.randn((self.units, inputs.shape[1]), generator=generator, dtype=kind)
        outputs = torch.randn((self.units,), generator=generator, dtype=kind) * math.sqrt(2 / self.units)
        weights = [first * self.scale * math.sqrt(2 / inputs.shape[1]), outputs]
        for _ in range(self.steps):
            leaves = [weight.detach().requires_grad_(True) for weight in weights]
            margins = classes * (torch.relu(inputs @ leaves[0].T) @ leaves[1])
            slopes = torch.autograd.grad(torch.logsumexp(-margins, 0), leaves)
            square = sum(float(slope.square().sum()) for slope in slopes)
            if not 0 < square < math.inf:
                raise ObservationError(
                    f"the gradient's squared norm is {square}: no hidden unit answers to a record, or weights overflowed; "
                    "take another start"
                )
            length = math.sqrt(sum(float(weight.square().sum()) for weight in weights))
            size = min(self.rate / square, 0.02 * length / math.sqrt(square))
            weights = [weight - size * slope for weight, slope in zip(weights, slopes, strict=True)]
        solution = TwoLayers(hidden=weights[0][:, :-1], biases=weights[0][:, -1], outputs=weights[1])
        if not float((classes * solution.answers(records)).min()) > 0:
            raise ObservationError(
                f"after {self.steps} steps a record is on the wrong side; the attack rests on a loss of about 0"
            )
        return solution
