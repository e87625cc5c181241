"""The answer of the first page: its strength, chance beside it, what is stronger; no family bound without its family."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from functools import cache
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.core.claims import Outcome, Verdict
from audit.core.events import sgd
from audit.core.game import Inclusion
from audit.core.game_results import GameResult, GuessResult
from audit.core.lower_bounds import ReportedBound, read_ceiling, read_epsilon
from audit.core.results import AuditReport, Check, MechanismResult, Status
from reports import answer
from reports.formats import figures
from reports.formats import json as report_json
from reports.formats._pipelines import JUnit, Sarif
from reports.headline import headline, leading
from reports.pages import cover, document, verdict
from reports.pages.blocks import Table
from reports.pages.cover import quotable
from reports.pages.reproduction import reproduce
from reports.strength import Strength, bracket_rate, choose_strength
from reports.tables.report import overview
from reports.words.language import say, speaking
from reports.words.translation import translated
from tests.reports import sample

REPORTS = {kind: cache(build) for kind, build in sample.ALL.items()}


def _bounded(report: AuditReport, change: Any) -> AuditReport:
    """The report with every bound replaced by `change(bound)`."""

    def of(mechanism: MechanismResult) -> MechanismResult:
        games = tuple(
            replace(game, attacks=tuple(replace(a, bounds=tuple(change(b) for b in a.bounds)) for a in game.attacks))
            for game in mechanism.games
        )
        return replace(
            mechanism, games=games, verdicts=tuple(replace(v, bound=v.bound and change(v.bound)) for v in mechanism.verdicts)
        )

    return replace(report, mechanisms=tuple(of(mechanism) for mechanism in report.mechanisms))


def _words(report: AuditReport) -> str:
    result = verdict.verdict(report)
    return " ".join(document.texts((result.question, result.word, result.text))).replace("\xa0", " ")


def _bracketed(report: AuditReport, lower: float, upper: float) -> AuditReport:
    """The report with these limits on every rate, at a false positive rate of one in ten."""

    def game(row: GameResult) -> GameResult:
        attacks = tuple(
            replace(
                attack,
                tpr_at=tuple(replace(point, lower=lower, upper=upper) for point in attack.tpr_at if point.target_fpr == 0.1),
            )
            for attack in row.attacks
        )
        return replace(row, attacks=attacks)

    return replace(
        report,
        mechanisms=tuple(replace(row, games=tuple(map(game, row.games))) for row in report.mechanisms),
    )


@pytest.mark.parametrize(
    ("epsilon", "limits", "strength"),
    [
        (0.0, (0.08, 0.12), Strength.NOT_SHOWN),
        (0.0099, (0.08, 0.12), Strength.NOT_SHOWN),
        (0.0, (0.0, 1.0), Strength.TOO_FEW),
        (0.0, (0.06, 0.39), Strength.TOO_FEW),
        (0.34, (0.10, 0.22), Strength.LITTLE),
        (0.55, (0.0, 0.64), Strength.AT_LEAST),
        (0.999, (0.11, 0.30), Strength.AT_LEAST),
        (1.0, (0.0, 1.0), Strength.YES),
        (0.0, (0.11, 0.2), Strength.LITTLE),
        (0.0, (0.4, 0.9), Strength.YES),
    ],
)
def test_the_word_follows_from_proof_rate_and_interval_together(
    epsilon: float, limits: tuple[float, float], strength: Strength
) -> None:
    report = _bounded(sample.run(), lambda b: sample.replace_figures(b, epsilon if b.family is None else 9.0, read_ceiling(b)))
    result = answer.answers(_bracketed(report, *limits))
    assert {item.strength for item in result} == {strength}
    assert choose_strength(epsilon, bracket_rate(*limits, 0.1)) is strength


@pytest.mark.slow
@given(st.floats(0, 3), st.floats(0, 1), st.floats(0, 1), st.floats(0.001, 0.9))
def test_no_word_promises_more_than_its_evidence(epsilon: float, first: float, second: float, fpr: float) -> None:
    lower, upper = sorted((first, second))
    interval = bracket_rate(lower, upper, fpr)
    strength = choose_strength(epsilon, interval)
    if lower <= fpr and epsilon < 0.01:
        assert strength in (Strength.TOO_FEW, Strength.NOT_SHOWN), "nothing was shown"
    if upper >= interval.clear:
        assert strength not in (Strength.LITTLE, Strength.NOT_SHOWN), "a clear leak is not excluded"


def test_the_strongest_answer_leads_and_all_are_given() -> None:
    report = sample.run()
    result = answer.answers(report)
    assert [item.access.name for item in result] == ["all_steps", "final_model"]
    message = _words(report)
    assert message.startswith("Do the noisy steps of this training tell which records the model was trained on? Yes")
    assert "Do the outputs of this model tell which records it was trained on? At least a little." in message


def test_answer_numbers_quote_and_figure_name_one_attack() -> None:
    for kind in ("consistent", "violated", "model", "scores"):
        report = REPORTS[kind]()
        lead = answer.answers(report)[0]
        assert lead.attack.scorer in cover.quote(report)
        assert all(lead.attack.scorer in card.detail for card in cover.cards(report) if "Attack:" in card.detail)
        assert lead.proven is None or lead.proven.game is lead.game
        if cover.picture(report) != "overview":
            assert leading(lead.game).scorer == lead.attack.scorer and lead.game.name in cover.picture(report)


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("consistent", "members planted by this audit (crafted gradients, one coordinate each)"),
        ("model", "of the 2,000 records given as members"),
        ("scores", "of the 500 records that coins put into the training, as declared"),
    ],
)
def test_the_sentence_says_who_the_members_are(kind: str, members: str) -> None:
    assert (members in _words(REPORTS[kind]()) and members in cover.quote(REPORTS[kind]())) or kind != "model"


def test_coins_that_this_audit_drew_are_not_called_declared() -> None:
    """A training that is called with canaries by the audit's own coins; scores from elsewhere come with declared ones."""
    for kind, members, words in (
        ("training", "members planted by this audit", "Drawn by this audit. Membership was decided by recorded coins."),
        ("scores", "that coins put into the training, as declared", "Declared, not checked. The owner declares"),
    ):
        report = replace(REPORTS["scores"](), kind=kind)
        assert members in _words(report)
        assert words in "".join(str(getattr(part, "text", part)) for part in verdict.trust(report))


