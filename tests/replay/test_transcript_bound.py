"""The interval for epsilon from losses of transcripts covers what is known, and is wrong as seldom as it says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.core.errors import ConfigError
from audit.replays import transcript_bound
from audit.replays.run import Program
from audit.replays.transcript_bound import bound_epsilon
from audit.stats.curves import tradeoff

PAIR = np.zeros(3), np.zeros(4)


def response(data: Any, rng: Any) -> int:
    return int(rng.binomial(1, 0.75 if len(data) > 3 else 0.25))


def selection(data: Any, rng: Any) -> int:
    return int(np.argmax(np.array([len(data), 3.5]) + rng.gumbel(0, 2, 2)))


KNOWN: dict[str, tuple[Any, float, float]] = {  # program, delta, epsilon
    "normal": (lambda d, rng: len(d) + rng.normal(), 0.05, tradeoff.gdp_epsilon(1.0, 0.05)),
    "two normal": (lambda d, rng: [len(d) + rng.normal(0, 2), len(d) + rng.normal(0, 2)], 0.02, 0.0),
    "shared nodes": (lambda d, rng: np.array([1, 2]) * (len(d) + rng.normal()), 0.05, 0.0),
    "Laplace": (lambda d, rng: len(d) + rng.laplace(), 0.05, 1 + 2 * math.log(1 - 0.05)),
    "geometric": (lambda d, rng: len(d) + rng.geometric(0.5) - rng.geometric(0.5), 0.05, math.log(2 - 3 * 0.05)),
    "response": (response, 0.05, math.log((0.75 - 0.05) / 0.25)),
    "selection": (selection, 0.01, 0.0),
}
KNOWN["two normal"] = (KNOWN["two normal"][0], 0.02, tradeoff.gdp_epsilon(2**-0.5, 0.02))
KNOWN["shared nodes"] = (KNOWN["shared nodes"][0], 0.05, tradeoff.gdp_epsilon(1.0, 0.05))
SHARES = [1 / (1 + math.exp((3.5 - n) / 2)) for n in (3, 4)]
KNOWN["selection"] = (selection, 0.01, math.log(max((SHARES[1] - 0.01) / SHARES[0], (1 - SHARES[0] - 0.01) / (1 - SHARES[1]))))


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_the_interval_holds_the_epsilon_that_is_known(name: str) -> None:
    program, delta, epsilon = KNOWN[name]
    runs = math.ceil(20 / delta)  # no upper end is finite if the chance that no run is among the worst `delta` is above 0.00025
    bracket = bound_epsilon(Program(program), PAIR, runs=runs, delta=delta, confidence=0.999)
    assert bracket.lower <= epsilon <= bracket.upper
    assert bracket.upper - bracket.lower < 1.8


def test_the_interval_is_wrong_as_seldom_as_it_says() -> None:
    stream, mu, delta, wrong = np.random.default_rng(0), 1.5, 0.01, [0, 0]
    epsilon = tradeoff.gdp_epsilon(mu, delta)
    for i in range(2000):
        losses = mu**2 / 2 + mu * stream.normal(size=400)
        low, high = transcript_bound._interval(losses, delta, 0.1, i)
        wrong[0] += low > epsilon
        wrong[1] += high < epsilon
    assert all(count <= 0.05 * 2000 + 3 * math.sqrt(0.05 * 0.95 * 2000) for count in wrong)
    assert wrong[0] > 10  # it is no empty bound


def test_pure_privacy_is_bounded_by_the_largest_loss() -> None:
    bracket = bound_epsilon(Program(KNOWN["Laplace"][0]), PAIR, runs=60, delta=0.0)
    assert 0.8 < bracket.lower <= 1 and bracket.upper == math.inf


def test_recorded_losses_are_not_run_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def program(data: Any, rng: Any) -> Any:
        calls.append(len(data))
        return len(data) + rng.laplace()

    path = tmp_path / "transcripts.json"
    first = bound_epsilon(Program(program), PAIR, runs=30, delta=0.1, path=path)
    count = len(calls)
    assert bound_epsilon(Program(program), PAIR, runs=30, delta=0.1, path=path) == first
    assert len(calls) == count
    bracket = bound_epsilon(Program(program), PAIR, runs=50, delta=0.1, path=path)
    assert len(calls) == count * 5 // 3
    assert bound_epsilon(Program(program), PAIR, runs=50, delta=0.1) == bracket


def test_noise_of_an_unknown_density_is_refused() -> None:
    with pytest.raises(ConfigError, match="transcript"):
        bound_epsilon(Program(lambda d, rng: len(d) + rng.standard_t(3)), PAIR, runs=5, delta=0.1)


def test_outputs_on_a_line_are_never_given_by_a_neighbour_with_more_noise() -> None:
    def program(data: Any, rng: Any) -> Any:
        z = rng.normal(size=2)
        return [z[0], z[0] + (len(data) - 3) * z[1]]

    assert transcript_bound.loss(Program(program), PAIR, 1) == math.inf
    assert transcript_bound.loss(Program(program), PAIR[::-1], 1) == math.inf
