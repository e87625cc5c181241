"""Assertions for the test suite of a library that claims differential privacy."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from audit.core import checks
from audit.core.errors import ConfigError

if TYPE_CHECKING:
    from audit.api.training import TrainingReport
    from audit.mechanism_checks.report import MechanismReport

FALSE_ALARM = 1e-3
"""How often a function that keeps its claim fails an assertion, at most."""
SHARE = 0.7  # of the budget that the audit itself may take
MOST_OUTPUTS, MOST_RUNS = 2_000_000, 200
PILOT, PILOT_SHARE = 5_000, 0.1  # outputs of the audit that is timed, and its share of the budget
UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def assert_private(
    function: Callable[..., Any],
    *,
    epsilon: float,
    delta: float = 0.0,
    budget: str | float = "60s",
    false_alarm: float = FALSE_ALARM,
    seed: int = 0,
    data: Any = None,
    canaries: Any = None,
    **options: Any,
) -> MechanismReport | TrainingReport:
    """Fail where outputs prove that a mechanism or a training breaks its claim; return the report where they do not.

    Args:
        function: a mechanism `function(data, rng[, size]) -> output`; or, with `data` and `canaries`, a training
            `train(dataset, seed) -> model`.
        epsilon, delta: what is claimed.
        budget: about how long the test may take: "60s", "2min", or a number of seconds. It decides how many outputs are drawn,
            or how often is trained.
        false_alarm: how often a function that keeps its claim fails, at most: proved, not estimated.
        seed: of all draws, so that a test repeats.
        data, canaries: of a training: `(inputs, labels)` each, as `audit.check_training` takes them.
        options: further ones of `audit.mechanism` (pairs, neighbours, family, ...) or `audit.check_training`.

    Raises:
        AssertionError: the claim is refuted; or nothing that fits into the budget could have refuted it, or calls are not
            independent: then the test would pass whatever the function does.
        ConfigError: a budget or an option that cannot be used.

    >>> assert_private(lambda data, rng, size: data.sum() + rng.laplace(0, 5.0, size), epsilon=1.0,
    ...     neighbours="records", budget="200ms").exit_code
    0
    """
    allowed_seconds = seconds(budget)
    confidence = 1 - checks.open_probability(false_alarm, "false_alarm")
    if (data is None) != (canaries is None):
        raise ConfigError("data and canaries belong together: give both for a training, neither for a mechanism")
    report: MechanismReport | TrainingReport
    if data is None:
        report = _mechanism(function, allowed_seconds, epsilon, delta, confidence=confidence, seed=seed, **options)
    else:
        report = _training(
            function, allowed_seconds, data, canaries, epsilon=epsilon, delta=delta, confidence=confidence, seed=seed, **options
        )
    if report.exit_code:
        raise AssertionError(f"{report}\n{_advice(report.exit_code, false_alarm)}")
    return report


def seconds(budget: str | float) -> float:
    """Return a time such as "60s", "500ms" or "2min", or a number of seconds, in seconds.

    >>> seconds("2min")
    120.0
    """
    if isinstance(budget, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h)\s*", budget)
        if match is None:
            raise ConfigError(f"budget is {budget!r}; expected a time such as '60s', '500ms' or '2min', or a number of seconds")
        budget = float(match[1]) * UNITS[match[2]]
    return checks.positive(budget, "budget")


def _mechanism(function: Any, allowed_seconds: float, epsilon: float, delta: float, **options: Any) -> MechanismReport:
    from audit.api.mechanism import mechanism
    from audit.mechanism_checks.run import LEAST_SAMPLES

    start = time.perf_counter()
    mechanism(function, epsilon=epsilon, delta=delta, samples=LEAST_SAMPLES, **options)  # for its time alone
    duration = (time.perf_counter() - start) / LEAST_SAMPLES
    pilot = max(LEAST_SAMPLES, min(PILOT, int(PILOT_SHARE * allowed_seconds / duration)))
    start = time.perf_counter()
    mechanism(function, epsilon=epsilon, delta=delta, samples=pilot, **options)
    samples = int(SHARE * allowed_seconds * pilot / (time.perf_counter() - start))
    return mechanism(function, epsilon=epsilon, delta=delta, samples=min(MOST_OUTPUTS, max(LEAST_SAMPLES, samples)), **options)


def _training(train: Any, allowed_seconds: float, data: Any, canaries: Any, **options: Any) -> TrainingReport:
    from audit.api.training import check_training

    start = time.perf_counter()
    train(data, options["seed"])
    runs = int(SHARE * allowed_seconds / max(time.perf_counter() - start, 1e-6))
    return check_training(train, data, canaries, runs=min(MOST_RUNS, max(1, runs)), **options)


def _advice(exit_code: int, false_alarm: float) -> str:
    if exit_code == 1:
        return f"A function that keeps this claim fails so at most once in {1 / false_alarm:,.0f} seeds."
    return "The claim was not tested: raise the budget, or repair what the sentence above names."
