"""`audit accountant check`, the battery that judges accountants, and `fuzz`, a search for parameters where one is wrong."""

from __future__ import annotations

import math
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit.cli import options, own_code
from audit.cli.printing import AsJson, print_json, print_plain, print_table
from audit.core.errors import ConfigError
from audit.core.rounding import plural

if TYPE_CHECKING:
    from audit.accounting.regression.conclusion import Conclusion
    from audit.accounting.regression.recognition import MethodReport
    from audit.accounting.regression.suite import Result

SILENT = 6
_WHOLE = 10  # WRONG cases that are told whole


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


def check(
    accountant: options.Accountant = None,
    group: options.Group = None,
    cases: Annotated[
        Path | None, typer.Option(help="File of test cases in place of the battery's, as `fuzz --cases` writes it.")
    ] = None,
    case: options.Case = None,
    skip: options.Skip = None,
    nonsense: options.Nonsense = False,
    method: options.Method = None,
    require: options.Require = 1,
    baseline: options.Baseline = None,
    write_baseline: options.WriteBaseline = None,
    record: options.RecordFigures = None,
    against: options.Against = None,
    tolerance: options.Tolerance = 1e-9,
    seconds: options.Seconds = 60.0,
    all_cases: options.AllCases = False,
    junit: options.Junit = None,
    plot: options.Plot = None,
    as_json: AsJson = False,
) -> int:
    """Test accountants: each case ends as WRONG, LOOSE, EXACT, UNSUPPORTED or CRASH.

    Exit code 1: a claim is on the wrong side of the true epsilon, is not what the accountant's method gives, or is another than
    in the file of --against. 6: no such claim, but fewer answers than --require. 5: neither, but numbers for meaningless
    arguments (only asked with --nonsense). 0 otherwise.
    """
    from audit.accounting import resolve
    from audit.accounting.regression import conclusion, files, methods, recognition, suite

    outputs = {"--junit": junit, "--write-baseline": write_baseline, "--plot": plot, "--record": record}
    files.check_outputs(cases, outputs)
    files.check_outputs(against, outputs)
    choice = conclusion.choose(suite.load_checked(cases), groups=group, texts=case, omissions=skip or (), nonsense=nonsense)
    baselines = conclusion.read_baseline(baseline) if baseline is not None else {}
    names = accountant or ["rdp"]
    own_code.add_working_folder(names)
    if plot is not None and len(names) > 1:
        raise ConfigError(f"--plot shows one accountant, {len(names)} were named")
    named = methods.parse(method) if method else None
    progress = None if as_json else _tick(len(choice))
    answers: dict[str, tuple[Result, ...]] = {}
    reports: dict[str, recognition.MethodReport] = {}
    with own_code.prints_aside(), own_code.warnings_once():
        for name in names:
            subject = resolve.subject(name)
            answers[name] = suite.run(subject, choice, seconds=seconds, progress=progress)
            is_upper = resolve.find_side(subject) != "lower"
            methods_by_case = named or methods.stated(subject)
            reports[name] = recognition.compare(answers[name] if is_upper else (), methods_by_case)
    if record is not None:
        files.write(record, files.make_record(answers))
    for name in names:
        changes = files.compare(against, name, answers[name], tolerance) if against is not None else ()
        answers[name] = (*answers[name], *reports[name].results, *changes)
    if junit is not None:
        files.write(junit, files.junit(answers))
    if plot is not None:
        _draw(plot, names[0], answers[names[0]])
    if write_baseline is not None:
        files.write(write_baseline, conclusion.make_baseline(answers))
    conclusions = {
        name: conclusion.conclude(results, minimum=require, baseline=baselines.get(name)) for name, results in answers.items()
    }
    codes = {summary.exit_code for summary in conclusions.values()}
    gravest = (conclusion.DEFECT, conclusion.SILENT, conclusion.NONSENSE)
    code = next((grave for grave in gravest if grave in codes), 0)
    if as_json:
        print_json({"exit_code": code, "accountants": _as_json(answers, conclusions, reports)})
        return code
    for name, results in answers.items():
        _show(name, results, all_cases=all_cases)
        for sentence in filter(None, (reports[name].remark, conclusions[name].sentence)):
            print_plain(f"{name}: {sentence}")
    return code


def _as_json(
    answers: Mapping[str, Sequence[Result]], conclusions: Mapping[str, Conclusion], reports: Mapping[str, MethodReport]
) -> dict[str, Any]:
    """Return the results of each accountant, with their conclusion."""
    from audit.accounting.regression import files

    output = files.as_json(answers)
    for name, summary in conclusions.items():
        output[name] |= {"exit_code": summary.exit_code, "conclusion": summary.sentence, "answers": summary.answers}
        output[name]["method"] = {"name": str(reports[name].method or ""), "remark": reports[name].remark}
    return output


def _draw(path: Path, name: str, answers: Sequence[Result]) -> None:
    """Draw claims against brackets; those that are open on one side have no place on the axes."""
    from audit.accounting.regression import files
    from reports.figures.accountants import claims_against_brackets

    brackets = [answer for answer in answers if answer.case.kind == "bracket" and 0 < answer.case.upper < math.inf]
    rows = [(str(bracket.finding), bracket.factor, bracket.case.lower / bracket.case.upper) for bracket in brackets]
    files.write_figure(path, claims_against_brackets(rows, name))


def _show(name: str, results: Sequence[Result], *, all_cases: bool) -> None:
    """Print what was found of one accountant: each WRONG case whole, the others in a table or a line."""
    from audit.accounting.regression import explain
    from audit.accounting.regression.suite import CaseFinding

    counts = ", ".join(f"{kind} {sum(result.finding is kind for result in results)}" for kind in CaseFinding)
    print_plain(f"{name}: {counts} ({sum(result.seconds for result in results):.1f} s)")
    wrong = sorted((row for row in results if row.finding is CaseFinding.WRONG), key=lambda row: row.case.kind == "method")
    limit = len(wrong) if all_cases else _WHOLE
    for result in wrong[:limit]:
        print_plain(*explain.lines(result, name))
    if len(wrong) > limit:
        print_plain(f"... and {len(wrong) - limit} more WRONG cases: --all, --json or --junit have them")
    quiet = () if all_cases else (CaseFinding.EXACT, CaseFinding.UNSUPPORTED, CaseFinding.LOOSE)
    cells = [
        (answer.case.id, str(answer.finding), _plain(answer.factor), f"{answer.seconds:.2f}", answer.message)
        for answer in results
        if answer.finding not in (*quiet, CaseFinding.WRONG)
    ]
    if cells:
        print_table("", ("case", "finding", "factor", "seconds", "why"), cells)
    if loose := explain.loose_line(results):
        print_plain(loose)


def _tick(total: int) -> Any:
    """A progress line on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        return None
    counter = [0]

    def print_progress(result: Any) -> None:
        counter[0] += 1
        end = "\n" if counter[0] == total else "\r"
        print(f"{counter[0]}/{total} {result.case.id[:60]:60}", end=end, file=sys.stderr, flush=True)

    return print_progress


def _plain(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.4g}"
