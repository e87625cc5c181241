"""The table of a game of backdoors: answers to triggers with and without their poisoned records, beside clean accuracy."""

from __future__ import annotations

from audit.core.game_results import TriggerResult
from reports.pages.blocks import Column, Table
from reports.words.language import say
from reports.words.numbers import count, near, not_measured, percent, up


def triggers(result: TriggerResult) -> Table:
    """Return how often triggers were answered, what the models still know, and what the claim leaves such records."""
    row = (
        count(result.records),
        _share(result.hits_with, result.with_records),
        _share(result.hits_without, result.without_records),
        not_measured() if result.accuracy is None else percent(result.accuracy),
        not_measured() if result.allowed is None else up(100 * result.allowed, 1),
    )
    return Table(
        caption=say("trigger_table.caption"),
        columns=(
            Column(title=say("trigger_table.records"), right=True, share=0.8),
            Column(title=say("trigger_table.with_records"), right=True, share=1.2),
            Column(title=say("trigger_table.without_records"), right=True, share=1.2),
            Column(title=say("trigger_table.accuracy"), right=True, share=0.9),
            Column(title=say("guess_table.allowed"), right=True, share=0.8),
        ),
        rows=(row,),
        small=True,
    )


def _share(hits: int, triggers: int) -> str:
    counts = say("game_table.of", count=count(hits), count_2=count(triggers))
    return f"{counts} ({near(100 * hits / triggers, 1)})" if triggers else counts
