"""References in the wrong order, or with inverted memberships, are refused with the order that fits; right ones never are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import audit
from audit.core.errors import DataError
from audit.experiment.external.inspection import References
from audit.experiment.external.reference_memberships import refuse_foreign_memberships
from audit.stats.rank_evidence import membership_evidence

N, MEMBERS, K = 300, 140, 8


def losses(effect: float, seed: int = 0) -> tuple[Any, Any]:
    """Losses `(1 + K, N)` of a target and references that differ by `effect` on their members, and memberships."""
    rng = np.random.default_rng(seed)
    included = rng.random((1 + K, N)) < 0.5
    included[0] = np.arange(N) < MEMBERS
    hardness = rng.normal(size=N)
    return np.exp(hardness - effect * included + 0.3 * rng.normal(size=included.shape)), included


def wrong(name: str, references: Any) -> Any:
    return {
        "inverted": ~references,
        "nonmembers first": np.roll(references, N - MEMBERS, axis=1),
        "reverse": references[:, ::-1],
        "in another order": references[:, np.random.default_rng(1).permutation(N)],
    }[name]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("inverted", "memberships are inverted"),
        ("nonmembers first", r"it fits where columns are nonmembers first, then members \(\d+ standard errors\)"),
        ("reverse", "it fits where columns are in reverse order"),
        ("in another order", "no other order that was tried fits"),
    ],
)
def test_memberships_that_do_not_fit_are_refused_with_the_order_that_does(name: str, message: str) -> None:
    values, included = losses(1.0)
    refuse_foreign_memberships(values, included, is_recorded=False)
    with pytest.raises(DataError, match=message):
        refuse_foreign_memberships(values, np.concatenate([included[:1], wrong(name, included[1:])]), is_recorded=False)


def test_the_path_of_users_refuses_them() -> None:
    values, included = losses(1.0)
    members, nonmembers = values[0][:MEMBERS], values[0][MEMBERS:]
    right = References(included=included[1:], losses=values[1:])
    audit.check(loss_of=lambda b: b, members=members, nonmembers=nonmembers, references=right, quiet=True)
    for name in ("inverted", "in another order"):
        references = References(included=wrong(name, included[1:]), losses=values[1:])
        with pytest.raises(DataError, match="references"):
            audit.check(loss_of=lambda b: b, members=members, nonmembers=nonmembers, references=references, quiet=True)


def test_right_references_are_let_pass_whatever_they_learned() -> None:
    for seed in range(200):
        for effect in (0.0, 0.05, 0.3, 1.0):
            values, included = losses(effect, seed)
            refuse_foreign_memberships(values, included, is_recorded=bool(seed % 2))


def test_evidence_of_memberships_that_tell_nothing_has_unit_spread() -> None:
    draws = [membership_evidence(*(part[1:] for part in losses(0.0, seed))) for seed in range(300)]
    assert abs(float(np.mean(np.array(draws, float)))) < 0.2
    assert 0.8 < float(np.std(np.array(draws, float))) < 1.2


def test_references_that_hold_none_of_the_records_are_let_pass() -> None:
    values, included = losses(1.0)
    included[1:] = False
    refuse_foreign_memberships(values, included, is_recorded=False)
