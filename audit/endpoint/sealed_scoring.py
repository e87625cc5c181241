"""The order in which a server is asked: shuffled, with canaries that are asked again, so that a change of the model is found.

Coins know nothing of a random order, so that drift proves nothing; what is asked again never comes from the cache, so that a
cache of another model, or a model that is replaced on the way, shows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.seeds import Seed, new_seed
from audit.core.training import Progress
from audit.endpoint.client import Client

ASKED_AGAIN, TIMES = 16, 3  # texts of each model, and how often besides the first time
SMALL = 0.1  # by which a mean of scores may change through kernels and caches of a server, in nats or as a share
FEWEST = 3  # texts whose answers are of two kinds, or others than the cache's; one alone is a server's slip
PERMUTATIONS = 999  # none of which may reach what was seen: one honest server in 500, and fewer if its noise is small
TIGHT = 0.05  # of the way between two groups of answers, by which answers of one model may differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A score of a canary that was asked several times: when it came, -1 if it was in the cache's file."""

    model: str
    canary: int
    time: int
    value: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoredModels:
    """What was learnt of each text, by model, and how it came about."""

    values: Mapping[str, list[Any]]
    remarks: tuple[str, ...]


def score_shuffled(
    client: Client,
    rules: Mapping[str, Callable[[Any], Any]],
    texts: Sequence[Any],
    progress: Progress,
    total_score: Callable[[Any], float] = float,
) -> ScoredModels:
    """Return what each model's rule makes of all canaries or other texts, asked for in random order.

    Args:
        rules: by the model's name.
        progress: receives scored texts.
        total_score: of a rule's result, which has to be the same whenever a text is asked about.

    Raises:
        ObservationError: both models are one, the cache is of another model, or the model changed on the way.
    """
    random = Seed(new_seed()).numpy()
    again = random.permutation(len(texts))[:ASKED_AGAIN]
    values = {name: [None] * len(texts) for name in rules}
    # what is asked first is the same of both models: a name that the server does not tell apart costs no more than that
    first = [(name, int(number), False) for number in again for name in rules]
    other_tasks = [(name, int(number), False) for name in rules for number in range(len(texts)) if number not in set(again)]
    repeat_tasks = [(name, int(number), True) for name in rules for number in again]
    middle_tasks = other_tasks + repeat_tasks * (TIMES - 1)
    # once more behind all others: a model that was replaced shortly before the end shows, too
    later_tasks = [part[number] for part in (middle_tasks, repeat_tasks) for number in random.permutation(len(part))]
    repeats: list[Repeat] = []
    rows_by_run: dict[tuple[str, str], list[Repeat]] = {}  # by model and run

    def work(task: tuple[str, int, bool]) -> tuple[Any, str | None]:
        name, number, is_again = task
        with client.observe(skips_cache=is_again) as earlier_run:
            return rules[name](texts[number]), earlier_run()

    def ask(tasks: Sequence[tuple[str, int, bool]], start: int) -> None:
        for place, (value, run) in client.each(work, tasks):
            name, number, is_again = tasks[place]
            repeat = Repeat(model=name, canary=number, time=start + place if run is None else -1, value=total_score(value))
            if is_again or number in set(again):
                repeats.append(repeat)
            if run is not None:
                rows_by_run.setdefault((name, run), []).append(repeat)
            if not is_again:
                values[name][number] = value
                progress(1)

    ask(first, 0)
    _demand_two_models(list(rules), [[total_score(values[name][number]) for number in again] for name in rules])
    ask(later_tasks, len(first))
    # each earlier run may have met another model, and left few answers, of which the canaries above may hold none
    for rows in rows_by_run.values():
        new_rows = [row for row in rows if row.canary not in set(again)]
        count = min(len(new_rows), ASKED_AGAIN - (len(rows) - len(new_rows)))
        sample = [new_rows[number] for number in random.permutation(len(new_rows))[: max(count, 0)]]
        repeats += sample
        ask([(row.model, row.canary, True) for row in sample], len(first) + len(later_tasks))
    cached_count = sum(map(len, rows_by_run.values()))
    noise = judge_repeats(repeats)
    total = len(texts) * len(rules)
    remarks = (
        f"requests in random order; {len(again)} canaries of each model asked {TIMES + 1} times, answers differ by at most "
        f"{noise:.2g}, no change of the model found",
        f"share of scores from the cache: {cached_count} of {total} ({cached_count / total:.0%})",
    )
    return ScoredModels(values=values, remarks=remarks)


def _demand_two_models(names: Sequence[str], parts: Sequence[list[float]]) -> None:
    """Raise `ObservationError` if both names give the same scores: some servers answer to any name with the model they have."""
    if len(parts) > 1 and parts[0] == parts[1]:
        raise ObservationError(
            f"'{names[0]}' and '{names[1]}' give {len(parts[0])} canaries the same scores: the server answers to both names "
            "with one model, or the training changed nothing"
        )


