"""Numbers with noise of a known law: value + sum of weight * base draw, kept through linear operations.

A `NoisyArray` is no `numpy.ndarray`, so that code which reads raw memory cannot strip the law off: such code asks
`__array__` and releases by that.
What is linear is kept (`__array_ufunc__`, `__array_function__`), a comparison releases an event, and
anything else
releases the numbers.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from audit.replays.recording import NUMBER, Array, Integers, NoiseRows, Recording

OPERATIONS: dict[str, Callable[..., Any]] = {}  # filled by audit.replays.operations, which imports this module


class NoisyArray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array `value`, and for each entry which base draws it holds (`index`) with which `weight`, on one more axis."""

    __array_priority__ = 1e6
    __slots__ = ("__weakref__", "base", "index", "places", "pure", "recording", "value", "views", "weight")

    def __init__(self, recording: Recording, value: Any, index: Integers, weight: Array, *, pure: bool = False) -> None:
        self.recording, self.value = recording, np.asarray(value, dtype=np.float64)
        self.index, self.weight = index, weight
        self.pure = pure  # nothing has been added to draws and their multiples
        self.base: NoisyArray | None = None  # the array that this is a view of, at these places of it
        self.places: Any = None
        self.views: list[weakref.ref[NoisyArray]] = []

    # what an array has of these names
    shape = property(lambda self: self.value.shape)
    ndim = property(lambda self: self.value.ndim)
    size = property(lambda self: self.value.size)
    dtype = property(lambda self: self.value.dtype)

    @property
    def T(self) -> NoisyArray:
        return self._gather(np.transpose)

    @property
    def flat(self) -> Iterator[Any]:
        """The entries in order."""
        return iter(self.ravel())

    @property
    def real(self) -> NoisyArray:
        return self

    @property
    def rows(self) -> NoiseRows:
        """The entries as rows, `(size,)`."""
        width = self.weight.shape[-1]
        return NoiseRows(value=self.value.ravel(), index=self.index.reshape(-1, width), weight=self.weight.reshape(-1, width))

    @property
    def is_whole_noise(self) -> bool:
        """True for draws of laws on whole numbers and nothing else."""
        laws = {self.recording.laws[i] for i in self.index[self.weight != 0].tolist()}
        is_whole = not (self.weight % 1).any() and not (self.value % 1).any()
        return self.pure and self.size == 1 and is_whole and all(law.startswith("geometric ") for law in laws)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self.value)))

    def __getitem__(self, key: Any) -> Any:
        key = release_inside(key)
        return self._gather(lambda places: places[key])

    def __setitem__(self, key: Any, item: Any) -> None:
        places = np.arange(self.size).reshape(self.shape) if self.base is None else self.places
        base = self if self.base is None else self.base
        targets = places[release_inside(key)]
        joint = join([base, lift(self.recording, item)], lambda own, item: _overwrite(own, targets, item))
        base.value, base.index, base.weight, base.pure = joint.value, joint.index, joint.weight, False
        rows = base.rows
        for view in [view for ref in base.views if (view := ref()) is not None]:
            at = view.places
            view.value, view.index, view.weight, view.pure = rows.value[at], rows.index[at], rows.weight[at], False

    def _gather(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> NoisyArray:
        """Return entries of this array at the places where `function` puts them: a view if that of numpy is one."""
        own = np.arange(self.size).reshape(self.shape)
        places = np.asarray(function(own, *args, **kwargs))
        rows = self.rows
        new = NoisyArray(self.recording, rows.value[places], rows.index[places], rows.weight[places], pure=self.pure)
        if np.may_share_memory(places, own):
            base = self if self.base is None else self.base
            new.base, new.places = base, places.copy() if self.base is None else self.places.ravel()[places]
            base.views = [*(ref for ref in base.views if ref() is not None), weakref.ref(new)]
        return new

    def scalar(self) -> NoisyArray:
        """Return the only entry as a number, which nothing alters in place."""
        return self._gather(np.reshape, ()).__copy__()

    def release(self) -> Array:
        """Return plain numbers and record that they left; entries with cancelled noise are data and stay so."""
        rows, noisy = self.rows, self.rows.noisy
        output = rows.value.copy()
        if noisy.any():
            parts = rows.take(noisy)
            output[noisy] = self.recording.release(NUMBER, parts, self.recording.evaluate(parts))
        return output.reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.release(), dtype=dtype)

    def __float__(self) -> float:
        return float(self.release().reshape(()) if self.size == 1 else self.release())

    def __index__(self) -> int:
        raise TypeError("a noisy number is no index")

    def __bool__(self) -> bool:
        return bool(self != 0) if self.size == 1 else bool(self.release())

    def __repr__(self) -> str:
        return repr(self.release()) if self.ndim else repr(np.float64(float(self)))

    def __str__(self) -> str:
        return str(self.release()) if self.ndim else str(float(self))

    def __reduce__(self) -> Any:
        return self.release().__reduce__() if self.ndim else np.float64(float(self)).__reduce__()

    def __copy__(self) -> NoisyArray:
        return NoisyArray(self.recording, self.value.copy(), self.index, self.weight, pure=self.pure)

    def __deepcopy__(self, memo: Any) -> NoisyArray:
        return self.__copy__()

    def copy(self, order: str = "C") -> NoisyArray:
        return self.__copy__()

    def flatten(self, order: str = "C") -> NoisyArray:
        return self.ravel(order).__copy__()  # type: ignore[no-any-return]

    def astype(self, dtype: Any, **options: Any) -> Any:
        """Return itself for real numbers; integers and the like are released."""
        if np.issubdtype(np.dtype(dtype), np.floating):
            return self if options.get("copy") is False else self.__copy__()
        return self.release().astype(dtype, **options)

    def item(self, *place: int) -> Any:
        """Return one entry, released unless it is noise alone."""
        entry = self[place] if place else self
        return entry.scalar() if entry.pure and entry.size == 1 else float(entry)

    def tolist(self) -> Any:
        """Return the entries as (nested) lists; they keep their noise."""
        return [row.tolist() if row.ndim else row for row in self] if self.ndim else self.scalar()

    def fill(self, item: Any) -> None:
        """Overwrite all entries."""
        self[...] = item

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return OPERATIONS["ufunc"](self.recording, ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return OPERATIONS["function"](self.recording, function, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        """Methods of an array are numpy's functions of the same name; what is none of these is looked up after a release."""
        if name.startswith("__") or name in NoisyArray.__slots__:
            raise AttributeError(name)
        if name in _METHODS:
            function = getattr(np, _METHODS[name])
            return lambda *args, **kwargs: function(self, *_shape_argument(name, args), **kwargs)
        if hasattr(np.ndarray, name):
            return getattr(self.release(), name)
        raise AttributeError(f"'float' object has no attribute '{name}'")


def _by_float(name: str) -> Any:
    return lambda self, *args: getattr(float(self), name)(*args)


for _name in ("__int__", "__trunc__", "__floor__", "__ceil__", "__round__", "__hash__", "__format__", "is_integer"):
    setattr(NoisyArray, _name, _by_float(_name))


def _in_place(ufunc: np.ufunc) -> Any:
    def method(self: NoisyArray, operand: Any) -> Any:  # a number is immutable, other names of it keep what it was
        return ufunc(self, operand) if not self.ndim and self.base is None else ufunc(self, operand, out=(self,))

    return method


_IN_PLACE: dict[str, np.ufunc] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.true_divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "matmul": np.matmul,
}  # fmt: skip
for _name, _ufunc in _IN_PLACE.items():
    setattr(NoisyArray, f"__i{_name}__", _in_place(_ufunc))

_NAMES = """all any argmax argmin argpartition argsort clip compress cumprod cumsum diagonal dot max mean min prod ptp ravel
    repeat reshape round searchsorted squeeze std sum swapaxes take trace transpose var""".split()  # noqa: SIM905
_METHODS = {name: name for name in _NAMES}


def _shape_argument(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return (args,) if name in ("reshape", "transpose") and len(args) > 1 else args


def _overwrite(own: Any, targets: Any, item: Any) -> Any:
    flat = own.ravel().copy()
    flat[targets] = item
    return flat.reshape(own.shape)


def lift(recording: Recording, item: Any) -> NoisyArray:
    """Return a value as an array with noise, of none if it is plain."""
    if isinstance(item, NoisyArray):
        return item
    if isinstance(item, list | tuple) and any(isinstance(part, NoisyArray | list | tuple) for part in item):
        return join([lift(recording, part) for part in item], lambda *parts: np.stack(parts))
    value = np.asarray(item, dtype=np.float64)
    return NoisyArray(recording, value, np.zeros((*value.shape, 1), dtype=np.int64), np.zeros((*value.shape, 1)))


def join(arrays: list[NoisyArray], function: Callable[..., Any]) -> NoisyArray:
    """Return entries of several arrays at the places where `function` puts them."""
    width = max(array.weight.shape[-1] for array in arrays)
    rows = [array.rows for array in arrays]
    offsets = np.cumsum([0] + [array.size for array in arrays])
    numbers = [np.arange(array.size).reshape(array.shape) + at for array, at in zip(arrays, offsets, strict=False)]
    places = np.asarray(function(*numbers))
    value = np.concatenate([row.value for row in rows])
    index = np.concatenate([widen(row.index, width) for row in rows])
    weight = np.concatenate([widen(row.weight, width) for row in rows])
    return NoisyArray(arrays[0].recording, value[places], index[places], weight[places])


def widen(array: Any, width: int) -> Any:
    """Return an array with its last axis filled up with zeros to a width."""
    missing = width - array.shape[-1]
    return array if not missing else np.concatenate([array, np.zeros((*array.shape[:-1], missing), dtype=array.dtype)], axis=-1)


def merge(recording: Recording, value: Any, index: Integers, weight: Array) -> NoisyArray:
    """Return an array in which each entry names a draw at most once, and as few as there are."""
    if index.shape[-1] > 1 and index.size:
        order = np.argsort(np.where(weight == 0, np.iinfo(np.int64).max, index), axis=-1, kind="stable")
        index, weight = np.take_along_axis(index, order, -1), np.take_along_axis(weight, order, -1)
        repeats = (index[..., 1:] == index[..., :-1]) & (weight[..., 1:] != 0)
        if repeats.any():
            group = np.concatenate([np.zeros((*index.shape[:-1], 1), dtype=np.int64), np.cumsum(~repeats, axis=-1)], axis=-1)
            flat = group.reshape(-1, group.shape[-1])
            rows = np.arange(len(flat))[:, None]
            sums, names = np.zeros(flat.shape), np.zeros(flat.shape, dtype=np.int64)
            np.add.at(sums, (rows, flat), weight.reshape(flat.shape))
            names[rows, flat] = index.reshape(flat.shape)
            scale = np.zeros(flat.shape)
            np.maximum.at(scale, (rows, flat), np.abs(weight.reshape(flat.shape)))
            sums[np.abs(sums) <= 4e-16 * scale * flat.shape[-1]] = 0.0  # draws that cancel up to rounding
            index, weight = names.reshape(index.shape), sums.reshape(weight.shape)
        keep = np.flatnonzero(np.any(weight != 0, axis=tuple(range(weight.ndim - 1))))
        last = int(keep[-1]) + 1 if keep.size else 1
        index, weight = index[..., :last], weight[..., :last]
    return NoisyArray(recording, value, index, weight)


def release_inside(item: Any) -> Any:
    """Return a value in which all noisy numbers are released, inside of lists, tuples and dictionaries as well."""
    if isinstance(item, NoisyArray):
        return item.release() if item.ndim else np.float64(item.release())
    if type(item) in (list, tuple):
        return type(item)(release_inside(part) for part in item)
    if type(item) is dict:
        return {key: release_inside(part) for key, part in item.items()}
    return item


def holds_noise(item: Any) -> bool:
    """True if a value is, or a list or tuple holds, a noisy number."""
    return isinstance(item, NoisyArray) or (type(item) in (list, tuple) and any(holds_noise(part) for part in item))
