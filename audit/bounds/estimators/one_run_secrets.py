"""One run, any mechanism: count right guesses of secrets that take one of several values."""

from dataclasses import dataclass

import numpy as np

from audit.bounds.estimators import _shared
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.errors import AssumptionError, ConfigError, DataError
from audit.core.game import Assumption, Game
from audit.core.lower_bounds import LowerBound
from audit.core.phrases import phrase
from audit.core.protocols import Pairs
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds import secret_guesses
from audit.stats.bounds.secret_guesses import SecretWalk
from audit.stats.curves.tradeoff import GroupPairs

EQUAL = 1e-12  # difference of priors
CONVERSIONS = {"none": 1, "group": 2}  # steps of the claim's adjacency that replace one value by another


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRunSecrets:
    """Guesses for each secret the value with the highest score, the surest secrets first.

    Attributes:
        guess_fractions: shares of the secrets that are guessed, registered beforehand.
        conversion: "none" bounds the epsilon of replacing one value by another and refuses a game with claims about anything
            else; "group" takes a replacement for a removal and an addition, and so bounds an add/remove epsilon too.
        named: values with the highest scores of each secret that a guess names; more than one needs equal priors. Many see a
            weaker signal, one has the highest ceiling.

    Guarantee: `epsilon` exceeds the true epsilon with probability at most `1 - confidence` if the value of each secret was
        drawn independently from its declared prior, for any dependence between scores (docs/theory/secrets.md,
        "Secrets of several values"). Secrets of several runs count as secrets of one.
    References: Steinke, Nasr and Jagielski 2023, arXiv 2305.08846, for coins; for several values and priors this project's own.
    """

    guess_fractions: tuple[float, ...] = (0.32, 1.0)
    conversion: str = "none"
    named: int = 1

    def __post_init__(self) -> None:
        checks.choice(self.conversion, "conversion", CONVERSIONS)
        if isinstance(self.named, bool) or not isinstance(self.named, int) or self.named < 1:
            raise ConfigError(f"named is {self.named!r}; expected a whole number of at least 1")
        object.__setattr__(self, "guess_fractions", _shared.read_fractions(self.guess_fractions))

    @property
    def assumes(self) -> frozenset[Assumption]:
        """Values drawn independently from declared laws; without a conversion, claims about replacing one."""
        extra = {Assumption.REPLACED_VALUES} if self.conversion == "none" else set()
        return frozenset({Assumption.INDEPENDENT_SECRETS} | extra)

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The largest epsilon that the guesses refute.

        Raises:
            AssumptionError: the game's claims are not about replacing a value, and no conversion was asked for.
            DataError: there are no secrets.
        """
        walk, pairs = self._walk(scores), self._pairs(scores.game, checks.probability(delta, "delta"))
        significance = 1 - checks.open_probability(confidence, "confidence")
        epsilon = secret_guesses.bound_along(walk, pairs, significance)
        ceiling = secret_guesses.bound_along(walk.perfect(), pairs, significance)
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="one_run_secrets",
            comparisons=len(walk.counts),
            ceiling=max(epsilon, ceiling),
            assumes=tuple(sorted(self.assumes)),
            selected=self._words(walk) if epsilon > 0 else "",
        )

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """True if the registered counts refute (epsilon, delta)-DP."""
        walk = self._walk(scores)
        converted_epsilon, converted_delta = self._pairs(scores.game, delta)(epsilon)
        claim = SecretWalk(
            counts=walk.counts, correct=walk.correct, odds=walk.odds, secrets=walk.secrets, delta=converted_delta
        )
        return converted_delta < 1 and secret_guesses.refutes(claim, converted_epsilon, 1 - confidence)

    def _pairs(self, game: Game, delta: float) -> Pairs:
        """The pairs for replacing one value that each epsilon of the game's adjacency gives."""
        largest = (game.choices - 1) / max(game.choices - self.named, 1) * delta  # of sets of values; delta for single ones
        if game.adjacency is Adjacency.REPLACE_ONE:
            return GroupPairs(delta=min(1.0, largest))
        if self.conversion == "none":
            raise AssumptionError(
                f"one run of secrets says nothing directly of an epsilon for {game.adjacency.value}, whose worst mechanism is "
                "not binomial (docs/theory/secrets.md, 'Secrets of several values'); set adjacency: replace_one in the game, "
                "or conversion: group in the estimator, which takes a replacement for two such changes"
            )
        return GroupPairs(delta=min(1.0, largest), copies=CONVERSIONS[self.conversion])

    def _words(self, walk: SecretWalk) -> str:
        right, guesses = walk.correct[-1], walk.counts[-1]
        if self.named == 1:
            return phrase("{right} of {guesses} guesses right", right=right, guesses=guesses)
        return phrase("{right} of {guesses} guesses of {named} values right", right=right, guesses=guesses, named=self.named)

    def _walk(self, scores: Scores) -> SecretWalk:
        values, drawn, prior = scores.secrets
        if not len(values):
            raise DataError("one_run_secrets needs scores of at least one secret; there are none")
        if self.named >= values.shape[1]:
            raise AssumptionError(f"a guess of {self.named} of {values.shape[1]} values says nothing; lower named")
        if self.named > 1 and float(np.ptp(prior)) > EQUAL:
            raise AssumptionError(f"named is {self.named}, which needs values that are equally likely; use named: 1")
        counts = secret_guesses.guess_counts(len(values), self.guess_fractions)
        if self.named > 1:
            return SecretWalk.of(secret_guesses.likeliest_sets(values, drawn, prior, self.named), counts, 0.0)
        return SecretWalk.of(secret_guesses.likeliest_values(values, drawn, prior), counts, 0.0)


PLUGIN = OneRunSecrets
