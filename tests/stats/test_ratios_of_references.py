"""The ratio of a reference in the target's place is what the ratio is of a target, with however few others."""

import numpy as np
import pytest

from audit.stats.scoring import membership


@pytest.mark.parametrize("references", [2, 3, 8])
def test_a_reference_in_the_targets_place_has_the_ratio_of_a_target(references: int) -> None:
    """Also if no other reference trained on a record, or all did: the missing side is predicted alike."""
    random = np.random.default_rng(references)
    log_p, included = np.log(random.random((references, 300))), random.random((references, 300)) < 0.5
    by_formula = membership.reference_log_ratios(log_p, included, offline_weight=0.3)
    for row in range(references):
        remainder = np.delete(np.arange(references), row)
        as_target = membership.log_ratios(log_p[row], log_p[remainder], included[remainder], offline_weight=0.3)
        np.testing.assert_allclose(by_formula[:, row], as_target, rtol=1e-9, atol=1e-12)


def test_a_reference_without_others_has_no_ratio() -> None:
    log_p, included = np.log(np.random.default_rng(0).random((1, 5))), np.array([[True, False, True, False, True]])
    assert not membership.reference_log_ratios(log_p, included, offline_weight=0.3).any()
