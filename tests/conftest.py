"""Fixtures that several test packages share."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: workers share the cores, and bits are compared

# The same examples in every run, so that a change is what turns a test red; `--hypothesis-profile=random` looks for new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("fixed")

BEGINNING = time.monotonic()
OUT_OF_TIME = "--seconds are over"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seconds", type=float, default=math.inf, help="begin no test later than this; the others are counted")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.monotonic() - BEGINNING > item.config.getoption("--seconds"):
        pytest.skip(OUT_OF_TIME)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    late = sum(OUT_OF_TIME in str(report.longrepr) for report in terminalreporter.getreports("skipped"))
    if late:
        terminalreporter.write_line(f"{late} tests were not run: {OUT_OF_TIME}", yellow=True)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder with the real data sets: AUDIT_DATA, else `shared/data` beside the checkout; skips if absent."""
    named = os.environ.get("AUDIT_DATA")
    root = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not root.is_dir():
        pytest.skip(f"no real data: {root} is no folder; set AUDIT_DATA to the folder that holds MNIST, adult, ...")
    return root


@pytest.fixture
def models_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users' models are vetted as ever, but run in the test's process, which saves the seconds that a process takes."""
    from tests.subjects.local import LocalModel

    monkeypatch.setattr("audit.subjects._exported.ModelProcess", LocalModel)


@pytest.fixture(autouse=True)
def files_in_this_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users' files are parsed by the same code in the test's process, save in tests marked `confined` and in commands."""
    if request.node.get_closest_marker("confined") is None:
        from tests.subjects.local import read_here

        monkeypatch.setattr("audit.core.confined.process.read", read_here)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is slow
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The README's commands take longest, so they start first: at the end one core would wait for them."""
    items.sort(key=lambda item: item.path.name != "test_readme.py")
    for cases in _cases_by_test(items).values():
        sampled = cases[0].get_closest_marker("sampled")
        if sampled is None:
            continue
        kept = {round(place * (len(cases) - 1) / max(sampled.args[0] - 1, 1)) for place in range(sampled.args[0])}
        for place, case in enumerate(cases):
            if place not in kept:
                case.add_marker(pytest.mark.slow)


def _cases_by_test(items: list[pytest.Item]) -> dict[str, list[pytest.Item]]:
    """The cases of each parametrised test, in their order."""
    result: dict[str, list[pytest.Item]] = {}
    for item in items:
        result.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return result
