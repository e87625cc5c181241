"""What simulation says of an audit's own statistics: how often they are wrong, and which leaks they would have caught.

Both are about one game with its estimators, its number of scores and its share of the error budget. Results are kept for the
life of the process, since many attacks and recipes share them. How many audits are simulated depends on the estimators and the
number of scores alone, never on the clock, so that a report comes out the same on every machine.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from audit.bounds import budget, claim_test, known_laws, simulation_costs
from audit.bounds import power as planning
from audit.bounds.known_laws import KnownLaw
from audit.core import checks
from audit.core.claims import OUTSIDE, Certificate, Claim, Detectable
from audit.core.errors import ConfigError
from audit.core.events import Event
from audit.core.game import Game, Inclusion
from audit.core.protocols import AnytimeEstimator, Estimator
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import binomial

REPETITIONS = 200
FEW_REPETITIONS = (200, 100, 50, 20)  # taken in place of more if those would take long; fewer than the last say nothing
DRAWS = (100, 50, 20)
LOOKS = 5  # at each simulated audit, until it is known what would have been caught


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One way from scores to "the largest bound": all that its error rate depends on.

    Attributes:
        attacks: the estimators of each attack on the same runs; the largest bound of all is the path's.
        together: each estimator bounds all attacks at once, and the audit may stop at any time.
        members: as many as the audit has, for estimators that take them as given; None takes as many as coins give on average.
    """

    # compared and hashed by this text alone: the key of the caches below
    text: str = field(init=False)
    attacks: tuple[tuple[Estimator, ...], ...] = field(compare=False)
    game: Game = field(compare=False)
    mechanism: Event | None = field(compare=False)
    delta: float = field(compare=False)
    level: float = field(compare=False)
    together: bool = field(default=False, compare=False)
    members: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        checks.open_probability(self.level, "level")
        parts = (self.attacks, self.game, self.mechanism, self.delta, self.level, self.together, self.members)
        object.__setattr__(self, "text", repr(parts))

    @property
    def estimators(self) -> tuple[Estimator, ...]:
        """The estimators of all attacks, each once."""
        return tuple({repr(estimator): estimator for attack in self.attacks for estimator in attack}.values())

    def wrong(self, attacks: Sequence[Sequence[Estimator]], audit: SimulatedAudit, truth: float, seed: Seed) -> bool:
        """True if a test refutes the epsilon `truth`: in a game that may stop, at any time, so at the worst one."""
        question = {"epsilon": truth, "delta": self.delta, "confidence": self.level}
        if self.together:
            anytime = [estimator for estimator in attacks[0] if isinstance(estimator, AnytimeEstimator)]
            return any(estimator.ever_refutes(audit.views(estimator), **question) for estimator in anytime)
        return any(
            claim_test.refutes(estimator, view, **question, seed=seed.child("bound", index))
            for index, (estimator, view) in enumerate(audit.pairs(attacks))
        )

    def above(self, attacks: Sequence[Sequence[Estimator]], audit: SimulatedAudit, truth: float, seed: Seed) -> bool:
        """True if a bound, searched for and converted as the audit does, is above the epsilon `truth`."""
        return any(
            bound.epsilon > truth
            for estimator, view in audit.pairs(attacks)
            for bound in budget.bounds(view, [estimator], delta=self.delta, confidence=self.level, seed=seed)
        )

    @property
    def simulable(self) -> bool:
        """True if the auditor's draws decide, so that scores of a known law mean what the game's mean."""
        return self.game.inclusion is Inclusion.COINS

    def at_size_of(self, scores: Scores) -> Path:
        """The path with as many members as `scores` has, unless it has fewer scores or all estimators ask that coins decide."""
        is_same = len(scores.values) == self.scores and self.game.choices == 1
        return (
            replace(self, members=int(scores.included.sum()))
            if is_same and not all(map(planning.asks_coins, self.estimators))
            else self
        )

    @property
    def scores(self) -> int:
        """Return how many scores each attack gives."""
        return self.game.canaries * self.game.runs * self.game.choices


def find_path(estimator: Estimator, scores: Scores, *, delta: float, level: float) -> Path:
    """The way from these scores to one bound: simulated audits have as many members, unless coins have to decide that."""
    game = scores.game
    if game.canaries * game.runs != len(scores.values):
        game = planning.with_scores(game, len(scores.values))
    path = Path(attacks=((estimator,),), game=game, mechanism=scores.mechanism, delta=delta, level=level)
    return path.at_size_of(scores)


