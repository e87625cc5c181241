"""Random right set-ups of Opacus are accused of nothing; `python -m tests.step_checks.opacus_setups` has more."""

from __future__ import annotations

import pytest

pytest.importorskip("opacus", reason="needs the extra 'opacus'")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(8))
def test_a_right_set_up_is_accused_of_nothing(seed: int) -> None:
    from tests.step_checks.opacus_setups import draw

    setup = draw(seed)
    assert setup.check().failures == (), setup
