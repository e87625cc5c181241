"""`audit accountant`: the calculator people need daily, and the battery that judges accountants."""

from __future__ import annotations

from typing import Annotated

import typer

from audit.cli import accountant_budgets, accountant_check, accountant_costs, accountant_fuzz
from audit.cli import accountant_options as shared
from audit.cli.printing import AsJson, print_json, print_plain


# `audit accountant possible`: whether a published epsilon can be true of the training that is published with it.
def possible(
    sigma: Annotated[float, typer.Option(help="Noise multiplier of DP-SGD: standard deviation over clip norm.")],
    rate: Annotated[float, typer.Option(help="Probability that a record takes part in a step: batch size over data size.")],
    steps: Annotated[int, typer.Option(help="Number of noisy steps.")],
    epsilon: Annotated[float, typer.Option(help="The published epsilon.")],
    delta: shared.Delta = 1e-5,
    adjacency: shared.Relation = "add_remove",
    as_json: AsJson = False,
) -> int:
    """Test whether a training with Poisson batches can have the epsilon that is published for it.

    Exit code 0: possible, the true epsilon is at most that. 1: impossible, it is proven to be larger. 3: undecided.
    """
    from audit.accounting import published

    training = published.PublishedTraining(
        sigma=sigma, rate=rate, steps=steps, delta=delta, epsilon=epsilon, adjacency=adjacency
    )
    answer = published.decide(training)
    if as_json:
        print_json({"exit_code": answer.exit_code, "answer": answer.word, "truth": [answer.lower, answer.upper],
                    "published": epsilon, "margin": answer.margin, "delta": delta, "adjacency": adjacency})  # fmt: skip
    else:
        print_plain(f"{answer.word}: {answer.sentence}")
    return answer.exit_code


app = typer.Typer(help="Compute epsilon, delta, noise or steps by several accountants side by side, or test an accountant.")
for command in (
    accountant_costs.epsilon,
    accountant_costs.delta,
    accountant_budgets.noise,
    accountant_budgets.steps,
    possible,
    accountant_check.check,
    accountant_fuzz.fuzz,
):
    app.command()(command)
