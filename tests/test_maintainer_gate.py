"""The gate of a library's own suite: new defects fail, accepted ones are expected, mended ones leave the baseline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import audit
from audit.core.errors import ConfigError

assert_baseline = audit.testing.assert_baseline  # as users have it, with its arguments vetted

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Decided:
    exit_code: int


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps({"known": "issue 7"}), encoding="utf-8")
    return path


def test_a_promise_that_is_kept_passes_with_or_without_a_baseline(baseline: Path) -> None:
    assert_baseline("new", Decided(0), baseline)
    assert_baseline("new", Decided(0), baseline.with_name("none.json"))


def test_a_new_defect_fails_and_says_how_to_accept_it(baseline: Path) -> None:
    with pytest.raises(AssertionError, match='add "new" and the reason to '):
        assert_baseline("new", Decided(1), baseline)


def test_an_accepted_defect_is_expected_to_fail_with_its_reason(baseline: Path) -> None:
    with pytest.raises(pytest.xfail.Exception, match="issue 7"):
        assert_baseline("known", Decided(1), baseline)


def test_an_accepted_defect_that_is_mended_has_to_leave_the_baseline(baseline: Path) -> None:
    with pytest.raises(AssertionError, match="'known' is not refuted any more"):
        assert_baseline("known", Decided(0), baseline)


def test_another_defect_under_an_accepted_name_fails(baseline: Path) -> None:
    for words, outcome in (("exit_code=1", pytest.xfail.Exception), ("noise is missing", AssertionError)):
        baseline.write_text(json.dumps({"known": ["issue 7", words]}), encoding="utf-8")
        with pytest.raises(outcome, match="issue 7"):
            assert_baseline("known", Decided(1), baseline)


def test_a_relative_path_starts_from_the_folder_of_the_calling_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pytest.xfail.Exception, match="docs/evidence/findings"):
        assert_baseline("class-weighted mean loss", Decided(1), "../examples/maintainers/opacus.json")


@pytest.mark.parametrize("name", ["new", "known"])
def test_what_is_not_decided_is_skipped(baseline: Path, name: str) -> None:
    with pytest.raises(pytest.skip.Exception, match="not decided"):
        assert_baseline(name, Decided(3), baseline)


@pytest.mark.parametrize("text", ["[]", '{"known": 7}', '{"known": ["issue 7"]}', "{"])
def test_a_baseline_of_another_form_is_refused(baseline: Path, text: str) -> None:
    baseline.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="baseline"):
        assert_baseline("known", Decided(1), baseline)


@pytest.mark.parametrize(("library", "outcome"), [("opacus", ".x"), ("diffprivlib", "..x")])
@pytest.mark.slow
def test_the_gate_of_a_library_passes_what_it_keeps_and_expects_what_is_known(library: str, outcome: str) -> None:
    pytest.importorskip("diffprivlib.models" if library == "diffprivlib" else library, exc_type=ImportError)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"examples/maintainers/test_{library}.py"]
    run = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert run.stdout.split()[0] == outcome, run.stdout
