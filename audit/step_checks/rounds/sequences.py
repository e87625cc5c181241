"""Several rounds of one live strategy, played again and again with fresh noise: the noise over what one client changes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from audit.core.data import Array
from audit.core.seeds import Seed
from audit.stats import noise_tests
from audit.step_checks.rounds.bench import FAINT, LOUD, SHAPES, RoundBench
from audit.step_checks.rounds.global_generators import seeded, set_generators
from audit.step_checks.rounds.processing import DITHERS, SLACK, SMALL, ratio_bound
from audit.step_checks.rounds.replies import Replies
from audit.step_checks.tensors import Tensors, spread, zeros

REPEATS = 5  # of a sequence, whose weights have 1,200 entries of noise each
Trajectory = Mapping[str, Array]
_FLOOR = 1e-3  # least deviation of the noise that is told from none, over the claimed one


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSequence:
    """Rounds in a row; one client sends an update in one of them, and next to nothing in the others."""

    name: str  # in words
    numbers: tuple[int, ...] = (1, 2, 3)  # of the rounds, as the server counts them
    place: int = 0  # of the client's round among them
    share: float = 1.0  # of the planned clients that reply
    size: float = LOUD  # of the client's update, over the clip norm
    outlier: float = 0.0  # length of one other client's updates, over the clip norm
    crowd: float = FAINT  # length of the other clients' updates, which cancel, over the clip norm
    leaves: bool = False  # the client does not reply in the other rounds


SEQUENCES = (
    RoundSequence(name="three rounds"),
    RoundSequence(name="three rounds with half of the replies", share=0.5),
    RoundSequence(name="three rounds with one reply missing", share=0.999),
    RoundSequence(name="three rounds beside an update of a million clip norms", outlier=1e6),
    RoundSequence(name="three rounds with an update of 1e25 clip norms", size=1e25),
    RoundSequence(name="three rounds, of which the client replies in the second alone", place=1, leaves=True),
    RoundSequence(name="round 1 played twice before round 2", numbers=(1, 1, 2), place=1),
    RoundSequence(
        name="six rounds in which all others send a thousand clip norms", numbers=(1, 2, 3, 4, 5, 6), place=5, crowd=LOUD
    ),
    RoundSequence(name="rounds 1, 500 and 5000", numbers=(1, 500, 5000), place=1),
)
SIGNIFICANCE = 1e-9 / len(SEQUENCES)


def compare_sequences(bench: RoundBench) -> Mapping[str, float]:
    """Return `noise_over_influence` of every sequence that is released, by its name; kept by the bench."""
    if bench.sequence_ratios is None:
        bench.sequence_ratios = {}
        for sequence in SEQUENCES:
            ratio = noise_over_influence(bench, sequence)
            bench.sequence_ratios |= {} if ratio is None else {sequence.name: ratio}
            if ratio is not None and ratio < bench.claim.noise_multiplier / 2 and bench.processing.hides_client:
                break  # one that fails is enough where a comparison takes hundreds of plays
    return bench.sequence_ratios


def noise_over_influence(bench: RoundBench, sequence: RoundSequence) -> float | None:
    """Return an upper confidence bound, at `SIGNIFICANCE`, on 1 / mu of the joint releases; None if nothing is released.

    Noise of a tensor has one covariance S between rounds in all of its entries, estimated from repetitions; mu^2 sums
    D' S^-1 D over entries, with the difference D that the client makes without noise. For normal noise D' S^-1 D by the
    estimate, over that by the truth, is the degrees of freedom over a chi-square with one less per further round (Wishart).
    """
    if bench.processing.hides_client:
        return _separation_ratio(bench, sequence)
    noisy = [
        play_sequence(bench, sequence, takes_part=True, noise_seed=bench.seed + 1000 + number) for number in range(REPEATS)
    ]
    first, second = (play_sequence(bench, sequence, takes_part=takes_part) for takes_part in (True, False))
    if first is None or second is None or any(part is None for part in noisy):
        return None
    total = 0.0
    for name in SHAPES:
        total += _mu_squared(first[name] - second[name], np.stack([part[name] for part in noisy if part]), bench)
    return 1 / math.sqrt(total) if total else math.inf


def _separation_ratio(bench: RoundBench, sequence: RoundSequence) -> float | None:
    """Return the same bound for a server that processes the noisy mean; its noise may have any law."""
    trials = bench.processing.trials // 2

    def trajectories(takes_part: bool, seed: int, count: int) -> list[Array | None]:
        parts = [play_sequence(bench, sequence, takes_part=takes_part, noise_seed=seed + number) for number in range(count)]
        return [None if part is None else np.concatenate([rows.ravel() for rows in part.values()]) for part in parts]

    pairs = [trajectories(takes_part, 0, DITHERS) for takes_part in (True, False)]
    samples = [trajectories(takes_part, 1000 * (1 + takes_part), trials) for takes_part in (True, False)]
    if any(part is None for parts in (*pairs, *samples) for part in parts):
        return None
    first, second, *sides = (np.stack([part for part in parts if part is not None]) for parts in (*pairs, *samples))
    return ratio_bound(sides[0], sides[1], np.mean(first - second, axis=0))


def _mu_squared(difference: Array, noisy: Array, bench: RoundBench) -> float:
    """Return a lower confidence bound on the mu^2 of one tensor.

    Args:
        difference: that the client makes, `(rounds, entries)`; NaN in rounds that are refused.
        noisy: releases, `(repetitions, rounds, entries)`.
    """
    released = np.isfinite(difference).all(axis=1) & np.isfinite(noisy).all(axis=(0, 2))
    difference, noisy = difference[released], noisy[:, released]
    rounds, freedom = len(difference), (len(noisy) - 1) * noisy.shape[2]
    if freedom <= rounds or not np.abs(difference).max(initial=0.0) > SLACK * bench.unit / math.sqrt(difference.size or 1):
        return 0.0
    deviation = bench.claim.noise_multiplier * bench.unit
    residuals = (noisy - noisy.mean(axis=0)) / deviation
    values, vectors = np.linalg.eigh(np.einsum("rtd,rsd->ts", residuals, residuals) / freedom)
    parts = vectors.T @ (difference / deviation)
    estimate = float((np.square(parts).sum(axis=1) / np.maximum(values, _FLOOR**2)).sum())
    return estimate * noise_tests.estimate_quantile(freedom, rounds, SIGNIFICANCE)


def play_sequence(
    bench: RoundBench, sequence: RoundSequence, *, takes_part: bool, noise_seed: int | None = None
) -> Trajectory | None:
    """Return how far each round moved the model, in its units, name to `(rounds, entries)`; a refused round moves it by NaN.

    Args:
        bench: with the strategy, of which a copy is played.
        sequence: to play; each round begins at the model that the one before released.
        takes_part: whether the client sends its update, else next to nothing.
        noise_seed: of all generators of the copy; None plays without noise.

    Returns:
        None if no round was released.
    """
    shapes = _shapes(bench)
    strategy, start, rows = bench.copied(), zeros(shapes), list[Tensors | None]()
    if noise_seed is not None:
        set_generators(strategy, Seed(noise_seed))
    with seeded(bench.seed if noise_seed is None else noise_seed):
        for place, number in enumerate(sequence.numbers):
            replies = Replies(updates=_updates(bench, sequence, place, takes_part=takes_part), start=start)
            release = bench.play(replies, quiet=noise_seed is None, strategy=strategy, number=number)
            rows.append(release.relative_movement)
            if release.moved is not None:
                start = {name: (start[name] + release.moved[name]).astype(np.float32) for name in start}
    if all(row is None for row in rows):
        return None
    missing = {name: np.full(shape, np.nan) for name, shape in shapes.items()}
    return {name: np.stack([(missing if row is None else row)[name].ravel() for row in rows]) for name in shapes}


def _shapes(bench: RoundBench) -> Mapping[str, tuple[int, ...]]:
    """Return the shapes of the model that is played: with many entries a few repetitions tell its noise."""
    return SMALL if bench.processing.hides_client else SHAPES


def _updates(bench: RoundBench, sequence: RoundSequence, place: int, *, takes_part: bool) -> list[Tensors]:
    """Return the updates of a round, the client's first; it is in the weights alone, which have the most entries."""
    clip, count, shapes = bench.claim.clip_norm, bench.claim.clients, _shapes(bench)
    faint = spread(shapes, FAINT * clip)
    replies = min(count - 1, max(2, int(sequence.share * count))) if sequence.share < 1 else count
    crowd = [spread(shapes, sign * sequence.crowd * clip) for sign in (1, -1)]
    updates = [faint, *(crowd * count)[: replies - 1]]
    if place == sequence.place and takes_part:
        own = spread({"weight": shapes["weight"]}, -min(sequence.size * clip, 1e30))  # against the sign of the others
        updates[0] = {**faint, **own}
    if sequence.outlier:
        updates[-1] = spread(shapes, sequence.outlier * clip)
    return updates[1:] if place != sequence.place and sequence.leaves else updates
