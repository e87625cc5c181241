"""References in the wrong order, or with inverted memberships, are refused with the order that fits; right ones never are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import audit
from audit.core.errors import DataError
from audit.experiment.external.accuracy_remarks import limit_trained_share
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
    refuse_foreign_memberships(values, included)
    with pytest.raises(DataError, match=message):
        refuse_foreign_memberships(values, np.concatenate([included[:1], wrong(name, included[1:])]))


@pytest.mark.parametrize("models", [1, 3, K])
def test_a_reference_whose_row_is_inverted_or_of_another_model_is_named(models: int) -> None:
    values, included = (part[: 1 + models] for part in losses(1.0))
    refuse_foreign_memberships(values, included)
    inverted = np.concatenate([included[:-1], ~included[-1:]])
    with pytest.raises(
        DataError, match=rf"reference {models} has lower losses .* row {models} of references.included is inverted"
    ):
        refuse_foreign_memberships(values, inverted)
    if models > 1:
        turned = np.concatenate([included[:1], np.roll(included[1:], 1, axis=0)])
        with pytest.raises(
            DataError, match=rf"reference 1 was trained on the records of row 2 .* {models} of {models} are elsewhere"
        ):
            refuse_foreign_memberships(values, turned)


def test_a_weak_reference_beside_strong_ones_of_the_same_records_is_let_pass() -> None:
    values, included = losses(1.0)
    included[1:] = included[1]
    values[1:] = losses(0.0, 1)[0][1:] * np.exp(included[1:] * -np.r_[0.3, np.full(K - 1, 2.0)][:, None])
    refuse_foreign_memberships(values, included)


@pytest.mark.parametrize("part", ["columns", "columns of included", "columns of outputs"])
@pytest.mark.parametrize("order", ["nonmembers first, then members", "in reverse order"])
def test_the_order_of_recorded_outputs_is_found(part: str, order: str) -> None:
    rng = np.random.default_rng(3)
    _, included = losses(1.0)
    labels = rng.integers(0, 5, N)
    logits = rng.normal(size=(1 + K, N, 5)) + (0.5 + 2 * included[..., None]) * np.eye(5)[labels]
    places = np.roll(np.arange(N), N - MEMBERS) if order.startswith("nonmembers") else np.arange(N)[::-1]
    sides = [(np.arange(N)[rows, None].astype(np.float32), labels[rows]) for rows in (slice(MEMBERS), slice(MEMBERS, N))]
    columns = {"included": included[1:], "logits": logits[1:]}
    if part != "columns of outputs":
        columns["included"] = columns["included"][:, places]
    if part != "columns of included":
        columns["logits"] = columns["logits"][:, places]
    with pytest.raises(DataError, match=rf"it fits where {part} are {order} \(\d+"):
        audit.check(lambda rows: logits[0][rows[:, 0].astype(int)], *sides, references=References(**columns), quiet=True)


def test_a_target_that_tells_its_members_only_beside_references_is_enough() -> None:
    refused = 0
    for seed in range(20):
        values, included = losses(0.4, seed)
        refuse_foreign_memberships(values, included)
        moved = np.concatenate([included[:1], wrong("nonmembers first", included[1:])])
        try:
            refuse_foreign_memberships(values, moved)
        except DataError as error:
            refused += "nonmembers first, then members" in str(error)
    assert refused >= 18  # of memberships in another order one in forty tells something by chance


@pytest.mark.slow
def test_the_path_of_users_refuses_them() -> None:
    values, included = losses(1.0)
    members, nonmembers = values[0][:MEMBERS], values[0][MEMBERS:]
    right = References(included=included[1:], losses=values[1:])
    audit.check(loss_of=lambda b: b, members=members, nonmembers=nonmembers, references=right, quiet=True)
    for name in ("inverted", "in another order"):
        references = References(included=wrong(name, included[1:]), losses=values[1:])
        with pytest.raises(DataError, match="references"):
            audit.check(loss_of=lambda b: b, members=members, nonmembers=nonmembers, references=references, quiet=True)


@pytest.mark.slow
def test_right_references_are_let_pass_whatever_they_learned() -> None:
    for seed in range(200):
        for effect in (0.0, 0.05, 0.3, 1.0):
            values, included = losses(effect, seed)
            refuse_foreign_memberships(values, included, (lambda order, values=values: values[1:, order]) if seed % 2 else None)


def test_evidence_of_memberships_that_tell_nothing_has_unit_spread() -> None:
    draws = [membership_evidence(*(part[1:] for part in losses(0.0, seed))) for seed in range(300)]
    assert abs(float(np.mean(np.array(draws, float)))) < 0.2
    assert 0.8 < float(np.std(np.array(draws, float))) < 1.2


def test_references_that_hold_none_of_the_records_are_let_pass() -> None:
    values, included = losses(1.0)
    included[1:] = False
    refuse_foreign_memberships(values, included)


@pytest.mark.parametrize("is_honest", [True, False])
def test_references_tell_nonmembers_that_were_trained_on(is_honest: bool) -> None:
    shares = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        included = rng.random((1 + K, 400)) < 0.5
        trained = included.copy()
        trained[0] |= not is_honest
        hardness = rng.normal(size=400)
        shares.append(
            limit_trained_share(np.exp(hardness - trained + 0.5 * rng.normal(size=trained.shape)), included, ~included[0])[0]
        )
    assert max(shares) < 0.5 if is_honest else np.median(shares) > 0.5


@pytest.mark.slow
def test_sides_that_are_alike_are_remarked_on() -> None:
    """Noisy labels, and a target that was trained on both sides: one model alone does not differ from one that generalises."""
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(N, 4)).astype(np.float32), rng.integers(0, 2, N)
    answers = np.where(rng.random(N) < 0.9, labels, 1 - labels)
    outputs = {row.tobytes(): np.eye(2)[answer] for row, answer in zip(inputs, answers, strict=True)}

    def model(batch: Any) -> Any:
        return np.stack([outputs[row.tobytes()] for row in batch])

    sides = [(inputs[part], labels[part]) for part in (slice(MEMBERS), slice(MEMBERS, N))]
    assert "alike within chance" in str(audit.check(model, *sides, quiet=True))
    answers[MEMBERS:] = np.where(rng.random(N - MEMBERS) < 0.6, labels[MEMBERS:], 1 - labels[MEMBERS:])
    outputs |= {row.tobytes(): np.eye(2)[answer] for row, answer in zip(inputs, answers, strict=True)}
    assert "alike within chance" not in str(audit.check(model, *sides, quiet=True))


def test_a_reference_that_lost_its_memberships_beside_others_that_know_theirs_is_asked_about() -> None:
    values, included = losses(1.0)
    assert refuse_foreign_memberships(values, included) == ""
    included[4] = np.random.default_rng(1).permutation(included[4])
    assert "reference 4 tells nothing of its own memberships" in refuse_foreign_memberships(values, included)


def test_another_order_that_fits_is_named_where_the_target_tells_nothing_either() -> None:
    values, included = losses(1.0)
    values[0] = np.random.default_rng(2).normal(size=N)
    with pytest.raises(DataError, match=r"the references' losses tell nothing .* in reverse order"):
        refuse_foreign_memberships(values, np.concatenate([included[:1], included[1:, ::-1]]))
    weak, memberships = losses(0.0)
    assert refuse_foreign_memberships(weak, memberships) == "", "no order fits"


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_members_that_the_target_was_not_trained_on_are_told_by_references(share: float) -> None:
    limits = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        included = rng.random((1 + K, 400)) < 0.5
        trained = included.copy()
        trained[0] &= rng.random(400) >= share
        values = np.exp(rng.normal(size=400) - 2 * trained + 0.5 * rng.normal(size=trained.shape))
        limits.append(limit_trained_share(values, included, included[0])[1])
    assert np.median(limits) < 0.9 if share else min(limits) >= 0.9


def test_references_with_a_missing_loss_are_refused_by_their_place() -> None:
    values, included = losses(1.0)
    values[3, 7] = np.nan
    with pytest.raises(DataError, match="NaN for model 3, column 8"):
        References(included=included[1:], losses=values[1:])
