"""Arguments of torch's operations, and the numbers of a tensor in its storage."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from audit.replays.noisy import NoisyArray


def agree(first: Tensor, second: Tensor) -> bool:
    """True if the terms of a draw are equal, for the records that both have."""
    if first.ndim == 0 or second.ndim == 0 or first.shape[1:] != second.shape[1:]:
        return first.shape == second.shape and torch.equal(first, second)
    rows = min(len(first), len(second))
    return torch.equal(first[:rows], second[:rows])


def tensors_in(item: Any) -> Iterator[Tensor]:
    """Yield the tensors in an argument, also those of lists and dictionaries."""
    if isinstance(item, Tensor):
        yield item
    elif isinstance(item, list | tuple):
        for part in item:
            yield from tensors_in(part)
    elif isinstance(item, dict):
        yield from tensors_in(list(item.values()))


def bind_arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operation by their names."""
    return {argument.name: item for argument, item in zip(func._schema.arguments, args, strict=False)} | kwargs


def written_tensors(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """Return the tensors that an operation writes."""
    arguments = bind_arguments(func, args, kwargs)
    places = [a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    return list(tensors_in([arguments[name] for name in places if name in arguments]))


def plain_numbers(item: Tensor) -> Any:
    """Return a tensor's numbers as a separate array, without a release."""
    if item.dtype.is_floating_point:
        return np.array(item.detach().to("cpu", torch.float64).numpy())
    return np.array(item.detach().cpu().numpy())


def covers(item: Tensor, size: int) -> bool:
    """True if a tensor is its whole storage of `size` numbers, in order."""
    return item.is_contiguous() and item.storage_offset() == 0 and item.numel() == size


def storage_places(item: Tensor, size: int) -> Any:
    """Return the places of a tensor's entries in its storage."""
    return torch.as_strided(torch.arange(size), item.size(), item.stride(), item.storage_offset()).numpy()


def entries_in(flat: NoisyArray, item: Tensor) -> NoisyArray:
    """Return the entries of a storage's numbers that are those of a tensor."""
    if covers(item, flat.size):
        return NoisyArray(
            flat.recording,
            flat.value.reshape(item.shape),
            flat.index.reshape(*item.shape, -1),
            flat.weight.reshape(*item.shape, -1),
        )
    places = storage_places(item, flat.size)
    return NoisyArray(flat.recording, flat.value[places], flat.index[places], flat.weight[places])
