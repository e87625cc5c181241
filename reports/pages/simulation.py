"""What simulation says of a game's own statistics: what they would have caught, and how often they are wrong."""

from __future__ import annotations

import math

from audit.core.claims import Certificate, Detectable
from audit.core.game import Inclusion
from audit.core.game_results import GameResult
from audit.core.rounding import SPACE, at_most, count, percent, up
from reports.pages.blocks import Block, Missing, Paragraph, Piece, Strong
from reports.words import en
from reports.words.phrases import join_words, sentence


def blocks(game: GameResult) -> list[Block]:
    """Two paragraphs, or the remark that something was not simulated; nothing where no bound was asked for."""
    if game.game.inclusion is not Inclusion.COINS or not game.bounds:
        return []
    return [
        Paragraph(text=(Strong("What it would have caught. "), *_detectable(game.detectable)))
        if game.detectable
        else Missing(what="what this game would have caught; it was not simulated"),
        Paragraph(text=(Strong("How often it is wrong. "), _wrong(game.certificates)))
        if game.certificates
        else Missing(what="the simulated error rate of this game's bounds"),
    ]


def _detectable(detectables: tuple[Detectable, ...]) -> tuple[Piece, ...]:
    powers, draws = {detectable.power for detectable in detectables}, min(detectable.draws for detectable in detectables)
    chance = percent(min(powers), 0)
    parts = "; ".join(_detectable_text(detectable) for detectable in detectables)
    return (
        f"With {chance} probability the bounds of the best attack would have lain above the claim if the true ε of a Gaussian "
        f"mechanism had been at least: {parts}. From {draws} or more simulated audits at each ε.",
    )


def _detectable_text(detectable: Detectable) -> str:
    inside = f" inside the family {en.family(detectable.family)}" if detectable.family else ""
    over = f"against {at_most(detectable.claim)}" if detectable.claim > 0 else "for the proof of any leakage"
    if math.isinf(detectable.epsilon):
        return f"by {detectable.estimator}{inside} nothing at all {over}"
    return f"{up(detectable.epsilon)} by {detectable.estimator}{inside} {over}"


def _wrong(certificates: tuple[Certificate, ...]) -> str:
    rates = join_words(
        [
            f"{count(certificate.wrong)} of {count(certificate.repetitions)} simulated audits of {_law(certificate)} "
            f"({percent(certificate.lower, 1)} to {percent(certificate.upper, 1)})"
            for certificate in certificates
        ]
    )
    nominal = (
        join_words([f"{percent(certificate.nominal, 1)}" for certificate in certificates])
        if len({certificate.nominal for certificate in certificates}) > 1
        else None
    )
    limit = nominal or percent(certificates[0].nominal, 1)
    excess = (
        ""
        if all(certificate.kept for certificate in certificates)
        else " That is more often than chance explains: do not rely on these bounds."
    )
    return (
        sentence(
            f"the largest bound of this game, with the same estimators, attacks and number of scores, lay above the truth in "
            f"{rates}; "
            f"in brackets are 99{SPACE}% limits on its rate, of which at most {limit} is promised"
        )
        + excess
    )


def _law(certificate: Certificate) -> str:
    if certificate.epsilon == 0:
        return "scores that show nothing"
    return f"{certificate.law.split(',')[0]} with ε{SPACE}={SPACE}{certificate.epsilon:g}"
