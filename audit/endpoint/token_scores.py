"""Log-probabilities of a prompt's own tokens, out of the answers of different servers."""

import math
import re
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from audit.core.errors import ObservationError
from audit.endpoint.canary_files import CHAT, TextCanary
from audit.endpoint.client import BrokenAnswer, Client, UnreachableServer

Json = Mapping[str, Any]
WAYS = ("echo", "prompt_logprobs")
NAMED_BYTES = re.compile(r"^bytes:( ?)(?:\\x[0-9a-f]{2})+$")  # how OpenAI's completions list a piece of a character
END = "\0"  # behind the tokens of a prompt that nothing was written to


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenScores:
    """Tokens of a prompt as text, in order, with their log-probabilities; None for the first, which nothing precedes.

    Attributes:
        new_tokens: number of tokens that the server wrote behind the prompt.
    """

    tokens: tuple[str, ...]
    log_probabilities: tuple[float | None, ...]
    new_tokens: int

    @property
    def text(self) -> str:
        return "".join(self.tokens)

    def from_character(self, start: int) -> float:
        """Return the sum of the log-probabilities of the tokens that end behind character `start`.

        Raises:
            ObservationError: one of them has none.
        """
        end, total = 0, 0.0
        for token, value in zip(self.tokens, self.log_probabilities, strict=True):
            end += len(token)
            if end > start:
                if value is None or not math.isfinite(value):
                    raise ObservationError(f"the server gives no finite log-probability for token {token!r} of a secret")
                total += value
        return total


def request(way: str, model: str, prompt: str) -> dict[str, Any]:
    """Return the body that asks for the log-probabilities of a prompt.

    One token is generated: with `max_tokens` 0 some servers write to the end of their context.
    """
    body: dict[str, Any] = {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0}
    return body | ({"echo": True, "logprobs": 1} if way == "echo" else {"prompt_logprobs": 0})


def ask(client: Client, way: str, model: str, prompt: str) -> TokenScores:
    """Return the scores of a prompt's tokens.

    Raises:
        ObservationError: the answer holds none, or they are not those of this prompt.
    """
    tokens, values, new_tokens = client.completion(request(way, model, prompt), lambda answer: _READERS[way](answer, prompt))
    return TokenScores(tokens=tuple(tokens), log_probabilities=tuple(values), new_tokens=new_tokens)


def prompt_scorer(client: Client, way: str, model: str) -> Callable[[str], TokenScores]:
    """Return `ask` for prompts, some of which come again: then with other text behind, which changes no value.

    A cache of the server's that looks at prompts alone does not know that text. Where it changes the prompt's tokens, or is
    too much for the model, the prompt is asked as it is.
    """
    first_scores: dict[str, TokenScores] = {}

    def score(prompt: str) -> TokenScores:
        first = first_scores.get(prompt)
        if first is None:
            first_scores[prompt] = ask(client, way, model, prompt)
            return first_scores[prompt]
        count = len(first.tokens)
        try:
            longer_scores = ask(client, way, model, f"{prompt}\n{secrets.token_hex(4)}")
            if longer_scores.tokens[:count] == first.tokens:
                return replace(longer_scores, tokens=first.tokens, log_probabilities=longer_scores.log_probabilities[:count])
        except UnreachableServer:
            raise
        except ObservationError:
            pass  # what else is wrong shows in the next line
        return ask(client, way, model, prompt)

    return score


def continuation(model: str, canary: TextCanary, tokens: int, prefix_length: int = 0, **options: Any) -> dict[str, Any]:
    """Return the body that asks what a model writes behind a canary's question, or prefix and the secret's beginning."""
    prompt = canary.opening + canary.secret[:prefix_length] if prefix_length else canary.opening.rstrip()
    opening = {"messages": canary.question} if canary.context.form == CHAT else {"prompt": prompt}
    return {"model": model, **opening, "max_tokens": tokens, "temperature": 0, **options}


def write_continuation(client: Client, model: str, canary: TextCanary, prefix_length: int = 0, **options: Any) -> str:
    """Return what the model writes, greedily unless `options` say otherwise, in as many tokens as the secret can have.

    Args:
        prefix_length: characters of the secret that stand before it, of texts.
    """
    purpose = f"sample {options['seed']}" if "seed" in options else ""
    body = continuation(model, canary, answer_length(canary), prefix_length, **options)
    return str(client.completion(body, _text, purpose))


def answer_length(canary: TextCanary) -> int:
    """Return the tokens of an answer: a text may begin with a space, an answer in a chat has words around the secret."""
    return len(canary.secret.encode("utf-8")) + (32 if canary.context.form == CHAT else 1)


def _text(answer: Json) -> str:
    first = choice(answer)
    message = first.get("message")
    content = message.get("content") if isinstance(message, dict) else first.get("text")
    if isinstance(content, list):  # parts of an answer, some of which are texts
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return str(content or "")


def choice(answer: Json) -> Json:
    """Return the first text of an answer.

    Raises:
        ObservationError: it holds none.
    """
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise BrokenAnswer(f"the answer has no choices, only {str(list(answer))[:200]}")
    first: Json = choices[0]
    return first


