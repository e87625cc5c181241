"""Which data sets a guarantee holds apart."""

from __future__ import annotations

from enum import StrEnum

from audit.core import checks
from audit.core.errors import ConfigError


class Adjacency(StrEnum):
    """Which pairs of data sets a guarantee speaks about."""

    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"
    ZERO_OUT = "zero_out"

    @classmethod
    def _missing_(cls, value: object) -> Adjacency:
        raise ConfigError(f"Adjacency: value is {value!r}; expected one of {', '.join(cls)}")

    @classmethod
    def by_name(cls, name: Adjacency | str, key: str = "adjacency") -> Adjacency:
        """Return the adjacency of that name; `key` is what a message calls it.

        Raises:
            ConfigError: there is none.

        >>> Adjacency.by_name("zero_out")
        <Adjacency.ZERO_OUT: 'zero_out'>
        """
        return cls(checks.choice(name, key, list(cls)))
