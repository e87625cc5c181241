"""Two reports of the same subject side by side: what got worse, what is gone, what merely differs.

Measured figures count as different if a test says so, all of them together at `two_samples.LEVEL`; differences within
their uncertainty are not named.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from audit.core.claims import Outcome
from audit.core.game_results import AttackResult, GameResult
from audit.core.lower_bounds import ReportedBound, VoidBound, read_ceiling, read_epsilon
from audit.core.results import AuditReport, MechanismResult, Metric
from audit.core.rounding import confidence, down, near, percent, significant, up
from reports import headline, two_samples
from reports.two_samples import Measured

SAME_CLAIM = 1e-3  # relative difference below which two claims of one accountant count as equal
RANK = {None: 0, Outcome.CONSISTENT: 0, Outcome.OUT_OF_REACH: 1, Outcome.INVALID: 2, Outcome.VIOLATED: 3}


class Weight(StrEnum):
    """What a change means for a release."""

    WORSE = "worse"  # a regression: the command answers with exit code 1
    GONE = "gone"  # was there and is not any more; a regression too, because silence is no evidence
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A difference in a mechanism, mechanism.game.attack, or "" for the report; with its adjusted p-value if it is measured."""

    weight: Weight
    subject: str
    text: str
    p_value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A figure of both reports, with p-values of "it is not above" and "it is not below"; of leakage a rise is worse."""

    subject: str
    text: str
    rises: float
    falls: float
    leakage: bool


def changes(old: AuditReport, new: AuditReport) -> tuple[Change, ...]:
    """All differences that a release decision could hang on, in the order of the old report's pages."""
    change_list: list[Change] = []
    comparisons: list[Comparison] = []
    if old.delta != new.delta:
        text = f"delta was {old.delta:g}, is {new.delta:g}: no epsilon of the two reports can be compared"
        change_list.append(Change(weight=Weight.WORSE, subject="", text=text))
    later = {mechanism.name: mechanism for mechanism in new.mechanisms}
    for mechanism in old.mechanisms:
        if mechanism.name in later:
            change_list += _mechanism_rows(mechanism, later[mechanism.name])
            comparisons += _comparisons(mechanism, later[mechanism.name])
        else:
            change_list.append(Change(weight=Weight.GONE, subject=mechanism.name, text="the training is not in the new report"))
    names = {mechanism.name for mechanism in old.mechanisms}
    change_list += [
        Change(weight=Weight.OTHER, subject=mechanism.name, text="new training")
        for mechanism in new.mechanisms
        if mechanism.name not in names
    ]
    change_list += _policy_findings(old, new)
    change_list += _significant(comparisons)
    return tuple(change_list)


def _significant(comparisons: Sequence[Comparison]) -> Iterator[Change]:
    """The figures that moved by more than chance, rises and falls each at half of the level."""
    rises = two_samples.holm([comparison.rises for comparison in comparisons])
    falls = two_samples.holm([comparison.falls for comparison in comparisons])
    for comparison, up_value, down_value in zip(comparisons, rises, falls, strict=True):
        p_value = min(1.0, 2 * min(up_value, down_value))
        if p_value > two_samples.LEVEL:
            continue
        worse = comparison.leakage and up_value < down_value
        text = f"{comparison.text}; p {significant(p_value, 2)} over {len(comparisons)} comparisons"
        yield Change(weight=Weight.WORSE if worse else Weight.OTHER, subject=comparison.subject, text=text, p_value=p_value)


def _comparisons(old: MechanismResult, new: MechanismResult) -> Iterator[Comparison]:
    games = {game.name: game for game in new.games}
    for game in old.games:
        attacks = {attack.scorer: attack for attack in games[game.name].attacks} if game.name in games else {}
        for attack in game.attacks:
            if attack.scorer in attacks:
                yield from _compare_rates(f"{old.name}.{game.name}.{attack.scorer}", attack, attacks[attack.scorer])
    later = {utility.name: utility for utility in new.utility}
    for utility in old.utility:
        if utility.name in later:
            yield _compare_metric(old.name, utility, later[utility.name])


def _compare_rates(subject: str, old: AttackResult, new: AttackResult) -> Iterator[Comparison]:
    levels = old.roc.confidence, new.roc.confidence
    areas = [
        Measured(value=attack.auc, lower=attack.auc_lower, upper=attack.auc_upper, confidence=level)
        for attack, level in zip((old, new), levels, strict=True)
        if attack.auc is not None and attack.auc_lower is not None and attack.auc_upper is not None
    ]
    if len(areas) == 2:
        yield _leakage(subject, "AUC", areas, lambda value: near(value, 3))
    later = {point.target_fpr: point for point in new.tpr_at}
    for point in old.tpr_at:
        pair = (point, later.get(point.target_fpr))
        rates = [
            Measured(value=rate.tpr, lower=rate.lower, upper=rate.upper, confidence=level)
            for rate, level in zip(pair, levels, strict=True)
            if rate is not None and rate.tpr is not None and rate.lower is not None and rate.upper is not None
        ]
        if len(rates) == 2:
            yield _leakage(subject, f"TPR at {point.target_fpr:g} FPR", rates, percent)


def _leakage(subject: str, name: str, pair: Sequence[Measured], words: Callable[[float], str]) -> Comparison:
    old, new = pair
    before, after = (f"{words(side.value)} ({words(side.lower)} to {words(side.upper)})" for side in pair)
    return Comparison(
        subject=subject,
        text=f"{name} was {before}, is {after}",
        rises=two_samples.p_value(old, new),
        falls=two_samples.p_value(_mirror(old), _mirror(new)),  # a fall is a rise of the mirrored figure
        leakage=True,
    )


