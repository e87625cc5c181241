"""Bounds on epsilon that share nothing with the discretised brackets: what a bracket is compared with before it is believed.

Lower: of the steps of one mechanism, each is turned into a yes or no (its output is beyond a threshold), and the answers
are counted. "At least k of n" is one event, its chance under either hypothesis is a binomial tail of exact normal or
exponential tails, and `epsilon >= log((P - delta) / Q)`. Upper: Renyi divergences by formula, the sum of the largest
losses, and Gaussian releases as if nothing were sampled (sampling never adds to a divergence: joint convexity).
"""

import math

import numpy as np
from numpy.typing import NDArray

from audit.accounting.accountants import _closed_forms
from audit.accounting.accountants._amplified import largest_loss
from audit.core.adjacency import Adjacency
from audit.core.event_reading import runs
from audit.core.events import Composed, Event, Gaussian, Laplace, PoissonSampled, RandomizedResponse, Repeated
from audit.stats.curves import concentrated, renyi, tradeoff

Array = NDArray[np.float64]
_THRESHOLDS = 120
_ALLOWANCE = 1e-6  # relative: what both computations may differ by through rounding


def contradiction(event: Event, delta: float, adjacency: Adjacency, bracket: tuple[float, float]) -> str:
    """Return why a bracket cannot be right, "" if nothing speaks against it."""
    low, high = bracket
    crossed = crossing(bracket)
    if crossed:
        return crossed
    floor, cap = lower(event, delta, adjacency), upper(event, delta, adjacency)
    if high < floor * (1 - _ALLOWANCE):
        return f"its upper end {high:g} lies below {floor:g}, which one event proves"
    if low > cap * (1 + _ALLOWANCE) + 1e-12:
        return f"its lower end {low:g} lies above {cap:g}, which divergences prove to be enough"
    return ""


def crossing(bracket: tuple[float, float]) -> str:
    """Return how the ends of a bracket contradict each other, "" if they do not cross by more than rounding."""
    low, high = bracket
    return "" if low <= high * (1 + _ALLOWANCE) + 1e-12 else f"its ends cross: {low:g} from below, {high:g} from above"


def lower(event: Event, delta: float, adjacency: Adjacency) -> float:
    """An epsilon that the event certainly costs at `delta`, 0 if no part has tails known here."""
    counts: dict[Event, int] = {}
    for leaf, count in runs(event):
        counts[leaf] = counts.get(leaf, 0) + count
    best = 0.0
    for leaf, count in counts.items():
        for member, nonmember in _tails(leaf, adjacency):
            best = max(best, concentrated.counted_epsilon(member, nonmember, count, delta))
    return best


def upper(event: Event, delta: float, adjacency: Adjacency) -> float:
    """An epsilon that is certainly enough at `delta`, infinite if no formula is known here."""
    by_parts = largest_loss(event, adjacency)
    noise = _unsampled_signal(event)
    change = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    by_noise = math.inf if math.isinf(noise) else tradeoff.gdp_epsilon(noise * change, delta) if noise else 0.0
    return min(by_parts, by_noise, _closed_forms.by_divergence(event, delta, adjacency, renyi.WHOLE_ORDERS))


def _tails(leaf: Event, adjacency: Adjacency) -> list[tuple[Array, Array]]:
    """Logarithms of the chance of each threshold event under P and under Q, for each order of the hypotheses."""
    is_replacement = adjacency is Adjacency.REPLACE_ONE
    rate = 1.0
    if isinstance(leaf, PoissonSampled) and leaf.sample_rate > 0:
        rate, leaf = float(leaf.sample_rate), leaf.mechanism
    match leaf:
        case Gaussian(noise_multiplier=noise) if noise > 0:
            tail = lambda x: concentrated.log_normal_tail(x / noise)  # noqa: E731
        case Laplace(noise_multiplier=noise) if noise > 0:
            tail = lambda x: np.where(x > 0, -x / noise - math.log(2), np.log1p(-np.exp(np.minimum(x, 0) / noise) / 2))  # noqa: E731
        case RandomizedResponse(noise_parameter=parameter, buckets=buckets) if is_replacement and rate == 1 and parameter > 0:
            other_share = parameter / buckets
            return [(np.log([1 - parameter + other_share]), np.log([other_share]))]
        case _:
            return []
    end = 1 + 12 * float(noise)
    x = np.linspace(-end, end, _THRESHOLDS)
    with np.errstate(divide="ignore"):
        out_log = np.log1p(-rate) if rate < 1 else -math.inf
    mixture = np.logaddexp(out_log + tail(x), math.log(rate) + tail(x - 1))
    if is_replacement:
        return [(mixture, np.logaddexp(out_log + tail(x), math.log(rate) + tail(x + 1)))]
    absent_below = np.logaddexp(out_log + tail(x), math.log(rate) + tail(x + 1))  # P(output <= -x) with the record at 1
    return [(mixture, tail(x)), (tail(x), absent_below)]


def _unsampled_signal(event: Event) -> float:
    """Inverse noise of the Gaussian release that all of these, unsampled, amount to; infinite if one is of another kind."""
    match event:
        case Gaussian(noise_multiplier=noise) if noise > 0:
            return 1 / float(noise)
        case PoissonSampled(mechanism=inner):
            return _unsampled_signal(inner)
        case Repeated(mechanism=inner, count=count):
            return math.sqrt(count) * _unsampled_signal(inner) if count else 0.0
        case Composed(parts=parts):
            return math.sqrt(sum(_unsampled_signal(part) ** 2 for part in parts))
    return math.inf
