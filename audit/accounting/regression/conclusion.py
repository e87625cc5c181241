"""What the findings of a whole battery amount to: one exit code an accountant, and the findings that were accepted before.

A number below the truth, a number for nonsense and no number are different things to whoever runs this in CI.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.accounting.regression.suite import Case, CaseFinding, Result
from audit.core import files
from audit.core.errors import ConfigError, DataError
from audit.core.rounding import plural

# exit codes: a privacy defect; a number for arguments that mean nothing; too few answers to say anything
DEFECT, NONSENSE, SILENT = 1, 5, 6
_ROUNDING = 1e-6
Baseline = Mapping[str, Mapping[str, str]]  # finding that was accepted, by accountant and case


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What is to be said of one accountant.

    Attributes:
        defects: WRONG cases that are privacy bugs, those that were accepted left out.
        rounding: of these, the ones that miss the truth by less than a millionth of it.
        nonsense: cases if nonsense was given a number.
        answers: cases of a bracket with a claim that says something (neither 0 nor infinite).
        stale: cases of the baseline that are no longer as it says.
    """

    defects: tuple[Result, ...]
    rounding: tuple[Result, ...]
    nonsense: tuple[Result, ...]
    off: tuple[Result, ...]
    answers: int
    minimum: int
    baseline_findings: tuple[Result, ...] = ()
    stale: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The gravest of what was found."""
        if self.defects or self.off:
            return DEFECT
        if self.answers < self.minimum:
            return SILENT
        return NONSENSE if self.nonsense else 0

    @property
    def sentence(self) -> str:
        """The conclusion in words, "" if there is nothing to say."""
        sentences = []
        if self.defects:
            slight = f", {len(self.rounding)} of them by less than {_ROUNDING:g} of the truth" if self.rounding else ""
            sentences.append(f"{len(self.defects)} on the wrong side of the truth{slight}")
        if self.off:
            sentences.append(f"{plural(len(self.off), 'claim')} other than what its method gives")
        if self.nonsense:
            sentences.append(f"{plural(len(self.nonsense), 'number')} for arguments that mean nothing")
        if self.answers < self.minimum:
            sentences.append(
                f"answered with neither 0 nor infinity: {plural(self.answers, 'bracket')}, {self.minimum} required"
            )
        if self.baseline_findings:
            sentences.append(f"{plural(len(self.baseline_findings), 'finding')} of the baseline")
        if self.stale:
            sentences.append(f"no longer as the baseline says: {', '.join(self.stale)}")
        return "; ".join(sentences)


def conclude(results: Sequence[Result], *, minimum: int = 1, baseline: Mapping[str, str] | None = None) -> Conclusion:
    """Return the conclusion from one accountant's results; `baseline` is the finding of each case that is let pass."""
    baselines = baseline or {}
    wrong = [result for result in results if result.finding is CaseFinding.WRONG]
    fresh = tuple(result for result in wrong if baselines.get(result.case.id) != result.finding)
    defects = tuple(result for result in fresh if result.case.kind not in ("refusal", "method"))
    findings = {result.case.id: str(result.finding) for result in results}
    return Conclusion(
        defects=defects,
        rounding=tuple(defect for defect in defects if shortfall(defect) < _ROUNDING),
        off=tuple(result for result in fresh if result.case.kind == "method"),
        nonsense=tuple(result for result in fresh if result.case.kind == "refusal"),
        answers=sum(is_informative(result) for result in results),
        minimum=minimum,
        baseline_findings=tuple(result for result in wrong if baselines.get(result.case.id) == result.finding),
        stale=tuple(name for name, finding in baselines.items() if name in findings and findings[name] != finding),
    )


def shortfall(result: Result) -> float:
    """Relative distance of a claim from the end of the bracket that it is beyond; infinite for other findings."""
    case = result.case
    if case.kind != "bracket" or math.isnan(result.epsilon):
        return math.inf
    if result.epsilon < case.lower and math.isfinite(case.lower):
        return (case.lower - result.epsilon) / case.lower
    if result.epsilon > case.upper > 0:
        return (result.epsilon - case.upper) / case.upper
    return math.inf


def is_informative(result: Result) -> bool:
    """True if a case of a bracket was answered by a claim that is neither 0 nor infinite."""
    return result.case.kind == "bracket" and math.isfinite(result.epsilon) and result.epsilon > 0


def read_baseline(path: Path) -> Baseline:
    """Accepted findings by accountant and case; `DataError` if the file is missing or has another form."""
    try:
        document = files.read_json(path)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the baseline {path}: {error}; --write-baseline makes one") from error
    rows = document.values() if isinstance(document, dict) else [None]
    if not all(isinstance(row, dict) and set(row.values()) <= {str(CaseFinding.WRONG)} for row in rows):
        raise DataError(
            f'{path} is not a baseline; expected {{"accountant": {{"case": "WRONG"}}}}, as --write-baseline writes it'
        )
    return {str(name): {str(case): str(finding) for case, finding in row.items()} for name, row in document.items()}


def make_baseline(results_by_name: Mapping[str, Sequence[Result]]) -> bytes:
    """The baseline file that accepts every WRONG case of today."""
    rows = {
        name: {result.case.id: str(result.finding) for result in results if result.finding is CaseFinding.WRONG}
        for name, results in results_by_name.items()
    }
    return (json.dumps(rows, indent=1, sort_keys=True) + "\n").encode()


def choose(
    cases: Iterable[Case],
    *,
    groups: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
    omissions: Sequence[str] = (),
    nonsense: bool = False,
) -> list[Case]:
    """The cases of these groups with one of the texts in the id, without those that are skipped by id; `ConfigError` if a
    group, a text or a skipped id fits no case, or nothing is left.

    Arguments that mean nothing are a group of their own: it is chosen by its name, by ids, or if `nonsense` is true.
    """
    all_cases = list(cases)
    group_names = {case.group for case in all_cases}
    for group in groups or ():
        if group not in group_names:
            raise ConfigError(f"the battery has no group '{group}'; its groups are {', '.join(sorted(group_names))}")
    for text in texts or ():
        if not any(text in case.id for case in all_cases):
            raise ConfigError(f"no case has an id with '{text}'")
    for name in omissions:
        if all(case.id != name for case in all_cases):
            raise ConfigError(f"no case has the id '{name}', so it cannot be skipped")
    choice = [
        case
        for case in all_cases
        if (not groups or case.group in groups)
        and (not texts or any(text in case.id for text in texts))
        and case.id not in omissions
        and (nonsense or groups or texts or case.kind != "refusal")
    ]
    if not choice:
        raise ConfigError("no case is left of these groups, ids and skips; leave an option out")
    return choice