def quick(path: Path) -> tuple[Certificate, ...]:
    """`certify` with as many audits as fit into about a quarter of a second for each law; nothing if twenty tests do not."""
    estimators = [estimator for attack in path.attacks for estimator in attack]
    tests = sum(simulation_costs.claim_seconds(estimator, path.scores) for estimator in estimators)
    bounds = sum(simulation_costs.bound_seconds(estimator, path.level) for estimator in estimators) / simulation_costs.WHOLE
    terms = FEW_REPETITIONS, simulation_costs.QUICK
    # two bounds may take somewhat longer
    count = simulation_costs.affordable(REPETITIONS, tests + bounds, *terms) or simulation_costs.affordable(
        FEW_REPETITIONS[-1], tests, *terms
    )
    return certify(path, count) if count else ()


@functools.lru_cache(maxsize=512)
def certify(path: Path, repetitions: int = REPETITIONS) -> tuple[Certificate, ...]:
    """Return how often "the largest bound of this path" was above the truth, under each of `known_laws.laws_to_try`.

    An estimator takes part if the law is in its family. Every audit puts the truth to the tests; every tenth, or fewer if
    bounds take long at this level, also makes its bounds by the audit's own search. The limits are the wider ones of the two
    rates, so that a search that fails is seen among the bounds that were made and not thinned out by the others. Nothing is
    returned if even twenty audits would take long, or the game decides no membership by coins.

    Raises:
        ConfigError: more than `REPETITIONS` audits were asked for, which are made whatever they take, and they would take
            longer than about `simulation_costs.MOST_SECONDS` for a law; or fewer than none.
    """
    if repetitions < 0:
        raise ConfigError(f"{repetitions} simulated audits were asked for; expected 0 or more")
    if not path.simulable or not path.estimators:
        return ()
    families = {find_family(estimator, path) for estimator in path.estimators}
    if families == {None} and path.mechanism is not None and all(map(_is_own, path.estimators)):
        return certify(replace(path, mechanism=None), repetitions)  # about any mechanism: the recipes of a report share it
    certificates = []
    for law in known_laws.laws_to_try(families, path.game, path.mechanism, path.delta):
        taking_part = [
            [estimator for estimator in attack if find_family(estimator, path) in law.families and _speaks(estimator, path)]
            for attack in path.attacks
        ]
        count, searches = _count_audits(path, [estimator for attack in taking_part for estimator in attack], repetitions)
        if any(taking_part) and count:
            certificates.append(_certificate(path, law, taking_part, (count, searches)))
    return tuple(certificates)


def _count_audits(path: Path, estimators: Sequence[Estimator], repetitions: int) -> tuple[int, int]:
    """Return how many audits are simulated, and in how many of them bounds are made."""
    if repetitions > REPETITIONS:
        seconds = sum(simulation_costs.audit_seconds(estimator, path.scores, path.level) for estimator in estimators)
        return simulation_costs.within_limit(repetitions, seconds), repetitions // simulation_costs.WHOLE
    tests = sum(simulation_costs.claim_seconds(estimator, path.scores) for estimator in estimators)
    count = simulation_costs.affordable(repetitions, tests, FEW_REPETITIONS)
    bounds = sum(simulation_costs.bound_seconds(estimator, path.level) for estimator in estimators)
    return count, simulation_costs.affordable_bounds(count, bounds) if bounds else 0


def _certificate(path: Path, law: KnownLaw, attacks: Sequence[Sequence[Estimator]], audits: tuple[int, int]) -> Certificate:
    """Count wrong audits; `audits` are how many there are, and in how many of them bounds are made."""
    (repetitions, most), wrong, above, searches = audits, 0, 0, 0
    for repetition in range(repetitions):
        stream = Seed(0).child(f"certificate:{law.name}", repetition)
        question = attacks, _simulated_audit(law, path, stream), law.epsilon, stream
        is_searched = not path.together and repetition * most % repetitions < most
        refutes = path.wrong(*question)
        is_above = is_searched and path.above(*question)
        wrong, above, searches = wrong + (refutes or is_above), above + is_above, searches + is_searched
    counts = [(wrong, repetitions), *([(above, searches)] if searches else [])]
    bounds = sum(len(attack) for attack in (attacks[:1] if path.together else attacks))
    return Certificate(
        law=law.name if path.game.copies == 1 else f"{law.name}, of {path.game.copies} copies together",
        epsilon=law.epsilon,
        wrong=wrong,
        repetitions=repetitions,
        nominal=min(1.0, bounds * (1 - path.level)),
        lower=max(float(binomial.rate_lower(*count, OUTSIDE / 2)) for count in counts),
        upper=max(float(binomial.rate_upper(*count, OUTSIDE / 2)) for count in counts),
    )


