"""A reader of the external edition who tries to learn who was a member: what the edition holds, in every format."""

from __future__ import annotations

import io
import json
import re
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

import reports
from audit import plugins
from audit.core.claims import Outcome
from audit.core.game import Inclusion
from audit.core.game_results import AttackResult, GameResult, GuessResult
from audit.core.lower_bounds import read_ceiling, read_epsilon
from audit.core.provenance import Engagement
from audit.core.results import AuditReport, Check, Status
from reports import answer, headline
from reports.editions.external import external
from reports.editions.facts import AREAS, EPSILONS, RATES, FigureCount, epsilon_grid
from reports.formats import pdf
from reports.formats.json import from_json, to_json
from reports.pages import consequences, cover, document, verdict
from reports.strength import ALLOWED_WORDS, Strength
from tests.reports import sample
from tests.reports.scored import scored_report

CANARY = "QZKXVJWQ"
"""In every text of a report that may not leave; it is in no word of this package."""
NUMBER = 0.123456789
"""In place of every number that may not leave."""
DECLARED = {"title", "system", "owner", "purpose", "release_context", "valid_until", "next_audit"}
"""Texts of the owner's that stay."""
FORMATS = sorted(plugins.names("reports.formats"))


def poisoned(report: AuditReport) -> AuditReport:
    """The report with a mark in every text that a training, a person, a machine or a config wrote into it."""
    first = report.mechanisms[0]
    game = first.games[0]
    records = game.records or ()
    games = tuple(
        replace(
            item,
            note=f"{CANARY} of {item.note}",
            records=tuple(replace(row, record=f"{CANARY}row", label=CANARY) for row in records),
            groups=tuple(replace(row, group=f"class {CANARY}") for row in item.groups),
            attacks=tuple(
                replace(
                    attack,
                    bounds=tuple(
                        replace(bound, selected=f"{CANARY}: 7 of 9 guesses right", seed=987_654) for bound in attack.bounds
                    ),
                    estimates=tuple(replace(row, warning=CANARY) for row in attack.estimates),
                )
                for attack in item.attacks
            ),
        )
        for item in first.games
    )
    check = Check(code="own", item=f"{CANARY} item", value=f"read from /srv/{CANARY}", status=Status.DECLARED)
    verdicts = tuple(replace(row, reason=f"{CANARY} 7 of 9") for row in first.verdicts)
    changed = replace(first, games=games, verdicts=verdicts, checks=(*first.checks, check))
    return replace(
        report,
        created="2026-01-15T12:34:56Z",
        mechanisms=(changed, *report.mechanisms[1:]),
        notes=(*report.notes, f"{CANARY} of 12 members"),
        config=f"seed: 987654 # {CANARY}",
        origins=((CANARY, CANARY),),
        settings=((CANARY, CANARY),),
        config_lines=((CANARY, 3),),
        coverage=tuple(replace(row, done=CANARY) for row in report.coverage),
        policy=tuple(replace(gate, found=NUMBER) for gate in report.policy),
        data=None if report.data is None else replace(report.data, source=f"/srv/{CANARY}.csv", sha256="ab" * 32),
        engagement=Engagement(owner="A hospital", auditor=CANARY, reviewer=CANARY),
        provenance=replace(
            report.provenance,
            command=f"audit run /home/{CANARY}.yaml --set seed=3",
            seed=987_654,
            config_sha256="cd" * 32,
            device=CANARY,
            platform=CANARY,
            threads=77,
        ),
    )


