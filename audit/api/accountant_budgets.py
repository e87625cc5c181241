"""Noise and steps that keep a mechanism within a budget, by each accountant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from audit.accounting.subjects import Names, caveat, named, usual
from audit.api.accountant_rows import NoiseRow, StepsRow
from audit.api.event_sources import AnyEvent, read_event
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_changes import grouped, has_noise, read_noise, repeated_step
from audit.core.events import Repeated, dp_sgd
from audit.core.tables import Table

if TYPE_CHECKING:
    from audit.core.events import Event

STEP_LIMIT = 10**7


def noise(
    *,
    target_epsilon: float,
    sample_rate: float | None = None,
    steps: int | None = None,
    event: AnyEvent | None = None,
    delta: float = 1e-5,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    group_size: int = 1,
    accountants: Names | None = None,
) -> Table[NoiseRow]:
    """The least noise that keeps DP-SGD of `steps` steps, or any event, within a budget, by each accountant.

    In place of `sample_rate` and `steps`, `event` has all its noise multipliers multiplied by one factor.

    Raises:
        ConfigError: a target, delta or rate that is none; no such accountant; an event without noise.
    """
    from audit.accounting.calibration import noise_factor

    checks.positive(target_epsilon, "target_epsilon")
    checks.open_probability(delta, "delta")
    unit_noise = grouped(_unit_noise(event, sample_rate, steps), group_size)
    if not has_noise(unit_noise):
        raise ConfigError(f"{unit_noise} has no noise multiplier that could be raised")
    relation = Adjacency.by_name(adjacency)
    rows = []
    for name, accountant in named(usual(unit_noise) if accountants is None else accountants):
        try:
            factor, calibrated_event = noise_factor(
                accountant, unit_noise, target_epsilon=target_epsilon, delta=delta, adjacency=relation
            )
            epsilon = float(accountant.claim(calibrated_event, delta=delta, adjacency=relation).epsilon)
            row = NoiseRow(
                accountant=name,
                noise_multiplier=read_noise(calibrated_event),
                epsilon=epsilon,
                note=caveat(accountant),
                factor=factor,
            )
        except (UnsupportedMechanism, ConfigError) as error:
            row = NoiseRow(accountant=name, noise_multiplier=None, epsilon=None, note=str(error))
        rows.append(row)
    return Table(rows)


def _unit_noise(event: AnyEvent | None, sample_rate: float | None, steps: int | None) -> Event:
    if event is not None and sample_rate is None and steps is None:
        return read_event(event)
    if event is not None or sample_rate is None or steps is None:
        raise ConfigError("noise is asked for an event, or for sample_rate and steps together")
    checks.probability(sample_rate, "sample_rate")
    return dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=sample_rate, steps=steps)


def steps(
    *,
    target_epsilon: float,
    noise_multiplier: float | None = None,
    sample_rate: float | None = None,
    event: AnyEvent | None = None,
    released: int = 0,
    delta: float = 1e-5,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    group_size: int = 1,
    accountants: Names | None = None,
) -> Table[StepsRow]:
    """Return how many steps of DP-SGD, or repetitions of an event, stay within a budget, and how many of them are left.

    In place of `noise_multiplier` and `sample_rate`, the step is the mechanism of an `event` that is a repetition, or all of
    it.

    Raises:
        ConfigError: a number that is none of its kind; no such accountant.
    """
    from audit.accounting.calibration import steps_within

    checks.positive(target_epsilon, "target_epsilon")
    checks.open_probability(delta, "delta")
    checks.nonnegative(released, "released")
    step = Repeated(mechanism=grouped(_step(event, noise_multiplier, sample_rate), group_size), count=1)
    relation = Adjacency.by_name(adjacency)
    rows = []
    for name, accountant in named(usual(step) if accountants is None else accountants):
        try:
            step_limit: int | None = steps_within(
                accountant, step, target_epsilon=target_epsilon, delta=delta, adjacency=relation, step_limit=STEP_LIMIT
            )
            note = caveat(accountant)
            if step_limit == STEP_LIMIT:
                note = f"{note}; more than {STEP_LIMIT:,} were not tried".removeprefix("; ")
        except UnsupportedMechanism as error:
            step_limit, note = None, str(error)
        remainder = None if step_limit is None else max(0, step_limit - released)
        rows.append(StepsRow(accountant=name, steps=step_limit, left=remainder, note=note, is_limit=step_limit == STEP_LIMIT))
    return Table(rows)


def _step(event: AnyEvent | None, noise_multiplier: float | None, sample_rate: float | None) -> Event:
    if event is not None and noise_multiplier is None and sample_rate is None:
        return repeated_step(read_event(event))
    if event is not None or noise_multiplier is None or sample_rate is None:
        raise ConfigError("steps are asked for an event, or for noise_multiplier and sample_rate together")
    if not 0 < sample_rate <= 1:
        raise ConfigError(
            f"sample_rate is {sample_rate}; expected a number above 0 and up to 1: without sampling no step costs anything"
        )
    return dp_sgd(noise_multiplier=noise_multiplier, clip_norm=1.0, sample_rate=sample_rate, steps=1).mechanism