@functools.lru_cache(maxsize=512)
def detectable(
    path: Path, claims: tuple[Claim, ...] = (), power: float = planning.POWER, *, patient: bool = False
) -> tuple[Detectable, ...]:
    """For each estimator the least true epsilon that this audit would have caught with chance `power`.

    Caught means a bound above the smallest claim that the estimator can refute; above 0 if nothing is claimed that it could.
    Scores are those of the best attack on a Gaussian mechanism of that epsilon. Estimators for which even twenty simulated
    audits at each epsilon would take long are left out, and those inside a family that copies of a canary leave.

    Args:
        patient: simulate up to 1,000 audits, as long as `planning.PATIENCE` allows, for a plan that somebody waits for.
    """
    if path.game.inclusion is not Inclusion.COINS:
        return ()
    choices, limit = ((*planning.DRAW_CHOICES, *DRAWS), planning.PATIENCE) if patient else (DRAWS, simulation_costs.BUDGET)
    detectables = []
    for estimator in path.estimators:
        seconds = LOOKS * simulation_costs.claim_seconds(estimator, path.scores)
        draws = simulation_costs.affordable(choices[0], seconds, choices, limit)
        if not draws or not _speaks(estimator, path):
            continue
        probe = claim_test.probe(estimator, path.game, path.mechanism, path.delta)
        claim = min((claim.epsilon for claim in claims if claim.can_be_refuted_by(probe)), default=0.0)
        claim = claim if math.isfinite(claim) else 0.0
        # wealth is averaged over attacks: the best of them has to win so many times more alone
        level = 1 - (1 - path.level) / len(path.attacks) if path.together else path.level
        question = planning.Question(delta=path.delta, confidence=level, claim=claim, power=power, draws=draws)
        epsilon = planning.detectable(estimator, path.game, question, path.mechanism, members=path.members)
        detectables.append(
            Detectable(estimator=probe.estimator, family=probe.family, claim=claim, epsilon=epsilon, power=power, draws=draws)
        )
    return tuple(detectables)


def _is_own(estimator: Estimator) -> bool:
    """True if it is known to read the mechanism only inside a family; a user's may read it for any purpose."""
    return type(estimator).__module__.startswith("audit.")


def _speaks(estimator: Estimator, path: Path) -> bool:
    """True if its bounds speak of a single record: copies of a canary leave the family of DP-SGD."""
    return path.game.copies == 1 or find_family(estimator, path) in (None, "gdp")


def find_family(estimator: Estimator, path: Path) -> str | None:
    """The trade-off family inside which an estimator's bounds hold, or None."""
    return claim_test.find_family(estimator, path.game, path.mechanism, path.delta)


@dataclass(frozen=True, slots=True)
class SimulatedAudit:
    """Scores of several attacks on one simulated game: the first undisturbed, the others noisier.

    Attributes:
        tables: of estimators that ask that coins decide how many members there are (True), and of the others (False): as many
            as the audit has, of the same coins, so that both differ in few canaries.
    """

    tables: Mapping[bool, Sequence[Scores]]

    def views(self, estimator: Estimator) -> Sequence[Scores]:
        """Return the scores of each attack, under the memberships that the estimator is about."""
        return self.tables[planning.asks_coins(estimator)]

    def pairs(self, attacks: Sequence[Sequence[Estimator]]) -> list[tuple[Estimator, Scores]]:
        """Return each estimator of each attack with the attack's scores."""
        return [(estimator, self.views(estimator)[index]) for index, attack in enumerate(attacks) for estimator in attack]


def _simulated_audit(law: KnownLaw, path: Path, seed: Seed) -> SimulatedAudit:
    kinds = set(map(planning.asks_coins, path.estimators))
    if path.game.choices > 1:
        return SimulatedAudit(dict.fromkeys(kinds, _views(_secret_scores(law, path, seed), path, seed)))
    count = max(path.scores, 2)
    coins = seed.child("coins").numpy().random(count)
    members = path.members or round(count * path.game.inclusion_probability)
    sides = {True: coins < path.game.inclusion_probability, False: np.argsort(coins) < members}
    return SimulatedAudit({kind: _views(_coin_scores(law, path, sides[kind], seed), path, seed) for kind in kinds})


def _views(best: Scores, path: Path, seed: Seed) -> list[Scores]:
    spread, count = float(np.std(best.values)) or 1.0, len(best.values)
    noise = [index * spread / 4 * seed.child("noise", index).numpy().normal(size=count) for index in range(len(path.attacks))]
    return [replace(best, values=best.values + offset) for offset in noise]


def _coin_scores(law: KnownLaw, path: Path, included: NDArray[np.bool_], seed: Seed) -> Scores:
    """Scores of canaries in or out, at least one on either side."""
    if included.all() or not included.any():
        included[0] = not included[0]
    values = law.draw(included, seed.child("scores").numpy())
    return Scores(values=values, included=included, game=path.game, mechanism=path.mechanism)


def _secret_scores(law: KnownLaw, path: Path, seed: Seed) -> Scores:
    """Scores of secrets with equally likely values."""
    truth = seed.child("secrets").numpy().integers(path.game.choices, size=path.game.canaries * path.game.runs)
    return claim_test.secret_scores(path.game, law.draw(truth, seed.child("scores").numpy()), truth, path.mechanism)
