"""What x of both sides shows that a split at random does not: near copies across sides, sides that were scaled separately."""

from __future__ import annotations

import numpy as np

from audit.core.data import Array
from audit.core.phrases import phrase
from audit.data.members import MemberEvidence
from audit.stats.bounds.binomial import upper_tail

_CHANCE, _MOST_RECORDS = 1e-5, 20_000
_MOST_COLUMNS = 2_000  # of a table that is searched for values that stand for missing ones
_SEED = 583_194_027  # no one splits with it, as with 0
_DIRECTIONS, _SHARES = 8, (1.0, 0.5, 0.25, 0.125)  # of pairs, the closest
_FEWEST, _DISTINCT, _SHARED_COLUMNS = 20, 0.9, 0.5
_MANY_VALUES, _MANY_COLUMNS = 20, 4  # whole numbers: equal means of one such column come by chance in about 1 of 100 splits
_EQUAL = 1e-4  # standard errors between two means: chance gives less in fewer than 1 of 10,000 splits, even of one column
_HUGE, _HUGE_SHARE = 1e30, 0.05
_FILLER_SHARE, _FEWEST_FILLED = 0.5, 3  # of a column, the value that stands for missing ones


def find_side_signs(evidence: MemberEvidence) -> list[str]:
    inputs, included = evidence.inputs, np.asarray(evidence.included, bool)
    if not inputs.size or min(included.sum(), (~included).sum()) < _FEWEST:
        return []
    rows = inputs.reshape(len(inputs), -1)
    remark = _name_huge(rows) or _find_filler(rows, included)
    # in random order, since the order of equal records, members first, would pair them by side
    sample = np.random.default_rng(_SEED).permutation(len(rows))[:_MOST_RECORDS]
    rows, included = rows[sample], included[sample]
    return [text for text in (remark, _find_near_copies(rows, included), _find_own_scales(rows, included)) if text]


def _name_huge(rows: Array) -> str:
    if rows.dtype.kind != "f":
        return ""
    places = np.argwhere(np.abs(rows) > _HUGE)
    if not len(places) or len(places) > _HUGE_SHARE * rows.size:
        return ""
    record, column = (int(number) for number in places[0])
    return phrase(
        "x of record {record} (counted from 1), members first, holds {value} at place {place} ({count} such values): does it "
        "stand for a missing one?",
        record=record + 1,
        value=f"{rows[record, column]:.3g}",
        place=column + 1,
        count=len(places),
    )


def _find_filler(rows: Array, included: Array) -> str:
    """Return a remark on a column of which the least or largest value recurs and is further off than all others are apart.

    A question if only one side has it: of c such cells a split at random gives that with chance below 2 max(share)^c.
    """
    cells = []
    for sign in (1, -1) if rows.shape[1] <= _MOST_COLUMNS else ():
        values = sign * rows.astype(np.float64)
        ends = values.min(axis=0)
        is_end = values == ends
        rest = np.where(is_end, np.inf, values).min(axis=0), np.where(is_end, -np.inf, values).max(axis=0)
        counts = is_end.sum(axis=0)
        is_far = (counts >= _FEWEST_FILLED) & (counts < _FILLER_SHARE * len(rows)) & (rest[0] - ends > rest[1] - rest[0])
        cells += [
            (int(counts[place]), int(is_end[included, place].sum()), place, sign * ends[place])
            for place in np.flatnonzero(is_far & (rest[1] > rest[0]))
        ]
    if not cells:
        return ""
    count, inside, place, value = min(cells, key=lambda cell: (0 < cell[1] < cell[0], -cell[0]))
    share = max(included.mean(), 1 - included.mean())
    is_certain = inside in (0, count) and 2 * rows.shape[1] * share**count < _CHANCE
    remark = phrase(
        "column {column} of x holds {value} in {members} members and {nonmembers} nonmembers, far from all other values: does "
        "it stand for a missing one, as it did in the training?",
        column=place + 1,
        value=f"{value:.6g}",
        members=inside,
        nonmembers=count - inside,
    )
    return phrase("Look first: {question}", question=remark) if is_certain else remark


