"""Privacy filters: figures by hand, what they refuse, and a ledger that stops an adaptive choice in time."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from audit.accounting import ledger_database, resolve
from audit.accounting.accountants.reference import Reference
from audit.accounting.event_expressions import parse
from audit.accounting.ledger import BudgetExceeded, Ledger, Release
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import Gaussian

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def claim(name: str, text: str, delta: float = 1e-5, adjacency: Adjacency = ADD) -> float:
    return resolve.subject(name).claim(parse(text), delta=delta, adjacency=adjacency).epsilon


def by_hand(order: float, divergence: float, delta: float) -> float:
    """Canonne, Kamath, Steinke 2020, Proposition 12."""
    return divergence + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)


@pytest.mark.parametrize("order", [2.0, 8.0, 33.3])
def test_one_order_adds_up_by_hand(order: float) -> None:
    mixed = "20 * Gaussian(8.0) + Concentrated(0.01) + Gaussian(10.0)"
    divergence = order * (20 / (2 * 64) + 0.01 + 1 / 200)
    assert claim(f"renyi_filter,order={order}", mixed) == pytest.approx(by_hand(order, divergence, 1e-5))
    assert claim(f"renyi_filter,order={order}", "10 * Gaussian(8.0)", adjacency=REPLACE) == pytest.approx(
        by_hand(order, order * 10 * 4 / 128, 1e-5)
    )


@pytest.mark.parametrize(
    "text",
    [
        "dp_sgd(1.0, 0.01, 1000)",
        "30 * Laplace(8.0)",
        "9 * ApproximateDp(0.2, 0.0)",
        "4 * MatrixFactorization(5.0, [1, 0.5], 9)",
    ],
)
def test_no_filter_lies_below_the_bracket(text: str) -> None:
    low, _ = Reference().bracket(parse(text), delta=1e-5, adjacency=ADD)
    for name in ("renyi_filter,order=8", "renyi_filter,order=4", "concentrated_filter"):
        if "dp_sgd" in text and name == "concentrated_filter":
            with pytest.raises(UnsupportedMechanism, match="renyi_filter"):
                claim(name, text)
            continue
        assert low <= claim(name, text) < 8 * low


def test_concentrated_parameters_and_deltas_are_added_apart() -> None:
    one = claim("concentrated_filter", "Concentrated(0.125)", 9e-6)
    assert claim("concentrated_filter", "ApproximateDp(0.3, 1e-6) + Concentrated(0.08)", 1e-5) == pytest.approx(one, rel=1e-6)
    assert math.isinf(claim("concentrated_filter", "20 * ApproximateDp(0.1, 1e-6)", 1e-5))
    assert claim("concentrated_filter", "50 * Gaussian(10.0)") <= 0.5 * 50 / 100 + 2 * math.sqrt(0.25 * math.log(1e5))


def test_batches_that_are_cut_are_refused() -> None:
    """With a limit of one of two records the one record pushes the other out: two clip norms, which no divergence here counts."""
    for name in ("renyi_filter,order=8", "concentrated_filter"):
        with pytest.raises(UnsupportedMechanism, match="cut"):
            claim(name, "TruncatedPoisson(0.1, 0.9, 1, 2, 1)")
        assert claim(name, "TruncatedPoisson(2.0, 1.0, 1, 2, 2)") == claim(name, "Gaussian(2.0)")


def test_orders_that_mean_nothing_are_refused() -> None:
    for order in ("1.0", "0.5", "NaN"):
        with pytest.raises(ConfigError):
            resolve.subject(f"renyi_filter,order={order}")


@pytest.mark.parametrize("name", ["renyi_filter,order=8", "concentrated_filter"])
def test_a_ledger_with_a_filter_stops_a_release_that_is_chosen_to_use_up_the_rest(tmp_path: Path, name: str) -> None:
    file = tmp_path / "filter.ledger"
    ledger_database.create(file, Ledger(budget_epsilon=3.0, delta=1e-5, adjacency=ADD, accountant=name))
    noise, refusals = 4.0, 0
    for turn in range(12):  # each noise depends on what was accepted before
        try:
            ledger_database.record(file, Release(name=str(turn), event=Gaussian(noise_multiplier=noise)))
            noise *= 0.9
        except BudgetExceeded:
            refusals += 1
            noise *= 2
    book = ledger_database.load(file)
    assert refusals and 2.5 < (book.releases[-1].spent or 0.0) <= 3.0 and book.accountant == name
