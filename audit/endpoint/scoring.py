"""Scores of canaries under a served model: higher means more likely in its training data."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.core.errors import ConfigError, ObservationError
from audit.core.training import Progress
from audit.endpoint.canary_files import CHAT, PLAIN, TextCanary
from audit.endpoint.client import Client, UnreachableServer, is_withheld
from audit.endpoint.probe import probe
from audit.endpoint.sealed_scoring import score_shuffled
from audit.endpoint.token_scores import answer_length, choice, continuation, prompt_scorer, read_number, write_continuation

# Log-probabilities of secrets out of lists of the likeliest next tokens, for servers that score no prompts.
Json = Mapping[str, Any]
WIDTHS = (1000, 20, 5)  # of the lists: whole vocabularies of llama.cpp, vLLM's and OpenAI's usual caps
SPACES = re.compile("^[\u0120\u2581]")  # of byte-level vocabularies, and of SentencePiece
UNKNOWN = -5.0  # nats of a character that a filter withholds: about what lists end with, since it tells nothing
PROBE = "The quick brown fox jumps over the lazy"


def widest(client: Client, model: str, canaries: Sequence[TextCanary] = ()) -> int:
    """Return how many of the likeliest next tokens the server lists, of `WIDTHS`.

    Args:
        canaries: are asked about where a filter withholds the answer to the first question.

    Raises:
        ObservationError: it lists none, or fewer than two; says of each width why not.
    """
    reasons, context = [], canaries[0].context if canaries else PLAIN
    questions = [TextCanary(prefix=PROBE, secret="dog", included=False, context=context), *canaries[:SILENT]]
    for width in WIDTHS:
        try:
            bodies = (_request(model, canary, width) for canary in questions)
            answers = (client.completion(body, _list_values, purpose="widest") for body in bodies)
            candidates: list[float] = next(filter(None, answers), [])
            if len(candidates) > 1 and candidates[0] < candidates[-1]:
                return width
            reasons.append(f"{width}: it lists {len(candidates)} different tokens or fewer")
        except UnreachableServer:
            raise
        except ObservationError as error:
            reasons.append(f"{width}: {error}")
    raise ObservationError(f"this server lists no likely next tokens. {'. '.join(reasons)}. Use --score generations")


def _list_values(answer: Json) -> list[float]:
    """Return the values of the listed tokens, ascending; none of an answer that a filter withholds."""
    return [] if is_withheld(answer) else sorted(_candidates(answer).values())


def log_probability(client: Client, model: str, canary: TextCanary, width: int) -> float:
    """Return the log-probability of a canary's secret behind what is before it, spelled token by token.

    Space at the prefix's end is spelled with the secret: many tokenizers begin words with it.
    """
    if canary.context.form == CHAT:
        return float(
            client.completion(_request(model, canary, width), partial(_spell, secret=canary.secret), f"spell {canary.secret}")
        )
    beginning, whole = canary.opening.rstrip() or canary.opening, canary.opening + canary.secret
    remainder, total = whole[len(beginning) :], 0.0
    while remainder:
        body = {"model": model, "prompt": beginning, "max_tokens": 1, "temperature": 0, "logprobs": width}
        length, value = client.completion(body, partial(_step, rest=remainder), purpose=f"spell {remainder}")
        total += value if length else value * len(remainder)
        beginning, remainder = beginning + remainder[:length], remainder[length:] if length else ""
    return total


def _request(model: str, canary: TextCanary, width: int) -> dict[str, Any]:
    if canary.context.form != CHAT:
        return continuation(model, canary, 1, logprobs=width)
    return continuation(model, canary, answer_length(canary), logprobs=True, top_logprobs=width)


def _spell(answer: Json, secret: str) -> float:
    """Return the log-probability of a secret as an answer, or as the end of one, as far as the model's own answer agrees.

    A chat cannot be begun for the model, so the lists of its answer serve: from a token on, the listed ones that continue
    the secret count, and once the model writes something else, the lowest value for each character that is left. Of all
    tokens to begin with, since answers may have words before, the one that makes the secret likeliest is taken.
    """
    logs = choice(answer).get("logprobs")
    steps = logs.get("content") if isinstance(logs, dict) else None
    if not steps and is_withheld(answer):
        return UNKNOWN * len(secret)
    if not isinstance(steps, list) or not steps:
        raise ObservationError("the answer lists no likely tokens ('top_logprobs')")
    rows = [(_candidates_at(step), _spelling(step.get("token"))) for step in steps]
    return max(_spell_from(rows[start:], secret.lstrip()) for start in range(len(rows)))


def _spell_from(steps: Sequence[tuple[Mapping[str, float], str]], secret: str) -> float:
    """Return the same with the secret's first token at the first of these places, where it may follow a space."""
    total, remainder, lowest = 0.0, secret, 0.0
    for number, (listed, own) in enumerate(steps):
        candidates, text = listed, own
        if number == 0:
            pairs = [(token.lstrip() or token, value) for token, value in listed.items()]
            candidates, text = dict(sorted(pairs, key=lambda pair: pair[1])), own.lstrip()  # of equal texts the likelier counts
        length, value = _likeliest(candidates, remainder)
        lowest, beginning_match = min(candidates.values()), remainder[:length]
        total, remainder = total + value, remainder[length:]
        if not remainder or not length or text != beginning_match:
            break
    return total + lowest * len(remainder)


