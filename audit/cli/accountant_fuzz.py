"""`audit accountant fuzz`: a search for parameters at which an accountant is wrong."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Any

import typer

from audit.cli import own_code
from audit.cli.printing import AsJson, print_json, print_plain
from audit.core.errors import ConfigError
from audit.core.rounding import plural

SILENT = 6


def fuzz(
    accountant: Annotated[str, typer.Option("--accountant", "-a", help="Accountant: name, name,field=value or module:object.")],
    minutes: Annotated[float, typer.Option(help="Minutes of CPU to search for.")] = 5.0,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the questions. Default: a new one, which is printed.")
    ] = None,
    cases: Annotated[
        Path | None, typer.Option(help="File of test cases to add findings to; `check --cases` runs them again.")
    ] = None,
    most: Annotated[int | None, typer.Option(min=1, help="Number of findings after which to stop. Default: no limit.")] = None,
    as_json: AsJson = False,
) -> int:
    """Search for parameters at which an accountant leaves the proven bracket or breaks a relation.

    Each finding is shrunk to a small case and reported in a sentence. Exit code 1: a claim on the wrong side of the truth.
    6: the accountant answered nothing. 0 otherwise, also if only relations between safe claims are broken.
    """
    from audit.accounting import resolve
    from audit.accounting.regression.fuzzing import search as fuzzing

    if not minutes > 0:
        raise ConfigError(f"--minutes is {minutes}; expected a number above 0")
    seed = secrets.randbits(31) if seed is None else seed
    if not as_json:
        print_plain(f"seed {seed}: --seed {seed} asks the same questions again")
    own_code.add_working_folder([accountant])
    with own_code.warnings_once():
        result = fuzzing.search(
            resolve.subject(accountant),
            seconds=60 * minutes,
            seed=seed,
            most=most,
            progress=None if as_json else _teller(accountant),
        )
    if cases is not None:
        fuzzing.append(cases, result.findings)
    answers = sum(result.questions.values())
    kinds = [name for name, count in result.questions.items() if count and name not in result.refusals]
    code = 1 if any(finding.is_unsafe for finding in result.findings) else 0 if kinds else SILENT
    if as_json:
        print_json({"exit_code": code, "accountant": accountant, "seed": seed, **_summary(result, accountant)})
        return code
    unsafe = sum(finding.is_unsafe for finding in result.findings)
    print_plain(
        f"{accountant}: {plural(answers, 'question')} of {plural(len(kinds), 'kind')}; "
        f"{plural(unsafe, 'claim')} on the wrong side of the truth, "
        f"{plural(len(result.findings) - unsafe, 'broken relation')} between safe claims"
    )
    for name, crash in result.crashes.items():
        print_plain(f"it raises an error ({name}): {crash}")
    if result.refusals:
        print_plain(f"it does not cover: {', '.join(result.refusals)}")
    if cases is not None and result.findings:
        print_plain(f"the cases are in {cases}: audit accountant check -a {accountant} --cases {cases}")
    return code


def _teller(spec: str) -> Any:
    def tell(finding: Any) -> None:
        from audit.accounting.regression import explain

        print_plain(f"{finding.result.finding} ({finding.stratum}): {finding.sentence}")
        print_plain(*(f"    {line}" for line in explain.reproduce(finding.result, spec)))

    return tell


def _summary(result: Any, spec: str) -> dict[str, Any]:
    from audit.accounting.regression import explain

    return {
        "questions": result.questions,
        "unsupported": list(result.refusals),
        "crashes": result.crashes,
        "findings": [
            {
                "id": finding.case.id,
                "kind": finding.stratum,
                "finding": str(finding.result.finding),
                "claimed": finding.result.epsilon,
                "truth": [finding.case.lower, finding.case.upper],
                "sentence": finding.sentence,
                **explain.fields(finding.result, spec),
            }
            for finding in result.findings
        ],
    }
