"""Language models that a third party has trained: folders of an adapter or of whole weights, beside the one it began from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import nn

from audit.core.data import Vocabulary
from audit.core.errors import DataError
from audit.models import adapter_files
from audit.models.language import LanguageModel, extra_library, quiet_libraries


def read(folder: Path, base: Path) -> tuple[nn.Module, nn.Module]:
    """Return the trained model and the model before training, both in evaluation mode.

    What an adapter's own settings say of its base is not followed: the base is the folder that is named here. Nothing is
    downloaded, code in a folder is not run, and files that could run code are not read. Adapters are LoRA's, see
    `adapter_files`.

    Args:
        folder: of an adapter, or of a whole model.
        base: of the whole model before training.

    Raises:
        ConfigError: transformers or peft is not installed.
        DataError: a folder cannot be read, or the adapter does not fit the base.
    """
    extra_library("transformers")
    with _without_hub():
        if not adapter_files.is_adapter(folder):
            before = _whole(base)
            return _whole(folder).eval(), before.eval()
        if not (folder / adapter_files.MATRICES).is_file():
            raise DataError(
                f"adapter {folder} holds no {adapter_files.MATRICES}; files that could run code are not read: "
                "save with safetensors"
            )
        content = adapter_files.settings(folder)
        before = _whole(base)
        options = adapter_files.peft_options(content, folder, before)
        return _adapted(_whole(base), options, folder).eval(), before.eval()


def _adapted(target: nn.Module, options: dict[str, Any], folder: Path) -> nn.Module:
    library = extra_library("peft")
    with quiet_libraries(DataError, f"adapter {folder} does not fit the base"):
        model: nn.Module = library.get_peft_model(target, library.LoraConfig(**options))
        outcome = library.set_peft_model_state_dict(model, load_file(folder / adapter_files.MATRICES))
    left_out = [*adapter_files.missing(outcome.missing_keys), *outcome.unexpected_keys]
    if left_out:
        raise DataError(f"adapter {folder} does not fit the base: '{left_out[0]}' is in only one of them")
    return model


@contextmanager
def _without_hub() -> Iterator[None]:
    """Refuse every request of the hub's client meanwhile, as its variable HF_HUB_OFFLINE does from the start."""
    from huggingface_hub import constants

    former = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = former


def _whole(folder: Path) -> nn.Module:
    return LanguageModel(folder=str(folder)).build(Vocabulary(size=0), 0)
