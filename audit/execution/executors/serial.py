"""Jobs one after another in this process."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from audit.core.protocols import Result, Work
from audit.core.training import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Serial:
    """One job after another, each with all cores."""

    def map(
        self, work: Work[Result], context: tuple[Any, ...], jobs: Sequence[Any], progress: Progress
    ) -> Generator[tuple[int, Result], None, None]:
        for index, job in enumerate(jobs):
            yield index, work(context, job, progress)


PLUGIN = Serial
