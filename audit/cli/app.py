"""Words in, exit code out. Nothing heavy is imported until a verb runs."""

from __future__ import annotations

import errno
import logging
import os
import re
import shlex
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, Any, ClassVar

import typer
from typer.exceptions import TyperException

from audit import plugins
from audit.cli import accountant, attack, canaries, child, ledger, printing
from audit.cli.about import doctor, ls
from audit.cli.adapter import adapter
from audit.cli.diff import diff
from audit.cli.endpoint import endpoint
from audit.cli.flower import flower
from audit.cli.frontier import frontier
from audit.cli.index import index
from audit.cli.init import init
from audit.cli.lookup import lookup
from audit.cli.mechanism import mechanism
from audit.cli.model import model
from audit.cli.plan import plan
from audit.cli.printing import print_error, print_plain
from audit.cli.replay import replay
from audit.cli.report import report
from audit.cli.run import run
from audit.cli.scores import scores
from audit.cli.step import step
from audit.cli.table import table
from audit.cli.training import training, unlearn
from audit.cli.verify import verify
from audit.cli.zoo import zoo
from audit.core import provenance
from audit.core.errors import AuditError, ConfigError
from audit.core.version import __version__
from audit.core.visible import visible

INTERNAL = 4

app = typer.Typer(
    name="audit",
    help="Audit the privacy of PyTorch models: the epsilon that is claimed, the epsilon that attacks prove, and the "
    "largest that they could have proven.",
    epilog="Exit codes: 0 no claim refuted, policy met; 1 a claim refuted or a gate not met; 2 wrong usage or input; "
    "3 not testable or invalid; 4 internal error or output not written; 130, 143, 129 stopped by "
    "Ctrl-C, SIGTERM or SIGHUP (run --resume continues).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
# in the order of `audit --help`
for verb in (
    *(run, plan, frontier, model, scores, table, training, unlearn, endpoint, adapter, step, flower, zoo, mechanism, replay),
    *(report, lookup, verify, diff, index, ls, init, doctor),
):
    app.command(verb.__name__)(verb)
app.add_typer(attack.app, name="attack")
app.add_typer(canaries.app, name="canaries")
app.add_typer(accountant.app, name="accountant")
app.add_typer(ledger.app, name="ledger")


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print_plain(f"epsilon-audit {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of `audit` itself; its help text is above."""


class StopSignal(BaseException):
    """A signal asked the program to end; no `except Exception` on the way stops it, and every `finally` runs.

    Attributes:
        received: the number of the signal once there was one. Python and libraries may put another error instead of
            whatever is raised while they run.
    """

    received: ClassVar[int | None] = None

    def __init__(self, number: int) -> None:
        self.number = number


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the console script: runs a verb and exits with its code, whoever reads what it prints."""
    out, err = printing.guard()
    logging.getLogger("audit").propagate = False  # some libraries give the root logger a handler, which would print audit.log
    for number in child.STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _stop)
    sys.unraisablehook = _unraisable
    show_plainly()
    child.ENTRY.is_main = True
    code = answer(sys.argv[1:] if arguments is None else arguments)
    printing.settle(out, err)
    child.say_code(code)
    sys.exit(code)


def show_plainly() -> None:
    """Let warnings of libraries print no character that is not seen: they may quote a name from a third-party file."""
    original = warnings.formatwarning
    warnings.formatwarning = lambda *parts, **options: visible(original(*parts, **options), keep="\n\t")


def _stop(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # asked twice, the program ends at once
    StopSignal.received = number
    raise StopSignal(number)


def _unraisable(event: Any) -> None:
    """Stops again, a moment later, where a stop came in a destructor, which Python lets end no program."""
    if not isinstance(event.exc_value, StopSignal) or not hasattr(signal, "setitimer"):
        sys.__unraisablehook__(event)
        return
    number = event.exc_value.number
    signal.signal(signal.SIGALRM, lambda *_: _stop(number, None))
    signal.setitimer(signal.ITIMER_REAL, 0.05)


def answer(arguments: Sequence[str]) -> int:
    """The exit code of a command line; every failure ends here with a message on stderr."""
    try:
        provenance.timestamp()  # libraries read SOURCE_DATE_EPOCH when imported, and would not say what is wrong with it
        code = app(list(arguments), standalone_mode=False)
        return code if isinstance(code, int) else 0
    except typer.Exit as request:
        return int(request.exit_code)
    except TyperException as error:
        usage: Any = error  # a usage error prints itself, with the help line of its command
        usage.show()
        return int(usage.exit_code)
    except (typer.Abort, StopSignal) as stop:
        return _interrupt(arguments, stop.number if isinstance(stop, StopSignal) else signal.SIGINT, stop)
    except BaseException as error:  # sys.exit and panics of Rust are no `Exception`; their exit codes would say something
        if isinstance(error, SystemExit) and any(re.fullmatch("_.+_COMPLETE", name) for name in os.environ):
            raise  # how the completion of a shell ends
        logging.getLogger("audit").debug("failed", exc_info=True)
        return _fail(error, arguments)


def _fail(error: BaseException, arguments: Sequence[str]) -> int:
    """The exit code of an error, after its message; one that took the place of a stop is that stop."""
    if StopSignal.received is not None:
        return _interrupt(arguments, StopSignal.received, error)
    if isinstance(error, AuditError):
        print_error(error)
        return error.exit_code
    return _report_bug(error)


def _report_bug(error: BaseException) -> int:
    """Say whose an error is that no one foresaw: the memory's, a file name's, that of code named to be run, this project's."""
    if isinstance(error, MemoryError):
        print_error(ConfigError(f"there is not enough memory: {error or 'an allocation failed'}; ask for less"))
        return ConfigError.exit_code
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        print_error(ConfigError(f"{error.strerror}: '{error.filename}'; give a shorter one"))
        return ConfigError.exit_code
    print_plain(*"".join(traceback.format_exception(error)).splitlines(), file=sys.stderr)
    if isinstance(error, SystemExit):  # a worker's has no line of the code that asked for it
        place = plugins.fault(error) or "code that was named to be run"
        print_error(ConfigError(f"{place} asked the program to end (exit code {error.code}); a command ends with its own code"))
        return ConfigError.exit_code
    if at := plugins.fault(error):
        print_error(ConfigError(f"{at}: {type(error).__name__}: {error}; this is in code that was named to be run"))
        return ConfigError.exit_code
    further = plugins.named_packages()  # what they returned may have failed only later, in a line of this project
    hint = f", unless {', '.join(further)}, named to be run, returned something else than expected" if further else ""
    print_plain(f"internal error: please report the lines above{hint}", file=sys.stderr)
    return INTERNAL


def _interrupt(arguments: Sequence[str], number: int, stop: BaseException) -> int:
    """Say what ended the program, what of a run is kept, and by which command it continues."""
    notes = [f"; {note}" for note in getattr(stop, "__notes__", ())]
    if arguments[:1] == ["run"] and notes:  # nothing is noted before there is a run to go on with
        again = [word for word in arguments if word != "--resume"]
        notes.append(f"; continue with: {shlex.join(['audit', *again, '--resume'])}")
    print_plain(f"stopped by {signal.Signals(number).name}{''.join(notes)}", file=sys.stderr)
    return child.STOPPED_BY + number
