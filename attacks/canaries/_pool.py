"""Draws from the audit pool, with the errors that every record canary shares."""

import numpy as np

from audit.core.canaries import Canaries, CanaryTexts, Secrets
from audit.core.data import Array, Dataset, Records, Vocabulary
from audit.core.errors import ConfigError
from audit.core.phrases import join_clauses
from audit.core.seeds import Seed
from audit.stats.scoring import linear_probe


def choose(dataset: Dataset, count: int, seed: Seed, kind: str) -> Array:
    """`(count,)` distinct positions in the pool, in random order; `ConfigError` if `count` is below 1, or above the number of
    the pool's records.
    """
    available = len(dataset.pool)
    if not 1 <= count <= available:
        raise ConfigError(
            f"{count} canaries of kind '{kind}' from a pool of {available} records of {dataset.name}; "
            f"expected 1 to {available}: lower the number of canaries or widen data.pool"
        )
    return seed.numpy().choice(available, size=count, replace=False)


def unused_directions(dataset: Dataset, count: int, norm: float, seed: Seed, kind: str) -> Records:
    """`count` made-up records along the pool's directions of least variance; `ConfigError` if there are more canaries than
    input features, or labels that are not classes.

    One alone has the label that a linear model finds least likely. Several of one training have each label as often, in random
    order: the least likely is nearly the same for all of them, and they would teach the model one bias in place of themselves.

    A record is `norm` times the pool's mean input norm along its own direction, with a random sign.

    References: Jagielski, Ullman and Oprea 2020, arXiv 2006.07709, algorithm 3.
    """
    require_classes(dataset, kind)
    require_one_label(dataset, kind)
    flat = dataset.pool.inputs.reshape(len(dataset.pool), -1)
    if not 1 <= count <= flat.shape[1]:
        raise ConfigError(
            f"{count} canaries of kind '{kind}' for inputs of {flat.shape[1]} values; each canary takes a direction "
            f"of its own: expected 1 to {flat.shape[1]}"
        )
    length = norm * float(np.mean(np.linalg.norm(flat, axis=1)))
    random = seed.numpy()
    signs = random.choice([-1.0, 1.0], size=count)
    vectors = length * signs[:, None] * linear_probe.least_directions(flat, count)
    weights = linear_probe.fit(flat, dataset.pool.labels, dataset.classes)
    labels = np.argmin(vectors @ weights[:-1] + weights[-1], axis=1).astype(np.int64)
    # an outer permutation orders them, the inner one decides which classes get one more if `count` is no multiple of theirs
    if count > 1:
        labels = random.permutation(np.resize(random.permutation(dataset.classes), count)).astype(np.int64)
    return Records(inputs=vectors.reshape(count, *dataset.pool.inputs.shape[1:]).astype(np.float32), labels=labels)


def wrong_labels(dataset: Dataset, labels: Array, seed: Seed, kind: str) -> Array:
    """For each label another class, uniform over the others, in the labels' shape and type; below 0 stays (no record). Raises
    `ConfigError` if the data set has no classes to confuse.
    """
    require_classes(dataset, kind)
    offsets = seed.numpy().integers(1, dataset.classes, size=labels.shape)  # an offset of 0 would keep the label
    return np.asarray(np.where(labels < 0, labels, (labels + offsets) % dataset.classes), dtype=labels.dtype)


def require_classes(dataset: Dataset, kind: str) -> None:
    """Raise `ConfigError` if labels are not classes."""
    if dataset.classes < 2:
        raise ConfigError(
            f"canaries '{kind}' need class labels and {dataset.name} has {dataset.classes} classes (0 means regression); "
            "use held_out or a gradient canary"
        )


def require_one_label(dataset: Dataset, kind: str) -> None:
    """Raise `ConfigError` if a record has several labels, as a user with all records has."""
    if dataset.pool.labels.ndim > 1:
        raise ConfigError(
            f"canaries '{kind}' are records with one label each and those of {dataset.name} have several; "
            "use held_out, mislabelled or out_of_distribution"
        )


def require_positive(value: object, name: str) -> None:
    """Raise `ConfigError` if an option is no whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:  # True is an int
        raise ConfigError(f"{name} is {value!r}; expected a whole number of at least 1")


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
    rows = choose(dataset, len(secrets), seed, kind)
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
