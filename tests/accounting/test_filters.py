"""Privacy filters: figures by hand, refused charges, and a ledger that stops an adaptive choice in time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
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
    item = claim("concentrated_filter", "Concentrated(0.125)", 9e-6)
    assert claim("concentrated_filter", "ApproximateDp(0.3, 1e-6) + Concentrated(0.08)", 1e-5) == pytest.approx(item, rel=1e-6)
    assert math.isinf(claim("concentrated_filter", "20 * ApproximateDp(0.1, 1e-6)", 1e-5))
    assert claim("concentrated_filter", "50 * Gaussian(10.0)") <= 0.5 * 50 / 100 + 2 * math.sqrt(0.25 * math.log(1e5))


def test_batches_that_are_cut_are_refused() -> None:
    """A record that pushes another one out of the batch moves the sum by two clip norms, which no divergence here counts."""
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


# ---- the odometer -----------------------------------------------------------------------------------------------------


def test_the_odometer_is_added_up_by_hand() -> None:
    mixed = "20 * Gaussian(8.0) + Concentrated(0.01) + Gaussian(10.0)"
    slope = 20 / 128 + 0.01 + 1 / 200
    for delta in (1e-5, 1e-9):
        want = min(order * slope + math.log(8 / delta) / (order - 1) for order in (2, 4, 6, 8, 12, 16, 32, 64))
        assert claim("renyi_odometer", mixed, delta) == pytest.approx(want)
    assert claim("renyi_odometer", "0 * Gaussian(1.0)") == 0.0
    assert math.isinf(claim("renyi_odometer", "Gaussian(0.0)"))


@pytest.mark.parametrize("text", ["dp_sgd(1.0, 0.01, 1000)", "30 * Laplace(8.0)", "9 * ApproximateDp(0.2, 0.0)"])
def test_the_odometer_costs_more_than_any_filter_of_its_orders(text: str) -> None:
    low, _ = Reference().bracket(parse(text), delta=1e-5, adjacency=ADD)
    filters = [claim(f"renyi_filter,order={order}", text) for order in (2, 4, 6, 8, 12, 16, 32, 64)]
    assert low <= min(filters) <= claim("renyi_odometer", text) < 8 * low


def test_the_odometer_holds_at_every_moment_of_an_adaptive_run() -> None:
    """Whoever stops when the loss is worst: noise is chosen by the loss so far; the figure is exceeded at most so often."""
    generator, delta, runs = np.random.default_rng(7), 0.05, 4000
    losses, spent, exceeded = np.zeros(runs), np.zeros(runs), np.zeros(runs, dtype=bool)
    orders = np.array([2, 4, 6, 8, 12, 16, 32, 64])
    for _ in range(60):
        mu = np.where(losses > np.sqrt(spent), 0.4, 0.15)  # press on while it goes well
        losses += mu * generator.normal(size=runs) + mu**2 / 2
        spent += mu**2 / 2
        figures = (orders * spent[:, None] + math.log(len(orders) / delta) / (orders - 1)).min(axis=1)
        exceeded |= losses > figures
    assert exceeded.mean() <= delta
    item = claim("renyi_odometer", "Gaussian(4.0)", delta)
    assert item == pytest.approx(float((orders / 32 + math.log(8 / delta) / (orders - 1)).min()))


def test_odometers_need_orders_above_one() -> None:
    with pytest.raises(ConfigError, match="above 1"):
        resolve.subject("renyi_odometer,orders=0.5")
