"""Every language says everything, in the same numbers, without the words that no report may say alone."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np
import pypdf
import pytest
from fontTools.ttLib import TTFont

import reports
from attacks.scorers._secrets import DiscoverableExtraction, Exposure, Extraction
from audit import plugins
from audit.checks import blind
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError
from audit.core.game_results import SecretScorer
from audit.core.phrases import join_clauses, phrase
from audit.core.preflight import LIKE_SIDES, Preflight, TriedReading
from audit.core.protocols import MechanismSetting
from audit.core.results import AuditReport
from audit.experiment.external import canary_scores, external_models, inspected, model_answers, output_scale
from audit.experiment.external.input_readings import _readings, with_input_reading
from audit.experiment.line import preflight, side_readings
from audit.mechanisms import federated
from reports.formats import figures as drawings
from reports.formats import html, json, pdf
from reports.formats._older_words import find_message
from reports.pages import label
from reports.pages.annex import annex
from reports.pages.blocks import Mono
from reports.pages.document import sections
from reports.words.language import PACKAGE, current, find, recorded, say, speaking
from reports.words.languages import en
from reports.words.languages._table import read_table
from reports.words.translation import translated
from tests.reports import sample

LANGUAGES = plugins.names(PACKAGE)
SLOT = re.compile(r"\{(\w+)\}")
ENGLISH_WORDS = re.compile(r"\b[a-z]{2,}(?: [a-z]{2,})+\b")
HERE = "tests.reports.test_languages"


def spoken(value: object) -> Iterator[str]:
    """Every text of a block but those set as code."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for inner in value:
            yield from spoken(inner)
    elif is_dataclass(value) and not isinstance(value, Mono):
        for name in value.__dataclass_fields__:
            yield from spoken(getattr(value, name))


@cache
def texts(kind: str, language: str) -> tuple[str, ...]:
    """All that a sample says in a language."""
    with speaking(language):
        return texts_of(sample.ALL[kind]())


def texts_of(report: AuditReport) -> tuple[str, ...]:
    """All that pages, annex, label and figures of a report say, without the settings and the command."""
    bare = replace(report, settings=(), config="", provenance=replace(report.provenance, command="audit"))
    local = translated(bare)
    pages = (*sections(local), annex(local), *label.pages(local))
    figures = [text for plan in drawings.planned(local).values() for text in (plan.caption, plan.alt)]
    return (*(text for page in pages for text in (page.title, *spoken(page.blocks))), *figures, label.card(local))


def names(report: AuditReport) -> list[str]:
    """What users, attacks and libraries are called, which no language translates."""
    games = [game for result in report.mechanisms for game in result.games]
    attacks = [attack for game in games for attack in game.attacks]
    claims = [claim.source for result in report.mechanisms for claim in result.claims]
    provided = [report.title, report.model, report.provenance.platform, report.provenance.device]
    return [
        *provided,
        *claims,
        *(result.name for result in report.mechanisms),
        *(game.name for game in games),
        *(attack.scorer for attack in attacks),
    ]


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_language_has_the_same_keys_with_the_same_names_in_braces(name: str) -> None:
    language = find(name)
    assert set(language.sentences) == set(en.SENTENCES)
    differing = [
        key for key, text in language.sentences.items() if set(SLOT.findall(text)) != set(SLOT.findall(en.SENTENCES[key]))
    ]
    assert differing == []
    assert all(set(SLOT.findall(words)) <= set(SLOT.findall(english)) for english, words in language.recorded.items())
    assert language.tag == name


@pytest.mark.parametrize("name", LANGUAGES)
def test_no_message_stands_twice_in_the_table_of_a_language(name: str) -> None:
    """The second would silently replace the first."""
    table = Path(en.__file__).with_name(f"{name}.json")
    keys = [key for line in table.read_text("utf-8").splitlines() for key in re.findall(r'^    ("(?:[^"\\]|\\.)*"): ', line)]
    tables = read_table(name)
    assert len(keys) == sum(map(len, tables.values()))


def test_every_sentence_is_said_somewhere() -> None:
    """A key that no code names is a sentence that no one reads."""
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in Path(reports.__file__).parent.rglob("*.py")
        if path.parent.name != "languages"
    )
    literal = set(re.findall(r"[\"']([\w .]+)[\"']", code))
    literal |= {title for columns in re.findall(r"layout\(([^)]*)\)", code) for title in re.findall(r"[a-z_\d]+\.\w+", columns)}
    prefixes = set(re.findall(r"f[\"']([a-z_.]+\.)\{", code)) | {
        "outlying.at_least.",
        "outlying.found.",
        "document.",
        "question.",
    }
    called = set(re.findall(r"_known_words\(\"([a-z]+)\"", code))
    families = tuple(prefixes | {f"{family}." for family in called | {"noun"}})
    assert [key for key in en.SENTENCES if key not in literal and not key.startswith(families)] == []


