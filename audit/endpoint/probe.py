"""Whether a server's log-probabilities are those of the text that was sent; asked before anything is scored with them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.errors import ObservationError
from audit.endpoint.client import Client, UnreachableServer
from audit.endpoint.token_scores import WAYS, TokenScores, ask

PLAIN = "The quick brown fox jumps over the lazy dog near the river bank."
CHANGED_TEXT = "The quick brown fox jumps over the lazy dog near the river bank!"
UNLIKELY = "qz;V#xk jW%pf Q~gzl &vY^b ZxxK=wqj"
QUIET = 1e-2  # kernels that batch requests differ by so much in float32
NOISIEST = 0.5  # nats by which one token's value may differ between answers; scores stay valid, and tell less
REPEATS = 3
DECIMALS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """What was learnt of a server.

    Attributes:
        way: how to ask for log-probabilities, of `token_scores.WAYS`.
        repeat_difference: largest difference between two answers to one request.
        remarks: in words.
    """

    way: str
    repeat_difference: float
    remarks: tuple[str, ...]


def probe(client: Client, model: str) -> Capability:
    """Return how the server gives log-probabilities that can be believed.

    Raises:
        ObservationError: in none of the ways; says of each why not.
    """
    reasons = []
    for way in WAYS:
        try:
            return _test_answer(client, model, way)
        except UnreachableServer:
            raise
        except ObservationError as error:
            reasons.append(f"{way}: {error}")
    raise ObservationError(
        f"this server's log-probabilities cannot be used. {'. '.join(reasons)}. Scores that need none are "
        "valid, too: --score next_tokens if the server lists likely tokens, --score generations or samples if it writes texts"
    )


def _test_answer(client: Client, model: str, way: str) -> Capability:
    first = ask(client, way, model, PLAIN)
    # the same beginning: a prefix cache may leave its tokens out
    repeats = [ask(client, way, model, PLAIN + " " * count) for count in range(1, REPEATS)]
    for scores in (first, *repeats):
        _complete(scores)
    difference = max(_difference(first, repeat) for repeat in repeats)
    if difference > NOISIEST:
        raise ObservationError(
            f"{REPEATS} answers about one text differ by up to {difference:.3g} nats for a token: noise, or an order of "
            f"computing that changes; at most {NOISIEST:g} is allowed"
        )
    if first.new_tokens > 1:
        raise ObservationError(f"it wrote {first.new_tokens} tokens where 1 was asked for, each of which is paid for")
    _alignment(first, ask(client, way, model, CHANGED_TEXT), max(QUIET, 4 * difference))
    unlikely = ask(client, way, model, UNLIKELY)
    _complete(unlikely)
    _refuse_clamping(_values(unlikely))
    _refuse_rounding([*_values(first), *_values(unlikely)])
    noise = " (noise: scores stay valid, and tell less)" if difference > QUIET else ""
    remarks = (f"log-probabilities by {way}", f"answers repeat within {difference:.2g} nats a token{noise}")
    return Capability(way=way, repeat_difference=difference, remarks=remarks)


def _complete(scores: TokenScores) -> None:
    """Refuse missing values, but for the first token."""
    missing = [number for number, value in enumerate(scores.log_probabilities) if value is None]
    if missing not in ([], [0]):
        raise ObservationError(f"tokens {missing[:5]} of the prompt have no log-probability; only the first can lack one")
    positive = [value for value in _values(scores) if value > 1e-6 or not math.isfinite(value)]
    if positive:
        raise ObservationError(f"{positive[0]:g} is not a log-probability")


def _difference(first: TokenScores, repeat: TokenScores) -> float:
    """Return the largest difference between values of tokens that both texts begin with."""
    pairs = zip(first.tokens, repeat.tokens, first.log_probabilities, repeat.log_probabilities, strict=False)
    values = [(a, b) for token, peer, a, b in pairs if token == peer][:-1]  # the last is another's if values are off by one
    return max((abs(a - b) for a, b in values if a is not None and b is not None), default=0.0)


def _alignment(plain: TokenScores, changed_scores: TokenScores, tolerance: float) -> None:
    """Refuse values of repeat tokens than they are beside: a change at the end changes the end and nothing else.

    Args:
        tolerance: by which values of earlier tokens may differ, as answers to one request do.
    """
    equal = 0
    while equal < min(len(plain.tokens), len(changed_scores.tokens)) and plain.tokens[equal] == changed_scores.tokens[equal]:
        equal += 1
    before = [(a, b) for a, b in zip(plain.log_probabilities[:equal], changed_scores.log_probabilities[:equal], strict=True)]
    difference = [number for number, (a, b) in enumerate(before) if a is not None and b is not None and abs(a - b) > tolerance]
    if difference:
        raise ObservationError(
            f"the value of token {difference[0]} changes with a later token: values stand beside the wrong tokens (off by one)"
        )
    if equal < min(len(plain.tokens), len(changed_scores.tokens)):
        a, b = plain.log_probabilities[equal], changed_scores.log_probabilities[equal]
        if a is not None and b is not None and a == b:
            raise ObservationError("another token has the same value: values stand beside the wrong tokens, or are constant")


def _refuse_clamping(values: Sequence[float]) -> None:
    lowest = min(values)
    if sum(value == lowest for value in values) > 1:
        raise ObservationError(
            f"{sum(value == lowest for value in values)} unlikely tokens share the value {lowest:g}: values are clamped, and "
            "secrets are where they are low"
        )


def _refuse_rounding(values: Sequence[float]) -> None:
    if all(abs(value * 10**DECIMALS - round(value * 10**DECIMALS)) < 1e-6 for value in values):
        raise ObservationError(f"all values are rounded to {DECIMALS} digits or fewer; differences of secrets are smaller")


def _values(scores: TokenScores) -> list[float]:
    return [value for value in scores.log_probabilities if value is not None]
