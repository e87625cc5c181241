"""Answers are stored and not requested twice; the page in docs shows those answers; reproductions are code that runs."""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from pathlib import Path

import accountant_answers as answers
import accountant_page as page
import accountant_truths as truths
import pytest
from accountant_answers import Run
from accountant_reproductions import reproduction

from audit.accounting import resolve as subjects
from audit.accounting.regression import suite as battery
from audit.accounting.regression.suite import Case, CaseFinding, ClaimQuestion
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import DataError, UnsupportedMechanism
from audit.core.events import Event, Gaussian

ROOT = Path(__file__).resolve().parents[2]
CASES = {case.id: case for case in battery.load()}


@dataclass(slots=True, kw_only=True)
class Counting:
    """Says 5 and counts how often it was asked."""

    version: str = "1"
    asked: int = 0
    installed: bool = True

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        if not self.installed:
            raise UnsupportedMechanism("not installed")
        self.asked += 1
        return Claim(epsilon=5.0, delta=delta, adjacency=adjacency, source=f"counting {self.version}")


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    result = Counting()
    cases = [
        Case(
            id=f"case-{place}",
            group="g",
            kind="bracket",
            asks=(ClaimQuestion(event=Gaussian(noise_multiplier=float(place)), delta=1e-5, adjacency=Adjacency.ADD_REMOVE),),
            lower=low,
            upper=low,
            reason="r" * 20,
            catches="U0: c" * 4,
        )
        for place, low in ((1, 4.0), (2, 6.0))
    ]
    monkeypatch.setattr(subjects, "subject", lambda spec: result)
    monkeypatch.setattr(battery, "load", lambda: tuple(cases))
    return result


def collect(folder: Path, *, fresh: bool = False, ask: bool = True) -> Run:
    return answers.collect("mine", "mine", folder, seconds=5.0, fresh=fresh, ask=ask)


@pytest.mark.slow
def test_nobody_is_asked_twice(counting: Counting, tmp_path: Path) -> None:
    first = collect(tmp_path)
    assert [item.finding for item in first.results] == [CaseFinding.LOOSE, CaseFinding.WRONG]
    assert counting.asked == 3  # once for its source
    assert [item.epsilon for item in collect(tmp_path).results] == [5.0, 5.0] and counting.asked == 4
    collect(tmp_path, fresh=True)
    assert counting.asked == 7
    counting.version = "2"
    assert collect(tmp_path).source == "counting 2" and counting.asked == 10


def test_kept_answers_are_judged_where_nobody_can_be_asked(counting: Counting, tmp_path: Path) -> None:
    counting.installed = False
    assert collect(tmp_path).absent == "not installed"
    counting.installed = True
    collect(tmp_path)
    counting.installed = False
    assert [item.finding for item in collect(tmp_path).results] == [CaseFinding.LOOSE, CaseFinding.WRONG]
    assert collect(tmp_path, ask=False).source == "counting 1"


def test_an_answer_to_another_question_is_not_kept(counting: Counting, tmp_path: Path) -> None:
    collect(tmp_path)
    file = tmp_path / "mine.json"
    stored = json.loads(file.read_text())
    stored["answers"]["case-1"]["question"] = "0" * 16
    file.write_text(json.dumps(stored))
    collect(tmp_path)
    assert counting.asked == 5
    file.write_text("[]")
    with pytest.raises(DataError, match="no answers"):
        collect(tmp_path)


def test_a_page_of_few_answers(counting: Counting, tmp_path: Path) -> None:
    text = page.render([collect(tmp_path), Run(spec="other", name="another", absent="not here")], {}, {})
    assert "| mine (`mine`) | counting 1 | upper | 1 | 1 | 0 | 0 | 0 |" in text
    assert "claims 5; the truth is at least 6" in text and "another (`other`): not here" in text


