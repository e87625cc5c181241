"""What a report says of memberships, as linear constraints on them: thresholds, areas, rates, bins, sizes of groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from audit.core.data import Array
from audit.core.game_results import AttackResult, GameResult

_GUESSES = re.compile(r"([\d,]+) of ([\d,]+) guesses right")
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constraints:
    """Linear constraints `low <= weights @ coins <= high`, `(k,)` and `(k, n)`, on the coins `(n,)` of one game."""

    weights: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, rows: list[tuple[Array, float, float]], records: int) -> Constraints:
        """Return the constraints of a list of rows, each of which was given once."""
        unique = {(row.tobytes(), low, high): row for row, low, high in rows}
        bounds = np.array([key[1:] for key in unique], dtype=np.float64).reshape(-1, 2)
        return cls(weights=np.array(list(unique.values())).reshape(-1, records), low=bounds[:, 0], high=bounds[:, 1])

    def join(self, further: Constraints) -> Constraints:
        """Return the constraints of two reports about the same records together."""
        parts = ((self.weights, further.weights), (self.low, further.low), (self.high, further.high))
        weights, low, high = (np.concatenate(pair) for pair in parts)
        return Constraints(weights=weights, low=low, high=high)


def read(result: GameResult, columns: Mapping[str, Array], members: int, step: float) -> Constraints:
    """Return the constraints that the figures of a game imply.

    Args:
        columns: attack to scores `(n,)`, which the attacker computes from the model and the records.
        members: how many of them are members, which is granted to the attacker.
        step: width of the steps that areas and rates were rounded to, downward or to the nearest.
    """
    (records,) = {len(values) for values in columns.values()}
    rows: list[tuple[Array, float, float]] = [(np.ones(records), members, members)]
    for attack in result.attacks:
        names = [name for name in attack.scorer.split(", ") if name in columns]
        for name in names:
            exact = len(names) == 1 and attack.scorer == name
            rows += _compare_attack(attack, np.asarray(columns[name]), members, step, exact=exact)
    return Constraints.of(rows, records)


def _compare_attack(
    attack: AttackResult, scores: Array, members: int, step: float, *, exact: bool
) -> Iterator[tuple[Array, float, float]] | list[tuple[Array, float, float]]:
    """Return the constraints of one attack; of several attacks in one row the figures are the largest, so upper limits hold."""
    records = len(scores)
    pairs, lowest = members * (records - members), members * (members + 1) / 2
    ends = (0.0, 1.0) if attack.auc is None else (max(0.0, attack.auc - step), min(1.0, attack.auc + step))
    area = (ends[0] * pairs + lowest, ends[1] * pairs + lowest)
    rows = [(rank(scores), area[0] if exact else lowest, area[1] + members)]
    if exact:
        for above, count in _cuts(attack, members, records):
            rows += _pick_top(scores, above, count - ROUNDING, count + ROUNDING)
    rows += list(_rates(attack, scores, members, step, exact=exact))
    return rows


def rank(values: Array) -> Array:
    """Return ranks `(n,)` from 1 for the smallest; equal values share theirs, so that no order of the records shows."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse])


def _pick_top(scores: Array, count: int, low: float, high: float) -> list[tuple[Array, float, float]]:
    """Return that among the `count` largest scores are `low` to `high` members; of equal ones any may be among them."""
    if count <= 0:
        return [(np.zeros(len(scores)), low, high)]
    smallest = np.partition(scores, len(scores) - count)[len(scores) - count]
    above, not_below = (scores > smallest).astype(np.float64), (scores >= smallest).astype(np.float64)
    inside, outside = count - above.sum(), not_below.sum() - count
    if not outside:
        return [(not_below, low, high)]
    return [(above, low - inside, high), (not_below, low, high + outside)]


def _cuts(attack: AttackResult, members: int, records: int) -> Iterator[tuple[int, int]]:
    """Yield how many records are above each threshold that a report gives away, and how many of them are members."""
    if attack.roc.members == members and attack.roc.nonmembers == records - members and len(attack.roc.fpr) > 3:
        for fpr, tpr in zip(attack.roc.fpr, attack.roc.tpr, strict=True):
            hits, wrong = round(tpr * members), round(fpr * (records - members))
            yield hits + wrong, hits
    for point in attack.tpr_at:
        if point.true_positives is not None and point.false_positives is not None:
            yield point.true_positives + point.false_positives, point.true_positives
    bins = attack.histogram
    if len(bins.members) > 1:
        above = np.cumsum(np.add(bins.members, bins.nonmembers)[::-1])
        yield from zip(above.tolist(), np.cumsum(bins.members[::-1]).tolist(), strict=True)


def _rates(
    attack: AttackResult, scores: Array, members: int, step: float, *, exact: bool
) -> Iterator[tuple[Array, float, float]]:
    """Yield what a rate without counts says: so many members are above the threshold that passes so many nonmembers."""
    records = len(scores)
    for point in attack.tpr_at:
        if point.tpr is None or point.true_positives is not None:
            continue
        wrong = int(point.target_fpr * (records - members))
        upper_count = min(members, int(np.ceil((point.tpr + step) * members)))
        yield from _pick_top(scores, min(records, upper_count + wrong + 1), 0.0, upper_count + 1.0)
        lower_count = int(max(0.0, point.tpr - step) * members)
        if exact and lower_count:
            yield from _pick_top(scores, min(records, lower_count + wrong), float(lower_count), float(lower_count + wrong))


def guesses(result: GameResult, columns: Mapping[str, Array]) -> Constraints:
    """Return the constraints that the words of bounds imply: of so many guesses at both ends so many are right."""
    (records,) = {len(values) for values in columns.values()}
    rows = []
    for attack in result.attacks:
        for bound in attack.bounds:
            if (match := _GUESSES.search(bound.selected)) and attack.scorer in columns:
                right, total = (int(text.replace(",", "")) for text in match.groups())
                scores, wrong = np.asarray(columns[attack.scorer]), total - total // 2
                top, bottom = _pick_top(scores, total // 2, 0.0, 0.0)[0], _pick_top(-scores, wrong, 0.0, 0.0)[0]
                rows.append((top[0] - bottom[0], right - wrong + top[1], right - wrong - bottom[1]))
    return Constraints.of(rows, records)