def test_a_federated_cover_leads_with_the_worst_view() -> None:
    report = sample.run()
    views = [replace(result, training="central", name=f"central ({result.name})") for result in report.mechanisms]
    full = replace(report, mechanisms=tuple(views))
    lead = answer.answers(full)[0]
    worst = max(bound.epsilon for result in views for bound in result.bounds)
    assert lead.epsilon == worst and lead.mechanism.claims == ()
    facts = dict(verdict.facts(full, headline(full), cover.claim(full, headline(full))).items)
    assert "nothing is claimed" in str(facts["Claim"]) and "central (non_private)" in str(facts["Claim"])
    assert lead.attack.scorer in cover.quote(full) and "ε ≤ 8.00" in cover.quote(full).replace("\xa0", " ")


def test_only_what_was_checked_is_called_checked() -> None:
    def status(report: AuditReport) -> str:
        return str(verdict.trust(report))

    assert "Drawn by this audit" in status(sample.run()) and "hecked" not in status(sample.run())
    assert "Declared, not checked" in status(sample.scores())
    assert "Inputs checked" in status(sample.model())
    bare = sample.model().mechanisms[0]
    assert "Not checked" in status(replace(sample.model(), mechanisms=(replace(bare, checks=()),)))


def test_power_risk_and_next_action_stand_on_the_cover() -> None:
    for build in REPORTS.values():
        report = build()
        facts = dict(verdict.facts(report, headline(report), cover.claim(report, headline(report))).items)
        assert facts["Risk to people"] and str(facts["Next"]).startswith("For the ")
    claim = str(cover.claim(sample.run(), headline(sample.run())))
    assert "would have caught" in claim.replace("\\xa0", " ")
    assert "No true ε, however large" in str(cover.claim(sample.scores(), headline(sample.scores())))


