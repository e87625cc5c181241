"""Fixtures that several test packages share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: workers share the cores, and bits are compared

# The same examples in every run, so that a change is what turns a test red; `--hypothesis-profile=random` looks for new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("random", derandomize=False, deadline=None, print_blob=True)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder with the real data sets: AUDIT_DATA, else `shared/data` beside the checkout; skips where absent."""
    named = os.environ.get("AUDIT_DATA")
    root = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not root.is_dir():
        pytest.skip(f"no real data: {root} is no folder; set AUDIT_DATA to the folder that holds MNIST, adult, ...")
    return root


@pytest.fixture
def models_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of others are vetted as ever, but run in the test's process, which saves the seconds that a process takes."""
    from tests.subjects.local import LocalModel

    for kind in ("torchscript", "torch_export"):
        monkeypatch.setattr(f"audit.subjects.{kind}.ModelProcess", LocalModel)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The README's commands take longest, so they start first: at the end one core would wait for them."""
    items.sort(key=lambda item: item.path.name != "test_readme.py")
