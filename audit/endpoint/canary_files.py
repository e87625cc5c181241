"""Canaries as JSON lines: written before training with their coins, and read again when a model is scored."""

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.errors import ConfigError, DataError
from audit.data import text_files

TEXT, CHAT = "text", "chat"
FORMS = (TEXT, CHAT)
PLACES = ("training", "system_prompt", "documents")
SALT = "salt"
Messages = list[dict[str, str]]
Template = Callable[[Messages], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The text around a canary wherever it is planted, looked for and scored.

    Attributes:
        form: "text" (prefix and secret are one text) or "chat" (the prefix is asked, the secret is the answer).
        system: prompt before the question; "" for none.
        document: text before the prefix, such as a retrieved one; "" for none.
        place: where included canaries are put: the training data, a server's system prompt, or documents that it retrieves.
    """

    form: str = TEXT
    system: str = ""
    document: str = ""
    place: str = PLACES[0]

    def __post_init__(self) -> None:
        for value, name, choices in ((self.form, "form", FORMS), (self.place, "place", PLACES)):
            if value not in choices:
                raise ConfigError(f"a canary's {name} is {value!r}; expected one of {', '.join(choices)}")
        demand_whole(self.system + self.document)


def demand_whole(text: str) -> None:
    """Raise `ConfigError` if a text holds what no encoding can write, as JSON and a shell's arguments can."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ConfigError("the text holds half a character (a lone surrogate); write whole ones, in UTF-8")


PLAIN = Context()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCanary:
    """A text that ends in a secret.

    Attributes:
        included: the coin: whether it was to be trained on.
        decoy: of the same law, and never to be planted: it is scored beside the others, and no coin is about it.
        context: the text around it.
    """

    prefix: str
    secret: str
    included: bool
    decoy: bool = False
    context: Context = PLAIN

    @property
    def text(self) -> str:
        """Return prefix and secret alone."""
        return self.prefix + self.secret

    @property
    def opening(self) -> str:
        """Return what a model is given before the secret, as one text."""
        parts = [self.context.document, self.prefix]
        if self.context.form == TEXT:
            parts.insert(0, self.context.system)
        return "\n\n".join(filter(None, parts))

    @property
    def question(self) -> Messages:
        """Return the messages before the answer, of a chat."""
        system = [{"role": "system", "content": self.context.system}] if self.context.system else []
        return [*system, {"role": "user", "content": self.opening}]

    @property
    def messages(self) -> Messages:
        """Return the whole chat."""
        return [*self.question, {"role": "assistant", "content": self.secret}]

    def pieces(self, template: Template | None = None) -> tuple[str, str, str]:
        """Return what a model reads before the secret, the secret, and what follows it.

        Args:
            template: messages to one text, for chats.

        Raises:
            ConfigError: a chat without a template.
            DataError: the template alters the secret.
        """
        if self.context.form == TEXT:
            return self.opening, self.secret, ""
        if template is None:
            raise ConfigError(
                "the canaries were planted as chats and no chat template is known: give the tokenizer itself in place of a "
                "function, or a folder with chat_template.jinja"
            )
        text = template(self.messages)
        start = text.rfind(self.secret)
        if start < 1:
            raise DataError(f"the chat template leaves no answer {self.secret[:40]!r} behind {self.opening[:80]!r}")
        return text[:start], self.secret, text[start + len(self.secret) :]


def new_salt() -> str:
    """Return 128 secret bits, without which a commitment to few or guessable coins is found by trying."""
    return secrets.token_hex(16)


def commitment(canaries: Sequence[TextCanary], salt: str) -> str:
    """Return the hash to publish before training: of the salt and all texts, coins and contexts, in order.

    Not of the form: texts may become chats, and what is written around them stays.
    """
    lines = (_line(replace(canary, context=replace(canary.context, form=TEXT))) for canary in canaries)
    return hashlib.sha256("\n".join([salt, *lines]).encode()).hexdigest()


def open_commitment(place: Path, canaries: Sequence[TextCanary], publication: str) -> str:
    """Return a published commitment once it is that of these canaries and of the salt beside their file.

    Args:
        publication: the hash, or the name of a file that holds it.

    Raises:
        DataError: the salt is not there, or texts, coins or contexts are others than those committed to.
    """
    digest = text_files.whole_text(Path(publication))[0] if Path(publication).is_file() else publication
    salt = text_files.whole_text(place.with_name(SALT))[0].strip()
    if not hmac.compare_digest(commitment(canaries, salt).encode(), digest.strip().lower().encode()):
        raise DataError(
            f"{place} holds other texts, coins or contexts than the commitment {digest.strip()[:16]}... was made to, or "
            "another salt is beside it; expected the folder as it was when the commitment was published"
        )
    return digest.strip().lower()


def write(canaries: Sequence[TextCanary], place: Path) -> None:
    """Write the canaries with their coins, which stay secret until the scores are there."""
    place.write_text("".join(f"{_line(canary)}\n" for canary in canaries), encoding="utf-8")


def read(place: Path, *, whole_texts: bool = False) -> list[TextCanary]:
    """Return the canaries of a file, decoys among them.

    Args:
        whole_texts: lines may be `{"text": ..., "included": ...}` as well, since they are scored as a whole.

    Raises:
        DataError: it cannot be read as text, a line is no canary, or all coins fell on one side.
    """
    canaries = []
    for number, line in enumerate(text_files.whole_text(place)[0].split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}, line {number}: no JSON ({error})") from error
        columns = entry if isinstance(entry, dict) else {}
        if whole_texts and isinstance(columns.get("text"), str):  # one letter of a text is as good a beginning as any
            columns = {**columns, "prefix": columns["text"][:1], "secret": columns["text"][1:]}
        canaries.append(_canary(columns, f"{place}, line {number}"))
    sides = np.array([canary.included for canary in canaries if not canary.decoy], dtype=bool)
    if sides.all() or not sides.any():
        kind = "texts" if whole_texts else "canaries"
        raise DataError(f"{place} holds {len(sides)} {kind} of one side; expected some that are included and some that are not")
    if len({canary.context for canary in canaries}) > 1:  # a separate one could hold the secret of the included ones
        raise DataError(
            f"{place} holds canaries of several contexts; expected one form, place, system prompt and document for all"
        )
    context_text = canaries[0].context.system + canaries[0].context.document
    if secret := next((canary.secret for canary in canaries if canary.secret in context_text), ""):
        raise DataError(
            f"{place}: the system prompt or document around all canaries holds the secret {secret[:40]!r}, which a model could "
            "copy from there without having been trained on it; write it without secrets"
        )
    return canaries


def demand_training(canaries: Sequence[TextCanary]) -> None:
    """Raise `DataError` if canaries belong into a served application: no training saw them, and its model cannot tell them."""
    if (place := canaries[0].context.place) != PLACES[0]:
        raise DataError(
            f"these canaries were drawn for {place} of a served application, not for a training: score them with `audit "
            "endpoint`, or draw others"
        )


def as_chats(canaries: Sequence[TextCanary]) -> list[TextCanary]:
    """Return the canaries as questions with answers; their commitment stays, since texts and coins do."""
    return [replace(canary, context=replace(canary.context, form=CHAT)) for canary in canaries]


def _canary(columns: Mapping[str, Any], place: str) -> TextCanary:
    prefix, secret, included = (columns.get(key) for key in ("prefix", "secret", "included"))
    decoy, context = columns.get("decoy", False), columns.get("context", {})
    if not (isinstance(prefix, str) and isinstance(secret, str) and isinstance(included, bool) and prefix and secret):
        raise DataError(f'{place}: expected {{"prefix": text, "secret": text, "included": true or false}}')
    if not isinstance(decoy, bool) or (decoy and included):
        raise DataError(f"{place}: 'decoy' is {decoy!r} of a canary with the coin {included}; a decoy is never included")
    keys = ("form", "system", "document", "place")
    if not isinstance(context, dict) or not set(context) <= {*keys} or not all(isinstance(v, str) for v in context.values()):
        raise DataError(f"{place}: 'context' is {str(context)[:80]}; expected texts under any of {', '.join(keys)}")
    try:
        demand_whole(prefix + secret)
        around = Context(**context)
    except ConfigError as error:
        raise DataError(f"{place}: {error}") from error
    return TextCanary(prefix=prefix, secret=secret, included=included, decoy=decoy, context=around)


def _columns(canary: TextCanary) -> dict[str, Any]:
    return {"prefix": canary.prefix, "secret": canary.secret, "included": canary.included}


def _line(canary: TextCanary) -> str:
    context = canary.context
    names = ("form", "system", "document", "place")
    differences = {name: getattr(context, name) for name in names if getattr(context, name) != getattr(PLAIN, name)}
    extra = {"decoy": True} if canary.decoy else {}
    return json.dumps(_columns(canary) | extra | ({"context": differences} if differences else {}), ensure_ascii=False)
