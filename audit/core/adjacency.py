"""Which data sets a guarantee holds apart."""

from __future__ import annotations

from enum import StrEnum

from audit.core import checks


class Adjacency(StrEnum):
    """Which pairs of data sets a guarantee speaks about."""

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"
    ZERO_OUT = "zero_out"

    @classmethod
    def by_name(cls, name: Adjacency | str, key: str = "adjacency") -> Adjacency:
        """Return the adjacency of that name; `key` is what a message calls it.

        Raises:
            ConfigError: there is none.

        >>> Adjacency.by_name("zero_out")
        <Adjacency.ZERO_OUT: 'zero_out'>
        """
        return cls(checks.choice(name, key, list(cls)))
