"""Scores of any tool and the coins that decided memberships, joined by record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from audit.core.data import Array


def join_coins(scores: Mapping[Any, float], coins: Mapping[Any, bool | int]) -> tuple[Array, Array]:
    """Scores of members and of nonmembers, as `audit.lower_bound` takes them, from scores and coins by record identifier.

    Args:
        scores: identifier to score, in any order; a pandas Series has the same interface.
        coins: identifier to whether the record was trained on. Identifiers are compared as text.

    Returns:
        Two arrays in the order of `coins`.

    Raises:
        DataError: a record has a coin and no score, a score and no coin, an identifier that another has as text, or a coin or
            score that is none.

    >>> members, nonmembers = join_coins({"b": 2.0, "a": 1.0}, {"a": False, "b": True})
    >>> members.tolist(), nonmembers.tolist()
    ([2.0], [1.0])
    """
    from audit.core import score_values
    from audit.data.record_ids import match_order
    from audit.data.source import memberships

    order = match_order(_ids(scores), _ids(coins))
    values = score_values.read([value for _, value in scores.items()], "scores").astype(np.float64)[order]
    included = memberships(np.asarray([value for _, value in coins.items()]), "coins")
    return values[included], values[~included]


def _ids(table: Mapping[Any, Any]) -> list[str]:
    return [str(name) for name, _ in table.items()]
