"""What results record in English is filled from messages, by which another language says the same; report.json keeps them."""

from __future__ import annotations

import ast
import copy
import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import yaml

import audit
import reports
from attacks.scorers._secrets import Extraction
from audit.cli.app import answer
from audit.core.errors import DataError, ObservationError
from audit.core.phrases import Phrase, join_clauses, phrase, slots
from audit.core.seeds import Seed
from audit.data.load import load
from audit.experiment.external.inspection import Settings, inspect_scores
from reports.formats import _messages
from reports.formats.json import from_json, to_json, without_messages
from reports.words.language import recorded, speaking
from reports.words.languages import en
from reports.words.languages._table import read_table
from tests import tiny
from tests.reports import sample
from tests.reports.test_languages import english, names, texts_of

ROOT = Path(reports.__file__).parents[1]
CHINESE = read_table("zh")
BUILDERS = {"phrase": None, "join_clauses": "{first}; {rest}"}
READS_OLDER = "_older_words.py"  # what older reports hold


def test_a_phrase_is_its_text_and_keeps_message_and_values_in_copies_and_errors() -> None:
    inner = phrase("all {runs} target runs diverged", runs=3)
    text = phrase("'{attack}' was left out: {reason}", attack="lira", reason=ObservationError(inner))
    assert text == "'lira' was left out: all 3 target runs diverged" and hash(text) == hash(str(text))
    for same in (pickle.loads(pickle.dumps(text)), copy.deepcopy(text), str(text)):
        assert same == text and same.message == text.message and same.values["reason"].values == {"runs": "3"}


