"""Signed cosines: directions that are exactly orthogonal for any number of coordinates, each made from a key and its number."""

import numpy as np

from audit.core.data import Array
from audit.core.errors import ConfigError

_LARGEST = 4 << 30  # bytes of directions held in memory


def directions(count: int, parameters: int, key: int, kind: str) -> Array:
    """Return the first `count` of a family `(count, parameters)`, of unit l2 norm; `ConfigError` if they are not fewer than
    parameters, or directions would not fit 4 GiB.
    """
    rows = no_directions(count, parameters - 1, parameters, kind)
    for number in range(count):
        rows[number] = direction(number, parameters, key)
    return rows


def no_directions(count: int, limit: int, parameters: int, kind: str) -> Array:
    """Return zeros `(count, parameters)`; `ConfigError` if there are not 1 to `limit` of them, or they would not fit 4 GiB."""
    if not 1 <= count <= limit:
        smallest = f", the smallest tensor with {limit}" if limit < parameters - 1 else ""
        raise ConfigError(
            f"{count} canaries of kind '{kind}' for a model with {parameters} parameters{smallest}; expected 1 to {limit}, or "
            "a larger model"
        )
    if 8 * count * parameters > _LARGEST:
        raise ConfigError(
            f"{count} canaries of kind '{kind}' for {parameters} parameters take more than {_LARGEST >> 30} GiB; "
            "use fewer canaries and more runs, or dirac_gradient, which stores one index a canary"
        )
    return np.zeros((count, parameters))


def direction(number: int, parameters: int, key: int) -> Array:
    """Return canary `number` `(parameters,)` float64 of the family that `key` names.

    >>> float(np.round(direction(0, 5, 7) @ direction(3, 5, 7), 12))
    0.0
    """
    return signs(parameters, key) * cosine(number + 1, parameters)


def cosine(row: int, size: int) -> Array:
    """Return one of `size` orthonormal rows `(size,)` of the cosine transform; row 0 is constant."""
    quarter_turns = (2 * np.arange(size) + 1) * row % (4 * size)  # whole numbers: no angle loses digits
    # an integer angle, reduced before it becomes a float, keeps rows orthogonal at millions of coordinates
    cosines: Array = np.cos(np.pi * quarter_turns / (2 * size))
    return np.asarray(np.sqrt((2 if row else 1) / size) * cosines)  # unscaled, the constant row has twice their squares


def signs(parameters: int, key: int) -> Array:
    """Return the sign of each coordinate `(parameters,)`, -1 or 1, in the family that `key` names."""
    # named, not numpy's default: whoever has the key makes the same signs again
    bits: Array = np.random.Generator(np.random.Philox(key=[key % 2**64, key >> 64])).integers(0, 2, parameters)
    return 2 * bits - 1
