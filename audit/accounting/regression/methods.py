"""What a method of accounting gives, whoever computes it: an accountant that names its method is held to this on both sides.

An accountant names it by attributes `method`, `orders` and `conversion`, or `--method` does. If it is not named, it is
recognised from the answers (`recognition`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.accounting.accountants.renyi import divergences
from audit.accounting.regression.suite import ClaimQuestion
from audit.core import events
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_forms import fold
from audit.core.event_reading import kinds, phases
from audit.core.event_reading import steps as count_steps
from audit.stats.curves import renyi
from audit.stats.curves.tradeoff import gdp_epsilon

Array = NDArray[np.float64]
Interval = tuple[float, float]
EXACT = 1e-6  # relative distance at which two figures of the same method are the same
_TENTHS = tuple(1 + step / 10 for step in range(1, 100))
# lists of orders that accountants in use minimise over, by name
GRIDS: Mapping[str, tuple[float, ...]] = {
    "opacus": (*_TENTHS, *map(float, range(12, 64))),
    "dp-accounting": (*_TENTHS, *map(float, range(11, 64)), 128.0, 256.0, 512.0, 1024.0),
    "tensorflow-privacy": (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5, *map(float, range(5, 64)), 128.0, 256.0, 512.0),
    "epsilon-audit": renyi.ORDERS,
    "2..32": tuple(map(float, range(2, 33))),
    "2..33": tuple(map(float, range(2, 34))),
    "2..63": tuple(map(float, range(2, 64))),
    "2..64": tuple(map(float, range(2, 65))),
    "2..128": tuple(map(float, range(2, 129))),
    "2..256": tuple(map(float, range(2, 257))),
    "2..512": tuple(map(float, range(2, 513))),
}
NAMES = ("rdp", "moments", "zcdp", "gdp", "pld", "prv", "none")
_NUMBERS = ("tolerance", "grid", "delta_error")
CONVERSIONS: Mapping[str, Callable[..., tuple[float, float]]] = {
    "improved": renyi.epsilon_improved,
    "classic": renyi.epsilon_classic,
}
_REFINEMENTS = 6  # of "every order", after which the least epsilon is known to 1e-8
_DENSE_ORDERS = 1 + np.exp(np.linspace(math.log(1e-3), math.log(60), 60))  # orders from which "every order" is refined
_ROUND_OFF = 1e-12  # of delta, that transforms in double precision may add or take; and as much as 2^-52 for each step
_HARMLESS = 0.01  # of delta: what rounding may put into a tail of so many losses before figures of PLD are no longer its grid's
_MEAN = 1e-10  # of a step's loss, to which accountants in use compute its mean
_WITH_PAIRS = {events.Gaussian, events.Laplace, events.PoissonSampled, events.Repeated, events.Composed}
# relative distance above the truth, usual grid, and how many times the grid a figure may lie above if none is named: PLD has
# no formula for its own error, PRV is within its error of an estimate that is (Gopi, Lee, Wutschitz 2021, Theorem 5.5)
_NUMERICAL = {"pld": (1e-3, 1e-4, 1), "prv": (1e-3, 1e-2, 2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method of accounting.

    Attributes:
        name: one of `NAMES`; "moments" is "rdp" over 2..33 with the classic conversion.
        orders: Renyi orders that are minimised over; empty for whichever, so that only the least over every order is known.
        conversion: from divergences to epsilon, "improved" (Canonne, Kamath, Steinke 2020) or "classic" (Mironov 2017).
        tolerance: relative distance above the method's figure that is allowed; 0 for the method's usual one.
        grid: of "pld" the width of its loss grid, of "prv" the error in epsilon that it is asked for; 0 for the usual one, or
            for none if a tolerance is named.
        delta_error: of "prv" with a grid, the share of delta that it is asked to be within.
    """

    name: str
    orders: tuple[float, ...] = ()
    conversion: str = "improved"
    tolerance: float = 0.0
    grid: float = 0.0
    delta_error: float = 1e-3
    note: str = ""

    def __post_init__(self) -> None:
        if self.name not in NAMES or self.conversion not in CONVERSIONS:
            raise ConfigError(
                f"a method '{self.name}' with conversion '{self.conversion}'; expected one of {', '.join(NAMES)}, and improved "
                "or classic"
            )
        if not (0 <= self.tolerance < math.inf and 0 <= self.grid < math.inf and 0 < self.delta_error < 1):
            raise ConfigError(
                f"a method's tolerance is {self.tolerance}, its grid {self.grid} and its delta_error {self.delta_error}; "
                "expected numbers of at least 0, and a share of delta"
            )
        if not all(order > 1 for order in self.orders):
            raise ConfigError(f"orders of a method have to be above 1, here is {min(self.orders):g}")

    def __str__(self) -> str:
        if self.name not in ("rdp", "moments", "zcdp"):
            return self.name.upper()
        grid = next((name for name, orders in GRIDS.items() if orders == self.orders), "")
        order_text = f"orders {grid}" if grid else f"{len(self.orders)} orders" if self.orders else "every order"
        return f"{self.name.upper()} ({order_text}, {self.conversion} conversion)"


