"""Scores and coins of the same records, joined by the records' identifiers."""

from typing import Any

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError

_MOST_NAMES = 3


def match_order(score_ids: Any, coin_ids: Any) -> Array:
    """Position among the scores of each record that has a coin, `(n,)`, with identifiers compared as text.

    `DataError` if one is missing or occurs twice on either side, or only one side has the record: what is left out after the
    coins were tossed biases the audit.
    """
    scores, coins = _texts(score_ids, "scores"), _texts(coin_ids, "coins")
    place = {name: row for row, name in enumerate(scores)}
    unscored = [name for name in coins if name not in place]
    if unscored:
        raise DataError(
            f"{len(unscored)} of {len(coins)} records with a coin have no score ({_list(unscored)}); expected a score for "
            "every record for which a coin was tossed, since leaving some out afterwards would bias the audit"
        )
    members = set(coins)
    foreign = [name for name in scores if name not in members]
    if foreign:
        raise DataError(
            f"{len(foreign)} of {len(scores)} records with a score have no coin ({_list(foreign)}); expected scores of the "
            "records that coins were tossed for and of no others"
        )
    return np.array([place[name] for name in coins], dtype=np.int64)


def _texts(ids: Any, side: str) -> list[str]:
    column = np.asarray(ids)
    if column.ndim != 1:
        raise DataError(f"identifiers of {side} have shape {column.shape}; expected one for each record, (n,)")
    if column.dtype.kind == "f" and np.isfinite(column).all() and (column % 1 == 0).all():
        column = column.astype(np.int64)  # whole numbers that a table held as real ones
    texts = [str(value) for value in column.tolist()]
    empty = [row for row, text in enumerate(texts) if text in ("", "nan", "None", "NaT", "<NA>")]
    if empty:
        raise DataError(f"row {empty[0]} of the {side} has no identifier ({len(empty)} such rows)")
    values, counts = np.unique(np.array(texts, dtype=np.str_), return_counts=True)
    if (counts > 1).any():
        twice = values[counts > 1].tolist()
        raise DataError(f"{len(twice)} identifiers occur more than once among the {side} ({_list(twice)}); expected each once")
    return texts


def _list(names: list[str]) -> str:
    remainder = len(names) - _MOST_NAMES
    return ", ".join(f"'{name}'" for name in names[:_MOST_NAMES]) + (f" and {remainder} more" if remainder > 0 else "")