def _step(answer: Json, rest: str) -> tuple[int, float]:
    """Return the characters of the likeliest listed token that begins `rest`, and its value; 0 and the lowest if none."""
    length, value = _likeliest(_candidates(answer), rest)
    return length, value if length else min(_candidates(answer).values())


def _likeliest(candidates: Mapping[str, float], rest: str) -> tuple[int, float]:
    """Return the characters and the value of the likeliest token that begins `rest`; (0, 0.0) if none does.

    A longer one can be listed that no tokenizer puts there, such as "83" where numbers are cut into "8" and "300".
    """
    beginnings = [(value, len(token)) for token, value in candidates.items() if token and rest.startswith(token)]
    value, length = max(beginnings, default=(0.0, 0))
    return length, value


def _candidates(answer: Json) -> dict[str, float]:
    """Return the listed next tokens with their log-probabilities, of either form: completions' own, or that of chats."""
    logs = choice(answer).get("logprobs")
    steps = (logs.get("top_logprobs") or logs.get("content")) if isinstance(logs, dict) else None
    if not isinstance(steps, list) or not steps:
        raise ObservationError("the answer lists no likely tokens ('top_logprobs')")
    return _candidates_at(steps[0])


def _candidates_at(step: Any) -> dict[str, float]:
    if not isinstance(step, dict):
        raise ObservationError("the answer lists no likely tokens ('top_logprobs')")
    rows = step.get("top_logprobs") if "top_logprobs" in step else _rows(step)
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
    return _spelling(row.get("token")), math.nan if number is None else number


def _spelling(token: Any) -> str:
    """Return a token as text: some servers list a vocabulary's own entries, which mark a space before."""
    return SPACES.sub(" ", str(token), count=1)


LOG_PROBABILITIES, NEXT_TOKENS, GENERATIONS, SAMPLES = "log_probabilities", "next_tokens", "generations", "samples"
DRAWS = 8  # answers to each question, of samples
BEGINNINGS = (0, 1, 2)  # characters of a secret that are given, of generations
SILENT = 16  # empty answers, all of the first, after which nothing is expected of the others
Score = Callable[[TextCanary], float]
Prepare = Callable[[Client, str, Sequence[TextCanary]], tuple[Score, tuple[str, ...]]]


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
    with client.observe(
        skips_cache=True
    ):  # a wrong name is noticed here, and what a cache says of another server is not believed
        rules = {name: SCORES[rule](client, name, canaries) for name in names}
    outcome = score_shuffled(client, {name: score for name, (score, _) in rules.items()}, canaries, progress)
    notes_by_model = [f"{name}: {note}" for name, (_, notes) in rules.items() for note in notes]
    form = "chats, the question as it was planted" if is_chat else "texts"
    withheld = f", {client.withheld:,} answers withheld by a filter" if client.withheld else ""
    cost = f"{client.requests:,} requests ({client.failures:,} failed{withheld}), {client.tokens:,} tokens counted"
    values, *references = (np.array(outcome.values[name], dtype=np.float64) for name in names)
    values = values - references[0] if references else values
    return ServedScores(values=values, remarks=(f"scored as {form}", *notes_by_model, *outcome.remarks, cost))


