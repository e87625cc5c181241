"""The replay of a program on pairs of neighbouring data sets, and its verdict."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist
from typing import Any

import numpy as np

from audit.replays.accusations import Accusation, certain_difference, exceeded_law
from audit.replays.claims import ReplayClaim
from audit.replays.comparison import ReplayComparison, atom_differences, compare
from audit.replays.decisions import decided_loss, enumerated_loss
from audit.replays.recording import CHOICE, EVENT, NUMBER, NoiseRows, Recording, Schedule
from audit.replays.run import Program, ProgramRun

# Paths near decisions: a draw put between the places where a comparison flips on the data and on the neighbour.
_RANGES = {"normal": (-30.0, 30.0), "laplace": (-30.0, 30.0), "uniform": (0.0, 1.0), "exponential": (0.0, 30.0)}
_MOST_PATHS = 3  # paths of a pair


Runs = tuple[Recording, Recording]


def find_flips(late: Runs, early: Runs) -> list[dict[int, float]]:
    """Return, for some comparisons with an outcome that the data can change, the last draw of it and a value at which they do.

    Earlier draws are left as they were, so that the path up to the comparison stays the same.

    Args:
        late: recordings of the data and the neighbour with noise kept to the end, which shows what is compared.
        early: of the same draws with noise released at the first sum: the neighbour is handed those sums.
    """
    paths: list[dict[int, float]] = []
    for left, right in zip(late[0].releases, late[1].releases, strict=False):
        if left.kind != EVENT or right.kind != EVENT or left.rows.value.shape != right.rows.value.shape:
            continue
        for i in range(len(left.rows.value)):
            flips = [_threshold(side, entry.rows, i) for side, entry in zip(late, (left, right), strict=True)]
            if flips[0] is None or flips[1] is None or flips[0][0] != flips[1][0]:
                continue
            draw = flips[0][0]
            thresholds = np.sort([flips[0][1], flips[1][1] + _shift(early, draw)])
            low, high = np.clip(thresholds, *_RANGES[late[0].laws[draw]])
            if high - low > 1e-9 * (1 + abs(low)):
                paths.append({draw: float((low + high) / 2)})
    if not paths:
        return []
    return [paths[i] for i in np.unique(np.linspace(0, len(paths) - 1, min(_MOST_PATHS, len(paths))).astype(int))]


def _shift(early: Runs, draw: int) -> float:
    """Return by how much of a draw the released sum moves that holds it, 0 if it is released alone."""
    for left, right in zip(early[0].releases, early[1].releases, strict=False):
        if left.kind != NUMBER or left.rows.value.shape != right.rows.value.shape:
            continue
        rows, columns = np.nonzero((left.rows.index == draw) & (left.rows.weight != 0))
        if rows.size:
            movement = right.rows.value[rows[0]] - left.rows.value[rows[0]]
            return float(movement / left.rows.weight[rows[0], columns[0]])
    return 0.0


def _threshold(recording: Recording, rows: NoiseRows, place: int) -> tuple[int, float] | None:
    """Return the last draw of a row and the value of it at which the row is 0, or None if it has none of a known range."""
    index, weight = rows.index[place], rows.weight[place]
    names = index[weight != 0]
    if not names.size or recording.laws[int(names.max())] not in _RANGES:
        return None
    draw = int(names.max())
    own = float(weight[(index == draw) & (weight != 0)].sum())
    rest = float(rows.value[place] + weight @ recording.draws[index]) - own * float(recording.draws[draw])
    return (draw, -rest / own) if own and np.isfinite(rest) else None


SEEDS = (1, 2)  # paths of each pair; the second from the neighbour to the data
_SLOW = 0.3  # seconds of a run from which one path of each pair has to do
_PATHS = 8  # of a program that compares; half as many of one that releases several numbers
_OUTCOMES = 12  # comparisons with an outcome that is changed
_LARGEST = 500.0  # epsilon with an exponential
_HIDDEN = 4  # repetitions on the same data by which hidden randomness is looked for


Attempt = tuple[tuple[ProgramRun, ProgramRun], ReplayComparison, tuple[Any, Any]]


class ReplayVerdict(StrEnum):
    """What a replay says of a pair, or of a program."""

    PROVED = "proved"
    BOUND = "upper bound only"
    NOT_FOLLOWED = "not followed"
    REFUTED = "refuted"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairResult:
    """What a replay showed of one pair.

    Attributes:
        name: what kind of neighbour it is.
        verdict: of the pair.
        data, neighbour: the data sets.
        loss: epsilon at the delta of the claim (mu for a claim of mu): exact or an upper bound; infinite if unknown.
        exact: whether the loss is exact.
        reason: what was seen, with the line.
        method: how a refutation was decided.
        releases: how often something was released.
    """

    name: str
    verdict: ReplayVerdict
    data: Any
    neighbour: Any
    loss: float
    exact: bool
    reason: str
    method: str = ""
    releases: int = 0


def check_pair(program: Program, pair: tuple[Any, Any], claim: ReplayClaim, name: str = "") -> PairResult:
    """Replay a program on one pair: with noise kept to the end; if that proves nothing, released at the first sum."""
    attempts: list[Attempt] = []
    for schedule in Schedule:
        replays: list[Attempt] = []
        for seed in SEEDS:
            sides = pair if seed == SEEDS[0] else pair[::-1]
            replays.append(_replay(program, sides, program.record(sides[0], seed, schedule)))
            if not _passes(replays[-1][1], claim) or program.seconds > _SLOW:
                break
        passes = all(_passes(comparison, claim) for _, comparison, _ in replays)
        if passes and attempts:  # noise kept to the end tells which comparisons the data can change
            replays += _near_decisions(program, attempts[0], replays)
            passes = all(_passes(comparison, claim) for _, comparison, _ in replays)
        if passes and program.seconds <= _SLOW and len(replays[0][0][0].recording.releases) > 1:
            replays += _far_paths(program, pair, replays[0], claim)
            passes = all(_passes(comparison, claim) for _, comparison, _ in replays)
        worst = max(replays, key=lambda attempt: _loss(attempt[1], claim))
        if passes:
            by_law = _by_law(program, pair, (attempts or replays)[0], claim, name)  # of noise kept to the end
            return by_law or _result(name, pair, worst, claim, ReplayVerdict.PROVED)
        attempts.append(next(attempt for attempt in replays if not _passes(attempt[1], claim)))
    if (by_law := _by_law(program, pair, attempts[0], claim, name)) is not None:
        return by_law
    bound = decided_loss(program, pair, claim) if claim.mu is None and _only_decides(attempts[0]) else None
    if bound is not None and bound <= claim.epsilon * (1 + 1e-6) + 1e-9:
        result = _result(name, pair, attempts[0], claim, ReplayVerdict.PROVED)
        return replace(result, loss=bound, exact=False)
    accusation, runs = _accuse(program, attempts, claim)
    if accusation is not None:
        return _refutation(name, pair, runs, accusation)
    best = min(attempts, key=lambda attempt: _loss(attempt[1], claim))
    is_followed = not best[1].gaps and not hides_randomness(program, best[2][0], best[0][0].recording.schedule)
    return _result(name, pair, best, claim, ReplayVerdict.BOUND if is_followed else ReplayVerdict.NOT_FOLLOWED)


def _only_decides(attempt: Attempt) -> bool:
    """True if nothing is released but decisions."""
    return all(entry.kind in (EVENT, CHOICE) for run in attempt[0] for entry in run.recording.releases)


def _by_law(program: Program, pair: tuple[Any, Any], attempt: Attempt, claim: ReplayClaim, name: str) -> PairResult | None:
    """Return the result by the law of all decisions, None if that is not known or says nothing of the claim."""
    answer = enumerated_loss(program, pair, claim) if _only_decides(attempt) else None
    if answer is None:
        return None
    loss, is_sure = answer
    if claim.mu is not None:  # the least mu that covers all programs of that epsilon
        loss = -2 * NormalDist().inv_cdf(1 / (1 + math.exp(loss))) if loss < _LARGEST else math.inf
        claimed, is_sure = claim.mu, is_sure and math.isinf(loss)
    else:
        claimed = claim.epsilon
    reason = f"what is returned costs {'mu' if claim.mu is not None else 'epsilon'} {loss:.4g}; claimed {claim}"
    if loss <= claimed * (1 + 1e-6) + 1e-9:
        return replace(_result(name, pair, attempt, claim, ReplayVerdict.PROVED), loss=loss, exact=claim.mu is None)
    if is_sure and loss > claimed * (1 + 1e-5) + 1e-7:
        return _refutation(name, pair, attempt[0], Accusation(reason=reason, loss=loss, method="law of all decisions"))
    return replace(_result(name, pair, attempt, claim, ReplayVerdict.BOUND), loss=loss, exact=False, reason=reason)


def _replay(program: Program, sides: tuple[Any, Any], first: ProgramRun) -> Attempt:
    earlier = first.recording
    terms: dict[str, Any] = {"chosen": earlier.chosen, "spread": earlier.spread, "tail": earlier.tail}
    recording = Recording(seed=earlier.seed, schedule=earlier.schedule, frozen=earlier, **terms)
    second = program.run(sides[1], recording)
    return (first, second), compare(first, second), sides


def _far_paths(program: Program, pair: tuple[Any, Any], attempt: Attempt, claim: ReplayClaim) -> list[Attempt]:
    """Return replays of paths that are seldom taken, since each path has its own loss: with draws farther out.

    If nothing but comparisons is released, any outcomes may be handed in: random ones, then the worst with one changed at a
    time.
    """
    records, schedule = attempt[0][0].recording.releases, attempt[0][0].recording.schedule
    compares, decides = (test(entry.kind == EVENT for entry in records) for test in (any, all))
    replays = []
    for i in range(_PATHS if compares else _PATHS // 2):
        sides = pair[:: (-1) ** i]
        spread = 4.0 if i % 4 < 2 else 25.0
        terms: dict[str, Any] = {"spread": spread, "tail": claim.delta}
        terms = {"outcomes": [], "coins_for_events": True} if decides else terms
        first = program.run(sides[0], Recording(seed=3 + i, schedule=schedule, **terms))
        replays.append(_replay(program, sides, first))
        if not _passes(replays[-1][1], claim):
            return replays
    worst = max(replays, key=lambda attempt: _loss(attempt[1], claim))
    for place in range(_OUTCOMES if decides else 0):
        (first, _), _, sides = worst
        outcomes = [bool(part) for entry in first.recording.releases for part in np.ravel(entry.output)]
        if place < len(outcomes):
            outcomes[place] = not outcomes[place]
            recording = Recording(seed=first.recording.seed, schedule=schedule, outcomes=outcomes, coins_for_events=True)
            replays.append(_replay(program, sides, program.run(sides[0], recording)))
            worst = max(worst, replays[-1], key=lambda attempt: _loss(attempt[1], claim))
    return replays


def _near_decisions(program: Program, late: Attempt, early: list[Attempt]) -> list[Attempt]:
    """Return replays of paths on which the data can change what a comparison says, up to the first that is not clean."""
    (first, second), _, sides = late
    replays: list[Attempt] = []
    for (data_run, other), _, _ in early:
        if data_run.recording.seed != first.recording.seed:
            continue
        recordings = (first.recording, second.recording), (data_run.recording, other.recording)
        for chosen in find_flips(*recordings):
            recording = Recording(seed=first.recording.seed, schedule=data_run.recording.schedule, chosen=chosen)
            replays.append(_replay(program, sides, program.run(sides[0], recording)))
            if not replays[-1][1].is_clean:
                return replays
    return replays


def _accuse(
    program: Program, attempts: list[Attempt], claim: ReplayClaim
) -> tuple[Accusation | None, tuple[ProgramRun, ProgramRun]]:
    for runs, comparison, sides in attempts:
        accusation = exceeded_law(program, sides, runs, claim) if comparison.error is None else None
        if accusation is not None:
            return accusation, runs
    runs, comparison, sides = min(attempts, key=lambda attempt: attempt[1].divergence is not None)
    if comparison.error is not None or math.isfinite(_loss(comparison, claim)):
        return None, runs  # what costs something finite at each transcript leaves nothing certain
    return certain_difference(program, sides, comparison, claim), runs


def _passes(comparison: ReplayComparison, claim: ReplayClaim) -> bool:
    return comparison.is_clean and comparison.loss is not None and comparison.loss.meets(claim.epsilon, claim.delta, claim.mu)


def _loss(comparison: ReplayComparison, claim: ReplayClaim) -> float:
    if comparison.loss is None or comparison.differences:
        return math.inf
    if claim.mu is not None:
        return (
            comparison.loss.mu
            if not comparison.loss.pure and not comparison.loss.laplace and comparison.loss.divergences is None
            else math.inf
        )
    return comparison.loss.epsilon(claim.delta)


def _result(name: str, pair: tuple[Any, Any], attempt: Any, claim: ReplayClaim, verdict: ReplayVerdict) -> PairResult:
    (first, _), comparison, _ = attempt
    return PairResult(
        name=name,
        verdict=verdict,
        data=pair[0],
        neighbour=pair[1],
        loss=_loss(comparison, claim),
        exact=comparison.loss is not None and comparison.loss.exact,
        reason="" if verdict is ReplayVerdict.PROVED else describe(comparison),
        releases=len(first.recording.releases),
    )


def _refutation(name: str, pair: tuple[Any, Any], runs: tuple[ProgramRun, ProgramRun], accusation: Accusation) -> PairResult:
    return PairResult(
        name=name,
        verdict=ReplayVerdict.REFUTED,
        data=pair[0],
        neighbour=pair[1],
        loss=accusation.loss,
        exact=True,
        reason=accusation.reason,
        method=accusation.method,
        releases=len(runs[0].recording.releases),
    )


def describe(comparison: ReplayComparison) -> str:
    """Return what keeps a pair from being proved, in one sentence."""
    if comparison.error is not None:
        return f"the program raised {comparison.error}"
    if comparison.divergence is not None:
        return comparison.divergence
    if comparison.gaps:
        return f"not followed: {comparison.gaps[0]}"
    if comparison.differences:
        return f"{comparison.differences[0]} differs although all releases are equal"
    if not comparison.seeds:
        return "the seeds of generators differ"
    reason = comparison.loss.reasons[0] if comparison.loss is not None and comparison.loss.reasons else ""
    return f"the loss of the transcript is {comparison.loss}" + (f" ({reason})" if reason else "")


def hides_randomness(program: Program, data: Any, schedule: Schedule) -> bool:
    """True if a run on the same data with the same releases and other draws leaves something else behind: some noise is not
    followed."""
    first = program.run(data, Recording(seed=1, schedule=schedule))
    for seed in range(7, 7 + _HIDDEN):
        again = program.run(data, Recording(seed=seed, schedule=schedule, frozen=first.recording))
        if again.error != first.error or atom_differences(first.atoms, again.atoms):
            return True
    return False