def _next(report: AuditReport) -> str:
    return str(dict(verdict.facts(report, headline(report), cover.claim(report, headline(report))).items)["Next"])


def test_a_claim_that_no_coins_reach_is_sent_to_its_accounting_and_a_split_to_coins() -> None:
    assert "no audit plants as many coins" in _next(replace(sample.run(Outcome.OUT_OF_REACH), policy=()))
    (mechanism,) = sample.model().mechanisms
    claim = next(claim for result in sample.run().mechanisms for claim in result.claims)
    unable = Verdict(claim=claim, outcome=Outcome.OUT_OF_REACH, bound=None, reason="none")
    result = replace(mechanism, claims=(claim,), verdicts=(unable,), outcome=unable.outcome)
    split = replace(sample.model(), mechanisms=(result,), outcome=unable.outcome)
    assert "in which coins decide who is a member" in _next(split)
    claim_text = str(cover.claim(split, headline(split)))
    assert "A split of the data decided membership" in claim_text and "perfect scores" not in claim_text
    _, proven, ceiling = cover.numbers(split, headline(split))
    assert (proven.value, proven.label, proven.detail) == ("none", "Proven ε", "A split of the data proves no ε")
    assert (
        (ceiling.value, ceiling.label) == ("none", "Ceiling") and "δ" not in ceiling.detail and "perfect" not in ceiling.detail
    )


def test_chance_stands_beside_every_rate_of_the_answer() -> None:
    for build in REPORTS.values():
        message = _words(build())
        assert message.count("false positives the attack") == message.count(", guessing ")
    assert "At 1 % false positives" in _words(sample.run()) and "guessing 1.00 %" in _words(sample.run())


def test_a_void_audit_answers_nothing() -> None:
    message = _words(sample.run(Outcome.INVALID))
    assert "No answer" in message and "finds" not in message and "ε ≥" not in message


def test_a_split_is_answered_from_the_band_and_proves_nothing() -> None:
    report = sample.model()
    (result,) = answer.answers(report)
    assert result.proven is None and result.strength is Strength.AT_LEAST and result.rate is not None
    assert "No ε follows" in _words(report)
    attacks = tuple(
        replace(
            a,
            auc_lower=0.45,
            roc=replace(a.roc, lower=tuple(0.0 for _ in a.roc.lower)),
            tpr_at=tuple(replace(point, lower=0.0) for point in a.tpr_at),
        )
        for a in report.mechanisms[0].games[0].attacks
    )
    game = replace(report.mechanisms[0].games[0], attacks=attacks)
    (result,) = answer.answers(replace(report, mechanisms=(replace(report.mechanisms[0], games=(game,)),)))
    assert result.strength in (Strength.NOT_SHOWN, Strength.TOO_FEW)


def test_whether_the_split_can_be_trusted() -> None:
    assert answer.trust(sample.run()).status is Status.CHECKED
    report = sample.model()
    assert answer.trust(report).status is Status.CHECKED
    biased = Check(code="blind", item="Blind classifier", value="AUC 0.9", status=Status.FAILED)
    unasked = replace(report, mechanisms=(replace(report.mechanisms[0], checks=()),))
    assert answer.trust(unasked).status is Status.GAP
    assert "was not tested" in str(verdict.trust(unasked))
    failed = replace(report, mechanisms=(replace(report.mechanisms[0], checks=(biased,)),))
    assert answer.trust(failed).status is Status.FAILED


@pytest.mark.slow
@given(st.floats(0.05, 12), st.floats(0.5, 0.9999))
def test_the_needed_coins_are_the_least_that_prove_the_claim(epsilon: float, confidence: float) -> None:
    coins = answer.needed_coins(epsilon, confidence)
    chance = 1 / (1 + math.exp(-epsilon))
    assert coins * math.log(chance) <= math.log(1 - confidence) * (1 - 1e-12)
    assert (coins - 1) * math.log(chance) >= math.log(1 - confidence) * (1 + 1e-9) or coins == 1


