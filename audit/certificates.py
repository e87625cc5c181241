"""What simulation says of an audit's own statistics: how often they are wrong, and what they would have caught.

Both are about one game with its estimators, its number of scores and its share of the error budget. Results are kept for the
life of the process, since many attacks and recipes share them. How many audits are simulated depends on the estimators and the
number of scores alone, never on the clock, so that a report comes out the same on every machine.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from audit import planning
from audit.core import checks
from audit.core.bounds import Certificate, Claim, Detectable, LowerBound
from audit.core.game import Game, Inclusion
from audit.core.mechanism import DpSgd, Mechanism
from audit.core.protocols import Estimator
from audit.core.records import Scores
from audit.core.seeds import Seed
from audit.stats.laws import Law

REPETITIONS = 200
FEWER = (200, 100, 50, 20)  # taken in place of more where those would take long; fewer than the last say nothing
DRAWS = (25, 15, 10)
BUDGET, REACH_BUDGET = 2.0, 6.0  # about so many seconds on one core for each question; for the least that is told

# about how long one bound takes, and one on scores that show nothing, in seconds on one core
SECONDS = {
    "clopper_pearson": (0.002, 0.002),
    "fdp_rank": (0.15, 0.03),
    "gaussian": (0.1, 0.02),
    "one_run": (0.002, 0.001),
    "one_run_fdp": (0.03, 0.003),
    "product_channel": (0.01, 0.005),
    "rank_exact": (0.005, 0.003),
    "sequential": (0.02, 0.02),
}
SAMPLED_FACTOR = {"fdp_rank": 2.0, "one_run_fdp": 50.0, "product_channel": 20.0}  # more for a curve without closed form
FULL_SIZE = 2000  # scores from which on the simulations behind a bound no longer grow
UNKNOWN = (0.1, 0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One way from scores to "the largest bound": all that its error rate depends on.

    Attributes:
        level: confidence of each single bound.
        attacks: the estimators of each attack on the same runs; the largest bound of all is the path's.
    """

    text: str = field(init=False)
    attacks: tuple[tuple[Estimator, ...], ...] = field(compare=False)
    game: Game = field(compare=False)
    mechanism: Mechanism | None = field(compare=False)
    delta: float = field(compare=False)
    level: float = field(compare=False)

    def __post_init__(self) -> None:
        checks.open_probability(self.level, "level")
        parts = (self.attacks, self.game, self.mechanism, self.delta, self.level)
        object.__setattr__(self, "text", repr(parts))

    @property
    def estimators(self) -> tuple[Estimator, ...]:
        """The estimators of all attacks, each once."""
        return tuple({repr(one): one for attack in self.attacks for one in attack}.values())

    @property
    def simulable(self) -> bool:
        """Whether coins decide, and a canary is one record: copies are judged by group privacy, which is not simulated."""
        return self.game.inclusion is Inclusion.COINS and self.game.copies == 1

    @property
    def scores(self) -> int:
        """How many scores each attack gives."""
        return self.game.canaries * self.game.runs


@functools.lru_cache(maxsize=512)
def certify(path: Path, repetitions: int = REPETITIONS) -> tuple[Certificate, ...]:
    """How often "the largest bound of this path" was above the truth, on scores of nothing and of randomised response.

    On randomised response every threshold has the same likelihood ratio, so a search that is not paid for shows most.
    Estimators inside a family of trade-off curves are tried on scores of nothing only: randomised response is in no such
    family. Nothing is returned where even twenty audits would take long, or the game decides no membership by coins or plants
    copies.
    """
    if not path.simulable or not path.estimators:
        return ()
    laws = (Law(kind="null", delta=path.delta), Law(kind="flat", parameter=1.0, delta=path.delta))
    found = []
    for law in laws:
        inside = {repr(one) for one in path.estimators if law.kind != "null" and family_of(one, path) is not None}
        taking_part = [[one for one in attack if repr(one) not in inside] for attack in path.attacks]
        costs = sum(_seconds(one, path)[law.kind == "null"] for attack in taking_part for one in attack)
        count = _affordable(min(repetitions, FEWER[0]), costs, FEWER, BUDGET) if repetitions <= FEWER[0] else repetitions
        if any(taking_part) and count:
            found.append(_tried(path, law, taking_part, count))
    return tuple(found)


