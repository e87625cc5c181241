"""The table of what attacks on texts get of secrets: exposure and extraction, of planted secrets beside those left out."""

from __future__ import annotations

from audit.core.game_results import GameResult, LevelCount, SecretFigures
from reports.pages.blocks import Column, Mono, Table, Text
from reports.words.language import recorded, say
from reports.words.numbers import count, near, not_measured, significant


def secrets(game: GameResult) -> Table | None:
    """Return means and counts of each such attack; None if no attack has such a unit."""
    rows: list[tuple[Text, ...]] = [
        (
            Mono(attack.scorer),
            recorded(result.quantity),
            count(result.texts),
            _mean(result.mean_members),
            _mean(result.mean_nonmembers),
            not_measured() if result.by_chance is None else near(result.by_chance, 3),
            _counts(result),
        )
        for attack in game.attacks
        if (result := attack.secrets) is not None
    ]
    if not rows:
        return None
    return Table(
        caption=say("secret_table.caption"),
        columns=(
            Column(title=say("game_table.attack")),
            Column(title=say("secret_table.quantity"), share=1.4),
            Column(title=say("secret_table.texts"), right=True, share=0.5),
            Column(title=say("secret_table.members"), right=True, share=0.8),
            Column(title=say("secret_table.nonmembers"), right=True, share=0.8),
            Column(title=say("secret_table.by_chance"), right=True, share=0.8),
            Column(title=say("secret_table.levels"), share=1.8),
        ),
        rows=tuple(rows),
        small=True,
    )


def _mean(value: float | None) -> str:
    return not_measured() if value is None else near(value, 3)


def _counts(result: SecretFigures) -> str:
    return say("separator.clauses").join(_level(result, level) for level in result.levels) or not_measured()


def _level(result: SecretFigures, level: LevelCount) -> str:
    return say(
        "secret_table.level",
        level=significant(level.level, 3),
        members=say("game_table.of", count=count(level.members), count_2=count(result.members)),
        nonmembers=say("game_table.of", count=count(level.nonmembers), count_2=count(result.nonmembers)),
    )
