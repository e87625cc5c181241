"""Weights alone (safetensors, or `torch.save` of a state dict) with the factory of the module they belong to."""

import io
import math
import pickle
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import safetensors
import safetensors.torch
import torch
from torch import nn

from audit.core import files
from audit.core.confined import process
from audit.core.confined.arrays import pack, unpack
from audit.core.confined.worker import Message
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.data.source import DAMAGE, read_bytes
from audit.engine.read.inference import BATCH_SIZE, ModuleTarget
from audit.models import build
from audit.subjects._unpacking import refuse_bomb_in

# Reading of weights (safetensors, or `torch.save` of a state dict) inside the confined process, and what comes out of it.
_JOB = "audit.subjects.state_dict:read_weights"
_SPARE = 2**28  # bytes that may be used in addition to multiples of the file
_MOST_SHARED = 4  # times that a storage may be written out: tied weights share one


def weights_in(content: bytes, name: str, key: str) -> dict[str, torch.Tensor]:
    """The tensors in a file of weights, all or those at `key`, by a confined process; `DataError` if it holds anything else."""
    limit = _MOST_SHARED * len(content) + _SPARE
    reply, body = process.read(_JOB, content, name, memory_bytes=2 * limit + len(content), limit=limit, facts={"key": key})
    raw = unpack(reply.get("arrays"), body, name)
    types = reply.get("types")
    if not isinstance(types, dict) or types.keys() != raw.keys():
        raise process.form_error(name)
    return {key: _tensor(raw[key], types[key], name) for key in raw}


def _tensor(values: Any, description: Any, name: str) -> torch.Tensor:
    text, shape = description if isinstance(description, list) and len(description) == 2 else ("", None)
    dtype = getattr(torch, text, None) if isinstance(text, str) else None
    if not isinstance(dtype, torch.dtype) or not isinstance(shape, list) or values.dtype != "uint8":
        raise process.form_error(name)
    if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) * dtype.itemsize != values.size:
        raise process.form_error(name)
    if values.size == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(values).view(dtype).reshape(shape)


def read_weights(header: Mapping[str, Any], content: bytes) -> tuple[Message, None]:
    """The tensors as bytes, their types and shapes; runs inside the confined process. Errors as of `weights_in`."""
    name, key = header["name"], header["key"]
    weights = _safetensors(content, name) if name.endswith(".safetensors") else _plain_torch(content, name)
    if key:
        if not isinstance(weights, Mapping) or key not in weights:
            raise DataError(f"{name} has no key '{key}'; it holds {_keys(weights)}")
        weights = weights[key]
    has_names = isinstance(weights, Mapping)
    if not has_names or not weights or not all(isinstance(value, torch.Tensor) for value in weights.values()):
        hint = "; name the one with the weights as 'key'" * has_names
        raise DataError(f"{name} is not a state dict: it holds {_keys(weights)}{hint}. Expected names of tensors")
    plain = {str(key): _plain(value, str(key), name) for key, value in weights.items()}
    size = sum(tensor.numel() * tensor.element_size() for tensor in plain.values())
    if size > _MOST_SHARED * len(content) + _SPARE // 2:
        raise DataError(f"{name}: its tensors hold {files.text(size)}, in a file of {files.text(len(content))}; save it again")
    types = {key: [str(tensor.dtype).removeprefix("torch."), list(tensor.shape)] for key, tensor in plain.items()}
    arrays, body = pack({key: tensor.contiguous().reshape(-1).view(torch.uint8).numpy() for key, tensor in plain.items()})
    return ({"arrays": arrays, "types": types}, body), None


def _plain(tensor: torch.Tensor, key: str, name: str) -> torch.Tensor:
    """The tensor itself, or `DataError` if it is not one of dense real numbers in memory."""
    kind = "complex" if tensor.is_complex() else "quantised" if tensor.is_quantized else "nested" if tensor.is_nested else ""
    kind = kind or ("without values (meta)" if tensor.is_meta else "" if tensor.layout == torch.strided else "sparse")
    if kind:
        raise DataError(f"{name}: '{key}' is {kind}; expected dense real numbers. Save the weights of the plain module")
    return tensor.detach()


