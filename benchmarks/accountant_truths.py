"""What methods that the oracle does not use say about the brackets of the battery: kept, counted, compared with them.

The truths are computed in `tests/accounting/truths` (`python -m tests.accounting.truths.judge`), which shares no code with the
oracle: contour integrals, densities and atoms at fifty digits. The second brackets (`python -m tests.accounting.truths.second`)
are of every composed sampled release, in whole numbers. Either counts only for the very question that it was computed for.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.accounting.regression.files import question
from audit.accounting.regression.suite import Case
from audit.core.errors import DataError
from audit.core.event_forms import number

NAME = "truths.json"
SECOND = "second.json"
_WRITER = {NAME: "judge", SECOND: "second"}
ROUNDING = 1e-8  # relative: what the judge's own arithmetic may be off by


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Where the true epsilon of a case is by another method: at one point, or between two."""

    method: str
    low: float
    high: float

    @property
    def is_point(self) -> bool:
        """True if the method knows the very epsilon."""
        return self.low == self.high


def agrees(case: Case, truth: Truth) -> bool:
    """True if a bracket and what is known of the truth have a point in common, up to the judge's own rounding."""
    return truth.low <= case.upper * (1 + ROUNDING) + 1e-12 and case.lower <= truth.high * (1 + ROUNDING) + 1e-12


def read(folder: Path, cases: Sequence[Case], name: str = NAME) -> dict[str, Truth]:
    """The truth by case, of the cases with the same question as when it was judged.

    Args:
        name: of the file, `NAME` or `SECOND`.

    Raises:
        DataError: the file has another form.
    """
    path = folder / name
    if not path.exists():
        return {}
    try:
        file_rows = json.loads(path.read_text())
        return {
            case.id: Truth(method=row["method"], low=float(number(row["low"])), high=float(number(row["high"])))
            for case in cases
            if "method" in (row := file_rows.get(case.id, {})) and row["question"] == question(case)
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"cannot read the truths {path}: {error}; `python -m tests.accounting.truths.{_WRITER[name]}` writes it"
        ) from error


def section(cases: Sequence[Case], truths: Mapping[str, Truth]) -> list[str]:
    """The part of the page that says who judged the judge."""
    brackets = [case for case in cases if case.kind == "bracket"]
    judged_cases = [case for case in brackets if case.id in truths]
    against = [case.id for case in judged_cases if not agrees(case, truths[case.id])]
    counts = Counter((truths[case.id].method, truths[case.id].is_point) for case in judged_cases)
    outcome = f"these were CONTRADICTED: {', '.join(against)}" if against else "none was contradicted"
    lines = [
        "## Who judges the brackets",
        "",
        "That our reference is EXACT says nothing: the brackets are its own. They were held against methods that share no code "
        f"with it (`tests/accounting/truths`): {len(judged_cases)} of {len(brackets)} brackets were judged, and "
        f"{outcome}. The slow suite computes one in seven of them again, the calibration suite all, and the composed sampled "
        "Gaussian at fifty digits.",
        "",
        "| method | what it knows | cases |",
        "|---|---|---|",
    ]
    for (method, is_point), count in sorted(counts.items()):
        lines.append(f"| {method} | {'the epsilon itself' if is_point else 'two ends around it'} | {count} |")
    return [*lines, ""]


def second_section(cases: Sequence[Case], second: Mapping[str, Truth], truths: Mapping[str, Truth]) -> list[str]:
    """The part of the page on the second bracket of composed sampled releases."""
    judged = [case for case in cases if case.kind == "bracket" and case.id in second]
    if not judged:
        return []
    against = [case.id for case in judged if not agrees(case, second[case.id])]
    outcome = f"these were CONTRADICTED: {', '.join(against)}" if against else "every one meets the bracket"
    widths = sorted(1 - second[case.id].low / second[case.id].high if second[case.id].high else 0.0 for case in judged)
    either = sum(case.kind == "bracket" and (case.id in second or case.id in truths) for case in cases)
    total = sum(case.kind == "bracket" for case in cases)
    return [
        f"Composed sampled Gaussian and Laplace releases have a second bracket, in whole numbers with directed rounding "
        f"(`tests/accounting/truths/whole_numbers.py`): of {len(judged)} cases {outcome}. It is {widths[len(widths) // 2]:.1g} "
        f"of its value wide in the middle case; {sum(width > 1e-2 for width in widths)} are wider than 0.01, the widest "
        f"{widths[-1]:.2g}. {either} of {total} brackets have one judge or the other.",
        "",
    ]
