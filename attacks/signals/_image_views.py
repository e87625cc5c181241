"""Several views of one image, by which an adversary asks about a record more than once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from audit.core.data import Array
from audit.core.errors import ConfigError

_SHIFTS = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))  # (down, right) in pixels
MOST_VIEWS = 2 * len(_SHIFTS)


def require_count(count: int, attack: str) -> None:
    """Raise `ConfigError` if there are no `count` views."""
    if not 1 <= count <= MOST_VIEWS:
        raise ConfigError(f"{attack}.augmentations is {count}; expected 1 (the record alone) to {MOST_VIEWS}")


def make_views(inputs: Array, count: int) -> Iterator[Array]:
    """The first `count` views of images `(m, channels, height, width)`: themselves, mirrored, then both moved by one pixel.

    Zeros come in where a view was moved from.

    Raises:
        ConfigError: the records are no images, or there are fewer views.

    References:
        Carlini et al. 2022, arXiv 2112.03570, section VI-B (queries of mirrored and shifted images).

    >>> [view[0, 0].tolist() for view in make_views(np.arange(1.0, 5.0).reshape(1, 1, 2, 2), 3)]
    [[[1.0, 2.0], [3.0, 4.0]], [[2.0, 1.0], [4.0, 3.0]], [[0.0, 1.0], [0.0, 3.0]]]
    """
    require_count(count, "an attack")
    if inputs.ndim != 4:
        raise ConfigError(
            f"augmented queries are mirrored and shifted images and the records have shape {inputs.shape[1:]}, expected "
            "(channels, height, width); set augmentations: 1"
        )
    for number in range(count):
        (down, right), mirror = _SHIFTS[number // 2], number % 2
        yield _shift(inputs[..., ::-1] if mirror else inputs, down, right)


def _shift(images: Array, down: int, right: int) -> Array:
    if not down and not right:
        return images
    output = np.zeros_like(images)
    height, width = images.shape[2:]
    rows, columns = slice(max(down, 0), height + min(down, 0)), slice(max(right, 0), width + min(right, 0))
    came_rows, came_columns = slice(max(-down, 0), height + min(-down, 0)), slice(max(-right, 0), width + min(-right, 0))
    output[:, :, rows, columns] = images[:, :, came_rows, came_columns]
    return output
