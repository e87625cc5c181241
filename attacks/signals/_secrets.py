"""Log-probabilities of secrets, and of the candidates that were possible instead."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from attacks.signals._texts import read_texts
from audit.core.canaries import Canaries, CanaryTexts
from audit.core.data import Array, Records
from audit.core.models import TextModels
from audit.core.seeds import Seed

Rivals = Iterator[tuple[Array, Array]]

_PART = 4096  # texts that a model is asked about at once


def comparison(models: TextModels, canaries: Canaries, count: int, seed: int) -> tuple[Array, Rivals] | None:
    """Return `(N, m)` log-probabilities of the texts' own secrets, and those of `count` rivals, as `_rivals` yields them.

    None for canaries that are no texts, or if secrets were not drawn token by token.
    """
    payload = canaries.payload
    records = read_texts(canaries)
    if records is None or not isinstance(payload, CanaryTexts) or payload.secret_tokens is None:
        return None
    secrets = _sums(models, records.inputs, records.labels >= 0)
    return secrets, _rivals(models, records, payload.secret_tokens, count, seed)


def _rivals(models: TextModels, records: Records, law: tuple[int, int], count: int, seed: int) -> Rivals:
    """Yield `(N, m)` log-probabilities of secrets drawn by the law token by token, and `(m,)` whether each is the text's own.

    Args:
        law: first token and the one behind the last, each as likely.
        count: secrets of each text.
        seed: of the draw, which is the same for all models.
    """
    secret = records.labels >= 0
    generator = Seed(seed).child("secret ranks").numpy()
    for _ in range(count):
        drawn = generator.integers(*law, size=records.labels.shape)
        texts = np.where(secret, drawn, records.inputs).astype(records.inputs.dtype)
        yield _sums(models, texts, secret), (texts == records.inputs).all(axis=1)


def _sums(models: TextModels, inputs: Array, secret: Array) -> Array:
    """`(N, m)` log-probability of each secret."""
    parts = []
    for start in range(0, len(inputs), _PART):
        part = slice(start, start + _PART)
        parts.append((models.outputs(inputs[part]) * secret[part]).sum(axis=-1, dtype=np.float64))
    return np.concatenate(parts, axis=1)
