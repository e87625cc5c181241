"""Language models that a third party has trained: folders of an adapter or of whole weights, beside the one it began from."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file
from torch import nn

from audit.core.data import Vocabulary
from audit.core.errors import DataError
from audit.models import adapter_files
from audit.models.language import LanguageModel, extra_library, quiet_libraries

Result = TypeVar("Result")
Before = TypeVar("Before")


def compare(
    folder: Path,
    base: Path,
    score: Callable[[nn.Module], Result],
    device: torch.device,
    score_base: Callable[[nn.Module, Result], Before] | None = None,
) -> tuple[Result, Result | Before]:
    """Return the scores of the trained model and of the model before training, with one of them in memory at a time.

    What an adapter's own settings say of its base is not followed: the base is the folder that is named here. Nothing is
    downloaded, code in a folder is not run, and files that could run code are not read. Adapters are LoRA's, see
    `adapter_files`. Weights stay in the type that their file has. `score` is asked about models in evaluation mode;
    `score_base`, if given, about the one before training, beside the score of the trained one.

    Raises:
        ConfigError: transformers or peft is not installed.
        DataError: a folder cannot be read, or the adapter does not fit the base.
    """
    trained, biases = read(folder, base)
    trained = trained.to(device)
    after = score(trained)

    def before(module: nn.Module) -> Result | Before:
        return score(module) if score_base is None else score_base(module, after)

    if biases is not None:
        with torch.no_grad(), trained.disable_adapter():  # type: ignore[operator]
            for parameter, value in biases:  # an adapter's biases take the place of the base's, and peft leaves them there
                parameter.copy_(value)
            return after, before(trained)
    del trained
    with _without_hub():
        first = _whole(base)
    return after, before(first.eval().to(device))


def read(folder: Path, base: Path) -> tuple[nn.Module, list[tuple[nn.Parameter, torch.Tensor]] | None]:
    """Return the trained model in evaluation mode, and the biases with which it is the base once its adapter is disabled.

    None of whole weights.
    """
    extra_library("transformers")
    with _without_hub():
        if not adapter_files.is_adapter(folder):
            return _whole(folder).eval(), None
        if not (folder / adapter_files.MATRICES).is_file():
            raise DataError(
                f"adapter {folder} holds no {adapter_files.MATRICES}; files that could run code are not read: "
                "save with safetensors"
            )
        content, target = adapter_files.settings(folder), _whole(base)
        options = adapter_files.peft_options(content, folder, target)
        parameters = target.named_parameters() if options["bias"] != "none" else ()
        biases = [(value, value.detach().clone()) for name, value in parameters if name.endswith("bias")]
        return _adapted(target, options, folder).eval(), biases


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
    return LanguageModel(folder=str(folder), keeps_type=True).build(Vocabulary(size=0), 0)
