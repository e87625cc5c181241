"""Canaries for tables: records that a generator can hardly make without having seen them, in the columns of a given table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from audit.core import checks
from audit.core.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("rare", "extreme", "duplicated", "unseen")
USUAL_KINDS = KINDS[:3]
RARE_SHARE = 0.05  # of a column's values, below which one counts as rare


def make_canaries(table: pd.DataFrame, count: int, generator: np.random.Generator, kinds: tuple[str, ...] = USUAL_KINDS) -> Any:
    """Return a frame of `count` records with the columns and types of `table`, the kinds in turn; `ConfigError` if a kind does
    not exist, or no canary is given.

    Args:
        kinds: "rare": every value drawn alone, rare ones preferred, so that no such combination is to be expected;
            "extreme": the same with every number beyond the table's ends; "duplicated": a record of the table with a third of
            its values redrawn so, as a second record of one person would be; "unseen": rare numbers, and a category of its own
            in each column of names, which a generator that is told the categories does not take.
    """
    import pandas as pd

    checks.count(count, "canaries", minimum=1)
    if not len(kinds):
        raise ConfigError(f"kinds is {kinds!r}; expected at least one of {', '.join(KINDS)}")
    kind_names = [checks.choice(kind, "kinds", KINDS) for kind in kinds]
    turns = np.array([kind_names[place % len(kind_names)] for place in range(count)])
    is_original = generator.random((count, table.shape[1])) >= 1 / 3
    originals = table.iloc[generator.integers(len(table), size=count)]
    columns = {}
    for place, name in enumerate(table.columns):
        column = table[name]
        drawn = _draw_rare(column, count, generator)
        if column.dtype.kind in "iuf":
            drawn = np.where(turns == "extreme", _draw_beyond(column, count, generator), drawn)
        is_copy = (turns == "duplicated") & is_original[:, place]
        values = pd.Series(drawn).where(~is_copy, originals[name].to_numpy())
        if column.dtype.kind not in "iufb":
            own = [f"unseen {number}" for number in range(count)]
            values = values.astype(object).where(turns != "unseen", own)
        # a type of categories would turn every value that is none of them into a missing one
        columns[name] = values.astype(column.dtype if column.dtype.name != "category" else object)
    return pd.DataFrame(columns)


def _draw_rare(column: Any, count: int, generator: np.random.Generator) -> Any:
    """Draw values of the column, each equally often however rare; of numbers without repeats that is the plain law."""
    shares = column.value_counts(normalize=True, sort=False)
    rare = shares[shares < RARE_SHARE]
    pool = (rare if len(rare) >= 2 else shares).index.to_numpy()  # one rare value would be the same in all canaries
    return pool[generator.integers(len(pool), size=count)]


def _draw_beyond(column: Any, count: int, generator: np.random.Generator) -> Any:
    """Draw numbers up to a tenth of the range beyond its ends; whole ones stay whole."""
    low, high = float(column.min()), float(column.max())
    beyond = (high - low or 1.0) * generator.uniform(0.02, 0.1, count)  # a constant column has no range to go beyond
    drawn = np.where(generator.random(count) < 0.5, low - beyond, high + beyond)
    return drawn if column.dtype.kind == "f" else np.where(drawn < low, np.floor(drawn), np.ceil(drawn)).astype(np.int64)
