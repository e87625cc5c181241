"""The second bracket of every composed sampled case, in whole numbers, in `docs/evidence/accountants/second.json`.

python -m tests.accounting.truths.second [WIDE] [WORDS]

asks for the cases if their question is new or their ends are further apart than WIDE (relative), and writes all of them.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import accountant_truths as truths
import numpy as np
from accountant_truths import SECOND, Truth, agrees
from flint import arb, ctx
from scipy.special import logsumexp

from audit.accounting.regression import suite
from audit.accounting.regression.files import question
from audit.accounting.regression.suite import Case
from audit.core.event_forms import number, plain
from audit.core.events import ApproximateDp, Event, Gaussian, PoissonSampled, SampledWithoutReplacement
from tests.accounting.truths import contour, judge, losses, whole_numbers
from tests.accounting.truths.curves import BITS, Atoms, Curve, Normals, SampledLaplace
from tests.accounting.truths.losses import Losses
from tests.accounting.truths.whole_numbers import Leaf, NotDecided, Plan

KEPT = judge.KEPT.with_name(SECOND)
METHOD = "whole numbers with directed rounding"
LOSSES = 6_000
"""Of the whole composition: how many losses its window has at first."""
_FINENESS = 8
_FINER = 4
_ROUNDS = (1, _FINER, _FINER**2)
WIDE = 1e-2
"""Relative width at which the next, finer grid is tried."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step in both arithmetics: its curve in balls, its losses in floats for plans."""

    curve: Curve
    losses: Losses
    count: int


def is_asked(case: Case) -> bool:
    """True if a case is a composition with sampled Gaussian or Laplace releases in it that has its own pair."""
    return any(_is_composed_sampled(way) for way in judge._ways(case.asks[0].event, 1, 1))


def _is_composed_sampled(way: Sequence[judge.Step]) -> bool:
    sampled = [event for event, _, _ in way if isinstance(event, PoissonSampled | SampledWithoutReplacement)]
    return bool(sampled) and sum(count for _, count, _ in way) > 1


def bracket(case: Case, wide: float = WIDE) -> Truth | None:
    """Two ends around the epsilon of a case; None if a step has no curve in closed form.

    Raises:
        NotDecided: the grid would be too fine.
    """
    ctx.prec = BITS
    ask = case.asks[0]
    lows, highs = [0.0], [0.0]
    for way in judge._ways(ask.event, 1, 1):
        ways = [_steps(way, direction) for direction in judge._directions(ask.adjacency)]
        if any(steps is None for steps in ways):
            return None
        if not any(ways):
            continue  # nothing is released
        low, high = _ends([steps for steps in ways if steps], ask.delta, (case.lower + case.upper) / 2, wide)
        lows.append(low)
        highs.append(high)
    return Truth(method=METHOD, low=max(lows), high=max(highs))


def _steps(way: Sequence[judge.Step], direction: str) -> list[Step] | None:
    steps = []
    for event, count, size in way:
        if judge._shows_nothing(event):
            continue
        step = _step(_as_poisson(event, direction), count, size, direction)
        if step is None:
            return None
        steps.append(step)
    return steps


def _as_poisson(event: Event, direction: str) -> Event:
    """Batches of fixed size under add/remove: the record displaces another one, which moves the sum by two."""
    if isinstance(event, SampledWithoutReplacement) and direction != "replace":
        noise = judge._together(event.mechanism)
        if noise:
            return PoissonSampled(mechanism=Gaussian(noise_multiplier=noise / 2), sample_rate=event.batch / event.population)
    return event


def _step(event: Event, count: int, size: int, direction: str) -> Step | None:
    gaussian, laplace = judge._gaussian_step(event), judge._laplace_step(event)
    if gaussian is not None:
        noise, rate = gaussian
        nodes = losses.gaussian_mixture(noise, *judge._mixtures(rate, size, direction), _FINENESS)
        return Step(Normals(noise, rate, size, direction), nodes, count)
    if laplace is not None and (laplace[1] == 1 or (size == 1 and direction != "replace")):
        scale, way = laplace[0] / size / (2 if direction == "replace" else 1), "add" if direction == "add" else "remove"
        return Step(SampledLaplace(scale, laplace[1], way), losses.sampled_laplace(scale, laplace[1], way, _FINENESS), count)
    if isinstance(event, ApproximateDp) and size == 1:
        epsilon, retained = arb(float(event.epsilon)), 1 - arb(float(event.delta))
        high = 1 / (1 + (-epsilon).exp())
        share = 1 / (1 + math.exp(-event.epsilon))
        chances = {event.epsilon: (1 - event.delta) * share, -event.epsilon: (1 - event.delta) * (1 - share)}
        curve = Atoms([(epsilon, retained * high), (-epsilon, retained * (1 - high))], arb(float(event.delta)))
        return Step(curve, losses.discrete(chances, float(event.delta)), count)
    return None


def _ends(ways: Sequence[Sequence[Step]], delta: float, near: float, wide: float) -> tuple[float, float]:
    """The way that costs more decides from below; the other has to cost less than the upper end."""
    ranked = sorted(ways, key=lambda steps: -contour.saddle([(step.losses, step.count) for step in steps], near)[1])
    low, high = 0.0, math.inf
    for finer in _ROUNDS:
        plan, leaves = _plan(ranked[0], delta, near, LOSSES * finer)
        low, high = max(low, whole_numbers.lower_end(leaves, plan)), min(high, whole_numbers.upper_end(leaves, plan))
        if low > high:
            raise ArithmeticError(f"the ends crossed: {low:.12g} from below, {high:.12g} from above")
        if high - low <= wide * high:
            break
    for steps in ranked[1:]:
        high = max(high, _check_other_way(steps, plan, high))
    return low, high