@pytest.mark.parametrize("name", LANGUAGES)
def test_no_sentence_of_a_language_promises_too_much(name: str) -> None:
    """Also those of pages that no sample has."""
    language = find(name)
    sentences = [*language.sentences.values(), *language.recorded.values()]
    assert [text for text in sentences for pattern in language.forbidden if re.search(pattern, text, re.IGNORECASE)] == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", LANGUAGES)
@pytest.mark.parametrize("kind", sample.ALL)
def test_no_page_says_a_word_that_promises_too_much(kind: str, name: str) -> None:
    full = "\n".join(texts(kind, name))
    assert [pattern for pattern in find(name).forbidden if re.search(pattern, full, re.IGNORECASE)] == []


@pytest.mark.parametrize("kind", sample.ALL)
def test_no_english_sentence_is_left_in_a_chinese_report(kind: str) -> None:
    known = sorted(names(sample.ALL[kind]()), key=len, reverse=True)
    remains = []
    for text in texts(kind, "zh"):
        remainder = re.sub("|".join(map(re.escape, known)), "", text)
        remains += english(remainder)
    assert remains == []


def english(text: str) -> list[str]:
    """The runs of English words in a Chinese text but for the commands that it gives."""
    return ENGLISH_WORDS.findall(re.sub(r"audit (report|verify)[\w .-]*", "", text))


NOT_CHINESE = {
    "a number without a measure word": r"\d (?:由|硬币|成员|非成员|记录|审计|博弈|攻击|误报|训练|声明|阈值|模型)",
    "a second word for a rate": r"FPR 为|时的 TPR|误报率",
    "a percentage as a subtraction": r"一减|1 减",
    "half-width punctuation between characters": r"[\u4e00-\u9fff][,;:!?][\u4e00-\u9fff]",
}


@pytest.mark.parametrize("kind", sample.ALL)
@pytest.mark.parametrize("fault", NOT_CHINESE)
def test_no_examined_chinese_fault_is_on_a_page(kind: str, fault: str) -> None:
    assert [text for text in texts(kind, "zh") if re.search(NOT_CHINESE[fault], text)] == []


def test_what_reports_record_is_translated_part_by_part() -> None:
    taken = phrase("{taken} taken, {accounted} accounted", taken=250, accounted=250)
    with speaking("zh"):
        assert recorded(taken) == "实际 250，记账 250"
        assert recorded(phrase("one training {unit}", unit="client")) == "一个训练客户端"
        orders = join_clauses((phrase("best order {order}", order=3.4), "none"))
        assert recorded(orders) == "最佳阶 3.4；无"
        assert recorded("nobody ever translated this") == "nobody ever translated this"
        assert say("cover.inside", family=say("family.dp_sgd")) == "在泊松抽样的 DP-SGD 族内"
    assert recorded(taken) == "250 taken, 250 accounted"


