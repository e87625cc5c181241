"""Worst cases for generators of tables: a table and one record, whose presence the generator can hardly hide.

References: Annamalai, Ganev and De Cristofaro 2024, arXiv 2405.10994.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attacks.tables.canaries import make_canaries
from audit.core import checks
from audit.core.errors import DataError

WORST_CASES = ("mixed", "repeated", "domain")


def worst_case(table: Any, name: str, generator: np.random.Generator) -> tuple[Any, Any]:
    """Return the table that all runs share, and the one record that a coin adds, two frames; `DataError` if no two records
    differ in every column.

    Args:
        name: "mixed": two records of the table that agree in no column, and a third that takes every second value of each;
            the canary takes the other values, so it has no category of its own and shares every pair of columns with nobody.
            "repeated": a table of two records that agree in no column, and the second of them once more. "domain": the whole
            table, and a record with a category of its own in each column of names and numbers a whole range beyond
            the largest, which moves what is read off the data.
    """
    checks.choice(name, "worst_case", WORST_CASES)
    if name == "domain":
        ends = {column: 2 * table[column].max() - table[column].min() for column in table if table[column].dtype.kind in "iuf"}
        return table, make_canaries(table, 1, generator, ("unseen",)).assign(**ends)
    first, second = _opposites(table, generator)
    if name == "repeated":
        return table.iloc[[first, second]].reset_index(drop=True), table.iloc[[second]].reset_index(drop=True)
    rows = table.iloc[[first, second, first, first]].reset_index(drop=True)
    for place in range(table.shape[1]):
        rows.iloc[2 + place % 2, place] = table.iloc[second, place]
    return rows.iloc[:3], rows.iloc[3:].reset_index(drop=True)


def _opposites(table: Any, generator: np.random.Generator) -> tuple[int, int]:
    """Return the places of two records that agree in no column."""
    for first in generator.permutation(len(table)).tolist():
        differs = (table != table.iloc[first]).all(axis=1).to_numpy()
        if differs.any():
            return first, int(generator.choice(np.flatnonzero(differs)))
    raise DataError("no two records of the table differ in every column, which this worst case is made of; take 'domain'")
