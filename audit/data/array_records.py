"""Records and labels in numpy's files: what their axes, types and tasks mean."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.data.source import (
    NO_SCALING,
    PIXELS,
    WHOLE_NUMBERS,
    Part,
    Scaling,
    Source,
    class_labels,
    several_labels,
    target_values,
)

_EXACT = 2**24  # up to which float32 holds every whole number


def image_axes(inputs: Array, location: str) -> Array:
    """Records `(n, ...)` as given, images with an axis of channels first, or `DataError` if they are no numbers."""
    if inputs.ndim < 2 or inputs.dtype.kind not in "biuf":
        raise DataError(f"{location} has shape {inputs.shape} and type {inputs.dtype}; expected numbers, (n, ...)")
    if len(inputs) == 0:
        raise DataError(f"{location} holds no record; expected at least one")
    if inputs.dtype == np.uint8 and inputs.ndim == 3:
        inputs = inputs[:, None]
    if inputs.ndim == 4 and inputs.shape[1] not in (1, 2, 3, 4) and inputs.shape[3] in (1, 3, 4):
        shape = inputs.shape
        raise DataError(f"{location} has shape {shape}, channels last; expected (n, C, H, W): x.transpose(0, 3, 1, 2)")
    return inputs


def find_scaling(inputs: Array, location: str, *, whole_numbers: bool) -> Scaling:
    """The scaling: pixels in [-1, 1], others as they are; `DataError` if whole numbers are asked for and these are others."""
    if whole_numbers:
        if inputs.dtype.kind not in "iub":
            raise DataError(f"{location} has type {inputs.dtype}; data.whole_numbers asks for integers")
        return WHOLE_NUMBERS
    return PIXELS if inputs.dtype == np.uint8 and inputs.ndim == 4 else NO_SCALING


def side_by_side(pieces: Mapping[str, Array], place: object) -> Array:
    """Several arrays `(n, ...)` of numbers as one `(n, numbers)`, whole numbers if all are, else float64; or `DataError`."""
    counts = {len(piece) if piece.ndim else 0 for piece in pieces.values()}
    kinds = {name: piece.dtype.kind for name, piece in pieces.items()}
    if len(counts) != 1 or not set(kinds.values()) <= set("biuf"):
        forms = ", ".join(f"{name} {piece.dtype} {piece.shape}" for name, piece in pieces.items())
        raise DataError(f"{place} holds {forms}; expected numbers, (n, ...), and as many records in each")
    flat = {name: piece.reshape(len(piece), -1) for name, piece in pieces.items()}
    if "f" not in kinds.values():
        return np.concatenate([piece.astype(np.int64) for piece in flat.values()], axis=1)
    for name, piece in flat.items():
        if piece.dtype.kind != "f":
            refuse_large(piece, f"{place}: {name}")
    return np.concatenate([piece.astype(np.float64) for piece in flat.values()], axis=1)


def refuse_large(piece: Array, location: str) -> None:
    """Raise `DataError` if whole numbers are beyond what float32 holds of them."""
    if piece.size and max(abs(int(piece.min())), abs(int(piece.max()))) > _EXACT:
        raise DataError(f"{location} holds whole numbers beyond 2^24, which float32 cannot hold beside real numbers")


# by task, what makes labels of an array, given the number of classes and the words for it in messages
LABELS: Mapping[str, Callable[[Array, int | None, str], Array]] = {
    "classification": class_labels,
    "regression": lambda labels, _, location: target_values(labels, location),
    "multi_label": lambda labels, _, location: several_labels(labels, location),
}


def make_source(
    origin: str, names: Sequence[str], sha256: str, parts: Sequence[Part], scalings: Sequence[Scaling], *, classes: int | None
) -> Source:
    """The source of one part, or of a part and a test part; `DataError` if their records differ in shape or scale.

    `origin` says the kind and the files; `classes` of None takes the largest label plus one, 0 is for tasks without.
    """
    if len({(part.inputs.shape[1:], scaling is PIXELS) for part, scaling in zip(parts, scalings, strict=True)}) > 1:
        shapes = " and ".join(f"{part.inputs.dtype} {part.inputs.shape[1:]}" for part in parts)
        raise DataError(f"{' and '.join(names)} hold records of {shapes}; expected the same in both")
    scale = "pixels scaled to [-1, 1] by public constants" if scalings[0] is PIXELS else "values as given"
    return Source(
        origin=f"{origin}; {scale}",
        sha256=sha256,
        classes=1 + max(int(part.labels.max()) for part in parts) if classes is None else classes,
        main=parts[0],
        test=parts[1] if len(parts) == 2 else None,
        scaling=scalings[0],
    )
