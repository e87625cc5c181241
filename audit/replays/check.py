"""The replay of a program on pairs of neighbouring data sets, and its verdict."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist
from typing import Any

from audit.replays.accusations import Accusation, certain_difference, exceeded_law
from audit.replays.attempts import Attempt, replay
from audit.replays.claims import ReplayClaim
from audit.replays.comparison import ReplayComparison, atom_differences
from audit.replays.decisions import decided_loss, enumerated_loss
from audit.replays.impossible import impossible_outputs
from audit.replays.outcome_ledger import OutcomeLedger
from audit.replays.paths import between_thresholds, far_paths, near_decisions
from audit.replays.recording import CHOICE, EVENT, Recording, Schedule
from audit.replays.run import Program

SEEDS = (1, 2)  # paths of each pair; the second from the neighbour to the data
_LARGEST = 500.0  # epsilon with an exponential
_LAW = "law of all decisions"
_HIDDEN = 4  # repetitions on the same data by which hidden randomness is looked for


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
        not_visited: at most the probability of combinations of outcomes, of decisions by noise, that no run on the data had.
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
    not_visited: float = 1.0


def check_pair(program: Program, pair: tuple[Any, Any], claim: ReplayClaim, name: str = "") -> PairResult:
    """Replay a program on one pair: with noise kept to the end; if that proves nothing, released at the first sum."""
    program.forget_pair()
    result = _check_pair(program, pair, claim, name)
    if result.method != _LAW and (paths := program.paths.get(id(pair[0]))) is not None:
        result = replace(result, not_visited=paths.mass)
    if result.verdict is not ReplayVerdict.PROVED or not (sources := program.find_hidden_sources(pair[0])):
        return result
    reason = (
        f"calls {', '.join(sources)}, whose randomness is not followed: declare the call by @audit.release, or sample the "
        "program by `audit mechanism`"
    )
    return replace(result, verdict=ReplayVerdict.NOT_FOLLOWED, loss=math.inf, exact=False, reason=reason)


def _check_pair(program: Program, pair: tuple[Any, Any], claim: ReplayClaim, name: str) -> PairResult:
    attempts, left_open = list[Attempt](), None
    for schedule in Schedule:
        replays, failure = list[Attempt](), None
        for part in _replays(program, pair, claim, schedule, attempts):
            replays.append(part)
            if not part.passes(claim):
                break
        else:
            by_law = _by_law(program, pair, (attempts or replays)[0], claim, name)  # of noise kept to the end
            failure = None if by_law is not None else _other_outcomes(program, replays[0], claim)
            if by_law is not None:
                return by_law
            if failure is None:
                result = _without_rare_outcomes(program, pair, replays, claim, name)
                if result.verdict is ReplayVerdict.PROVED:
                    return result
                left_open = result
            replays += [] if failure is None else [failure]
        attempts.append(replays[-1])
        if left_open is not None or (replays[-1] is failure and not failure.comparison.is_clean):
            break  # seldom, but not private: another schedule may not see the decision that leads there
    if (by_law := _by_law(program, pair, attempts[0], claim, name)) is not None:
        return by_law
    bound = decided_loss(program, pair, claim) if claim.mu is None and _only_decides(attempts[0]) else None
    if bound is not None and bound <= claim.epsilon * (1 + 1e-6) + 1e-9:
        result = _result(name, pair, attempts[0], claim, ReplayVerdict.PROVED)
        return replace(result, loss=bound, exact=False)
    accusation, against = _accuse(program, attempts, claim)
    if accusation is not None:
        return _refutation(name, pair, against, claim, accusation)
    best = min(attempts, key=lambda attempt: attempt.size(claim))
    is_followed = program.is_followed(best.sides[0]) and not best.comparison.gaps
    is_followed = is_followed and not hides_randomness(program, best.sides[0], best.recording.schedule)
    verdict = ReplayVerdict.BOUND if is_followed else ReplayVerdict.NOT_FOLLOWED
    return left_open or _result(name, pair, best, claim, verdict)


def _replays(
    program: Program, pair: tuple[Any, Any], claim: ReplayClaim, schedule: Schedule, earlier: list[Attempt]
) -> Iterator[Attempt]:
    """Yield replays of a pair on several paths, as long as they pass."""
    first: list[Attempt] = []
    for seed in SEEDS[:1] if program.is_slow else SEEDS:
        sides = pair if seed == SEEDS[0] else pair[::-1]
        first.append(replay(program, sides, program.record(sides[0], seed, schedule)))
        yield first[-1]
    if earlier:  # noise kept to the end tells which comparisons the data can change
        yield from near_decisions(program, earlier[0], first)
    yield from between_thresholds(program, first[0])
    inside = [entry for entry in first[0].recording.releases if not entry.at_return]  # without one, no draw decides a path
    if not program.is_slow and inside and len(first[0].recording.releases) > 1:
        yield from far_paths(program, pair, first[0], claim)


def _other_outcomes(program: Program, base: Attempt, claim: ReplayClaim, seconds: float | None = None) -> Attempt | None:
    """Try outcomes of decisions that no path had before; return the first replay that does not pass."""
    program.outcomes = program.outcomes or OutcomeLedger(program.surroundings.constants)
    parts = program.outcomes.replays(program, base, claim, seconds)
    return next((part for part in parts if not part.passes(claim)), None)


def _without_rare_outcomes(
    program: Program, pair: tuple[Any, Any], replays: list[Attempt], claim: ReplayClaim, name: str
) -> PairResult:
    """Return the result of replays that pass: what outcomes that are not private take of delta is left to the loss no more."""
    mass = program.outcomes.rare_mass
    rest = claim if not mass else replace(claim, delta=max(claim.delta - mass, 0.0))
    worst = max(replays, key=lambda attempt: attempt.size(rest))
    is_proved = mass <= claim.delta and worst.passes(rest)
    result = _result(name, pair, worst, rest, ReplayVerdict.PROVED if is_proved else ReplayVerdict.BOUND)
    if not mass:
        return result
    reason = f"outcomes of decisions of probability {mass:.3g} are not private and count towards delta"
    return replace(result, reason=reason, exact=False, loss=result.loss if mass <= claim.delta else math.inf)


def try_all_outcomes(program: Program, results: list[PairResult], claim: ReplayClaim, seconds: float) -> PairResult | None:
    """Return the result of a pair that was proved and on which an outcome of a decision is not, None if all were tried on some.

    Pairs take turns for so many seconds of the processor; if outcomes are open_outcomes after it, that is said of the first.
    """
    for result in results:
        if program.outcomes is None or not program.outcomes.open_outcomes:
            return None
        pair = result.data, result.neighbour
        attempts = (replay(program, pair, program.record(pair[0], SEEDS[0], schedule)) for schedule in Schedule)
        base = next((attempt for attempt in attempts if attempt.passes(claim)), None)
        failure = None if base is None else _other_outcomes(program, base, claim, max(seconds / len(results), 0.5))
        if failure is not None:
            return _result(result.name, pair, failure, claim, ReplayVerdict.BOUND)
    open_outcomes = program.outcomes.open_outcomes if program.outcomes is not None else {}
    if not open_outcomes:
        return None
    (site, _), outcome = next(iter(open_outcomes))
    reason = f"{len(open_outcomes)} outcomes of decisions were not tried, such as number {outcome} of {site}"
    return replace(results[0], verdict=ReplayVerdict.BOUND, reason=reason, exact=False)


def _only_decides(attempt: Attempt) -> bool:
    """True if nothing is released but decisions."""
    return all(entry.kind in (EVENT, CHOICE) for run in attempt.runs for entry in run.recording.releases)


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
        result = _result(name, pair, attempt, claim, ReplayVerdict.PROVED)
        return replace(result, loss=loss, exact=claim.mu is None, method=_LAW, not_visited=0.0)
    verdict = ReplayVerdict.BOUND
    if is_sure and loss > claimed * (1 + 1e-5) + 1e-7:
        if program.is_followed(pair[0]):
            accusation = Accusation(reason=reason, loss=loss, method=_LAW)
            return _refutation(name, pair, attempt, claim, accusation)
        verdict = ReplayVerdict.NOT_FOLLOWED
    return replace(_result(name, pair, attempt, claim, verdict), loss=loss, exact=False, reason=reason)


def _accuse(program: Program, attempts: list[Attempt], claim: ReplayClaim) -> tuple[Accusation | None, Attempt]:
    for attempt in attempts:
        runs, comparison, sides = attempt
        accusation = exceeded_law(program, sides, runs, claim) if comparison.error is None else None
        if accusation is None and comparison.differences and not comparison.gaps and _fixes_the_rest(program, attempt):
            accusation = impossible_outputs(program, attempt, claim)
        if accusation is not None:
            return accusation, attempt
    best = min(attempts, key=lambda attempt: attempt.comparison.divergence is not None)
    if best.comparison.error is not None or math.isfinite(best.size(claim)):
        return None, best  # what costs something finite at each transcript leaves nothing certain
    return certain_difference(program, best.sides, best.comparison, claim), best


def _fixes_the_rest(program: Program, attempt: Attempt) -> bool:
    """True if what leaves the program is a function of data and releases, on either side."""
    schedule = attempt.recording.schedule
    if schedule is Schedule.COINS or not program.is_followed(attempt.sides[0]):
        return False
    return not any(hides_randomness(program, side, schedule) for side in attempt.sides)


def _result(name: str, pair: tuple[Any, Any], attempt: Attempt, claim: ReplayClaim, verdict: ReplayVerdict) -> PairResult:
    comparison = attempt.comparison
    return PairResult(
        name=name,
        verdict=verdict,
        data=pair[0],
        neighbour=pair[1],
        loss=attempt.size(claim),
        exact=comparison.loss is not None and comparison.loss.exact,
        reason="" if verdict is ReplayVerdict.PROVED else describe(comparison),
        releases=len(attempt.recording.releases),
    )


def _refutation(name: str, pair: tuple[Any, Any], attempt: Attempt, claim: ReplayClaim, accusation: Accusation) -> PairResult:
    result = _result(name, pair, attempt, claim, ReplayVerdict.REFUTED)
    return replace(result, loss=accusation.loss, exact=True, reason=accusation.reason, method=accusation.method)


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
        return "seeds of generators, or values declared unchanged, differ"
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
