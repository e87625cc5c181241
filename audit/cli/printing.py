"""What every command prints on stdout: one JSON object for programs, a table for people."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, TextIO

import typer

from audit.core.visible import visible

MOST_LETTERS = 2000  # of a line of an error, which may quote a value of a megabyte
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]


def print_json(values: Any) -> None:
    """Prints JSON that every parser reads: numbers that are not finite become "Infinity", "-Infinity" and "NaN".

    >>> print_json({"ceiling": float("inf")})
    {
     "ceiling": "Infinity"
    }
    """
    print(json.dumps(_strict(values), indent=1, allow_nan=False))


def _strict(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _strict(item) for name, item in value.items()}
    return [_strict(item) for item in value] if isinstance(value, list | tuple) else value


def plain(text: object) -> str:
    """The text on one line, with every character that a terminal would obey written out.

    Titles, names and messages may come from third-party files: a line break could forge a line of this program, an escape
    sequence hide one.

    >>> plain("a\\nb\\x1b[31m")
    'a\\\\nb\\\\x1b[31m'
    """
    return visible(str(text))


def print_plain(*lines: object, file: TextIO | None = None) -> None:
    """Print each text on its own line, on stdout unless told otherwise; the only way for third-party text to a terminal."""
    for line in lines:
        print(plain(line), file=file)


def print_result(as_json: bool, values: Any, *lines: object) -> None:
    """Print the JSON that programs ask for, else the lines for people."""
    if as_json:
        print_json(values)
    else:
        print_plain(*lines)


def print_error(error: BaseException) -> None:
    """Print a message on stderr, with `error:` before each of its lines, so that none can pass for another message."""
    lines = (line if len(line) <= MOST_LETTERS else f"{line[:MOST_LETTERS]}..." for line in str(error).split("\n"))
    print_plain(*(f"error: {line}" for line in lines), file=sys.stderr)


def stdout_console() -> Any:
    """A `rich` console on stdout; as wide as tables need if stdout is a file or a pipe, which have no width."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=180)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Prints a title and, if there are rows, a table; cells of its first column are never broken over lines."""
    from rich import box
    from rich.table import Table

    console = stdout_console()
    console.print(plain(title), highlight=False, markup=False)
    if not rows:
        return
    table = Table(box=box.SIMPLE_HEAD)
    for place, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=place == 0)
    for row in rows:
        table.add_row(*(plain(cell).replace("[", "\\[") for cell in row))
    console.print(table)


# Stdout and stderr without a reader: what cannot be printed never changes what a command answers.
class GuardedStream:
    """A text stream that remembers failing writes instead of raised; all else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        """The number of characters taken: all of them, wherever they went."""
        if self.failure is None:
            try:
                self._stream.write(text)
            except OSError as error:
                self.failure = error
        return len(text)

    def flush(self) -> None:
        """Flush the stream, while it works."""
        if self.failure is None:
            try:
                self._stream.flush()
            except OSError as error:
                self.failure = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard() -> tuple[GuardedStream, GuardedStream]:
    """Puts guarded streams instead of stdout and stderr; a closed one is opened on the null device.

    Without that the next file that the program opens would take the closed descriptor, and prints would go into it.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (open until the end)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # as stderr does what its encoding lacks
    guards = GuardedStream(sys.stdout), GuardedStream(sys.stderr)
    sys.stdout, sys.stderr = guards  # type: ignore[assignment]
    return guards


def settle(out: GuardedStream, err: GuardedStream) -> None:
    """Flushes both at the end; says on stderr that stdout is not whole, except to a reader that left on purpose.

    A stream that failed goes to the null device, so that the interpreter's own last flush finds nothing to complain of.
    """
    out.flush()
    if out.failure is not None and out.failure.errno != errno.EPIPE:
        print(f"stdout is incomplete: {out.failure.strerror}; the exit code stands", file=err)
    err.flush()
    for stream in (out, err):
        if stream.failure is not None:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