REMARKS = (
    model_answers._FROM_PROBABILITIES,
    phrase(model_answers._ONE_OUTPUT, form="logit"),
    phrase(model_answers._ONE_OUTPUT, form="probability"),
    model_answers._FROM_ODDS,
    model_answers._TWICE,
    phrase(model_answers._CUT_OFF, share="12%", low="-16.12", high="16.12"),
    phrase(model_answers._TOO_FAR, gap="9000"),
    phrase(model_answers._SHIFTED, shift="0.5"),
    model_answers._RANKS,
    model_answers._REGRESSION,
    model_answers._SEVERAL,
    model_answers._TOKENS,
    model_answers._MASKS,
    phrase(output_scale._EITHER_AXIS, axis="last axis"),
    external_models._CHANGING,
    external_models._COMPANIONS,
    inspected.DEPENDENT_NOTE,
    inspected.FOLLOWING_NOTE,
    phrase(model_answers._CUT_ROWS, kept=2, count=10),
    phrase(model_answers._UNEVEN, sum="1.04"),
    inspected.BIASED_NOTE,
    inspected.SPLIT_NOTE,
    canary_scores.NO_COINS,
    canary_scores._APART,
    "Commitment: none.",
    canary_scores.CoinKnowledge(declared=True).check.value,
    phrase("{item}: {value}.", item=blind.NOT_RUN.check.item, value=blind.NOT_RUN.check.value),
)
# as reports before version 2.0 hold them
OLDER_REMARKS = (
    "2 of 150 control records equal a training record in every column (3 of 140 training records equal another one). If these "
    "are the same people, take them out of the control table: they make the risks look smaller.",
    "Look first: the model names classes that y never holds for 27% of the members: are columns and labels those that it was "
    "trained with?",
    "x of record 4 (counted from 1), members first, holds 1e+38 at place 3 (1 such values): does it stand for a missing one?",
    "Look first: columns of x have the same mean on both sides, which a split at random does not give: was each side scaled by "
    "itself? Scale both as the training records were.",
    "Look first: predictions on the members lie far from y on average, which training by the squared error does not give: are "
    "y and outputs in one unit? A model of a median or a quantile is audited by its own loss (loss_of).",
    "Look first: of the 49 closest pairs of records 92% have one on each side, where a split at random gives 50%: are "
    "nonmembers copies of members, rounded, scaled or augmented?",
    "Invalid: members do worse than nonmembers, which chance gives in fewer than 1 of 100,000 audits: the records, their "
    "labels, the outputs or the sides are not what they were read as; AUC of the loss 0.318.",
    "Look first: the model is no better on its own training records than always giving the mean: are y and outputs in one "
    "unit?",
    "The model is right on 79.0% of the members and 78.0% of the nonmembers, alike within chance: so is a model that "
    "generalises, and so are two parts of its training records. Nothing of one model tells these from each other; references "
    "that were trained like it do.",
    f"The target's losses on the nonmembers are those of references on records that they were trained on: at least 87% of the "
    f"nonmembers were, if target and references are trained alike; {LIKE_SIDES}. Give records that the model was never trained "
    "on.",
    "Column mine: 88% of the scores equal one of the other side; ties count against the attack, so a finer score proves more.",
    "Column mine: 81 of 100 are members, which coins with probability 0.5 give with probability 4e-10; the audit drew them "
    "itself: this is chance.",
    "Column mine: 81 of 100 are members, which coins with probability 0.5 give with probability 4e-10; check that every record "
    "with a coin is in the table.",
    "12 of 100 rows repeat the score and the side of another: copies are no further evidence",
    "Look first: answers on the members fit y of most labels, but y of label 2, 4 (counted from 1) no better than shuffled y: "
    "are the columns of y those that the model answers?",
    "scores follow those listed before them on their side (7.1 standard errors): they do not look like independent trials",
    "Look first: reference 4 tells nothing of its own memberships (0.3 standard errors), where the typical one does (9): is "
    "row 4 of references.included its own, and was it trained like them?",
    "Look first: some losses on the members are those of references on records that they were not trained on: at most 71% of "
    "the members were trained on, if target and references are trained alike. Were all members in its training?",
    "column 2 of x holds -999 in 4 members and 17 nonmembers, far from all other values: does it stand for a missing one, as "
    "it did in the training?",
    "outputs are probabilities of 7 classes, y holds classes",
    "right answers: members 99.2%, nonmembers 81.0%; commonest class 12.5%",
    "root mean square error: members 0.31, nonmembers 0.92; always the mean 1.4",
    f"The model is right on 99.0% of the members and 98.0% of the nonmembers: {LIKE_SIDES}. If nonmembers were split from the "
    "training records after training, no figure here says anything; give records that the model was never trained on. If they "
    "are such records, the model generalises.",
)


@pytest.mark.parametrize("remark", [*REMARKS, *map(find_message, OLDER_REMARKS)])
def test_remarks_on_a_model_or_a_table_that_somebody_brings_are_translated(remark: str) -> None:
    with speaking("zh"):
        assert ENGLISH_WORDS.findall(recorded(remark)) == []


def test_other_readings_of_x_and_y_are_translated() -> None:
    rows = _readings(np.zeros((4, 3, 3)), None, None), _readings(np.arange(12.0).reshape(4, 3), None, None)  # type: ignore[arg-type]
    names = [name for part in rows for name, _ in part] + ["y with yes and no exchanged", "columns in another order"]
    ways = [phrase("{moved} from record {number} on", moved=way, number=7) for way, _, _ in side_readings._MOVES]
    ways.append(phrase("with classes {classes} in another order", classes="1, 3"))
    names += [side_readings._name(side, way) for side in ("y", "y of the nonmembers") for way in ways]
    assert len(names) > 15
    look = Preflight(reading="", measure="", members=None, nonmembers=None, baseline=None, auc=0.5, chance=1.0)
    with speaking("zh"):
        for name in names:
            asked = with_input_reading(look, TriedReading(name=name, fit=None, auc=0.851))
            doubtful = replace(look, doubt="members and nonmembers swapped", alternatives=asked.alternatives * 2)
            for note in (*preflight.notes(asked), *preflight.notes(doubtful)):
                assert ENGLISH_WORDS.findall(recorded(note)) == [], name


