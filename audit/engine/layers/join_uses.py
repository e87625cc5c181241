"""Uses of a layer at several times of a sequence, as one use."""

import torch
from torch import Tensor

from audit.engine.layers.layers import MatrixLayer, Use


def join_uses(used_signals: list[tuple[Use, Tensor]], rows: int) -> list[tuple[Use, Tensor]]:
    """Return `used_signals` with the uses of a linear layer that is used several times as one, at as many more positions.

    A layer that a module applies at each time of a sequence does what one product over all times does, and norms of its
    gradients need no gradient of each record.
    """
    by_layer: dict[int, list[tuple[Use, Tensor]]] = {}
    for use, signal in used_signals:
        joins = isinstance(use.layer, MatrixLayer) and use.layer.joins_uses
        by_layer.setdefault(id(use.layer) if joins else id(use), []).append((use, signal))
    return [group[0] if len(group) == 1 else _one_use(group, rows) for group in by_layer.values()]


def _one_use(group: list[tuple[Use, Tensor]], rows: int) -> tuple[Use, Tensor]:
    def join(parts: list[Tensor]) -> Tensor:
        split = [part.reshape(len(part), rows, -1, part.shape[-1]) for part in parts]
        return torch.cat(split, 2).flatten(1, 2)

    first = group[0][0]
    inputs, signal = join([use.inputs for use, _ in group]), join([signal for _, signal in group])
    return Use(layer=first.layer, inputs=inputs, edge=first.edge), signal
