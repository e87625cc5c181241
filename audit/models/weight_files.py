"""Files of whole models that a third party wrote, checked before any library acts on them: shards, and sizes of the config.

An index can name shards anywhere on the machine, and a config layers without end. What is read is therefore files of the folder
itself, and a model is built only where the files hold about as many numbers as it has.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from audit.core import files
from audit.core.errors import DataError

# Read what the files of third-party model say of themselves: JSON objects of bounded size, shapes of tensors.
Shape = tuple[int, ...]


def json_object(place: Path, largest: int, origin: str) -> dict[str, Any]:
    """Return the object that a JSON file holds, of so many bytes at most; else `DataError`.

    `origin` says how such files come to be, for the messages: "as peft writes it".
    """
    try:
        if place.stat().st_size > largest:
            raise DataError(f"{place} has more than {largest:,} bytes; expected one {origin}")
        content = files.read_json(place)
    except (OSError, ValueError) as error:
        raise DataError(f"{place} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{place} holds a {type(content).__name__}; expected an object, {origin}")
    return content


def shapes(place: Path) -> Mapping[str, Shape]:
    """Return the shape of each tensor of a safetensors file, by its header alone; `DataError` if that cannot be read."""
    try:
        with safe_open(place, framework="pt") as tensors:
            return {key: tuple(tensors.get_slice(key).get_shape()) for key in tensors.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"{place} cannot be read as safetensors: {error}. A file cut short, or a pointer of Git LFS, is fetched again"
        ) from error


CONFIG, INDEX = "config.json", "model.safetensors.index.json"
_LARGEST_CONFIG, _LARGEST_INDEX = 1 << 20, 1 << 26  # bytes; real ones have thousands and millions
_MOST_LAYERS = 1 << 12
_FORM = "as save_pretrained writes it"
_CODE = ("auto_map", "custom_pipelines", "trust_remote_code")
_FEW_BITS = ("quantization_config", "compression_config")
# keys without which there is no model; others may be 0 (experts, shared layers) or -1 (tokens that are not there)
_SIZES = (
    *("n_layer", "n_head", "n_embd", "n_positions", "num_hidden_layers", "num_attention_heads", "hidden_size", "num_layers"),
    *("num_heads", "d_model", "vocab_size", "intermediate_size", "max_position_embeddings", "num_key_value_heads", "head_dim"),
)
_KERNELS = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal", "experts_implementation")
_OWN_KERNELS = (None, "eager", "sdpa", "flash_attention_2", "flex_attention", "grouped_mm", "batched_mm")


def check(folder: Path) -> None:
    """Raise `DataError` for a config that is no small object or asks for code or layers without end, or a shard elsewhere."""
    config = json_object(folder / CONFIG, _LARGEST_CONFIG, _FORM)
    if problem := config_problem(config):
        raise DataError(f"{folder / CONFIG}: {problem}")
    if (folder / INDEX).is_file():
        _check_index(folder, json_object(folder / INDEX, _LARGEST_INDEX, _FORM))


def read_places(folder: Path) -> list[Path]:
    """Return the folder's JSON files and safetensors, sorted, links to files followed: caches of models are made of them.

    `DataError` if one of them is a pipe or a device, which may never end.
    """
    places = sorted([*folder.glob("*.json"), *folder.glob("*.safetensors")])
    for place in places:
        if place.exists() and not place.is_file():
            raise DataError(f"{place} is a pipe or a device; expected a folder as save_pretrained writes it")
    return places


def numbers(folder: Path) -> int:
    """Return how many numbers the folder's safetensors hold, by their headers; `DataError` if a file cannot be read."""
    places = sorted(folder.glob("*.safetensors"))
    return sum(math.prod(shape) for place in places for shape in shapes(place).values())


def config_problem(config: Mapping[str, Any]) -> str:
    """Return which key of a config asks for code, or for a model without end or without size; "" if none does."""
    for key, value in _entries(config):
        if key in _CODE and value:
            return f"'{key}' asks for code, which is never run; save the model with a class of transformers"
        if key in _FEW_BITS and value:
            return f"'{key}' tells of weights in few bits, which are not read; save the model dequantised, in floats"
        if key in _KERNELS and value not in _OWN_KERNELS:
            return f"'{key}' names code to fetch, which is never run; remove the key"
        if key in _SIZES and isinstance(value, int | float) and value < 1:
            return f"'{key}' is {value}; expected a whole number from 1 on"
        if "layer" in key and isinstance(value, int) and value > _MOST_LAYERS:
            return f"'{key}' is beyond {_MOST_LAYERS:,} layers; expected a model of fewer"
    return ""


def _entries(config: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the keys with their values, those of configs inside it included."""
    entries = list(config.items())
    for _, value in entries:  # grows while it is gone through: without recursion, however deep
        if isinstance(value, dict):
            entries += value.items()
    return entries


def _check_index(folder: Path, index: Mapping[str, Any]) -> None:
    shards = index.get("weight_map")
    if not isinstance(shards, dict):
        raise DataError(f"{folder / INDEX} has no 'weight_map' of tensors to files, as save_pretrained writes it")
    for name in shards.values():
        if not isinstance(name, str) or Path(name).name != name or not name.endswith(".safetensors"):
            raise DataError(
                f"{folder / INDEX} names the shard {str(name)[:80]!r}; expected .safetensors files in the folder itself"
            )
        if not (folder / name).is_file():
            raise DataError(f"{folder / INDEX} names the shard {name[:80]!r}, which the folder does not hold")
