"""Log-probabilities of canaries' secrets under a torch model of any trainer, and the places of the secrets in prepared data."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from audit.core.data import Array
from audit.core.errors import DataError, UnsupportedMechanism

Encode = Callable[[str], Sequence[int]]
Collate = Callable[[list[Any]], Mapping[str, Any]]
Pieces = tuple[str, str] | tuple[str, str, str]
IGNORED_LABEL = -100  # transformers' label of tokens that are not predicted
# numbers of one pass at least and at most (4 MB and 128 MB in float32), between them a part of the model's own
LEAST_LOGITS, MOST_LOGITS, LOGITS_SHARE = 1 << 20, 1 << 25, 1 / 256
CAUSAL = 100  # roundings of the logits' spread by which a later token may change earlier ones


@dataclass(frozen=True, slots=True)
class SecretTokens:
    """The tokens of a whole text, of which those from `start` to before `stop` are its secret's."""

    tokens: list[int]
    start: int
    stop: int

    @property
    def secret(self) -> list[int]:
        return self.tokens[self.start : self.stop]


def secret_tokens(encode: Encode, pieces: Pieces) -> SecretTokens:
    """Return the tokens of a text, and which of them are the secret's: those that neither its beginning nor its end has.

    Pieces are prefix and whole text; or what is before the secret, the secret, and what is behind it. `DataError` if no token
    is left for the secret.
    """
    before, text, after = (pieces[0], pieces[1], "") if len(pieces) == 2 else (pieces[0], "".join(pieces), pieces[2])
    tokens = list(encode(text))
    start = max(_common(tokens, encode(before)), 1)
    # the tokens of nothing are those that a tokenizer ends every text with
    stop = len(tokens) - _common(tokens[start:][::-1], list(encode(after))[::-1])
    if start >= stop:
        raise DataError(f"the tokenizer leaves no token of its own for the secret behind {before!r}; use a longer secret")
    return SecretTokens(tokens, start, stop)


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    count = 0
    while count < min(len(first), len(second)) and first[count] == second[count]:
        count += 1
    return count


def secret_log_probabilities(module: nn.Module, encode: Encode, texts: Sequence[Pieces]) -> Array:
    """Return the log-probability of each secret behind what is before it, `(m,)` float64, under a causal model with `logits`.

    The module is left in the mode it was in; texts are as for `secret_tokens`, and encoded as for training. `DataError` for a
    token that the model does not know, or more than it takes; `UnsupportedMechanism` if it predicts no next token: an encoder
    with a decoder, a masked model, a classifier.
    """
    rows = [secret_tokens(encode, pieces) for pieces in texts]
    values = token_log_probabilities(module, [row.tokens for row in rows])
    return np.array([scores[row.start - 1 : row.stop - 1].sum() for row, scores in zip(rows, values, strict=True)])