def test_the_page_in_docs_is_what_the_kept_answers_give() -> None:
    """Whoever changes the battery or the judge makes the page again: `python benchmarks/accountant_page.py`."""
    runs = [
        answers.collect(spec, name, ROOT / "docs" / "evidence" / "accountants", seconds=1.0, ask=False)
        for spec, name in page.SUBJECTS
    ]
    assert not [run.spec for run in runs if run.absent]
    assert not [run.spec for run in runs if len(run.results) < len(CASES)]
    judges = [
        truths.read(ROOT / "docs" / "evidence" / "accountants", battery.load(), name) for name in (truths.NAME, truths.SECOND)
    ]
    assert (ROOT / "docs" / "evidence" / "accountants.md").read_text() == page.render(runs, *judges)


@pytest.mark.parametrize(
    ("spec", "case"),
    [
        ("dp_accounting_rdp", "replace-gaussian-s2-t10"),
        ("dp_accounting_rdp", "refuse-noise-nan"),
        ("dp_accounting_pld", "response-p0.5-k2-t100"),
        ("opacus_gdp", "edge-S"),
        ("opacus_prv", "delta-prv-3"),
        ("prv_accountant,side=lower", "edge-M"),
        ("autodp_rdp,composition=afa", "laplace-b1-t1-d1e-05"),
        ("jax_privacy", "edge-D"),
        ("opake", "delta-prv-3"),
        ("opake", "mixed-two-phases"),
        ("opake", "rate-1"),
        ("jax_privacy", "fixed-batch-50of100-s1-t1"),
        ("classical_gaussian", "gaussian-classical-20"),
        ("renyi", "edge-D"),
        ("dp_accounting_rdp", "count-is-list-gaussian"),
    ],
)
def test_reproductions_have_five_lines_that_are_python(spec: str, case: str) -> None:
    lines = reproduction(spec, CASES[case])
    assert len(lines) <= 5
    ast.parse("\n".join(lines))


def test_opake_is_asked_in_its_own_words() -> None:
    """Its figures are kept, and every line of its section printed them by Python 3.13 when they were."""
    (line,) = reproduction("opake", CASES["delta-prv-3"])[1:]
    assert line.startswith("print((d.poisson(d.gaussian(0.8), 0.004) * 2000).epsilon_at(5e-13))")
    assert " | " in reproduction("opake", CASES["mixed-two-phases"])[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "case"),
    [
        ("dp_accounting_rdp", "replace-gaussian-s2-t10"),
        ("opacus_gdp", "edge-S"),
        ("prv_accountant,side=lower", "edge-S"),
        ("autodp_rdp,composition=afa", "laplace-b1-t1-d1e-05"),
        ("jax_privacy,accountant=rdp", "fixed-batch-50of100-s1-t1"),
        ("classical_gaussian", "gaussian-classical-20"),
    ],
)
def test_a_reproduction_prints_what_the_adapter_claims(spec: str, case: str, capsys: pytest.CaptureFixture[str]) -> None:
    requested = CASES[case].asks[0]
    try:
        claim = subjects.subject(spec).claim(requested.event, delta=requested.delta, adjacency=requested.adjacency)  # type: ignore[arg-type]
    except UnsupportedMechanism as error:
        pytest.skip(str(error))
    exec(compile("\n".join(reproduction(spec, CASES[case])), case, "exec"), {})
    assert float(capsys.readouterr().out.split()[-1]) == pytest.approx(claim.epsilon, rel=1e-9)


def test_the_accountants_of_the_page_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page_accountants.py").write_text(page.OWN_FUNCTION + page.OWN_ADAPTER)
    monkeypatch.syspath_prepend(str(tmp_path))
    cases = [CASES[name] for name in ("gaussian-s1-t1-d1e-06", "edge-D", "laplace-b1-t1-d1e-05")]
    for name in ("epsilon", "Mine"):
        result = battery.run(subjects.subject(f"page_accountants:{name}"), cases)
        assert result[2].finding is CaseFinding.UNSUPPORTED and all(item.finding is not CaseFinding.CRASH for item in result)
    ast.parse(page.OWN_TEST)
    assert len(page.OWN_ADAPTER.splitlines()) <= 10