def _echo(answer: Json, prompt: str) -> tuple[list[str], list[float | None], int]:
    logs = choice(answer).get("logprobs")
    if not isinstance(logs, dict):
        raise ObservationError(
            "the answer has no log-probabilities: the server ignores 'logprobs', or was started without them"
        )
    if "content" in logs:
        raise ObservationError("the server ignores 'echo': its log-probabilities are those of generated tokens")
    tokens, values = logs.get("tokens"), logs.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(values, list) or len(tokens) != len(values):
        raise ObservationError("the answer's 'tokens' and 'token_logprobs' are not lists of one length")
    return _prompt_part([_read_token(token) for token in tokens], [read_number(value) for value in values], prompt)


def _prompt_logprobs(answer: Json, prompt: str) -> tuple[list[str], list[float | None], int]:
    rows = choice(answer).get("prompt_logprobs") or answer.get("prompt_logprobs")
    if not isinstance(rows, list):
        raise ObservationError("the answer has no 'prompt_logprobs': the server ignores that key")
    tokens, values = [], []
    for number, row in enumerate(rows):
        if row is None and number == 0:  # nothing precedes the first token
            continue
        entries = list(row.values()) if isinstance(row, dict) else []
        if len(entries) != 1 or not isinstance(entries[0], dict):
            raise ObservationError(
                f"token {number} of the prompt has {len(entries)} log-probabilities; expected that of itself"
            )
        tokens.append(_read_token(entries[0].get("decoded_token", "")))
        values.append(read_number(entries[0].get("logprob")))
    beginnings = (max(0, len(prompt) - sum(map(len, tokens))), *range(min(64, len(prompt))))  # the first token has no entry
    matches = ((begin, _match([*tokens, END], [*values, None], prompt[begin:])) for begin in beginnings)
    begin, match = next(((begin, match) for begin, match in matches if match and match[2] == len(tokens)), (0, None))
    if match is None:
        raise ObservationError("the tokens of 'prompt_logprobs' are not those of the prompt that was sent")
    return ([prompt[:begin], *match[0]], [None, *match[1]], 0) if begin else (match[0], match[1], 0)


def _prompt_part(tokens: list[str], values: list[float | None], prompt: str) -> tuple[list[str], list[float | None], int]:
    """Return the part that makes up the prompt, and how many tokens are behind it.

    Tokens are matched by their text: counts of a server may include a start token that its lists leave out.
    """
    start = (
        1 if tokens and values[0] is None and prompt.startswith("".join(tokens[1:2])) and tokens[0] not in prompt[:32] else 0
    )
    match = _match(tokens[start:], values[start:], prompt)
    if match is None:
        raise ObservationError(
            "the answer's tokens are not those of the prompt that was sent: the server returns generated tokens only, or an "
            "altered prompt; its log-probabilities say nothing about the text"
        )
    return match[0], match[1], len(tokens) - start - match[2]


def _read_token(token: Any) -> str:
    return NAMED_BYTES.sub("\\1\ufffd", str(token))


def _match(tokens: list[str], values: list[float | None], prompt: str) -> tuple[list[str], list[float | None], int] | None:
    """Return a prompt's tokens, their values and how many listed ones they are, or None if they are not those of the prompt.

    Characters that a tokenizer splits are listed as replacement signs, or as nothing until their last piece. Pieces side by
    side are one token here, whose text is what the prompt has there and whose value is the sum.
    """
    texts: list[str] = []
    sums: list[float | None] = []
    place = number = 0
    while number < len(tokens) and place < len(prompt):
        stop = number
        while stop < len(tokens) and ("\ufffd" in tokens[stop] or (not tokens[stop] and values[stop] is not None)):
            stop += 1
        after = "".join(tokens[stop : stop + 1])
        end = place if stop == number else _end_of_pieces(prompt, place, "".join(tokens[number:stop]), after)
        if end == place:  # whole characters, also those written with their last piece
            end, stop = place + len(after) if prompt.startswith(after, place) else None, stop + 1
        if end is None or stop > len(tokens):
            return None
        # one behind a prompt that ends in pieces is what the server wrote
        last = stop - 1 if not after and stop - number > 1 else stop
        parts = values[number:last]
        texts.append(prompt[place:end])
        sums.append(None if None in parts else sum(value for value in parts if value is not None))
        place, number = end, last
    return (texts, sums, number) if place == len(prompt) else None


def _end_of_pieces(prompt: str, place: int, pieces: str, after: str) -> int | None:
    """Return where the text of some pieces ends in a prompt: at the token after them, or with the prompt; None if nowhere."""
    letters = [letter for letter in pieces if letter.isascii()]
    for end in range(place, len(prompt) + 1):
        if not letters and (end == len(prompt) or ((end > place or not pieces) and after and prompt.startswith(after, end))):
            return end
        if end == len(prompt) or (prompt[end].isascii() and prompt[end] not in letters[:1]):
            return None
        if prompt[end].isascii():
            letters.pop(0)
    return None


def read_number(value: Any) -> float | None:
    """Return a number of an answer, NaN if it is none that a log-probability can be; None for what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= sys.float_info.max else math.nan  # JSON has whole numbers that no float holds


_READERS: dict[str, Callable[[Json, str], tuple[list[str], list[float | None], int]]] = {
    "echo": _echo,
    "prompt_logprobs": _prompt_logprobs,
}