def parse(text: str) -> Method:
    """Return the method of a text such as "rdp", "rdp,conversion=classic,orders=2..64" or "prv,grid=0.001"; `ConfigError` if
    it cannot be read.

    Orders are a list of `GRIDS`, a range `2..64`, or numbers between spaces.
    """
    name, *fields = (part.strip() for part in text.split(","))
    values: dict[str, Any] = {}
    for field in fields:
        key, equals, value = field.partition("=")
        if not equals or key not in ("orders", "conversion", *_NUMBERS):
            raise ConfigError(
                f"cannot read '{field}' in the method '{text}'; expected orders=, conversion=, {', '.join(_NUMBERS)}="
            )
        values[key] = value
    try:
        values |= {name: float(values[name]) for name in _NUMBERS if name in values}
        if "orders" in values:
            values["orders"] = _orders(values["orders"])
    except ValueError as error:
        grid_names = ", ".join(GRIDS)
        raise ConfigError(
            f"the method '{text}': {error}; orders are {grid_names}, a range 2..64, or numbers between spaces"
        ) from error
    return make(name, **values)


def _orders(text: str) -> tuple[float, ...]:
    if text in GRIDS:
        return GRIDS[text]
    first, dots, last = text.partition("..")
    return tuple(map(float, range(int(first), int(last) + 1))) if dots else tuple(float(word) for word in text.split())


def make(name: str, **values: Any) -> Method:
    """Return a method by name, with what its name implies."""
    usual = {"moments": {"orders": GRIDS["2..33"], "conversion": "classic"}}.get(name, {})
    return Method(name=name, **{**usual, **values})


def stated(accountant: Any) -> Method | None:
    """Return the method that an accountant, or the function behind it, names itself; None if it names none."""
    for holder in (accountant, getattr(accountant, "function", None)):
        method = getattr(holder, "method", None)
        if isinstance(method, str):
            values: dict[str, Any] = {
                name: getattr(holder, name) for name in ("conversion", *_NUMBERS) if hasattr(holder, name)
            }
            if orders := tuple(getattr(holder, "orders", ())):
                values["orders"] = tuple(float(order) for order in orders)
            return parse(method) if "," in method else make(method, **values)
    return None


def expected(method: Method, question: ClaimQuestion, truth: Interval, claimed: float = math.nan) -> Interval | None:
    """Return the ends between which the figure of a method is; None if the method says nothing here.

    Args:
        truth: the bracket on the true epsilon, which numerical methods approach from above.
        claimed: what is held to the method: an end that it is on the right side of anyway need not be computed.
    """
    if method.name == "none":
        return None
    if method.name in _NUMERICAL:
        return _numerical(method, question, truth, claimed)
    try:
        low, high = _gdp(question) if method.name == "gdp" else _renyi(method, question)
    except (UnsupportedMechanism, ValueError):  # a quadrature that would take too long says nothing
        return None
    if not 0 < low < math.inf:  # nothing released, or everything: what is right there is not the method's matter
        return None
    return low * (1 - EXACT) - 1e-12, high * (1 + max(EXACT, method.tolerance)) + 1e-12


