"""Basic and advanced composition of (epsilon, delta): all there was before Renyi accounting, and still the simplest proof."""

import math
from dataclasses import dataclass

from audit.core import checks, events
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_forms import decode, encode
from audit.core.event_reading import runs
from audit.core.version import __version__
from audit.stats.curves.tradeoff import gdp_epsilon

_Leaf = tuple[events.Event, float, int]  # a mechanism, the rate at which it is sampled, and how often it is run


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositionTheorems:
    """Claims what the composition theorems give for the mechanisms one by one.

    Gaussian mechanisms are charged at an equal share of half of delta each, and sampled ones by the amplification lemma.

    Attributes:
        theorem: "basic" (sums of epsilon and delta), "advanced", or "best" of both.

    Guarantee: The mechanism is (epsilon, delta)-DP, up to floating-point rounding. Also for adaptive composition.

    References:
        Dwork, Roth 2014, Theorems 3.16 and 3.20. Kairouz, Oh, Viswanath 2015, arXiv 1311.0776, Theorem 3.5 (the form used).
        Li, Qardaji, Su 2012, arXiv 1101.2604 (amplification by sampling).
    """

    theorem: str = "best"

    def __post_init__(self) -> None:
        if self.theorem not in ("basic", "advanced", "best"):
            raise ConfigError(f"theorem is {self.theorem!r}; expected basic, advanced or best")

    def claim(self, mechanism: events.Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The claim at `delta`; infinite if nothing hides a record. Raises `UnsupportedMechanism` if a part has no (epsilon,
        delta) here.
        """
        if delta != 0:
            checks.open_probability(delta, "delta")
        mechanism = decode(encode(mechanism))  # every value is checked again: a NaN passes most comparisons
        parts = [leaf for leaf in _leaves(mechanism) if leaf[2] > 0 and leaf[1] > 0]
        epsilons = {"basic": self._compose(parts, float(delta), adjacency, slack=0.0)}
        if delta == 0 and self.theorem == "advanced":
            raise UnsupportedMechanism("the advanced theorem spends delta; at 0 the basic one adds pure epsilons")
        if delta > 0:
            epsilons["advanced"] = self._compose(parts, float(delta), adjacency, slack=float(delta) / 2)
        epsilon = min(epsilons.values()) if self.theorem == "best" else epsilons[self.theorem]
        source = f"epsilon-audit {__version__} composition theorems, {self.theorem}"
        return Claim(epsilon=epsilon, delta=float(delta), adjacency=adjacency, source=source)

    def _compose(self, parts: list[_Leaf], delta: float, adjacency: Adjacency, *, slack: float) -> float:
        """Epsilon with `slack` of delta for the advanced theorem (0: the basic one) and the rest shared by the releases."""
        gaussian = sum(count for leaf, _, count in parts if isinstance(leaf, events.Gaussian))
        own = sum(rate * leaf.delta * count for leaf, rate, count in parts if isinstance(leaf, events.ApproximateDp))
        remainder = delta - slack - own
        if remainder < 0:
            return math.inf
        share = remainder / gaussian if gaussian else 0.0
        epsilons = [(_leaf_epsilon(leaf, rate, share, adjacency), count) for leaf, rate, count in parts]
        if any(math.isinf(epsilon) for epsilon, _ in epsilons):
            return math.inf
        if slack == 0:
            return sum(epsilon * count for epsilon, count in epsilons)
        # tanh(e / 2) is (exp(e) - 1) / (exp(e) + 1) of the theorem, without overflow
        drift = sum(count * epsilon * math.tanh(epsilon / 2) for epsilon, count in epsilons)
        squares = sum(count * epsilon**2 for epsilon, count in epsilons)
        return drift + math.sqrt(2 * math.log(1 / slack) * squares)


def _leaves(event: events.Event) -> list[_Leaf]:
    return [(*_leaf(part), count) for part, count in runs(event)]


def _leaf(event: events.Event) -> tuple[events.Event, float]:
    match event:
        case events.NonPrivate():
            return events.Gaussian(noise_multiplier=0.0), 1.0
        case events.PoissonSampled(mechanism=inner, sample_rate=rate):
            leaves = _leaves(inner)
            if len(leaves) != 1 or leaves[0][2] != 1:
                raise UnsupportedMechanism(f"sampling of {inner}: the amplification lemma is used for single mechanisms only")
            return leaves[0][0], leaves[0][1] * float(rate)
        case events.Gaussian() | events.Laplace() | events.Exponential() | events.ApproximateDp() | events.RandomizedResponse():
            return event, 1.0
    raise UnsupportedMechanism(f"{type(event).__name__} has no (epsilon, delta) of its own here")


def _leaf_epsilon(event: events.Event, rate: float, share: float, adjacency: Adjacency) -> float:
    """Epsilon of one release; `share` is the delta that a Gaussian one may spend."""
    change = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    if rate < 1 and change == 2:
        raise UnsupportedMechanism("amplification by Poisson sampling is used under add/remove only")
    match event:
        case events.Gaussian(noise_multiplier=noise):
            # sampling scales delta too, so the release may spend share / rate; 1e-11, since `gdp_epsilon` is from below
            epsilon = gdp_epsilon(change / noise, min(share / rate, 0.5)) * (1 + 1e-11) if noise > 0 else math.inf
        case events.Laplace(noise_multiplier=scale):
            epsilon = change / scale if scale > 0 else math.inf
        case events.Exponential(epsilon=epsilon) | events.ApproximateDp(epsilon=epsilon):
            pass
        case events.RandomizedResponse(noise_parameter=parameter, buckets=buckets):
            if change == 1:
                raise UnsupportedMechanism("randomised response has no data set without the record; use replace_one")
            epsilon = math.log1p((1 - parameter) * buckets / parameter) if parameter > 0 else math.inf
    if rate == 1 or math.isinf(epsilon):
        return float(epsilon)
    return math.log1p(rate * math.expm1(epsilon)) if epsilon < 700 else epsilon + math.log(rate) + 1e-9


PLUGIN = CompositionTheorems
