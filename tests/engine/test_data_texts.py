"""Readers of texts: every format gives the same records, and what cannot be read is named."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from audit.core.data import Dataset
from audit.core.errors import ConfigError, DataError
from audit.core.seeds import Seed
from audit.data.load import load

TEXTS = [f'text {number}, said "{number * 7}" – naïve' for number in range(30)]


def read(path: Path, **options: Any) -> Dataset:
    spec = {"kind": "text", "root": str(path.parent), "path": path.name, "length": 40, "train": 20, "pool": 5, **options}
    return load(spec, Seed(4))


def written(folder: Path, name: str) -> Path:
    path = folder / name
    table = pyarrow.table({"text": TEXTS, "other": list(range(30))})
    rows = io.StringIO()
    csv.writer(rows).writerows([["other", "text"], *enumerate(TEXTS)])
    contents = {
        ".jsonl": "\n".join(json.dumps({"text": text, "n": 1}) for text in TEXTS).encode(),
        ".txt": "\n".join(TEXTS).encode(),
        ".csv": rows.getvalue().encode(),
    }
    bare = name.removesuffix(".gz").removesuffix(".xz")
    if bare.endswith(".parquet"):
        pyarrow.parquet.write_table(table, path)
    elif bare.endswith(".arrows"):
        path.mkdir()
        place = str(path / "data-00000-of-00001.arrow")
        with pyarrow.OSFile(place, "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
    else:
        content = contents[Path(bare).suffix]
        packed = gzip.compress(content) if name.endswith(".gz") else lzma.compress(content) if name.endswith(".xz") else content
        path.write_bytes(packed)
    return path


@pytest.mark.parametrize("name", ["t.jsonl", "t.txt", "t.csv", "t.parquet", "t.arrows", "t.jsonl.xz", "t.txt.gz"])
def test_every_format_gives_the_same_texts(name: str, tmp_path: Path) -> None:
    dataset, plain = read(written(tmp_path, name)), read(written(tmp_path, "again.txt"))
    np.testing.assert_array_equal(dataset.train.inputs, plain.train.inputs)
    assert dataset.vocabulary is not None and dataset.vocabulary.size == 257
    row, labels = dataset.train.inputs[0].astype(int), dataset.train.labels[0]
    assert bytes(row[(row >= 0) & (row < 256)].tolist()).decode(errors="ignore").startswith("text ")
    assert labels[0] == -1 and (labels[1:] == row[1:]).all() and len(row) == 40


def test_windows_of_one_text(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("abcdefghij" * 50)
    dataset = read(tmp_path / "long.txt", cut="windows", length=10, train=40, pool=5)
    assert (np.sort(dataset.train.inputs, axis=1) == np.frombuffer(b"abcdefghij", np.uint8)).all()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "x y"}\n{"body": "z"}', "line 2: no text under 'text', only body"),
        ("a.jsonl", b'{"text": "x y"}\n{"text"', "line 2: no JSON"),
        ("a.csv", b"one,two\n1,2\n", "no column 'text'; it has: one, two"),
        ("a.txt", b"fine\n\xff\xfe", "not UTF-8 at byte 5"),
        ("a.txt", b"\n\n", "no text"),
        ("a.txt.gz", b"\x1f\x8b\x08\x00broken", "cannot be unpacked"),
        ("a.parquet", b"PAR1broken", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_named(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path / name)


def test_options_out_of_range(tmp_path: Path) -> None:
    path = written(tmp_path, "t.txt")
    for options, message in (
        ({"cut": "tail"}, "head, windows"),
        ({"length": 1}, "data.length is 1"),
        ({"column": None}, "text"),
    ):
        with pytest.raises(ConfigError, match=message):
            read(path, **options)
    with pytest.raises(ConfigError, match=r"ends in '\.zip'"):
        (tmp_path / "t.zip").write_bytes(b"x")
        read(tmp_path / "t.zip")
    with pytest.raises(DataError, match=r"no file .*tokenizer\.json"):
        read(path, tokenizer=str(tmp_path / "tokenizer.json"))


def test_a_tokenizer_file_gives_its_own_tokens(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the extra llm is not installed")
    words = {"[UNK]": 0, "text": 1, "said": 2, ",": 3}
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    library.save(str(tmp_path / "tokenizer.json"))
    dataset = read(written(tmp_path, "t.txt"), tokenizer=str(tmp_path), unused_tokens=6, length=8)
    assert dataset.vocabulary is not None and (dataset.vocabulary.size, dataset.vocabulary.ordinary) == (10, 4)
    assert (dataset.train.inputs[:, 0] == 1).all() and dataset.train.inputs.max() == 3
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match=r"expected a tokenizer\.json"):
        read(tmp_path / "t.txt", tokenizer=str(tmp_path))


REAL = {
    "ag_news/test.csv.gz": {"column": 2},
    "wikitext2/wiki.valid.tokens.gz": {},
    "tiny_shakespeare/input.txt.gz": {"cut": "windows"},
    "imdb_subset/test.jsonl.xz": {},
}


@pytest.mark.parametrize("name", REAL)
@pytest.mark.skipif("AUDIT_DATA" not in os.environ, reason="AUDIT_DATA names no folder of real data")
def test_real_texts(name: str) -> None:
    path = Path(os.environ["AUDIT_DATA"]) / name
    dataset = read(path, train=1000, pool=500, test=100, **REAL[name])  # type: ignore[arg-type]
    assert dataset.train.inputs.shape == (1000, 40) and (dataset.train.inputs >= 0).mean() > 0.8
