"""Model inversion: what input a classifier takes for the purest of a class. It shows the class, not a record.

References: Fredrikson, Jha and Ristenpart 2015, CCS (model inversion); Geiping et al. 2020, arXiv 2003.14053 (total variation).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attacks.reconstruction.matching import total_variation
from audit.core import checks
from audit.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInversion:
    """Ascends the log-probability of each class from the middle of the range, with a penalty on total variation.

    What comes out is a function of the class: it resembles the mean of the class's records, members or not, and no claim
    about one record says anything of it. Reports on it say "class-level"; it counts as evidence of nothing else.
    """

    iterations: int = 300
    learning_rate: float = 0.05
    variation: float = 1.0

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise ConfigError(f"iterations is {self.iterations}; expected at least 1")
        checks.positive(self.learning_rate, "learning_rate")
        checks.nonnegative(self.variation, "variation")

    def class_inputs(self, model: nn.Module, shape: tuple[int, ...], low: float = 0.0, high: float = 1.0) -> Tensor:
        """One input `(classes, ...)` for each class, in the range from `low` to `high`; the same for the same model.

        Args:
            model: gives `(n, classes)` outputs; its mode and its gradients are left as they are.
        """
        span = high - low
        with torch.no_grad():
            classes = model(torch.full((1, *shape), (low + high) / 2)).shape[1]
        records = torch.full((classes, *shape), (low + high) / 2, requires_grad=True)
        optimiser = torch.optim.Adam([records], lr=self.learning_rate * span)
        targets = torch.arange(classes)
        for _ in range(self.iterations):
            loss = nn.functional.cross_entropy(model(records), targets, reduction="sum")
            if len(shape) == 3:  # channels, rows, columns: only images have neighbours
                loss = loss + self.variation * total_variation(records[:, None]).sum() / span
            # not backward(): that would add to the gradients of the caller's model
            (slope,) = torch.autograd.grad(loss, records)
            records.grad = slope
            optimiser.step()
            with torch.no_grad():
                records.clamp_(low, high)
        return records.detach()