def judge_repeats(repeats: Sequence[Repeat]) -> float:
    """Return the largest difference between answers of this run about one canary.

    Raises:
        ObservationError: what was in the cache is not what the server answers, or its answers changed during the run.
    """
    noise, stale, change = 0.0, [], 0.0
    for model in sorted({repeat.model for repeat in repeats}):
        texts: dict[int, list[Repeat]] = {}
        for repeat in repeats:
            if repeat.model == model:
                texts.setdefault(repeat.canary, []).append(repeat)
        fresh = {key: [row.value for row in rows if row.time >= 0] for key, rows in texts.items()}
        spread = max((max(values) - min(values) for values in fresh.values() if values), default=0.0)
        noise = max(noise, spread)
        for key, rows in texts.items():
            cached_values = [row.value for row in rows if row.time < 0]
            stale += [abs(cached_values[0] - float(np.mean(fresh[key]))) for _ in cached_values[:1] if fresh[key]]
        change = max(change, find_change(list(texts.values())), _find_split([*fresh.values()]))
    stale = [difference for difference in stale if difference > SMALL + 3 * noise]
    if len(stale) >= FEWEST:
        raise ObservationError(
            f"the cache holds answers of another model: of {len(stale)} canaries that were asked again, scores differ by up to "
            f"{max(stale):.3g}, and answers of this run by {noise:.2g}. Remove the file, or name another --cache"
        )
    if change > SMALL:
        raise ObservationError(
            f"the server's answers about the same canaries changed by {change:.3g} on average: it drifts, another model was "
            "put in its place, two models share the address, or the cache is of another one. Scores of two models tell of "
            "neither: ask again with a new --cache once it is at rest"
        )
    return noise


def _find_split(answers: Sequence[Sequence[float]]) -> float:
    """Return the largest gap between two groups of answers to one text, if there are two groups or one for most texts, or 0.0.

    No noise does that; two models behind one address do.
    """
    rows = [np.sort(values) for values in answers if len(values) > 1]
    is_share = all(row[0] >= 0 for row in rows)  # of secrets that the model writes; log-probabilities are below
    gaps = np.array([np.diff(row).max() for row in rows])
    spreads = np.array([row[-1] - row[0] for row in rows])
    is_split = (gaps > (SMALL * 5 if is_share else SMALL * 10)) & (spreads - gaps <= np.maximum(TIGHT * gaps, SMALL / 10))
    is_clear = is_split | (spreads < SMALL / 10)
    return float(gaps[is_split].max()) if is_split.sum() >= FEWEST and is_clear.sum() > len(rows) / 2 else 0.0


def find_change(texts: Sequence[Sequence[Repeat]]) -> float:
    """Return by how much answers changed at some moment, on average over texts; 0.0 if chance explains it.

    Two statistics, of each its largest at any moment: the change of the mean of all texts, as of drift, and the variance
    between earlier and later answers about one text, as of another model that finds some texts likelier and others less so.
    Compared with theirs if each text's answers are permuted among its moments, which is exact if their order says nothing.
    """
    residuals = np.concatenate([np.array([row.value for row in rows]) - np.mean([row.value for row in rows]) for rows in texts])
    if not len(residuals) or float(np.abs(residuals).max()) <= 1e-9:
        return 0.0
    order = np.argsort([row.time for rows in texts for row in rows], kind="stable")
    owners, counts = np.repeat(np.arange(len(texts)), [len(rows) for rows in texts]), np.arange(1, len(order))
    is_owner = owners[order, None] == np.arange(len(texts))
    early_counts = np.cumsum(is_owner, axis=0)[:-1]  # answers of each text up to each moment
    late_counts = is_owner.sum(axis=0) - early_counts
    weights = np.where(early_counts * late_counts > 0, 1 / np.maximum(early_counts, 1) + 1 / np.maximum(late_counts, 1), 0.0)
    shares = 1 / counts + 1 / counts[::-1]
    usual_squares = np.where(weights > 0, is_owner.T @ residuals[order] ** 2 / np.maximum(is_owner.sum(axis=0) - 1, 1), 0.0)

    def sum_early(values: Array) -> Array:
        return np.asarray(np.cumsum(is_owner * values[order, None], axis=0)[:-1])

    def largest_statistics(sums: Array) -> tuple[float, float]:
        return float((sums.sum(axis=1) ** 2 * shares).max()), float((weights * sums**2 - usual_squares).sum(axis=1).max())

    random = Seed(0).child("repeats").numpy()
    keys = owners + random.random((PERMUTATIONS, len(owners)))  # shuffles within each text
    chance = np.array([largest_statistics(sum_early(values)) for values in residuals[np.argsort(keys, axis=1)]]).max(axis=0)
    sums = sum_early(residuals)
    is_change = chance < np.array(largest_statistics(sums)) * (1 - 1e-9)
    if is_change[1]:
        cut = int(np.argmax((weights * sums**2 - usual_squares).sum(axis=1)))
        return float(np.abs(sums * weights)[cut, weights[cut] > 0].mean())
    return float((np.abs(sums.sum(axis=1)) * shares)[np.argmax(sums.sum(axis=1) ** 2 * shares)]) if is_change[0] else 0.0
