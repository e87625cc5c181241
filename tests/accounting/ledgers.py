"""Ledgers, releases and attempts that several tests of ledgers make."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from audit.accounting import ledger_database
from audit.accounting.ledger import BudgetExceeded, Ledger, Release
from audit.core.adjacency import Adjacency
from audit.core.events import ApproximateDp


def empty(budget: float = 1000.0) -> Ledger:
    return Ledger(budget_epsilon=budget, delta=1e-5, adjacency=Adjacency.ADD_REMOVE, accountant="composition_theorems")


def answer(name: str, epsilon: float = 0.01) -> Release:
    return Release(name=name, event=ApproximateDp(epsilon=epsilon), when="2026-01-01", note="of ages")


def accepted_at_once(place: str | Path, attempts: int) -> int:
    """How many of so many releases of 0.4, recorded at the same time, a ledger takes."""

    def fits(number: int) -> bool:
        try:
            ledger_database.record(place, answer(str(number), 0.4))
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(attempts) as pool:
        return sum(pool.map(fits, range(attempts)))