@pytest.mark.parametrize("unit", federated.UNITS)
@pytest.mark.parametrize("noise", federated.PLACES)
def test_who_is_protected_from_whom_is_translated_whatever_the_training_is_called(noise: str, unit: str) -> None:
    options: dict = {} if noise == "none" else {"noise_multiplier": 1.0}
    options |= {"unit": "example", "local_steps": 2, "record_rate": 0.5} if noise == "records" else {"unit": unit}
    training = federated.Federated(clients=9, noise=noise, **options)
    setting = MechanismSetting(sample_rate=1.0, steps=3, delta=1e-5, adjacency=Adjacency.ADD_REMOVE, accountants=())
    with speaking("zh"):
        assert (
            ENGLISH_WORDS.findall(recorded(phrase("{training}: {remark}.", training="mine", remark=training.remark(setting))))
            == []
        )


@pytest.mark.parametrize(
    "scorer", [Extraction(), Extraction(beams=4), DiscoverableExtraction(), Exposure(), Exposure(extrapolated=True)]
)
def test_units_of_secrets_are_translated(scorer: SecretScorer) -> None:
    with speaking("zh"):
        assert ENGLISH_WORDS.findall(recorded(scorer.unit.quantity)) == []


def test_the_chinese_font_has_every_character_that_is_said() -> None:
    language = find("zh")
    wanted = {character for text in (*language.sentences.values(), *language.recorded.values()) for character in text}
    wide = {character for character in wanted if character > "\u2e7f"}
    for weight in ("Regular", "Bold"):
        with TTFont(pdf.FONTS / f"NotoSerifCJKsc-{weight}.otf") as font:
            assert wide <= {chr(code) for code in font.getBestCmap()}


@pytest.mark.slow
def test_a_chinese_document_declares_its_language_and_attaches_the_report_unchanged() -> None:
    report = sample.run()
    files = reports.render(report, ("pdf", "json"), "zh")
    assert sorted(files) == ["report-zh.pdf", "report.json"]
    document = files["report-zh.pdf"]
    reader = pypdf.PdfReader(io.BytesIO(document))
    assert reader.trailer["/Root"]["/Lang"] == "zh" and pdf.language(document) == "zh"
    assert json.from_json(pdf.attachment(document)) == report
    text = "".join(page.extract_text() for page in reader.pages)
    assert "隐私审计报告" in text and "Privacy audit" not in text
    assert pdf.language(reports.render(report, ("label",))["label.pdf"]) == "en"


@pytest.mark.slow
def test_a_chinese_page_for_a_browser_declares_its_language() -> None:
    with speaking("zh"):
        page = html.document(sample.run())
    assert '<html lang="zh">' in page and "<h1>隐私审计报告</h1>" in page and len(page.encode()) < 500_000
    assert current().tag == "en"


@dataclass(frozen=True)
class Shouted:
    """A third party's language."""

    tag: ClassVar[str] = "en-x-shouted"
    sentences: ClassVar[Mapping[str, str]] = en.SENTENCES | {"document.title": "PRIVACY AUDIT REPORT"}
    recorded: ClassVar[Mapping[str, str]] = {}
    forbidden: ClassVar[Sequence[str]] = ()
    fonts: ClassVar[tuple[str, ...]] = ()
    spaceless: ClassVar[str] = ""


@dataclass(frozen=True)
class Silent(Shouted):
    """A language that says nothing."""

    sentences: ClassVar[Mapping[str, str]] = {}


def test_a_language_of_a_third_party_is_spoken_and_an_incomplete_one_refused() -> None:
    with speaking(f"{HERE}:Shouted"):
        assert say("document.title") == "PRIVACY AUDIT REPORT"
    with pytest.raises(ConfigError, match=r"lacks \d+ sentences, the first is 'adjacency"):
        find(f"{HERE}:Silent")
    with pytest.raises(ConfigError, match="languages has no 'cn'"):
        find("cn")
