"""Reports at the ends of what an audit can be: each must still be a document that a person can read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from audit.core.game_results import AttackResult, GameResult
from audit.core.results import AuditReport, MechanismResult
from tests.reports import sample

LONG = "a-very-long-name-of-forty-characters-xyz"  # 40 characters
CJK = "差分隐私训练的隐私审计手写数字识别"


def _games(mechanism: MechanismResult, change: Callable[[GameResult], GameResult]) -> MechanismResult:
    return replace(mechanism, games=tuple(change(game) for game in mechanism.games))


def no_attack() -> AuditReport:
    """Every attack of every game was left out."""
    report = sample.run()
    silent = lambda game: replace(game, attacks=(), records=(), groups=(), certificates=(), detectable=())  # noqa: E731
    return replace(report, mechanisms=tuple(_games(mechanism, silent) for mechanism in report.mechanisms))


def one_canary() -> AuditReport:
    """One score of each side in each game, of which nothing follows."""
    report = sample.run()

    def single(game: GameResult) -> GameResult:
        attacks = tuple(replace(attack, roc=_few(attack), tpr_at=()) for attack in game.attacks)
        return replace(game, game=replace(game.game, canaries=1, runs=2), attacks=attacks, records=(), groups=(), detectable=())

    return replace(report, mechanisms=tuple(_games(mechanism, single) for mechanism in report.mechanisms))


def _few(attack: AttackResult) -> object:
    return replace(
        attack.roc,
        fpr=(0.0, 1.0),
        tpr=(0.0, 1.0),
        lower=(0.0, 0.0),
        upper=(1.0, 1.0),
        members=1,
        nonmembers=1,
    )


def million_scores() -> AuditReport:
    """A million scores in each game: curves down to one in a million."""
    report = sample.run()

    def large(game: GameResult) -> GameResult:
        attacks = []
        for attack in game.attacks:
            fpr = np.geomspace(2e-6, 1, 400)
            tpr = np.minimum(1, 3 * fpr**0.7)
            roc = replace(
                attack.roc,
                fpr=tuple(fpr.tolist()),
                tpr=tuple(tpr.tolist()),
                lower=tuple((tpr * 0.98).tolist()),
                upper=tuple(np.minimum(1, tpr * 1.02).tolist()),
                members=500_000,
                nonmembers=500_000,
            )
            attacks.append(replace(attack, roc=roc))
        return replace(game, game=replace(game.game, canaries=1_000_000, runs=1), attacks=tuple(attacks))

    return replace(report, mechanisms=tuple(_games(mechanism, large) for mechanism in report.mechanisms))


def many_groups() -> AuditReport:
    """Two hundred groups in a game."""
    names = tuple(f"group {i:03d}" for i in range(200))
    report = sample.run()
    sliced = lambda game: replace(game, groups=sample.groups(7, names) if game.groups else ())  # noqa: E731
    return replace(report, mechanisms=tuple(_games(mechanism, sliced) for mechanism in report.mechanisms))


def _called(report: AuditReport, name: str) -> AuditReport:
    """The report with names of trainings, games, attacks and groups that begin with `name`."""

    def renamed(game: GameResult) -> GameResult:
        attacks = tuple(replace(attack, scorer=f"{name}{i}") for i, attack in enumerate(game.attacks))
        groups = tuple(replace(group, group=f"{name}{i}") for i, group in enumerate(game.groups))
        return replace(game, name=f"{name}-{game.name}", attacks=attacks, groups=groups)

    mechanisms = tuple(replace(_games(mechanism, renamed), name=f"{name}-{i}") for i, mechanism in enumerate(report.mechanisms))
    return replace(report, title=f"{name} {name} {name}", mechanisms=mechanisms)


def long_names() -> AuditReport:
    """Every name that a user gives has forty characters."""
    return _called(sample.run(), LONG)


def chinese_names() -> AuditReport:
    """Every name that a user gives is Chinese."""
    return _called(sample.run(), CJK)


def infinite_claim() -> AuditReport:
    """An accountant that guarantees nothing."""
    report = sample.run()
    plain, dp = report.mechanisms
    claims = tuple(replace(claim, epsilon=math.inf) for claim in dp.claims)
    verdicts = tuple(replace(verdict, claim=claim) for verdict, claim in zip(dp.verdicts, claims, strict=True))
    curves = tuple(replace(curve, epsilon=tuple(math.inf for _ in curve.steps)) for curve in dp.trajectories)
    return replace(report, mechanisms=(plain, replace(dp, claims=claims, verdicts=verdicts, trajectories=curves)))


def ten_mechanisms() -> AuditReport:
    """Ten trainings with their games."""
    report = sample.run()
    plain, dp = report.mechanisms
    return replace(report, mechanisms=(plain, *(replace(dp, name=f"dp_sgd_{i}") for i in range(9))))


ALL: Mapping[str, Callable[[], AuditReport]] = {
    "no_attack": no_attack,
    "one_canary": one_canary,
    "million_scores": million_scores,
    "many_groups": many_groups,
    "long_names": long_names,
    "chinese_names": chinese_names,
    "infinite_claim": infinite_claim,
    "ten_mechanisms": ten_mechanisms,
}
