"""A pytest fixture that replays a differentially private program, for whoever maintains one.

    import pytest

    @pytest.mark.replay(EXAMPLE, epsilon=1.0)
    def test_noisy_mean(check_replay): check_replay(noisy_mean)

The marker has the arguments of `audit.replay` after the program; those of the call come on top. A refuted program fails
with line, pair, loss and the file of a witness; what a replay cannot decide skips, or fails if the marker says
`undecided="fail"`. The report is returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from audit.replays.report import ReplayReport

_MARKER = "replay(data, epsilon=None, delta=0.0, mu=None, undecided='skip', ...): the claim that `check_replay` checks"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def check_replay(request: Any, tmp_path: Path) -> Callable[..., ReplayReport]:
    """The replay of a program on the data and the claim of the marker `replay`."""
    marker = request.node.get_closest_marker("replay")
    arguments, terms = ((), {}) if marker is None else (marker.args, marker.kwargs)

    def check(function: Callable[..., Any], *data: Any, **overrides: Any) -> ReplayReport:
        from audit.api.replay import replay  # here: pytest loads this plugin in every project of the environment

        options = {"undecided": "skip", **terms, **overrides}
        outcome = options.pop("undecided")
        if outcome not in ("skip", "fail"):
            raise pytest.UsageError(f"{request.node.nodeid}: undecided is {outcome!r}; expected 'skip' or 'fail'")
        report = replay(function, *(data or arguments), **options)
        if report.exit_code == 1 or (report.exit_code and outcome == "fail"):
            pytest.fail(f"{report}\n  witness  {report.save(tmp_path / 'replay') / 'test_witness.py'}", pytrace=False)
        if report.exit_code:
            pytest.skip(str(report))
        return report

    return check
