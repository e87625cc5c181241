"""`audit report`, `audit verify`, `audit diff` on run folders, PDFs and JSON files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

import reports
from audit.cli import diff as comparison
from audit.cli import report as commands
from audit.cli import report_files
from audit.cli import verify as verification
from audit.cli.app import answer
from audit.core.claims import Outcome
from audit.core.errors import ConfigError, DataError, OutputError
from audit.core.files import file_sha256
from audit.core.results import AuditReport
from audit.execution import run_folder
from tests.reports import sample


def _folder(path: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    sums = [f"{file_sha256(item)}  {item.relative_to(path).as_posix()}\n" for item in sorted(path.rglob("*")) if item.is_file()]
    (path / run_folder.SUMS).write_text("".join(sums))
    return path


@pytest.fixture(scope="module")
def rendered() -> dict[str, bytes]:
    return reports.render(sample.scores()) | {"scores.parquet": b"not read here"}


@pytest.fixture
def folder(tmp_path: Path, rendered: dict[str, bytes]) -> Path:
    return _folder(tmp_path / "run", rendered)


@pytest.mark.slow
def test_an_untouched_folder_is_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verification.verify(folder) == 0
    assert "verified" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["report.pdf", "junit.xml", "figures/overview.png", "scores.parquet"])
def test_one_changed_byte_is_found(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    assert verification.verify(folder) == 1
    assert f"{name}: changed" in capsys.readouterr().out


def test_a_view_that_disagrees_with_the_report_is_found_even_with_a_matching_hash(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "junit.xml").write_bytes(b"<testsuites/>")
    (folder / run_folder.SUMS).unlink()
    _folder(folder, {})
    assert verification.verify(folder, as_json=True) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["verified"] is False and result["problems"] == ["junit.xml: not what report.json renders to"]


@pytest.mark.parametrize("change", ["missing", "added"])
def test_a_missing_or_added_file_is_found(folder: Path, change: str) -> None:
    if change == "missing":
        (folder / "results.sarif").unlink()
    else:
        (folder / "extra.txt").write_text("x")
    assert verification.verify(folder) == 1


def test_a_pdf_alone_can_be_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verification.verify(folder / "report.pdf") == 0
    content = bytearray((folder / "report.pdf").read_bytes())
    content[-200] ^= 1
    (folder / "report.pdf").write_bytes(content)
    assert verification.verify(folder / "report.pdf") == 1


def test_a_json_alone_can_be_verified(folder: Path) -> None:
    path = folder / "report.json"
    assert verification.verify(path) == 0
    path.write_bytes(path.read_bytes().replace(b",", b", ", 1))
    assert verification.verify(path) == 1


@pytest.mark.parametrize("content", [b"", b"{}", b"%PDF-1.7 nothing attached", b"\x80\x04pickle"])
def test_what_is_no_report_is_an_input_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd"
    path.write_bytes(content)
    with pytest.raises(DataError):
        verification.verify(path)


def test_a_path_that_does_not_exist_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read"):
        verification.verify(tmp_path / "nowhere")


def test_render_again_restores_every_view_and_its_hash(folder: Path, rendered: dict[str, bytes]) -> None:
    (folder / "report.pdf").write_bytes(b"lost")
    (folder / "figures" / "overview.svg").unlink()
    assert commands.report(folder) == 0
    assert (folder / "report.pdf").read_bytes() == rendered["report.pdf"]
    assert verification.verify(folder) == 0


def test_render_elsewhere_and_only_some_formats(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "elsewhere"
    assert commands.report(folder / "report.pdf", output=target, formats=["junit", "json"], as_json=True) == 0
    assert sorted(item.name for item in target.iterdir()) == ["junit.xml", "report.json"]
    assert json.loads(capsys.readouterr().out)["files"] == ["junit.xml", "report.json"]


def test_an_output_that_cannot_be_written_is_an_error_of_its_own(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="choose another --output"):
        commands.report(folder, output=tmp_path / "file")


@pytest.mark.slow
def test_several_languages_lie_side_by_side_and_each_can_be_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.report(folder, formats=["pdf"], language="en+zh") == 0
    assert (
        verification.verify(folder)
        == verification.verify(folder / "report-zh.pdf")
        == verification.verify(folder / "report.pdf")
        == 0
    )
    content = bytearray((folder / "report-zh.pdf").read_bytes())
    content[-100] ^= 1
    (folder / "report-zh.pdf").write_bytes(content)
    assert verification.verify(folder / "report-zh.pdf") == verification.verify(folder) == verification.VERIFICATION_FAILURE
    with pytest.raises(ConfigError, match="languages has no 'fr'"):
        commands.report(folder, language="en+fr")


def test_an_unknown_edition_is_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no edition 'public'; choose internal or external"):
        commands.report(folder, edition="public")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("new", "code"),
    [(Outcome.CONSISTENT, 0), (Outcome.VIOLATED, 1), (Outcome.OUT_OF_REACH, 1), (Outcome.INVALID, 1)],
)
def test_diff_answers_with_a_regression(tmp_path: Path, new: Outcome, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    base = replace(sample.run(), policy=())
    dp = sample.dp_sgd(new)
    later = replace(base, mechanisms=(base.mechanisms[0], dp), outcome=new)
    for name, item in (("old.json", base), ("new.json", later)):
        (tmp_path / name).write_bytes(reports.render(item, ("json",))["report.json"])
    assert comparison.diff(tmp_path / "old.json", tmp_path / "new.json") == code
    assert ("worse" in capsys.readouterr().out) == bool(code)


def test_diff_without_a_regression_answers_for_the_new_audit(tmp_path: Path) -> None:
    same = replace(sample.run(Outcome.OUT_OF_REACH), policy=())
    (tmp_path / "a.json").write_bytes(reports.render(same, ("json",))["report.json"])
    assert comparison.diff(tmp_path / "a.json", tmp_path / "a.json") == 3
    gate = sample.run()  # one of its gates is not met
    (tmp_path / "b.json").write_bytes(reports.render(gate, ("json",))["report.json"])
    assert comparison.diff(tmp_path / "b.json", tmp_path / "b.json") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"garbage\n", "'garbage' is not a checksum of a file"),
        (b"\xff\xfe\n", "SHA256SUMS: cannot be read"),
        (b"0" * 64 + b"  ../victim\n", "../victim: outside of the folder"),
        (b"0" * 64 + b"  /etc/passwd\n", "/etc/passwd: outside of the folder"),
    ],
)
def test_hostile_checksums_are_a_difference(
    folder: Path, content: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with (folder / run_folder.SUMS).open("ab") as sums:
        sums.write(content)
    assert verification.verify(folder) == 1
    assert message in capsys.readouterr().out
    if b"  " not in content:
        with pytest.raises(DataError, match="SHA256SUMS"):
            commands.report(folder, formats=["junit"])


@pytest.mark.parametrize("kind", ["pipe", "link to a device"])
def test_what_is_no_file_is_a_difference(folder: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(folder / "odd") if kind == "pipe" else (folder / "odd").symlink_to("/dev/zero")
    assert verification.verify(folder) == 1
    assert "odd: not part of the run" in capsys.readouterr().out


def test_no_link_in_a_folder_of_somebody_else_leads_a_file_elsewhere(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("junit.xml.tmp", "junit.xml", f"{run_folder.SUMS}.tmp"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(victim)
    assert commands.report(folder, formats=["junit"]) == 0
    assert victim.read_text() == "precious"
    assert not (folder / "junit.xml").is_symlink()
    (tmp_path / "elsewhere").mkdir()
    for path in (folder / "figures").iterdir():
        path.unlink()
    (folder / "figures").rmdir()
    (folder / "figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutputError, match="is a link out of"):
        commands.report(folder, formats=["figures"])
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_report_of_any_depth_is_refused(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"report\.json is not JSON"):
        report_files.load(tmp_path)
    (tmp_path / "old.json").write_text("[]")
    with pytest.raises(DataError, match=r"old\.json holds a list"):
        report_files.load(tmp_path / "old.json")


class Markdown:
    """A third party's format."""

    def render(self, report: AuditReport) -> dict[str, bytes]:
        return {"report.md": f"# {report.title}\n".encode()}