def _messages_of_code() -> Iterator[tuple[str, str]]:
    """Each message that code fills, with its place; a name is that of a text of the same module."""
    for path in sorted(path for part in ("audit", "attacks", "reports") for path in (ROOT / part).rglob("*.py")):
        if path.name in (READS_OLDER, "phrases.py"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {
            name.id: node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for name in node.targets
            if isinstance(name, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BUILDERS:
                usual, given = BUILDERS[node.func.id], node.args[1 if node.func.id == "join_clauses" else 0 :][:1]
                text = given[0] if given else ast.Constant(usual)
                yield str(texts.get(text.id) if isinstance(text, ast.Name) else ast.literal_eval(text)), f"{path}:{node.lineno}"


def test_every_message_of_code_has_a_chinese_one_with_the_same_values_and_none_is_left_over() -> None:
    used = dict(_messages_of_code())
    assert len(used) > 100
    assert {message: place for message, place in used.items() if message not in CHINESE["recorded"]} == {}
    assert [message for message in CHINESE["recorded"] if slots(message) and message not in used] == []
    known = {**CHINESE["older"], **CHINESE["recorded"]}
    assert [message for message, chinese in known.items() if not slots(chinese) <= slots(message)] == []
    older = json.loads((ROOT / "reports" / "formats" / "older_messages.json").read_text("utf-8"))
    assert [message for message in older if slots(message) and message not in known] == []


def _scores() -> Any:
    stream = np.random.default_rng(3)
    included = stream.random(200) < 0.5
    return inspect_scores(
        {"loss": np.round(stream.normal(size=200) + included, 1)}, included, Settings(claim_epsilon=1.0, certificates=0)
    )


def _run() -> Any:
    return audit.run(yaml.safe_load(tiny.CONFIG) | {"certificates": 0, "delta": 1e-5})


@pytest.mark.parametrize("make", [_scores, pytest.param(_run, marks=pytest.mark.slow)])
def test_no_english_sentence_is_left_on_chinese_pages_of_a_report_json(make: Callable[[], Any]) -> None:
    report = make()
    read = from_json(to_json(report))
    assert read == report and to_json(read) == to_json(report)
    with speaking("zh"):
        spoken = "\n".join(texts_of(read))
    for name in sorted(names(read), key=len, reverse=True):
        spoken = spoken.replace(name, "")
    assert english(spoken) == []


def test_how_a_table_was_read_is_said_in_chinese(tmp_path: Path) -> None:
    rows = [f"{row},{'abc'[row % 3]},{row % 2}" for row in range(60)]
    (tmp_path / "people.csv").write_text("\n".join(["age,work,income", *rows]))
    spec = {"kind": "table", "root": str(tmp_path), "path": "people.csv", "label": "income", "categorical": ["work"]}
    dataset = load({**spec, "train": 30, "pool": 20}, Seed(0))
    assert len(dataset.unaccounted) == 2
    with speaking("zh"):
        spoken = [recorded(text) for text in (dataset.source, *dataset.unaccounted)]
    assert english("\n".join(spoken).replace("people.csv", "")) == []


def test_messages_of_a_report_are_codes_and_values() -> None:
    plain = json.loads(to_json(sample.run()))
    assert plain["schema"] == "audit-report/2.0"
    entry = {"message": "{taken} taken, {accounted} accounted", "values": {"taken": "120", "accounted": "120"}}
    assert plain["messages"]["120 taken, 120 accounted"] == entry
    for text, row in plain["messages"].items():
        assert row["message"].format(**row["values"]) == text


def test_a_file_of_version_1_1_agrees_with_itself(tmp_path: Path) -> None:
    older = without_messages(to_json(sample.scores()))
    assert b"messages" not in older and without_messages(to_json(from_json(older))) == older
    (tmp_path / "report.json").write_bytes(older)
    assert answer(["verify", str(tmp_path / "report.json")]) == 0


DAMAGED: Mapping[str, Any] = {
    "no table": 3,
    "no entry": {"a b": "a {x}"},
    "another text": {"a b": {"message": "a {x}", "values": {"x": "c"}}},
    "a value that is missing": {"a b": {"message": "a {x}", "values": {}}},
    "a width that would fill the memory": {"a b": {"message": "a {x:>999999999}", "values": {"x": "b"}}},
    "an attribute": {"a b": {"message": "a {x.__class__}", "values": {"x": "b"}}},
    "levels without end": {
        "a" * n: {"message": "a{x}", "values": {"x": "a" * (n - 1)}} for n in range(2, _messages._MOST_LEVELS + 4)
    },
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_messages_that_do_not_give_their_texts_are_refused(damage: str) -> None:
    plain = json.loads(to_json(sample.scores())) | {"messages": DAMAGED[damage]}
    with pytest.raises(DataError, match=r"messages of the report"):
        from_json(json.dumps(plain).encode())


def test_a_report_of_this_version_without_messages_is_refused() -> None:
    plain = json.loads(to_json(sample.scores()))
    del plain["messages"]
    with pytest.raises(DataError, match="messages"):
        from_json(json.dumps(plain).encode())


@dataclass(frozen=True)
class Pirate:
    """A third language: three messages."""

    tag: ClassVar[str] = "en-x-pirate"
    sentences: ClassVar[Mapping[str, str]] = en.SENTENCES
    recorded: ClassVar[Mapping[str, str]] = {
        "{taken} taken, {accounted} accounted": "{accounted} be reckoned, {taken} be taken",
        "{first}; {rest}": "{first}! {rest}",
        "share of a secret written greedily": "share o' the treasure",
    }
    forbidden: ClassVar[tuple[str, ...]] = ()
    fonts: ClassVar[tuple[str, ...]] = ()
    spaceless: ClassVar[str] = ""


def test_a_third_language_is_a_table_of_messages() -> None:
    taken = phrase("{taken} taken, {accounted} accounted", taken=7, accounted=8)
    with speaking(f"{__name__}:Pirate"):
        assert recorded(join_clauses((taken, Extraction().unit.quantity))) == "8 be reckoned, 7 be taken! share o' the treasure"
        assert recorded(phrase("one training {unit}", unit="user")) == "one training user"
    report = sample.run()
    checks = replace(report.mechanisms[1], checks=(replace(report.mechanisms[1].checks[2], value=taken),))
    read = from_json(to_json(replace(report, mechanisms=(checks,))))
    assert isinstance(read.mechanisms[0].checks[0].value, Phrase)
    with speaking(f"{__name__}:Pirate"):
        assert any("8 be reckoned, 7 be taken" in text for text in texts_of(read))
