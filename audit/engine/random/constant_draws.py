"""Random operations held still: what a module draws, and what it computes apart from that."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from audit.engine.random.random_operations import RandomOperations

# operations that fill a tensor with independent draws, by the number that takes a draw's place
_FILLS: Mapping[str, float] = {
    **dict.fromkeys(("bernoulli", "bernoulli_"), 1.0),
    **dict.fromkeys(("rand", "rand_like", "randn", "randn_like", "normal", "normal_"), 0.5),
    **dict.fromkeys(("uniform", "uniform_", "exponential", "exponential_"), 0.5),
}


class ConstantDraws(RandomOperations):
    """A scope on the CPU in which every draw of a random operation from torch's stream is the same number.

    Dropout then passes everything (scaled alike everywhere), so that what a module computes can be compared between batches
    of other orders and sizes.
    """

    def replacement(self, func: Any, arguments: Mapping[str, Any], result: Any) -> Any:
        name = func.overloadpacket.__name__
        if name == "native_dropout":
            return arguments["input"].clone(), torch.ones_like(result[1])
        return result.fill_(_FILLS[name]) if name in _FILLS and isinstance(result, Tensor) else None
