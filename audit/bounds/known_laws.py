"""Laws of scores whose epsilon for one record is known: what a certificate tries an audit on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from audit.core.data import Array
from audit.core.events import Event
from audit.event_curves import curves_of
from audit.stats.bounds import score_distributions
from audit.stats.bounds.ranks import Memberships
from audit.stats.bounds.score_distributions import ScoreLaw
from audit.stats.curves import tradeoff

FLAT = 1.0  # epsilon of a record on the law where every threshold has the same likelihood ratio
SIGNAL = 1.0  # mu of a record on the law of Gaussian differential privacy


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLaw:
    """A law of scores and what is true of it.

    Attributes:
        epsilon: of one record.
        families: of trade-off curves that the law is in; None stands for estimators that hold for any mechanism.
        draw: scores for memberships.
    """

    name: str
    epsilon: float
    families: tuple[str | None, ...]
    draw: Callable[[Memberships, np.random.Generator], Array]


def laws_to_try(families: Collection[str | None], mechanism: Event | None, copies: int, delta: float) -> list[KnownLaw]:
    """Return nothing, randomised response, and the least favourable pair of each family at a positive parameter.

    On randomised response every threshold has the same likelihood ratio, so a search that is not paid for shows most. With
    `copies` a law is that of all copies together.
    """
    null, flat = ScoreLaw(kind="null", delta=delta), ScoreLaw(kind="flat", parameter=FLAT * copies, delta=delta)
    laws = [
        KnownLaw(name=null.name, epsilon=0.0, families=(None, "gdp", "dp_sgd"), draw=null.draw),
        KnownLaw(name=flat.name, epsilon=FLAT, families=(None,), draw=flat.draw),
    ]
    if "gdp" in families:
        gaussian = ScoreLaw(kind="gaussian", parameter=SIGNAL * copies, delta=delta)
        truth = tradeoff.epsilon_of_gdp(SIGNAL, delta)
        laws.append(
            KnownLaw(name=f"Gaussian, mu {gaussian.parameter:g}", epsilon=truth, families=(None, "gdp"), draw=gaussian.draw)
        )
    curves = curves_of(mechanism)
    if "dp_sgd" in families and curves is not None and copies == 1:
        draw = functools.partial(score_distributions.of_curve, curves.at(curves.noise_multiplier))
        truth = curves.epsilon(curves.noise_multiplier, delta)
        laws.append(KnownLaw(name="DP-SGD as claimed", epsilon=truth, families=("dp_sgd",), draw=draw))
    return laws
