"""Chat templates: of a tokenizer that a training uses, or in the folder of a model of a third party."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from audit.core.errors import DataError
from audit.models import weight_files
from audit.models.language import extra_library, quiet_libraries

TEMPLATE, SETTINGS = "chat_template.jinja", "tokenizer_config.json"
_LARGEST = 1 << 20
Messages = list[dict[str, str]]


def tokenizer_template(tokenizer: Any) -> Callable[[Messages], str]:
    """Return how a tokenizer of transformers writes messages as one text."""
    return lambda messages: str(tokenizer.apply_chat_template(messages, tokenize=False))


def read_template(*folders: Path) -> Callable[[Messages], str]:
    """Return how the chat template of the first folder that has one writes messages as one text.

    A template is a program; it is rendered by jinja2's sandbox, which has no access to files, imports or attributes.
    `DataError` if no folder has one, or it cannot be read or rendered.
    """
    extra_library("transformers")
    from transformers.utils import chat_template_utils

    for folder in folders:
        settings = _settings(folder)
        content = settings.get("chat_template")
        if (folder / TEMPLATE).is_file():
            content = (folder / TEMPLATE).read_text(encoding="utf-8")[:_LARGEST]
        if isinstance(content, str):
            break
    else:
        raise DataError(
            f"neither {' nor '.join(map(str, folders))} holds a {TEMPLATE} or a {SETTINGS} with 'chat_template'; the canaries "
            "were planted as chats, and are scored in the template that the model was trained with"
        )
    names = ("bos_token", "eos_token", "unk_token", "pad_token")
    tokens = {name: _text(settings[name]) for name in names if settings.get(name) is not None}

    def write(messages: Messages) -> str:
        with quiet_libraries(DataError, f"the chat template of {folder} cannot be rendered"):
            outputs, _ = chat_template_utils.render_jinja_template(conversations=[messages], chat_template=content, **tokens)
        return str(outputs[0])

    return write


def _settings(folder: Path) -> dict[str, Any]:
    place = folder / SETTINGS
    return weight_files.json_object(place, 1 << 24, "as save_pretrained writes it") if place.is_file() else {}


def _text(token: Any) -> str:
    return str(token.get("content", "")) if isinstance(token, dict) else str(token)
