"""Files of a LoRA adapter that a third party wrote, checked before any library acts on them: settings, and shapes of tensors.

Settings of peft can name repositories and files to fetch, patterns to match and sizes to allocate. What is handed on is
therefore a few checked values: which layers are adapted is read off the file's own tensors, never off patterns, and matrices
are allocated only where the file itself holds them in that size.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from torch import nn

from audit.core.errors import DataError
from audit.models import weight_files
from audit.models.weight_files import Shape

SETTINGS, MATRICES = "adapter_config.json", "adapter_model.safetensors"
_LARGEST = 1 << 20  # bytes of the settings; real ones have about a thousand
_PREFIX = "base_model.model."
_SIDES = (".lora_A.weight", ".lora_B.weight")
_MAGNITUDES = ".lora_magnitude_vector"


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) and _is_plain(name) for name in value)


def _is_plain(name: str) -> bool:
    return name.isascii() and all(part.isidentifier() or part.isdecimal() for part in name.split("."))


def _is_scale(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1e9


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


_EXPECTED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "peft_type": (lambda value: value == "LORA", "'LORA', the adapters that are read"),
    "r": (lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 1, "a whole number from 1 on"),
    "lora_alpha": (_is_scale, "a number above 0"),
    "target_modules": (lambda value: isinstance(value, str | list) and bool(value), "names of layers, or a pattern"),
    "task_type": (lambda value: value in (None, "CAUSAL_LM"), "'CAUSAL_LM'"),
    "modules_to_save": (lambda value: value is None or _is_names(value), "a list of layers' plain names"),
    "bias": (lambda value: value in ("none", "all", "lora_only"), "'none', 'all' or 'lora_only'"),
    "init_lora_weights": (
        lambda value: _is_switch(value) or value in ("gaussian", "orthogonal"),
        "one that leaves the base as it is",
    ),
    "use_rslora": (_is_switch, "true or false"),
    "use_dora": (_is_switch, "true or false"),
    "fan_in_fan_out": (_is_switch, "true or false"),
}
_DEMANDED = ("peft_type", "r", "lora_alpha", "target_modules")
_HANDED_ON = ("r", "lora_alpha", "use_rslora", "use_dora", "fan_in_fan_out")
_WITHOUT_EFFECT = (  # on what a trained adapter computes: notes of peft, training's own options, sizes of what is switched off,
    # and how the layers were chosen whose tensors the file holds
    *("auto_mapping", "base_model_name_or_path", "exclude_modules", "inference_mode", "layers_pattern", "layers_to_transform"),
    *("lora_dropout", "megatron_core", "parent_library", "peft_version", "qalora_group_size", "revision"),
)


def is_adapter(folder: Path) -> bool:
    """Return whether a folder holds an adapter's settings, of whatever kind the file is."""
    return os.path.lexists(folder / SETTINGS)


def settings(folder: Path) -> dict[str, Any]:
    """Return the checked settings of a LoRA adapter, by peft's names.

    `DataError` if they cannot be read, are those of another kind of adapter, or ask for more than is followed.
    """
    place = folder / SETTINGS
    content = weight_files.json_object(place, _LARGEST, "as peft writes it")
    for key in (*_DEMANDED, *content):
        if key not in content:
            raise DataError(f"{place} has no '{key}'; expected an adapter's settings as peft writes them")
        value = content[key]
        if key in _EXPECTED:
            is_expected, expected = _EXPECTED[key]
            if not is_expected(value):
                raise DataError(
                    f"{place}: '{key}' is {_short(value)}; expected {expected}; merge the adapter into the whole weights"
                )
        elif key not in _WITHOUT_EFFECT and value not in (None, False, "", [], {}):
            raise DataError(
                f"{place}: '{_short(key)}' is {_short(value)}, which is not followed; merge the adapter into the whole weights"
            )
    return content


