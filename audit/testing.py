"""Assertions for the test suite of a library that claims differential privacy."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.seeds import Seed

if TYPE_CHECKING:
    from audit.api.training import TrainingReport
    from audit.mechanism_checks.report import MechanismReport

FALSE_ALARM = 1e-3  # how often a function that keeps its claim fails an assertion, at most
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
    """Fail if outputs prove that a mechanism or a training breaks its claim; return the report if they do not.

    Args:
        function: a mechanism `function(data, rng[, size]) -> output`; or, with `data` and `canaries`, a training
            `train(dataset, seed) -> model`.
        epsilon, delta: what is claimed.
        budget: about how long the test may take: "60s", "2min", or a number of seconds. It decides how many outputs are drawn,
            or how often is trained: the largest power of two that fits, which the speed of the machine may change.
        false_alarm: how often a run of the test fails, at most, if the function keeps its claim: proved, not estimated.
        seed: of all draws. With the same number of outputs, as `samples` in the report, a run repeats.
        data, canaries: of a training: `(inputs, labels)` each, as `audit.check_training` takes them.
        options: further ones of `audit.mechanism` (pairs, neighbours, family, ...) or `audit.check_training`. `samples` of the
            one and `runs` of the other fix what the budget would decide, so that every run of the test repeats.

    Raises:
        AssertionError: the claim is refuted; or nothing that fits into the budget could have refuted it, or calls are not
            independent: then the test would pass whatever the function does.
        ConfigError: a budget or an option that cannot be used.

    >>> count = lambda data, rng, size: (data > 0.5).sum() + rng.laplace(0, 5.0, size)  # NaN is not counted
    >>> assert_private(count, epsilon=1.0, neighbours="records", budget="200ms").exit_code
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


class Report(Protocol):
    """What the gate reads of a report: of a replay, a mechanism, a step or a training."""

    @property
    def exit_code(self) -> int:
        """0 if the promise was kept, 1 if it is refuted, else it was not decided."""


def assert_baseline(name: str, report: Report, baseline: str | Path) -> None:
    """Fail if a report refutes a promise, unless a baseline of accepted defects has its name; then expect it to.

    Args:
        name: of the promise in the baseline.
        report: of `audit.replay`, `audit.mechanism`, `audit.check_optimizer` or others with an `exit_code`.
        baseline: a JSON file of an object `{name: reason}`, or `{name: [reason, words]}`: then the report has to say these
            words, so that another defect of the same name fails. A relative path starts from the folder of the calling file;
            a file that is not there accepts nothing.

    Raises:
        AssertionError: a promise outside the baseline is refuted, or one inside it for something else than was accepted; or
            one inside it no longer is: the baseline shrinks.
        ConfigError: a baseline that is not such an object.
        pytest's outcome: "xfailed" for an accepted defect, "skipped" if the report decides nothing.
    """
    import pytest

    caller: Any = sys._getframe(1)
    while str(caller.f_globals.get("__name__")).startswith("audit."):  # what vets the arguments of public functions
        caller = caller.f_back
    path = Path(caller.f_code.co_filename).parent / baseline
    accepted = _read_baseline(path, name)
    if report.exit_code not in (0, 1):
        pytest.skip(f"not decided: {report}")
    if name not in accepted:
        if report.exit_code:
            raise AssertionError(f'{report}\nTo accept it until it is mended, add "{name}" and the reason to {path}.')
        return
    reason, words = accepted[name]
    if not report.exit_code:
        raise AssertionError(f"'{name}' is not refuted any more: take it out of {path}, so that it stays so.")
    if words not in str(report):
        raise AssertionError(f"{report}\nIt is refuted, but not by what {path} accepts ({reason}): that says '{words}'.")
    pytest.xfail(" ".join([reason, *str(report).split()]))


def _read_baseline(path: Path, name: str) -> dict[str, tuple[str, str]]:
    """Return the reason, and the words that a report has to say, of each accepted defect."""
    try:
        read = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise ConfigError(f"{path} cannot be read as JSON: {error}") from error
    pairs = read.items() if isinstance(read, dict) else [("", None)]
    entries: dict[str, Any] = {key: [entry, ""] if isinstance(entry, str) else entry for key, entry in pairs}
    if not all(isinstance(entry, list) and list(map(type, entry)) == [str, str] for entry in entries.values()):
        raise ConfigError(f'{path} must hold an object of names and reasons, such as {{"{name}": "issue 12"}}')
    return {key: (reason, words) for key, (reason, words) in entries.items()}


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

    if "samples" not in options:
        options["samples"] = _affordable_samples(function, allowed_seconds, epsilon, delta, **options)
    return mechanism(function, epsilon=epsilon, delta=delta, **options)


def _affordable_samples(function: Any, allowed_seconds: float, epsilon: float, delta: float, **options: Any) -> int:
    """Return how many outputs fit into the time, by two audits on their own draws."""
    from audit.api.mechanism import mechanism
    from audit.mechanism_checks.run import LEAST_SAMPLES

    def read_seconds(samples: int, name: str) -> float:
        start = time.perf_counter()
        mechanism(function, epsilon=epsilon, delta=delta, samples=samples, **{**options, "seed": _pilot_seed(options, name)})
        return time.perf_counter() - start

    duration = read_seconds(LEAST_SAMPLES, "first") / LEAST_SAMPLES
    pilot = max(LEAST_SAMPLES, min(PILOT, int(PILOT_SHARE * allowed_seconds / duration)))
    samples = SHARE * allowed_seconds * pilot / read_seconds(pilot, "second")
    return min(MOST_OUTPUTS, max(LEAST_SAMPLES, floor_power_two(samples)))


def _training(train: Any, allowed_seconds: float, data: Any, canaries: Any, **options: Any) -> TrainingReport:
    from audit.api.training import check_training

    if "runs" not in options:
        start = time.perf_counter()
        train(data, _pilot_seed(options, "training"))
        runs = SHARE * allowed_seconds / max(time.perf_counter() - start, 1e-6)
        options["runs"] = min(MOST_RUNS, max(1, floor_power_two(runs)))
    return check_training(train, data, canaries, **options)


def _pilot_seed(options: Mapping[str, Any], name: str) -> int:
    """Return the seed of a pilot: none of its draws is that of the audit."""
    return Seed(options["seed"]).child("pilot").child(name).integer()


def floor_power_two(value: float) -> int:
    """Return the largest power of two that is not above a number; 0 for numbers below 1.

    >>> [floor_power_two(value) for value in (0.5, 1.0, 1000.7)]
    [0, 1, 512]
    """
    return 1 << (int(value).bit_length() - 1) if value >= 1 else 0


def _advice(exit_code: int, false_alarm: float) -> str:
    if exit_code == 1:
        return f"A function that keeps this claim fails in at most one of {1 / false_alarm:,.0f} runs of this test."
    return "The claim was not tested: raise the budget, or repair what the sentence above names."
