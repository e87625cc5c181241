"""What the answer means for people, and who does what next; nothing here says that a release is allowed."""

from audit.core.claims import Outcome
from audit.core.provenance import Engagement
from audit.core.results import AuditReport
from reports import answer, headline
from reports.answer import Answer
from reports.headline import Headline
from reports.strength import Strength
from reports.words.language import count, say
from reports.words.phrases import join_sentences

RISKS = {
    Strength.YES: "risk.shown",
    Strength.AT_LEAST: "risk.shown_in_part",
    Strength.LITTLE: "risk.shown_in_part",
    Strength.TOO_FEW: "risk.unknown",
    Strength.NOT_SHOWN: "risk.not_shown",
    Strength.VOID: "risk.unknown",
}


def risk(lead: Answer) -> str:
    """Return what the leading answer means for a person whose record was used."""
    if lead.secret == answer.PROPERTY and lead.strength is not Strength.VOID:
        return say("risk.property")
    if lead.strength is Strength.TOO_FEW and headline.is_coarse(lead.attack):
        return say("risk.coarse")
    return say(RISKS[lead.strength])


def next_action(report: AuditReport, head: Headline | None, lead: Answer) -> str:
    """Return what is to be done next, by whom, and until when if the owner says so."""
    engagement = report.engagement or Engagement()
    owner = engagement.owner or say("next.the_owner")
    auditor = engagement.auditor or say("next.the_auditor")
    until = say("next.until", date=engagement.next_audit) if engagement.next_audit else ""
    return join_sentences([_action(report, head, lead, owner, auditor), until])


def _action(report: AuditReport, head: Headline | None, lead: Answer, owner: str, auditor: str) -> str:
    outcome = None if head is None else head.verdict.outcome
    if outcome is Outcome.INVALID or lead.strength is Strength.VOID:
        return say("next.invalid", auditor=auditor)
    if outcome is Outcome.VIOLATED or any(not gate.met for gate in report.policy):
        return say("next.violated" if outcome is Outcome.VIOLATED else "next.gate", owner=owner)
    if outcome is Outcome.OUT_OF_REACH and head is not None:
        return _reach_further(report, head, auditor)
    if lead.strength is Strength.TOO_FEW:
        return _request_records(lead, auditor)
    if lead.strength is Strength.NOT_SHOWN:
        return say("next.not_shown", owner=owner)
    return say("next.shown" if outcome is None else "next.shown_under_a_claim", owner=owner)


def _request_records(lead: Answer, auditor: str) -> str:
    if headline.is_coarse(lead.attack):
        return say("next.coarse", auditor=auditor)
    records = min(lead.attack.roc.members, lead.attack.roc.nonmembers)
    return say("next.too_few", auditor=auditor, records=count(records), more=count(answer.HALF * records))


def _reach_further(report: AuditReport, head: Headline, auditor: str) -> str:
    """Return which audit could contradict the claim, if any could."""
    if answer.is_split(head.mechanism):
        return say("next.split", auditor=auditor)
    needs = answer.stronger(report)
    coins = 0 if needs is None else needs.needed
    if coins >= answer.MOST_COINS:
        return say("next.beyond_reach", auditor=auditor)
    return say("next.out_of_reach" if coins else "next.no_bound", auditor=auditor, coins=count(coins))
