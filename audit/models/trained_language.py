"""Language models that somebody else has trained: folders of an adapter or of whole weights, beside the one it began from."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from audit.core.data import Vocabulary
from audit.core.errors import DataError
from audit.models.language import DAMAGE, LanguageModel, extra_library

_SETTINGS, _MATRICES = "adapter_config.json", "adapter_model.safetensors"


def is_adapter(folder: Path) -> bool:
    """Return whether a folder holds an adapter as peft, ms-swift and others write it."""
    return (folder / _SETTINGS).is_file()


def read(folder: Path, base: Path) -> tuple[nn.Module, nn.Module]:
    """Return the trained model and the model before training, both in evaluation mode.

    What an adapter's own settings say of its base is not followed: the base is the folder that is named here. Nothing is
    downloaded, code in a folder is not run, and files that could run code are not read.

    Args:
        folder: of an adapter, or of a whole model.
        base: of the whole model before training.

    Raises:
        ConfigError: transformers or peft is not installed.
        DataError: a folder cannot be read, or the adapter does not fit the base.
    """
    before = _whole(base)
    if not is_adapter(folder):
        return _whole(folder).eval(), before.eval()
    if not (folder / _MATRICES).is_file():
        raise DataError(f"adapter {folder} holds no {_MATRICES}; files that could run code are not read: save with safetensors")
    target = _whole(base)
    try:
        trained: nn.Module = extra_library("peft").PeftModel.from_pretrained(target, str(folder), local_files_only=True)
    except DAMAGE as error:
        raise DataError(f"adapter {folder} does not fit the model {base}: {error}") from error
    return trained.eval(), before.eval()


def _whole(folder: Path) -> nn.Module:
    return LanguageModel(folder=str(folder)).build(Vocabulary(size=0), 0)
