"""Noise that carries its law: what is proved, refuted, bounded, not followed; four programs that a naive verdict gets wrong."""

from __future__ import annotations

import math
import random
import secrets
from typing import Any

import numpy as np
import pytest
import torch

from audit.replays.check import PairResult, ReplayVerdict, check_pair
from audit.replays.claims import ReplayClaim
from audit.replays.recording import Recording
from audit.replays.run import Program

DATA, MORE = np.array([1.0, 4.0, 9.0]), np.array([1.0, 4.0, 9.0, 10.0])


def clip(data: Any) -> Any:
    return np.clip(np.nan_to_num(data), 0, 10)


def replay(function: Any, epsilon: float = 1.0, delta: float = 0.0, mu: float | None = None) -> PairResult:
    return check_pair(Program(function), (DATA, MORE), ReplayClaim(epsilon=epsilon, delta=delta, mu=mu))


TREE = np.concatenate([np.kron(np.eye(2**k), np.ones(4 // 2**k)) for k in range(3)])


def inverse_transform(data: Any, rng: Any) -> Any:
    u = rng.random() - 0.5
    return len(data) - np.sign(u) * np.log(1 - 2 * np.abs(u))


def noise_beside_its_sum(data: Any, rng: Any) -> Any:
    z = rng.laplace()
    return len(data) + z, z


def ten_shares(data: Any, rng: Any) -> Any:
    z = rng.normal(0, 9, 9)
    return [*z, len(data) - z.sum() + rng.normal()]


def sparse_vector(data: Any, rng: Any) -> Any:
    threshold = 3 + rng.laplace(0, 2)
    return next((i for i in range(3) if np.sum(data > i) + rng.laplace(0, 4) > threshold), None)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("function", "loss"),
    [
        (lambda d, rng: clip(d).sum() + rng.laplace(0, 10), 1.0),
        (lambda d, rng: np.histogram(clip(d), 4, (0, 10))[0] + rng.laplace(0, 1, 4), 1.0),
        (lambda d, rng: TREE @ np.histogram(clip(d), 4, (0, 10))[0] + rng.laplace(0, 3, 7), 1.0),
        (lambda d, rng: np.linalg.pinv(TREE) @ (TREE @ np.histogram(clip(d), 4, (0, 10))[0] + rng.laplace(0, 3, 7)), 1.0),
        (lambda d, rng: (clip(d).sum() + rng.laplace(0, 20)) / max(len(d) + rng.laplace(0, 2), 1), 1.0),
        (lambda d, rng: len(d) + rng.exponential(1.0) - rng.exponential(1.0), 1.0),
        (lambda d, rng: len(d) + rng.geometric(1 - math.exp(-1)) - rng.geometric(1 - math.exp(-1)), 1.0),
        (inverse_transform, 1.0),
        (lambda d, rng: rng.random() < (0.5 if len(d) > 3 else 0.5 / math.e), 1.0),
    ],
)
def test_a_right_program_is_proved_at_its_exact_loss(function: Any, loss: float) -> None:
    result = replay(function)
    assert result.verdict is ReplayVerdict.PROVED, result.reason
    assert result.loss == pytest.approx(loss, rel=1e-6)


def test_selections_cost_their_own_law_and_not_their_composition() -> None:
    counts = lambda d: np.array([np.sum(d >= t) for t in range(5)], dtype=float)  # noqa: E731
    largest = replay(lambda d, rng: int(np.argmax(counts(d) + rng.laplace(0, 1, 5))))
    assert largest.verdict is ReplayVerdict.PROVED and largest.loss <= 1
    vector = replay(sparse_vector)
    assert vector.verdict is ReplayVerdict.PROVED and 0 < vector.loss < 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "function",
    [
        lambda d, rng: clip(d).sum() + rng.laplace(0, 5),
        lambda d, rng: (np.sum(d > 5) + rng.laplace(0, 1), len(d)),
        lambda d, rng: (np.sum(d > 5) + rng.laplace(0, 1), np.bool_(len(d) > 3)),
        lambda d, rng: [float(np.sum(d == c)) + rng.laplace() for c in np.unique(d)],
        noise_beside_its_sum,
        lambda d, rng: [len(d) + rng.laplace(), len(d) + rng.laplace()],
        lambda d, rng: print(len(d)),
        lambda d, rng: len(d) + rng.uniform(-50, 50),
        lambda d, rng: [bool(len(d) + rng.laplace(0, 2) > 3) for _ in range(20)],
        lambda d, rng: [int(rng.binomial(1, 0.9 if len(d) > 3 else 0.3)), int(rng.binomial(1, 0.1 if len(d) > 3 else 0.7))],
        lambda d, rng: (clip(d).sum() + rng.laplace(0, 10)) / len(d),
        lambda d, rng: 0.0 if len(d) < 4 else len(d) + rng.laplace(),
    ],
)
def test_a_wrong_program_is_refuted(function: Any) -> None:
    result = replay(function)
    assert result.verdict is ReplayVerdict.REFUTED, result.reason
    assert result.loss > 1


def test_gaussian_noise_costs_its_exact_mu() -> None:
    assert replay(lambda d, rng: clip(d).sum() + rng.normal(0, 13), mu=1 / 1.3).loss == pytest.approx(1 / 1.3)
    assert replay(lambda d, rng: clip(d).sum() + rng.normal(0, 13), mu=0.76).verdict is ReplayVerdict.REFUTED
    shares = replay(ten_shares, mu=1.0)
    assert shares.verdict is ReplayVerdict.PROVED and shares.loss == pytest.approx(1.0)


def test_normal_noise_of_another_deviation_keeps_no_mu() -> None:
    by_count = replay(lambda d, rng: (clip(d).sum() + rng.normal(0, 40)) / len(d), mu=1.0)
    assert by_count.verdict is ReplayVerdict.REFUTED and by_count.loss == math.inf
    shares = replay(lambda d, rng: clip(d).sum() + rng.normal(0, 10 / math.sqrt(len(d)), len(d)).sum(), mu=1.0)
    assert shares.verdict is ReplayVerdict.PROVED or "drawn" in shares.reason  # one law, made of more draws


@pytest.mark.parametrize(
    "function",
    [
        lambda d, rng: int(np.argmax(clip(d).sum() * np.eye(3)[0] + rng.laplace(0, 2, 3))),
        lambda d, rng: int(len(d) + rng.geometric(0.9) - rng.geometric(0.9)),
        lambda d, rng: len(d) + rng.laplace(0, 0.5, 6).sum(),
        lambda d, rng: f"{len(d)} records, about {len(d) + rng.laplace():.1f}",
        lambda d, rng: rng.permutation(d).tolist(),
    ],
)
def test_what_is_returned_in_another_form_is_refuted(function: Any) -> None:
    result = replay(function)
    assert result.verdict is ReplayVerdict.REFUTED and result.loss > 1, result.reason


def test_each_path_of_comparisons_has_its_own_loss() -> None:
    def program(data: Any, rng: Any) -> Any:
        threshold = 2 + rng.laplace(0, 2)
        return next((t for t in (9, 6, 3) if np.sum(clip(data) >= t) + rng.laplace(0, 0.2) >= threshold), None)

    pair = DATA, np.append(DATA, 7.0)  # the first count stays, the second moves
    assert check_pair(Program(program), pair, ReplayClaim(epsilon=1.0)).verdict is not ReplayVerdict.PROVED


def test_a_stability_histogram_is_not_refuted() -> None:
    def program(data: Any, rng: Any) -> Any:
        noisy = {key: np.sum(data == key) + rng.laplace() for key in np.unique(data).tolist()}
        return {key: count for key, count in noisy.items() if count > 10}

    assert replay(program, delta=1e-4).verdict is ReplayVerdict.BOUND


def test_a_second_release_that_few_paths_reach_is_not_refuted() -> None:
    def program(data: Any, rng: Any) -> Any:
        y = len(data) - 3 + rng.laplace()
        return [float(y), len(data) + rng.laplace() if 0.4 < y < 0.6 else 0.0]

    assert replay(program, 1.2).verdict is not ReplayVerdict.REFUTED


def test_a_movement_behind_a_rare_number_is_not_refuted() -> None:
    def program(data: Any, rng: Any) -> Any:
        y = float(rng.normal())
        return y, (10 * len(data) if y > 4.26 else 0) + rng.normal()

    assert replay(program, delta=1.1e-5).verdict is ReplayVerdict.PROVED  # on these paths


def test_noise_that_is_returned_beside_its_sum_hides_nothing() -> None:
    result = replay(noise_beside_its_sum)
    assert result.verdict is ReplayVerdict.REFUTED and result.loss == math.inf


def test_a_sampler_that_is_not_known_is_not_followed() -> None:
    result = replay(lambda d, rng: len(d) + rng.standard_t(3))
    assert result.verdict is ReplayVerdict.NOT_FOLLOWED and "standard_t" in result.reason


def test_a_replay_hands_the_recorded_numbers_back() -> None:
    program = Program(lambda d, rng: clip(d).sum() + rng.laplace(0, 10))
    first = program.run(DATA, Recording(seed=1))
    second = program.run(MORE, Recording(seed=2, frozen=first.recording))
    assert dict(first.atoms)["returned"] == dict(second.atoms)["returned"]


def test_a_comparison_of_a_released_number_with_the_data_is_looked_for() -> None:
    def program(data: Any, rng: Any) -> Any:
        y = clip(data).sum() + rng.laplace(0, 10)
        return float(y) if y >= clip(data).max() else 0.0

    assert replay(program).verdict is not ReplayVerdict.PROVED


def seed_globally(data: Any) -> Any:
    np.random.seed(7)  # noqa: NPY002
    return len(data) + np.random.laplace()  # noqa: NPY002


def seed_by_records(data: Any) -> Any:
    random.seed(len(data))
    return len(data) + random.expovariate(1) - random.expovariate(1)


def torch_seed_by_records(data: Any) -> Any:
    generator = torch.Generator().manual_seed(int(data.sum()))
    return float(len(data)) + torch.randn(3, generator=generator)


@pytest.mark.parametrize(
    "function",
    [seed_globally, lambda d: len(d) + np.random.default_rng(7).laplace(), seed_by_records, torch_seed_by_records],
)
def test_noise_of_a_known_seed_is_a_constant(function: Any) -> None:
    result = replay(function)
    assert result.verdict is ReplayVerdict.REFUTED and "in every run on the neighbour" in result.reason


def children(data: Any, rng: Any) -> Any:
    seeds = np.random.SeedSequence(int(rng.integers(2**62))).spawn(2)
    return [len(data) + np.random.default_rng(seed).laplace(0, 2) for seed in seeds]


def torch_child(data: Any) -> Any:
    generator = torch.Generator().manual_seed(int(torch.randint(0, 2**31, ())))
    return float(len(data)) + 5 * torch.randn((), generator=generator)


def sketch(data: Any, rng: Any) -> Any:
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=3)  # public
    return len(data) * signs + rng.laplace(0, 3, 3)


@pytest.mark.parametrize(
    "function",
    [
        lambda d, rng: len(d) + np.random.RandomState(rng.integers(2**31)).laplace(),
        lambda d: len(d) + np.random.default_rng(secrets.randbits(128)).laplace(),
        children,
        torch_child,
        sketch,
    ],
)
def test_noise_of_a_seed_that_the_program_drew_is_followed(function: Any) -> None:
    result = replay(function, delta=1e-2)
    assert result.verdict is ReplayVerdict.PROVED, result.reason


def test_two_generators_of_one_seed_prove_nothing() -> None:
    def program(data: Any, rng: Any) -> Any:
        seed = int(rng.integers(2**31))
        return [len(data) + np.random.default_rng(seed).laplace(0, 2) for _ in range(2)]

    assert replay(program).verdict is ReplayVerdict.NOT_FOLLOWED


def _turned_by_sign(data: Any, rng: Any) -> Any:
    sums, z = np.histogram(clip(data), 4, (0, 10))[0], rng.laplace(0, 1, 4)
    return sums + z * np.sign(sums @ z)


def _turned_by_choice(data: Any, rng: Any) -> Any:
    sums, z = np.histogram(clip(data), 4, (0, 10))[0], rng.normal(0, 1, 4)
    return sums + (z if float(z @ sums) >= 0 else -z)


@pytest.mark.parametrize("function", [_turned_by_sign, _turned_by_choice])
def test_noise_that_is_turned_towards_the_sum_is_never_proved(function: Any) -> None:
    assert replay(function, epsilon=9.0, delta=1e-3).verdict is not ReplayVerdict.PROVED


@pytest.mark.parametrize(
    ("end", "proved"), [(lambda u: u == 0.0, True), (lambda u: u in (0.0, 1.0), True), (lambda u: u == 0.25, False)]
)
def test_a_draw_equals_an_end_of_its_range_with_probability_0(end: Any, proved: bool) -> None:
    def program(data: Any, rng: Any) -> float:
        u = random.random()
        while end(u):
            u = random.random()
        return len(data) + 5 * math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * random.random())

    assert (replay(program, delta=1e-5).verdict is ReplayVerdict.PROVED) is proved


