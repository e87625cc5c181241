"""`audit accountant`: the calculator people need daily, of which `noise` and `steps` keep a budget, and the battery."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from audit.cli import accountant_check, accountant_costs, own_code
from audit.cli import accountant_options as shared
from audit.cli.printing import AsJson, print_json, print_result, print_table
from audit.core import checks
from audit.core.errors import ConfigError

Target = Annotated[float, typer.Option("--target-epsilon", "--epsilon", help="Epsilon that the mechanism may cost at most.")]


def noise(
    target_epsilon: Target,
    event: shared.EventText = None,
    rate: shared.Rate = None,
    steps: shared.Steps = None,
    mechanism: shared.Training = "",
    delta: shared.Delta = 1e-5,
    adjacency: shared.Relation = "add_remove",
    group_size: shared.Group = 1,
    accountant: shared.Names = None,
    as_json: AsJson = False,
) -> int:
    """Compute the smallest noise that keeps a mechanism within a budget, by each accountant.

    All noise multipliers of an EVENT are multiplied by one factor.
    """
    from audit.api import accountant as library

    budget = _budget(target_epsilon, delta, adjacency, group_size, accountant)
    if event is None and rate is not None:
        checks.probability(rate, "--rate")
    numbers = {"--rate": rate, "--steps": steps}
    question_event = shared.parse_event(event, numbers, constants={"--noise": 1.0}, training=mechanism)
    rows = library.noise(event=question_event, **budget)
    if as_json:
        settings = {"target_epsilon": target_epsilon, "delta": delta, "adjacency": adjacency}
        print_json({**settings, "noise": [asdict(row) for row in rows]})
        return 0
    title = f"{question_event}: noise for epsilon {target_epsilon:g} at delta {delta:g} under {adjacency} (rounded up)"
    cells = [
        (row.accountant, shared.bound(row.noise_multiplier), shared.bound(row.factor), shared.bound(row.epsilon), row.note)
        for row in rows
    ]
    print_table(title, ("accountant", "noise multiplier", "factor", "epsilon", "note"), cells)
    return 0


def steps(
    target_epsilon: Target,
    event: shared.EventText = None,
    noise: shared.Noise = None,
    rate: shared.Rate = None,
    mechanism: shared.Training = "",
    delta: shared.Delta = 1e-5,
    prior_steps: Annotated[int, typer.Option("--done", help="Number of steps that were already released.")] = 0,
    adjacency: shared.Relation = "add_remove",
    group_size: shared.Group = 1,
    accountant: shared.Names = None,
    as_json: AsJson = False,
) -> int:
    """Compute how many steps, or repetitions of an EVENT, a budget still allows, by each accountant."""
    from audit.api import accountant as library

    budget = _budget(target_epsilon, delta, adjacency, group_size, accountant)
    checks.nonnegative(prior_steps, "--done")
    if event is None and rate is not None and not 0 < rate <= 1:
        raise ConfigError(f"--rate is {rate}; expected a number above 0 and up to 1: without sampling no step costs anything")
    numbers = {"--noise": noise, "--rate": rate}
    question_event = shared.parse_event(event, numbers, constants={"--steps": 1}, training=mechanism)
    rows = library.steps(event=question_event, released=prior_steps, **budget)
    if as_json:
        settings = {"target_epsilon": target_epsilon, "delta": delta, "done": prior_steps}
        print_json({**settings, "steps": [asdict(row) for row in rows]})
        return 0
    title = f"steps within epsilon {target_epsilon:g} at delta {delta:g} under {adjacency}, {prior_steps} done"
    cells = []
    for row in rows:
        prefix = "at least " if row.is_limit else ""
        cells.append((row.accountant, f"{prefix}{row.steps}", f"{prefix}{row.left}", row.note))
    print_table(title, ("accountant", "steps in all", "steps left", "note"), cells)
    return 0


def _budget(
    target_epsilon: float, delta: float, adjacency: str, group_size: int, accountants: list[str] | None
) -> dict[str, Any]:
    """The arguments that `noise` and `steps` share, checked."""
    checks.positive(target_epsilon, "--target-epsilon")
    checks.open_probability(delta, "--delta")
    own_code.add_working_folder(accountants or ())
    return {
        "target_epsilon": target_epsilon,
        "delta": delta,
        "adjacency": shared.find_relation(adjacency),
        "group_size": group_size,
        "accountants": accountants or None,
    }


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
    values = {"exit_code": answer.exit_code, "answer": answer.word, "truth": [answer.lower, answer.upper]}
    values |= {"published": epsilon, "margin": answer.margin, "delta": delta, "adjacency": adjacency}
    print_result(as_json, values, f"{answer.word}: {answer.sentence}")
    return answer.exit_code


app = typer.Typer(help="Compute epsilon, delta, noise or steps by several accountants side by side, or test an accountant.")


for command in (accountant_costs.epsilon, accountant_costs.delta, noise, steps, possible):
    app.command()(command)
for battery in (accountant_check.check, accountant_check.fuzz):
    app.command()(battery)
