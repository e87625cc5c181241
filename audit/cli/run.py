"""`audit run`: a whole audit from a config."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from audit.cli import child, options, own_code
from audit.cli.plan import ConfigName, Overrides, show
from audit.cli.printing import AsJson, print_plain, print_result
from audit.core.errors import ConfigError
from audit.core.training import Watcher

if TYPE_CHECKING:
    from audit.api.run import Launch, RunOutcome
    from audit.config import Resolution
    from audit.experiment.games.spec import Experiment


def run(
    config: ConfigName,
    override: Overrides = None,
    output: options.RunOutput = None,
    resume: options.Resume = False,
    dry_run: options.DryRun = False,
    ledger: options.Ledger = None,
    record: options.Record = None,
    record_key: options.RecordKey = None,
    as_json: AsJson = False,
    quiet: options.Quiet = False,
) -> int:
    """Run the audit that a config describes. A config is code: it may name modules and functions that are executed."""
    with _without_collector():
        from audit import config as configs
        from audit.api.run import Launch
        from audit.cli.progress import stage_lines
        from audit.experiment.games import records
        from audit.experiment.line.ledger_entry import LedgerEntry

        resolution = configs.load(config, override or ())
    if dry_run:
        return show(resolution, as_json=as_json, measure=False, call_factory=False)
    child.separate(resolution.config.execution.kind)
    launch = Launch(
        resolved=resolution,
        folder=output or _folder(resolution, resume),
        resume=resume,
        key=None if record_key is None else records.read_key(record_key),
        entry=LedgerEntry(file=ledger, training=record),
        formats=resolution.config.output.formats,
        watching=(lambda experiment: nullcontext(Watcher())) if quiet or as_json else _watching,
    )
    with own_code.prints_aside(), _kept_in(launch), nullcontext() if quiet or as_json else stage_lines():
        outcome = launch.go()
    return _conclude(outcome, as_json)


@contextmanager
def _without_collector() -> Iterator[None]:
    """A scope of imports: what they make stays, so the collector of garbage looks at none of it, then or later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _kept_in(launch: Launch) -> Iterator[None]:
    """A scope that, where a signal ends it, leaves word of the folder with the models that are finished."""
    from audit.execution.run_folder import PARTIAL

    try:
        yield
    except BaseException as stop:
        stop.add_note(f"finished models are kept in '{launch.folder}{PARTIAL}'")
        raise


def _folder(resolution: Resolution, resume: bool) -> Path:
    """Return the folder of a run that names none: a new one, or that of the unfinished run of the same config."""
    from audit.execution import manifest, run_folder

    directory = Path(resolution.config.output.directory)
    if not resume:
        return run_folder.new_folder(directory, resolution.config.name)
    folder = manifest.find_unfinished(directory, resolution.sha256)
    if folder is None:
        raise ConfigError(f"no unfinished run of this config under '{directory}'; start one without --resume")
    return folder


@contextmanager
def _watching(experiment: Experiment) -> Iterator[Watcher]:
    """Say on stderr what will be trained, and show how far it is."""
    from audit.cli.progress import bar

    design = experiment.design
    qualifier = "up to " if design.stops else ""
    print_plain(
        f"{design.name}: {qualifier}{design.models} models, {design.model_steps:,} model-steps, "
        f"{experiment.budget.comparisons} bounds that hold together with {experiment.budget.confidence:.0%} confidence",
        file=sys.stderr,
    )
    with bar("training (model-steps)", design.reported_steps) as watcher:
        yield watcher


def _conclude(outcome: RunOutcome, as_json: bool) -> int:
    """Print what came of a run and return its exit code; `OutputError` if a format could not be rendered."""
    from audit.cli import output as screen
    from audit.experiment.line import report as summary

    code = summary.code(outcome.report)
    values = {**screen.digest(outcome.report), "exit_code": code, "folder": str(outcome.folder)}
    print_result(as_json, values, *screen.lines(outcome.report, outcome.folder))
    outcome.refuse_incomplete()
    return code
