"""What simulation says of a game's own statistics: what they would have caught, and how often they are wrong."""

from __future__ import annotations

import math

from audit.core.claims import Certificate, Detectable
from audit.core.game import Inclusion
from audit.core.game_results import GameResult
from audit.core.rounding import SPACE, at_most, count, percent, up
from reports.pages.blocks import Block, Missing, Paragraph, Piece, Strong
from reports.words import en
from reports.words.phrases import listed, sentence


def blocks(game: GameResult) -> list[Block]:
    """Two paragraphs, or the remark that something was not simulated; nothing where no bound was asked for."""
    if game.game.inclusion is not Inclusion.COINS or not game.bounds:
        return []
    return [
        Paragraph(text=(Strong("What it would have caught. "), *_caught(game.detectable)))
        if game.detectable
        else Missing(what="what this game would have caught; it was not simulated"),
        Paragraph(text=(Strong("How often it is wrong. "), _wrong(game.certificates)))
        if game.certificates
        else Missing(what="the simulated error rate of this game's bounds"),
    ]


def _caught(found: tuple[Detectable, ...]) -> tuple[Piece, ...]:
    powers, draws = {one.power for one in found}, min(one.draws for one in found)
    chance = percent(min(powers), 0)
    said = "; ".join(_one(one) for one in found)
    return (
        f"With {chance} probability the bounds of the best attack would have lain above the claim if the true ε of a Gaussian "
        f"mechanism had been at least: {said}. From {draws} or more simulated audits at each ε.",
    )


def _one(found: Detectable) -> str:
    inside = f" inside the family {en.family(found.family)}" if found.family else ""
    over = f"against {at_most(found.claim)}" if found.claim > 0 else "for the proof of any leakage"
    if math.isinf(found.epsilon):
        return f"by {found.estimator}{inside} nothing at all {over}"
    return f"{up(found.epsilon)} by {found.estimator}{inside} {over}"


def _wrong(found: tuple[Certificate, ...]) -> str:
    rates = listed([f"{count(one.wrong)} of {count(one.repetitions)} simulated audits of {_law(one)}" for one in found])
    nominal = listed([f"{percent(one.nominal, 1)}" for one in found]) if len({one.nominal for one in found}) > 1 else None
    promised = nominal or percent(found[0].nominal, 1)
    excess = "" if all(one.kept for one in found) else " That is more often than chance explains: do not rely on these bounds."
    return (
        sentence(
            f"the largest bound of this game, with the same estimators, attacks and number of scores, lay above the truth in "
            f"{rates}; "
            f"at most {promised} is promised"
        )
        + excess
    )


def _law(found: Certificate) -> str:
    if found.epsilon == 0:
        return "scores that show nothing"
    return f"{found.law.split(',')[0]} with ε{SPACE}={SPACE}{found.epsilon:g}"
