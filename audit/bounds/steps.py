"""Single noisy steps as trials: how much noise one step had at most, composed over all steps of DP-SGD.

Two kinds of scores are distinguished, since they need different tests. Products with a fixed direction, the ordinary gradients
taken off, are independent and identically distributed given who took part: a rank test holds. Any other score of a step
depends on the state of its run, and so on all earlier steps: only bets on the sampler's coins hold (docs/theory/anytime.md,
"Single steps").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from audit.bounds.estimators.fdp_rank import FdpRank
from audit.bounds.estimators.sequential import Sequential
from audit.core import checks
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import NoNoiseFits, StepBound
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError, ExecutionMismatch, UnsupportedMechanism
from audit.core.event_reading import NoisySteps, noisy_steps
from audit.core.events import Event, dp_sgd
from audit.core.game import Game, Inclusion
from audit.core.lower_bounds import CommonTerms, LowerBound
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.event_curves import find_curves
from audit.stats.bounds import binomial

FALSE_ALARM = 1e-6  # of the test of participations against the claimed rate
FAR = 1e300  # a score beyond every threshold
SAMPLER_TRUSTED = "that canaries are sampled as claimed; their number was tested, their independence was not"
NO_STEPS = "that canaries are sampled as claimed; no participation was seen"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepProducts:
    """`(noisy sum - ordinary clipped gradients) . direction` for each step of each canary, the direction fixed beforehand.

    Nothing else may be given here: losses, or products without the ordinary gradients taken off, depend on the state of the run
    (`StepScores`).

    Attributes:
        values: `(N,)` finite, over the clip norm or on any other common scale.
        held: `(N,)` bool, whether the run of the step held the canary.
        took_part: `(N,)` bool, whether it was in the batch of that step, if the auditor saw the sampler's coins; None else.

    Raises:
        DataError: shapes differ, a value is not finite, or a canary took part in a run that did not hold it.
    """

    values: Array
    held: Array
    took_part: Array | None = None

    def __post_init__(self) -> None:
        _set(self, values=_numbers(self.values), held=_coins(self.held, "held", len(self.values)))
        if self.took_part is not None:
            _set(self, took_part=_coins(self.took_part, "took_part", len(self.values)))
            strangers = int(np.sum(self.took_part & ~self.held))
            if strangers:
                raise DataError(f"took_part is true in {strangers} steps of runs that did not hold the canary; expected none")

    def trials(self, mechanism: NoisySteps) -> tuple[Array, Event]:
        """Return which steps count as members `(N,)`, and the mechanism that a step is a trial of."""
        if self.took_part is None:
            return self.held, _one_step(mechanism, mechanism.sample_rate)
        # steps of runs without the canary tossed no coin for it
        demand_rate(int(self.took_part.sum()), int(self.held.sum()), mechanism.sample_rate)
        return self.took_part, _one_step(mechanism, 1.0)  # given the coins a step is a plain Gaussian, which shows more

    def bound(self, values: Array, mechanism: NoisySteps, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The bound on one step's noise, with these values at the same coins."""
        members, step = self.trials(mechanism)
        # the 0.5 is not used: rank tests condition on the two sizes
        scores = Scores(values=values, included=members, game=_game(len(values), 0.5), mechanism=step)
        return FdpRank().lower_bound(scores, delta=delta, confidence=confidence, seed=seed)

    def describe(self) -> str:
        """The game in words."""
        split = "steps of runs with the canary" if self.took_part is None else "steps that the canary took part in"
        return f"{split} against all others, by products with its fixed direction, other records' gradients taken off"

    @property
    def trust(self) -> str:
        """Return what is taken from the sampler."""
        return NO_STEPS if self.took_part is None else SAMPLER_TRUSTED


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepScores:
    """Any scores of single steps of runs that held the canary, in the order of training, with the sampler's coins.

    The score of a step may depend on all that was released up to and with that step and on who took part in earlier steps; it
    must not use the step's own coin. Runs follow one another; one canary a run.

    Attributes:
        values: `(N,)` finite.
        took_part: `(N,)` bool.

    Raises:
        DataError: shapes differ, or a value is not finite.
    """

    values: Array
    took_part: Array

    def __post_init__(self) -> None:
        _set(self, values=_numbers(self.values), took_part=_coins(self.took_part, "took_part", len(self.values)))

    def bound(self, values: Array, mechanism: NoisySteps, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """Return the bound on one step's noise from bets on the coins, with these values at the same coins; draws nothing.

        Raises:
            ConfigError: the sample rate is 1, so that no coin decides.
            ExecutionMismatch: the participations do not fit the sample rate.
        """
        rate = mechanism.sample_rate
        if rate >= 1:
            raise ConfigError("sample_rate is 1, so no coin decides who takes part in a step; give StepProducts of two runs")
        demand_rate(int(self.took_part.sum()), len(values), rate)
        step = _one_step(mechanism, 1.0)
        scores = Scores(values=values, included=self.took_part, game=_game(len(values), rate), mechanism=step)
        return Sequential(family="dp_sgd").watch([scores], (), delta=delta, confidence=confidence, attacks=1)[0]

    def describe(self) -> str:
        """The game in words."""
        return "bets on the sampler's coin of each step, by scores that may depend on all earlier steps"

    @property
    def trust(self) -> str:
        """Return what is taken from the sampler."""
        return SAMPLER_TRUSTED


def bound(
    steps: StepProducts | StepScores, event: Event, *, delta: float, confidence: float, seed: Seed
) -> StepBound | NoNoiseFits:
    """The noise of one step, composed over all steps of `event`; arguments as `audit.step_bound`.

    Raises:
        UnsupportedMechanism: not DP-SGD.
        DataError: one side is empty.
        ConfigError, ExecutionMismatch: as the steps' own `bound`.
    """
    mechanism, curves = noisy_steps(event), find_curves(event)
    if mechanism is None or curves is None:
        raise UnsupportedMechanism(f"step_bound knows the steps of DP-SGD, got {event}; build the mechanism by dp_sgd(...)")
    members = steps.took_part if steps.took_part is not None else steps.held if isinstance(steps, StepProducts) else None
    checks.both_sides(np.asarray(members), "step_bound")

    noise_bound = steps.bound(steps.values, mechanism, delta=delta, confidence=confidence, seed=seed)
    terms: dict[str, Any] = {field.name: getattr(noise_bound, field.name) for field in fields(CommonTerms)}
    terms |= {
        "family": curves.family,
        "game": f"{len(steps.values)} single steps, each a trial: {steps.describe()}; the adversary sees every noisy step",
        "trust": steps.trust,
        "trials": len(steps.values),
        "participations": None if steps.took_part is None else int(steps.took_part.sum()),
    }
    if math.isinf(noise_bound.epsilon):
        return NoNoiseFits(**terms | {"parameter": None})
    perfect = steps.bound(np.where(members, FAR, -FAR), mechanism, delta=delta, confidence=confidence, seed=seed)
    noise = _noise(noise_bound)
    epsilon = curves.epsilon(noise, delta)
    terms |= {
        "parameter": curves.parameter(1 / noise),
        "selected": f"{noise_bound.selected or 'nothing'}; composed over {mechanism.steps} steps",
    }
    ceiling = math.inf if math.isinf(perfect.epsilon) else max(epsilon, curves.epsilon(_noise(perfect), delta))
    return StepBound(epsilon=epsilon, ceiling=ceiling, **terms)


def _one_step(mechanism: NoisySteps, rate: float) -> Event:
    return dp_sgd(noise_multiplier=mechanism.noise_multiplier, clip_norm=mechanism.clip_norm, sample_rate=rate, steps=1)


def _noise(step: LowerBound) -> float:
    """The largest noise multiplier of one step that is not refuted; a step without sampling is bounded by its mu."""
    parameter = step.parameter
    if parameter is None:
        return math.inf
    if step.family == "gdp":
        return 1 / parameter if parameter > 0 else math.inf
    return parameter


def demand_rate(participations: int, steps: int, rate: float) -> None:
    """Raise `ExecutionMismatch` if so many participations would be rarer than one in a million at the claimed rate."""
    if binomial.two_sided(participations, steps, rate) < FALSE_ALARM:
        raise ExecutionMismatch(
            f"canaries took part in {participations} of {steps} steps, where the claimed sample rate {rate:g} means about "
            f"{rate * steps:.0f}: the sampling is not the claimed one, so nothing can be composed at that rate"
        )


def _game(trials: int, chance: float) -> Game:
    return Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.ALL_STEPS,
        inclusion=Inclusion.COINS,
        canaries=1,
        runs=trials,
        inclusion_probability=chance,
    )


def _numbers(values: Array) -> Array:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError("values hold something else than numbers; expected one finite number for each step") from error
    if numbers.ndim != 1 or not len(numbers) or not np.isfinite(numbers).all():
        raise DataError(f"values have shape {numbers.shape} or are not finite; expected one finite number for each step")
    return numbers


def _coins(coins: Array, name: str, count: int) -> Array:
    coin_array = np.asarray(coins)
    if coin_array.shape != (count,) or coin_array.dtype != np.bool_:
        raise DataError(f"{name} has shape {coin_array.shape} and type {coin_array.dtype}; expected ({count},) and bool")
    return coin_array


def _set(target: object, **fields: Array) -> None:
    for name, value in fields.items():
        object.__setattr__(target, name, value)
