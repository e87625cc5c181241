"""Canary clients whose updates lie in single tensors of a model, or weigh as much in each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _cosines
from audit.core.data import Array, Canaries, Dataset
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleTensor:
    """Clients whose whole update lies in one tensor of the model: in one of its coordinates, or spread over others of them.

    Tensors take turns until each is full; half of a tensor's canaries have a coordinate each, the others are signed cosines over
    what these leave. All are orthogonal. Noise that a tensor lacks, that is coarse, bounded, or the same in a whole tensor hides
    none of those in it, while it hides directions that are dense in the whole model.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """Return `make_in_tensors` of a model that is one tensor."""
        return self.make_in_tensors(dataset, count, (parameters,), seed)

    def make_in_tensors(self, dataset: Dataset, count: int, tensors: tuple[int, ...], seed: Seed) -> Canaries:
        """Return `count` directions `(count, parameters)` of unit l2 norm.

        Args:
            dataset: unused, updates are made up.
            count: of the canaries.
            tensors: coordinates of each tensor, in the order of the flat parameters.
            seed: of coordinates and signs.

        Raises:
            ConfigError: more canaries than parameters, or directions that would not fit 4 GiB.
        """
        parameters = sum(tensors)
        _cosines.check_size(count, parameters, parameters, "single_tensor")
        directions = np.zeros((count, parameters))
        starts = np.cumsum((0, *tensors[:-1]))
        for tensor, numbers in enumerate(_take_turns(count, tensors)):
            own = seed.child("tensor", tensor)
            places = starts[tensor] + own.numpy().permutation(tensors[tensor])
            alone, together = numbers[0::2], numbers[1::2]
            directions[alone, places[: len(alone)]] = 1
            for row, number in enumerate(together):
                directions[number, places[len(alone) :]] = _basis(row, tensors[tensor] - len(alone), own.integer())
        return Canaries(
            kind="single_tensor",
            description="canary clients whose update lies in one tensor, in one of its coordinates or spread over others",
            directions=directions,
            orthogonal=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EveryTensor:
    """Clients whose update has the same norm in each tensor of the model, however few its coordinates are.

    A training that clips each tensor apart lets them through `sqrt(tensors)` times, and a direction that is dense in the whole
    model, whose norm lies in the largest tensor, hardly more than once. They are orthogonal within each tensor, so there are at
    most as many as the smallest has coordinates.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """Return `make_in_tensors` of a model that is one tensor."""
        return self.make_in_tensors(dataset, count, (parameters,), seed)

    def make_in_tensors(self, dataset: Dataset, count: int, tensors: tuple[int, ...], seed: Seed) -> Canaries:
        """Return `count` directions `(count, parameters)` of unit l2 norm; arguments as of `SingleTensor`.

        Raises:
            ConfigError: more canaries than the smallest tensor has coordinates.
        """
        _cosines.check_size(count, min(tensors), sum(tensors), "every_tensor")
        keys = [seed.child("tensor", tensor).integer() for tensor in range(len(tensors))]
        rows = [
            np.concatenate([_basis(number, size, key) for size, key in zip(tensors, keys, strict=True)])
            for number in range(count)
        ]
        return Canaries(
            kind="every_tensor",
            description="canary clients whose update has the same norm in each tensor of the model",
            directions=np.stack(rows) / np.sqrt(len(tensors)),
            orthogonal=True,
        )


def _take_turns(count: int, sizes: tuple[int, ...]) -> list[Array]:
    """Return the numbers below `count` that each of several tensors gets, one after the other, until it is full."""
    rounds = np.concatenate([np.arange(size) for size in sizes])
    owners = np.repeat(np.arange(len(sizes)), sizes)
    dealt = owners[np.argsort(rounds, kind="stable")[:count]]
    return [np.flatnonzero(dealt == tensor) for tensor in range(len(sizes))]


def _basis(row: int, size: int, key: int) -> Array:
    """Return one of `size` orthonormal vectors `(size,)`: those of `_cosines.direction`, before them the constant one."""
    if row == 0:
        return _cosines.signs(size, key) / np.sqrt(size)
    return _cosines.direction(row - 1, size, key)
