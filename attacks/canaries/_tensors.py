"""Canary clients with updates in one coordinate or one tensor of a model, or of equal norm in each tensor."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attacks.canaries import _cosines
from audit.core.canaries import Canaries, DirectionGradients
from audit.core.data import Array, Dataset
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleCoordinate:
    """Clients with an update of a single coordinate; tensors take turns until each is full.

    Noise that a tensor lacks, that is coarse or bounded hides none of them, while it hides directions that are dense in the
    whole model. Unlike those of `dirac_gradient` they pass through the clip, and no tensor is left out because it is small.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """Return `make_in_tensors` of a model that is one tensor."""
        return self.make_in_tensors(dataset, count, (parameters,), seed)

    def make_in_tensors(self, dataset: Dataset, count: int, tensors: tuple[int, ...], seed: Seed) -> Canaries:
        """Return `count` directions `(count, parameters)` of unit l2 norm; `ConfigError` if there are more canaries than
        parameters, or directions would not fit 4 GiB.

        Args:
            tensors: coordinates of each tensor, in the order of the flat parameters.
        """
        directions = _cosines.no_directions(count, sum(tensors), sum(tensors), "single_coordinate")
        for tensor, (numbers, place) in enumerate(_take_turns(count, tensors)):
            places = seed.child("tensor", tensor).numpy().permutation(tensors[tensor])
            directions[numbers, place.start + places[: len(numbers)]] = 1
        return Canaries(
            kind="single_coordinate",
            description="canary clients whose whole update is one coordinate, of each tensor in turn",
            payload=DirectionGradients(directions=directions, orthogonal=True),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleTensor:
    """Clients with an update in a single tensor, a cosine over its coordinates in random order; tensors take turns.

    Without random signs, so that all but the last of a tensor are orthogonal to noise that is the same in the whole tensor.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        return self.make_in_tensors(dataset, count, (parameters,), seed)

    def make_in_tensors(self, dataset: Dataset, count: int, tensors: tuple[int, ...], seed: Seed) -> Canaries:
        """Return `count` directions `(count, parameters)` of unit l2 norm; arguments and errors as of `SingleCoordinate`."""
        directions = _cosines.no_directions(count, sum(tensors), sum(tensors), "single_tensor")
        for tensor, (numbers, place) in enumerate(_take_turns(count, tensors)):
            size = tensors[tensor]
            places = place.start + seed.child("tensor", tensor).numpy().permutation(size)
            for row, number in enumerate(numbers, start=1):
                directions[number, places] = _cosines.cosine(row % size, size)  # the constant row comes last
        return Canaries(
            kind="single_tensor",
            description="canary clients whose update lies in one tensor of the model, a cosine over its coordinates",
            payload=DirectionGradients(directions=directions, orthogonal=True),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EveryTensor:
    """Clients whose update has the same norm in each tensor of the model, however few its coordinates are.

    A training that clips each tensor apart lets them through `sqrt(tensors)` times, a dense direction over the whole model
    hardly more than once. Orthogonal within each tensor, so at most as many as the smallest has coordinates.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        return self.make_in_tensors(dataset, count, (parameters,), seed)

    def make_in_tensors(self, dataset: Dataset, count: int, tensors: tuple[int, ...], seed: Seed) -> Canaries:
        """Return `count` directions `(count, parameters)` of unit l2 norm; arguments as of `SingleTensor`. Raises
        `ConfigError` if there are more canaries than the smallest tensor has coordinates.
        """
        directions = _cosines.no_directions(count, min(tensors), sum(tensors), "every_tensor")
        signs = _cosines.signs(sum(tensors), seed.child("signs").integer())
        for number in range(count):
            # from row 0 on: the smallest tensor may have to give all of its rows, the constant one included
            directions[number] = signs * np.concatenate([_cosines.cosine(number, size) for size in tensors])
        return Canaries(
            kind="every_tensor",
            description="canary clients whose update has the same norm in each tensor of the model",
            payload=DirectionGradients(directions=directions / np.sqrt(len(tensors)), orthogonal=True),
        )


def _take_turns(count: int, sizes: tuple[int, ...]) -> Iterator[tuple[Array, slice]]:
    """Yield per tensor the numbers below `count` that it gets, one after the other until it is full, and its offset."""
    # the first coordinate of every tensor, then the second of all that have one; a stable sort keeps the order of tensors
    turns = np.concatenate([np.arange(size) for size in sizes])
    owners = np.repeat(np.arange(len(sizes)), sizes)[np.argsort(turns, kind="stable")[:count]]
    stops = np.cumsum(sizes)
    for tensor, (size, stop) in enumerate(zip(sizes, stops, strict=True)):
        yield np.flatnonzero(owners == tensor), slice(int(stop) - size, int(stop))
