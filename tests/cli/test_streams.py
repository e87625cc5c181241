"""The exit code is the verdict's, whoever reads stdout and whatever ends the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from audit.cli.app import answer
from tests.marks import slow_rows
from tests.tiny import CONFIG

AUDIT = [sys.executable, "-m", "audit"]


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scores") / "scores.npz"
    np.savez(path, score=np.r_[np.arange(40) + 100.0, np.arange(40.0)], member=np.repeat([True, False], 40))
    return path


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=120)


def test_a_warning_shows_no_escape_sequence_of_a_name(tmp_path: Path, scores: Path) -> None:
    table = tmp_path / "\x1b[31mred.npz"
    table.write_bytes(scores.read_bytes())
    words = ["scores", str(table), "--certificates", "0", "--output", str(tmp_path / "run")]
    done = subprocess.run([*AUDIT, *words], capture_output=True, text=True, check=False, timeout=120)
    assert "\\x1b[31mred" in done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr


SINKS = [
    ("| true; exit ${PIPESTATUS[0]}", ""),
    ("2>&1 | true; exit ${PIPESTATUS[0]}", ""),
    ("> /dev/full", "stdout is incomplete: No space left on device"),
    (">&-", ""),
    (">&- 2>&-", ""),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("sink", "message"), slow_rows(SINKS, [*SINKS[:1], *SINKS[3:4]]))
def test_the_verdict_is_the_exit_code(scores: Path, sink: str, message: str) -> None:
    words = ["scores", str(scores), "--delta", "1e-5", "--claim-epsilon", "9", "--certificates", "0"]
    done = shell(" ".join([*AUDIT, *words, sink]))
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert message in done.stderr if message else not done.stderr.strip()


@pytest.mark.slow
def test_a_terminal_that_lacks_a_letter_gets_its_number(scores: Path) -> None:
    path = scores.with_name("手写.npz")
    path.write_bytes(scores.read_bytes())
    words = ["scores", str(path), "--claim-epsilon", "9", "--certificates", "0"]
    done = shell("PYTHONIOENCODING=ascii " + " ".join([*AUDIT, *words]))
    assert done.returncode == 3, done.stderr
    assert "\\u624b\\u5199.npz: " in done.stdout and not done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_says_how_to_go_on(number: int, tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(CONFIG)
    line = [*AUDIT, "run", str(tmp_path / "tiny.yaml"), "-q", "-o", str(tmp_path / "run"), "--set", "training.steps=20000"]
    previous = signal.signal(number, signal.SIG_DFL)  # `nohup pytest` ignores SIGHUP, and so would its children
    process = subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env={**os.environ})
    signal.signal(number, previous)
    deadline = time.monotonic() + 100
    while not list((tmp_path / "run.partial" / "private").glob("coins*")) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert "--resume" in err and "Traceback" not in err
    assert (tmp_path / "run.partial").is_dir()


def test_an_error_that_takes_the_place_of_a_stop_is_a_stop() -> None:
    """Python 3.11 raises its own RuntimeError for whatever is raised while a class is made."""
    code = """
import os, signal
from audit.cli import app, run
class Descriptor:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGTERM)
def hears(*arguments, **options):
    try:
        type("Any", (), {"field": Descriptor()})
    except BaseException as error:
        raise RuntimeError("in its place") from error
app.app = hears
app.main(["run"])
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert done.stderr == "stopped by SIGTERM\n", "no run had begun"


@pytest.mark.slow
def test_a_stop_in_a_destructor_ends_the_program_all_the_same() -> None:
    code = """
import os, signal, time
from audit.cli import app
class Kept:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
def hears(*arguments, **options):
    Kept()
    time.sleep(20)
    return 0
app.app = hears
app.main(["run"])
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert done.stderr == "stopped by SIGTERM\n"


def test_what_nohup_ignores_stays_ignored() -> None:
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); from audit.cli import app; app.answer = lambda words: "
    code += "7 if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else 8; app.main([])"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 7


@pytest.mark.slow
def test_a_library_that_sets_up_logging_prints_nothing_of_ours(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(CONFIG)
    code = "import logging; logging.basicConfig(); from audit.cli.app import main; main()"
    words = ["run", "tiny.yaml", "-q", "-o", "run", "--set", "training.steps=2", "--set", "output.formats=[json]"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert process.returncode in (0, 1, 3) and b"INFO" not in process.stderr, process.stderr.decode()
    assert (tmp_path / "run" / "audit.log").read_text()


def test_a_folder_of_the_name_of_a_config_hides_it_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quickstart").mkdir()
    monkeypatch.chdir(tmp_path)
    assert answer(["init", "mine.yaml"]) == 0
