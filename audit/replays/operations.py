"""What numpy's functions do to noisy numbers: linear ones keep the noise, comparisons and selections release events."""

from collections.abc import Callable
from typing import Any

import numpy as np

from audit.replays.derived import derive, is_at_the_edge, is_derivable
from audit.replays.noisy import OPERATIONS, NoisyArray, holds_noise, join, lift, merge, release_inside
from audit.replays.recording import EVENT, SELECTION, Array, Recording, Schedule

_LARGEST = 30_000_000  # weights that one operation may make; beyond that the numbers are released
_COMPARISONS = {np.greater: (1, False), np.greater_equal: (1, True), np.less: (-1, False), np.less_equal: (-1, True)}
_REARRANGE = {
    np.reshape, np.ravel, np.transpose, np.roll, np.flip, np.fliplr, np.flipud, np.repeat, np.squeeze, np.expand_dims,
    np.broadcast_to, np.tile, np.take, np.swapaxes, np.moveaxis, np.diagonal, np.delete, np.resize, np.compress, np.copy,
    np.take_along_axis, np.rollaxis, np.rot90,
}  # fmt: skip
_SPLIT = {np.split, np.array_split, np.hsplit, np.vsplit, np.unstack}
_JOIN = {np.concatenate, np.stack, np.hstack, np.vstack, np.column_stack, np.dstack}
_LINEAR = {
    np.cumsum, np.diff, np.dot, np.vdot, np.inner, np.outer, np.matmul, np.einsum, np.tensordot, np.trace, np.convolve, np.kron,
    np.average, np.ediff1d, np.correlate, np.linalg.solve, np.tril, np.triu, np.nancumsum,
    np.diag,
}  # fmt: skip
# kept under names of their own, since some of numpy's names are replaced while a program runs
_SUMS, _MEANS, _CHOICE = (np.sum, np.nansum), (np.mean, np.nanmean), np.where
_PLACES, _LARGEST_OF = (np.argmax, np.argmin), (np.argmax, np.max, np.amax)
_SELECTIONS = (*_PLACES, np.max, np.min, np.amax, np.amin)
_ROUND_FREE = {np.positive, np.conjugate}