def _refuse(error: Exception) -> None:
    raise error


def _hidden_in(data: Any) -> Exception:
    error = ValueError("few records")
    error.total = float(np.sum(data))  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("error", "proved"),
    [
        (lambda data: ValueError("few records"), True),
        (lambda data: ValueError("few records", float(np.sum(data))), False),
        (_hidden_in, False),
        (lambda data: ValueError("few") if len(data) > 3 else KeyError("few"), False),
        (float, False),
    ],
)
def test_an_error_that_a_release_decides_is_an_answer_with_its_content(error: Any, proved: bool) -> None:
    def program(data: Any, rng: Any) -> float:
        noisy = len(data) + rng.laplace()
        if noisy < 2:
            _refuse(error(data))
        return noisy

    assert (replay(program).verdict is ReplayVerdict.PROVED) is proved


def _rate_by_the_raw_loss(d: Any, rng: Any) -> Any:
    model = clip(d).sum() + rng.laplace(0, 10)
    return model, 0.05 if abs(model - clip(d).sum()) > 15 else 0.1


def _type_by_the_raw_sum(d: Any, rng: Any) -> Any:
    noisy = float(clip(d).sum() + rng.laplace(0, 10))
    return [noisy, 1 if noisy > clip(d).sum() else 1.0]


@pytest.mark.parametrize(
    ("program", "delta"), [(_rate_by_the_raw_loss, 0.0), (_rate_by_the_raw_loss, 1e-3), (_type_by_the_raw_sum, 0.0)]
)
def test_outputs_that_the_neighbour_never_gives_refute(program: Any, delta: float) -> None:
    result = replay(program, epsilon=1.0, delta=delta)
    assert result.verdict is ReplayVerdict.REFUTED and "never gives" in result.method, result.reason


