"""Values made once for a report and language, and kept for all its formats."""

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from audit.core.results import AuditReport
from reports.words.language import current

Value = TypeVar("Value")
MOST_KEPT = 4


def once_per_report(function: Callable[[AuditReport], Value]) -> Callable[[AuditReport], Value]:
    """Return the function with its last results kept by identity: to hash a report of a thousand trainings takes a tenth of a second."""
    kept: deque[tuple[AuditReport, str, Value]] = deque(maxlen=MOST_KEPT)

    @wraps(function)
    def remembered(report: AuditReport) -> Value:
        tag = current().tag
        for known, language, value in tuple(kept):
            if known is report and language == tag:
                return value
        value = function(report)
        kept.append((report, tag, value))
        return value

    return remembered