def apply_ufunc(recording: Recording, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return `ufunc.method(*inputs, **kwargs)`; see `NoisyArray`."""
    target = kwargs.pop("out", (None,))[0]
    if isinstance(target, NoisyArray) and not holds_noise(inputs):
        inputs = tuple(np.asarray(item) if isinstance(item, list) else item for item in inputs)
    answer = _ufunc(recording, ufunc, method, inputs, kwargs)
    if target is None:
        return answer
    if isinstance(target, NoisyArray):
        target[...] = answer
        return target
    target[...] = release_inside(answer)
    return target


def _ufunc(recording: Recording, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    options = {key: item for key, item in kwargs.items() if key not in ("dtype", "casting", "order", "subok")}
    if method == "reduce" and ufunc is np.add and set(options) <= {"axis", "keepdims"}:
        return _sum(recording, lift(recording, inputs[0]), options.get("axis", 0), bool(options.get("keepdims")))
    if method == "accumulate" and ufunc is np.add:
        return _linear(recording, np.cumsum, inputs, {"axis": options.get("axis", 0)})
    if method == "outer" and ufunc in (np.add, np.subtract, np.multiply):
        first, second = (lift(recording, item) if holds_noise(item) else np.asarray(item) for item in inputs)
        return _ufunc(recording, ufunc, "__call__", (first.reshape(*first.shape, *(1,) * second.ndim), second), {})
    if method == "__call__" and not options:
        answer = _call(recording, ufunc, inputs)
        if answer is not NotImplemented:
            return answer
    if is_derivable(recording, ufunc, method, inputs) and not options:
        return derive(recording, ufunc, inputs)
    return getattr(ufunc, method)(*release_inside(inputs), **kwargs)


def _call(recording: Recording, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:  # noqa: PLR0911 (one arm a kind)
    noisy = [item for item in inputs if holds_noise(item)]
    if ufunc in (np.add, np.subtract):
        return _add(recording, *(lift(recording, item) for item in inputs), sign=1 if ufunc is np.add else -1)
    if ufunc is np.negative:
        return _scale(lift(recording, inputs[0]), -1.0)
    if ufunc in _ROUND_FREE:
        return lift(recording, inputs[0]).copy()
    if ufunc in _COMPARISONS:
        # a < b is a - b < 0: one sum of draws beside a fixed number, whose chance is known
        sign, strict = _COMPARISONS[ufunc]
        first, second = (lift(recording, item) for item in inputs)
        return compare(
            _add(recording, first, second, sign=-1, comparing=True)
            if sign > 0
            else _add(recording, second, first, sign=-1, comparing=True),
            strict,
        )
    if (
        ufunc is np.multiply
        and len(noisy) == 1
        and (factor := _plain(inputs[1] if noisy[0] is inputs[0] else inputs[0])) is not None
    ):
        return _scale(lift(recording, noisy[0]), factor)
    if (
        ufunc in (np.divide, np.true_divide)
        and noisy[0] is inputs[0]
        and len(noisy) == 1
        and (by := _plain(inputs[1])) is not None
    ):
        return _scale(lift(recording, noisy[0]), by, divide=True)
    if ufunc is np.matmul and len(noisy) == 1:
        return _linear(recording, np.matmul, inputs, {})
    if ufunc in (np.equal, np.not_equal) and is_at_the_edge(recording, inputs):
        return np.full(np.broadcast_shapes(*map(np.shape, inputs)), ufunc is np.not_equal)[()]
    return NotImplemented


def _plain(item: Any) -> Array | None:
    array = np.asarray(item)
    return array.astype(np.float64) if array.dtype.kind in "biuf" else None


def _scale(array: NoisyArray, factor: Any, divide: bool = False) -> NoisyArray:
    factor = np.asarray(factor, dtype=np.float64)
    value = array.value / factor if divide else array.value * factor
    if value.shape != array.shape:
        array = array._gather(np.broadcast_to, value.shape)
    wide = np.broadcast_to(factor, value.shape)[..., None]
    weight = np.where(array.weight == 0, 0.0, array.weight / wide if divide else array.weight * wide)
    product = merge(array.recording, value, array.index, weight)
    product.pure = array.pure
    return product


def _add(recording: Recording, first: NoisyArray, second: NoisyArray, *, sign: int, comparing: bool = False) -> Any:
    value = first.value + sign * second.value
    first, second = (
        array if array.shape == value.shape else array._gather(np.broadcast_to, value.shape) for array in (first, second)
    )
    pure, (first_noisy, second_noisy) = first.pure and second.pure, (array.weight.any() for array in (first, second))
    if first_noisy and second_noisy:
        index = np.concatenate([first.index, second.index], axis=-1)
        total = merge(recording, value, index, np.concatenate([first.weight, sign * second.weight], axis=-1))
    elif second_noisy:
        total = NoisyArray(recording, value, second.index, sign * second.weight)
    else:
        total = NoisyArray(recording, value, first.index, first.weight)
    total.pure = pure
    with_data = not (first_noisy and second_noisy)
    if recording.schedule is not Schedule.LATE and with_data and not comparing and not _is_uniform(recording, total):
        output = total.release()
        return output if output.ndim else np.float64(output)
    return total


def _is_uniform(recording: Recording, array: NoisyArray) -> bool:
    sources = array.index[array.weight != 0]
    return bool(sources.size) and any(
        recording.laws[i] in ("uniform", "exponential", "gumbel") for i in np.unique(sources).tolist()
    )


def compare(difference: NoisyArray, or_equal: bool) -> Any:
    """Release whether each difference is above 0, and nothing else of it."""
    rows, noisy = difference.rows, difference.rows.noisy
    answer = rows.value >= 0 if or_equal else rows.value > 0
    if noisy.any():
        parts = rows.take(noisy)
        answer[noisy] = difference.recording.release(EVENT, parts, difference.recording.evaluate(parts) > 0)
    return answer.reshape(difference.shape) if difference.ndim else np.bool_(answer[0])


def _sum(recording: Recording, array: NoisyArray, axis: Any, keepdims: bool) -> NoisyArray:
    axes = tuple(range(array.ndim)) if axis is None else tuple(a % array.ndim for a in np.atleast_1d(axis).tolist())
    outer_axes = [a for a in range(array.ndim) if a not in axes]
    value = array.value.sum(axis=axes, keepdims=keepdims)
    order = [*outer_axes, *axes, array.ndim]
    shape = [array.shape[a] for a in outer_axes]
    index, weight = array.index.transpose(order).reshape(*shape, -1), array.weight.transpose(order).reshape(*shape, -1)
    if not index.shape[-1]:
        index, weight = np.zeros((*shape, 1), dtype=np.int64), np.zeros((*shape, 1))
    total = merge(recording, value.reshape(shape), index, weight)
    return total._gather(np.reshape, value.shape) if keepdims else total


def apply_function(recording: Recording, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: PLR0911 (one arm a kind)
    """Return `function(*args, **kwargs)` of numpy; see `NoisyArray`."""
    if kwargs.get("out") is not None:
        target = kwargs.pop("out")
        target[...] = apply_function(recording, function, args, kwargs)
        return target
    if function in (*_SUMS, *_MEANS) and args and not set(kwargs) - {"axis", "keepdims", "dtype"}:
        array = lift(recording, args[0])
        axis = args[1] if len(args) > 1 else kwargs.get("axis")
        total = _sum(recording, array, axis, bool(kwargs.get("keepdims")))
        return total if function in _SUMS else _scale(total, total.size / array.size)
    # what moves numbers about is asked to move their places, so that each number's draws move with it
    if function in _REARRANGE and isinstance(args[0], NoisyArray):
        return args[0]._gather(function, *args[1:], **kwargs)
    if function in _SPLIT and isinstance(args[0], NoisyArray):
        count = len(function(args[0].value, *args[1:], **kwargs))
        return [args[0]._gather(lambda places, i=i: function(places, *args[1:], **kwargs)[i]) for i in range(count)]
    if function in _JOIN:
        return join([lift(recording, part) for part in args[0]], lambda *parts: function(list(parts), *args[1:], **kwargs))
    if function in (np.append, np.insert):
        return _insert(recording, function, args, kwargs)
    if function is _CHOICE and len(args) == 3:
        # a condition made of noise is itself an answer; which branch it chose has no weights
        condition = release_inside(args[0])
        return join([lift(recording, part) for part in args[1:]], lambda *parts: np.where(condition, *parts))
    if function in (np.atleast_1d, np.atleast_2d, np.atleast_3d) and len(args) == 1:
        return args[0]._gather(function)
    if function in (np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.shape, np.ndim, np.size):
        return function(args[0].value, *release_inside(args[1:]), **kwargs)
    if function in _SELECTIONS and isinstance(args[0], NoisyArray):
        return _select(recording, function, args, kwargs)
    if function in (np.real, np.real_if_close, np.asarray_chkfinite):
        return args[0]
    if function in _LINEAR or getattr(function, "__module__", "").startswith("numpy.fft"):
        return _linear(recording, function, args, kwargs)
    return function(*release_inside(args), **release_inside(kwargs))


def _insert(recording: Recording, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoisyArray:
    array, new = lift(recording, args[0]), lift(recording, args[-1])
    return join([array, new], lambda *parts: function(parts[0], *args[1:-1], parts[1], **kwargs))


def _linear(recording: Recording, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a function of one noisy argument that is linear in it, entry by entry of its draws; else release."""
    places = [i for i, item in enumerate(args) if holds_noise(item)]
    mixes = recording.schedule is Schedule.COINS  # noise that a matrix of data mixes: a random start, a projection
    if mixes or len(places) != 1 or holds_noise(list(kwargs.values())) or (function is np.linalg.solve and places[0] == 0):
        return function(*release_inside(args), **release_inside(kwargs))
    array = lift(recording, args[places[0]])
    sources, inverse = np.unique(np.where(array.weight == 0, -1, array.index), return_inverse=True)
    value = np.asarray(function(*_replace(args, places[0], array.value), **kwargs))
    if value.size * len(sources) > _LARGEST or np.iscomplexobj(value):
        return function(*release_inside(args), **release_inside(kwargs))
    dense = np.zeros((len(sources), *array.shape))
    width = array.weight.shape[-1]
    for j in range(width):
        np.add.at(
            dense.reshape(len(sources), -1),
            (inverse.reshape(array.index.shape)[..., j].ravel(), np.arange(array.size)),
            array.weight[..., j].ravel(),
        )
    parts = [
        np.asarray(function(*_replace(args, places[0], slab), **kwargs))
        for slab, name in zip(dense, sources, strict=True)
        if name >= 0
    ]
    names = [name for name in sources.tolist() if name >= 0]
    if not parts:
        return lift(recording, value)
    weight = np.stack(parts, axis=-1)
    return merge(recording, value, np.broadcast_to(np.array(names), weight.shape), weight)


def _replace(args: tuple[Any, ...], place: int, item: Any) -> tuple[Any, ...]:
    return (*args[:place], item, *args[place + 1 :])


def _select(recording: Recording, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Release which entry is largest (or smallest); the entry itself keeps its noise."""
    array, axis = args[0], args[1] if len(args) > 1 else kwargs.get("axis")
    if set(kwargs) - {"axis", "keepdims"} or kwargs.get("keepdims") or isinstance(axis, tuple):
        return function(*release_inside(args), **kwargs)
    wants_place = function in _PLACES
    table = (
        array.ravel().reshape(1, -1)
        if axis is None or array.ndim == 1
        else np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
    )
    sign = 1.0 if function in _LARGEST_OF else -1.0
    winners = np.array([_largest(_scale(row, sign)) for row in table])
    shape = () if axis is None or array.ndim == 1 else np.moveaxis(array.value, axis, -1).shape[:-1]
    if wants_place:
        return winners.reshape(shape) if shape else np.int64(winners[0])
    entries = join([table], lambda places: places[np.arange(len(winners)), winners])
    return entries.reshape(shape) if shape else entries[0]


def _largest(row: NoisyArray) -> int:
    if not np.any(row.weight):
        return int(np.argmax(row.value))
    return int(row.recording.release(SELECTION, row.rows, int(np.argmax(row.recording.evaluate(row.rows)))))


OPERATIONS.update(ufunc=apply_ufunc, function=apply_function)
