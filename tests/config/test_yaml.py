"""Hostile YAML is exit 2 with file and line, soon: never a traceback, never a hang."""

from __future__ import annotations

import json
import random
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from audit.cli.app import answer
from audit.config import parse
from audit.core.errors import ConfigError
from tests.subjects.watcher import watched
from tests.tiny import CONFIG

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE = {
    "list as key": "? [a, b]\n: 1",
    "mapping as key": "? {a: 1}\n: 1",
    "date as key": "2020-01-01: 1",
    "binary key": "!!binary aGk=: 1",
    "null key": "~: 1",
    "number as key": "1: 2\n1.5: 2\ntrue: 3",
    "no such date": "title: 2020-13-45",
    "long integer": "seed: " + "9" * 5000,
    "long hexadecimal": "seed: 0x" + "f" * 5000,
    "long binary": "seed: 0b" + "1" * 3000,
    "a list of itself": "&a [*a]",
    "a mapping of itself": "&a {b: *a}",
    "open nesting": "[" * 3000,
    "deep nesting": "a: " + "[" * 1000 + "]" * 1000,
    "billion laughs": BOMB,
    "merge key": "version: 1\n<<: {seed: 3}",
    "set": "!!set {a, b}",
    "python object": "!!python/object/apply:os.system [ls]",
    "text tagged as a number": "seed: !!int abc",
    "text tagged as true": "title: !!bool maybe",
    "not a number": "delta: .nan",
    "NUL": "a: \0",
    "half a character": 'title: "\\ud800"',
    "two documents": "a: 1\n---\nb: 2",
    "nothing": "",
    "too large": "title: " + "x" * 2**21,
    "too many values": "title: [" + "1," * 120_000 + "]",
}


@pytest.fixture
def nothing_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test in which no file is written, no process started and no connection made."""
    monkeypatch.chdir(tmp_path)
    with watched(tmp_path / "allowed"):
        yield


@pytest.mark.sampled(1)
@pytest.mark.usefixtures("nothing_written")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_yaml_is_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        parse(HOSTILE[name])


CODE = {
    "a call by tag": "title: !!python/object/apply:os.system ['touch written']",
    "a call by a module's tag": "title: !!python/object/new:subprocess.Popen [[touch, written]]",
    "a module by tag": "title: !!python/module:antigravity",
    "a name by tag": "title: !!python/name:os.system",
    "a factory that is called": "model: {factory: 'os:system', arguments: {command: 'touch written'}}",
    "a factory out of a path": "model: {factory: '../evil:f'}",
    "a reader that is no class": "data: {kind: 'os:mkdir', path: written}",
    "an accountant that is no class": "accountants: ['os:mkdir']",
    "a trainer that is no class": "mechanisms: [{name: dp, kind: dp_sgd, noise_multiplier: 1, trainer: 'os:mkdir'}]",
    "an executor that is no class": "execution: {kind: 'os:mkdir'}",
    "an output elsewhere": "name: ../../written",
    "a name with a line break": 'name: "a\\nverified"',
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CODE)
def test_a_dry_run_of_a_hostile_config_writes_and_starts_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = CODE[name].partition(":")[0]
    retained = [block for block in re.split(r"\n(?=\S)", CONFIG.strip()) if block.partition(":")[0] != key]
    (tmp_path / "hostile.yaml").write_text("\n".join([*retained, CODE[name]]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    with watched(tmp_path / "allowed"):
        code = answer(["run", "hostile.yaml", "--dry-run"])
    message = capsys.readouterr().err
    assert code == (0 if "factory" in name else 2), message  # a dry run calls no factory, so it cannot judge one
    assert "Traceback" not in message and "internal error" not in message, message


def test_refusals_name_the_line() -> None:
    with pytest.raises(ConfigError, match="config, line 2: the merge key '<<'"):
        parse(HOSTILE["merge key"])
    with pytest.raises(ConfigError, match="line 1: half of an escaped pair"):
        parse(HOSTILE["half a character"])
    with pytest.raises(ConfigError, match=r"--set seed: '\*a' cannot be used"):
        parse(CONFIG, ["seed=*a"])


def test_a_title_that_json_wrote_is_read_as_it_was() -> None:
    title = "隐私 \N{CLOSED LOCK WITH KEY}"
    assert parse(f"{CONFIG}\ntitle: {json.dumps(title)}\n").config.title == title


def mutated(text: str, draw: random.Random) -> str:
    """The text with a few characters replaced, dropped, doubled or moved."""
    pieces = [
        "&a",
        "*a",
        "<<",
        "!!",
        "? ",
        "- ",
        ": ",
        "{",
        "}",
        "[",
        "]",
        "'",
        '"',
        "|",
        "\t",
        "\n",
        "%",
        "1e999",
        ".inf",
        "~",
        "é",
        "\0",
    ]
    for _ in range(draw.randint(1, 6)):
        place = draw.randrange(len(text))
        length = draw.choice([0, 1, 1, 5, 40])
        piece = draw.choice([*pieces, text[place : place + 30], ""])
        text = text[:place] + piece + text[place + length :]
    return text


def fuzz(seeds: range) -> None:
    for seed in seeds:
        text = mutated(CONFIG, random.Random(seed))
        start = time.monotonic()
        try:
            parse(text)
        except ConfigError as error:
            assert str(error), seed
        assert time.monotonic() - start < 20, f"seed {seed} took too long"


@pytest.mark.usefixtures("nothing_written")
def test_mutated_configs_are_read_or_refused() -> None:
    fuzz(range(60))


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_written")
def test_many_mutated_configs_are_read_or_refused() -> None:
    fuzz(range(1000, 6000))