def test_what_is_stronger_is_a_number() -> None:
    report = _bounded(sample.run(), lambda b: sample.replace_figures(b, read_epsilon(b), 5.0) if b.family is None else b)
    result = answer.stronger(report)
    assert result is not None and result.needed > result.coins > 0
    message = verdict.stronger_audit(report)
    assert f"{result.needed:,} coins" in message and f"{4 * result.records:,} members" in message and "64 to 256" in message
    assert answer.stronger(replace(report, mechanisms=())) is None


def test_the_quote_and_its_ceiling_are_of_one_bound() -> None:
    report = sample.run()
    head = headline(report)
    assert head is not None and head.proven is not None
    message = quotable(report, head)
    assert head.proven.attack in message and f"{read_ceiling(head.proven.bound):.2f}" in message


# a bound inside a family never is anywhere without it

values = st.integers(101, 399).map(lambda n: n / 100)


def _renamed(report: AuditReport, family: str, epsilon: float, ceiling: float) -> AuditReport:
    def change(bound: ReportedBound) -> ReportedBound:
        return bound if bound.family is None else sample.replace_figures(replace(bound, family=family), epsilon, ceiling)

    return _bounded(report, change)


def _objects(plain: Any) -> list[dict[str, Any]]:
    if isinstance(plain, dict):
        return [plain, *(inner for value in plain.values() for inner in _objects(value))]
    return [inner for value in plain for inner in _objects(value)] if isinstance(plain, list) else []


@pytest.mark.slow
@settings(max_examples=25)
@given(st.sampled_from(["gdp", "dp_sgd", "my_family"]), values, st.sampled_from(list(sample.ALL)))
def test_no_output_holds_a_family_bound_without_its_family(family: str, epsilon: float, kind: str) -> None:
    epsilon, ceiling = epsilon + 0.00321, epsilon + 40.00654
    report = _renamed(REPORTS[kind](), family, epsilon, ceiling)
    for actual in _objects(json.loads(report_json.to_json(report))):
        assert epsilon not in [value for key, value in actual.items() if key == "epsilon"]
        if epsilon in [value for key, value in actual.items() if key.endswith(("inside", "epsilon"))]:
            assert actual["family"] == family
    printed = (f"{math.floor(epsilon * 100) / 100:.2f}", f"{math.floor(ceiling * 100) / 100:.2f}")
    for element in ElementTree.fromstring(JUnit().render(report)["junit.xml"]).iter():
        _named([element.text or "", *element.attrib.values()], printed, family)
    for result in json.loads(Sarif().render(report)["results.sarif"])["runs"][0]["results"]:
        _named([result["message"]["text"]], printed, family)
        named = [name for name, value in result["properties"].items() if value in (epsilon, ceiling)]
        assert all(name.endswith(f"_inside_{family}") for name in named)


