"""Secrets at the end of texts, with the errors that every text canary shares."""

import numpy as np

from attacks.canaries import _pool
from audit.core.canaries import Canaries, CanaryTexts, Secrets
from audit.core.data import Array, Dataset, Records, Vocabulary
from audit.core.errors import ConfigError
from audit.core.phrases import join_clauses
from audit.core.seeds import Seed

SECRET_ONLY = "the loss of a canary is that of its secret alone, a mask that real records do not have"


def vocabulary(dataset: Dataset, kind: str, *, users: bool = False) -> Vocabulary:
    """The tokens of the data; `ConfigError` if the records are no texts, or have classes, or hold several texts of a user."""
    if dataset.vocabulary is None:
        raise ConfigError(f"canaries '{kind}' are texts and {dataset.name} holds none; use data kind 'text', or another canary")
    if dataset.classes:
        raise ConfigError(f"canaries '{kind}' end in tokens to predict and texts of {dataset.name} have classes; use held_out")
    if dataset.vocabulary.text_length and not users:
        raise ConfigError(
            f"canaries '{kind}' are one text and a record of {dataset.name} holds all texts of a user; use new_token, "
            "random_tokens, rare_bigrams or held_out"
        )
    return dataset.vocabulary


def at_the_end(dataset: Dataset, secrets: Array, seed: Seed, kind: str) -> Records:
    """Random texts of the pool, each at most once, ending in a secret that alone is to be predicted; `ConfigError` if there
    are more canaries than the pool has texts, or secrets that fill a whole text.

    If a record is a user, each of the user's texts ends in the same secret: repeated inside one unit of privacy.

    Args:
        secrets: `(m, k)` tokens.
    """
    rows = _pool.choose(dataset, len(secrets), seed, kind)
    prefixes, length = dataset.pool.inputs[rows], dataset.vocabulary.text_length if dataset.vocabulary else 0
    if not length:
        return ending_in(prefixes, secrets, kind)
    texts, per_user = prefixes.reshape(-1, length), prefixes.shape[1] // length
    ends = ending_in(texts, np.repeat(secrets, per_user, axis=0), kind)
    # a user with fewer texts is filled up with empty ones, which get no secret
    is_text = (texts >= 0).any(axis=1, keepdims=True)
    parts = (np.where(is_text, part, -1).reshape(len(prefixes), -1) for part in (ends.inputs, ends.labels))
    return Records(inputs=next(parts).astype(prefixes.dtype), labels=next(parts))


def ending_in(prefixes: Array, secrets: Array, kind: str) -> Records:
    """Texts `(m, T)` that begin as `prefixes` (-1 behind their end) and end in `secrets` `(m, k)`.

    A prefix that leaves no room is cut.
    """
    length, width = prefixes.shape[1], secrets.shape[1]
    if width >= length:
        raise ConfigError(f"canaries '{kind}': a secret of {width} tokens in texts of {length}; expected fewer, after a prefix")
    # one token before it at least: the first is never predicted
    starts = np.clip((prefixes >= 0).sum(axis=1), 1, length - width)
    places = np.arange(length)
    inside = (places >= starts[:, None]) & (places < starts[:, None] + width)
    tokens = np.where(places < starts[:, None], prefixes, -1).astype(np.int64)
    tokens[inside] = secrets.ravel()
    labels = np.where(inside, tokens, -1)
    return Records(inputs=tokens.astype(prefixes.dtype), labels=labels)


def law(vocabulary: Vocabulary, first: int, stop: int) -> tuple[int, int] | None:
    """The tokens that secrets were drawn from one by one; None if texts of a user repeat one secret."""
    return None if vocabulary.text_length else (first, stop)


def canaries(
    kind: str, words: str, records: Records, drawn_from: tuple[int, int] | None, secrets: Secrets | None = None
) -> Canaries:
    """Canaries of these texts; `identifiers` are -1 because no source row holds them."""
    return Canaries(
        kind=kind,
        description=join_clauses((words, SECRET_ONLY)),
        payload=CanaryTexts(records=records, identifiers=np.full(len(records), -1), secret_tokens=drawn_from),
        secrets=secrets,
    )
