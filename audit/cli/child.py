"""The work of a command in a child process that says its own exit code, where native code may end the process with any.

Ray ends a program with exit code 1 when it loses a process; here 1 means that a claim was refuted.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from dataclasses import dataclass

import typer

from audit.core.errors import WorkerLost

NATIVE = ("ray",)  # kinds of execution that may end the process
STOPPED_BY = 128
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class ProgramEntry:
    """The program of this process, whether `main` runs it, and the pipe on which a child says its exit code."""

    is_main: bool = False
    pipe: int | None = None


ENTRY = ProgramEntry()


def separate(kind: str) -> None:
    """Go on in a child process if jobs of this kind need it; here end as it does: by `typer.Exit` or `WorkerLost`."""
    if kind not in NATIVE or not ENTRY.is_main or ENTRY.pipe is not None or not hasattr(os, "fork"):
        return
    sys.stdout.flush()
    sys.stderr.flush()
    (lifeline, parent_end), (answer_pipe, ENTRY.pipe) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.close(parent_end)
        os.setpgid(0, 0)  # Ctrl-C reaches the parent alone, which passes it on once
        threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
        return
    os.close(ENTRY.pipe)
    ENTRY.pipe = None
    for number in STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    os.set_blocking(answer_pipe, False)  # no process that outlives the child keeps it waiting
    raise _end(_read(answer_pipe), os.waitstatus_to_exitcode(status))


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1)
    except BlockingIOError:
        return b""


def _end(word: bytes, status: int) -> Exception:
    """Return how this process ends, after the code that the child said and the status with which the system saw it end."""
    if word:
        return typer.Exit(word[0])
    if -status in STOPPING:
        return typer.Exit(STOPPED_BY - status)
    cause = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"was ended by Ray (exit code {status})"
    return WorkerLost(
        f"the process of the run {cause}: a process of Ray or memory was lost; finished models are kept. Check the cluster, or "
        "lower models_per_job if memory ran out, then use --resume"
    )


def _end_with_parent(lifeline: int) -> None:
    """End this process when the parent ended and its side of the pipe was closed."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGKILL)


def say_code(code: int) -> None:
    """Send the exit code to the parent, if this is a child."""
    if ENTRY.pipe is not None:
        os.write(ENTRY.pipe, bytes([code]))