def _named(texts: list[str], numbers: tuple[str, ...], family: str) -> None:
    for text in texts:
        for clause in re.split(r";", text):
            if any(re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", clause) for number in numbers):
                assert family in clause, clause


def test_a_split_game_has_no_coins_to_speak_of() -> None:
    games = [game for item in sample.model().mechanisms for game in item.games]
    assert all(game.game.inclusion is Inclusion.SPLIT for game in games)
    assert not answer.trust(sample.model()).by_coins


@pytest.mark.parametrize("secret", ["attribute", "candidate", "property", "text secret", "of a plug-in"])
def test_an_audit_of_other_secrets_is_not_called_one_without_attacks(secret: str) -> None:
    report = sample.run()
    guesses = GuessResult(secrets=1000, right=554, lower=0.522, upper=0.586, baseline=0.5, imputed=500)

    def guessed(mechanism: MechanismResult) -> MechanismResult:
        (game, *_) = mechanism.games
        attacks = tuple(replace(attack, guesses=guesses) for attack in game.attacks)
        return replace(mechanism, games=(replace(game, game=replace(game.game, choices=4, secret=secret), attacks=attacks),))

    words = _words(replace(report, mechanisms=tuple(guessed(mechanism) for mechanism in report.mechanisms)))
    assert "No attack was run" not in words and "which records" not in words
    assert (
        "names 554 of 1,000 right (" in words
        and "), 55.4 %; interval 52.2 % to 58.6 %, naming the likeliest value 50.0 %" in words
    )
    assert words.startswith("Does what is released (") and "of the members" not in words


def _of_unit(report: AuditReport, unit: str) -> AuditReport:
    """Return the report with all claims about that unit."""
    return replace(
        report,
        mechanisms=tuple(
            replace(result, claims=tuple(replace(claim, unit=unit) for claim in result.claims)) for result in report.mechanisms
        ),
    )


@pytest.mark.parametrize(
    ("language", "unit", "phrase"),
    [
        ("en", "client", "tell which clients’ records the model was trained on?"),
        ("en", "user", "tell which users’ records the model was trained on?"),
        ("en", "household", "tell which household records the model was trained on?"),
        ("zh", "client", "能否判断某个客户端的数据是否用于训练？"),
        ("zh", "example", "能否判断某条记录是否用于训练？"),
    ],
)
def test_the_question_is_about_whom_the_claim_protects(language: str, unit: str, phrase: str) -> None:
    with speaking(language):
        pages = [verdict.verdict(local) for report in [_of_unit(sample.run(), unit)] for local in (report, translated(report))]
    assert all(phrase in page.question for page in pages)


def test_without_a_claim_the_training_says_who_is_asked_about() -> None:
    report = sample.run()
    plain = replace(report.mechanisms[0], mechanism=sgd(sample_rate=0.1, steps=9, unit="client"))
    assert "which clients’ records" in _words(replace(report, mechanisms=(plain,), outcome=None))
    assert "which records" in _words(replace(report, mechanisms=(replace(plain, mechanism=None),), outcome=None))


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("inclusion", Inclusion)
def test_secrets_are_drawn_and_have_no_membership(language: str, inclusion: Inclusion) -> None:
    report = sample.run()
    mechanism = report.mechanisms[0]
    rules = replace(mechanism.games[0].game, choices=4, secret="attribute", inclusion=inclusion)
    secrets = replace(mechanism.games[0], game=rules)
    alone = replace(report, mechanisms=(replace(mechanism, games=(secrets,)),))
    drawn = inclusion is Inclusion.COINS
    with speaking(language):
        labels = [label for label, _ in verdict.facts(alone, None, "").items]
        assert say("fact.trust_of_secrets") in labels and say("fact.trust") not in labels
        text = str(verdict.trust(alone))
        assert say("trust.draws" if drawn else "trust.no_draws") in text and say("trust.coins") not in text
        both = replace(report, mechanisms=(replace(mechanism, games=(secrets, mechanism.games[0])),))
        assert say("trust.coins") in str(verdict.trust(both))
    assert answer.trust(alone).status is (Status.CHECKED if drawn else Status.GAP)


def test_an_audit_whose_negative_control_failed_is_nowhere_sound() -> None:
    report = sample.run(Outcome.INVALID)
    assert answer.trust(report).status is Status.FAILED and "Failed" in str(verdict.trust(report))
    rows = overview(report).rows
    names = {result.name for result in report.mechanisms if result.outcome is Outcome.INVALID}
    assert names and len(rows) > len(names)
    for row in rows:
        bounds = [str(cell) for cell in row[3:5]]
        assert all(cell.startswith("void: ") for cell in bounds) == (row[0].text in names)
    drawn = figures.planned(report)
    captions = [plan.caption for name, plan in drawn.items() if name.startswith(("budget", "access"))]
    assert captions and all("had the audit not been void" in caption and "Red:" not in caption for caption in captions)
    plain = document.texts(document.sections(report))
    assert any("Those of dp_sgd are void" in str(text) for text in plain)


@pytest.mark.parametrize(("kind", "follows"), [("run", True), ("model", False), ("training", False), ("table", False)])
def test_only_a_run_says_that_memberships_follow_from_a_short_seed(kind: str, follows: bool) -> None:
    report = sample.run()
    report = replace(report, kind=kind, config="{}", provenance=replace(report.provenance, seed=0))
    table = reproduce(report).blocks[0]
    assert isinstance(table, Table)
    ((text,),) = [row[1:] for row in table.rows if "seed" in str(row[0]).lower()]
    assert ("who was a member follows from it" in str(text)) is follows and str(text).startswith("0")
