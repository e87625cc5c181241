"""Weights alone (safetensors, or `torch.save` of a state dict) with the factory of the module they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.data.source import read_bytes
from audit.engine.read.inference import BATCH_SIZE, ModuleTarget
from audit.models import build
from audit.subjects._weights import examples, weights_in

_WRAPPERS = ("_orig_mod.", "_module.", "module.", "model.")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateDict:
    """The module that `factory(**arguments)` makes, with the weights of the file, in evaluation mode.

    Attributes:
        path: `.safetensors`, or a file of `torch.save(module.state_dict(), ...)`, read with `weights_only=True`.
        factory: `package.module:callable` that returns a `torch.nn.Module`; it is the user's own code and is run.
        arguments: for the factory.
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
        """Outputs for `inputs` `(n, ...)`, `(n, classes)` float32."""
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
    hint = (
        f" All names start with '{prefix}': set strip_prefix."
        if prefix
        else " Is it the right factory, with the right arguments?"
    )
    if unequal and not missing and not extra:
        key = unequal[0]
        wrong = f"'{key}' is {tuple(weights[key].shape)} in the file and {tuple(reference[key].shape)} in the module"
    else:
        wrong = f"the module lacks {examples(extra)} and the file lacks {examples(missing)}"
    raise DataError(f"{name} does not fit what {target.factory} makes: {wrong}.{hint}")


PLUGIN = StateDict
