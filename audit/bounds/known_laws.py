"""Laws of scores with a known epsilon for one record, on which a certificate tries an audit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from audit.core.adjacency import Adjacency
from audit.core.data import Array
from audit.core.events import Event
from audit.core.game import Assumption, Game
from audit.event_curves import find_curves
from audit.stats.bounds import reconstruction, score_distributions
from audit.stats.bounds.score_distributions import ScoreLaw
from audit.stats.curves import tradeoff
from audit.stats.curves.tradeoff import TradeoffCurve

FLAT = 1.0  # epsilon of a record on the law in which every threshold has the same likelihood ratio
TIED = 2.5  # and of answers without a confidence, which a choice of ranks can tell from each other by luck of the sizes
SIGNAL = 1.0  # mu of a record on the law of Gaussian differential privacy


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLaw:
    """A law of scores and what is true of it.

    Attributes:
        families: of trade-off curves that the law is in; None represents estimators that hold for any mechanism.
        draw: scores `(n,)` for memberships `(n,)`; of secrets `(s, k)` for the values `(s,)` that they took.
    """

    name: str
    epsilon: float
    families: tuple[str | None, ...]
    draw: Callable[[Array, np.random.Generator], Array]


def laws_to_try(families: Collection[str | None], game: Game, mechanism: Event | None, delta: float) -> list[KnownLaw]:
    """Return nothing, randomised response, and the least favourable law of each family at a positive parameter.

    On randomised response every threshold has the same likelihood ratio, so a search that is not paid for shows most. Tests of
    independent trials are tried on its tied answers too, at a larger epsilon: a defect may show at one epsilon only. With
    copies a law is that of all copies together.
    """
    if game.choices > 1:
        return _secret_laws(families, game, mechanism, delta)
    laws = _coin_laws(families, game.copies, mechanism, delta)
    if Assumption.INDEPENDENT_TRIALS not in game.grants:
        return laws
    flat = ScoreLaw(kind="flat", parameter=TIED * game.copies, delta=delta)
    name = f"{flat.name}, tied scores"
    return [*laws, KnownLaw(name=name, epsilon=TIED, families=(None,), draw=lambda *drawing: np.sign(flat.draw(*drawing)))]


def _coin_laws(families: Collection[str | None], copies: int, mechanism: Event | None, delta: float) -> list[KnownLaw]:
    """Laws of the scores of canaries that are in or out."""
    null, flat = ScoreLaw(kind="null", delta=delta), ScoreLaw(kind="flat", parameter=FLAT * copies, delta=delta)
    laws = [
        KnownLaw(name=null.name, epsilon=0.0, families=(None, "gdp", "dp_sgd"), draw=null.draw),
        KnownLaw(name=flat.name, epsilon=FLAT, families=(None,), draw=flat.draw),
    ]
    if "gdp" in families:
        gaussian = ScoreLaw(kind="gaussian", parameter=SIGNAL * copies, delta=delta)
        truth = tradeoff.gdp_epsilon(SIGNAL, delta)
        laws.append(
            KnownLaw(name=f"Gaussian, mu {gaussian.parameter:g}", epsilon=truth, families=(None, "gdp"), draw=gaussian.draw)
        )
    curves = find_curves(mechanism)
    if "dp_sgd" in families and curves is not None and copies == 1:
        draw = functools.partial(score_distributions.draw_curve_scores, curves.at(curves.noise_multiplier))
        truth = curves.epsilon(curves.noise_multiplier, delta)
        laws.append(KnownLaw(name="DP-SGD as claimed", epsilon=truth, families=("dp_sgd",), draw=draw))
    return laws


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretResponse:
    """Randomised response of secrets: the value is named with a chance that no guarantee of its curve exceeds.

    Attributes:
        success: chance that the value is named, the others sharing the rest.
        reveal: part of it, in which the value is given away and seen to be.
    """

    choices: int
    success: float
    reveal: float = 0.0

    @classmethod
    def of(cls, curve: TradeoffCurve, game: Game, reveal: float = 0.0) -> SecretResponse:
        """The one that a guarantee with this curve just allows (docs/theory/secrets.md, "Reconstruction")."""
        replacing = game.adjacency is Adjacency.REPLACE_ONE
        success = reconstruction.success_allowed(curve, game.choices, replace=replacing)
        return cls(choices=game.choices, success=success, reveal=reveal)

    def draw(self, truth: Array, generator: np.random.Generator) -> Array:
        """Scores `(s, k)`: the value named is ahead by a random lead, one that was given away by more than any other."""
        count = len(truth)
        uniform = generator.random(count)
        wrong = (truth + generator.integers(1, self.choices, size=count)) % self.choices
        answers = np.where(uniform < self.success, truth, wrong)
        values = generator.random((count, self.choices))  # no ties, so that the order of guesses is random
        values[np.arange(count), answers] += np.where(uniform < self.reveal, 3.0, 1.0)
        return np.asarray(values)


def _secret_laws(families: Collection[str | None], game: Game, mechanism: Event | None, delta: float) -> list[KnownLaw]:
    """Laws of the scores of secrets of several equally likely values, at the largest chance of a right answer that is allowed.

    For replacing one value that is k-ary randomised response. For adding or removing the record its answers are uniform
    without it, and right with it as often as the curve allows at 1 / k: of (epsilon, delta)-DP with a reveal at chance delta.
    """
    choices, chance = game.choices, SecretResponse(choices=game.choices, success=1 / game.choices)
    flat = tradeoff.epsilon_delta(FLAT * game.copies, delta)
    laws = [
        KnownLaw(name="nothing leaks", epsilon=0.0, families=(None, "gdp", "dp_sgd"), draw=chance.draw),
        KnownLaw(
            name=f"randomised response, {choices} values, epsilon {FLAT * game.copies:g}",
            epsilon=FLAT,
            families=(None,),
            draw=SecretResponse.of(flat, game, delta).draw,
        ),
    ]
    if "gdp" in families:
        response = SecretResponse.of(tradeoff.gdp(SIGNAL * game.copies), game)
        truth = tradeoff.gdp_epsilon(SIGNAL, delta)
        name = f"randomised response, {choices} values, as mu {SIGNAL * game.copies:g} allows"
        laws.append(KnownLaw(name=name, epsilon=truth, families=(None, "gdp"), draw=response.draw))
    curves = find_curves(mechanism)
    if "dp_sgd" in families and curves is not None and game.copies == 1:
        response = SecretResponse.of(curves.at(curves.noise_multiplier), game)
        truth = curves.epsilon(curves.noise_multiplier, delta)
        name = f"randomised response, {choices} values, as DP-SGD allows"
        laws.append(KnownLaw(name=name, epsilon=truth, families=("dp_sgd",), draw=response.draw))
    return laws
