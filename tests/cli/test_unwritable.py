"""An output that cannot be written is exit 4 with what to do, and what was trained is kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiny import CONFIG

SMALL = [word for change in ("training.steps=2", "certificates=0", "output.formats=[json]") for word in ("--set", change)]
KIB = 32  # the files of models are smaller, report.json is not


@pytest.mark.slow
def test_a_file_that_cannot_be_written_is_exit_4_and_the_run_goes_on_where_there_is_room(tmp_path: Path) -> None:
    config = tmp_path / "tiny.yaml"
    config.write_text(CONFIG)
    words = [sys.executable, "-m", "audit", "run", str(config), "-q", "-o", str(tmp_path / "run"), *SMALL]
    command = ["bash", "-c", f'ulimit -f {KIB}; exec "$@"', "bash", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 4, done.stderr
    assert "cannot write" in done.stderr and "Traceback" not in done.stderr
    assert list((tmp_path / "run.partial" / "models").glob("*.safetensors")) and not (tmp_path / "run").exists()
    again = subprocess.run([*words, "--resume"], capture_output=True, text=True, check=False, timeout=200)
    assert again.returncode in (0, 3), again.stderr
    assert (tmp_path / "run" / "report.json").is_file()
