"""Pipes, devices, sizes beyond memory, errors in code that was named: exit 2 with a sentence, soon, and nothing written."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from audit.cli.app import answer
from audit.core import files
from audit.models.build import build, parameter_count
from tests.subjects.watcher import watched
from tests.tiny import CONFIG

HALF = np.arange(40) % 2 == 0


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A config, in a folder in which nothing may be written while the test runs."""
    path = tmp_path / "tiny.yaml"
    path.write_text(CONFIG)
    (tmp_path / "allowed").mkdir()
    yield path


def refused(words: list[str], capsys: pytest.CaptureFixture[str], within: Path) -> str:
    """The message of a command that ends with exit 2, without a traceback and without writing anything."""
    with watched(within):
        code = answer(words)
    message = capsys.readouterr().err
    assert code == 2, message
    assert "Traceback" not in message and "internal error" not in message
    return message


def test_a_time_that_is_none_is_named_before_a_library_reads_it(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "abc")
    assert "SOURCE_DATE_EPOCH is 'abc'" in refused(["doctor"], capsys, tiny.parent)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet"])
@pytest.mark.parametrize("kind", ["fifo", "zero"])
def test_tables_models_and_data_that_never_end(tiny: Path, capsys: pytest.CaptureFixture[str], suffix: str, kind: str) -> None:
    allowed = tiny.parent / "allowed"
    model = {"npz": "pt2", "csv": "ts", "parquet": "safetensors"}[suffix]
    for name in (f"a.{suffix}", f"a.{model}"):
        os.mkfifo(tiny.parent / name) if kind == "fifo" else (tiny.parent / name).symlink_to("/dev/zero")
    table, target = str(tiny.parent / f"a.{suffix}"), str(tiny.parent / f"a.{model}")
    sides = []
    for name, value in (("members", 0.0), ("nonmembers", 1.0)):
        np.savez(tiny.parent / f"{name}.npz", x=np.full((10, 4), value, dtype=np.float32), y=np.arange(10) % 2)
        sides += [f"--{name}", str(tiny.parent / f"{name}.npz")]
    factory = ["--factory", "torch.nn:Linear", "--arguments", '{"in_features": 4, "out_features": 2}']
    commands = [
        ["scores", table],
        ["model", "--target", target, *sides, *(factory if model == "safetensors" else [])],
        ["model", "--target", table],
        ["run", str(tiny), "-o", str(allowed / "run"), "--record-key", table],
        ["report", table],
    ]
    if suffix == "npz":
        commands.append(
            ["run", str(tiny), "--dry-run", "--set", f"data={{kind: npz, path: '{table}', train: 5, pool: 5, test: 5}}"]
        )
    for words in commands:
        assert "a pipe or a device, which may never end" in refused(words, capsys, allowed), words


