"""The table of parties: the promise of a training to each, the epsilon each proves, and the epsilon each could have proven."""

from collections.abc import Sequence

from audit.core.lower_bounds import ReportedBound, VoidBound, read_ceiling, read_epsilon
from reports.pages.blocks import Mono, Table, Text, layout
from reports.parties import PartyResult
from reports.words import named
from reports.words.language import recorded, say
from reports.words.numbers import down, near, not_measured, power, up


def parties(results: Sequence[PartyResult], delta: float) -> Table:
    """Return a row for each training and party, in the order given."""
    return Table(
        caption=say("party_table.caption", power=power(delta)),
        columns=layout(
            "page.training:1.1 party_table.unit:0.6 party_table.sees:1.3 >table.claimed:0.7 "
            ">unclaimed.proven:0.9 >table.inside_a_family:1.3 >party_table.estimate:0.8"
        ),
        rows=tuple(_row(result) for result in results),
        small=True,
    )


def _row(party: PartyResult) -> tuple[Text, ...]:
    return (
        Mono(party.training),
        say("record.word") if party.unit == "example" else recorded(party.unit),
        named.level(party.access),
        up(party.claim.epsilon) if party.claim else say("word.none"),
        _proof(party.free),
        _proof(party.inside),
        not_measured() if party.estimate is None else near(party.estimate.epsilon),
    )


def _proof(bound: ReportedBound | None) -> str:
    if bound is None:
        return say("word.none")
    numbers = {"down": down(read_epsilon(bound)), "down_2": down(read_ceiling(bound))}
    text = (
        say("table.of", **numbers) if bound.family is None else say("table.of_2", **numbers, family=named.family(bound.family))
    )
    return say("table.void", bound=text) if isinstance(bound, VoidBound) else text
