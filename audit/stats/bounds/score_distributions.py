"""Score laws with a known true epsilon, from which coverage simulations, plans and benchmarks draw."""

import math
from dataclasses import dataclass

import numpy as np

from audit.stats.arrays import Array
from audit.stats.bounds.ranks import Memberships
from audit.stats.curves import tradeoff
from audit.stats.curves.tradeoff import TradeoffCurve

KINDS = ("null", "flat", "laplace", "gaussian")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreLaw:
    """Scores of members and nonmembers of a mechanism that is exactly `epsilon`-tight at `delta`.

    Attributes:
        kind: "null" (members and nonmembers alike), "flat" (randomised response with a random confidence: every
            threshold has the same likelihood ratio, so nothing hides a search over thresholds), "laplace" (shift
            epsilon, scale 1) or "gaussian" (shift mu, variance 1).
        parameter: epsilon, or mu for "gaussian"; ignored for "null".
    """

    kind: str
    parameter: float = 0.0
    delta: float = 1e-9

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind is '{self.kind}'; expected one of {', '.join(KINDS)}")

    @property
    def epsilon(self) -> float:
        """The true epsilon at `delta`, or an upper limit of it that a tiny delta makes sharp.

        >>> round(ScoreLaw(kind="gaussian", parameter=1.0, delta=1e-5).epsilon, 3)
        4.377
        """
        if self.kind == "gaussian":
            return tradeoff.gdp_epsilon(self.parameter, self.delta)
        return 0.0 if self.kind == "null" else self.parameter

    @property
    def name(self) -> str:
        """Return the law in words, for tables."""
        return {
            "null": "nothing leaks",
            "flat": f"randomised response, epsilon {self.parameter:g}",
            "laplace": f"Laplace, epsilon {self.parameter:g}",
            "gaussian": f"Gaussian, mu {self.parameter:g}, delta {self.delta:g}",
        }[self.kind]

    def draw(self, included: Memberships, generator: np.random.Generator) -> Array:
        """Independent scores for these memberships."""
        count = len(included)
        if self.kind == "flat":
            right = generator.random(count) < 1 / (1 + math.exp(-self.parameter))
            return np.asarray(np.abs(generator.normal(size=count)) * np.where(right == included, 1.0, -1.0))
        if self.kind == "laplace":
            return np.asarray(generator.laplace(size=count) + self.parameter * included)
        shift = self.parameter if self.kind == "gaussian" else 0.0
        return np.asarray(generator.normal(size=count) + shift * included)


def draw_curve_scores(curve: TradeoffCurve, included: Memberships, generator: np.random.Generator) -> Array:
    """Independent scores of the least favourable pair of a trade-off curve; their ROC is that curve."""
    uniform = generator.random(len(included))
    return np.asarray(np.where(included, curve.tnr(1 - uniform) - 1, -uniform))