SIZES = {
    "one layer": ("model.hidden=[1000000000]", "one model while it trains would take"),
    "a layer that torch cannot count": (
        "model.hidden=[9223372036854775807]",
        "model.mlp has more weights than torch can count",
    ),
    "a layer beyond 64 bits": (f"model.hidden=[{10**30}]", "model.mlp has more weights than torch can count"),
    "two layers": ("model.hidden=[400000, 400000]", "one model while it trains would take"),
    "runs": ("games.outside.runs=100000000", "trains 100,000,004 models"),
    "references": ("games.outside.references=99000000", "the coins of all models would take"),
    "records": ("games.outside.count=9000000000", "from a pool of 200 records of digits; expected 1 to 200"),
    "gradients": ("games.inside.count=1000000000000", "would take"),
    "steps": ("training.steps=1000000000000", "for 1,000,000,000,000 steps each"),
    "steps of one job": ("training.steps=1000000000", "what is kept of the models of one job would take"),
    "certificates": ("certificates=1000000000", "less than or equal to 10000"),
    "train": ("data.train=1000000000", "ask for fewer"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SIZES)
def test_sizes_beyond_memory_are_refused_before_anything_is_made(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(files, "machine", lambda: 4 * 2**30)
    change, message = SIZES[name]
    assert message in refused(["run", str(tiny), "--dry-run", "--set", change], capsys, tiny.parent / "allowed")


def test_an_allocation_that_fails_is_no_internal_error(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object, **options: object) -> None:
        raise MemoryError("Unable to allocate 7. TiB")

    monkeypatch.setattr("audit.data.load.load", fails)
    message = refused(["run", str(tiny), "--dry-run"], capsys, tiny.parent / "allowed")
    assert "not enough memory: Unable to allocate 7. TiB" in message


@pytest.mark.parametrize(
    "spec", [{"kind": "mlp", "hidden": [7, 5]}, {"kind": "cnn"}, {"kind": "wide_resnet"}, {"kind": "vit"}, {"kind": "logistic"}]
)
def test_parameters_are_counted_without_memory_for_them(spec: dict[str, object]) -> None:
    shape = (3, 16, 16)
    assert parameter_count(spec, shape, 10) == sum(item.numel() for item in build(spec, shape, 10).parameters())


FOREIGN = {
    "an import inside of the method": ("def claim(self, mechanism, *, delta, adjacency):\n        import no_such_module", 4),
    "an import at its top": ("import no_such_module", 2),
    "an error while it is imported": ("raise RuntimeError('it is broken')", 2),
    "no Python": ("def def", 2),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FOREIGN)
def test_an_error_in_code_that_a_config_names_is_told_to_its_owner(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    text, line = FOREIGN[name]
    module = f"owned_{abs(hash(name))}"
    (tiny.parent / f"{module}.py").write_text(f"class Own:\n    {text}\n" if line == 4 else f"\n{text}\n")
    monkeypatch.syspath_prepend(str(tiny.parent))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    line -= line == 4  # the class has no blank line before it
    for words in (["run", str(tiny), "--dry-run", "--set", f"accountants=['{module}:Own']"],):
        assert answer(words) == 2
        message = capsys.readouterr().err
        assert f"{module}.py, line {line}" in message
        assert "please report" not in message


@pytest.mark.parametrize("value", [1e308, np.finfo(np.float64).max])
def test_scores_whose_width_is_no_number(tiny: Path, capsys: pytest.CaptureFixture[str], value: float) -> None:
    np.savez(tiny.parent / "huge.npz", score=np.where(HALF, value, -value), member=HALF)
    message = refused(["scores", str(tiny.parent / "huge.npz")], capsys, tiny.parent / "allowed")
    assert "only their order counts: give ranks or logarithms" in message


@pytest.mark.slow
def test_tables_of_a_million_columns(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = tiny.parent / "wide.csv"
    wide.write_text(",".join(f"c{number}" for number in range(1_000_000)) + "\n" + "1," * 999_999 + "1\n")
    assert "1,000,000 columns; expected at most 20,000" in refused(["scores", str(wide)], capsys, tiny.parent / "allowed")
    narrower = tiny.parent / "narrower.csv"
    narrower.write_text(",".join(f"c{number}" for number in range(3000)) + "\n" + "1," * 2999 + "1\n")
    assert "and 2,980 more" in refused(["scores", str(narrower)], capsys, tiny.parent / "allowed")


WIDE = b",".join(b"c%d" % number for number in range(30_000)) + b"\n" + b"1," * 29_999 + b"1\n"
HEADERS = {
    "wide after blank lines": (b"\n \n" + WIDE, "30,000 columns; expected at most 20,000"),
    "wide after a line break in quotes": (b'"a\nb",' + WIDE, "30,001 columns; expected at most 20,000"),
    "twice after blank lines": (b"\n\nscore,score,member\n1,2,1\n3,4,0\n", "more than one column 'score'"),
    "twice with a byte order mark": (b"\xef\xbb\xbfscore,score,member\n1,2,1\n3,4,0\n", "more than one column 'score'"),
    "twice in lines of a Macintosh": (b"score,score,member\r1,2,1\r3,4,0\r", "more than one column 'score'"),
    "twice in quotes": (b'"score",score,member\n1,2,1\n3,4,0\n', "more than one column 'score'"),
    "a cell without an end": (b"s" * 200_000 + b",member\n1,1\n3,0\n", "cannot be read as a table: field larger"),
    "a quote without an end": (b'"score,member\n1,1\n3,0\n', "cannot be read as a table"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_hide_what_they_are(tiny: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    content, message = HEADERS[name]
    (tiny.parent / "a.csv").write_bytes(content)
    assert message in refused(["scores", str(tiny.parent / "a.csv")], capsys, tiny.parent / "allowed")


def test_a_table_with_a_column_without_a_name_is_read(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{number},{number},{number % 2}\n" for number in range(40))
    (tiny.parent / "a.csv").write_text(f"\ufeff\n,score, member\n{rows}")
    assert answer(["scores", str(tiny.parent / "a.csv"), "--certificates", "0"]) == 0
    capsys.readouterr()


LONG = "x" * 5000
LONG_NAMES = (
    ["run", LONG],
    ["plan", LONG],
    ["scores", LONG],
    ["model", "--target", LONG],
    ["report", LONG],
    ["verify", LONG],
    ["diff", LONG, LONG],
    ["init", LONG],
    ["ledger", "show", LONG],
    ["ledger", "import", LONG, LONG],
    ["lookup", LONG, "r"],
    ["run", "quickstart", "--record-key", LONG],
    ["accountant", "check", "--accountant", "rdp", "--baseline", LONG],
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("words", LONG_NAMES, ids=lambda words: " ".join(words[:2])[:20])
def test_names_longer_than_a_file_may_have(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with watched(tmp_path / "allowed"):
        code = answer(words)
    message = capsys.readouterr().err
    assert code in (2, 4) and "Traceback" not in message and "internal error" not in message, message


@pytest.mark.slow
def test_bombs_are_refused_by_what_they_say_that_they_hold(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "machine", lambda: 2**22)
    folder = tiny.parent
    np.savez_compressed(folder / "bomb.npz", score=np.zeros(2**20), member=np.zeros(2**20, dtype=bool))
    (folder / "bomb.csv").write_bytes(gzip.compress(b"score,member\n" + b"1,1\n" * 2**20))
    pd.DataFrame({"score": np.zeros(2**20), "member": np.zeros(2**20, dtype=bool)}).to_parquet(folder / "bomb.parquet")
    for name in ("bomb.npz", "bomb.csv", "bomb.parquet"):
        assert "memory" in refused(["scores", str(folder / name)], capsys, folder / "allowed"), name


@pytest.mark.slow
def test_a_thousand_games_are_planned_soon(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    item = (
        "{{name: g{0}, canaries: mislabelled, count: 20, runs: 2, scorers: [loss], estimators: [one_run], mechanisms: [plain]}}"
    )
    games = ", ".join(item.format(number) for number in range(1000))
    changes = ["mechanisms=[{name: plain, kind: non_private}]", f"games=[{games}]"]
    assert answer(["run", str(tiny), "--dry-run", "--json", *[word for change in changes for word in ("--set", change)]]) == 0
    capsys.readouterr()


HONEST = {"--noise": "1", "--rate": "0.01", "--steps": "10", "--delta": "1e-5"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    ["1e308", "1e-308", *(pytest.param(value, marks=pytest.mark.slow) for value in ("nan", "inf", "-1", "1e400", "x", ""))],
)
def test_numbers_that_no_mechanism_has(value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in HONEST:
        words = [word for pair in {**HONEST, option: value}.items() for word in pair]
        with watched(tmp_path):
            code = answer(["accountant", "epsilon", "--accountant", "rdp", *words])
        message = capsys.readouterr().err
        assert "Traceback" not in message and "internal error" not in message, f"{option} {value}: {message}"
        assert code == 2 or (value == "1e-308" and option in ("--rate", "--delta")), f"{option} {value}: {message}"


@pytest.mark.parametrize(
    "text", [f"seed: 0o{'7' * 300_000}", f"name: !{'x' * 300_000} y", f"name: 2026-01-01T00:00:00.{'9' * 300_000}Z"]
)
def test_a_message_quotes_little_of_a_long_value(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "long.yaml"
    key = text.partition(":")[0]
    path.write_text("\n".join(text if line.startswith(f"{key}:") else line for line in CONFIG.splitlines()))
    assert answer(["run", str(path), "--dry-run"]) == 2
    message = capsys.readouterr().err
    assert "long.yaml" in message and len(message) < 10_000
