"""The table of a game in which values are guessed: success, baseline and what the claim allows, side by side."""

from __future__ import annotations

from audit.core.game_results import GameResult, GuessResult
from reports.pages.blocks import Column, Mono, Table, Text
from reports.words.language import say
from reports.words.numbers import confidence, count, down, near, not_measured, up


def guesses(game: GameResult) -> Table:
    """Return how often each attack named the true value, beside what its prior alone gives and what the claim allows."""
    rows: list[tuple[Text, ...]] = []
    for attack in game.attacks:
        result = attack.guesses
        if result is None:
            continue
        interval = say("game_table.to", rate=down(100 * result.lower, 1), rate_2=up(100 * result.upper, 1))
        rows.append(
            (
                Mono(attack.scorer),
                say("game_table.of", count=count(result.right), count_2=count(result.secrets)),
                near(100 * result.right / result.secrets, 1),
                interval,
                near(100 * result.baseline, 1),
                not_measured() if result.imputed is None else count(result.imputed),
                not_measured() if result.allowed is None else up(100 * result.allowed, 1),
                _bits(result),
            )
        )
    level = confidence(min(attack.roc.confidence for attack in game.attacks))
    return Table(
        caption=say("guess_table.caption", confidence=level),
        columns=(
            Column(title=say("game_table.attack")),
            Column(title=say("guess_table.right"), right=True, share=1),
            Column(title=say("guess_table.success"), right=True, share=0.8),
            Column(title=say("guess_table.interval"), right=True, share=1.1),
            Column(title=say("guess_table.baseline"), right=True, share=0.8),
            Column(title=say("guess_table.imputed"), right=True, share=0.7),
            Column(title=say("guess_table.allowed"), right=True, share=0.8),
            Column(title=say("guess_table.exposure"), right=True, share=1.1),
        ),
        rows=tuple(rows),
        small=True,
    )


def _bits(result: GuessResult) -> str:
    """Return the mean exposure beside the one that chance gives."""
    if result.exposure is None or result.null_exposure is None:
        return not_measured()
    return say("guess_table.bits", exposure=near(result.exposure, 3), by_chance=near(result.null_exposure, 3))
