"""What the battery of cases says of an accountant, to be called from its own tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from audit.accounting.subjects import named
from audit.core.tables import Table

if TYPE_CHECKING:
    import pandas as pd

    from audit.accounting.regression.conclusion import Conclusion
    from audit.accounting.regression.suite import Result
    from audit.core.protocols import Accountant


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRow:
    """What one case of the battery says of an accountant: WRONG, LOOSE, EXACT, UNSUPPORTED or CRASH, and why."""

    case: str
    group: str
    finding: str
    claimed: float
    factor: float
    seconds: float
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Battery:
    """The result of the battery of cases for an accountant: each case, and the conclusion."""

    accountant: str
    results: tuple[Result, ...]
    conclusion: Conclusion

    @property
    def passed(self) -> bool:
        """True if nothing was found that `audit accountant check` would fail for."""
        return self.conclusion.exit_code == 0

    @property
    def rows(self) -> Table[CaseRow]:
        """Return one row per case."""
        return Table(
            CaseRow(
                case=result.case.id,
                group=result.case.group,
                finding=str(result.finding),
                claimed=result.epsilon,
                factor=result.factor,
                seconds=result.seconds,
                message=result.message,
            )
            for result in self.results
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per case."""
        return self.rows.to_pandas()


def check(
    accountant: str | Mapping[str, Any] | Accountant,
    *,
    groups: Sequence[str] | None = None,
    cases: Sequence[str] | None = None,
    skip: Sequence[str] = (),
    required: int = 1,
    seconds: float = 60.0,
    listener: Callable[[Result], None] | None = None,
) -> Battery:
    """Run the regression battery over an accountant, to be called from its own tests.

    Args:
        accountant: its name, `name,field=value`, `module:object`, or an object with a method `claim`.
        groups: parts of the battery; None for all.
        cases: texts of which a case's id has to hold one; None for all.
        skip: ids of cases to leave out.
        required: fewest brackets with an answer other than 0 or infinity.
        seconds: of CPU, after which a case counts as a CRASH.
        listener: is called with each result as it is made.

    Raises:
        ConfigError: no such accountant, group or case.
    """
    from audit.accounting.regression import conclusion, suite

    ((name, subject),) = named([accountant])
    case_list = conclusion.choose(suite.load_checked(), groups=groups, texts=cases, omissions=skip)
    results = suite.run(subject, case_list, seconds=seconds, progress=listener)
    return Battery(accountant=name, results=results, conclusion=conclusion.conclude(results, minimum=required))
