"""`audit run`: a whole audit from a config."""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.cli.ledger import Entry
from audit.cli.plan import ConfigName, Overrides, bytes_needed, show
from audit.cli.printing import AsJson, print_json, print_plain
from audit.core.errors import AuditError, ConfigError
from audit.core.version import __version__
from audit.experiment import naming

if TYPE_CHECKING:
    from audit.config import Resolved
    from audit.core.results import AuditReport
    from audit.execution.store import Store
    from audit.experiment.game import Played
    from audit.experiment.spec import Experiment

LOG = logging.getLogger("audit")


def run(
    config: ConfigName,
    override: Overrides = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of this run. Default: runs/<time>-<name>.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the unfinished run of the same config.")] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print what would be done and what it could show. Trains nothing, calls no factory."),
    ] = False,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="Budget ledger of the data, shown in the report; see `audit ledger`.")
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(
            "--record",
            metavar="TRAINING",
            help="Record a training of this mechanism in the ledger; fails if it would exceed the budget.",
        ),
    ] = None,
    record_key: Annotated[
        Path | None, typer.Option("--record-key", help="File with the key of the records' names. Default: a new key.")
    ] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> int:
    """Run the audit that a config describes. A config is code: it may name modules and functions that are executed."""
    from audit import config as configs

    resolution = configs.load(config, override or ())
    if dry_run:
        return show(resolution, as_json=as_json, measure=False, call_factory=False)
    return _Run(resolution, output, resume, quiet or as_json, Entry(file=ledger, training=record), record_key).go(as_json)


class _Run:
    """One `audit run`, from a resolved config to a finished folder."""

    def __init__(
        self, resolution: Resolved, output: Path | None, resume: bool, quiet: bool, entry: Entry, key: Path | None
    ) -> None:
        self.resolved, self.quiet, self.entry = resolution, quiet, entry
        self.final = self._folder(output, resume)
        self.resume = resume
        self.key = None if key is None else naming.read_key(key)

    def _folder(self, output: Path | None, resume: bool) -> Path:
        from audit.execution import store

        if output is not None:
            return output
        directory, name = Path(self.resolved.config.output.directory), self.resolved.config.name
        if not resume:
            return store.new_folder(directory, name)
        folder = store.find_unfinished(directory, self.resolved.sha256)
        if folder is None:
            raise ConfigError(f"no unfinished run of this config under '{directory}'; start one without --resume")
        return folder

    def go(self, as_json: bool) -> int:
        from audit.execution.store import Store

        store = Store.start(self.final, self.resolved.sha256, resume=self.resume)
        self.log = _log_to(store.folder / "audit.log")
        LOG.info("epsilon-audit %s, config %s, sha256 %s", __version__, self.resolved.config.name, self.resolved.sha256)
        try:
            return self._go(store, as_json)
        except AuditError as error:
            LOG.error("%s", error)
            store.abandon()
            raise
        finally:
            _close(self.log)

    def _go(self, store: Store, as_json: bool) -> int:
        from audit.cli.output import refuse_incomplete
        from audit.execution.code import sources
        from audit.experiment import assemble
        from audit.experiment import report as summary

        start = time.monotonic()
        names = naming.RecordKey(store.record_key(self.key))
        experiment = replace(assemble.assemble(self.resolved.config), names=names)
        running = sources(experiment.execution.foreign)
        LOG.info("code %s", ", ".join(f"{name} {digest}" for name, digest in running.items()))
        store.bind_code(running)
        self.entry.check(experiment)
        store.ensure_space(bytes_needed(experiment))
        self._say(experiment)
        LOG.info("%d models at most, %d model-steps", experiment.models, experiment.model_steps)
        audit_report, outcomes = self._audit(experiment, store)
        LOG.info("all games played after %.0f s", time.monotonic() - start)
        frame = self._frame(store, experiment)
        final_report = self.entry.settled(summary.report(audit_report, frame), experiment)
        folder, failures = self._write(final_report, outcomes, store, time.monotonic() - start)
        code = summary.code(final_report)
        _print_outcome(final_report, folder, code, as_json)
        refuse_incomplete(folder, failures)
        return code

    def _say(self, experiment: Experiment) -> None:
        if not self.quiet:
            models = experiment.models
            qualifier = "up to " if any(play.stops for play in experiment.plays) else ""
            print_plain(
                f"{experiment.name}: {qualifier}{models} models, {experiment.model_steps:,} model-steps, "
                f"{experiment.budget.comparisons} bounds that hold together with {experiment.budget.confidence:.0%} confidence",
                file=sys.stderr,
            )

    def _audit(self, experiment: Experiment, store: Store) -> tuple[Any, tuple[Played, ...]]:
        from audit.cli.progress import bar
        from audit.experiment import run as line

        with bar("training (model-steps)", experiment.model_steps, quiet=self.quiet) as progress:
            return line.run(experiment, store, progress)

    def _frame(self, store: Store, experiment: Experiment) -> Any:
        from audit.engine import device
        from audit.experiment import provenance
        from audit.experiment import report as summary

        config = self.resolved.config
        text, threads = device.describe(experiment.execution.device)
        return summary.Frame(
            kind="run",
            title=config.title or experiment.name,
            created=store.created,
            budget=experiment.budget,
            data=summary.data_summary(experiment.dataset),
            model=summary.model_name(experiment.recipes[0].model, experiment.parameters),
            gates=config.policy.gates,
            classes=experiment.classes,
            unaccounted=(*config.unaccounted, *experiment.dataset.unaccounted),
            config=self.resolved.text,
            origins=self.resolved.origins,
            provenance=provenance.provenance(
                command=f"audit run {config.name}",
                seed=config.seed,
                config_sha256=self.resolved.sha256,
                device=text,
                threads=threads,
            ),
        )

    def _write(
        self, audit_report: AuditReport, playeds: tuple[Played, ...], store: Store, seconds: float
    ) -> tuple[Path, list[str]]:
        """The finished folder, and which formats could not be rendered. What others are made from is written first."""
        import reports
        from audit.experiment import tables

        files = reports.render(audit_report, ("json",))
        files["config.resolved.yaml"] = self.resolved.text.encode()
        files["scores.parquet"] = tables.scores_parquet(audit_report, playeds)
        files["environment.json"] = tables.environment(audit_report, seconds)
        for name, content in files.items():
            store.write(name, content)
        outputs, failures = reports.attempt(
            audit_report, [name for name in self.resolved.config.output.formats if name != "json"]
        )
        for name, content in outputs.items():
            store.write(name, content)
        LOG.info("outcome %s; written: %s", audit_report.outcome, ", ".join(sorted([*files, *outputs])))
        _close(self.log)  # its checksum is taken next
        return store.finish(), failures


def _log_to(path: Path) -> logging.Handler:
    LOG.setLevel(logging.INFO)
    writer = logging.FileHandler(path)
    writer.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    LOG.addHandler(writer)
    return writer


def _close(writer: logging.Handler) -> None:
    LOG.removeHandler(writer)
    writer.close()


def _print_outcome(report: AuditReport, folder: Path, code: int, as_json: bool) -> None:
    from audit.cli import output as screen

    if as_json:
        print_json({**screen.digest(report), "exit_code": code, "folder": str(folder)})
        return
    print_plain(*screen.lines(report, folder))
