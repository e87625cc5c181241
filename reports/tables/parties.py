"""The table of parties: the promise of a training to each, the epsilon each proves, and the epsilon each could have proven."""

from collections.abc import Sequence

from reports.pages.blocks import Mono, Table, Text, layout, small_table
from reports.parties import PartyResult
from reports.tables.report import bound_cell
from reports.words import named
from reports.words.language import say
from reports.words.numbers import near, not_measured, power, up


def parties(results: Sequence[PartyResult], delta: float) -> Table:
    """Return a row for each training and party, in the order given."""
    caption = say("party_table.caption", power=power(delta))
    columns = layout(
        "page.training:1.1 party_table.unit:0.6 party_table.sees:1.3 >table.claimed:0.7 "
        ">unclaimed.proven:0.9 >table.inside_a_family:1.3 >party_table.estimate:0.8"
    )
    return small_table(caption, columns, map(_row, results))


def _row(party: PartyResult) -> tuple[Text, ...]:
    return (
        Mono(party.training),
        named.protected_unit(party.unit),
        named.level(party.access),
        up(party.claim.epsilon) if party.claim else say("word.none"),
        bound_cell(party.free),
        bound_cell(party.inside),
        not_measured() if party.estimate is None else near(party.estimate.epsilon),
    )
