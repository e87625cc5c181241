"""One pytest test per case of the accountant battery, for whoever maintains an accountant.

    import pytest

    @pytest.mark.accountant("my_library.accounting:epsilon")
    def test_accountant(accountant_case): accountant_case()

The object is a function of (noise_multiplier, sample_rate, steps, delta), or has a method `claim`; a name is one of
`audit ls accountants`. WRONG and CRASH fail, UNSUPPORTED skips, LOOSE passes unless the marker says
`loosest=1.5` (times the proven upper end). `groups=[...]` and `cases=[...]` choose parts of the battery, `skip=[...]` leaves
cases out, `nonsense=True` adds arguments that mean nothing; a name that the battery does not have is an error. Two last tests:
`enough-answers` fails if fewer than `require` brackets (1) were answered by something else than 0 or infinity, `method` if an
answer is not what the accountant's method gives (`method="rdp,conversion=classic"`, or the one it names or is recognised by).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from audit.accounting.regression import suite

_LINES = 5  # failures of the method that one test tells


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker."""
    config.addinivalue_line(
        "markers",
        "accountant(spec, loosest=None, groups=None, cases=None, skip=(), require=1, seconds=60, nonsense=False, method=None): "
        "one test a case",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Gives a marked test with an argument `accountant_case` one instance per case."""
    if "accountant_case" not in metafunc.fixturenames:
        return
    from audit.core.errors import ConfigError  # here and below: pytest loads this plugin in every project of the environment

    marker = metafunc.definition.get_closest_marker("accountant")
    if marker is None or not marker.args:
        raise pytest.UsageError(
            f'{metafunc.definition.nodeid} takes accountant_case without @pytest.mark.accountant("package.module:object")'
        )
    try:
        checks = list_checks(*marker.args, **marker.kwargs)
    except ConfigError as error:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: {error}") from error
    metafunc.parametrize("accountant_case", [check for _, check in checks], ids=[name for name, _ in checks])


def list_checks(
    spec: str,
    *,
    loosest: float | None = None,
    groups: Sequence[str] | None = None,
    cases: Sequence[str] | None = None,
    skip: Sequence[str] = (),
    require: int = 1,
    seconds: float = 60.0,
    nonsense: bool = False,
    method: str | None = None,
) -> list[tuple[str, Callable[[], suite.Result | None]]]:
    """Return name and check of every case that is chosen; a check passes, skips or fails the test that calls it. Raises
    `ConfigError` for a case, group or method that the battery does not have.
    """
    from audit.accounting import resolve
    from audit.accounting.regression import conclusion, explain, methods, recognition, suite
    from audit.core.errors import ConfigError

    accountant = resolve.subject(spec)
    all_cases = suite.load_checked()
    unknown = set(cases or ()) - {case.id for case in all_cases}
    if unknown:
        raise ConfigError(f"the battery has no case {', '.join(sorted(unknown))}")
    candidates = [case for case in all_cases if cases is None or case.id in cases]
    named = methods.parse(method) if method else methods.stated(accountant)
    choice = conclusion.choose(candidates, groups=groups, omissions=skip, nonsense=nonsense or cases is not None)
    results: dict[str, suite.Result] = {}

    def judge(case: suite.Case) -> suite.Result:
        if case.id not in results:
            results[case.id] = suite.judge(accountant, case, seconds=seconds)
        return results[case.id]

    def check(case: suite.Case) -> Callable[[], suite.Result]:
        return lambda: settle(judge(case), loosest, spec)

    def test_enough_answers() -> suite.Result:
        answers = 0
        for case in choice:
            result = judge(case)
            answers += conclusion.is_informative(result)
            if answers >= require:
                return result
        pytest.fail(f"{answers} of {len(choice)} cases were answered by something else than 0 or infinity; {require} required")

    def test_method() -> None:
        report = recognition.compare([judge(case) for case in choice], named)
        texts = [explain.paragraph(result, spec) for result in report.results[:_LINES]]
        if texts:
            pytest.fail("\n".join([report.remark, *texts]), pytrace=False)

    last = [("enough-answers", test_enough_answers), ("method", test_method)]
    return [*((case.id, check(case)) for case in choice), *last]


def settle(result: suite.Result, loosest: float | None, spec: str) -> suite.Result:
    """The result itself, or the outcome of pytest that belongs to its finding."""
    from audit.accounting.regression import explain
    from audit.accounting.regression.suite import CaseFinding

    if result.finding is CaseFinding.UNSUPPORTED:
        pytest.skip(result.message)
    if result.finding in (CaseFinding.WRONG, CaseFinding.CRASH):
        pytest.fail(explain.paragraph(result, spec), pytrace=False)
    if loosest is not None and result.factor > loosest and result.case.kind == "bracket":
        failure = explain.paragraph(result, spec)
        pytest.fail(f"{failure}\n  {result.factor:.3g} times the upper end, more than the {loosest:g} allowed", pytrace=False)
    return result


@pytest.fixture
def accountant_case(request: Any) -> Any:
    """The check of one case; parametrised through the marker `accountant`."""
    return request.param
