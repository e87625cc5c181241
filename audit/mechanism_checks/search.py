"""The search for the most informative pair of data sets and event, on outputs that prove nothing afterwards."""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.data import Array
from audit.mechanism_checks.outputs import OutputEncoder
from audit.mechanism_checks.sampling import Outputs, Pair, Sampler
from audit.mechanism_checks.scores import Score, learned_scores
from audit.stats.bounds import planned_event
from audit.stats.bounds.planned_event import Goal, PlannedEvent
from audit.stats.bounds.rank_exact import Precedence

Scores = Callable[[Array, Array], Iterable[tuple[str, Score]]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChosenEvent:
    """An event on outputs, and how it is counted on others.

    Attributes:
        name: of the score.
        score: orders encoded outputs.
        event: which of them count.
        encoder: from outputs to rows.
    """

    name: str
    score: Score
    event: PlannedEvent
    encoder: OutputEncoder

    def values(self, outputs: Outputs) -> Array:
        """Return the score of each output."""
        return self.score(self.encoder.encode(outputs))

    def test(self, first: Outputs, second: Outputs, generator: np.random.Generator) -> Precedence:
        """Return the counts of the event on fresh outputs of either side."""
        return self.event.test(planned_event.order(self.values(first), self.values(second), generator))

    def describe(self) -> str:
        side, place = ("neighbour", "highest") if self.event.from_top else ("data", "lowest")
        return f"{self.name}: the {place} {self.event.share:.3g} of the outputs on the {side}"


def choose(
    first: Outputs, second: Outputs, goals: Sequence[Goal], generator: np.random.Generator, scores: Scores = learned_scores
) -> list[ChosenEvent]:
    """The event that promises most for each goal, cross-fitted: what is learned on either half of the outputs orders the other.

    Outputs that are counted afterwards are ordered by the mean of what both halves taught, which has less error than either.
    """
    encoder = OutputEncoder.of(_together(first, second))
    rows = [encoder.encode(outputs) for outputs in (first, second)]
    halves = [[side[part::2] for side in rows] for part in (0, 1)]
    first_scores, second_scores = (dict(scores(*half)) for half in halves)
    best: list[ChosenEvent | None] = [None] * len(goals)
    for name in (name for name in first_scores if name in second_scores):
        pair = first_scores[name], second_scores[name]
        values = [(pair[0](later), pair[1](earlier)) for earlier, later in zip(*halves, strict=True)]
        members, neighbours = map(np.concatenate, values)
        ranking = planned_event.order(members, neighbours, generator)
        for at, goal in enumerate(goals):
            event, leader = planned_event.plan(ranking, goal), best[at]
            if leader is None or event.promise > leader.event.promise:
                best[at] = ChosenEvent(name=name, score=functools.partial(_mean_score, pair), event=event, encoder=encoder)
    full = PlannedEvent(share=1.0, from_top=True, promise=0.0)  # outputs that never differ: no score is left to learn
    constant = ChosenEvent(name="constant output", score=lambda rows: np.zeros(len(rows)), event=full, encoder=encoder)
    return [event or constant for event in best]


def _mean_score(pair: tuple[Score, Score], rows: Array) -> Array:
    return (pair[0](rows) + pair[1](rows)) / 2


def scout(
    sampler: Sampler, pairs: Sequence[Pair], samples: int, goal: Goal, generator: np.random.Generator
) -> list[tuple[Pair, float]]:
    """The pairs with what the goal promises, the best first: successive halving from `samples` outputs of either side on."""
    contest = [(pair, 0.0) for pair in pairs]
    ranking: list[tuple[Pair, float]] = []
    while len(contest) > 1:
        promises = [
            (pair, choose(*sampler.draw(pair, samples, generator), [goal], generator)[0].event.promise) for pair, _ in contest
        ]
        promises.sort(key=lambda row: -row[1])
        keep = len(contest) // 2
        contest, ranking, samples = promises[:keep], promises[keep:] + ranking, 2 * samples
    return contest + ranking


def _together(first: Outputs, second: Outputs) -> Outputs:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and first.shape[1:] == second.shape[1:]:
        return np.concatenate([first, second])
    return [*first, *second]