def _numerical(method: Method, question: ClaimQuestion, truth: Interval, claimed: float) -> Interval:
    """Return the truth with what a tolerance or an error allows above it; on both sides what its grid gives, if named."""
    share, width, times = _NUMERICAL[method.name]
    grid = method.grid or (0.0 if method.tolerance else width)
    low, high = truth[0], truth[1] * (1 + (method.tolerance or share)) + times * grid + 1e-9
    is_mesh = method.name == "prv" and method.grid > 0
    if not is_mesh and (method.tolerance or not (method.grid or (method.name == "pld" and claimed > high))):
        return low, high
    delta, count, parts = question.delta, count_steps(question.event), kinds(question.event)
    error = _ROUND_OFF + 2.0**-52 * count
    is_sharp = parts <= _WITH_PAIRS and error + 2.0**-52 * count * math.sqrt(truth[1] / grid) < _HARMLESS * delta
    from audit.accounting.accountants.reference import Reference  # here and below: Renyi accountants do without it

    try:
        if method.name == "prv":
            return _beside_the_estimate(method, question, error) if is_sharp else (low, high)
        if not is_sharp:
            return low, math.inf
        deltas = delta + error, delta - error
        lowest, highest = Reference().on_grid(question.event, deltas, adjacency=question.adjacency, grid=grid)
    except (UnsupportedMechanism, MemoryError, ArithmeticError):  # no room, or no proof: what the grid gives is not known
        return low, high if method.name == "prv" else math.inf
    if method.grid and events.PoissonSampled in parts and count > 1:  # others may be composed before they are put on the grid
        return max(low, lowest * (1 - EXACT)), highest * (1 + EXACT)
    return low, max(truth[1] if method.grid else high, highest) * (1 + EXACT)


def _beside_the_estimate(method: Method, question: ClaimQuestion, error: float) -> Interval:
    """Return the ends of what a PRV accountant states: the estimate at delta less its delta error, and its epsilon error."""
    from audit.stats.curves.prv_mesh import estimates  # only here: it loads scipy's transforms

    divisor = 2 if question.adjacency is Adjacency.REPLACE_ONE else 1
    parts = [(float(noise) / divisor, float(rate), steps) for noise, rate, steps in phases(question.event) if rate * steps]
    if not parts or any(noise == 0 or (rate < 1 and divisor > 1) for noise, rate, _ in parts):
        raise UnsupportedMechanism("no training under add/remove, and no release on its own")
    size = method.delta_error * question.delta
    deltas = question.delta - size + error, question.delta - size - error
    lowest, highest = estimates(parts, deltas, error=method.grid, delta_error=size)
    room = _MEAN * count_steps(question.event)
    return (lowest + method.grid) * (1 - EXACT) - room, (highest + method.grid) * (1 + max(EXACT, method.tolerance)) + room


def _gdp(question: ClaimQuestion) -> Interval:
    """Gaussian differential privacy: exact without sampling, the central limit of Bu et al. 2020 (arXiv 1911.11607) with it."""
    if question.adjacency is Adjacency.REPLACE_ONE:
        raise UnsupportedMechanism("stated for add/remove")
    exact, limit = 0.0, 0.0
    for noise, rate, steps in phases(question.event):
        exact += steps / noise**2 if rate == 1 else math.nan
        limit += rate**2 * steps * math.expm1(min(1 / noise**2, 700.0))
    ends = [gdp_epsilon(math.sqrt(mu), question.delta) for mu in (exact, limit) if mu > 0]  # both are in use at rate 1
    return (min(ends), max(ends)) if ends else (0.0, 0.0)


def _renyi(method: Method, question: ClaimQuestion) -> Interval:
    convert = CONVERSIONS[method.conversion]
    if method.orders:
        curve = total_curve(question, method.orders)
        epsilon = convert(method.orders, curve.tolist(), question.delta)[0] if curve.any() else 0.0
        return epsilon, epsilon
    return least_epsilon(question, method.conversion), math.inf