def _by_log_probabilities(client: Client, model: str, _: Sequence[TextCanary]) -> tuple[Score, tuple[str, ...]]:
    """Score by the log-probability of each secret behind what is before it."""
    capability = probe(client, model)
    ask = prompt_scorer(client, capability.way, model)
    return lambda canary: ask(canary.opening + canary.secret).from_character(len(canary.opening)), capability.remarks


def _by_next_tokens(client: Client, model: str, canaries: Sequence[TextCanary]) -> tuple[Score, tuple[str, ...]]:
    """Score by lists of likely next tokens: a request for each of a secret's tokens, and one for a chat."""
    width = widest(client, model, canaries)
    notes = [f"secrets spelled by lists of up to {width:,} likely next tokens"]
    if not all(canary.secret.isascii() for canary in canaries):
        notes.append("no list spells characters that a tokenizer splits; log_probabilities, generations and samples read them")
    return lambda canary: log_probability(client, model, canary, width), tuple(notes)


def _by_generations(client: Client, model: str, canaries: Sequence[TextCanary]) -> tuple[Score, tuple[str, ...]]:
    """Score by the largest share of each secret that the model writes greedily; needs no log-probabilities.

    A chat cannot be begun for the model. Behind a text the secret's first characters are given, too: a wrong first token,
    which several canaries may share, hides what is known of the others.
    """
    _demand_text(client, model, canaries)
    is_chat = canaries[0].context.form == CHAT

    def score(canary: TextCanary) -> float:
        counts = (0,) if is_chat else BEGINNINGS[: len(canary.secret) // 2 + 1]
        return max(agreement(write_continuation(client, model, canary, count), canary.secret[count:]) for count in counts)

    behind = "" if is_chat else f", behind each text and the first {BEGINNINGS[1]} and {BEGINNINGS[2]} characters of its secret"
    return score, (f"greedy continuations{behind}",)


def _by_samples(client: Client, model: str, canaries: Sequence[TextCanary]) -> tuple[Score, tuple[str, ...]]:
    """Score by the mean share of each secret in answers that are drawn at temperature 1."""
    _demand_text(client, model, canaries)

    def score(canary: TextCanary) -> float:
        texts = [write_continuation(client, model, canary, temperature=1, seed=draw) for draw in range(DRAWS)]
        return float(np.mean([agreement(text, canary.secret) for text in texts]))

    return score, (f"{DRAWS} continuations of each, drawn at temperature 1",)


def _demand_text(client: Client, model: str, canaries: Sequence[TextCanary]) -> None:
    """Raise `ObservationError` if a model writes nothing: no answer would then show any secret."""
    if not any(write_continuation(client, model, canary).strip() for canary in canaries[:SILENT]):
        raise ObservationError(
            f"'{model}' writes no text behind the first {SILENT} canaries: it refuses, a filter removes its answers, or all "
            "tokens go into reasoning; ask it without these, or use --score next_tokens"
        )


def agreement(text: str, secret: str) -> float:
    """Return the largest share of a secret that a text holds in one piece.

    >>> agreement("It is 1299, or 91234.", "1234"), agreement("It is 1299.", "1234")
    (1.0, 0.5)
    """
    secret = secret.lstrip()
    match = SequenceMatcher(None, text, secret, autojunk=False).find_longest_match()
    return match.size / max(len(secret), 1)


SCORES: Mapping[str, Prepare] = {
    LOG_PROBABILITIES: _by_log_probabilities,
    NEXT_TOKENS: _by_next_tokens,
    GENERATIONS: _by_generations,
    SAMPLES: _by_samples,
}
