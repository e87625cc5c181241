"""Scores of canaries under a served model: higher means more likely in its training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.data import Array
from audit.core.training import Progress
from audit.endpoint.canary_files import TextCanary
from audit.endpoint.client import Client
from audit.endpoint.probe import Capability, probe
from audit.endpoint.token_scores import ask, written

LOG_PROBABILITIES, GENERATIONS = "log_probabilities", "generations"
SCORES = (LOG_PROBABILITIES, GENERATIONS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedScores:
    """Scores `(m,)` and how they came about, in words."""

    values: Array
    remarks: tuple[str, ...]


def log_probability_scores(
    client: Client, model: str, canaries: Sequence[TextCanary], progress: Progress, reference: str = ""
) -> ServedScores:
    """Return the log-probability of each secret behind its prefix, minus that under a reference model where one is named.

    Args:
        client: of the server.
        model: that is audited.
        canaries: to score.
        progress: hears of scored canaries.
        reference: another model of the same server, such as the base that an adapter was trained on.

    Raises:
        ObservationError: the server's log-probabilities cannot be believed (`probe`), or it stopped answering.
    """
    remarks: list[str] = []
    total = np.zeros(len(canaries))
    for name, sign in ((model, 1.0), (reference, -1.0)):
        if name:
            capability = probe(client, name)
            remarks += [f"{name}: {remark}" for remark in capability.remarks]
            total += sign * _secrets(client, name, canaries, capability, progress)
    return ServedScores(values=total, remarks=tuple(remarks))


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


def _secrets(client: Client, model: str, canaries: Sequence[TextCanary], capability: Capability, progress: Progress) -> Array:
    def secret(canary: TextCanary) -> float:
        return ask(client, capability.way, model, canary.text).from_character(len(canary.prefix))

    values = np.zeros(len(canaries))
    for number, value in client.each(secret, canaries):
        values[number] = value
        progress(1)
    return values
