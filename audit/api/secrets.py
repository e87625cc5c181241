"""Bounds from guesses of secrets that the auditor drew, as functions on arrays; torch is never imported."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from audit.core import checks
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.canaries import Secrets
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.core.views import Scores

if TYPE_CHECKING:
    from audit.core.claims import CertifiedBound
    from audit.core.lower_bounds import LowerBound

MOST_TRIALS = 10**12  # the confidence limit of so many successes is still told from 1 in double precision
LEAST_BASELINE = 1e-300


def secret_lower_bound(
    scores: ArrayLike,
    drawn: ArrayLike,
    *,
    delta: float,
    prior: ArrayLike | None = None,
    confidence: float = 0.95,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
    conversion: str = "none",
) -> CertifiedBound:
    """A lower bound on epsilon at `delta` from guesses of secrets with k values each, all of one training or of several.

    Args:
        scores: `(m, k)`, higher = more likely the value; ideally likelihoods, since guesses by posterior prove less.
        drawn: `(m,)` the value from 0 to k - 1 that the auditor drew for each secret before training.
        prior: `(m, k)` or `(k,)` chances with which the values were drawn; None if all were equally likely.
        adjacency: which neighbouring data sets the epsilon is about.
        conversion: "group" for an adjacency other than "replace_one": a replacement is then two such changes.

    Guarantee: that of the estimator `one_run_secrets`, given that values were drawn as stated.

    Raises:
        AssumptionError: an adjacency other than "replace_one" without a conversion.
        DataError: shapes that do not fit, NaN, priors that are no chances, or a drawn value with chance 0.

    >>> drawn = np.arange(300) % 5
    >>> bound = secret_lower_bound(np.eye(5)[drawn], drawn, delta=1e-5)
    >>> bound.estimator, bound.epsilon == bound.ceiling, 5 < bound.epsilon < 6.5
    ('one_run_secrets', True, True)
    """
    from audit.bounds.estimators.one_run_secrets import OneRunSecrets
    from audit.core.claims import CertifiedBound

    values = _values(scores)
    try:
        index = np.asarray(drawn)
    except ValueError as error:
        raise DataError(f"drawn cannot be read: {error}; expected a value for each of {len(values)} secrets") from error
    secrets, choices = values.shape
    full = index.shape == (secrets,) and index.dtype.kind in "iu"
    if not full or index.min() < 0 or index.max() >= choices:
        raise DataError(
            f"drawn has shape {index.shape} for scores of shape {values.shape}; expected a value from 0 to {choices - 1} each"
        )
    chances = np.full(values.shape, 1 / choices) if prior is None else _chances(prior, values.shape)
    game = Game(
        adjacency=Adjacency.by_name(adjacency),
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=secrets,
        choices=choices,
        secret="attribute",
    )
    rows = Scores(
        values=values.ravel(),
        included=(index[:, None] == np.arange(choices)).ravel(),
        game=game,
        prior=Secrets(kind="attribute", prior=chances).prior.ravel(),
    )
    estimator = OneRunSecrets(conversion=conversion)
    bound = estimator.lower_bound(rows, delta=delta, confidence=checks.confidence(confidence), seed=Seed(0))
    return CertifiedBound(**_entries(bound), game=game)


def reconstruction_bound(
    successes: int,
    trials: int,
    baseline: float,
    *,
    delta: float,
    confidence: float = 0.95,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    family: str | None = None,
) -> CertifiedBound:
    """A lower bound on epsilon at `delta` from answers of independent trials, each about a secret and its own release.

    Args:
        successes: right answers of `trials`.
        baseline: the largest chance of a right answer without the release: 1 / k for k equally likely candidates. The accuracy
            of an imputer is not such a number: the best one may do better.
        family: None for any mechanism, or "gdp".

    Guarantee: that of the estimator `reconstruction` (docs/theory/secrets.md, "Reconstruction").

    Raises:
        ConfigError: counts or chances that are none, or a family that does not exist.

    >>> bound = reconstruction_bound(389, 1000, 1 / 10, delta=1e-5, family="gdp")
    >>> 0.85 < bound.parameter < 1.0  # ten candidates at mu = 1 are told with chance 0.389 at most
    True
    """
    from audit.bounds.estimators.reconstruction import Answers, Reconstruction
    from audit.core.claims import CertifiedBound

    if trials > MOST_TRIALS:
        raise ConfigError(f"trials are over {MOST_TRIALS:g}: a limit near 1 is rounded to it there, and would prove too much")
    checks.count(trials, "trials", minimum=1)
    if checks.count(successes, "successes") > trials:
        raise ConfigError(f"{successes} successes of {trials} trials; expected 0 to all of them, and at least one trial")
    checks.open_probability(baseline, "baseline")
    if baseline < LEAST_BASELINE:
        raise ConfigError(f"baseline is {baseline:g}; expected at least {LEAST_BASELINE:g}")
    neighbours = Adjacency.by_name(adjacency)
    answers = Answers(right=int(successes), trials=int(trials), baseline=baseline)
    estimator = Reconstruction(family="any" if family is None else family)
    bound = estimator.bound_answers(answers, neighbours, delta=delta, confidence=checks.confidence(confidence))
    game = Game(
        adjacency=neighbours,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=1,
        runs=int(trials),
        choices=max(2, round(1 / baseline)),
        secret="candidate",
    )
    return CertifiedBound(**_entries(bound), game=game)


def _entries(bound: LowerBound) -> dict[str, Any]:
    return {field.name: getattr(bound, field.name) for field in fields(bound)}


def _numbers(values: ArrayLike, name: str) -> Array:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} cannot be read as numbers: {error}; expected rows of equal length") from error


def _chances(prior: ArrayLike, shape: tuple[int, ...]) -> Array:
    chances = _numbers(prior, "prior")
    if chances.shape not in {shape, shape[1:]}:
        raise DataError(f"prior has shape {chances.shape} for scores of shape {shape}; expected that, or {shape[1:]}")
    return np.broadcast_to(chances, shape)


def _values(scores: ArrayLike) -> Array:
    values = _numbers(scores, "scores")
    if values.ndim != 2 or values.shape[0] < 1 or values.shape[1] < 2:
        raise DataError(f"scores have shape {values.shape}; expected a row for each secret, a column for each value")
    return checks.without_nan(values, "scores")
