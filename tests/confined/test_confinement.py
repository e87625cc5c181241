"""The confined process keeps the limits of the documentation, and its answers are read as the words of an attacker."""

from __future__ import annotations

import gzip
import json
import platform
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from audit.core.confined import escapes, examination, process, seccomp
from audit.core.errors import AuditError, DataError
from audit.data.frames import read_table
from audit.data.text_files import read_texts
from tests.confined import jobs
from tests.marks import slow

LINUX = pytest.mark.skipif(not seccomp.is_known(), reason="system calls are filtered on Linux, x86_64 and aarch64")
pytestmark = [LINUX, pytest.mark.confined]


@pytest.mark.slow
def test_every_way_out_that_a_wall_can_close_is_held_and_no_other_is_said_to_be() -> None:
    findings = examination.examine()
    assert [finding for finding in findings if not finding.is_held and finding.has_wall] == []
    assert {finding.name for finding in findings if not finding.is_held} == set(escapes.QUESTIONS)


def test_the_same_attempts_reach_out_of_a_process_that_is_not_confined(tmp_path: Path) -> None:
    """So that an attempt which can reach nothing anywhere is noticed."""
    names = [
        "sockets of every family",
        "TCP",
        "datagrams",
        "UNIX sockets by path",
        "abstract UNIX sockets",
        "pairs of sockets",
        "reading a file that was not named",
        "listing a folder",
        "writing a file",
        "making a file",
        "chmod",
        "utime",
        "links",
        "starting a program",
        "the environment",
        "what /proc says of the parent",
        "signals to the parent",
        "processors of the parent",
        "priority, group and processors of the parent",
        "the name of the host (uname)",
        "free space of disks (statfs)",
        "outliving the parent",
        "a session of its own (setsid)",
        "memory files",
        "memory of page tables",
        "connections and mounts of the machine",
    ]
    assert set(names) <= set(escapes.ATTEMPTS)
    names += escapes.QUESTIONS
    program = """
        import json, sys
        from audit.core.confined import escapes
        names, bait = json.loads(sys.argv[1])
        print(json.dumps({name: escapes.attempt({"attempt": name, "bait": bait}, b"")[0][0] for name in names}))
    """
    with examination._lay_bait() as (bait, watch):
        command = [sys.executable, "-c", textwrap.dedent(program), json.dumps([names, bait])]
        done = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=False)
        assert watch.what_happened()
    answers = json.loads(done.stdout)
    assert [name for name in names if "reached" not in answers[name]] == []


def test_no_variable_but_the_listed_ones_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "secret")
    names = process.environment().keys()
    assert "MY_API_KEY" not in names
    assert names <= {
        *process.PASSED_ON, "PATH", "HOME", "USER", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "MALLOC_ARENA_MAX"
    }  # fmt: skip