def test_outputs_that_seldom_tell_the_data_are_not_accused() -> None:
    def program(d: Any, rng: Any) -> Any:
        model = clip(d).sum() + rng.laplace(0, 10)
        return model, 0.05 if abs(model - clip(d).sum()) > 20 else 0.1  # tells the sum with a probability near .1

    assert replay(program, epsilon=1.0, delta=0.5).verdict is not ReplayVerdict.REFUTED


def test_sorted_numbers_do_not_tell_which_was_released_for_which() -> None:
    def program(d: Any, rng: Any) -> Any:
        pair = [float(clip(d).sum() + rng.laplace(0, 20)), float(rng.laplace(0, 20) - clip(d).sum())]
        return sorted(pair)

    assert replay(program, epsilon=1.0).verdict is not ReplayVerdict.REFUTED


@pytest.mark.parametrize(
    "noise",
    [
        lambda t: torch.distributions.Laplace(0 * t, t).sample(),
        lambda t: torch.distributions.Laplace(0 * t, t).rsample((1,)).item(),
        lambda t: (
            torch.stack([torch.distributions.Exponential(1 / t).sample() for _ in range(2)]) @ (t / t).new_tensor([1, -1])
        ),
        lambda t: torch.distributions.Gumbel(0 * t, t).sample() - torch.distributions.Gumbel(0 * t, t).sample(),
    ],
)
def test_noise_of_torch_distributions_costs_what_that_of_numpy_does(noise: Any) -> None:
    scale = torch.tensor(12.0, dtype=torch.float64)
    result = replay(lambda d: torch.as_tensor(clip(d)).sum() + noise(scale))
    assert result.verdict is ReplayVerdict.PROVED, result.reason
    assert result.loss == pytest.approx(replay(lambda d, rng: clip(d).sum() + rng.laplace(0, 12)).loss, abs=1e-12)


def test_noise_of_torch_that_numpy_reads_before_the_sum_is_not_followed() -> None:
    result = replay(lambda d: torch.from_numpy(clip(d).sum() + 10 * torch.randn(1).numpy()), mu=1.0)
    assert result.verdict is ReplayVerdict.NOT_FOLLOWED
