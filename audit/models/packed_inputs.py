"""Models whose forward takes several tensors, fed with records that hold them side by side in one array."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from audit import plugins
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.record_arrays import RecordArray

WAYS = ("keywords", "dictionary")
_KEYS = ("shape", "whole_numbers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One of the tensors that a model takes."""

    name: str  # of the argument, or the key in the dictionary
    shape: tuple[int, ...]  # for one record
    whole: bool = False  # it is handed over as int64

    @property
    def size(self) -> int:
        """Return how many numbers of a record it takes."""
        return math.prod(self.shape)


class PackedInputs(nn.Module):
    """A model of several tensors as one of a single tensor `(n, numbers)`, which is cut in the order of `fields`.

    Its parameters keep their names behind "module."; with `dictionary` it takes one of them, not arguments by name.
    """

    def __init__(self, module: nn.Module, fields: tuple[Field, ...], *, dictionary: bool) -> None:
        super().__init__()
        self.module, self.fields, self.dictionary = module, fields, dictionary

    def forward(self, inputs: Tensor) -> Tensor:
        parts, start = {}, 0
        for field in self.fields:
            part = inputs[:, start : start + field.size].reshape(len(inputs), *field.shape)
            parts[field.name] = _whole(field.name, part) if field.whole else part
            start += field.size
        outputs: Tensor = self.module(parts) if self.dictionary else self.module(**parts)
        return outputs


def _whole(name: str, part: Tensor) -> Tensor:
    """Real numbers as int64; `DataError` for a fraction, or a launch that fails on a device, that no step may wait for."""
    if part.is_floating_point() and not torch._C._functorch.is_batchedtensor(part):  # `vmap` lets no number decide anything
        if part.device.type != "cpu":
            torch._assert_async((part == part.trunc()).all(), f"input '{name}' of a model holds fractions")
        elif not torch.equal(part, part.trunc()):
            raise DataError(_fraction(name, part[part != part.trunc()][0].item()))
    return part.long()


def _fraction(name: str, value: Any) -> str:
    return (
        f"model.inputs.{name} takes whole numbers, but a record or canary holds {value:g} there; round them in the data, or "
        "leave out whole_numbers"
    )


def refuse_fractions(model: Mapping[str, Any], inputs: Array) -> None:
    """Raise `DataError` if a model takes whole numbers in a place in which records `(n, numbers)` hold others."""
    fields = model.get("inputs")
    if not isinstance(fields, Mapping) or inputs.dtype.kind != "f":
        return
    start = 0
    for field in (_field(str(name), value) for name, value in fields.items()):
        stop = start + field.size
        for part in (inputs.parts() if isinstance(inputs, RecordArray) else [inputs]) if field.whole else ():
            values = np.asarray(part)[:, start:stop]
            bad = values != np.trunc(values)
            if bad.any():
                raise DataError(_fraction(field.name, values[bad][0]))
        start = stop


def feed(module: nn.Module, spec: Mapping[str, Any], input_shape: tuple[int, ...]) -> nn.Module:
    """`module` itself, or fed with what `spec["inputs"]` names, for records of `input_shape`.

    `ConfigError` if that is no mapping of names to shapes, or names more or fewer numbers than a record has.
    """
    if "inputs" not in spec:
        if "pass_inputs" in spec:
            raise ConfigError("model.pass_inputs says how several inputs are handed over; name them in model.inputs")
        return module
    options = spec["inputs"]
    if not isinstance(options, Mapping) or not options:
        raise ConfigError(
            f"model.inputs is {options!r}; expected a mapping of names to shapes, such as {{ids: [16], mask: [16]}}"
        )
    fields = tuple(_field(str(name), value) for name, value in options.items())
    total, numbers = sum(field.size for field in fields), math.prod(input_shape)
    if len(input_shape) != 1 or total != numbers:
        sizes = " + ".join(f"{field.size} of '{field.name}'" for field in fields)
        raise ConfigError(
            f"model.inputs takes {sizes} = {total} numbers of each record, but records have shape {input_shape}; expected as "
            "many, side by side along one axis (data: {kind: npz, arrays: [...]} puts arrays so)"
        )
    way = plugins.pick(str(spec.get("pass_inputs", "keywords")), {name: name for name in WAYS}, "model.pass_inputs")
    return PackedInputs(module, fields, dictionary=way == "dictionary")


def refuse_order(model: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if `model.inputs` and `data.arrays` hold the same names in different orders.

    Records are cut by order and size alone, so each input would be handed numbers of another.
    """
    inputs, arrays = model.get("inputs"), data.get("arrays")
    if not isinstance(inputs, Mapping) or not isinstance(arrays, list | tuple):
        return
    names, columns = [str(name) for name in inputs], [str(name) for name in arrays]
    if names != columns and sorted(names) == sorted(columns):
        raise ConfigError(
            f"model.inputs names {', '.join(names)}, but data.arrays puts {', '.join(columns)} side by side; give both in one "
            "order"
        )


def _field(name: str, value: Any) -> Field:
    options = value if isinstance(value, Mapping) else {"shape": value}
    plugins.refuse_unknown(options, _KEYS, f"model.inputs.{name}")
    shape, full = options.get("shape"), options.get("whole_numbers", False)
    sizes: list[Any] = list(shape) if isinstance(shape, list | tuple) else [shape]
    if not all(isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in sizes):
        raise ConfigError(
            f"model.inputs.{name}: shape is {shape!r}; expected a list of numbers of at least 1, [] for one number"
        )
    if not isinstance(full, bool):
        raise ConfigError(f"model.inputs.{name}: whole_numbers is {full!r}; expected true or false")
    return Field(name=name, shape=tuple(sizes), whole=full)