def least_epsilon(question: ClaimQuestion, conversion: str) -> float:
    """Return the least epsilon over every order above 1, the fractional ones up to 60 and whole ones up to 4096."""
    convert = CONVERSIONS[conversion]
    orders = np.array(sorted({*_DENSE_ORDERS.tolist(), *(order for order in renyi.WHOLE_ORDERS if order > 60)}))
    best = math.inf
    for _ in range(_REFINEMENTS):
        curve = total_curve(question, tuple(orders.tolist()))
        if not curve.any():
            return 0.0
        epsilon, order = convert(orders.tolist(), curve.tolist(), question.delta)
        best = min(best, epsilon)
        place = int(np.argmin(abs(orders - order)))
        low, high = orders[max(place - 1, 0)], orders[min(place + 1, len(orders) - 1)]
        if low >= 60 and _is_sampled(question):  # whole orders only: every one of them, or a dozen of many
            orders = np.unique(np.round(np.linspace(low, high, 25)))
        else:
            orders = 1 + np.exp(np.linspace(math.log(low - 1), math.log(high - 1), 12))
    return best


def _is_sampled(question: ClaimQuestion) -> bool:
    return any(0 < rate < 1 for _, rate, _ in phases(question.event))


def total_curve(question: ClaimQuestion, orders: tuple[float, ...]) -> Array:
    """Return the divergence of an event at each order, by the formulas of its parts; `UnsupportedMechanism` if some part has
    none under this adjacency.
    """
    doubled = 2.0 if question.adjacency is Adjacency.REPLACE_ONE else 1.0

    def sampled(node: events.PoissonSampled, inner: Array) -> Array:
        release, rate = node.mechanism, float(node.sample_rate)
        if rate == 0:
            return np.zeros(len(orders))
        if rate == 1 or np.isinf(inner).all():
            return inner
        if doubled > 1 or not isinstance(release, events.Gaussian | events.Laplace):
            raise UnsupportedMechanism("sampling of this has no formula here")
        if isinstance(release, events.Gaussian):
            return divergences(float(release.noise_multiplier), rate, orders)
        return _sampled_laplace(float(release.noise_multiplier), rate, orders)

    def grouped(node: events.Grouped, inner: Array) -> Array:
        moved = node.mechanism.mechanism if isinstance(node.mechanism, events.Repeated) else node.mechanism
        if not isinstance(moved, events.Gaussian):
            raise UnsupportedMechanism("a group of this has no formula here")
        return inner * node.size**2

    def response(leaf: events.RandomizedResponse) -> Array:
        if question.adjacency is not Adjacency.REPLACE_ONE:
            raise UnsupportedMechanism("randomised response answers for a record that is there")
        return np.array([renyi.randomised_response(order, leaf.noise_parameter, leaf.buckets) for order in orders])

    makers: dict[type, Callable[..., Array]] = {
        events.Gaussian: lambda leaf: (
            np.array(orders) / 2 * (doubled / float(leaf.noise_multiplier)) ** 2
            if leaf.noise_multiplier
            else np.full(len(orders), math.inf)
        ),
        events.Laplace: lambda leaf: np.array(
            [renyi.laplace(order, float(leaf.noise_multiplier) / doubled) for order in orders]
        ),
        events.RandomizedResponse: response,
        events.Concentrated: lambda leaf: leaf.rho * np.array(orders),
        events.PoissonSampled: sampled,
        events.Grouped: grouped,
        events.Repeated: lambda node, inner: inner * node.count,
        events.Composed: lambda node, *inner: np.sum(inner, axis=0) if inner else np.zeros(len(orders)),
    }
    curve: Array = fold(question.event, makers)
    return curve


@lru_cache(maxsize=64)
def _sampled_laplace(scale: float, rate: float, orders: tuple[float, ...]) -> Array:
    return np.array(
        [max(renyi.subsampled_laplace(order, scale, rate, direction=side) for side in ("remove", "add")) for order in orders]  # type: ignore[arg-type]
    )