def peft_options(content: Mapping[str, Any], folder: Path, base: nn.Module) -> dict[str, Any]:
    """Return the arguments of peft's LoraConfig for a base before training, of `settings`, by the tensors' shapes alone.

    `DataError` if the tensors are not those of these settings on this base.
    """
    place = folder / MATRICES
    shapes = weight_files.shapes(place)
    sides = {suffix: _layer_shapes(shapes, suffix) for suffix in _SIDES}
    layers = sorted(sides[_SIDES[0]].keys() | sides[_SIDES[1]].keys())
    for suffix, matrices in sides.items():
        _demand_layers(place, suffix, layers, matrices.keys())
    if set(_matches(base, set(layers))) != set(layers):
        raise DataError(
            f"{place} does not fit: its {len(layers)} layers, such as '{_short(layers[0])}', are not those of the base"
        )
    parameters = {path: tuple(value.shape) for path, value in base.named_parameters(remove_duplicate=False)}
    for path in layers:
        _hold_pair(place, path, (sides[_SIDES[0]][path], sides[_SIDES[1]][path]), content["r"], parameters)
    full = _whole_tensors(place, shapes, parameters, bool(content.get("use_dora")))
    bias = content.get("bias", "none")
    saved_layers = _matches(base, set(content.get("modules_to_save") or []))
    for path in saved_layers:
        layer = base.get_submodule(path)
        own = {f"{path}.{name}" for name, _ in layer.named_parameters()}
        if next(layer.children(), None) is not None or not own <= full:
            raise DataError(f"{place} does not fit: 'modules_to_save' names '{path}', of which it holds no weights, or not all")
    return {
        **{key: content[key] for key in _HANDED_ON if key in content},
        "target_modules": layers,
        "bias": bias,
        "modules_to_save": sorted(saved_layers) or None,
        "task_type": "CAUSAL_LM",
        "inference_mode": True,
    }


def _layer_shapes(shapes: Mapping[str, Shape], suffix: str) -> dict[str, Shape]:
    return {
        key.removeprefix(_PREFIX).removesuffix(suffix): shape
        for key, shape in shapes.items()
        if key.startswith(_PREFIX) and key.endswith(suffix)
    }


def _matches(base: nn.Module, names: Set[str]) -> dict[str, str]:
    """Return the layers that the names choose, as peft does: by the whole path or its last parts; and by which name."""
    names_of_layers = {}
    for path, _ in base.named_modules():
        parts = path.split(".")
        endings = (".".join(parts[start:]) for start in range(len(parts)))
        name = next((ending for ending in endings if ending in names), None)
        if name is not None:
            names_of_layers[path] = name
    return names_of_layers


def _demand_layers(place: Path, suffix: str, layers: Sequence[str], stored_layers: Set[str]) -> None:
    missing_layers = [path for path in layers if path not in stored_layers]
    if missing_layers:
        raise DataError(f"{place} does not fit: no '{suffix[1:]}' of layer '{_short(missing_layers[0])}'")
    if not layers:
        raise DataError(f"{place} does not fit: it holds no matrices of an adapter")


def _hold_pair(place: Path, path: str, pair: tuple[Shape, Shape], rank: int, parameters: Mapping[str, Shape]) -> None:
    weight = parameters.get(f"{path}.weight", ())
    first, second = pair
    if len(first) != 2 or len(second) != 2 or first[0] != rank or second[1] != rank:
        raise DataError(f"{place} does not fit: matrices of layer '{path}' are {first} and {second}; 'r' is {_short(rank)}")
    if sorted(weight) != sorted((first[1], second[0])):
        raise DataError(
            f"{place} does not fit: matrices of layer '{path}' are {first} and {second}; the base has {weight or 'none'}"
        )


def _whole_tensors(place: Path, shapes: Mapping[str, Shape], parameters: Mapping[str, Shape], dora: bool) -> set[str]:
    """Return the base's parameters that the adapter replaces; raises `DataError` on a tensor that is none of the base."""
    endings = (*_SIDES, _MAGNITUDES) if dora else _SIDES
    names = set()
    for key, shape in shapes.items():
        name = key.removeprefix(_PREFIX).replace(".base_layer.", ".")  # a bias of an adapted layer
        if key.startswith(_PREFIX) and name.endswith(endings):
            continue
        if not key.startswith(_PREFIX) or parameters.get(name) != shape:
            raise DataError(f"{place} does not fit: tensor '{_short(key)}' {shape} is none of the base")
        names.add(name)
    return names


def missing(keys: Iterable[str]) -> list[str]:
    """Return those keys of a state that an adapter should have filled."""
    return sorted(key for key in keys if ".lora_" in key or ".modules_to_save." in key)


def _short(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 64:
        return "beyond 64 bits"
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
