"""`audit accountant check | page | refresh`: the battery that judges accountants."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from audit.cli.printing import AsJson, print_json, print_plain, print_table
from audit.core.errors import ConfigError


def check(
    accountant: Annotated[
        list[str] | None,
        typer.Option("--accountant", "-a", help="Accountant: name, name,field=value or module:object; may repeat."),
    ] = None,
    group: Annotated[list[str] | None, typer.Option(help="Group of test cases to run; may repeat. Default: all.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="Run cases whose id contains this text; may repeat.")] = None,
    skip: Annotated[list[str] | None, typer.Option(help="Id of a case to leave out; may repeat.")] = None,
    require: Annotated[int, typer.Option(min=1, help="Minimum number of brackets answered with neither 0 nor infinity.")] = 1,
    baseline: Annotated[Path | None, typer.Option(help="File of accepted findings, which do not fail the check.")] = None,
    write_baseline: Annotated[Path | None, typer.Option(help="Write the WRONG findings of this run to this file.")] = None,
    seconds: Annotated[float, typer.Option(help="CPU seconds after which a case counts as CRASH.")] = 60.0,
    all_cases: Annotated[bool, typer.Option("--all", help="Also show cases that are EXACT or UNSUPPORTED.")] = False,
    junit: Annotated[Path | None, typer.Option(help="Write the results to this JUnit file.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw claims against brackets to this SVG or PNG file (one accountant).")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Test accountants: each case ends as WRONG, LOOSE, EXACT, UNSUPPORTED or CRASH.

    Exit code 1: a claim lies on the wrong side of the true epsilon. 5: no such claim, but numbers for meaningless arguments.
    6: fewer answers than --require. 0 otherwise.
    """
    from audit.accounting import resolve
    from audit.accounting.regression import conclusion, files, suite

    cases = conclusion.choose(suite.load(), groups=group, texts=case, omissions=skip or ())
    baselines = conclusion.read_baseline(baseline) if baseline is not None else {}
    names = accountant or ["rdp"]
    look_here(names)
    if plot is not None and len(names) > 1:
        raise ConfigError(f"--plot shows one accountant, {len(names)} were named")
    answers = {}
    for name in names:
        answers[name] = suite.run(
            resolve.subject(name), cases, seconds=seconds, progress=None if as_json else _tick(len(cases))
        )
    if junit is not None:
        files.write(junit, files.junit(answers))
    if plot is not None:
        from reports.figures.accountants import claims_against_brackets

        brackets = [
            answer for answer in answers[names[0]] if answer.case.kind == "bracket" and 0 < answer.case.upper < math.inf
        ]
        rows = [(str(bracket.finding), bracket.factor, bracket.case.lower / bracket.case.upper) for bracket in brackets]
        files.write_figure(plot, claims_against_brackets(rows, names[0]))
    if write_baseline is not None:
        files.write(write_baseline, conclusion.baseline_of(answers))
    conclusions = {
        name: conclusion.conclude(results, minimum=require, baseline=baselines.get(name)) for name, results in answers.items()
    }
    codes = {summary.exit_code for summary in conclusions.values()}
    gravest = (conclusion.DEFECT, conclusion.SILENT, conclusion.NONSENSE)
    code = next((grave for grave in gravest if grave in codes), 0)
    if as_json:
        output = files.as_json(answers)
        for name, summary in conclusions.items():
            output[name] |= {"exit_code": summary.exit_code, "conclusion": summary.sentence, "answers": summary.answers}
        print_json({"exit_code": code, "accountants": output})
        return code
    quiet = (suite.CaseFinding.EXACT, suite.CaseFinding.UNSUPPORTED)
    for name, results in answers.items():
        counts = ", ".join(f"{kind} {sum(result.finding is kind for result in results)}" for kind in suite.CaseFinding)
        listed_answers = [result for result in results if all_cases or result.finding not in quiet]
        cells = [
            (answer.case.id, str(answer.finding), _plain(answer.factor), f"{answer.seconds:.2f}", answer.message)
            for answer in listed_answers
        ]
        title = f"{name}: {counts} ({sum(result.seconds for result in results):.1f} s)"
        print_table(title, ("case", "finding", "factor", "seconds", "why"), cells)
        if conclusions[name].sentence:
            print(f"{name}: {conclusions[name].sentence}")
    return code


def page(
    output: Annotated[Path, typer.Option("--output", "-o", help="Page to write.")] = Path("docs/accountants.md"),
    answers: Annotated[Path, typer.Option(help="Folder with the stored answers.")] = Path("docs/accountants"),
    accountant: Annotated[
        list[str] | None,
        typer.Option("--accountant", "-a", help="Run only these accountants; the stored answers of the others are used."),
    ] = None,
    seconds: Annotated[float, typer.Option(help="CPU seconds after which a case counts as CRASH.")] = 10.0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run all cases again, ignoring stored answers.")] = False,
) -> int:
    """Write the page of results for every accountant, from those installed here and from stored answers."""
    from audit.accounting.regression import answers as accountant_answers
    from audit.accounting.regression import files, suite, truths
    from audit.accounting.regression import page as accountant_page

    runs = []
    for spec, name in accountant_page.SUBJECTS:
        typer.echo(spec, err=True)
        refresh = accountant is None or spec in accountant
        runs.append(
            accountant_answers.collect(
                spec,
                name,
                answers,
                seconds=seconds,
                fresh=fresh and refresh,
                progress=_telling(spec) if refresh else None,
                ask=refresh,
            )
        )
    files.write(output, accountant_page.render(runs, truths.read(answers, suite.load())).encode())
    print_plain(output)
    return 0


def refresh(battery_file: Annotated[Path, typer.Argument(help="File of test cases whose brackets are recomputed.")]) -> int:
    """Recompute every bracket of a file of test cases (takes minutes) and write the file."""
    from audit.accounting.regression import suite

    print_plain(f"{suite.refresh(battery_file, progress=lambda line: typer.echo(line, err=True))} cases")
    return 0


def look_here(names: Sequence[str]) -> None:
    """Lets `module:object` name a file of the working directory; last on the path, so that it hides nothing."""
    if any(":" in name for name in names) and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def _telling(spec: str) -> Any:
    def print_progress(case: Any) -> None:
        typer.echo(f"  {spec}: {case.id}", err=True)

    return print_progress


def _tick(total: int) -> Any:
    """A progress line on stderr, where that is a terminal."""
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
