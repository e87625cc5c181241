"""Log-probabilities of secrets out of lists of the likeliest next tokens, for servers that score no prompts.

A secret is spelled token by token: at each step the longest listed token that continues with it counts. A secret that leaves
the list has its rest counted at the list's lowest value, a character at a time, which is at least what it deserves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from audit.core.errors import ObservationError
from audit.endpoint.canary_files import CHAT, PLAIN, Context, TextCanary
from audit.endpoint.client import Client, UnreachableServer
from audit.endpoint.token_scores import choice, continuation, read_number

Json = Mapping[str, Any]
WIDTHS = (1000, 20, 5)  # of the lists: whole vocabularies of llama.cpp, vLLM's and OpenAI's usual caps
PROBE = "The quick brown fox jumps over the lazy"


def widest(client: Client, model: str, context: Context = PLAIN) -> int:
    """Return how many of the likeliest next tokens the server lists, of `WIDTHS`.

    Raises:
        ObservationError: it lists none, or fewer than two; says of each width why not.
    """
    reasons = []
    for width in WIDTHS:
        try:
            request = _request(model, TextCanary(prefix=PROBE, secret="dog", included=False, context=context), width)
            candidates = client.completion(request, lambda answer: sorted(_candidates(answer).values()), purpose="widest")
            if len(candidates) > 1 and candidates[0] < candidates[-1]:
                return width
            reasons.append(f"{width}: it lists {len(candidates)} different tokens or fewer")
        except UnreachableServer:
            raise
        except ObservationError as error:
            reasons.append(f"{width}: {error}")
    raise ObservationError(f"this server lists no likely next tokens. {'. '.join(reasons)}. Use --score generations")


def log_probability(client: Client, model: str, canary: TextCanary, width: int) -> float:
    """Return the log-probability of a canary's secret behind what is before it, spelled token by token.

    Space at the prefix's end is spelled with the secret: many tokenizers begin words with it.
    """
    if canary.context.form == CHAT:
        return float(
            client.completion(_request(model, canary, width), partial(_spell, secret=canary.secret), f"spell {canary.secret}")
        )
    beginning, whole = canary.opening.rstrip() or canary.opening, canary.opening + canary.secret
    remainder, total = whole[len(beginning) :], 0.0
    while remainder:
        body = {"model": model, "prompt": beginning, "max_tokens": 1, "temperature": 0, "logprobs": width}
        length, value = client.completion(body, partial(_step, rest=remainder), purpose=f"spell {remainder}")
        total += value if length else value * len(remainder)
        beginning, remainder = beginning + remainder[:length], remainder[length:] if length else ""
    return total


def _request(model: str, canary: TextCanary, width: int) -> dict[str, Any]:
    if canary.context.form != CHAT:
        return continuation(model, canary, 1, logprobs=width)
    return continuation(model, canary, len(canary.secret.encode("utf-8")), logprobs=True, top_logprobs=width)


def _spell(answer: Json, secret: str) -> float:
    """Return the log-probability of a secret as an answer, as far as the model's own answer agrees with it.

    A chat cannot be begun for the model, so the lists of its own answer serve: at each token the listed one that continues
    the secret counts. From the token on where the model writes something else, the lowest value counts for each character.
    """
    logs = choice(answer).get("logprobs")
    steps = logs.get("content") if isinstance(logs, dict) else None
    if not isinstance(steps, list) or not steps:
        raise ObservationError("the answer lists no likely tokens ('top_logprobs')")
    total, rest, lowest = 0.0, secret.lstrip(), 0.0
    for number, step in enumerate(steps):
        candidates, own = _candidates_at(step), str(step.get("token"))
        if number == 0:  # an answer may begin with a space
            candidates, own = {token.lstrip() or token: value for token, value in candidates.items()}, own.lstrip()
        length, value = _longest(candidates, rest)
        lowest, beginning_match = min(candidates.values()), rest[:length]
        total, rest = total + value, rest[length:]
        if not rest or not length or own != beginning_match:
            break
    return total + lowest * len(rest)


def _step(answer: Json, rest: str) -> tuple[int, float]:
    """Return the characters of the longest listed token that begins `rest`, and its value; 0 and the lowest if none."""
    length, value = _longest(_candidates(answer), rest)
    return length, value if length else min(_candidates(answer).values())


def _longest(candidates: Mapping[str, float], rest: str) -> tuple[int, float]:
    """Return the characters and the value of the longest token that begins `rest`; (0, 0.0) if none does."""
    longest = max((token for token in candidates if token and rest.startswith(token)), key=len, default="")
    return len(longest), candidates.get(longest, 0.0) if longest else 0.0


def _candidates(answer: Json) -> dict[str, float]:
    """Return the listed next tokens with their log-probabilities, of either form: completions' own, or that of chats."""
    logs = choice(answer).get("logprobs")
    steps = (logs.get("top_logprobs") or logs.get("content")) if isinstance(logs, dict) else None
    if not isinstance(steps, list) or not steps:
        raise ObservationError("the answer lists no likely tokens ('top_logprobs')")
    return _candidates_at(steps[0])


def _candidates_at(step: Any) -> dict[str, float]:
    if not isinstance(step, dict):
        raise ObservationError("the answer lists no likely tokens ('top_logprobs')")
    rows = step.get("top_logprobs") if "top_logprobs" in step else _rows(step)
    pairs = [_pair(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    candidates: dict[str, float] = {}
    for token, value in pairs:  # a byte and a letter can have one text: the likelier counts
        if math.isfinite(value):
            candidates[token] = max(value, candidates.get(token, value))
    if not candidates or max(candidates.values()) > 1e-6:
        raise ObservationError("the listed tokens have no finite log-probabilities, or positive ones")
    return candidates


def _rows(values: Json) -> list[Json]:
    return [{"token": token, "logprob": value} for token, value in values.items()]


def _pair(row: Json) -> tuple[str, float]:
    number = read_number(row.get("logprob"))
    return str(row.get("token")), math.nan if number is None else number