def text_scores(module: nn.Module, encode: Encode, pairs: Sequence[tuple[str, str]]) -> list[tuple[Array, Array]]:
    """Return the log-probabilities of the tokens of each text behind what is before it ("" for nothing), and standardised."""
    rows = [
        SecretTokens(list(encode(text)), 1, 0) if not before else secret_tokens(encode, (before, text, ""))
        for before, text in pairs
    ]

    def standardise(log_softmax: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        values = log_softmax.double()
        chances = values.exp()
        mean = (chances * values).sum(-1)
        deviation = ((chances * values.square()).sum(-1) - mean.square()).clamp(min=0).sqrt()
        flat = deviation <= 1e-3
        standardised = torch.where(flat, 0.0, (scores - mean) / torch.where(flat, 1.0, deviation))
        return torch.stack([scores, standardised], -1)

    values = token_log_probabilities(module, [row.tokens for row in rows], standardise)
    return [(part[row.start - 1 :, 0], part[row.start - 1 :, 1]) for row, part in zip(rows, values, strict=True)]


def token_log_probabilities(
    module: nn.Module, rows: Sequence[Sequence[int]], reduce: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None
) -> list[Array]:
    """Return for each text the log-probabilities of its tokens from the second on, `(T - 1,)` float64.

    `reduce` makes other scores of log-probabilities `(n, T - 1, tokens)` of all tokens and the texts' own `(n, T - 1)`. Texts
    of one length share a pass, so that none is padded.
    """
    device = next(module.parameters()).device
    training, results = module.training, list[Array]([np.empty(0)] * len(rows))
    module.eval()
    try:
        with torch.no_grad():
            for tokens in rows:
                _demand_room(module, tokens)
            vocabulary = _demand_causal(module, max(rows, key=len), device)
            parameters = sum(parameter.numel() for parameter in module.parameters())
            logit_limit = max(LEAST_LOGITS, min(MOST_LOGITS, int(parameters * LOGITS_SHARE)))
            for numbers in _batches(rows, logit_limit // vocabulary):
                ids = torch.tensor([list(rows[number]) for number in numbers], device=device)
                log_softmax = torch.log_softmax(module(input_ids=ids).logits[:, :-1].float(), dim=-1)
                scores = log_softmax.gather(2, ids[:, 1:, None])[..., 0]
                values = scores if reduce is None else reduce(log_softmax, scores)
                for number, row in zip(numbers, values.cpu().double().numpy(), strict=True):
                    results[number] = row
    finally:
        module.train(training)
    return results


def _batches(rows: Sequence[Sequence[int]], tokens: int) -> Iterator[list[int]]:
    """Yield numbers of rows of one length, as many as have so many tokens together, and one at least."""
    lengths: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        lengths.setdefault(len(row), []).append(number)
    for length, numbers in lengths.items():
        size = max(1, tokens // length)
        yield from (numbers[start : start + size] for start in range(0, len(numbers), size))


def _demand_causal(module: nn.Module, tokens: Sequence[int], device: torch.device) -> int:
    """Return how many tokens the model distinguishes; raise `UnsupportedMechanism` if it is none that writes token by token."""
    name, config = type(module).__name__, getattr(module, "config", None)
    advice = "; a canary's secret is scored by the tokens before it alone: give a causal model (AutoModelForCausalLM)"
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedMechanism(f"{name} is an encoder with a decoder, whose places do not match the text's{advice}")
    variant = [*tokens[:-1], tokens[-1] - 1 if tokens[-1] else 1]
    # one text at a time: some classifiers take no more without a padding token
    passes = [module(input_ids=torch.tensor([list(row)], device=device)) for row in (tokens, variant)]
    logits, variant_logits = (cast(torch.Tensor | None, getattr(output, "logits", None)) for output in passes)
    has_rows = logits is not None and logits.ndim == 3 and logits.shape[1] == len(tokens) and logits.shape[2] > max(tokens)
    if logits is None or variant_logits is None or not has_rows:
        shape = "no logits" if logits is None else f"logits {tuple(logits.shape)}"
        raise UnsupportedMechanism(f"{name} answers {len(tokens)} tokens with {shape}, as a classifier does{advice}")
    before, rounding = logits[:, :-1].float(), torch.finfo(logits.dtype).eps
    if float((before - variant_logits[:, :-1].float()).abs().max()) > min(CAUSAL * rounding, 0.2) * float(before.std()):
        raise UnsupportedMechanism(f"{name} looks at later tokens when it predicts earlier ones, as masked models do{advice}")
    return int(logits.shape[2])


def _demand_room(module: nn.Module, tokens: Sequence[int]) -> None:
    """Raise `DataError` if a model of transformers has no embedding for a token, or for a place."""
    embeddings = module.get_input_embeddings() if hasattr(module, "get_input_embeddings") else None  # type: ignore[operator]
    known_tokens = getattr(embeddings, "num_embeddings", None)
    if isinstance(known_tokens, int) and not 0 <= min(tokens) <= max(tokens) < known_tokens:
        raise DataError(
            f"a canary holds token {max(tokens)}, and the model knows {known_tokens} tokens, from 0 on: "
            "the tokenizer is larger than the model; take the one that it was trained with"
        )
    places = getattr(getattr(module, "config", None), "max_position_embeddings", None)
    if isinstance(places, int) and 0 < places < len(tokens):
        raise DataError(f"a canary has {len(tokens)} tokens, and the model takes {places}; use shorter canaries")


class SecretFinder:
    """Finds secrets in rows of tokens.

    A secret is there if all its tokens are, but for the first, which a tokenizer may join to what is before it, unless a single
    one is left, as any number may end; of secrets that differ in the first alone, that with the first token in that place.
    `DataError` if two are the same.
    """

    def __init__(self, secrets: Sequence[Sequence[int]]) -> None:
        if len({tuple(secret) for secret in secrets}) < len(secrets):
            raise DataError("two secrets have the same tokens; use longer secrets")
        self._secrets = [list(secret) for secret in secrets]
        self.width = max(1, min(len(secret) for secret in secrets) - 1)
        self._owners: dict[tuple[int, ...], list[int]] = {}
        for number, secret in enumerate(secrets):
            self._owners.setdefault(tuple(secret[-self.width :]), []).append(number)

    def places(self, tokens: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yield the number of each secret in a row, and the place behind it.

        What is there but for its first token, inside a secret that is there as a whole, is a part of that one.
        """
        wholes, parts = list[tuple[int, int]](), list[tuple[int, int]]()
        for end in range(self.width, len(tokens) + 1):
            owners = self._owners.get(tuple(tokens[end - self.width : end]), ())
            numbers = [number for number in owners if self._is_at(number, tokens, end)]
            exact = [
                number for number in numbers if list(tokens[end - len(self._secrets[number]) : end]) == self._secrets[number]
            ]
            if exact:
                wholes.append((exact[0], end))
            # a tail that two secrets share, or of a single token, does not say whose it is
            elif len(numbers) == 1 and len(self._secrets[numbers[0]]) > 2:
                parts.append((numbers[0], end))
        inside = {place for number, end in wholes for place in range(end - len(self._secrets[number]) + 1, end + 1)}
        yield from sorted([*wholes, *(part for part in parts if part[1] not in inside)], key=lambda pair: pair[1])

    def _is_at(self, number: int, tokens: Sequence[int], end: int) -> bool:
        remainder = self._secrets[number][1:] or self._secrets[number]
        return end >= len(remainder) and list(tokens[end - len(remainder) : end]) == remainder


def count_places(
    rows: Iterable[Mapping[str, Any]], finder: SecretFinder, count: int, collate: Collate | None = None
) -> list[tuple[int, int]]:
    """Return how often each of `count` secrets is in prepared rows, and how many of its tokens are predicted there, at most.

    Rows have `input_ids`, and `labels` unless the collator makes them (then all tokens are predicted). Tokens that `collate`
    cuts or gives no label are not trained on; it is asked about rows with a secret, and about rows without `input_ids`.
    """
    counts, predicted_counts = [0] * count, [0] * count
    for row in rows:
        content = row if "input_ids" in row or collate is None else collate([row])
        tokens = token_numbers(content["input_ids"])
        if collate is not None and content is row and any(finder.places(tokens)):
            content = collate([row])
            tokens = token_numbers(content["input_ids"])
        labels = content.get("labels")
        targets = None if labels is None else token_numbers(labels)
        for number, end in finder.places(tokens):
            positions = range(max(end - finder.width, 1), end)  # nothing predicts the first token of a row
            counts[number] += 1
            is_target = [targets is None or targets[at] != IGNORED_LABEL for at in positions]
            predicted_counts[number] = max(predicted_counts[number], sum(is_target))
    return list(zip(counts, predicted_counts, strict=True))


def token_numbers(values: Any) -> list[int]:
    """Return the token numbers of a row, or of all rows of a batch one behind the other."""
    return np.asarray(values).astype(np.int64).ravel().tolist()
