"""Rows that a module picks by their values: how many of them each model has is unknown afterwards."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from audit.engine.random.random_operations import OperationScope

# operations that put values in order, and where their axis is among their arguments
_ORDERS: Mapping[Any, int] = {torch.ops.aten.sort: 1, torch.ops.aten.topk: 2}


class RowSelection(OperationScope):
    """A scope that sees operations which pick or sort rows of a batch by values, as experts do that compute their own tokens.

    Layers for several models take as many rows of each. A trial in which all rows were picked, or as many of each model by
    chance, would not show that others are not. `rows` are those of all models, `operations` the names of those seen.
    """

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.operations: set[str] = set()
        self._rows = rows

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if self._picks(func, args, kwargs or {}):
            self.operations.add(func.overloadpacket.__name__)
        return func(*args, **dict(kwargs or {}))

    def _picks(self, func: Any, args: Sequence[Any], options: Mapping[str, Any]) -> bool:
        """True if the size of the result, or its order, follows from values that are along the batch."""
        if func.overloadpacket in _ORDERS:
            place = _ORDERS[func.overloadpacket]
            axis = options.get("dim", args[place] if len(args) > place else -1)
            masks = [args[0]] if axis in (0, -args[0].dim()) else []
        elif func is torch.ops.aten.index.Tensor:
            masks = [index for index in args[1][:1] if index is not None and index.dtype in (torch.bool, torch.uint8)]
        else:
            is_dynamic = torch.Tag.dynamic_output_shape in func.tags
            masks = [value for value in args[:1] if is_dynamic and isinstance(value, Tensor)]
        return any(mask.dim() > 0 and mask.shape[0] > 0 and mask.shape[0] % self._rows == 0 for mask in masks)