def _tried(path: Path, law: Law, attacks: Sequence[Sequence[Estimator]], repetitions: int) -> Certificate:
    wrong = 0
    for repetition in range(repetitions):
        stream = Seed(0).child(f"certificate:{law.kind}", repetition)
        played = zip(attacks, _views(law, path, stream), strict=True)
        bounds = [
            one.lower_bound(view, delta=path.delta, confidence=path.level, seed=stream.child("bound", index)).epsilon
            for index, (one, view) in enumerate((one, view) for attack, view in played for one in attack)
        ]
        wrong += max(bounds) > law.epsilon
    nominal = min(1.0, sum(len(attack) for attack in attacks) * (1 - path.level))
    return Certificate(law=law.name, epsilon=law.epsilon, wrong=wrong, repetitions=repetitions, nominal=nominal)


@functools.lru_cache(maxsize=512)
def detectable(path: Path, claims: tuple[Claim, ...] = (), power: float = planning.POWER) -> tuple[Detectable, ...]:
    """For each estimator the least true epsilon that this audit would have caught with chance `power`.

    Caught means a bound above the smallest claim that the estimator can refute; above 0 where nothing is claimed that it could.
    Scores are those of the best attack on a Gaussian mechanism of that epsilon. Estimators for which even ten simulated audits
    at each epsilon would take long are left out.
    """
    if not path.simulable:
        return ()
    found = []
    for estimator in path.estimators:
        seconds = 3 * _seconds(estimator, path)[0]
        draws = _affordable(DRAWS[0], seconds, DRAWS, BUDGET) or _affordable(DRAWS[-1], seconds, DRAWS, REACH_BUDGET)
        if not draws:
            continue
        probe = _probe(estimator, path)
        claim = min((one.epsilon for one in claims if one.can_be_refuted_by(probe)), default=0.0)
        claim = claim if math.isfinite(claim) else 0.0
        question = planning.Question(delta=path.delta, confidence=path.level, claim=claim, power=power, draws=draws)
        tolerance = 0.05 if draws == DRAWS[0] else 0.15
        epsilon = planning.detectable(estimator, path.game, question, path.mechanism, tolerance=tolerance)
        found.append(
            Detectable(estimator=probe.estimator, family=probe.family, claim=claim, epsilon=epsilon, power=power, draws=draws)
        )
    return tuple(found)


def family_of(estimator: Estimator, path: Path) -> str | None:
    """The trade-off family inside which an estimator's bounds hold, or None."""
    return _probe(estimator, path).family


def _probe(estimator: Estimator, path: Path) -> LowerBound:
    """A bound on a few scores that show nothing."""
    count = min(max(path.scores, 2), 20)
    included = np.arange(count) % 2 == 0
    scores = Scores(values=np.arange(float(count)), included=included, game=path.game, mechanism=path.mechanism)
    return estimator.lower_bound(scores, delta=path.delta, confidence=path.level, seed=Seed(0))


def _seconds(estimator: Estimator, path: Path) -> tuple[float, float]:
    kind = type(estimator).__module__.rsplit(".", maxsplit=1)[-1]
    usual, nothing = SECONDS.get(kind, UNKNOWN)
    factor = 0.3 + 0.7 * min(path.scores / FULL_SIZE, 1.0) if kind in ("gaussian", "fdp_rank") else 1.0
    inside = kind == "fdp_rank" or getattr(estimator, "family", None) == "dp_sgd"
    if inside and isinstance(path.mechanism, DpSgd) and path.mechanism.sample_rate < 1:
        factor *= SAMPLED_FACTOR.get(kind, 10.0)
    return factor * usual, factor * nothing


def _affordable(wanted: int, seconds: float, choices: tuple[int, ...], budget: float) -> int:
    """`wanted`, else the largest of `choices` below it, that fits into the budget; 0 where none does."""
    if wanted < choices[-1]:
        return wanted
    return max((count for count in (wanted, *choices) if count <= wanted and count * seconds <= budget), default=0)


def _views(law: Law, path: Path, seed: Seed) -> list[Scores]:
    """Scores of several attacks on one simulated game: the first undisturbed, the others noisier."""
    count = max(path.scores, 2)
    included = seed.child("coins").numpy().random(count) < path.game.inclusion_probability
    if included.all() or not included.any():
        included[0] = not included[0]
    best = law.draw(included, seed.child("scores").numpy())
    spread = float(np.std(best)) or 1.0
    noise = [index * spread / 4 * seed.child("noise", index).numpy().normal(size=count) for index in range(len(path.attacks))]
    like = Scores(values=best, included=included, game=path.game, mechanism=path.mechanism)
    return [replace(like, values=best + one) for one in noise]
