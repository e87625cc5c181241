"""Log-probabilities of canaries' secrets under a torch model of any trainer, and where the secrets stand in prepared data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from audit.core.data import Array
from audit.core.errors import DataError

Encode = Callable[[str], Sequence[int]]
Collate = Callable[[list[Any]], Mapping[str, Any]]
IGNORED_LABEL = -100  # transformers' label of tokens that are not predicted


def secret_start(encode: Encode, prefix: str, text: str) -> tuple[list[int], int]:
    """Return the tokens of a text and the number of the first that differs from its prefix's own tokens.

    Raises:
        DataError: no token is left for the secret.
    """
    tokens, before = list(encode(text)), list(encode(prefix))
    start = 0
    while start < min(len(tokens), len(before)) and tokens[start] == before[start]:
        start += 1
    start = max(start, 1)
    if start >= len(tokens):
        raise DataError(f"the tokenizer leaves no token of its own for the secret behind {prefix!r}; use a longer secret")
    return tokens, start


def secret_log_probabilities(module: nn.Module, encode: Encode, texts: Sequence[tuple[str, str]]) -> Array:
    """Return the log-probability of each secret behind its prefix, `(m,)` float64; the model is left in the mode it was in.

    Args:
        module: a causal language model whose outputs have `logits`.
        encode: text to token numbers, as for training.
        texts: pairs of prefix and whole text.

    Raises:
        DataError: a text has a token that the model does not know, or more tokens than it takes.
    """
    device = next(module.parameters()).device
    training, values = module.training, np.empty(len(texts))
    module.eval()
    try:
        with torch.no_grad():
            for row, (prefix, text) in enumerate(texts):
                tokens, start = secret_start(encode, prefix, text)
                _demand_room(module, tokens, text)
                ids = torch.tensor([tokens], device=device)
                logits = module(input_ids=ids).logits[0, start - 1 : -1].double()
                values[row] = -float(F.cross_entropy(logits, ids[0, start:], reduction="sum"))
    finally:
        module.train(training)
    return values


def _demand_room(module: nn.Module, tokens: Sequence[int], text: str) -> None:
    """Raise `DataError` if a model of transformers has no embedding for a token, or for a place."""
    embeddings = module.get_input_embeddings() if hasattr(module, "get_input_embeddings") else None  # type: ignore[operator]
    known_tokens = getattr(embeddings, "num_embeddings", None)
    if isinstance(known_tokens, int) and not 0 <= min(tokens) <= max(tokens) < known_tokens:
        raise DataError(
            f"{text[:80]!r} holds token {max(tokens)}, and the model knows {known_tokens} tokens, from 0 on: "
            "the tokenizer is larger than the model; take the one that it was trained with"
        )
    places = getattr(getattr(module, "config", None), "max_position_embeddings", None)
    if isinstance(places, int) and 0 < places < len(tokens):
        raise DataError(f"{text[:80]!r} has {len(tokens)} tokens, and the model takes {places}; use shorter canaries")


def count_places(
    rows: Iterable[Mapping[str, Any]], secrets: Sequence[Sequence[int]], collate: Collate | None = None
) -> list[tuple[int, int]]:
    """Return how often each secret is in prepared rows, and how many of its tokens are predicted there, at most.

    A secret counts if all its tokens are, but for the first, which a tokenizer may join to what is before it.

    Args:
        rows: with `input_ids`, and `labels` unless the collator makes them (then all tokens are predicted).
        secrets: tokens of each; distinguished by their last ones, as many as the shortest has.
        collate: makes a batch of rows: what it cuts or gives no label is not trained on. Asked about rows with a secret, and
            about rows without `input_ids`.
    """
    width = min(len(secret) for secret in secrets)
    owners = {tuple(secret[-width:]): number for number, secret in enumerate(secrets)}
    if len(owners) < len(secrets):
        raise DataError(f"secrets are told apart by their last {width} tokens, and two are the same; use longer secrets")
    counts, predicted_counts = [0] * len(secrets), [0] * len(secrets)
    for row in rows:
        content = row if "input_ids" in row or collate is None else collate([row])
        tokens = _numbers(content["input_ids"])
        if collate is not None and content is row and any(_ends(tokens, owners, secrets, width)):
            content = collate([row])
            tokens = _numbers(content["input_ids"])
        labels = content.get("labels")
        targets = None if labels is None else _numbers(labels)
        for number, end in _ends(tokens, owners, secrets, width):
            own = range(max(end - width, 1), end)  # nothing predicts the first token of a row
            counts[number] += 1
            is_target = [targets is None or targets[at] != IGNORED_LABEL for at in own]
            predicted_counts[number] = max(predicted_counts[number], sum(is_target))
    return list(zip(counts, predicted_counts, strict=True))


def _ends(
    tokens: Sequence[int], owners: Mapping[tuple[int, ...], int], secrets: Sequence[Sequence[int]], width: int
) -> Iterator[tuple[int, int]]:
    """Yield the number of each secret in a row, and the place behind it."""
    for end in range(width, len(tokens) + 1):
        number = owners.get(tuple(tokens[end - width : end]))
        if number is not None:
            remainder = list(secrets[number][1:])
            start = end - len(remainder)
            if start >= 0 and list(tokens[start:end]) == remainder:
                yield number, end


def _numbers(values: Any) -> list[int]:
    """Token numbers of a row, or of the one row of a batch, as a plain list."""
    return np.asarray(values).astype(np.int64).ravel().tolist()
