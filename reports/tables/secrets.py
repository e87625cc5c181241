"""The table of what attacks on texts get of secrets: exposure and extraction, of planted secrets beside those left out."""

from audit.core.game_results import GameResult, GuessResult, LevelCount, SecretFigures, TriggerResult
from reports.pages.blocks import Mono, Table, Text, layout, small_table
from reports.words.language import confidence, count, down, near, not_measured, percent, recorded, say, significant, up


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
    caption = say("secret_table.caption")
    columns = layout(
        "game_table.attack secret_table.quantity:1.4 >secret_table.texts:0.5 >secret_table.members:0.8 "
        ">secret_table.nonmembers:0.8 >secret_table.by_chance:0.8 secret_table.levels:1.8"
    )
    return small_table(caption, columns, rows)


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


# The table of a game in which values are guessed: success, baseline and what the claim allows, side by side.
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
    caption = say("guess_table.caption", confidence=level)
    columns = layout(
        "game_table.attack >guess_table.right:1 >guess_table.success:0.8 >guess_table.interval:1.1 "
        ">guess_table.baseline:0.8 >guess_table.imputed:0.7 >guess_table.allowed:0.8 >guess_table.exposure:1.1"
    )
    return small_table(caption, columns, rows)


def _bits(result: GuessResult) -> str:
    """Return the mean exposure beside the one that chance gives."""
    if result.exposure is None or result.null_exposure is None:
        return not_measured()
    return say("guess_table.bits", exposure=near(result.exposure, 3), by_chance=near(result.null_exposure, 3))


# The table of a game of backdoors: answers to triggers with and without their poisoned records, beside clean accuracy.
def triggers(result: TriggerResult) -> Table:
    """Return how often triggers were answered, what the models still know, and what the claim leaves such records."""
    row = (
        count(result.records),
        _share(result.hits_with, result.with_records),
        _share(result.hits_without, result.without_records),
        not_measured() if result.accuracy is None else percent(result.accuracy),
        not_measured() if result.allowed is None else up(100 * result.allowed, 1),
    )
    caption = say("trigger_table.caption")
    columns = layout(
        ">trigger_table.records:0.8 >trigger_table.with_records:1.2 >trigger_table.without_records:1.2 "
        ">trigger_table.accuracy:0.9 >guess_table.allowed:0.8"
    )
    return small_table(caption, columns, (row,))


def _share(hits: int, triggers: int) -> str:
    counts = say("game_table.of", count=count(hits), count_2=count(triggers))
    return f"{counts} ({near(100 * hits / triggers, 1)})" if triggers else counts
