"""Values made once for a report and language, and kept for all its formats."""

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from audit.core.results import AuditReport
from audit.core.rounding import decimals
from reports.words.language import current

Value = TypeVar("Value")
MOST_RESULTS = 4


def in_own_decimals(function: Callable[[AuditReport], Value]) -> Callable[[AuditReport], Value]:
    """Return the function with figures cut to as many decimals as the report needs."""

    @wraps(function)
    def call(report: AuditReport) -> Value:
        with decimals(report.places):
            return function(report)

    return call


def once_per_report(function: Callable[[AuditReport], Value]) -> Callable[[AuditReport], Value]:
    """Return the function with its last results, found by identity: a report of a thousand trainings takes .1 s to hash."""
    results: deque[tuple[AuditReport, str, Value]] = deque(maxlen=MOST_RESULTS)

    @wraps(function)
    def cached_call(report: AuditReport) -> Value:
        tag = current().tag
        for subject, language, value in tuple(results):
            if subject is report and language == tag:
                return value
        value = function(report)
        results.append((report, tag, value))
        return value

    return cached_call
