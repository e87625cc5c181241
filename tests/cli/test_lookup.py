"""`audit lookup`: names lead back to rows for the holder of the key, and for no one else; third-party text stays text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from audit.cli.app import answer
from audit.cli.printing import plain, print_error
from audit.core.errors import ConfigError, DataError
from audit.execution.run_folder import verify_folder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished audit of recorded outputs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("audit.cli.model.USUAL_FORMATS", ("json",))
    generator = np.random.default_rng(0)
    np.savez("p.npz", losses=generator.normal(size=60), member=np.arange(60) % 2 == 0)
    assert answer(["model", "--target", "p.npz", "-o", "run"]) == 0
    return tmp_path / "run"


def names_of(run: Path) -> list[str]:
    report = json.loads((run / "report.json").read_text())
    return [record["record"] for record in report["mechanisms"][0]["games"][0]["records"]]


def test_who_holds_the_key_finds_the_row(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = names_of(run)
    capsys.readouterr()
    assert answer(["lookup", str(run), *names, "--json"]) == 0
    rows = [match["row"] for match in json.loads(capsys.readouterr().out).values()]
    assert len(set(rows)) == len(names) and set(rows) <= set(range(60))
    (run / "private" / "record-key").rename(tmp_path / "elsewhere")
    assert verify_folder(run) == []
    assert answer(["lookup", str(run), names[0], "--rows", "100"]) == 2
    assert answer(["lookup", str(run), names[0], "--key", str(tmp_path / "elsewhere")]) == 0
    assert f"{names[0]}: row {rows[0]}," in capsys.readouterr().out


def test_another_key_finds_nothing(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other").write_text("0" * 32)
    assert answer(["lookup", str(run), names_of(run)[0], "--key", str(tmp_path / "other"), "--rows", "1000"]) == 2
    assert "is it the key of" in capsys.readouterr().err
    (tmp_path / "short").write_text("abc")
    assert answer(["lookup", str(run), names_of(run)[0], "--key", str(tmp_path / "short")]) == 2
    assert "at least 32 hexadecimal digits" in capsys.readouterr().err


@pytest.mark.slow
def test_two_audits_give_the_same_names_only_under_the_same_key(run: Path, tmp_path: Path) -> None:
    key = str(run / "private" / "record-key")
    assert answer(["model", "--target", "p.npz", "-o", "same", "--record-key", key]) == 0
    assert answer(["model", "--target", "p.npz", "-o", "other"]) == 0
    assert names_of(tmp_path / "same") == names_of(run)
    assert not set(names_of(tmp_path / "other")) & set(names_of(run))


def test_the_seed_of_the_coins_comes_from_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from audit.cli.model import _coin_seed
    from audit.cli.options import SEED_VARIABLE

    (tmp_path / "seed").write_text("4711\n")
    assert _coin_seed(None, None) is None
    assert _coin_seed(7, None) == 7
    assert _coin_seed(None, tmp_path / "seed") == 4711
    monkeypatch.setenv(SEED_VARIABLE, "12")
    assert _coin_seed(None, None) == 12
    with pytest.raises(ConfigError, match=f"given by --randomised-seed-file and {SEED_VARIABLE}; expected one"):
        _coin_seed(None, tmp_path / "seed")
    monkeypatch.setenv(SEED_VARIABLE, "twelve")
    with pytest.raises(ConfigError, match=f"{SEED_VARIABLE} does not give a seed"):
        _coin_seed(None, None)


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[2Jb", "a\rb", "a\u2028b", "a\u202eb", "a\x9bb", "a\0b", "a\x08b", "a\u200bb"])
def test_what_a_terminal_would_obey_is_written_out(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert plain(text).isprintable() and plain(text).startswith("a") and plain(text).endswith("b")
    print_error(DataError(f"{text}\nquickstart: the claim was not contradicted"))
    assert all(line.startswith("error: ") for line in capsys.readouterr().err.splitlines())


def test_a_title_cannot_forge_a_line_of_the_verdict(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "p\nall good: the claim was not contradicted\x1b[8m.npz"
    (tmp_path / "p.npz").rename(tmp_path / name)
    capsys.readouterr()
    assert answer(["model", "--target", name, "-o", "forged"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert not any(line.startswith("all good") for line in printed.splitlines())
    assert "p\\nall good" in printed


@pytest.mark.slow
def test_a_dry_run_calls_no_factory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    factory = ["--set", "model={factory: 'os:mkdir', arguments: {path: ran}}"]
    assert answer(["run", "quickstart", "--dry-run", *factory]) == 0
    assert "factory is not called in a dry run" in capsys.readouterr().out
    assert not (tmp_path / "ran").exists()
