"""Files of whole models that somebody else wrote, checked before any library acts on them: shards, and sizes of the config.

An index can name shards anywhere on the machine, and a config layers without end. What is read is therefore files of the folder
itself, and a model is built only where the files hold about as many numbers as it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from audit.core import files
from audit.core.errors import DataError

CONFIG, INDEX = "config.json", "model.safetensors.index.json"
_LARGEST_CONFIG, _LARGEST_INDEX = 1 << 20, 1 << 26  # bytes; real ones have thousands and millions
_MOST_LAYERS = 1 << 12
_CODE = ("auto_map", "custom_pipelines", "trust_remote_code")
_KERNELS = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal", "experts_implementation")
_OWN_KERNELS = (None, "eager", "sdpa", "flash_attention_2", "flex_attention", "grouped_mm", "batched_mm")


def check(folder: Path) -> None:
    """Refuse a folder whose config or index reaches beyond it.

    Raises:
        DataError: the config is no small object, asks for code or for layers without end; a shard is not in it.
    """
    config = _object(folder / CONFIG, _LARGEST_CONFIG)
    _check_config(folder / CONFIG, config)
    if (folder / INDEX).is_file():
        _check_index(folder, _object(folder / INDEX, _LARGEST_INDEX))


def read_places(folder: Path) -> list[Path]:
    """Return the folder's JSON files and safetensors, sorted, links to files followed: caches of models are made of them.

    Raises:
        DataError: one of them is a pipe or a device, which may never end.
    """
    places = sorted([*folder.glob("*.json"), *folder.glob("*.safetensors")])
    for place in places:
        if place.exists() and not place.is_file():
            raise DataError(f"{place} is a pipe or a device; expected a folder as save_pretrained writes it")
    return places


def numbers(folder: Path) -> int:
    """Return how many numbers the folder's safetensors hold together, by their headers.

    Raises:
        DataError: a file cannot be read.
    """
    total = 0
    for place in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(place, framework="pt") as tensors:
                for key in tensors.keys():  # noqa: SIM118
                    count = 1
                    for side in tensors.get_slice(key).get_shape():
                        count *= side
                    total += count
        except (OSError, SafetensorError) as error:
            raise DataError(f"{place} cannot be read as safetensors: {error}") from error
    return total


def _check_config(place: Path, config: Mapping[str, Any]) -> None:
    for key, value in _entries(config):
        if key in _CODE and value:
            raise DataError(f"{place}: '{key}' asks for code, which is never run; save the model with a class of transformers")
        if key in _KERNELS and value not in _OWN_KERNELS:
            raise DataError(f"{place}: '{key}' names code to fetch, which is never run; remove the key")
        if "layer" in key and isinstance(value, int) and value > _MOST_LAYERS:
            raise DataError(f"{place}: '{key}' is beyond {_MOST_LAYERS:,} layers; expected a model of fewer")


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


def _object(place: Path, largest: int) -> Mapping[str, Any]:
    try:
        if place.stat().st_size > largest:
            raise DataError(f"{place} has more than {largest:,} bytes; expected one as save_pretrained writes it")
        content = files.read_json(place)
    except (OSError, ValueError) as error:
        raise DataError(f"{place} cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{place} holds a {type(content).__name__}; expected an object, as save_pretrained writes it")
    return content
