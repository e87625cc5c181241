"""Attacks on whole texts whose membership somebody chose: scores by name, higher for members; no epsilon follows from them."""

import logging
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError, ObservationError
from audit.core.seeds import Seed
from audit.core.training import Progress
from audit.endpoint.canary_files import TextCanary
from audit.endpoint.client import Client, UnreachableServer
from audit.endpoint.probe import probe
from audit.endpoint.sealed_scoring import score_shuffled
from audit.endpoint.token_scores import TokenScores, ask, prompt_scorer

# pairs of what is before a text and the text, to what is known of the text's tokens
Scorer = Callable[[Sequence[tuple[str, str]]], list["TokenValues"]]
SHARE = 0.2  # of a text's tokens, the least likely, that min-K % reads
NEIGHBOURS, REPLACED_SHARE = 4, 0.15
SHOTS = 4  # nonmembers before a text, of ReCaLL; they are not scored themselves


@dataclass(frozen=True, slots=True, eq=False)
class TokenValues:
    """Log-probabilities of a text's tokens, and the same standardised over the vocabulary if that is known."""

    log_probabilities: Array
    standardised: Array | None = None


def attack_texts(
    scorer: Scorer,
    texts: Sequence[TextCanary],
    reference: Scorer | None = None,
    fits: Callable[[Sequence[str]], bool] | None = None,
) -> tuple[list[TextCanary], Mapping[str, Array]]:
    """Return the scored texts and columns `(n,)` by attack; ReCaLL with fewer shots, or none, if these do not fit.

    Args:
        scorer: of the audited model.
        texts: with `included` for members.
        reference: of a model that was not trained on them, or None.
        fits: whether the model takes texts of these lengths; None takes that for granted.

    Raises:
        DataError: fewer than 8 nonmembers, of which some are shots.

    References:
        Yeom et al. 2018, arXiv 1709.01604 (loss); Carlini et al. 2021, arXiv 2012.07805 (zlib, reference); Mattern et al. 2023,
        arXiv 2305.18462 (neighbourhood; here words are exchanged for those of other texts, not by a masked model); Shi et al.
        2024, arXiv 2310.16789 and Zhang et al. 2024, arXiv 2404.02936 (min-K %, min-K %++); Xie et al. 2024, arXiv 2406.15968
        (ReCaLL).
    """
    random = Seed(0).child("text attacks").numpy()
    outside = [number for number, text in enumerate(texts) if not text.included]
    if len(outside) < 2 * SHOTS:
        raise DataError(
            f"{len(outside)} texts are nonmembers; expected at least {2 * SHOTS}, of which {SHOTS} are put before others"
        )
    shots = set(random.permutation(outside)[:SHOTS].tolist())
    targets = [text for number, text in enumerate(texts) if number not in shots]
    contents = [text.text for text in targets]
    befores = ["".join(f"{texts[number].text}\n\n" for number in sorted(shots)[:count]) for count in range(SHOTS, 0, -1)]
    before = next((text for text in befores if fits is None or fits([text + content for content in contents])), "")
    plain = scorer([("", content) for content in contents])
    means = _means(plain)
    near = scorer([("", text) for content in contents for text in exchange_words(content, contents, random)])
    columns = {
        "loss": means,
        "zlib": np.array(
            [
                values.log_probabilities.sum() / len(zlib.compress(content.encode("utf-8"), 9))
                for values, content in zip(plain, contents, strict=True)
            ]
        ),
        "min_k": _lowest([values.log_probabilities for values in plain]),
        "neighbourhood": means - _means(near).reshape(-1, NEIGHBOURS).mean(axis=1),
    }
    if before:
        columns["recall"] = _means(scorer([(before, content) for content in contents])) / np.minimum(means, -1e-12)
    else:
        logging.getLogger(__name__).warning("recall is left out: not one text fits into the model before each of the others")
    sharp = [values.standardised for values in plain if values.standardised is not None]
    if len(sharp) == len(plain):
        columns["min_k_plus_plus"] = _lowest(sharp)
    if reference is not None:
        columns["reference"] = means - score_means(reference, targets)
    return targets, columns


def score_means(scorer: Scorer, texts: Sequence[TextCanary]) -> Array:
    """Return the mean log-probability of each text's tokens, `(n,)`."""
    return _means(scorer([("", text.text) for text in texts]))


def exchange_words(text: str, texts: Sequence[str], random: np.random.Generator) -> list[str]:
    """Return neighbours of a text, in each of which some words are those of other texts."""
    words, pool = text.split(" "), texts[int(random.integers(len(texts)))].split(" ")
    neighbours = []
    for _ in range(NEIGHBOURS):
        places = random.permutation(len(words))[: max(1, round(REPLACED_SHARE * len(words)))]
        changes = {int(place): pool[int(random.integers(len(pool)))] for place in places}
        neighbours.append(" ".join(changes.get(place, word) for place, word in enumerate(words)))
    return neighbours


def server_scorer(client: Client, model: str, progress: Progress) -> tuple[Scorer, Callable[[Sequence[str]], bool]]:
    """Return how a server scores texts, once its log-probabilities can be believed; and whether it takes the longest of some.

    Texts are asked in random order, and some again, past the cache.

    Raises:
        ObservationError: they cannot; later, the cache is of another model, or the model changed on the way.
    """
    with client.observe(skips_cache=True):
        way = probe(client, model).way

    def fits(texts: Sequence[str]) -> bool:
        try:
            ask(client, way, model, max(texts, key=lambda text: len(text.encode("utf-8"))))
        except UnreachableServer:
            raise
        except ObservationError:  # refused, or cut: servers have no common word for a text that is too long
            return False
        return True

    def score(pairs: Sequence[tuple[str, str]]) -> list[TokenValues]:
        rule = partial(_ask_text, prompt_scorer(client, way, model))
        return score_shuffled(client, {model: rule}, pairs, progress, lambda row: row.log_probabilities.sum()).values[model]

    return score, fits


def _ask_text(asker: Callable[[str], TokenScores], pair: tuple[str, str]) -> TokenValues:
    before, text = pair
    scores, end, values = asker(before + text), 0, list[float]()
    for token, value in zip(scores.tokens, scores.log_probabilities, strict=True):
        end += len(token)
        if end > len(before) and value is not None:
            values.append(value)
    if not values:
        raise ObservationError(f"the server gives no log-probability for any token of {text[:40]!r}; expected longer texts")
    return TokenValues(np.array(values))


def _means(rows: Sequence[TokenValues]) -> Array:
    return np.array([row.log_probabilities.mean() for row in rows])


def _lowest(rows: Sequence[Array]) -> Array:
    """Return the mean of the lowest share of each row, of one value at least."""
    return np.array([np.sort(row)[: max(1, int(np.ceil(SHARE * len(row) - 1e-9)))].mean() for row in rows])
