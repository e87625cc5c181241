"""What each party of a training can show: the results of one training side by side. Pure functions of `AuditReport`."""

from collections.abc import Iterator
from dataclasses import dataclass

from audit.core.access import Access
from audit.core.claims import Claim, Estimate
from audit.core.event_reading import unit
from audit.core.lower_bounds import ReportedBound, read_epsilon
from audit.core.results import AuditReport, MechanismResult
from reports import headline


@dataclass(frozen=True, slots=True, kw_only=True)
class PartyResult:
    """One training as one party sees it.

    Attributes:
        unit: whom the claim protects.
        claim: the tightest finite one; None if nothing protects from this party.
        free, inside: the largest bound for any mechanism and the largest inside a family; None if there is none.
        estimate: a figure without a guarantee, of the attack with the largest bound that has such a figure.
    """

    training: str
    unit: str
    access: Access
    result: MechanismResult
    claim: Claim | None
    free: ReportedBound | None
    inside: ReportedBound | None
    estimate: Estimate | None

    @property
    def largest(self) -> ReportedBound | None:
        """Return the larger of both bounds; of equal ones that for any mechanism."""
        bounds = [bound for bound in (self.free, self.inside) if bound is not None]
        return max(bounds, key=read_epsilon, default=None)


def of_report(report: AuditReport) -> tuple[PartyResult, ...]:
    """Return every training that several parties look at, as each of them sees it, from those who see most to the public."""
    return tuple(party for result in report.mechanisms for party in _result_parties(result))


def accesses(parties: tuple[PartyResult, ...]) -> tuple[Access, ...]:
    """Return what the parties see, each once, from most to least."""
    different = {party.access.name: party.access for party in parties}
    return tuple(sorted(different.values(), key=lambda access: (-len(access.released), access.name)))


def _result_parties(result: MechanismResult) -> Iterator[PartyResult]:
    if not result.training or not result.games or result.mechanism is None:
        return
    free, inside = headline.free(result), headline.in_family(result)
    yield PartyResult(
        training=result.training,
        unit=unit(result.mechanism),
        access=result.games[0].game.access,
        result=result,
        claim=headline.tightest(result),
        free=None if free is None else free.bound,
        inside=None if inside is None else inside.bound,
        estimate=_estimate(result),
    )


def _estimate(result: MechanismResult) -> Estimate | None:
    attacks = [attack for game in result.games for attack in game.attacks if attack.estimates and attack.bounds]
    strongest = max(attacks, key=lambda attack: max(map(read_epsilon, attack.bounds)), default=None)
    return None if strongest is None else strongest.estimates[0]