def test_a_file_that_python_imports_at_its_start_is_not_taken_from_a_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "a.csv").write_text("score,member\n1,0\n2,1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert len(read_table((tmp_path / "a.csv").read_bytes(), tmp_path / "a.csv")) == 2
    assert not (tmp_path / "ran").exists()


def test_every_number_of_a_system_call_is_that_of_this_machine() -> None:
    """The table is compared with the kernel's header, if the machine has it."""
    header = Path("/usr/include/asm-generic/unistd.h" if platform.machine() == "aarch64" else "/usr/include/asm/unistd_64.h")
    for place in (header, Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")):
        if place.is_file() and platform.machine() == "x86_64":
            words = [line.split() for line in place.read_text().splitlines() if line.startswith("#define __NR_")]
            known = {parts[1].removeprefix("__NR_"): int(parts[2]) for parts in words if len(parts) > 2 and parts[2].isdigit()}
            table = seccomp.NUMBERS["x86_64"]
            assert {name: number for name, number in table.items() if known.get(name, number) != number} == {}
            return
    pytest.skip("no header of the kernel here")


def test_a_program_of_the_filter_jumps_within_what_the_kernel_takes() -> None:
    for machine in seccomp.ARCHITECTURES:
        for program in (seccomp.reading_program(machine, 2**22 - 1), seccomp.sealing_program(machine)):
            assert len(program) < 4096
            assert all(max(chosen, fallen) < 256 for _, chosen, fallen, _ in program)
            for place, (code, chosen, fallen, _) in enumerate(program):
                if code in (seccomp._EQUAL, seccomp._AT_LEAST):
                    assert place + 1 + max(chosen, fallen) < len(program)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("reply", jobs.FORGED)
def test_a_forged_reply_is_an_error_of_the_audit(reply: str) -> None:
    with pytest.raises(AuditError) as caught:
        facts, body = process.read(f"tests.confined.jobs:{jobs.FORGE}", b"x", "model", memory_bytes=2**28, limit=2**20,
                                   facts={"reply": reply})  # fmt: skip
        from audit.core.confined.arrays import unpack

        unpack(facts.get("arrays"), body, "model")
    assert type(caught.value).__name__ in ("DataError", "ConfigError")


@pytest.mark.slow
def test_a_process_ends_with_an_audit_that_is_killed(tmp_path: Path) -> None:
    """It computes for ever, reads no more requests, and has tried to ignore every signal."""
    program = """
        import os, sys, threading
        from audit.core.confined import process
        from tests.confined import jobs
        def read():
            process.read("tests.confined.jobs:spin", b"x", "model", memory_bytes=2**28, limit=0)
        threading.Thread(target=read, daemon=True).start()
        import time, subprocess
        while True:
            children = subprocess.run(["pgrep", "-P", str(os.getpid()), "-f", "confined.worker"], stdout=-1, text=True)
            if children.stdout.strip():
                print(children.stdout.split()[0], flush=True)
                break
        time.sleep(60)
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    time.sleep(0.5)
    assert _is_running(child)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    end = time.monotonic() + 10
    while _is_running(child) and time.monotonic() < end:
        time.sleep(0.05)
    assert not _is_running(child)


def _is_running(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_memory_beyond_the_limit_is_refused_and_time_ends() -> None:
    with pytest.raises(DataError, match="may need more than"):
        process.read("tests.confined.jobs:fill", b"x", "model", memory_bytes=2**27, limit=0)
    with pytest.raises(DataError, match=r"within 0\.5 seconds"):
        process.ConfinedProcess("tests.confined.jobs:spin", b"x", "model", seconds=0.5)


@pytest.mark.slow
def test_reading_ends_after_seconds_of_computing_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "READING_SECONDS", 1)
    with pytest.raises(DataError, match="seconds of computing"):
        process.read("tests.confined.jobs:compute", b"x", "model", memory_bytes=2**28, limit=0)


def test_missing_walls_are_MESSAGES_once(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(process, "_MESSAGES", set())
    caplog.set_level("WARNING", logger="audit")
    process._tell_missing(["listed system calls only"])
    process._tell_missing(["listed system calls only"])
    assert [record.getMessage().count("listed system calls only") for record in caplog.records] == [1]


TABLE = pd.DataFrame(
    {
        "name": ["a", "b", "", "Müller, 手"] * 300,
        "score": [0.1, -2.5, 1e300, 3.0] * 300,
        "count": range(1200),
        "member": [True, False] * 600,
    }
)


def test_small_parquet_files_of_other_writers_fit_into_the_memory_that_their_size_gives(tmp_path: Path) -> None:
    """Arrow's own allocator reserves a gigabyte, more than a small file may take."""
    path = tmp_path / "scores.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"score": [0.5, 0.25], "member": [True, False]}), path)
    assert read_table(path.read_bytes(), path)["score"].tolist() == [0.5, 0.25]


@pytest.mark.slow
@pytest.mark.parametrize("form", slow(["parquet", "csv", "csv.gz"], ["csv", "csv.gz"]))
def test_tables_are_the_same_from_there(form: str, tmp_path: Path) -> None:
    """Several groups of rows with texts: readers that wait for threads never end there."""
    path = tmp_path / f"table.{form}"
    if form == "parquet":
        TABLE.to_parquet(path, row_group_size=100)
    else:
        text = TABLE.to_csv(index=False).encode()
        path.write_bytes(gzip.compress(text) if form == "csv.gz" else text)
    frame = read_table(path.read_bytes(), path)
    names = TABLE.name if form == "parquet" else TABLE.name.mask(TABLE.name == "")
    pd.testing.assert_frame_equal(frame, TABLE.assign(name=names.astype(object)), check_column_type=False)


@pytest.mark.slow
@pytest.mark.parametrize("form", slow(["jsonl", "parquet"], ["parquet"]))
def test_texts_are_the_same_from_there(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"texts.{form}"
    TABLE.to_parquet(path) if form == "parquet" else TABLE.to_json(path, orient="records", lines=True)
    assert read_texts(path, "name")[0] == TABLE.name.tolist()


@pytest.mark.slow
def test_models_are_read_where_dill_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hugging Face's data sets install it; torch imports it, and it opens the null device for writing."""
    folder = tmp_path / "site-packages"
    (folder / "dill").mkdir(parents=True)
    (folder / "dill" / "__init__.py").write_text("import os\nopen(os.devnull, 'r+b')\ndef extend(use_dill): pass\n")
    monkeypatch.syspath_prepend(str(folder))
    facts, _ = process.read("tests.confined.jobs:import_torch", b"x", "model", memory_bytes=2**34, limit=2**20)
    assert facts["version"]
