"""Signals of a language model on texts and on the secrets in them."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attacks.signals._sizes import OnePerCanary
from audit.core.canaries import Canaries, CanaryTexts
from audit.core.data import Array, Records
from audit.core.errors import ConfigError
from audit.core.models import TextModels
from audit.core.seeds import Seed
from audit.stats.scoring import texts

# What signals of texts share.
LONGEST = 1 << 12  # tokens of a text, for the estimate of memory


def read_texts(canaries: Canaries) -> Records | None:
    """The canaries' records if they are texts, else None."""
    records = canaries.records
    return records if records is not None and records.are_texts else None


# Log-probabilities of secrets, and of the candidates that were possible instead.
Rivals = Iterator[tuple[Array, Array]]

_PART = 4096  # texts that a model is asked about at once


def comparison(models: TextModels, canaries: Canaries, count: int, seed: int) -> tuple[Array, Rivals] | None:
    """Return `(N, m)` log-probabilities of the texts' own secrets, and those of `count` rivals, as `_rivals` yields them.

    None if canaries are no texts, or if secrets were not drawn token by token.
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
        # in double precision, as ranks are decided by the last digits of sums over many tokens
        parts.append((models.outputs(inputs[part]) * secret[part]).sum(axis=-1, dtype=np.float64))
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogProbabilities:
    """The log-probability of each token given those before it; 0 for the first token and behind the end."""

    key = "token_log_probabilities"
    source = "token_log_probabilities"

    def size(self, classes: int, steps: int) -> int:
        return LONGEST

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m, T)`; None if canaries are no texts."""
        records = read_texts(canaries)
        return None if records is None else models.outputs(records.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMoments:
    """What a token's log-probability would be on average, and its standard deviation, were it drawn from the model."""

    key = "token_moments"
    source = "token_distributions"

    def size(self, classes: int, steps: int) -> int:
        return 2 * LONGEST

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m, T, 2)`; None if canaries are no texts."""
        records = read_texts(canaries)
        return None if records is None else models.token_moments(records.inputs)


class InitialLosses(OnePerCanary):
    """The mean loss of each text under the model before its first step, in nats."""

    key = "initial_losses"
    source = "token_log_probabilities"

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m)`; None if canaries are no texts."""
        records = read_texts(canaries)
        return None if records is None else texts.mean_losses(models.initial().outputs(records.inputs), records.labels)


class Continuations(OnePerCanary):
    """Share of a secret's tokens, from its first on without a gap, that the model writes greedily after the text before it."""

    key = "continuations"
    source = "generations"

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m)` in [0, 1]: 1 for a secret that was extracted whole; None if canaries are no texts."""
        records = read_texts(canaries)
        return None if records is None else _shares(models, records)


def _shares(models: TextModels, records: Records) -> Array:
    secret = records.labels >= 0
    texts = models.continuations(records.inputs, secret.argmax(axis=1))
    # places before the secret are right, so that the run of right tokens begins at its first one
    right = np.where(secret, texts == records.labels, True)
    run = np.cumprod(right, axis=-1).astype(bool) & secret
    return np.asarray(run.sum(axis=-1) / np.maximum(secret.sum(axis=-1), 1), dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamContinuations(OnePerCanary):
    """Share of a secret's tokens, from its first on without a gap, that the best of `beams` continuations has.

    Beam search reads the likeliest next tokens of every prefix, so it needs the model's distributions over tokens.
    """

    beams: int = 8

    source = "token_distributions"

    def __post_init__(self) -> None:
        if isinstance(self.beams, bool) or not isinstance(self.beams, int) or self.beams < 2:
            raise ConfigError(f"beam_continuations.beams is {self.beams!r}; expected a whole number of at least 2")

    @property
    def key(self) -> str:
        return f"beam_continuations_{self.beams}"

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m)` in [0, 1]: 1 for a secret that is among the beams; None if canaries are no texts."""
        records = read_texts(canaries)
        if records is None:
            return None
        secret = records.labels >= 0
        texts = models.beams(records.inputs, secret.argmax(axis=1), self.beams)
        is_right = np.where(secret[:, None], texts == records.labels[:, None], True)
        run = np.cumprod(is_right, axis=-1).astype(bool) & secret[:, None]
        shares = run.sum(axis=-1) / np.maximum(secret.sum(axis=-1), 1)[:, None]
        return np.asarray(shares.max(axis=-1), dtype=np.float32)


class CompressedSizes(OnePerCanary):
    """Bytes of a text's tokens after zlib: of its bytes if tokens are bytes, else of its token numbers as 32 bits.

    It is a property of the text alone, the same under every model.
    """

    key = "compressed_sizes"
    source = "token_log_probabilities"

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m)`; None if canaries are no texts."""
        records = read_texts(canaries)
        return None if records is None else np.tile(_sizes(records.inputs.astype(np.int64)), (len(models), 1))


def _sizes(texts: Array) -> Array:
    sizes = [float(len(zlib.compress(_bytes(tokens[tokens >= 0]), 9))) for tokens in texts]
    return np.array(sizes, dtype=np.float32)


def _bytes(tokens: Array) -> bytes:
    kind = np.uint8 if np.all(tokens < 256) else np.dtype("<u4")  # a fixed byte order: sizes are the same on any machine
    return tokens.astype(kind).tobytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRanks(OnePerCanary):
    """Rank of each secret by its log-probability among `candidates` drawn by the same law, the secret counted; 1 is the best.

    Ties count against the secret, so for a secret that was never trained on, the rank is uniform or worse.
    """

    candidates: int = 64
    seed: int = 0

    source = "token_log_probabilities"

    def __post_init__(self) -> None:
        if self.candidates < 2:
            raise ConfigError(f"secret_ranks.candidates is {self.candidates}; expected at least 2")

    @property
    def key(self) -> str:
        return f"secret_ranks_{self.candidates}_{self.seed}"

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m)` float32; None if canaries are no texts, or if secrets were not drawn token by token."""
        pair = comparison(models, canaries, self.candidates - 1, self.seed)
        if pair is None:
            return None
        own, rivals = pair
        ranks = np.ones_like(own)
        for sums, is_own in rivals:
            ranks += (sums >= own) & ~is_own  # a draw may be the secret itself
        return ranks.astype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtrapolatedExposures(OnePerCanary):
    """Bits of exposure by a skew-normal law fitted to the losses of `candidates` secrets drawn by the same law: an estimate.

    References: Carlini et al. 2019, arXiv 1802.08232, section 4.4.
    """

    candidates: int = 64
    seed: int = 0

    source = "token_log_probabilities"

    def __post_init__(self) -> None:
        if self.candidates < texts.FEWEST_LOSSES:
            raise ConfigError(
                f"extrapolated_exposures.candidates is {self.candidates}; three moments are fitted: expected at least "
                f"{texts.FEWEST_LOSSES}"
            )

    @property
    def key(self) -> str:
        return f"extrapolated_exposures_{self.candidates}_{self.seed}"

    def read(self, models: TextModels, canaries: Canaries) -> Array | None:
        """`(N, m)` float32; None if canaries are no texts, or if secrets were not drawn token by token."""
        pair = comparison(models, canaries, self.candidates, self.seed)
        if pair is None:
            return None
        own, rivals = pair
        losses = np.stack([-sums for sums, _ in rivals])
        return texts.extrapolated_exposure(-own, losses).astype(np.float32)
