"""Outputs of a mechanism as rows of numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError

ABSENT = -math.inf  # stands where an output has fewer parts than the longest of those that were searched
UNKNOWN = -1.0  # stands for a text that no searched output held
WIDEST = 10_000
DEEPEST = 50  # lists in lists that an output may be; what holds itself has no end


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputEncoder:
    """How outputs become rows: fixed by the outputs that are searched, and so a post-processing of all others.

    Attributes:
        width: numbers in a row; what is longer is cut.
        codes: number of each text.
    """

    width: int
    codes: Mapping[str, float]

    @classmethod
    def of(cls, outputs: Sequence[Any] | Array) -> OutputEncoder:
        """Return the encoder of searched outputs.

        Raises:
            DataError: an output that is neither numbers, texts, truth values nor None, nor made of these.
        """
        rows = [] if _is_numeric(outputs) else [list(_leaves(output)) for output in outputs]
        longest = max((len(row) for row in rows), default=1)
        width = max(1, int(np.prod(np.shape(outputs)[1:])) if _is_numeric(outputs) else longest)
        if width > WIDEST:
            raise DataError(f"an output of the mechanism holds {width} numbers; expected at most {WIDEST}")
        texts = sorted({leaf for row in rows for leaf in row if isinstance(leaf, str)})
        return cls(width=width, codes={text: float(code) for code, text in enumerate(texts)})

    def encode(self, outputs: Sequence[Any] | Array) -> Array:
        """Return `(n, width)` float64; NaN represents None."""
        if _is_numeric(outputs):
            matrix = np.asarray(outputs, np.float64).reshape(len(outputs), -1)
        else:
            matrix = np.full((len(outputs), self.width), ABSENT)
            for row, output in zip(matrix, outputs, strict=True):
                leaves = [self._number(leaf) for leaf in _leaves(output)][: self.width]
                row[: len(leaves)] = leaves
        if matrix.shape[1] < self.width:
            matrix = np.pad(matrix, ((0, 0), (0, self.width - matrix.shape[1])), constant_values=ABSENT)
        return matrix[:, : self.width] + 0.0  # -0.0 and 0.0 are one value

    def _number(self, leaf: Any) -> float:
        if isinstance(leaf, str):
            return self.codes.get(leaf, UNKNOWN)
        try:
            return float(leaf)
        except OverflowError:  # of a whole number beyond all doubles
            return math.inf if leaf > 0 else -math.inf


def _is_numeric(outputs: Sequence[Any] | Array) -> bool:
    return isinstance(outputs, np.ndarray) and outputs.dtype.kind in "fiub"


def collect(outputs: Sequence[Any]) -> Sequence[Any] | Array:
    """Return outputs of single calls as one array where all are numbers of one shape and none is masked, else as they are."""
    if any(_holds_mask(output) for output in outputs):
        return outputs
    try:
        array = np.asarray(outputs)
    except ValueError:  # of different shapes
        return outputs
    return array if array.dtype.kind in "fiub" else outputs


def without_mask(outputs: Any) -> Any:
    """Return a masked array of numbers with NaN at its masked places, as for None, and any other output as it is."""
    if not isinstance(outputs, np.ma.MaskedArray):
        return outputs
    if outputs.dtype.kind not in "fiub":
        return outputs.tolist()
    return np.where(np.ma.getmaskarray(outputs), math.nan, outputs.data.astype(np.float64))


def _holds_mask(output: Any, depth: int = 0) -> bool:
    """Return whether a masked array is in an output; deeper than is read, nothing is."""
    if isinstance(output, list | tuple) and depth <= DEEPEST:
        return any(_holds_mask(part, depth + 1) for part in output)
    return isinstance(output, np.ma.MaskedArray)


def _leaves(output: Any, depth: int = 0) -> Iterable[Any]:
    """Numbers and texts of an output, from left to right."""
    if depth > DEEPEST:
        raise DataError(f"the mechanism returned lists in lists, more than {DEEPEST} deep; return from it what is released")
    match output:
        case None:
            yield math.nan
        case str():
            yield output
        case bytes():
            yield output.hex()
        case bool() | int() | float():
            yield output
        case _:
            for part in _parts(output):
                yield from _leaves(part, depth + 1)


def _parts(output: Any) -> Iterable[Any]:
    """The parts of an output that is neither a number nor a text, in an order that follows from them."""
    match output:
        case complex():
            return (output.real, output.imag)
        case np.generic():
            item = output.item()
            return (float(item) if isinstance(item, np.generic) else item,)  # a long double gives itself
        case Mapping():
            # the order of the keys is part of what is released; the parts stand by key, so that columns keep their meaning
            order = ", ".join(map(str, output))
            return [order, *(part for key in sorted(output, key=str) for part in (str(key), output[key]))]
        case Set():
            return sorted(output, key=str)
        case list() | tuple():
            return output
    array = output.detach().cpu() if hasattr(output, "detach") else output  # a tensor
    if hasattr(array, "__array__"):
        # a masked array gives None at its masked places
        return (array.tolist() if isinstance(array, np.ma.MaskedArray) else np.asarray(array).tolist(),)
    raise DataError(
        f"the mechanism returned a {type(output).__name__}; expected numbers, texts, None, or lists, dictionaries and arrays "
        "of these: return from it what is released"
    )
