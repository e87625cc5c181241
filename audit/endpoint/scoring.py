"""Scores of canaries under a served model: higher means more likely in its training data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.training import Progress
from audit.endpoint import next_tokens
from audit.endpoint.canary_files import CHAT, TextCanary
from audit.endpoint.client import Client
from audit.endpoint.probe import probe
from audit.endpoint.sealed_scoring import Score, score_shuffled
from audit.endpoint.token_scores import ask, write_continuation

LOG_PROBABILITIES, NEXT_TOKENS, GENERATIONS, SAMPLES = "log_probabilities", "next_tokens", "generations", "samples"
DRAWS = 8  # answers to each question, of samples
Prepare = Callable[[Client, str, TextCanary], tuple[Score, tuple[str, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedScores:
    """Scores `(m,)` and how they came about, in words."""

    values: Array
    remarks: tuple[str, ...]


def served_scores(
    client: Client, models: tuple[str, str], canaries: Sequence[TextCanary], progress: Progress, rule: str = ""
) -> ServedScores:
    """Return the score of each canary in the context that it was planted in, minus that under a reference if one is named.

    Args:
        client: of the server.
        models: names of the audited one and of a reference on the same server, such as the base of an adapter; "" for none.
        canaries: to score, decoys among them.
        progress: receives scored canaries.
        rule: of `SCORES`; "" takes log-probabilities of texts, and lists of next tokens for chats.

    Raises:
        ConfigError: a chat is to be scored as a prompt.
        ObservationError: the server's answers cannot be believed (`probe`), it stopped answering, both models are one, or the
            model changed on the way.
    """
    is_chat = canaries[0].context.form == CHAT
    rule = rule or (NEXT_TOKENS if is_chat else LOG_PROBABILITIES)
    if is_chat and rule == LOG_PROBABILITIES:
        raise ConfigError("servers score no prompt of a chat; use --score next_tokens, generations or samples")
    names = [name for name in models if name]
    rules = {name: SCORES[rule](client, name, canaries[0]) for name in names}  # a wrong name is noticed here
    outcome = score_shuffled(client, {name: score for name, (score, _) in rules.items()}, canaries, progress)
    notes_by_model = [f"{name}: {note}" for name, (_, notes) in rules.items() for note in notes]
    form = "chats, the question as it was planted" if is_chat else "texts"
    cost = f"{client.requests:,} requests ({client.failures:,} failed), {client.tokens:,} tokens counted"
    values = outcome.values[names[0]] - outcome.values[names[1]] if len(names) > 1 else outcome.values[names[0]]
    return ServedScores(values=values, remarks=(f"scored as {form}", *notes_by_model, *outcome.remarks, cost))


def _by_log_probabilities(client: Client, model: str, _: TextCanary) -> tuple[Score, tuple[str, ...]]:
    """Score by the log-probability of each secret behind what is before it."""
    capability = probe(client, model)

    def score(canary: TextCanary) -> float:
        whole = canary.opening + canary.secret
        return ask(client, capability.way, model, whole).from_character(len(canary.opening))

    return score, capability.remarks


def _by_next_tokens(client: Client, model: str, example: TextCanary) -> tuple[Score, tuple[str, ...]]:
    """Score by lists of likely next tokens: a request for each of a secret's tokens, and one for a chat."""
    width = next_tokens.widest(client, model, example.context)
    remark = f"secrets spelled by lists of up to {width:,} likely next tokens"
    return lambda canary: next_tokens.log_probability(client, model, canary, width), (remark,)


def _by_generations(client: Client, model: str, _: TextCanary) -> tuple[Score, tuple[str, ...]]:
    """Score by the share of each secret that the model writes greedily; needs no log-probabilities."""
    return lambda canary: agreement(write_continuation(client, model, canary), canary), ("greedy continuations",)


def _by_samples(client: Client, model: str, _: TextCanary) -> tuple[Score, tuple[str, ...]]:
    """Score by the mean share of each secret in answers that are drawn at temperature 1."""

    def score(canary: TextCanary) -> float:
        texts = [write_continuation(client, model, canary, temperature=1, seed=draw) for draw in range(DRAWS)]
        return float(np.mean([agreement(text, canary) for text in texts]))

    return score, (f"{DRAWS} continuations of each, drawn at temperature 1",)


def agreement(text: str, canary: TextCanary) -> float:
    """Return the share of a secret, from its beginning, that a continuation begins with; of a chat, that it holds anywhere.

    >>> agreement("It is 1299.", TextCanary(prefix="a", secret="1234", included=True, context=Context(form="chat")))
    0.5
    """
    secret, text = canary.secret.lstrip(), text.lstrip()
    starts = range(max(len(text), 1)) if canary.context.form == CHAT else range(1)
    return max(_agreement(text[start:], secret) for start in starts) / max(len(secret), 1)


def _agreement(text: str, secret: str) -> int:
    length = 0
    while length < min(len(text), len(secret)) and text[length] == secret[length]:
        length += 1
    return length


SCORES: Mapping[str, Prepare] = {
    LOG_PROBABILITIES: _by_log_probabilities,
    NEXT_TOKENS: _by_next_tokens,
    GENERATIONS: _by_generations,
    SAMPLES: _by_samples,
}