def text_of(files: dict[str, bytes]) -> str:
    """Everything that a reader sees or can take out of files: pages, metadata, attachments, alternative texts, the bytes."""
    pypdf = pytest.importorskip("pypdf", reason="reading PDFs needs the extra 'dev'")
    parts = []
    for name, content in files.items():
        parts += [name, content.decode("latin-1"), content.decode("utf-8", "ignore")]
        if name.endswith(".pdf"):
            document = pypdf.PdfReader(io.BytesIO(content))
            parts += [page.extract_text() for page in document.pages]
            parts += [str(document.metadata), document.trailer["/Root"]["/Metadata"].get_data().decode("utf-8", "ignore")]
            parts += [str(obj.get_object()) for obj in document.xref_objStm] if False else []
            if name == "report.pdf":
                parts.append(pdf.attachment(content).decode())
    return "\n".join(parts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["consistent", "model"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_format_tells_what_the_edition_leaves_out(kind: str, language: str) -> None:
    report = poisoned(sample.ALL[kind]())
    assert CANARY in text_of(reports.render(report, ("json",))), "the reader is too weak"
    text = text_of(reports.render(external(report), FORMATS, language))
    for word in (CANARY, "987654", "12:34", "ab" * 32, "cd" * 32, "guesses right", "--set"):
        assert word not in text, word


@pytest.mark.parametrize("kind", sample.ALL)
def test_every_figure_of_members_is_one_of_few_values(kind: str) -> None:
    report = poisoned(sample.ALL[kind]())
    edition = external(report)
    assert from_json(to_json(edition)) == edition == external(edition)
    assert edition.created == "2026-01-15T00:00:00Z" and edition.policy == ()
    for result in edition.mechanisms:
        limits = epsilon_grid([claim.epsilon for claim in result.claims])
        assert result.utility == result.trajectories == result.bound_trajectories == () and result.limit is None
        for bound in result.all_bounds:
            assert (
                read_epsilon(bound) in limits and read_ceiling(bound) in limits and bound.selected == "" and bound.seed is None
            )
        for game in result.games:
            assert game.records == game.groups == game.certificates == game.detectable == () and game.note == ""
            assert game.evaluation is game.watched is game.trigger is None
            assert len(game.attacks) <= 1
            for attack in game.attacks:
                check_attack(attack)


def check_attack(attack: AttackResult) -> None:
    assert {attack.auc, attack.auc_lower, attack.auc_upper} <= set(AREAS)
    (rate,) = attack.tpr_at
    assert rate.true_positives is None and rate.false_positives is None and rate.realised_fpr is None
    assert rate.tpr is None or {rate.tpr, rate.lower, rate.upper} <= set(RATES)
    assert len(attack.roc.fpr) <= 3 and len(attack.histogram.members) == 1
    assert attack.estimates == () and attack.secrets is None


@pytest.mark.parametrize("kind", ["consistent", "model", "scores"])
def test_no_text_of_the_report_is_left_but_what_the_owner_declares(kind: str) -> None:
    texts = dict(all_texts(external(poisoned(sample.ALL[kind]()))))
    assert not [place for place, text in texts.items() if CANARY in text and place.rpartition(".")[2] not in DECLARED]


def all_texts(value: Any, place: str = "") -> list[tuple[str, str]]:
    if isinstance(value, str):
        return [(place, value)]
    if isinstance(value, tuple):
        return [row for index, inner in enumerate(value) for row in all_texts(inner, f"{place}[{index}]")]
    if is_dataclass(value):
        return [row for field in fields(value) for row in all_texts(getattr(value, field.name), f"{place}.{field.name}")]
    return []


def test_verdicts_keep_their_side_of_every_claim() -> None:
    stream = np.random.default_rng(0)
    for _ in range(300):
        claims = stream.uniform(0, 12, 2).round(3).tolist()
        bound = float(stream.choice([stream.uniform(0, 12), claims[0] * (1 + 10.0 ** -stream.integers(2, 13)), claims[0]]))
        value = FigureCount().epsilon(bound, claims)
        assert value <= bound and all((value > claim) == (bound > claim) for claim in claims)


def test_few_values_mean_few_bits_and_the_edition_says_how_many() -> None:
    edition = external(sample.run())
    assert re.search(r"holds (\d+) figures .* at most (\d+) bits about [\d,]+ memberships", edition.notes[-1])
    assert len(EPSILONS) == 280 and len(AREAS) == 21 and len(RATES) == 14
    count = FigureCount()
    count.near(0.5, AREAS), count.one_of(2), count.one_of(1)
    assert (count.figures, round(count.bits, 3)) == (2, 5.392)


def test_a_title_of_the_owner_makes_no_report_an_external_edition() -> None:
    for kind in (sample.run, sample.model, sample.scores):
        report = kind()
        forged = replace(report, title=f"{report.title} (external edition)", id="PX-00000000")
        assert external(forged) == external(report)
        edition = external(report)
        assert external(replace(edition, notes=("more",))).notes != ("more",), "an edition that was changed is made anew"


def test_outcomes_stay() -> None:
    for outcome in Outcome:
        assert external(sample.run(outcome)).outcome is outcome


@pytest.mark.slow
def test_the_name_of_an_edition_follows_from_itself_alone() -> None:
    report, _ = scored_report()
    peer = replace(report, id="PA-12345678", provenance=replace(report.provenance, seed=1, config_sha256="0" * 64))
    assert external(peer).id == external(report).id != report.id
    assert external(report, "Model 7").title == "Model 7 (external edition)"
    assert json.loads(to_json(external(report)))["provenance"]["seed"] is None


def test_coarse_figures_are_not_taken_for_few_records() -> None:
    """What the edition leaves out was not left undone: neither its simulations, nor records."""
    edition = external(sample.ALL["consistent"]())
    sentences = " ".join(document.texts(cover.cover(edition)))
    assert "This edition leaves out which leak" in sentences and "was not simulated" not in sentences
    lead = answer.answers(edition)[0]
    assert headline.is_coarse(lead.attack) and not headline.is_coarse(answer.answers(sample.ALL["consistent"]())[0].attack)
    for strength, word in ((Strength.AT_LEAST, "At least a little"), (Strength.TOO_FEW, "This edition does not say")):
        item = replace(lead, strength=strength)
        assert verdict.word(item) == word
        assert "too few" not in " ".join((*verdict.sentences(edition, item), consequences.risk(item)))
        assert "records on each side" not in consequences.next_action(edition, None, item)


def redrawn(report: AuditReport, rng: np.random.Generator) -> AuditReport:
    """Return a report with other proofs, rates, areas and guesses of every attack, and now and then of a split."""

    proofs = ([0.0, 0.004], [0.0, 0.3], [0.0, 0.3, 0.97, 1.02, 3.0])[rng.integers(3)]
    power = rng.choice([1, 3, 6])

    def limits() -> tuple[float, float]:
        lower, upper = sorted(rng.random(2) ** power)
        return float(lower), float(upper)

    def attack(row: AttackResult, baseline: float) -> AttackResult:
        points = []
        for point in row.tpr_at:
            lower, upper = limits()
            points.append(replace(point, tpr=(lower + upper) / 2, lower=lower, upper=upper))
        low, high = limits()
        guesses = GuessResult(secrets=200, right=100, lower=low, upper=high, baseline=baseline, imputed=None, allowed=None)
        bounds = tuple(
            sample.replace_figures(bound, float(rng.choice(proofs)), float(rng.choice([1.03, 4.2]))) for bound in row.bounds
        )
        area = float(rng.uniform(0.4, 0.6))
        return replace(
            row,
            auc=area,
            auc_lower=area - 0.1 * float(rng.random()),
            tpr_at=tuple(points),
            bounds=bounds,
            guesses=guesses if baseline else None,
        )

    def game(row: GameResult) -> GameResult:
        baseline = float(rng.choice([0, 0, 1 / 64, 0.24]))
        rules = replace(row.game, inclusion=Inclusion(rng.choice(list(Inclusion))))
        rules = replace(rules, choices=64, secret="label") if baseline else rules
        return replace(row, game=rules, attacks=tuple(attack(item, baseline) for item in row.attacks))

    return replace(report, mechanisms=tuple(replace(item, games=tuple(map(game, item.games))) for item in report.mechanisms))


def test_the_word_of_an_edition_is_that_of_the_report_or_says_less() -> None:
    """Whatever was shown: coarser figures and other false positive rates never make the answer say more, or exclude more."""
    words: set[tuple[Strength, Strength]] = set()
    for seed in range(60):
        report = redrawn(sample.run(), np.random.default_rng(seed))
        full, edition = (answer.answers(item)[0].strength for item in (report, external(report)))
        assert edition in ALLOWED_WORDS[full], (seed, full, edition)
        words.add((full, edition))
    assert len({full for full, _ in words}) >= 4 and any(full is not edition for full, edition in words)
