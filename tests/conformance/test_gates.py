"""Every policy gate: nothing to look at is not a pass, limits are checked, and a laxer limit lets more through."""

from __future__ import annotations

import math

import pytest

from audit import plugins
from audit.core.errors import ConfigError
from audit.core.protocols import Gate
from tests.reports import sample

PACKAGE = plugins.FOLDERS["gates"]
GATES = plugins.names(PACKAGE)


def built(name: str, limit: float) -> Gate:
    gate: Gate = plugins.build(PACKAGE, {"kind": name, "limit": limit})
    return gate


@pytest.mark.parametrize("name", GATES)
def test_nothing_to_look_at_is_not_a_pass(name: str) -> None:
    gate = built(name, 0.5)
    assert gate.found([]) is None and not gate.met(None)


@pytest.mark.parametrize("name", GATES)
def test_the_limit_decides_and_the_limit_itself_passes(name: str) -> None:
    figure = built(name, 0.5).found(sample.run().mechanisms)
    assert figure is not None and math.isfinite(figure)
    gate, sign = built(name, 0.5), -1 if name.startswith("min_") else 1
    assert gate.met(0.5) and gate.met(0.5 - sign * 0.1) and not gate.met(0.5 + sign * 0.1)


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("limit", [-0.5, math.nan])
def test_a_limit_out_of_range_is_named(name: str, limit: float) -> None:
    with pytest.raises(ConfigError, match=name):
        built(name, limit)


def test_positions_are_all_different() -> None:
    assert len({gate.position for gate in plugins.in_order(PACKAGE).values()}) == len(GATES)
