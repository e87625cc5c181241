"""What an audit has to do with a budget ledger: refused before the training what could not be recorded after it."""

from dataclasses import dataclass, replace

from audit.accounting import ledger, ledger_database
from audit.accounting.ledger import Release
from audit.accounting.ledger_database import Place
from audit.core.errors import ConfigError
from audit.core.results import AuditReport
from audit.experiment.games.spec import AuditDesign


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """What an audit has to do with a ledger: shown if there is a `file`, recorded in it if `training` is named too."""

    file: Place | None = None
    training: str | None = None

    def check(self, design: AuditDesign) -> None:
        """Refuse, before anything is trained, what could not be recorded: `ConfigError` without such a ledger or training,
        `BudgetExceeded` if its release costs more than is left.
        """
        if self.training is not None and self.file is None:
            raise ConfigError("--record names a training but there is no --ledger to record it in")
        if self.file is None:
            return
        book = ledger_database.load(self.file)
        if self.training is not None:
            book.record(book.ask(), self._release(design, ""))

    def settled(self, report: AuditReport, design: AuditDesign) -> AuditReport:
        """The report with the ledger in it, after the release was recorded if that was asked for."""
        if self.file is None:
            return report
        if self.training is None:
            book = ledger_database.load(self.file)
        else:
            release = self._release(design, f"recorded by the audit {report.id}", report.created)
            book = ledger_database.record(self.file, release, unless_present=True)
        return replace(report, ledger=ledger.summary(book))

    def _release(self, design: AuditDesign, note: str, date: str = "") -> Release:
        events = {training_design.name: training_design.mechanism for training_design in design.training_designs}
        if self.training not in events:
            raise ConfigError(f"--record is '{self.training}'; the trainings of this audit are {', '.join(events)}")
        return Release(name=self.training, event=events[self.training], when=date, note=note)
