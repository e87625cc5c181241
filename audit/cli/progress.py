"""Progress on stderr: a bar with time left on a terminal, a plain line now and then elsewhere, and what stage has begun."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from audit.cli.printing import print_plain
from audit.core import training
from audit.core.training import Watcher

SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def bar(text: str, total: int, *, quiet: bool = False) -> Iterator[Watcher]:
    """Show how many steps are done, of `total` at most, to whoever is given the watcher; the bar is closed at the end."""
    if quiet or total == 0:
        yield Watcher()
    elif sys.stderr.isatty():
        with _terminal(text, total) as watcher:
            yield watcher
    else:
        lines = _Lines(text, total)
        yield Watcher(advance=lines.add, skip=lines.spare)


@contextmanager
def stage_lines() -> Iterator[None]:
    """While it is open, each stage of an audit that begins is a line on stderr; a bar stays below it."""
    listener = logging.Handler(logging.INFO)
    listener.emit = lambda record: print_plain(record.getMessage(), file=sys.stderr)  # type: ignore[method-assign]
    training.LOG.addHandler(listener)
    try:
        yield
    finally:
        training.LOG.removeHandler(listener)


@contextmanager
def _terminal(text: str, total: int) -> Iterator[Watcher]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(text, total=total)

        def spare(steps: int) -> None:
            bar.update(task, total=(bar.tasks[0].total or 0) - steps)

        yield Watcher(advance=lambda steps: bar.advance(task, steps), skip=spare)


class _Lines:
    """Progress for logs: a line at most every half minute, with the time left, and one at the end."""

    def __init__(self, text: str, total: int) -> None:
        self.text, self.total, self.done = text, total, 0
        self.start = self.last = time.monotonic()

    def add(self, steps: int) -> None:
        """Count steps that were done, and say so if it is time."""
        self.done += steps
        clock = time.monotonic()
        if self.done >= self.total > self.done - steps:
            print(f"{self.text}: 100% of {self.total:,} after {clock - self.start:.0f} s", file=sys.stderr)
        elif clock - self.last >= SECONDS_BETWEEN_LINES and self.done:
            self.last = clock
            seconds = (clock - self.start) / self.done * (self.total - self.done)
            print(f"{self.text}: {self.done / self.total:.0%} of {self.total:,}, about {seconds:.0f} s left", file=sys.stderr)

    def spare(self, steps: int) -> None:
        """Leave out steps that need not be done."""
        self.total -= steps
