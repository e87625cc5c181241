"""What the releases that moved cost: the loss of one pair along the paths that were replayed (docs/theory/replay.md)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from audit.stats.curves import loss_pairs, pld, renyi, tradeoff
from audit.stats.linear_noise import ORDERS

_MOST_PARTS = 2_000
_TIGHT = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loss:
    """The loss of a pair.

    Attributes:
        pure: sum of losses in pure differential privacy of parts without use of their exact curve.
        laplace: losses of the parts that are one Laplace draw against the same draw moved.
        mu: of the Gaussian parts.
        divergences: Renyi divergences at `linear_noise.ORDERS` of Gaussian parts with a changed covariance; None if there are
        none.
        exact: True if the loss of the transcript is this one and not only bounded by it.
        impossible: probability of outputs that one side never gives; the rest costs what else is here.
        is_unbounded: True if `pure` is infinite by a ratio without a bound; its epsilon at a delta is finite.
        one_sided: number of events and choices with a largest loss that may be in one direction only; of several the sum is a
            bound.
        reasons: why it is infinite, or a bound only, with the line of the program.
    """

    pure: float = 0.0
    laplace: tuple[float, ...] = ()
    mu: float = 0.0
    divergences: NDArray[np.float64] | None = None
    exact: bool = True
    impossible: float = 0.0
    is_unbounded: bool = False
    one_sided: int = 0
    reasons: tuple[str, ...] = ()

    def __add__(self, addend: Loss) -> Loss:
        pieces = [part for part in (self.divergences, addend.divergences) if part is not None]
        return Loss(
            pure=self.pure + addend.pure,
            laplace=self.laplace + addend.laplace,
            mu=math.hypot(self.mu, addend.mu),
            divergences=None if not pieces else np.sum(pieces, axis=0),
            exact=self.exact and addend.exact and self.one_sided + addend.one_sided < 2,
            impossible=self.impossible + addend.impossible - self.impossible * addend.impossible,
            is_unbounded=self.is_unbounded or addend.is_unbounded,
            one_sided=self.one_sided + addend.one_sided,
            reasons=tuple(dict.fromkeys(self.reasons + addend.reasons)),
        )

    @property
    def rho(self) -> float:
        """The zCDP of all parts but those with a changed covariance, an upper bound."""
        return self.mu**2 / 2 + (self.pure**2 + sum(part**2 for part in self.laplace)) / 2

    def epsilon(self, delta: float) -> float:
        """Return an epsilon that the pair needs no more of at `delta`."""
        return self._both_ends(delta)[1]

    def epsilon_floor(self, delta: float) -> float:
        """Return an epsilon that the pair needs at least at `delta`, if the loss is exact."""
        return self._both_ends(delta)[0] if self.exact else 0.0

    def _both_ends(self, delta: float) -> tuple[float, float]:
        if self.impossible:
            rest = replace(self, impossible=0.0)
            is_more = self.impossible > delta
            return (math.inf, math.inf) if is_more else (0.0, rest._both_ends(delta - self.impossible)[1])
        total = self.pure + math.fsum(self.laplace)
        gaussian = self.mu > 0 or self.divergences is not None
        if not gaussian and (delta == 0 or not math.isfinite(total)):
            return total, total
        if delta == 0 or not math.isfinite(total + self.mu):
            return math.inf, math.inf
        if self.divergences is not None:
            return 0.0, self._by_renyi(delta)
        if not self.laplace and not self.pure:
            return (exact := tradeoff.gdp_epsilon(self.mu, delta)), exact
        return self._by_curves(delta, total)

    def _by_curves(self, delta: float, total: float) -> tuple[float, float]:
        simple = total + (tradeoff.gdp_epsilon(self.mu, delta) if self.mu else 0.0)
        if len(self.laplace) > _MOST_PARTS or not self.laplace:
            return 0.0, min(simple, renyi.zcdp_epsilon(self.rho, delta))
        low, high = _bracket(tuple(sorted(round(part, 12) for part in self.laplace)), self.mu, delta)
        return (low if not self.pure else 0.0), min(simple, high + self.pure)

    def _by_renyi(self, delta: float) -> float:
        parts = np.array(self.divergences)
        finite = np.isfinite(parts)
        if not finite.any():
            return math.inf
        orders = ORDERS[finite]
        total = parts[finite] + orders * self.rho
        return renyi.epsilon_improved(orders.tolist(), total.tolist(), delta)[0]

    def meets(self, epsilon: float, delta: float, mu: float | None) -> bool:
        """True if the claim covers the loss."""
        if mu is not None:
            return (
                self.pure == self.impossible == 0
                and not self.laplace
                and self.divergences is None
                and self.mu <= mu * (1 + 2e-6) + 1e-12
            )
        return self.epsilon(delta) <= epsilon * (1 + 1e-6) + _TIGHT

    def exceeds(self, epsilon: float, delta: float, mu: float | None) -> bool:
        """True if the loss is above the claim, and no bound only; the log ratio of two covariances has no bound."""
        if self.divergences is not None and (mu is not None or delta == 0):
            return True
        if not self.exact:
            return False
        if mu is not None:
            return self.mu > mu * (1 + 1e-5) + _TIGHT or self.pure + sum(self.laplace) == math.inf or self.impossible > 0
        if self.is_unbounded and delta > 0:
            return False
        return self.epsilon_floor(delta) > epsilon * (1 + 1e-5) + 1e-7

    def __str__(self) -> str:
        parts = []
        if total := self.pure + math.fsum(self.laplace):
            parts.append(f"epsilon {total:.4g}")
        if self.mu:
            parts.append(f"mu {self.mu:.4g}")
        if self.impossible:
            parts.append(f"outputs of probability {self.impossible:.4g} that one side never gives")
        if self.divergences is not None:
            parts.append("noise of another covariance")
        return (" and ".join(parts) or "0") + ("" if self.exact else " at most")


@functools.lru_cache(maxsize=4096)
def _bracket(laplace: tuple[float, ...], mu: float, delta: float) -> tuple[float, float]:
    steps = []
    for part in set(laplace):
        steps.append((functools.partial(_laplace_pair, 1 / part), laplace.count(part)))
    if mu:
        steps.append((functools.partial(_gaussian_pair, 1 / mu), 1))
    try:
        return pld.epsilon_bracket(steps, delta, tolerance=1e-3)
    except (ArithmeticError, MemoryError, ValueError):
        return 0.0, math.inf


def _laplace_pair(scale: float, direction: loss_pairs.Direction, log_tail: float) -> loss_pairs.LossPair:
    return loss_pairs.subsampled_laplace(scale, 1.0, direction, log_tail=log_tail)


def _gaussian_pair(noise: float, direction: loss_pairs.Direction, log_tail: float) -> loss_pairs.LossPair:
    return loss_pairs.subsampled_gaussian(noise, 1.0, direction, log_tail=log_tail)
