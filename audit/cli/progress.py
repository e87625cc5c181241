"""Progress on stderr: a bar with time left on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from audit.core.training import Progress

SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def bar(text: str, total: int, *, quiet: bool = False) -> Iterator[Progress]:
    """A function to call with the number of model-steps done; closes the bar at the end."""
    if quiet or total == 0:
        yield lambda steps: None
    elif sys.stderr.isatty():
        with _terminal(text, total) as advance:
            yield advance
    else:
        with _log_listener(lambda message: print(message, file=sys.stderr)):
            yield _Lines(text, total)


@contextmanager
def _log_listener(say: Callable[[str], None]) -> Iterator[None]:
    """While it is open, what games say about stopping early is passed on."""
    logger = logging.getLogger("audit.experiment.stopping")
    listener = logging.Handler()
    listener.emit = lambda record: say(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(listener)
    try:
        yield
    finally:
        logger.removeHandler(listener)


@contextmanager
def _terminal(text: str, total: int) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(text, total=total)
        with _log_listener(bar.console.print):
            yield lambda steps: bar.advance(task, steps)


class _Lines:
    """Progress for logs: a line at most every half minute, with the time left, and one at the end."""

    def __init__(self, text: str, total: int) -> None:
        self.text, self.total, self.done = text, total, 0
        self.start = self.last = time.monotonic()

    def __call__(self, steps: int) -> None:
        self.done += steps
        clock = time.monotonic()
        if self.done >= self.total > self.done - steps:
            print(f"{self.text}: 100% of {self.total:,} after {clock - self.start:.0f} s; statistics follow", file=sys.stderr)
        elif clock - self.last >= SECONDS_BETWEEN_LINES and self.done:
            self.last = clock
            seconds = (clock - self.start) / self.done * (self.total - self.done)
            print(f"{self.text}: {self.done / self.total:.0%} of {self.total:,}, about {seconds:.0f} s left", file=sys.stderr)
