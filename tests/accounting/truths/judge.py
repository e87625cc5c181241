"""The true epsilon of a case by methods that the oracle does not use, and which of them it was.

python -m tests.accounting.truths.judge     writes docs/evidence/accountants/truths.json
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

from accountant_truths import NAME, Truth, agrees
from mpmath import mp, mpf

from audit.accounting.regression import suite
from audit.accounting.regression.files import question
from audit.accounting.regression.suite import Case
from audit.core.adjacency import Adjacency
from audit.core.deployed_events import DiscreteGaussian, DiscreteLaplace
from audit.core.event_forms import plain
from audit.core.events import (
    ApproximateDp,
    Composed,
    Concentrated,
    Event,
    Exponential,
    Gaussian,
    Grouped,
    Laplace,
    NonPrivate,
    Parallel,
    PoissonSampled,
    RandomizedResponse,
    Repeated,
    SampledWithoutReplacement,
)
from tests.accounting.truths import contour, exactly, losses
from tests.accounting.truths.contour import NotConverged
from tests.accounting.truths.losses import Losses

KEPT = Path(__file__).resolve().parents[3] / "docs" / "evidence" / "accountants" / NAME
FINENESS = 8
_FINENESS = (4, 8, 16, 32)
_SHARES = (*(place / 40 for place in range(1, 40)), 0.99, 0.999, 0.9999, 0.99999, 0.999999)
_MOST_LAPLACE = 120
Step = tuple[Event, int, int]
"""A mechanism of one step, how often it is run, and how many records change together."""
Directions = tuple[str, ...]


def truth(case: Case) -> Truth | None:
    """The truth about a bracket of the battery, None if no other method covers it."""
    ask = case.asks[0]
    near = (case.lower, case.upper) if math.isfinite(case.upper) else (0.0, 1.0)
    result = [_of_steps(list(way), ask.delta, ask.adjacency, near) for way in _ways(ask.event, 1, 1)]
    if not result:
        return Truth(method="nothing is released", low=0.0, high=0.0)
    if any(part is None for part in result):
        return None
    parts = [part for part in result if part is not None]
    return Truth(method=parts[0].method, low=max(part.low for part in parts), high=max(part.high for part in parts))


def _ways(event: Event, count: int, size: int) -> Iterator[tuple[Step, ...]]:
    """What may happen to one record: with mechanisms on disjoint parts it reaches one of them."""
    match event:
        case Repeated(mechanism=inner, count=times):
            yield from _ways(inner, count * int(times), size)
        case Grouped(mechanism=inner, size=more):
            yield from _ways(inner, count, size * more)
        case Parallel(parts=parts):
            for part in parts:
                yield from _ways(part, count, size)
        case Composed(parts=parts):
            ways: list[tuple[Step, ...]] = [()]
            for part in parts:
                ways = [(*way, *more) for way in ways for more in _ways(part, count, size)]
            yield from ways
        case _:
            yield ((event, count, size),) if count else ()


def _of_steps(steps: list[Step], delta: float, adjacency: Adjacency, near: tuple[float, float]) -> Truth | None:
    steps = [step for step in steps if not _shows_nothing(step[0])]
    if not steps:
        return Truth(method="nothing is released", low=0.0, high=0.0)
    revealed = _revealed(steps)
    if revealed > delta:
        return Truth(method="chance of a release that shows the record", low=math.inf, high=math.inf)
    for method in (_normal, _atoms, _fixed_once, _one_step, _laplace, _fixed_batches, _classes, _by_contour):
        result = method(steps, delta, adjacency, near)
        if result is not None:
            return result
    return None


def _shows_nothing(event: Event) -> bool:
    match event:
        case PoissonSampled(sample_rate=0) | SampledWithoutReplacement(batch=0) | Exponential(epsilon=0) | Concentrated(rho=0):
            return True
        case PoissonSampled(mechanism=inner) | SampledWithoutReplacement(mechanism=inner):
            return _together(inner) == math.inf
    return False


def _revealed(steps: list[Step]) -> float:
    """Chance that some step shows the record as it is."""
    hidden = 1.0
    for event, count, size in steps:
        rate, inner = (float(event.sample_rate), event.mechanism) if isinstance(event, PoissonSampled) else (1.0, event)
        if isinstance(inner, NonPrivate) or getattr(inner, "noise_multiplier", 1.0) == 0:
            hidden *= (1 - rate) ** (count * size)
    return 1 - hidden


def _together(event: Event) -> float | None:
    """Noise multiplier of the one Gaussian release that several amount to; None if one is of another kind."""
    match event:
        case Gaussian(noise_multiplier=noise):
            return float(noise)
        case Repeated(mechanism=inner, count=count):
            noise = _together(inner)
            return None if noise is None else (noise / math.sqrt(count) if count else math.inf)
        case Composed(parts=parts):
            noises = [_together(part) for part in parts]
            if any(noise is None for noise in noises):
                return None
            total = sum(noise**-2 for noise in noises if noise is not None)
            return total**-0.5 if total else math.inf
        case PoissonSampled(mechanism=inner, sample_rate=1):
            return _together(inner)
    return None


def _directions(adjacency: Adjacency) -> Directions:
    return ("replace",) if adjacency is Adjacency.REPLACE_ONE else ("remove", "add")


def _at(method: str, read_delta: Callable[[float], float], delta: float, near: tuple[float, float]) -> Truth:
    epsilon = contour.epsilon_at(read_delta, delta, near)
    return Truth(method=method, low=epsilon, high=epsilon)


def _normal(steps: list[Step], delta: float, adjacency: Adjacency, near: tuple[float, float]) -> Truth | None:
    """Unsampled Gaussian releases: two normal distributions, integrated."""
    noises = [(_together(event), count, size) for event, count, size in steps]
    if any(noise is None for noise, _, _ in noises):
        return None
    change = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    mean = change * math.sqrt(sum(count * (size / noise) ** 2 for noise, count, size in noises if noise))
    return _at(
        "integral of densities at 50 digits",
        lambda e: float(exactly.normal_mixtures(1 / mean, {1.0: 1.0}, {0.0: 1.0}, e)),
        delta,
        near,
    )


def _gaussian_step(event: Event) -> tuple[float, float] | None:
    """Noise and rate of a Poisson-sampled Gaussian release."""
    rate, inner = (float(event.sample_rate), event.mechanism) if isinstance(event, PoissonSampled) else (1.0, event)
    noise = _together(inner)
    return None if noise is None or noise == 0 else (noise, rate)


def _laplace_step(event: Event) -> tuple[float, float] | None:
    rate, inner = (float(event.sample_rate), event.mechanism) if isinstance(event, PoissonSampled) else (1.0, event)
    return (float(inner.noise_multiplier), rate) if isinstance(inner, Laplace) and inner.noise_multiplier > 0 else None


def _mixtures(rate: float, size: int, direction: str) -> tuple[dict[float, float], dict[float, float]]:
    """Weights of the means under P and Q: how many of the records take part."""
    observed = losses.binomial_weights(size, rate) if rate < 1 else {float(size): 1.0}
    absent = {0.0: 1.0}
    if direction == "replace":
        return observed, {-mean: weight for mean, weight in observed.items()}
    return (observed, absent) if direction == "remove" else (absent, {-mean: weight for mean, weight in observed.items()})


def _one_step(steps: list[Step], delta: float, adjacency: Adjacency, near: tuple[float, float]) -> Truth | None:
    if len(steps) != 1 or steps[0][1] != 1:
        return None
    ((event, _, size),) = steps
    gaussian, laplace = _gaussian_step(event), _laplace_step(event)
    if gaussian is None and (laplace is None or size > 1):
        return None
    noise, rate = gaussian or laplace or (1.0, 1.0)
    integral = exactly.normal_mixtures if gaussian else exactly.laplace_mixtures

    def read_delta(epsilon: float) -> float:
        pairs = [_mixtures(rate, size, direction) for direction in _directions(adjacency)]
        return float(max(integral(noise, members, peers, epsilon) for members, peers in pairs))

    return _at("integral of densities at 50 digits", read_delta, delta, near)


def _atoms(steps: list[Step], delta: float, adjacency: Adjacency, near: tuple[float, float]) -> Truth | None:
    """Compositions of mechanisms with finitely many losses, exactly."""
    with mp.workdps(exactly.DIGITS):
        parts = []
        for event, count, size in steps:
            match event:
                case RandomizedResponse(noise_parameter=parameter, buckets=buckets):
                    peer = mpf(parameter) / buckets
                    kept_mass = 1 - mpf(parameter) + peer
                    if peer == 0:
                        return Truth(method="chance of a release that shows the record", low=math.inf, high=math.inf)
                    loss = mp.log(kept_mass / peer)
                    atoms = {loss: kept_mass, -loss: peer} | ({mpf(0): (buckets - 2) * peer} if buckets > 2 else {})
                    parts.append((atoms, count * size))  # a group of answers is as many answers
                case ApproximateDp(epsilon=epsilon, delta=spent):
                    parts.append((exactly.group_curve(float(epsilon), float(spent), size), count))
                case DiscreteGaussian() | DiscreteLaplace():
                    parts.append((_integers(event, adjacency, size), count))
                case _:
                    return None
        if len(parts) == 1 and parts[0][1] > 500 and len(parts[0][0]) == 2:
            loss = max(parts[0][0])
            total = exactly.binomial_atoms(parts[0][0][loss], loss, parts[0][1])
        else:
            total = exactly.composed(parts)
        if total.get(mp.inf, 0) > delta:
            return Truth(method="exact composition of atoms at 50 digits", low=math.inf, high=math.inf)
        return _at(
            "exact composition of atoms at 50 digits", lambda e: float(exactly.delta_of_atoms(total, mpf(e))), delta, near
        )


def _integers(event: DiscreteGaussian | DiscreteLaplace, adjacency: Adjacency, size: int) -> dict[mpf, mpf]:
    """Losses of noise on an integer at the largest change of it, at the digits that are set."""
    scale = mpf(float(event.noise_multiplier)) * event.sensitivity
    change = event.sensitivity * size * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
    if isinstance(event, DiscreteGaussian):
        return exactly.shifted_integers(lambda k: -(mpf(k) ** 2) / (2 * scale**2), change, int(16 * scale) + 1)
    return exactly.shifted_integers(lambda k: -abs(k) / scale, change, int(120 * scale) + 1)


def _laplace(steps: list[Step], delta: float, adjacency: Adjacency, near: tuple[float, float]) -> Truth | None:
    """Few unsampled Laplace releases, with (epsilon, delta)-DP mechanisms beside them, as truncated powers."""
    change = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    parts, beside = [], []
    for event, count, size in steps:
        laplace = _laplace_step(event)
        if isinstance(event, ApproximateDp) and size == 1:
            beside.append((exactly.group_curve(float(event.epsilon), float(event.delta), 1), count))
        elif laplace is None or laplace[1] < 1:
            return None
        else:
            parts.append((Fraction(change * size) / Fraction(laplace[0]), count))
    if not parts or sum(count for _, count in parts) > _MOST_LAPLACE:
        return None
    digits = 60 + 3 * sum(count for _, count in parts) + int(sum(float(top) * count for top, count in parts))
    with mp.workdps(exactly.DIGITS):
        shifts = exactly.composed(beside)

    def read_delta(epsilon: float) -> float:
        return float(
            mp.fsum(
                mass * (exactly.laplace_composed(parts, epsilon - float(loss), digits) if mp.isfinite(loss) else 1)
                for loss, mass in shifts.items()
            )
        )

    return _at("expansion into truncated powers", read_delta, delta, near)


def _fixed(steps: list[Step], adjacency: Adjacency) -> tuple[float, float, int] | None:
    """Noise, rate and steps of releases on batches of fixed size."""
    if len(steps) != 1 or not isinstance(steps[0][0], SampledWithoutReplacement) or adjacency is not Adjacency.REPLACE_ONE:
        return None
    ((event, count, size),) = steps
    noise = _together(event.mechanism)
    return None if noise is None or size > 1 else (noise, event.batch / event.population, count)


def _fixed_once(steps: list[Step], delta: float, adjacency: Adjacency, near: tuple[float, float]) -> Truth | None:
    result = _fixed(steps, adjacency)
    if result is None or (result[2] > 1 and result[1] < 1):
        return None
    noise, rate, count = result

    def read_delta(epsilon: float) -> float:
        inner = math.log1p(math.expm1(epsilon) / rate)
        return rate * float(exactly.normal_mixtures(noise / (2 * math.sqrt(count)), {1.0: 1.0}, {0.0: 1.0}, inner))

    return _at("integral of densities at 50 digits", read_delta, delta, near)


def _fixed_batches(steps: list[Step], delta: float, adjacency: Adjacency, near: tuple[float, float]) -> Truth | None:
    """From below by a record among records of nothing, from above by the amplified curve."""
    result = _fixed(steps, adjacency)
    if result is None:
        return None
    noise, rate, count = result
    observed, absent = (
        {2.0: rate, 0.0: 1 - rate},
        {0.0: 1.0},
    )  # among records at the other end, replacing one moves the sum by 2
    attained = [
        losses.gaussian_mixture(noise, observed, absent, FINENESS),
        losses.gaussian_mixture(noise, absent, {-mean: weight for mean, weight in observed.items()}, FINENESS),
    ]

    def epsilon(pairs: list[Losses]) -> float:
        return contour.epsilon_at(lambda e: max(contour.delta_at([(pair, count)], e) for pair in pairs), delta, near)

    ends = (epsilon(attained), epsilon([losses.amplified(noise, rate, FINENESS)]))
    return Truth(method="contour integrals of what is attained and of what dominates", low=ends[0], high=ends[1])


def _classes(steps: list[Step], delta: float, adjacency: Adjacency, near: tuple[float, float]) -> Truth | None:
    """Classes of mechanisms: from below by one member (two outcomes; Gaussian), from above by moments."""
    kinds = [event for event, _, _ in steps if isinstance(event, Exponential | Concentrated)]
    if not kinds:
        return None
    rho = sum(
        count * (size**2 * event.rho if isinstance(event, Concentrated) else (size * event.epsilon) ** 2 / 8)
        for event, count, size in steps
        if isinstance(event, Concentrated | Exponential)
    )
    peers = [step for step in steps if not isinstance(step[0], Exponential | Concentrated)]
    parts = [_parts(peers, direction, FINENESS) for direction in _directions(adjacency)]
    if any(part is None for part in parts):
        return None
    high = max(contour.chernoff(part or [], rho, delta) for part in parts)
    shares = _SHARES[:: 6 if peers else 2] if any(isinstance(event, Exponential) for event in kinds) else (0.5,)
    low = max(_member(steps, share, delta, adjacency, near) for share in shares)
    return Truth(method="a member of the class from below, moments from above", low=low, high=high)


def _member(steps: list[Step], share: float, delta: float, adjacency: Adjacency, near: tuple[float, float]) -> float:
    """Epsilon of one mechanism of the class: exponential ones of two outcomes, Gaussian ones for zCDP."""
    peers = [step for step in steps if not isinstance(step[0], Exponential | Concentrated)]
    outcomes = [(size * float(event.epsilon), count) for event, count, size in steps if isinstance(event, Exponential)]
    rho = sum(count * size**2 * float(event.rho) for event, count, size in steps if isinstance(event, Concentrated))
    with mp.workdps(exactly.DIGITS):
        if not peers and not rho and len({epsilon for epsilon, _ in outcomes}) == 1:
            epsilon, count = mpf(outcomes[0][0]), sum(times for _, times in outcomes)
            top = share * epsilon
            rare = mp.expm1(epsilon - top) / mp.expm1(epsilon) * mp.exp(top)
            atoms = exactly.binomial_atoms(rare, top, count, top - epsilon)
            return contour.epsilon_at(lambda e: float(exactly.delta_of_atoms(atoms, mpf(e))), delta, near)
    ends = []
    for direction in _directions(adjacency):
        parts = list(_parts(peers, direction, FINENESS) or [])
        for epsilon_, count in outcomes:
            top = share * epsilon_
            high = math.expm1(epsilon_ - top) / math.expm1(epsilon_) * math.exp(top)
            parts.append((losses.discrete({top: high, top - epsilon_: 1 - high}), count))
        if rho:
            parts.append((losses.gaussian_mixture(1 / math.sqrt(2 * rho), {1.0: 1.0}, {0.0: 1.0}, FINENESS), 1))
        ends.append(contour.epsilon_at(lambda e, parts=parts: contour.delta_at(parts, e), delta, near))  # type: ignore[misc]
    return max(ends)


def _parts(steps: list[Step], direction: str, fineness: int) -> list[tuple[Losses, int]] | None:
    """Losses of every step, None if one has no formula here."""
    parts: list[tuple[Losses, int]] = []
    for event, count, size in steps:
        gaussian, laplace = _gaussian_step(event), _laplace_step(event)
        if gaussian is not None:
            noise, rate = gaussian
            members, peers = _mixtures(rate, size, direction)
            parts.append((losses.gaussian_mixture(noise, members, peers, fineness), count))
        elif laplace is not None and direction != "replace" and (size == 1 or laplace[1] == 1):
            parts.append((losses.sampled_laplace(laplace[0] / size, laplace[1], direction, fineness), count))
        elif isinstance(event, ApproximateDp) and size == 1:
            high = 1 / (1 + math.exp(-event.epsilon))
            retained = 1 - event.delta
            parts.append(
                (losses.discrete({event.epsilon: retained * high, -event.epsilon: retained * (1 - high)}, event.delta), count)
            )
        else:
            return None
    return parts


def _by_contour(steps: list[Step], delta: float, adjacency: Adjacency, near: tuple[float, float]) -> Truth | None:
    """Anything with a moment generating function if its losses have a smooth density when composed.

    Densities are given as many nodes as it takes for delta at the bracket's upper end to settle.
    """
    if _parts(steps, "remove", 1) is None and _parts(steps, "replace", 1) is None:
        return None
    settled = None
    for fineness in _FINENESS:
        ways = [_parts(steps, direction, fineness) or [] for direction in _directions(adjacency)]
        try:
            deltas = [contour.delta_at(parts, near[1]) for parts in ways]
        except NotConverged:
            return None
        if settled is not None and abs(max(deltas) - settled) <= 1e-7 * settled:
            break
        settled = max(deltas)
    else:
        return None
    costly = [parts for parts, result in zip(ways, deltas, strict=True) if result > max(deltas) / 3]  # the other way is far off

    def read_delta(epsilon: float) -> float:
        return max(contour.delta_at(parts, epsilon) for parts in costly)

    try:
        return _at("contour integral of the moment generating function", read_delta, delta, near)
    except NotConverged:
        return None


def main(words: Sequence[str]) -> int:
    """Asks for the truth of every bracket with a new question, the few of their kind first, and writes all of them."""
    cases = [case for case in suite.load() if case.kind == "bracket"]
    common = Counter(case.group for case in cases)
    retained = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    rows = {case.id: retained[case.id] for case in cases if retained.get(case.id, {}).get("question") == question(case)}
    for case in sorted(cases, key=lambda case: common[case.group]):
        if case.id in rows or (words and not any(word in case.id for word in words)):
            continue
        try:
            result = truth(case)
        except NotConverged as error:
            result = None
            print(f"{case.id}: {error}", file=sys.stderr)
        rows[case.id] = {"question": question(case)}
        if result is not None:
            rows[case.id] |= {"method": result.method, "low": plain(result.low), "high": plain(result.high)}
        print(f"{case.id}: {result} {'' if result is None or agrees(case, result) else 'CONTRADICTS THE BRACKET'}", flush=True)
        lines = (f" {json.dumps(case.id)}: {json.dumps(rows[case.id])}" for case in cases if case.id in rows)
        KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
