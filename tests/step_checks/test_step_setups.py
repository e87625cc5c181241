"""Random right steps of many shapes are accused of nothing; each defect is found in a step of random shape."""

from __future__ import annotations

import pytest

from tests.step_checks.step_setups import DEFECTS, draw_setup

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(105, 109))
def test_a_right_step_is_accused_of_nothing(seed: int) -> None:
    setup = draw_setup(seed)
    assert setup.check(seed).failures == (), setup.text


# the long one takes three quarters of a minute
@pytest.mark.parametrize("defect", [name for name in DEFECTS if name != "first record unclipped"])
def test_a_defect_is_found(defect: str) -> None:
    seed = DEFECTS.index(defect)
    setup = draw_setup(seed, defect)
    assert setup.check(seed).failures, setup.text
