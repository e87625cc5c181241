"""The log of a run: written if its folder says and nowhere else, and a sentence if that cannot be."""

from __future__ import annotations

import logging
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from audit.core.errors import OutputError
from audit.execution.log_file import log_in

LOG = logging.getLogger("audit")


def test_a_line_is_appended_and_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    for line in ("first", "second"):
        with log_in(tmp_path / "audit.log"):
            LOG.info("%s \u624b", line)
        LOG.warning("of nobody")
    lines = (tmp_path / "audit.log").read_text(encoding="utf-8").splitlines()
    assert [line[-len(name) - 2 :] for line, name in zip(lines, ("first", "second"), strict=True)] == [
        "first \u624b",
        "second \u624b",
    ]
    assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600


def test_times_are_those_of_the_report_in_every_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    with log_in(tmp_path / "audit.log"):
        LOG.info("first")
    monkeypatch.undo()
    time.tzset()
    written = datetime.fromisoformat((tmp_path / "audit.log").read_text().partition(",")[0]).replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - written).total_seconds()) < 60


def a_link(path: Path) -> None:
    path.with_name("elsewhere").write_text("mine")
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("obstacle", [a_link, Path.mkdir, os.mkfifo])
def test_what_lies_in_its_place_is_left_alone_and_named(obstacle: object, tmp_path: Path) -> None:
    obstacle(tmp_path / "audit.log")  # type: ignore[operator]
    with pytest.raises(OutputError, match=r"audit\.log'.*remove what is in its place"), log_in(tmp_path / "audit.log"):
        LOG.info("not written")
    if (tmp_path / "elsewhere").exists():
        assert (tmp_path / "elsewhere").read_text() == "mine"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_full_disk_is_told_once_and_not_for_each_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    full = open("/dev/full", "w")  # noqa: SIM115 (closed with the log)
    monkeypatch.setattr("audit.execution.log_file._open", lambda path: full)
    with log_in(tmp_path / "audit.log"):
        with pytest.raises(OutputError, match="No space left"):
            LOG.info("first")
        LOG.error("second")
    assert not capfd.readouterr().err
