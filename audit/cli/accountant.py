"""`audit accountant`: the calculator people need daily, and the battery that judges accountants."""

from __future__ import annotations

import typer

from audit.cli import accountant_budgets, accountant_check, accountant_costs, accountant_fuzz, accountant_possible

app = typer.Typer(help="Compute epsilon, delta, noise or steps by several accountants side by side, or test an accountant.")
for command in (
    accountant_costs.epsilon,
    accountant_costs.delta,
    accountant_budgets.noise,
    accountant_budgets.steps,
    accountant_possible.possible,
    accountant_check.check,
    accountant_fuzz.fuzz,
    accountant_check.page,
    accountant_check.refresh,
):
    app.command()(command)