def test_a_single_format_is_written_to_the_file_that_is_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, kind = tmp_path / "out.md", f"{__name__}:Markdown"
    assert answer(["report", str(folder), "--format", kind, "-o", str(target)]) == 0
    assert target.read_text() == f"# {sample.scores().title}\n" and str(target) in capsys.readouterr().out
    assert answer(["report", str(folder), "--format", "json", "-o", str(tmp_path / "again.json")]) == 0
    assert (tmp_path / "again.json").read_bytes() == (folder / "report.json").read_bytes()
    assert answer(["report", str(folder), "--format", kind, "-o", str(tmp_path / "release-1.2")]) == 0
    assert (tmp_path / "release-1.2" / "report.md").read_bytes() == target.read_bytes()


def test_a_single_file_is_not_signed_and_replaces_no_file_of_a_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "report.json").read_bytes()
    command = ["report", str(folder), "--format", "json", "-o"]
    assert answer([*command, str(folder / "report.json")]) == 2 and "checksum" in capsys.readouterr().err
    assert (folder / "report.json").read_bytes() == before
    for option in ("--sign", "--mlflow"):
        assert answer([*command, str(tmp_path / "a.json"), option, "x"]) == 2 and option in capsys.readouterr().err
    assert not (tmp_path / "a.json").exists()
