"""A whole audit from a config: what `audit run` and `audit.run` do."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.api.configs import resolve
from audit.core.errors import AuditError, ConfigError
from audit.core.version import __version__

if TYPE_CHECKING:
    from audit.config import Resolution
    from audit.core.results import AuditReport
    from audit.core.training import Progress, Watcher
    from audit.execution.store import Store
    from audit.experiment.games.spec import Experiment
    from audit.experiment.line.game import GameOutcome
    from audit.experiment.line.ledger_entry import LedgerEntry

LOG = logging.getLogger("audit")


def run(
    config: str | Path | Mapping[str, Any],
    *,
    output: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    ledger: str | Path | None = None,
    record: str | None = None,
    record_key: str | Path | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Train, attack, bound and judge as a config says; the report is the one that `audit run` writes.

    Args:
        config: a YAML file, the name of a shipped config ("quickstart"), or the same as a mapping.
        output: folder to write, with all that the config's `output.formats` name; give one for anything long, so that an
            interrupted run can go on. None writes nothing that stays.
        overrides: values by dotted path, such as `{"training.steps": 100}`; they go before the environment (`AUDIT_SET_*`).
        resume: go on with the unfinished run in `output`.
        ledger: budget ledger of the data, shown in the report.
        record: training of the audit to record in that ledger.
        record_key: file with the key of the records' names; None draws one.
        progress: receives model-steps done, also of those that an earlier part of the run had done.

    Raises:
        ConfigError: the config, or a combination of arguments, cannot be used.
        DataError: the data cannot be read or are too few.
        OutputError: the folder could not be written, or a format could not be rendered; all else is in the folder.

    References:
        docs/develop/design.md, "The straight line".
    """
    from audit.core.training import Watcher
    from audit.experiment.games import records
    from audit.experiment.line.ledger_entry import LedgerEntry

    resolution = resolve(config, overrides or {})
    watcher = Watcher() if progress is None else Watcher(advance=progress, skip=progress)
    if resume and output is None:
        raise ConfigError("resume continues the run in 'output', but no output is given")
    with nullcontext(Path(output)) if output is not None else _passing() as folder:
        launch = Launch(
            resolved=resolution,
            folder=folder,
            resume=resume,
            key=None if record_key is None else records.read_key(Path(record_key)),
            entry=LedgerEntry(file=ledger, training=record),
            formats=resolution.config.output.formats if output is not None else (),
            watching=lambda experiment: nullcontext(watcher),
        )
        outcome = launch.go()
    outcome.refuse_incomplete()
    return outcome.report


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """A run that is over, in its folder, with the formats that could not be rendered, and why."""

    report: AuditReport
    folder: Path
    failures: tuple[str, ...] = ()

    def refuse_incomplete(self) -> None:
        import reports

        reports.refuse_incomplete(self.failures, self.folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One run, from a resolved config to a finished folder.

    Attributes:
        folder: that it ends in; it must not exist.
        key: of the records' names; None draws one.
        entry: its entry in a budget ledger.
        formats: to render, in addition to report.json.
        watching: called with the experiment before anything is trained; gives what receives model-steps.
    """

    resolved: Resolution
    folder: Path
    resume: bool
    key: bytes | None
    entry: LedgerEntry
    formats: Sequence[str]
    watching: Callable[[Experiment], AbstractContextManager[Watcher]]

    def go(self) -> RunOutcome:
        """Run it; the folder's audit.log holds the `AuditError` that makes it impossible, and finished models are kept."""
        from audit.execution.log_file import log_in
        from audit.execution.store import Store

        store = Store.start(self.folder, self.resolved.sha256, resume=self.resume)
        with log_in(store.folder / "audit.log") as close_log:
            name, digest = self.resolved.config.name, self.resolved.sha256
            LOG.info("epsilon-audit %s, config %s, sha256 %s, started %s", __version__, name, digest, store.created)
            try:
                report, outcomes, seconds = self._audit(store)
                return self._write(report, outcomes, store, seconds, close_log)
            except AuditError as error:
                LOG.error("%s", error)
                store.abandon()
                raise

    def _audit(self, store: Store) -> tuple[AuditReport, tuple[GameOutcome, ...], float]:
        from audit.accounting.costs import with_costs
        from audit.config.seeds import refuse_short_seed
        from audit.execution import manifest
        from audit.execution.code import sources
        from audit.experiment.games import records
        from audit.experiment.line import assemble
        from audit.experiment.line import report as summary
        from audit.experiment.line import run as line
        from audit.experiment.plan.plan import bytes_needed

        start = time.monotonic()
        names = records.RecordKey(store.record_key(self.key))
        seed = store.seed() if self.resolved.config.seed is None else None
        experiment = assemble.assemble(self.resolved.config, key=names, seed=seed)
        refuse_short_seed(self.resolved)
        design = experiment.design
        running = sources(experiment.execution.foreign)
        LOG.info("code %s", ", ".join(f"{name} {digest}" for name, digest in running.items()))
        manifest.bind_code(store.folder, running)
        self.entry.check(design)
        store.ensure_space(bytes_needed(design, experiment.audit_inputs))
        LOG.info("%d models at most, %d model-steps", design.models, design.model_steps)
        with self.watching(experiment) as watcher:
            results, outcomes = line.run(experiment, store, watcher)
        LOG.info("all games played after %.0f s", time.monotonic() - start)
        report = summary.report(results, _frame(self.resolved, experiment, store.created))
        if pages := self.resolved.config.output.costs:
            LOG.info("computing what the claimed mechanisms cost by several accountants")
            report = with_costs(report, course_only=pages == "course")
        return self.entry.settled(report, design), outcomes, time.monotonic() - start

    def _write(
        self, report: AuditReport, games: tuple[GameOutcome, ...], store: Store, seconds: float, close_log: Callable[[], None]
    ) -> RunOutcome:
        """Fill the folder and give it its name. What other formats are made from is written first."""
        import reports
        from audit.experiment.line import tables

        files = reports.render(report, ("json",))
        files["config.resolved.yaml"] = self.resolved.text.encode()
        files["scores.parquet"] = tables.scores_parquet(report, games)
        files["environment.json"] = tables.environment(report, seconds)
        for name, content in files.items():
            store.write(name, content)
        outputs, failures = reports.attempt(report, [name for name in self.formats if name != "json"])
        for name, content in outputs.items():
            store.write(name, content)
        LOG.info("outcome %s; written: %s", report.outcome, ", ".join(sorted([*files, *outputs])))
        close_log()  # its checksum is taken next
        return RunOutcome(report=report, folder=store.finish(), failures=tuple(failures))


def _frame(resolution: Resolution, experiment: Experiment, time: str) -> Any:
    from audit.core.provenance import Engagement
    from audit.engine import device
    from audit.experiment.line import provenance
    from audit.experiment.line import report as summary

    config, audit_inputs = resolution.config, experiment.audit_inputs
    text, threads = device.describe(experiment.execution.device)
    return summary.Frame(
        kind="run",
        title=config.title or config.name,
        created=time,
        budget=experiment.budget,
        data=summary.data_summary(audit_inputs.dataset),
        model=summary.model_name(config.model, audit_inputs.parameters),
        gates=config.policy.gates,
        classes=experiment.classes,
        remarks=experiment.design.remarks,
        unaccounted=(*config.unaccounted, *audit_inputs.dataset.unaccounted),
        config=resolution.text,
        origins=resolution.origins,
        settings=resolution.settings,
        config_lines=resolution.lines,
        engagement=Engagement(**owner_words) if any((owner_words := config.about.model_dump()).values()) else None,
        provenance=provenance.provenance(
            command=f"audit run {config.name}", seed=config.seed, config_sha256=resolution.sha256, device=text, threads=threads
        ),
    )


@contextmanager
def _passing() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="audit-") as folder:
        yield Path(folder) / "run"
