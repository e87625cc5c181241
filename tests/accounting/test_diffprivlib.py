"""diffprivlib's budget accountant: its sums, and the message if it cannot be imported."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

from audit.accounting import resolve
from audit.accounting.accountants import _as_it_is
from audit.accounting.accountants.reference import Reference
from audit.accounting.event_expressions import parse
from audit.core.adjacency import Adjacency
from audit.core.errors import UnsupportedMechanism

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def claim(text: str, delta: float = 1e-5, adjacency: Adjacency = ADD) -> float:
    return resolve.subject("diffprivlib_budget").claim(parse(text), delta=delta, adjacency=adjacency).epsilon


def is_importable() -> bool:
    try:
        importlib.import_module("diffprivlib.accountant")
    except ImportError:
        return False
    return True


@pytest.mark.skipif(not is_importable(), reason="diffprivlib does not import here (0.6.6 needs scikit-learn below 1.6)")
@pytest.mark.parametrize("text", ["50 * ApproximateDp(0.1, 0.0)", "20 * Laplace(10.0) + ApproximateDp(0.5, 1e-6)"])
def test_it_adds_up_safely(text: str) -> None:
    low, high = Reference().bracket(parse(text), delta=1e-5, adjacency=ADD)
    assert low <= claim(text) < 1.6 * high


def test_what_it_does_not_know_is_refused() -> None:
    for text in ("Gaussian(1.0)", "dp_sgd(1.0, 0.1, 10)", "200000 * ApproximateDp(0.001, 0.0)"):
        with pytest.raises(UnsupportedMechanism):
            claim(text)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ModuleNotFoundError("No module named 'diffprivlib'", name="diffprivlib"), "is not installed"),
        (ModuleNotFoundError("No module named 'sklearn'", name="sklearn"), "installed and cannot be imported"),
        (ImportError("cannot import name 'DOUBLE' from 'sklearn.tree._tree'"), "installed and cannot be imported.*DOUBLE"),
    ],
    ids=["missing", "without scikit-learn", "with a newer one"],
)
def test_a_broken_installation_is_not_called_a_missing_one(
    error: ImportError, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(name: str) -> ModuleType:
        raise error

    monkeypatch.setattr(_as_it_is.importlib, "import_module", fails)
    with pytest.raises(UnsupportedMechanism, match=sentence):
        _as_it_is.library("diffprivlib.accountant", "diffprivlib")
