"""The full coverage simulation takes hours: it runs only if `-m` names it."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "calibration" in (config.getoption("-m") or ""):
        return
    for item in items:
        if item.get_closest_marker("calibration"):
            item.add_marker(pytest.mark.skip(reason="full coverage simulation; run with -m calibration"))
