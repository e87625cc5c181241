"""Scores of canaries under a served model: higher means more likely in its training data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.training import Progress
from audit.endpoint import next_tokens
from audit.endpoint.canary_files import TextCanary
from audit.endpoint.client import Client
from audit.endpoint.probe import probe
from audit.endpoint.token_scores import ask, written

LOG_PROBABILITIES, NEXT_TOKENS, GENERATIONS = "log_probabilities", "next_tokens", "generations"
SCORES = (LOG_PROBABILITIES, NEXT_TOKENS, GENERATIONS)
Score = Callable[[TextCanary], float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedScores:
    """Scores `(m,)` and how they came about, in words."""

    values: Array
    remarks: tuple[str, ...]


def log_probability_scores(
    client: Client, model: str, canaries: Sequence[TextCanary], progress: Progress, reference: str = ""
) -> ServedScores:
    """Return the log-probability of each secret behind its prefix, minus that under a reference model if one is named.

    Args:
        client: of the server.
        model: that is audited.
        canaries: to score.
        progress: receives scored canaries.
        reference: another model of the same server, such as the base that an adapter was trained on.

    Raises:
        ObservationError: the server's log-probabilities cannot be believed (`probe`), it stopped answering, or both are one.
    """

    def prepare(name: str) -> tuple[Score, tuple[str, ...]]:
        capability = probe(client, name)
        return lambda canary: ask(client, capability.way, name, canary.text).from_character(
            len(canary.prefix)
        ), capability.remarks

    return _differences(client, (model, reference), canaries, progress, prepare)


def next_token_scores(
    client: Client, model: str, canaries: Sequence[TextCanary], progress: Progress, reference: str = ""
) -> ServedScores:
    """Return what `log_probability_scores` does, from lists of likely next tokens: a request for each of a secret's tokens.

    Raises:
        ObservationError: the server lists no likely tokens (`next_tokens.widest`), or it stopped answering.
    """

    def prepare(name: str) -> tuple[Score, tuple[str, ...]]:
        width = next_tokens.widest(client, name)
        remark = f"secrets spelled by lists of up to {width:,} likely next tokens"
        return lambda canary: next_tokens.log_probability(client, name, canary, width), (remark,)

    return _differences(client, (model, reference), canaries, progress, prepare)


def generation_scores(client: Client, model: str, canaries: Sequence[TextCanary], progress: Progress) -> ServedScores:
    """Return the share of each secret that the model writes greedily behind its prefix; needs no log-probabilities."""

    def share(canary: TextCanary) -> float:
        text = written(client, model, canary.prefix, len(canary.secret.encode("utf-8"))).lstrip()
        secret = canary.secret.lstrip()
        agreement = 0
        while agreement < min(len(text), len(secret)) and text[agreement] == secret[agreement]:
            agreement += 1
        return agreement / max(len(secret), 1)

    values = np.zeros(len(canaries))
    for number, value in client.each(share, canaries):
        values[number] = value
        progress(1)
    return ServedScores(values=values, remarks=(f"{model}: greedy continuations of the prefixes",))


def _differences(
    client: Client,
    names: tuple[str, str],
    canaries: Sequence[TextCanary],
    progress: Progress,
    prepare: Callable[[str], tuple[Score, tuple[str, ...]]],
) -> ServedScores:
    """Return the scores under the first model less those under the second, if it has a name.

    Raises:
        ObservationError: both names give the same scores throughout: some servers answer to any name with the model they have.
    """
    remarks: list[str] = []
    parts = []
    for name in filter(None, names):
        score, notes = prepare(name)
        remarks += [f"{name}: {note}" for note in notes]
        values = np.zeros(len(canaries))
        for number, value in client.each(score, canaries):
            values[number] = value
            progress(1)
        parts.append(values)
    if len(parts) > 1 and np.array_equal(parts[0], parts[1]):
        raise ObservationError(
            f"'{names[0]}' and '{names[1]}' give every canary the same score: the server answers to both names with one "
            "model, or the training changed nothing"
        )
    return ServedScores(values=parts[0] - parts[1] if len(parts) > 1 else parts[0], remarks=tuple(remarks))
