"""What CONTRIBUTING.md promises: its scorer passes the tests that run over every scorer, its folders and links exist."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attacks.canaries
import attacks.scorers
from audit import config, plugins
from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.step_checks.findings import PropertyStatus
from audit.step_checks.run import check_step
from audit.zoo._reference import DpSgdStep, small_parameters
from tests.conformance import test_attacks as conformance
from tests.conformance import test_canaries
from tests.conformance.test_canaries import small_dataset

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CODE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def of_every(tests: Any) -> dict[str, Any]:
    """The tests of a file that run over every plug-in by its name."""
    functions = inspect.getmembers(tests, inspect.isfunction)
    return {name: test for name, test in functions if name.startswith("test_") and "name" in inspect.signature(test).parameters}


CONFORMANCE = of_every(conformance)
CANARY_TESTS = {name: test for name, test in of_every(test_canaries).items() if "secret" not in name and "text" not in name}


@pytest.fixture
def margin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the page's scorer; its code is in a file that imports find in the folder of scorers."""
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    (tmp_path / "margin.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(attacks.scorers, "__path__", [*attacks.scorers.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "attacks.scorers.margin", raising=False)
    return "margin"


@pytest.mark.parametrize("test", sorted(CONFORMANCE))
def test_the_scorer_of_the_page_conforms(test: str, margin: str) -> None:
    function = CONFORMANCE[test]
    peers = set(inspect.signature(function).parameters) - {"name"}
    if peers == {"count"}:
        function(name=margin, count=1)
        function(name=margin, count=2)
    else:
        assert not peers
        function(name=margin)


def test_a_config_takes_the_scorer_as_the_page_says(margin: str) -> None:
    assert margin in plugins.names("attacks.scorers")
    override = re.search(r"--set '(games\.[^']+)'", PAGE)
    assert override is not None
    resolved = config.load("quickstart", [override[1]])
    assert resolved.config.games[0].scorers[1] == {"kind": "margin", "cap": 20}
    with pytest.raises(ConfigError, match=r"margin\.cap is 0"):
        plugins.build("attacks.scorers", {"kind": margin, "cap": 0})


@pytest.fixture
def shifted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the page's canary maker; imports find it in the folder of canaries."""
    (tmp_path / "shifted.py").write_text(CODE[1], encoding="utf-8")
    monkeypatch.setattr(attacks.canaries, "__path__", [*attacks.canaries.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "attacks.canaries.shifted", raising=False)
    return "shifted"


def test_the_canary_of_the_page_is_made(shifted: str) -> None:
    dataset = small_dataset()
    canaries = plugins.build("attacks.canaries", {"kind": shifted, "by": 2}).make(dataset, 5, 10, Seed(0))
    assert canaries.records is not None
    rows = [
        row for record in canaries.records.inputs for row in np.flatnonzero((dataset.pool.inputs + 2 == record).all((1, 2, 3)))
    ]
    assert len(set(rows)) == 5


@pytest.mark.parametrize("test", sorted(CANARY_TESTS))
def test_the_canary_of_the_page_conforms(test: str, shifted: str) -> None:
    CANARY_TESTS[test](name=shifted, **({"count": 24} if "count" in inspect.signature(CANARY_TESTS[test]).parameters else {}))


@pytest.mark.slow
def test_the_probe_of_the_page_finds_noise_outside_the_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page_probe.py").write_text(CODE[2], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    class Unseeded(DpSgdStep):
        def total(self, params: Any, inputs: Any, labels: Any, clip_norm: float) -> Any:
            total = super().total(params, inputs, labels, clip_norm)
            return {name: value + torch.rand(value.shape, generator=fresh) for name, value in total.items()}

    fresh = torch.Generator()
    sample = (np.random.default_rng(0).normal(size=(16, 6)).astype(np.float32), np.arange(16) % 3)
    status = []
    for step in (DpSgdStep(), Unseeded()):
        report = check_step(
            step, small_parameters(), sample, noise_multiplier=1.0, clip_norm=1.0, divisor=16.0, probes=["page_probe:Repeated"]
        )
        status.append(report.findings[-1].status)
    assert report.findings[-1].check == "release.repeated" and status == [PropertyStatus.PASSED, PropertyStatus.FAILED]


@pytest.mark.parametrize("number", range(3))
def test_the_code_of_the_page_is_clean(number: int) -> None:
    """Lint and format of a code block, by the project's own rules."""
    code = CODE[number]
    for command in (["check", "-"], ["format", "--check", "-"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", "attacks/scorers/margin.py"]
        done = subprocess.run(ruff, cwd=ROOT, input=code, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_scorer_has_the_types_that_it_says(tmp_path: Path) -> None:
    file = tmp_path / "margin.py"
    file.write_text(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0], encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "mypy", str(file)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_folders_and_links_exist() -> None:
    table = PAGE.split("## Where each thing is")[1].split("##")[0]
    named = re.findall(r"`((?:audit|attacks|reports|tests)[\w/.]*)`", table)
    linked = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert len(named) > 10
    for path in [*named, *linked]:
        assert (ROOT / path).exists(), path