def _check_other_way(steps: Sequence[Step], main: Plan, enough: float) -> float:
    """An upper end of the way that costs less, as fine as it takes to be below what is enough."""
    if _largest(steps) < enough:
        return 0.0
    high = math.inf
    for coarser in (4.0, 1.0, 1 / _FINER):
        plan, leaves = _on_grid(steps, main.delta, main.epsilon, float(main.h.mid()) * coarser, main.tilt)
        high = min(high, whole_numbers.upper_end(leaves, plan))
        if high <= enough:
            break
    return high


def _largest(steps: Sequence[Step]) -> float:
    """At least the largest loss of records that are added; infinite if it has no bound."""
    total = 0.0
    for step in steps:
        if not isinstance(step.curve, Normals) or step.curve.direction != "add" or step.curve.rate == 1:
            return math.inf
        total -= step.count * step.curve.size * math.log1p(-step.curve.rate) * (1 + 1e-12)
    return total


def _plan(steps: Sequence[Step], delta: float, near: float, number: int) -> tuple[Plan, list[Leaf]]:
    """A grid with about so many losses in the window of the whole, and the leaves on it."""
    tilt, _ = contour.saddle([(step.losses, step.count) for step in steps], near)
    cumulants = [_cumulant(step.losses) for step in steps]
    draft = Plan(delta, near, tilt, arb(1))
    low, high = draft.window(lambda s: sum(step.count * k(s) for step, k in zip(steps, cumulants, strict=True)), lambda s: 0.0)
    return _on_grid(steps, delta, near, (max(high, near * 1.01) - min(low, near * 0.99)) / number, tilt)


def _on_grid(steps: Sequence[Step], delta: float, near: float, width: float, tilt: float) -> tuple[Plan, list[Leaf]]:
    """A grid of about this width, on which the two heaviest atoms are, and the leaves on it."""
    cumulants = [_cumulant(step.losses) for step in steps]
    atoms = max(
        ((step.count, step.curve.atoms) for step in steps if len(step.curve.atoms) > 1), default=None, key=lambda row: row[0]
    )
    h = arb(width)
    if atoms is not None:
        gap = atoms[1][0] - atoms[1][1]
        h = gap / math.ceil(float(gap.mid()) / width)
    plan = Plan(delta, near, tilt, h)
    leaves = []
    for step, k in zip(steps, cumulants, strict=True):

        def rest(s: float, step: Step = step, k: whole_numbers.Cumulant = k) -> float:
            return sum(peer.count * g(s) for peer, g in zip(steps, cumulants, strict=True)) - k(s)

        window = plan.window(lambda s, k=k, count=step.count: k(s) - math.log(count), rest)  # type: ignore[misc]
        observed = step.losses.loss[step.losses.log_mass > -300]
        span = (max(window[0], float(observed.min())), min(max(window[1], near / step.count), float(observed.max())))
        leaves.append(Leaf(step.curve, step.count, (min(span), max(span)), _median(step.losses), k))
    return plan, leaves


def _median(nodes: Losses) -> float:
    order = np.argsort(nodes.loss)
    share = np.cumsum(np.exp(nodes.log_mass[order]))
    return float(nodes.loss[order][np.searchsorted(share, share[-1] / 2)])


def _cumulant(nodes: Losses) -> whole_numbers.Cumulant:
    @lru_cache(maxsize=4096)
    def value(s: float) -> float:
        with np.errstate(all="ignore"):
            result = contour.cumulant([(nodes, 1)], np.array([s + 0j]))[0].real
            return float(result) if math.isfinite(result) else float(logsumexp(nodes.log_mass + s * nodes.loss))

    return value


def _width(row: Mapping[str, Any]) -> float:
    """Relative width of a kept row, 0 if it has no ends: a finer grid gives it none either."""
    return 0.0 if "method" not in row or not row["high"] else 1 - float(number(row["low"])) / float(number(row["high"]))


def main(words: Sequence[str]) -> int:
    """Asks for the second bracket of every composed sampled case with a new question."""
    cases = [case for case in suite.load() if case.kind == "bracket" and is_asked(case)]
    retained = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    rows = {case.id: retained[case.id] for case in cases if retained.get(case.id, {}).get("question") == question(case)}
    wide, words = (float(words[0]), words[1:]) if words and words[0][0].isdigit() else (WIDE, words)
    rows = {name: row for name, row in rows.items() if _width(row) <= wide}
    alone = truths.read(KEPT.parent, cases)  # what no other method judges comes first
    for case in sorted(cases, key=lambda case: case.id in alone):
        if (case.id in rows and not words) or (words and not any(word in case.id for word in words)):
            continue
        start = time.process_time()
        try:
            result, reason = bracket(case, wide), "no curve in closed form"
        except NotDecided as error:
            result, reason = None, str(error)
        if result is not None and result.low < result.high / 2:
            result, reason = None, f"[{result.low:g}, {result.high:g}] says nothing"
        rows[case.id] = {"question": question(case)}
        if result is not None:
            rows[case.id] |= {"method": result.method, "low": plain(result.low), "high": plain(result.high)}
        spent = time.process_time() - start
        verdict = reason if result is None else "agrees" if agrees(case, result) else "CONTRADICTS THE BRACKET"
        width = math.nan if result is None or not result.high else (result.high - result.low) / result.high
        print(
            f"{case.id}: [{case.lower:.9g}, {case.upper:.9g}] {result and (result.low, result.high)} "
            f"{width:.1e} {spent:.1f} s {verdict}",
            flush=True,
        )
        lines = (f" {json.dumps(case.id)}: {json.dumps(rows[case.id])}" for case in cases if case.id in rows)
        KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
