"""What simulation says of a game's own statistics: the leaks they would have caught, and how often they are wrong."""

import math

from audit.core.claims import OUTSIDE, Certificate, Detectable
from audit.core.game import Inclusion
from audit.core.game_results import GameResult
from reports.outliers import tail
from reports.pages.blocks import Block, Missing, Paragraph, Strong
from reports.words import named
from reports.words.language import recorded, say
from reports.words.numbers import at_most, count, percent, up
from reports.words.phrases import join_words, sentence


def blocks(game: GameResult) -> list[Block]:
    """Two paragraphs, or the remark that something was not simulated; nothing if no bound was asked for."""
    if game.game.inclusion is not Inclusion.COINS or not game.bounds:
        return []
    return [
        Paragraph(text=(Strong(say("simulated.what_it_would_have_caught")), _detectable(game.detectable)))
        if game.detectable
        else Missing(what=say("simulated.what_this_game_would_have")),
        Paragraph(text=(Strong(say("simulated.how_often_it_is_wrong")), _wrong(game.certificates)))
        if game.certificates
        else Missing(what=say("simulated.the_simulated_error_rate_of")),
    ]


def _detectable(detectables: tuple[Detectable, ...]) -> str:
    powers, draws = {detectable.power for detectable in detectables}, min(detectable.draws for detectable in detectables)
    chance = percent(min(powers), 0)
    parts = say("separator.clauses").join(_detectable_text(detectable) for detectable in detectables)
    error = math.ceil(200 * math.sqrt(min(powers) * (1 - min(powers)) / draws))  # two standard errors
    return say("simulated.with_probability_the_bounds_of", chance=chance, parts=parts, draws=draws, error=error)


def _detectable_text(detectable: Detectable) -> str:
    inside = say("inside.family", family=named.family(detectable.family)) if detectable.family else ""
    claimed = detectable.claim > 0
    over = say("simulated.against", at_most=at_most(detectable.claim)) if claimed else say("simulated.for_the_proof_of_any")
    key = "simulated.by_nothing_at_all" if math.isinf(detectable.epsilon) else "simulated.by"
    return say(key, up=up(detectable.epsilon), estimator=detectable.estimator, inside=inside, over=over)


def _wrong(certificates: tuple[Certificate, ...]) -> str:
    rates = []
    for certificate in certificates:
        counts = {"count": count(certificate.wrong), "count_2": count(certificate.repetitions)}
        limits = {"percent": percent(certificate.lower), "percent_2": percent(_tested_upper(certificate))}
        limits["searched"] = _search_limit(certificate)
        rates.append(say("simulated.of_simulated_audits_of_to", law=_law(certificate), **counts, **limits))
    several = len({certificate.nominal for certificate in certificates}) > 1
    nominals = [percent(certificate.nominal) for certificate in certificates]
    limit = join_words(nominals) if several else nominals[0]
    excess = "" if all(certificate.kept for certificate in certificates) else say("simulated.that_is_more_often_than")
    explanation = say("simulated.few_are_searched") if any(map(_search_limit, certificates)) else ""
    return sentence(say("simulated.the_largest_bound_of_this", rates=join_words(rates), limit=limit)) + explanation + excess


def _tested_upper(certificate: Certificate) -> float:
    """The upper limit by all audits, in each of which the truth was put to the tests (Clopper and Pearson 1934)."""
    low, high = 0.0, 1.0
    while high - low > 1e-6 and certificate.wrong < certificate.repetitions:
        rate = (low + high) / 2
        is_low = 1 - tail(certificate.wrong + 1, certificate.repetitions, rate) > OUTSIDE / 2
        low, high = (rate, high) if is_low else (low, rate)
    return min(certificate.upper, high)


def _search_limit(certificate: Certificate) -> str:
    """The upper limit by the few audits in which bounds were searched for, where it is another."""
    if certificate.upper <= _tested_upper(certificate) + 1e-3:
        return ""
    return say("simulated.to_by_searched", percent=percent(certificate.upper, 1))


def _law(certificate: Certificate) -> str:
    if certificate.epsilon == 0:
        return say("law.nothing")
    return say("law.with", law=recorded(certificate.law.split(",")[0]), epsilon=f"{certificate.epsilon:g}")
