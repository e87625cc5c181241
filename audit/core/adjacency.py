"""Which data sets a guarantee holds apart."""

from __future__ import annotations

from enum import StrEnum


class Adjacency(StrEnum):
    """Which pairs of data sets a guarantee speaks about."""

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"
    ZERO_OUT = "zero_out"
