"""Right guesses at both ends of the ranking, all counts at once, for independent trials.

The k highest scores are guessed members and the k lowest nonmembers. How far right guesses exceed what an epsilon explains is
measured on one scale for all k, and the largest excess is the statistic. Its law is simulated under the least favourable
pair, so that neither the search over k nor delta costs anything. The proof is in docs/statistics.md, section "Both ends".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from audit.stats.bounds import rank_exact
from audit.stats.bounds.ranks import Memberships
from audit.stats.bounds.validation import Array, Counts
from audit.stats.curves import tradeoff_curves

COUNTS = 20  # numbers of guesses, about
FIRST, WIDE, FINE = 0.01, 0.04, 0.95  # of the error rate: for rank tests, wide steps and fine ones
TOGETHER = 20  # fine steps in a wide one
STEP, LEAST_STEP = 0.04, 2.5e-3  # a fine step in standard errors of the bound, and the least, relative above 1
LARGEST = 30.0  # epsilon of the last step
BLOCK, BLOCKS = 2000, 5  # simulations for a test, and so many times that where its level is small
SMALL = 4 / BLOCK  # levels below: fewer than four simulations would decide
ROUNDING = 1e-9  # excesses that are equal up to it count as reached
RATIO = 3.0  # between the ranks of the tests that tell where to begin

Pairs = Callable[[float], tuple[float, float]]
"""The (epsilon, delta) of each parameter from 0 on; neither falls as it grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What is fixed before the scores are seen.

    Attributes:
        members: and `nonmembers`: how many scores there are on either side.
        pairs: what is put to the test, by its parameter.
    """

    members: int
    nonmembers: int
    pairs: Pairs

    @property
    def scores(self) -> int:
        """Members and nonmembers together."""
        return self.members + self.nonmembers


def bound(ranked: Memberships, pairs: Pairs, significance: float) -> tuple[float, int]:
    """The end of the initial interval of refuted parameters, and the index of the count that tells most there (or -1).

    Three tests share the error rate, each with a share fixed beforehand, and a parameter that one of them refutes is refuted:
    the rank tests, whose p-values are monotone; a simulated one of each wide step of a fixed ladder; and one of each fine step.
    A step is refuted as a whole, by the test at its end, so a true parameter is tested once by each.

    Guarantee: exceeds the least parameter whose pair is true with probability at most `significance`, for independent scores,
        identically distributed on each side. The tests are nested in `significance`.
    """
    design = Design(members=int(ranked.sum()), nonmembers=int((~ranked).sum()), pairs=pairs)
    right, edges = right_guesses(ranked), ladder(design)
    found = _begin(ranked, pairs, significance)
    step = int(np.searchsorted(edges, found, side="right")) - 1
    while step < len(edges) - 1 and (further := _refuted_to(design, right, step, significance)) > step:
        step, found = further, float(edges[further])
    return found, int(np.argmax(excess(right, pairs(found)[0], design))) if found > 0 else -1


def refutes(ranked: Memberships, epsilon: float, pairs: Pairs, significance: float) -> bool:
    """Whether one of the tests of `bound` refutes the parameter `epsilon`."""
    design = Design(members=int(ranked.sum()), nonmembers=int((~ranked).sum()), pairs=pairs)
    edges = ladder(design)
    if epsilon >= edges[-1]:
        return False
    curve = tradeoff_curves.epsilon_delta(*pairs(epsilon))
    if rank_exact.refutes(rank_exact.precedence_tests(ranked, RATIO), curve, significance=FIRST * significance):
        return True
    step = int(np.searchsorted(edges, epsilon, side="right")) - 1
    return _refuted_to(design, right_guesses(ranked), step, significance) > step


def _begin(ranked: Memberships, pairs: Pairs, significance: float) -> float:
    tests = rank_exact.precedence_tests(ranked, RATIO)
    return rank_exact.bound(
        tests,
        lambda parameter: tradeoff_curves.epsilon_delta(*pairs(parameter)),
        significance=FIRST * significance,
        resolution=1e-4,
        largest=LARGEST / pairs(1.0)[0],
    )[0]


def _refuted_to(design: Design, right: Counts, step: int, significance: float) -> int:
    """The end of the step that begins at edge `step`, of the wide one around it where that is refuted; else `step` itself."""
    start = step - step % TOGETHER
    end = min(start + TOGETHER, len(ladder(design)) - 1)
    if _refuted(design, right, (start, end), WIDE * significance):
        return end
    return step + 1 if _refuted(design, right, (step, step + 1), FINE * significance) else step


def _refuted(design: Design, right: Counts, step: tuple[int, int], level: float) -> bool:
    """Whether every parameter of a step is refuted at `level`, by `BLOCK` simulations or, where that is small, by more.

    More simulations refute only what the first of them refute at the finest level that they serve.
    """
    seen = float(excess(right, design.pairs(float(ladder(design)[step[1]]))[0], design).max()) - ROUNDING
    if seen <= 0:
        return False

    def p_value(blocks: int) -> float:
        reached = sum(BLOCK - int(np.searchsorted(simulated(design, step, block), seen)) for block in range(blocks))
        return (1 + reached) / (1 + BLOCK * blocks)

    if level >= SMALL:
        return p_value(1) <= level
    return p_value(1) <= SMALL and p_value(BLOCKS) <= level


@functools.lru_cache(maxsize=512)
def simulated(design: Design, step: tuple[int, int], block: int) -> Array:
    """`(BLOCK,)` largest excesses over the end of a step where the least favourable pair of that end holds, ascending.

    The stream is fixed by the design: no caller can draw again.
    """
    end = design.pairs(float(ladder(design)[step[1]]))
    generator = np.random.default_rng([design.members, design.nonmembers, *step, block])
    return np.sort(excess(simulate(design, *end, BLOCK, generator), end[0], design).max(axis=1))


@functools.lru_cache(maxsize=64)
def ladder(design: Design) -> Array:
    """Rising parameters from 0, where steps begin and end; they depend on the numbers of scores and on the pairs alone."""
    edges, slope = [0.0], design.pairs(1.0)[0]
    while (epsilon := slope * edges[-1]) < LARGEST:
        rate = 1 / (1 + math.exp(-epsilon))
        error = 1 / math.sqrt(design.scores * rate * (1 - rate))
        edges.append(edges[-1] + max(min(STEP * error, 1.0), LEAST_STEP * max(1.0, epsilon)) / slope)
    return np.array(edges)


@functools.lru_cache(maxsize=64)
def counts(scores: int) -> Counts:
    """How many scores are guessed at either end: all numbers up to half of a few scores, else about `COUNTS`, geometrically.

    >>> counts(12).tolist()
    [1, 2, 3, 4, 5, 6]
    """
    half = max(1, scores // 2)
    return np.unique(np.rint(np.geomspace(1, half, min(half, COUNTS))).astype(np.int64))


def right_guesses(ranked: Memberships) -> Counts:
    """`(J,)`: members among the k highest and nonmembers among the k lowest, for each of `counts`.

    >>> right_guesses(np.array([True, False, True, False])).tolist()
    [2, 2]
    """
    each = counts(len(ranked))
    above = np.concatenate([[0], np.cumsum(ranked, dtype=np.int64)])
    below = np.concatenate([[0], np.cumsum(~ranked[::-1], dtype=np.int64)])
    return np.asarray(above[each] + below[each])


def excess(right: Counts, epsilon: float, design: Design) -> Array:
    """`(..., J)` right guesses as standard normal deviates: signed roots of their deviance from `epsilon`.

    A top guess counts as right with log odds `epsilon + log(members / nonmembers)`, one at the bottom with `epsilon` less that;
    half a guess is taken off for continuity. Grows with the right guesses and falls with epsilon, whatever the scores' law.
    """
    each, lean = counts(design.scores).astype(np.float64), math.log(design.members / design.nonmembers)
    mean = np.maximum((right - 0.5) / each, 1e-12)  # of two guesses, one at either end
    turn = 2 * math.cosh(lean) * (1 - mean)  # their fitted odds solve (2 - mean) odds^2 + turn odds = mean
    root = np.sqrt(turn**2 + 4 * mean * (2 - mean))
    fitted = np.log(np.where(mean < 1, 2 * mean / (np.abs(turn) + root), (np.abs(turn) + root) / (2 * (2 - mean))))
    deviance = mean * (fitted - epsilon)
    for sign in (1.0, -1.0):
        deviance -= np.logaddexp(0.0, fitted + sign * lean) - np.logaddexp(0.0, epsilon + sign * lean)
    return np.asarray(np.sign(fitted - epsilon) * np.sqrt(2 * each * np.maximum(deviance, 0.0)))


def simulate(design: Design, epsilon: float, delta: float, rows: int, generator: np.random.Generator) -> Counts:
    """`(rows, J)` right guesses under the least favourable pair of (epsilon, delta)-DP.

    That pair is randomised response with a share delta of either side given away: from the top stand members given away, the
    answers "member" in random order, the answers "nonmember" in random order, and the nonmembers given away.
    """
    each, rate = counts(design.scores), 1 / (1 + math.exp(-epsilon))
    surely = [generator.binomial(side, min(delta, 1.0), rows) for side in (design.members, design.nonmembers)]
    high = generator.binomial(design.members - surely[0], rate)
    wrong = generator.binomial(design.nonmembers - surely[1], 1 - rate)
    top, bottom = _Deck(high, wrong), _Deck(design.members - surely[0] - high, design.nonmembers - surely[1] - wrong)
    cuts = np.concatenate([each, design.scores - each[::-1]])
    above = np.empty((len(cuts), rows), dtype=np.int64)  # members among so many highest scores
    for row, cut in enumerate(cuts.tolist()):
        first = np.minimum(cut, surely[0])
        within = cut - surely[0]
        above[row] = first + top.members_in(within, generator) + bottom.members_in(within - top.cards, generator)
    in_top, in_rest = above[: len(each)], above[len(each) :][::-1]
    return np.asarray((in_top + each[:, None] - (design.members - in_rest)).T)


class _Deck:
    """Cards of members and nonmembers in random order, dealt from the top a few at a time, in each of many simulations."""

    def __init__(self, members: Counts, nonmembers: Counts) -> None:
        self.members, self.nonmembers, self.cards = members, nonmembers, members + nonmembers
        self.dealt, self.drawn = np.zeros_like(members), np.zeros_like(members)

    def members_in(self, cards: Counts, generator: np.random.Generator) -> Counts:
        """Members among the first `cards` (rising from call to call; taken for 0 below it and for all beyond the deck)."""
        more = np.clip(cards, 0, self.cards) - self.dealt
        if more.any():
            left = self.members - self.drawn
            self.drawn = self.drawn + generator.hypergeometric(left, self.cards - self.dealt - left, more)
            self.dealt = self.dealt + more
        return self.drawn
