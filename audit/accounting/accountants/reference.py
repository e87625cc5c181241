"""The suite's own accountant: a bracket on the true epsilon from first principles, its upper end being the claim.

Uses no accounting library, so it can judge them (`audit accountant check`).
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from audit.accounting.accountants import _amplified, _closed_forms, _independent, _pairs, _procedures
from audit.accounting.accountants._rewriting import FLOORS, alternatives, is_limit, known, without_groups
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import UnsupportedMechanism
from audit.core.event_forms import decode, encode
from audit.core.event_reading import kinds, unit
from audit.core.events import Event
from audit.core.phrases import phrase
from audit.core.rounding import below
from audit.core.version import __version__
from audit.event_curves import find_curves
from audit.stats.curves import pld
from audit.stats.curves.loss_pairs import Direction

Bracket = tuple[float, float]
_SLACK_ROUNDS, _SLACK_MARGIN = 8, 1e-6
_ROUNDING = 1e-12  # relative, of a sum of losses


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Claims the upper end of a proven bracket on epsilon.

    Attributes:
        tolerance: relative width at which refining the bracket stops.

    Guarantee:
        `bracket` holds the true epsilon of the worst pair of neighbouring data sets, up to floating-point rounding. It is
        compared with bounds that share nothing with it (`_independent`); one that they contradict is (0, inf).
        For Poisson sampling under replace-one the upper end rests on the worst pair being opposite contributions
        (Schuchardt et al. 2024, arXiv 2403.04867); the lower end does not.

    References:
        Zhu, Dong, Wang 2022, arXiv 2106.08567. Kairouz, Oh, Viswanath 2015, arXiv 1311.0776 (approximate DP).
        Dong, Durfee, Rogers 2020, arXiv 1909.13830 (exponential mechanisms). Deployed events: `_procedures`.
    """

    tolerance: float = 2e-4

    def __post_init__(self) -> None:
        checks.positive(self.tolerance, "tolerance")

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The upper end of the bracket as a claim; infinite if there is no guarantee at `delta`. Raises `UnsupportedMechanism`
        if no proof is implemented for the mechanism under this adjacency.
        """
        (low, high), doubt = self.explain(mechanism, delta=delta, adjacency=adjacency)
        curves = find_curves(mechanism)
        return Claim(
            epsilon=high,
            delta=float(delta),
            adjacency=adjacency,
            source=f"epsilon-audit {__version__} reference",
            family=None if curves is None else curves.family,
            note=doubt or _describe(low),
        )

    def bracket(self, event: Event, *, delta: float, adjacency: Adjacency) -> tuple[float, float]:
        """Lower and upper end of the epsilon that `event` truly costs at `delta`; (0, inf) if the arithmetic fails."""
        return self.explain(event, delta=delta, adjacency=adjacency)[0]

    def explain(self, event: Event, *, delta: float, adjacency: Adjacency) -> tuple[tuple[float, float], str]:
        """The bracket, and why it is (0, inf) if the arithmetic fails or an independent bound contradicts it."""
        if delta != 0:
            checks.open_probability(delta, "delta")
        unit(event)  # releases about different units do not add up
        event = decode(encode(event))  # every value is checked again: a NaN passes most comparisons
        if delta == 0:
            epsilon = _amplified.pure(event, adjacency)
            return (epsilon * (1 - _ROUNDING), epsilon * (1 + _ROUNDING)), ""
        slack = _procedures.slack(event)
        if slack > 0:
            return self._with_slack(event, delta, adjacency, slack)
        return self._explain(event, delta, adjacency)

    def _with_slack(self, event: Event, delta: float, adjacency: Adjacency, slack: float) -> tuple[Bracket, str]:
        """Bracket if both hypotheses are within `slack` of their substitutes: delta moves by `(1 + exp(epsilon)) slack`."""
        (low, high), doubt = self._explain(event, delta, adjacency)
        larger_delta = delta + (1 + math.exp(min(low, 700.0))) * slack
        low = self._explain(event, larger_delta, adjacency)[0][0] if larger_delta < 1 else 0.0
        for _ in range(_SLACK_ROUNDS):
            remainder = delta - (1 + math.exp(min(high, 700.0))) * slack
            upper_end = self._explain(event, remainder, adjacency)[0][1] if remainder > 0 else math.inf
            if upper_end <= high:  # it holds at the delta that remains beside it
                break
            high = upper_end * (1 + _SLACK_MARGIN)
        else:
            high = math.inf
        reason = "" if math.isfinite(high) else "batches are cut so often that nothing is proved from above at this delta"
        crossing = _independent.crossing((low, high))
        if crossing:
            return (0.0, math.inf), f"no bracket here: {crossing}"
        return (min(low, high), high), "; ".join(filter(None, (doubt, reason)))

    @functools.lru_cache(maxsize=256)  # noqa: B019  whoever shows claims asks for the bracket beside them; few tolerances
    def _explain(self, event: Event, delta: float, adjacency: Adjacency) -> tuple[Bracket, str]:
        brackets, doubts = [], []
        for way in alternatives(without_groups(known(event, adjacency)), adjacency):
            try:
                ends = self._bracket(way, delta, adjacency)
                doubt = _independent.contradiction(way, delta, adjacency, ends)
            except (ArithmeticError, MemoryError) as error:
                doubt = str(error)
            brackets.append((0.0, math.inf) if doubt else (0.0, ends[1]) if is_limit(event) else (min(ends), ends[1]))
            doubts += [f"no bracket here: {doubt}"] if doubt else []
        if is_limit(event) and not doubts:
            high = max(high for _, high in brackets)
            brackets.append((min(self._below(event, delta, adjacency), high), high))
        return (max(low for low, _ in brackets), max(high for _, high in brackets)), "; ".join(doubts)

    def _below(self, event: Event, delta: float, adjacency: Adjacency) -> float:
        """Lower end if some part is bounded from above only: that of one member of its class; 0 if none is known."""
        try:
            ways = alternatives(without_groups(known(event, adjacency, limits=FLOORS)), adjacency)
            return max(
                self._compose(_pairs.leaves(way, 1, adjacency, "below", share), delta, adjacency)[0]
                for way in ways
                for share in _pairs.shares(kinds(way))
            )
        except (UnsupportedMechanism, ArithmeticError, MemoryError):  # nothing is proved from below, which 0 says
            return 0.0

    def _bracket(self, event: Event, delta: float, adjacency: Adjacency) -> tuple[float, float]:
        if _closed_forms.participation_chance(event) <= delta:
            return 0.0, 0.0
        noises = _pairs.gaussians(event)
        if noises is not None:
            return _closed_forms.exact_gaussian(noises, delta, adjacency)
        special = (
            _closed_forms.without_replacement(event, delta, adjacency, self.tolerance)
            or _closed_forms.one_sample_epsilon(event, delta, adjacency)
            or _closed_forms.concentrated_epsilon(event, delta, adjacency)
            or _closed_forms.exponential(event, delta)
        )
        if special is not None:
            return special
        kinds_of = kinds(event)
        if kinds_of & _pairs.TWO_ENDS:
            return self._apart(event, delta, adjacency, kinds_of)
        return self._compose(_pairs.leaves(event, 1, adjacency), delta, adjacency)

    def _compose(self, leaves: list[_pairs.Leaf], delta: float, adjacency: Adjacency) -> tuple[float, float]:
        return pld.epsilon_bracket(leaves, delta, directions=_directions(adjacency), tolerance=self.tolerance)

    def on_grid(self, event: Event, deltas: Sequence[float], *, adjacency: Adjacency, grid: float) -> tuple[float, ...]:
        """Return what accounting by privacy loss distributions on that grid gives at each delta, however far from the truth;
        `UnsupportedMechanism` if some part has no single pair, `MemoryError` for too many losses.
        """
        ways = alternatives(without_groups(known(event, adjacency)), adjacency)
        pairs = [_pairs.leaves(way, 1, adjacency) for way in ways]
        figures = [pld.epsilons_on_grid(steps, deltas, grid, directions=_directions(adjacency)) for steps in pairs]
        return tuple(map(max, zip(*figures, strict=True)))

    def _apart(self, event: Event, delta: float, adjacency: Adjacency, kinds_of: frozenset[type]) -> tuple[float, float]:
        """Bracket of a mixture with mechanisms that no single pair represents: each end has its own pairs, or divergences."""
        high = _closed_forms.by_divergence(event, delta, adjacency)
        try:
            high = min(high, self._compose(_pairs.leaves(event, 1, adjacency, "above"), delta, adjacency)[1])
        except UnsupportedMechanism:  # some part has divergences only
            if math.isinf(high):
                raise
        shares = _pairs.shares(kinds_of)
        low = max(self._compose(_pairs.leaves(event, 1, adjacency, "below", share), delta, adjacency)[0] for share in shares)
        return low, high


def _directions(adjacency: Adjacency) -> tuple[Direction, ...]:
    return pld.REPLACE if adjacency is Adjacency.REPLACE_ONE else pld.ADD_REMOVE


def _describe(low: float) -> str:
    if math.isinf(low):
        return "the true value is infinite"
    return phrase("the true value is at least {bound}", bound=below(low, 6))


PLUGIN = Reference