def _mirror(figure: Measured) -> Measured:
    return Measured(value=-figure.value, lower=-figure.upper, upper=-figure.lower, confidence=figure.confidence)


def _compare_metric(subject: str, old: Metric, new: Metric) -> Comparison:
    p_value = two_samples.means_p_value((old.value, new.value), (old.spread, new.spread), (old.models, new.models))
    before, after = (f"{near(metric.value, 3)} ± {near(metric.spread, 3)}" for metric in (old, new))
    rises = new.value > old.value
    return Comparison(
        subject=subject,
        text=f"{old.name} was {before}, is {after}",
        rises=p_value / 2 if rises else 1.0,
        falls=1.0 if rises else p_value / 2,
        leakage=False,
    )


def is_worse(changes: Sequence[Change]) -> bool:
    """True if anything got worse or went missing."""
    return any(change.weight is not Weight.OTHER for change in changes)


def _mechanism_rows(old: MechanismResult, new: MechanismResult) -> Iterator[Change]:
    if old.outcome is not new.outcome:
        before, after = (mechanism.outcome.value if mechanism.outcome else "no claim" for mechanism in (old, new))
        vanishes = old.outcome is not None and new.outcome is None
        worse = RANK[new.outcome] > RANK[old.outcome]
        weight = Weight.GONE if vanishes else Weight.WORSE if worse else Weight.OTHER
        yield Change(weight=weight, subject=old.name, text=f"outcome was {before}, is {after}")
    yield from _compare_claims(old, new)
    yield from _compare_bounds(old, new)
    games = {game.name: game for game in new.games}
    for game in old.games:
        if game.name in games:
            yield from _compare_game(old.name, game, games[game.name])
        else:
            yield Change(weight=Weight.GONE, subject=f"{old.name}.{game.name}", text="the game was not played")
    metrics = {utility.name for utility in new.utility}
    for utility in old.utility:
        if utility.name not in metrics:
            yield Change(weight=Weight.GONE, subject=old.name, text=f"{utility.name} was not measured")


def _compare_claims(old: MechanismResult, new: MechanismResult) -> Iterator[Change]:
    """A claim of one accountant on one mechanism may not move; on another mechanism only up is worse."""
    later = {_accountant(claim.source): claim for claim in new.claims}
    comparable = old.mechanism is not None and old.mechanism == new.mechanism
    for claim in old.claims:
        name = _accountant(claim.source)
        if name not in later:
            yield Change(weight=Weight.GONE, subject=old.name, text=f"{name} states no epsilon any more")
            continue
        new_value = later[name].epsilon
        if new_value == claim.epsilon or abs(new_value - claim.epsilon) <= SAME_CLAIM * max(claim.epsilon, new_value):
            continue
        text = f"{name} claimed {up(claim.epsilon)}, claims {up(new_value)}"
        if comparable:
            yield Change(weight=Weight.WORSE, subject=old.name, text=f"{text} for the same mechanism")
        else:
            yield Change(weight=Weight.WORSE if new_value > claim.epsilon else Weight.OTHER, subject=old.name, text=text)


def _compare_bounds(old: MechanismResult, new: MechanismResult) -> Iterator[Change]:
    old_bound, new_bound = headline.free(old), headline.free(new)
    if old_bound is not None and new_bound is None:
        yield Change(weight=Weight.GONE, subject=old.name, text="no bound for any mechanism was computed")
    elif old_bound is not None and new_bound is not None:
        before, after = (down(read_epsilon(place.bound)) for place in (old_bound, new_bound))
        if before == after:
            return
        text = (
            f"lower bound was {_bound_text(old_bound.bound)}, is {_bound_text(new_bound.bound)}; two lower "
            "bounds do not tell whether the training leaks more, the tests of rates do"
        )
        yield Change(weight=Weight.OTHER, subject=old.name, text=text)


def _bound_text(bound: ReportedBound) -> str:
    void = "void " if isinstance(bound, VoidBound) else ""
    return f"{void}{down(read_epsilon(bound))} (ceiling {down(read_ceiling(bound))}, {confidence(bound.confidence)} confidence)"


def _compare_game(owner: str, old: GameResult, new: GameResult) -> Iterator[Change]:
    together = [{bound.estimator for bound in game.watched.bounds} if game.watched else set() for game in (old, new)]
    for name in sorted(together[0] - together[1]):
        yield Change(weight=Weight.GONE, subject=f"{owner}.{old.name}", text=f"no bound of {name} on all attacks together")
    attacks = {attack.scorer: attack for attack in new.attacks}
    for attack in old.attacks:
        subject = f"{owner}.{old.name}.{attack.scorer}"
        if attack.scorer not in attacks:
            yield Change(weight=Weight.GONE, subject=subject, text="the attack was not run")
            continue
        later = {bound.estimator for bound in attacks[attack.scorer].bounds}
        for name in sorted({bound.estimator for bound in attack.bounds} - later):
            yield Change(weight=Weight.GONE, subject=subject, text=f"no bound of {name}")


def _policy_findings(old: AuditReport, new: AuditReport) -> Iterator[Change]:
    later = {gate.gate: gate for gate in new.policy}
    for gate in old.policy:
        new_gate = later.get(gate.gate)
        if new_gate is None:
            yield Change(weight=Weight.GONE, subject="", text=f"the gate {gate.gate} is not set any more")
        elif gate.met and not new_gate.met:
            yield Change(weight=Weight.WORSE, subject="", text=f"the gate {gate.gate} was met, is not met")


def _accountant(source: str) -> str:
    """The accountant's name without its version, so that two versions can be compared."""
    return " ".join(re.sub(r"\d+(\.\d+)+", "", source).split())