def _find_near_copies(rows: Array, included: Array) -> str:
    """Return a question if records that are nearest to each other are on two sides more often than chance puts them.

    Pairs are found without a look at membership: a random draw has one record of a pair on each side with a chance below 2 m k
    / (n (n - 1)), and pairs are negatively dependent.
    """
    from sklearn.neighbors import NearestNeighbors

    count, members = len(rows), int(included.sum())
    values = rows.astype(np.float64)
    spreads = values.std(axis=0)
    values = (values - values.mean(axis=0)) / np.where(spreads > 0, spreads, 1.0)
    directions = np.random.default_rng(_SEED).normal(size=(values.shape[1], _DIRECTIONS)) / np.sqrt(values.shape[1])
    finder = NearestNeighbors(n_neighbors=1, algorithm="kd_tree").fit(values @ directions)
    distances, partners = (column[:, 0] for column in finder.kneighbors())
    first = np.flatnonzero((partners[partners] == np.arange(count)) & (np.arange(count) < partners))
    first = first[np.argsort(distances[first], kind="stable")]
    is_split = included[first] != included[partners[first]]
    chance = 2 * members * (count - members) / (count * (count - 1))
    for share in _SHARES:
        closest = is_split[: int(share * len(first))]
        if len(closest) and len(_SHARES) * upper_tail(int(closest.sum()), len(closest), chance) < _CHANCE:
            return phrase(
                "Look first: of the {count} closest pairs of records {share} have one on each side, where a split at "
                "random gives {chance}: are nonmembers copies of members, rounded, scaled or augmented?",
                count=len(closest),
                share=f"{closest.mean():.0%}",
                chance=f"{chance:.0%}",
            )
    return ""


def _find_own_scales(rows: Array, included: Array) -> str:
    """Return a question if means, or extremes that are attained once, are equal on both sides in continuous columns."""
    if rows.dtype.kind != "f" or rows.shape[1] < 2:
        return ""
    sides = [rows[side].astype(np.float64) for side in (included, ~included)]
    shares = np.array([[len(np.unique(column)) / len(side) for column in side.T] for side in sides]).min(axis=0)
    is_continuous, has_many = shares > _DISTINCT, shares * min(map(len, sides)) >= _MANY_VALUES
    first, second = (side[:, is_continuous] for side in sides)
    if _have_one_mean(sides, has_many if has_many.sum() >= _MANY_COLUMNS else is_continuous):
        statistic = "mean"
    elif is_continuous.sum() < 2:
        return ""
    elif (_share_largest(first, second) & _share_largest(-first, -second)).mean() > _SHARED_COLUMNS:
        statistic = "least and largest value"
    else:
        return ""
    return phrase(
        "Look first: columns of x have the same {statistic} on both sides, which a split at random does not "
        "give: was each side scaled by itself? Scale both as the training records were.",
        statistic=statistic,
    )


def _have_one_mean(sides: list[Array], columns: Array) -> bool:
    if columns.sum() < 2:
        return False
    first, second = (side[:, columns] for side in sides)
    errors = np.sqrt(first.var(axis=0) / len(first) + second.var(axis=0) / len(second))
    return bool((np.abs(first.mean(axis=0) - second.mean(axis=0)) < _EQUAL * errors).all())


def _share_largest(first: Array, second: Array) -> Array:
    """Return for each column whether both sides have the same largest value, each of one record."""
    largest = first.max(axis=0), second.max(axis=0)
    is_single = [(side == top).sum(axis=0) == 1 for side, top in zip((first, second), largest, strict=True)]
    return np.asarray(np.isclose(*largest, rtol=1e-6, atol=0) & is_single[0] & is_single[1])