def _safetensors(content: bytes, name: str) -> dict[str, torch.Tensor]:
    try:
        return dict(safetensors.torch.load(content))
    except (safetensors.SafetensorError, *DAMAGE) as error:
        raise DataError(f"{name} is not a complete safetensors file: {error}; save it again") from error


def _plain_torch(content: bytes, name: str) -> Any:
    refuse_bomb_in(content, name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about the pickle protocol, before it is refused
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise DataError(
            f"{name} is refused: it is a pickle that asks for more than tensors and plain containers "
            f"({_global_name(error)}), and loading that could run code. Save module.state_dict() alone (or as safetensors) "
            "and give --factory, or use torch.export"
        ) from error
    except DAMAGE as error:
        reason = str(error).strip().partition("\n")[0][:300]
        raise DataError(
            f"{name} cannot be read as a state dict: {reason or 'it asks for too much memory'}. Expected "
            "torch.save(module.state_dict(), file)"
        ) from error


def _global_name(error: Exception) -> str:
    match = re.search(r"GLOBAL ([\w.]*\w)", str(error))
    return match.group(1) if match else str(error).strip().partition("\n")[0][:120]


def _keys(weights: Any) -> str:
    return examples([str(key) for key in weights]) if isinstance(weights, Mapping) else f"a {type(weights).__name__}"


def examples(keys: list[str]) -> str:
    """Return the first of many names, and how many follow."""
    text = ", ".join(keys[:3]) or "nothing"
    return f"{text} and {len(keys) - 3} more" if len(keys) > 3 else text


_WRAPPERS = ("_orig_mod.", "_module.", "module.", "model.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateDict:
    """The module that `factory(**arguments)` makes, with the weights of the file, in evaluation mode.

    Attributes:
        path: `.safetensors`, or a file of `torch.save(module.state_dict(), ...)`, read with `weights_only=True`.
        factory: `package.module:callable` that returns a `torch.nn.Module`; it is the user's own code and is run.
        key: where in the file the weights are, for checkpoints that hold more than weights.
        strip_prefix: text cut off the front of each weight's name (`_module.` of Opacus, `module.` of DDP).
    """

    suffixes: ClassVar[tuple[str, ...]] = (".safetensors", ".pt", ".pth")

    path: str
    factory: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    strip_prefix: str = ""
    batch_size: int = BATCH_SIZE
    device: str = "cpu"
    _target: ModuleTarget = field(init=False, repr=False)

    def __post_init__(self) -> None:
        weights = self._weights()  # first: a pickled module is refused as what it is
        if not self.factory:
            raise ConfigError(
                f"{Path(self.path).name} holds weights alone; name what makes their module: --factory package.module:callable"
            )
        module = build.build({"factory": self.factory, "arguments": self.arguments}, (), 0)
        _fill(module, weights, self)
        object.__setattr__(self, "_target", ModuleTarget(module=module, batch_size=self.batch_size, device=self.device))

    def logits(self, inputs: Array) -> Array:
        return self._target.logits(inputs)

    def _weights(self) -> dict[str, torch.Tensor]:
        content, name = read_bytes(Path(self.path), "target"), Path(self.path).name
        weights = weights_in(content, name, self.key)
        return {key.removeprefix(self.strip_prefix): value for key, value in weights.items()}


def _fill(module: nn.Module, weights: dict[str, torch.Tensor], target: StateDict) -> None:
    reference = module.state_dict()
    missing = [key for key in reference if key not in weights]
    extra = [key for key in weights if key not in reference]
    unequal = [key for key in reference if key in weights and reference[key].shape != weights[key].shape]
    if not (missing or extra or unequal):
        module.load_state_dict(weights)
        return
    name = Path(target.path).name
    prefix = next((wrapper for wrapper in _WRAPPERS if extra and all(key.startswith(wrapper) for key in weights)), "")
    hint = "Is it the right factory, with the right arguments?"
    hint = f"All names start with '{prefix}': set strip_prefix." if prefix else hint
    if unequal and not missing and not extra:
        key = unequal[0]
        wrong = f"'{key}' is {tuple(weights[key].shape)} in the file and {tuple(reference[key].shape)} in the module"
    else:
        wrong = f"the module lacks {examples(extra)} and the file lacks {examples(missing)}"
    raise DataError(f"{name} does not fit what {target.factory} makes: {wrong}. {hint}")


PLUGIN = StateDict
