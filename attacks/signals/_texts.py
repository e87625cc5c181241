"""What signals of texts share."""

from __future__ import annotations

from audit.core.canaries import Canaries
from audit.core.data import Records

LONGEST = 1 << 12  # tokens of a text, for the estimate of memory


def read_texts(canaries: Canaries) -> Records | None:
    """The canaries' records if they are texts, else None."""
    records = canaries.records
    return records if records is not None and records.are_texts else None
