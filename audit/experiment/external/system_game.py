"""Any system that saw data: coins decide which canaries it sees, and one score per canary measures the trace of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.data import loaders
from audit.data.row_containers import concatenate, describe, read_rows
from audit.experiment.external.model_calls import call_argument
from audit.stats.bounds.guess_split import LARGE, SHRUNK
from audit.stats.scoring.column_comparison import compare_columns, know_members

FEWEST_REFERENCES = 4  # fewer give no spread of a canary's score on either side


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SystemUnderTest:
    """What is trained, on what, and how it is read.

    Attributes:
        train: `train(records, seed) -> system`; `records` has the form of `data`.
        score: `score(system, canaries) -> (m,)`, higher for canaries that were seen; several columns `(m, k)` if references
            combine them. Parts of a tuple are given one by one: `score(system, inputs, labels)`.
        data: records that every training sees; None for none.
        canaries: the records under test, of the same form.
        forget: of unlearning, `forget(system, request, data, seed) -> system`: the canaries that were trained on are its
            request, and the data are what stays. None if nothing is to be forgotten.
        near: the canaries a little moved, which are scored beside them: a system that answers otherwise for its forgotten
            records alone answers as before for these. None if records cannot be moved.
        train_name: the argument that `train` was handed over as.
    """

    train: Callable[..., Any]
    score: Callable[..., Any]
    data: Any
    canaries: Any
    forget: Callable[..., Any] | None = None
    near: Any = None
    train_name: str = "train"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """How often is trained, and what a coin decides on.

    Attributes:
        runs: trainings with scores to judge; `references` further ones with independent coins, from which the law of each
            canary's score with and without it is learned.
        together: one coin a run for all canaries; else one a run for each.
    """

    runs: int = 1
    references: int = 0
    together: bool = False

    def __post_init__(self) -> None:
        if self.runs < 1 or self.references < 0:
            raise ConfigError(f"runs is {self.runs}, references {self.references}; expected at least 1 run and 0 references")
        if 0 < self.references < FEWEST_REFERENCES:
            raise ConfigError(
                f"references is {self.references}; expected 0, or at least {FEWEST_REFERENCES}: fewer show no spread of a score"
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlayedSystem:
    """What a game gave.

    Attributes:
        scores: `(runs, m)` higher for canaries that were seen, `m` the coins of a run; `included` `(runs, m)` their coins.
        twins: `(runs, m)` scores of systems trained on the data alone, if something was to be forgotten; else None.
    """

    scores: Array
    included: Array
    twins: Array | None
    game: Game


def play_system(system: SystemUnderTest, rounds: Rounds, root: Seed, canary: str = "records of the user") -> PlayedSystem:
    """Train the system on canaries that coins choose, and score every canary.

    Without references a forgotten canary's score is the difference to a twin's, a system trained on the data alone with
    independent randomness: that takes off how easy the canary is, and knows nothing of the coins. `ConfigError` for several
    columns of scores without references; `DataError` for others than one finite number each, unlike records, or coins that
    all fell alike.
    """
    count = len(read_rows(system.canaries, "canaries"))
    coins = _draw_coins(root.child("coins"), rounds.runs, count, rounds)
    if coins.all() or not coins.any():
        raise DataError(
            f"all coins fell alike (canaries: {count}, runs: {rounds.runs}), so there is nothing to compare; take many "
            "canaries, such as 200, or many runs, such as 60"
        )
    values = _stack([_train_and_score(system, row, root.child("run", number)) for number, row in enumerate(coins)])
    twins = None
    if system.forget is not None:
        twin_scores = [_score(system, _train(system, None, root.child("twin", number))) for number in range(len(coins))]
        twins = _stack(twin_scores, values.shape[2])
    if rounds.references:
        stream = root.child("references")
        reference_coins = _draw_coins(stream.child("coins"), rounds.references, count, rounds)
        references = _train_references(system, reference_coins, stream, values.shape[2])
        scores = _compare_with_references(values, references, reference_coins)
        twins = None if twins is None else _compare_with_references(twins, references, reference_coins)
    else:
        if values.shape[2] > 1:
            raise ConfigError(
                f"score gives {values.shape[2]} numbers per canary, which references combine: give references, or one number"
            )
        scores = values[..., 0]
        if twins is not None:
            twins = twins[..., 0]
            scores = scores - twins
    if rounds.together:
        scores, coins = scores.sum(axis=1, keepdims=True), coins[:, :1]
        twins = None if twins is None else twins.sum(axis=1, keepdims=True)
    game = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.FINAL_MODEL,
        inclusion=Inclusion.COINS,
        canaries=coins.shape[1],
        runs=rounds.runs,
        references=rounds.references,
        canary=canary,
    )
    return PlayedSystem(scores=scores, included=coins, twins=twins, game=game)


SPACING = 1e-12  # of equal scores, as a share of the largest


def break_ties(scores: Array, generator: np.random.Generator) -> Array:
    """Return scores without equal ones: as they are, or with equal ones moved apart a little, in random order.

    The order is drawn without the coins, so it is a post-processing. Systems that are sure of most canaries give many equal
    scores, and an estimator counts ties against the attack. Infinite scores are taken for the largest that a system gave.
    """
    if len(np.unique(scores)) == scores.size:
        return scores
    finite = scores[np.isfinite(scores)]
    reach = float(np.abs(finite).max()) + 1.0 if finite.size else 1.0
    if reach > LARGE:  # twice it would be infinite
        scores, reach = scores * SHRUNK, reach * SHRUNK
    values = np.clip(scores, -2 * reach, 2 * reach).ravel()
    order = np.lexsort((generator.random(scores.size), values))
    values[order] += np.arange(scores.size) * reach * SPACING
    return values.reshape(scores.shape)


def _draw_coins(seed: Seed, runs: int, count: int, rounds: Rounds) -> Array:
    """Return the coins `(runs, count)`; equal ones within a run if they are tossed together."""
    tosses = seed.numpy().random((runs, 1 if rounds.together else count)) < 0.5
    return np.array(np.broadcast_to(tosses, (runs, count)))


def _train_references(system: SystemUnderTest, coins: Array, stream: Seed, columns: int) -> Array:
    """Return the scores `(k, m, c)` of references, from which is learned how a canary that was seen scores.

    Of unlearning they are scores after forgetting. If these do not show the references' own members, those before forgetting:
    a system that forgot in the first run, and gives that one again whenever it is asked, is the same in all references, and
    still looks as if it had not forgotten.
    """
    before: list[Array] = []
    scores = [_train_and_score(system, row, stream.child("run", number), before) for number, row in enumerate(coins)]
    after = _finite(_stack(scores, columns))
    return after if system.forget is None or know_members(after, coins) else _finite(_stack(before, columns))


def _train_and_score(system: SystemUnderTest, coins: Array, run: Seed, before: list[Array] | None = None) -> Array:
    """Return the scores of all canaries `(m, k)` after a training, and after forgetting if that is asked for.

    The scores before forgetting are added to `before`, if it is given.
    """
    subject = _train(system, coins, run)
    if system.forget is not None and before is not None:
        before.append(_score(system, subject))
    if system.forget is not None and coins.any():
        request = read_rows(system.canaries, "canaries").take(np.flatnonzero(coins))
        arguments, had_result = (subject, request, system.data, run.child("forget").integer() % 2**31), subject is not None
        subject = call_argument(system.forget, arguments, "forget", "forget(system, request, data, seed) -> system")
        if subject is None and had_result:
            raise DataError("forget gave None; expected the system after forgetting, also if forget changes it in place")
    return _score(system, subject)


def _train(system: SystemUnderTest, coins: Array | None, run: Seed) -> Any:
    """Return the system trained on the data and the canaries with true coins, in random order; None for the data alone."""
    parts = [] if system.data is None else [system.data]
    if coins is not None:
        parts.append(read_rows(system.canaries, "canaries").take(np.flatnonzero(coins)))
    if not parts:
        raise ConfigError("data is None, so that nothing is left to train a twin on; give the records that are never forgotten")
    records = parts[0] if len(parts) == 1 else concatenate(parts[0], parts[1], ("data", "canaries"))
    if system.data is not None or (coins is not None and coins.any()):
        rows = read_rows(records, "data")
        records = rows.take(run.child("order").numpy().permutation(len(rows)))
    name = system.train_name
    return call_argument(system.train, (records, run.integer() % 2**31), name, f"{name}(records, seed) -> system")


def _score(system: SystemUnderTest, subject: Any) -> Array:
    """Return the scores of all canaries `(m, k)`, and of those a little moved."""
    queries = [records for records in (system.canaries, system.near) if records is not None]
    return np.concatenate([_score_records(system, subject, records) for records in queries], axis=1)


def _score_records(system: SystemUnderTest, subject: Any, canaries: Any) -> Array:
    parts = canaries if isinstance(canaries, tuple) else (canaries,)
    answer = call_argument(
        system.score, (subject, *parts), "score", "score(system, canaries) -> (m,), a number for each canary"
    )
    count = len(read_rows(canaries, "canaries"))
    problem = f"score gave {describe(answer)}; expected a number for each of {count} canaries"
    try:
        values = loaders.array(answer)
        values = values.astype(np.float64, casting="unsafe" if values.dtype.kind in "OUS" else "same_kind")
    except (TypeError, ValueError) as error:
        raise DataError(problem) from error
    if values.ndim not in (1, 2) or len(values) != count or not values.size:
        raise DataError(problem)
    is_missing = np.isnan(values.reshape(count, -1)).any(axis=1)
    if is_missing.any():
        raise DataError(
            f"score gave NaN for {is_missing.sum()} of {count} canaries, first for that at place {is_missing.argmax()}; give a "
            "number for each, such as the lowest of all if nothing is known of it"
        )
    return values.reshape(count, -1)


def _stack(scores: list[Array], columns: int = 0) -> Array:
    """Return the scores of several systems `(k, m, c)`; each has as many columns as the others, and `columns` if not 0."""
    widths = sorted({row.shape[1] for row in scores} | ({columns} - {0}))
    if len(widths) > 1:
        raise DataError(
            f"score gave {widths[0]} numbers per canary for one system and {widths[-1]} for another; expected as many each time"
        )
    return np.stack(scores)


def _compare_with_references(values: Array, references: Array, coins: Array) -> Array:
    """Return log odds of membership `(runs, m)` of scores `(runs, m, k)` by references that saw each canary, or did not."""
    return np.array([compare_columns(row, references, coins) for row in _finite(values)])


def _finite(values: Array) -> Array:
    if not np.isfinite(values).all():
        raise DataError("a score is infinite, which no reference can be compared with; clip scores to finite numbers")
    return values
