"""Risks of a synthetic table: a copy is found out, an independent sample is not, and the tests keep their level."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pypdf
import pytest

import audit
import reports
from attacks.tables import neighbours, singling_out
from attacks.tables.columns import read_frames
from audit.cli.app import answer
from audit.core.errors import ConfigError, DataError
from audit.core.table_risks import TableAudit
from audit.data.frames import read_table, with_exact_numbers
from audit.experiment.external.table_risks import TableSettings, table_audit
from audit.stats.bounds import excess_success
from audit.stats.bounds.excess_success import shared_values_tail


def people(count: int, random: np.random.Generator) -> pd.DataFrame:
    age = random.integers(18, 90, count)
    job = np.array(["clerk", "nurse", "smith", "cook"])[random.integers(0, 4, count)]
    pay = np.round(age * 700 + random.normal(0, 9000, count))
    town = np.array([f"t{number}" for number in random.integers(0, 12, count)])
    return pd.DataFrame({"age": age, "job": job, "pay": pay, "town": town})


def risks(synthetic: pd.DataFrame, training: pd.DataFrame, control: pd.DataFrame, **settings: int) -> TableAudit:
    return table_audit(read_frames(synthetic, training, control), TableSettings(**{"attacks": 100, "splits": 499, **settings}))


@pytest.fixture
def tables() -> list[pd.DataFrame]:
    random = np.random.default_rng(3)
    return [people(150, random) for _ in range(3)]


def test_a_copy_is_found_out_by_every_risk_and_an_independent_sample_by_none(tables: list[pd.DataFrame]) -> None:
    training, control, independent = tables
    copy = risks(training.sample(150, replace=True, random_state=1), training, control, splits=4999)
    assert {risk.risk for risk in copy.beyond_chance} == {"singling out", "linkability", "inference"}
    assert all(risk.excess_lower > 0 for risk in copy.beyond_chance if risk.risk == "linkability")
    # one record may meet all predicates: limits that take them for independent trials would be void
    predicates = [risk for risk in copy.risks if risk.risk == "singling out"]
    assert predicates and not any(risk.has_limits for risk in predicates) and "no limits" in str(copy)
    assert copy.closeness.training_copies == 1 and copy.closeness.control_copies == 0
    assert not risks(independent, training, control, splits=4999).beyond_chance


def test_a_generator_that_keeps_one_column_is_singled_out_by_it_alone(tables: list[pd.DataFrame]) -> None:
    training, control, independent = tables
    synthetic = independent.assign(pay=training["pay"].sample(frac=1, random_state=0).to_numpy())
    beyond = risks(synthetic, training, control, splits=4999).beyond_chance
    assert [(risk.risk, risk.attack) for risk in beyond] == [("singling out", "one column")]


@pytest.mark.slow
def test_independent_samples_are_called_beyond_chance_no_more_often_than_promised() -> None:
    alarms, random = 0, np.random.default_rng(11)
    for _ in range(150):
        synthetic, training, control = (people(60, random) for _ in range(3))
        result = risks(synthetic, training, control, splits=1999)
        alarms += bool(result.beyond_chance)
    assert alarms <= 15  # 150 with 5 %: more than 15 with probability 0.005


@pytest.mark.slow
def test_the_test_by_splits_keeps_its_level_where_predicates_share_records() -> None:
    """Counting predicates as independent would not: many of them are met by the same outlier."""
    random, split, fisher = np.random.default_rng(2), 0, 0
    for _ in range(300):
        outliers = random.integers(0, 80, 3)
        predicates = [np.array([outliers[number % 3]]) for number in range(60)]
        hits = sum(int(rows[0]) < 40 for rows in predicates)
        split += excess_success.split_tail(predicates, 40, 99, random) <= 0.05
        fisher += excess_success.fisher_tail((hits, 60 - hits), (60, 60)) <= 0.05
    assert split <= 27 and fisher > 50, (split, fisher)  # 300 with 5 %: more than 27 with probability 0.001


def test_limits_of_the_excess_hold() -> None:
    random, missed = np.random.default_rng(4), 0
    for _ in range(400):
        hits = int(random.binomial(60, 0.5)), int(random.binomial(80, 0.2))
        _, low, high = excess_success.excess_limits(hits, (60, 80), 0.1)
        missed += not low <= 0.375 <= high
    assert missed <= 40


def test_attacks_agree_with_naive_loops(tables: list[pd.DataFrame]) -> None:
    provided = read_frames(tables[2].assign(job=tables[2]["job"].where(tables[2].index > 3)), tables[0], tables[1])
    records = provided.training[:20]

    def distance(first: np.ndarray, second: np.ndarray, places: list[int]) -> float:
        return sum(
            float(first[p] != second[p]) if provided.is_category[p] else abs(first[p] - second[p]) / provided.spans[p]
            for p in places
        )

    def closest(record: np.ndarray, places: list[int]) -> int:
        return int(np.argmin([round(distance(record, row, places), 12) for row in provided.synthetic]))

    links = neighbours.link_hits(provided, ([0, 1], [2, 3]), records, 1)
    assert links.tolist() == [closest(record, [0, 1]) == closest(record, [2, 3]) for record in records]
    guessed = neighbours.inference_hits(provided, [3], records)[3]
    assert guessed.tolist() == [provided.synthetic[closest(record, [0, 1, 2]), 3] == record[3] for record in records]
    for predicate in singling_out.several_columns(provided, 2, 20, np.random.default_rng(0)):
        rows = [all(condition.holds(row[None])[0] for condition in predicate) for row in provided.synthetic]
        assert sum(rows) == 1


def test_guessing_is_known_exactly(tables: list[pd.DataFrame]) -> None:
    provided = read_frames(*tables)
    random = np.random.default_rng(0)
    drawn = random.choice(provided.synthetic[:, 2], (4000, 40))
    right = neighbours.is_right(provided, 2, drawn, provided.training[None, :40, 2]).mean()
    assert neighbours.infer_by_chance(provided, 2, provided.training[:40]) == pytest.approx(right, abs=0.01)
    pairs = [len({*random.choice(30, 2, False)} & {*random.choice(30, 2, False)}) > 0 for _ in range(4000)]
    assert neighbours.link_by_chance(30, 2) == pytest.approx(np.mean(pairs), abs=0.02)


def test_what_does_not_fit_is_named(tables: list[pd.DataFrame]) -> None:
    training, control, synthetic = tables
    with pytest.raises(DataError, match="differ in column 'town'"):
        read_frames(synthetic.drop(columns="town"), training, control)
    with pytest.raises(DataError, match="column 'age' is numbers in one table and not in another"):
        read_frames(synthetic.assign(age="old"), training, control)
    with pytest.raises(DataError, match="control table has 5 records"):
        risks(synthetic, training, control[:5])
    provided = read_frames(synthetic, training, control)
    with pytest.raises(DataError, match="secrets names no column 'name'"):
        table_audit(provided, TableSettings(secrets=("name",)))
    with pytest.raises(DataError, match="column 'age' is on both sides"):
        table_audit(provided, TableSettings(first=("age",), second=("age", "job")))
    with pytest.raises(ConfigError, match="name both, 'first' and 'second', or neither"):
        TableSettings(first=("age",))


@pytest.mark.slow
def test_the_command_prints_and_gates(tables: list[pd.DataFrame], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, frame in zip(("training", "control", "copy"), (*tables[:2], tables[0]), strict=True):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    files = ["--training", str(tmp_path / "training.csv"), "--control", str(tmp_path / "control.csv")]
    command = ["table", str(tmp_path / "copy.csv"), *files, "--attacks", "60", "--secret", "pay"]
    assert answer([*command, "--largest-excess", "0.1"]) == 1
    printed = capsys.readouterr().out
    assert "BEYOND CHANCE" in printed and "which proves nothing" in printed
    assert answer([*command, "--json"]) == 0
    assert [row["attack"] for row in json.loads(capsys.readouterr().out)["risks"]][-1] == "pay"
    assert answer(["table", str(tmp_path / "copy.csv"), *files, "--first", "age,,job", "--second", "pay"]) == 2


@pytest.mark.slow
def test_the_report_says_it_and_reads_back(tables: list[pd.DataFrame]) -> None:
    from reports.formats.json import from_json, to_json
    from reports.pages.document import sections, texts

    report = audit.table_risks(tables[0], tables[0], tables[1], settings=audit.TableSettings(attacks=50))
    message = " ".join(text for section in sections(report) for block in section.blocks for text in texts(block))
    for part in ("Does this synthetic table tell", "beyond", "They prove nothing", "No ε follows"):
        assert part in message, part
    assert from_json(to_json(report)) == report
    assert reports.render(report, ["pdf"])["report.pdf"].startswith(b"%PDF")


def test_whole_numbers_that_float64_cannot_tell_apart_are_refused() -> None:
    frame = pd.DataFrame({"id": 2**62 + np.arange(30), "age": np.arange(30)})
    with pytest.raises(DataError, match=r"column 'id' of the synthetic table holds whole numbers beyond 2\^53"):
        read_frames(frame, frame, frame)
    tables = read_frames(frame, frame, frame, ("id",))
    assert len(np.unique(tables.training[:, 0])) == 30


def test_categories_that_are_numbers_are_the_same_beside_missing_cells() -> None:
    full = pd.DataFrame({"postcode": np.arange(30), "age": np.arange(30)})
    missing = full.assign(postcode=full["postcode"].where(full["age"] > 0))
    tables = read_frames(full, missing, full, ("postcode",))
    assert (tables.synthetic[1:, 0] == tables.training[1:, 0]).all()
    assert tables.synthetic[0, 0] != tables.training[0, 0]


def test_control_records_that_are_training_records_are_refused_and_few_are_told(tables: list[pd.DataFrame]) -> None:
    training, control, independent = tables
    mixed = pd.concat([training.head(40), control.iloc[40:]], ignore_index=True)
    with pytest.raises(DataError, match="40 of 150 control records equal a training record in every column, and 0 of 150"):
        risks(independent, training, mixed)
    two = pd.concat([training.head(2), control.iloc[2:]], ignore_index=True)
    settings = TableSettings(attacks=50, splits=99)
    report = audit.table_risks(independent, training, two, settings=settings)
    assert "2 of 150 control records equal" in report.notes[0]
    with pypdf.PdfReader(io.BytesIO(reports.render(report, ["pdf"])["report.pdf"])) as document:
        printed = " ".join(" ".join(page.extract_text() for page in document.pages).split())
    assert "2 of 150 control records equal a training record" in printed
    assert not re.search(r"Configuration(?!, sha256)", printed)
    assert not audit.table_risks(independent, training, control, settings=settings).notes


def test_records_that_are_alike_by_nature_are_no_overlap() -> None:
    random = np.random.default_rng(1)
    coarse = [pd.DataFrame(random.integers(0, 4, (200, 3)), columns=list("abc")) for _ in range(3)]
    assert risks(*coarse).risks


@pytest.mark.parametrize(("training", "control"), [(20, 1000), (100, 1000), (1000, 1000), (1000, 20)])
def test_an_honest_split_is_no_overlap_however_often_records_repeat(training: int, control: int) -> None:
    random = np.random.default_rng(2)
    size = training + control
    kinds = [random.integers(0, 8, size), np.arange(size) // 2, np.arange(size) // 10, np.minimum(random.zipf(1.5, size), size)]
    for values in kinds:
        splits = [random.permutation(values) for _ in range(40)]
        assert min(shared_values_tail(split[:training], split[training:]) for split in splits) > 1e-4
    copies = np.concatenate([np.arange(training), random.choice(training, min(training, control) // 2, False)])
    tail = shared_values_tail(copies[:training], np.concatenate([copies[training:], np.arange(control // 2) + training]))
    assert tail < 1e-6


@pytest.mark.sampled(2)
@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_large_numbers_beside_missing_cells_are_read_exactly(tmp_path: Path, suffix: str, tables: list[pd.DataFrame]) -> None:
    ids = 2**53 + np.arange(150)
    paths = []
    for name, table in zip(("synthetic", "training", "control"), tables, strict=True):
        frame = table.assign(id=pd.array(ids, dtype="Int64"))
        frame.loc[3, "id"] = pd.NA
        paths.append(tmp_path / f"{name}.{suffix}")
        frame.to_parquet(paths[-1]) if suffix == "parquet" else frame.to_csv(paths[-1], index=False)
    settings = TableSettings(attacks=50, splits=99)
    with pytest.raises(DataError, match="'id' of the synthetic table holds whole numbers beyond 2"):
        audit.table_risks(*paths, settings=settings)
    read = audit.table_risks(*paths, categorical=["id"], settings=settings).table
    assert read is not None and "id" in read.categorical
    rounded = [read_table(path.read_bytes(), path) for path in paths]
    rounded = [frame.assign(id=frame["id"].astype("float64")) for frame in rounded]
    exact = [with_exact_numbers(frame, path.read_bytes(), path) for frame, path in zip(rounded, paths, strict=True)]
    assert rounded[0]["id"].nunique() < 100 and exact[0]["id"].nunique() == 149
    with pytest.raises(DataError, match="read as equal"):
        read_frames(*rounded, ["id"])
