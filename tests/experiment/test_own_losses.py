"""A user's own loss of a batch: any container, the same figures, and errors that name the function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

import audit
from audit.core.errors import ConfigError, DataError
from audit.core.results import Outcome
from audit.data.row_containers import read_rows
from audit.experiment.external.inspection import References

N = 60
RNG = np.random.default_rng(4)
X, FIT = RNG.normal(size=(2 * N, 3)), np.where(np.arange(2 * N) < N, 0.4, 1.0)
X[:, 2] = np.abs(RNG.normal(size=2 * N))
SIDES = slice(N), slice(N, None)


def loss_of(rows: Any) -> Any:
    """The last number of a record, smaller if the first one names a member."""
    return np.asarray(rows)[:, 2] * FIT[[int(np.flatnonzero(X[:, 0] == row[0])[0]) for row in np.asarray(rows)]]


class Squares(torch.utils.data.Dataset[Any]):
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return {"record": torch.as_tensor(self.rows[index])}


class HuggingFace:
    """Answers as `datasets.Dataset` does: a dictionary of columns for a list of places."""

    column_names = ("a", "b", "c")

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, places: Any) -> Any:
        return {name: self.rows[places][:, column].tolist() for column, name in enumerate(self.column_names)}


CONTAINERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "array": (lambda rows: rows, lambda batch: batch),
    "tensor": (torch.as_tensor, lambda batch: batch.numpy()),
    "tuple": (lambda rows: (rows[:, :2], torch.as_tensor(rows[:, 2])), lambda b: np.column_stack([b[0], b[1].numpy()])),
    "dictionary": (lambda rows: {"p": rows[:, :1], "q": rows[:, 1:]}, lambda b: np.column_stack([b["p"], b["q"]])),
    "frame": (lambda rows: pd.DataFrame(rows, columns=list("abc")).assign(word="x"), lambda b: b[list("abc")].to_numpy()),
    "objects": (lambda rows: [SimpleNamespace(row=row) for row in rows], lambda b: np.stack([item.row for item in b])),
    "data set": (Squares, lambda b: np.stack([item["record"].numpy() for item in b])),
    "loader": (
        lambda rows: torch.utils.data.DataLoader(Squares(rows), batch_size=7, shuffle=True),
        lambda b: b["record"].numpy(),
    ),
    "hugging face": (HuggingFace, lambda b: np.column_stack([b["a"], b["b"], b["c"]])),
}


def auc(result: Any) -> float:
    return float(next(row.auc for row in result.attacks if row.attack == "loss"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_gives_the_auc_of_an_own_computation(name: str) -> None:
    pack, unpack = CONTAINERS[name]
    members, nonmembers = (pack(X[side]) for side in SIDES)
    result = audit.check(loss_of=lambda b: loss_of(unpack(b)), members=members, nonmembers=nonmembers, quiet=True)
    inside, outside = (loss_of(X[side]) for side in SIDES)
    assert auc(result) == pytest.approx((inside[:, None] < outside).mean(), abs=5e-4)


def test_negative_and_tiny_losses_keep_their_order() -> None:
    inside, outside = (loss_of(X[side]) for side in SIDES)
    for change in (lambda loss: loss - 3, lambda loss: loss * 1e-20, lambda loss: loss * 1e6 - 7e5):
        result = audit.check(loss_of=lambda b, f=change: f(loss_of(b)), members=X[:N], nonmembers=X[N:], quiet=True)
        assert auc(result) == pytest.approx((inside[:, None] < outside).mean(), abs=5e-4)
        assert any("softplus" in note for note in result.report.notes)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda b: loss_of(b).mean(), r"loss_of .*was given ndarray float64\(60, 3\), 60 of the members.*reduction='none'"),
        (lambda b: np.zeros((len(b), 4, 4)), r"shape \(60, 4, 4\); expected \(60,\): one number a record"),
        (lambda b: loss_of(b)[:5], r"shape \(5,\); expected \(60,\)"),
        (lambda b: np.full(len(b), np.nan), "60 losses that are NaN or infinite, the first for record 1"),
        (lambda b: b["x"], r"raised IndexError: .*expected 60 losses, fn\(batch\) -> \(n,\)"),
        (lambda b: None, r"gave nothing \(None\); .*is its return missing"),
        (lambda b: {"loss": loss_of(b)}, r"gave a dict; expected 60 numbers, \(60,\)"),
        (torch.nn.Linear(3, 2), "loss_of is a module .*reduction='none'"),
        (3, "loss_of is 3; expected a Callable"),
    ],
)
def test_what_is_no_loss_of_each_record_is_refused_by_name(function: Any, message: str) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        audit.check(loss_of=function, members=X[:N], nonmembers=X[N:], quiet=True)


def test_losses_that_depend_on_the_batch_are_remarked_on() -> None:
    result = audit.check(loss_of=lambda b: loss_of(b) + len(b), members=X[:N], nonmembers=X[N:], quiet=True)
    assert any("in another batch" in note for note in result.report.notes)


@pytest.mark.slow
def test_references_by_functions_are_references_by_their_losses() -> None:
    included = RNG.random((4, 2 * N)) < 0.5
    place = {row[0]: number for number, row in enumerate(X)}

    def reference(coins: Any) -> Callable[[Any], Any]:
        return lambda b: b[:, 2] * np.where(coins[[place[row[0]] for row in b]], 0.4, 1.0)

    functions = [reference(coins) for coins in included]
    losses = np.stack([function(X) for function in functions])
    both = [References(included=included, losses=losses), References(included=included, loss_of=functions)]
    first, second = (
        audit.check(loss_of=loss_of, members=X[:N], nonmembers=X[N:], references=references, quiet=True) for references in both
    )
    assert first.report.mechanisms[0].games[0].attacks == second.report.mechanisms[0].games[0].attacks
    lira = next(row.auc for row in first.attacks if row.attack == "lira_online" or row.attack.startswith("lira"))
    assert lira is not None and lira > 0.9


@pytest.mark.slow
def test_references_follow_the_order_of_the_coins() -> None:
    coins = RNG.random(2 * N) < 0.5
    order = np.concatenate([np.flatnonzero(coins), np.flatnonzero(~coins)])
    hardness = X[:, 2] + 0.1
    included = RNG.random((4, 2 * N)) < 0.5
    losses = hardness * np.where(included, 0.4, 1.0)  # columns in the order of the coins

    def give(rows: Any, values: Any) -> dict[str, Any]:
        return {"x": hardness[rows] * values, "index": rows}

    indexed = audit.check(
        loss_of=lambda b: b["x"],
        members=give(np.flatnonzero(coins), 0.4),
        nonmembers=give(np.flatnonzero(~coins), 1.0),
        references=References(included=included, losses=losses),
        quiet=True,
    )
    plain = audit.check(
        loss_of=lambda b: b,
        members=hardness[coins] * 0.4,
        nonmembers=hardness[~coins],
        references=References(included=included[:, order], losses=losses[:, order]),
        quiet=True,
    )
    assert indexed.report.mechanisms[0].games[0].attacks == plain.report.mechanisms[0].games[0].attacks


def test_a_record_on_both_sides_is_refused_or_dropped() -> None:
    nonmembers = np.concatenate([X[N:], X[:2]])
    with pytest.raises(DataError, match=r"2 nonmembers are equal to members \(nonmember 60 is member 0\)"):
        audit.check(loss_of=loss_of, members=X[:N], nonmembers=nonmembers, quiet=True)
    result = audit.check(loss_of=loss_of, members=X[:N], nonmembers=nonmembers, overlap="drop", quiet=True)
    assert auc(result) == auc(audit.check(loss_of=loss_of, members=X[:N], nonmembers=X[N:], quiet=True))


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ((row for row in X), r"given as generator.*expected an array .*members=list\(members\)"),
        ((X, X[:3]), "120 in part 1, 3 in part 2"),
        ({"x": X, "model": 3}, "'model' is a int; expected n rows"),
        ([], "no record"),
    ],
)
def test_what_has_no_places_is_refused_with_the_line_to_write(side: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_rows(side, "members")


def test_models_in_the_place_of_references_get_the_line_to_write() -> None:
    for references in ([loss_of], loss_of):
        with pytest.raises(ConfigError, match=r"audit\.References\(included=included, models="):
            audit.check(loss_of=loss_of, members=X[:N], nonmembers=X[N:], references=references, quiet=True)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="losses"):
        models = References(included=np.ones((1, 2 * N), bool), models=[torch.nn.Linear(3, 2)])
        audit.check(loss_of=loss_of, members=X[:N], nonmembers=X[N:], references=models, quiet=True)


def test_losses_that_are_larger_for_members_make_the_audit_invalid() -> None:
    losses = np.abs(np.random.default_rng(4).normal(size=4 * N)) + np.where(np.arange(4 * N) < 2 * N, 1.2, 0.0)
    result = audit.check(loss_of=lambda b: b, members=losses[: 2 * N], nonmembers=losses[2 * N :], claim_epsilon=1, quiet=True)
    assert result.report.outcome is Outcome.INVALID
    assert "members do worse than nonmembers" in str(result) and "members and nonmembers swapped: AUC 0.9" in str(result)


def test_files_and_sparse_matrices_give_the_auc_of_an_own_computation(tmp_path: Path) -> None:
    for name, side in zip(("a.npz", "b.npz"), SIDES, strict=True):
        np.savez(tmp_path / name, rows=X[side], length=np.ones(N))
    inside, outside = (loss_of(X[side]) for side in SIDES)
    files = audit.check(
        loss_of=lambda b: loss_of(b["rows"]), members=tmp_path / "a.npz", nonmembers=tmp_path / "b.npz", quiet=True
    )
    sparse = [scipy.sparse.csr_matrix(X[side]) for side in SIDES]
    matrices = audit.check(loss_of=lambda b: loss_of(b.toarray()), members=sparse[0], nonmembers=sparse[1], quiet=True)
    for result in (files, matrices):
        assert auc(result) == pytest.approx((inside[:, None] < outside).mean(), abs=5e-4)
