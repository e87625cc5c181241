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
from audit.endpoint.canary_files import TextCanary
from audit.endpoint.client import Client, UnreachableServer
from audit.endpoint.token_scores import choice, read_number

Json = Mapping[str, Any]
WIDTHS = (1000, 20, 5)  # of the lists: whole vocabularies of llama.cpp, vLLM's and OpenAI's usual caps
PROBE = "The quick brown fox jumps over the lazy"


def widest(client: Client, model: str) -> int:
    """Return how many of the likeliest next tokens the server lists, of `WIDTHS`.

    Raises:
        ObservationError: it lists none, or fewer than two; says of each width why not.
    """
    reasons = []
    for width in WIDTHS:
        try:
            request = _request(model, PROBE, width)
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
    """Return the log-probability of a canary's secret behind its prefix, spelled token by token.

    Space at the prefix's end is spelled with the secret: many tokenizers begin words with it.
    """
    beginning = canary.prefix.rstrip() or canary.prefix
    remainder, total = canary.text[len(beginning) :], 0.0
    while remainder:
        body = _request(model, beginning, width)
        length, value = client.completion(body, partial(_step, rest=remainder), purpose=f"spell {remainder}")
        total += value if length else value * len(remainder)
        beginning, remainder = beginning + remainder[:length], remainder[length:] if length else ""
    return total


def _request(model: str, prompt: str, width: int) -> dict[str, Any]:
    return {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0, "logprobs": width}


def _step(answer: Json, rest: str) -> tuple[int, float]:
    """Return the characters of the longest listed token that begins `rest`, and its value; 0 and the lowest if none."""
    candidates = _candidates(answer)
    fits = [token for token in candidates if token and rest.startswith(token)]
    if fits:
        longest = max(fits, key=len)
        return len(longest), candidates[longest]
    return 0, min(candidates.values())


def _candidates(answer: Json) -> dict[str, float]:
    """Return the listed next tokens with their log-probabilities, of either form: completions' own, or that of chats."""
    logs = choice(answer).get("logprobs")
    steps = (logs.get("top_logprobs") or logs.get("content")) if isinstance(logs, dict) else None
    if not isinstance(steps, list) or not steps or not isinstance(steps[0], dict):
        raise ObservationError("the answer lists no likely tokens ('top_logprobs')")
    rows = steps[0].get("top_logprobs") if "top_logprobs" in steps[0] else _rows(steps[0])
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
