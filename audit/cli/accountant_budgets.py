"""`audit accountant noise | steps`: what keeps a mechanism within a budget, by several accountants."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from audit.cli import accountant_options as shared
from audit.cli import own_code
from audit.cli.printing import AsJson, print_json, print_table
from audit.core import checks
from audit.core.errors import ConfigError

Target = Annotated[float, typer.Option(help="Epsilon that the mechanism may cost at most.")]


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

    checks.positive(target_epsilon, "--target-epsilon")
    checks.open_probability(delta, "--delta")
    own_code.add_working_folder(accountant or ())
    if event is None and rate is not None:
        checks.probability(rate, "--rate")
    unit_noise = None if event is None and rate is None and steps is None else 1.0
    question_event = shared.event_of(event, training=mechanism, noise=None if event else unit_noise, rate=rate, steps=steps)
    rows = library.noise(
        event=question_event,
        target_epsilon=target_epsilon,
        delta=delta,
        adjacency=shared.relation_of(adjacency),
        group_size=group_size,
        accountants=accountant or None,
    )
    if as_json:
        table = [asdict(row) for row in rows]
        print_json({"target_epsilon": target_epsilon, "delta": delta, "adjacency": adjacency, "noise": table})
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

    checks.positive(target_epsilon, "--target-epsilon")
    checks.open_probability(delta, "--delta")
    checks.nonnegative(prior_steps, "--done")
    if event is None and rate is not None and not 0 < rate <= 1:
        raise ConfigError(f"--rate is {rate}; expected a number above 0 and up to 1: without sampling no step costs anything")
    own_code.add_working_folder(accountant or ())
    question_event = shared.event_of(
        event, training=mechanism, noise=noise, rate=rate, steps=None if event or (noise is None and rate is None) else 1
    )
    rows = library.steps(
        event=question_event,
        target_epsilon=target_epsilon,
        released=prior_steps,
        delta=delta,
        adjacency=shared.relation_of(adjacency),
        group_size=group_size,
        accountants=accountant or None,
    )
    if as_json:
        table = [asdict(row) for row in rows]
        print_json({"target_epsilon": target_epsilon, "delta": delta, "done": prior_steps, "steps": table})
        return 0
    title = f"steps within epsilon {target_epsilon:g} at delta {delta:g} under {adjacency}, {prior_steps} done"
    cells = [(row.accountant, str(row.steps), str(row.left), row.note) for row in rows]
    print_table(title, ("accountant", "steps in all", "steps left", "note"), cells)
    return 0
