"""Generators of tables: copies, and ranges and categories taken from the data, are refuted; marginals with noise are not."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import audit
from attacks.tables.canaries import KINDS, make_canaries
from attacks.tables.canaries import worst_case as worst_case_of
from audit.cli.app import answer

DRAW = np.random.default_rng(4)
CITIES = ["Oslo", "Rome", "Lima", "Cork", "Bari"]
TABLE = pd.DataFrame(
    {
        "age": DRAW.integers(18, 90, 300),
        "income": np.round(DRAW.lognormal(10, 0.5, 300), 2),
        "city": DRAW.choice(CITIES, 300, p=[0.5, 0.3, 0.15, 0.03, 0.02]),
        "smokes": DRAW.choice(["yes", "no"], 300),
    }
)
DOMAIN = {"age": (0.0, 120.0), "income": (0.0, 200_000.0), "city": CITIES, "smokes": ["yes", "no"]}  # public
CLAIM = 1.0


def noisy_marginals(table: Any, seed: int) -> Any:
    """Columns drawn alone from histograms over a public domain with Laplace noise: epsilon 1 for a record, in four parts."""
    draw, columns = np.random.default_rng(seed), {}
    for name, domain in DOMAIN.items():
        if isinstance(domain, tuple):
            counts, edges = np.histogram(np.clip(table[name], *domain), bins=20, range=domain)
        else:
            counts = np.array([(table[name] == value).sum() for value in domain])
        noisy = np.maximum(counts + draw.laplace(0, 4 / CLAIM, len(counts)), 1e-9)
        chosen = draw.choice(len(counts), 300, p=noisy / noisy.sum())
        columns[name] = (
            draw.uniform(edges[chosen], edges[chosen + 1]) if isinstance(domain, tuple) else np.array(domain)[chosen]
        )
    synthetic = pd.DataFrame(columns)
    return synthetic.assign(age=synthetic["age"].astype(np.int64))


def with_copies(table: Any, seed: int) -> Any:
    """The same with a planted leak: four of five records are released as they are."""
    copies = table.sample(frac=0.8, random_state=seed)
    return pd.concat([noisy_marginals(table, seed), copies], ignore_index=True)


def with_half(table: Any, seed: int) -> Any:
    """The same with a leak that is sure of some members and knows nothing of the rest: half of the records as they are."""
    copies = table.sample(frac=0.5, random_state=seed)
    return pd.concat([noisy_marginals(table, seed), copies], ignore_index=True)


def with_own_range(table: Any, seed: int) -> Any:
    """The same with the bins of the income taken from the data, as several libraries do by default."""
    draw = np.random.default_rng(seed)
    counts, edges = np.histogram(table["income"], bins=20)
    noisy = np.maximum(counts + draw.laplace(0, 4 / CLAIM, 20), 1e-9)
    chosen = draw.choice(20, 300, p=noisy / noisy.sum())
    return noisy_marginals(table, seed).assign(income=draw.uniform(edges[chosen], edges[chosen + 1]))


def with_own_categories(table: Any, seed: int) -> Any:
    """The same with the cities that the table names; many of its synthetic records live in one that one record lives in."""
    draw, counts = np.random.default_rng(seed), table["city"].value_counts()
    noisy = np.maximum(counts + draw.laplace(0, 4 / CLAIM, len(counts)), 1e-9)
    return noisy_marginals(table, seed).assign(city=draw.choice(counts.index, 300, p=noisy / noisy.sum()))


def without_canaries(table: Any, seed: int) -> Any:
    """A system that leaks nothing: the same of the table without canaries."""
    return noisy_marginals(TABLE, seed)


def test_categories_taken_from_the_data_are_refuted_in_one_table_by_canaries_that_have_their_own() -> None:
    options = {"epsilon": CLAIM, "kinds": ("unseen",), "references": 0, "seed": 1}
    report = audit.check_generator(with_own_categories, TABLE, **options)
    assert report.bound is not None and report.bound.epsilon > 2, "only half are named, but these surely"
    assert audit.check_generator(noisy_marginals, TABLE, **options).exit_code == 0


def resample_columns(table: Any, seed: int) -> Any:
    """Each column drawn apart from its own values: no record is released, but numbers that one record alone has are."""
    draw = np.random.default_rng(seed)
    return pd.DataFrame({name: draw.choice(table[name].to_numpy(), 300) for name in table})


def test_columns_resampled_apart_are_refuted_by_numbers_that_only_one_record_has() -> None:
    report = audit.check_generator(resample_columns, TABLE, epsilon=0.5, kinds=("extreme",), seed=1)
    assert report.exit_code == 1, "distances over whole records prove 0, own numbers .88 to 2.21 with four seeds"


def donate(table: Any, seed: int) -> Any:
    """A public age and habit beside the income and city of the record closest in age: values are copied in pairs."""
    draw = np.random.default_rng(seed)
    ages = draw.integers(18, 90, 400)
    donors = np.abs(ages[:, None] - table["age"].to_numpy() + draw.normal(0, 0.001, (400, len(table)))).argmin(axis=1)
    taken = table[["income", "city"]].iloc[donors].reset_index(drop=True)
    return pd.DataFrame(
        {"age": ages, "income": taken["income"], "city": taken["city"], "smokes": draw.choice(["yes", "no"], 400)}
    )


def test_pairs_of_values_that_are_copied_beside_others_are_refuted() -> None:
    report = audit.check_generator(donate, TABLE, epsilon=0.5, seed=0)
    assert report.exit_code == 1, (
        "pairs that no record of the data has are found together; distances of records alone prove 0.75"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("worst_case", "generate"), [("domain", with_own_range), ("domain", with_own_categories), ("mixed", with_copies)]
)
def test_worst_cases_refute_what_one_record_moves(worst_case: str, generate: Any) -> None:
    options = {"epsilon": 0.3, "worst_case": worst_case, "runs": 60, "references": 0, "seed": 1}
    assert audit.check_generator(generate, TABLE, **options).exit_code == 1
    assert audit.check_generator(noisy_marginals, TABLE, **{**options, "epsilon": CLAIM}).exit_code == 0


def test_worst_cases_are_made_of_the_table() -> None:
    draw = np.random.default_rng(0)
    base, canary = worst_case_of(TABLE, "mixed", draw)
    first, second, third = base.to_numpy()
    (row,) = canary.to_numpy()
    assert (first != second).all() and (np.where(row == first, second, first) == third).all()
    assert {tuple(row == first), tuple(third == first)} == {(True, False, True, False), (False, True, False, True)}
    base, canary = worst_case_of(TABLE, "repeated", draw)
    assert len(base) == 2 and (base.iloc[1] == canary.iloc[0]).all() and (base.iloc[0] != canary.iloc[0]).all()
    base, canary = worst_case_of(TABLE, "domain", draw)
    assert base is TABLE and canary["age"][0] > 150 and not canary["city"].isin(CITIES).any()
    with pytest.raises(audit.DataError, match="take 'domain'"):
        worst_case_of(TABLE.assign(smokes="no"), "mixed", draw)
    with pytest.raises(audit.ConfigError, match="bound needs many"):
        audit.check_generator(noisy_marginals, TABLE, epsilon=1.0, worst_case="domain")


@pytest.mark.slow
def test_marginals_with_noise_are_not_refuted_and_copies_are() -> None:
    right = audit.check_generator(noisy_marginals, TABLE, epsilon=CLAIM, canaries=100, references=4, seed=1)
    assert right.exit_code == 0 and right.bound is not None and right.bound.epsilon <= CLAIM < right.bound.ceiling
    leaky = audit.check_generator(with_copies, TABLE, epsilon=CLAIM, canaries=200, references=4, seed=1)
    assert leaky.exit_code == 1
    half = audit.check_generator(with_half, TABLE, epsilon=CLAIM, canaries=200, references=8, seed=1)
    assert half.bound is not None and half.bound.epsilon > 2, "48 sure guesses, all of them right"


@pytest.mark.slow
def test_a_range_taken_from_the_data_is_refuted_by_one_extreme_record_in_many_tables() -> None:
    rich = TABLE.iloc[:1].assign(income=2e5 - 1)  # inside the public domain
    options = {"epsilon": CLAIM, "canaries": rich, "runs": 40, "references": 10, "seed": 2}
    assert audit.check_generator(with_own_range, TABLE, **options).exit_code == 1
    assert audit.check_generator(noisy_marginals, TABLE, **options).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("references", [0, 4])
def test_a_generator_that_leaks_nothing_is_refuted_at_most_as_often_as_stated(references: int) -> None:
    refuted = [
        audit.check_generator(
            without_canaries, TABLE, epsilon=0.0, canaries=40, kinds=KINDS, references=references, seed=seed
        ).exit_code
        == 1
        for seed in range(200)
    ]
    assert sum(refuted) <= 20, "10 of 200 are expected at most; more than 20 in 1 of 1,000"


def test_canaries_are_rare_extreme_or_partly_copied_records_of_the_same_columns() -> None:
    frame = make_canaries(TABLE, 300, np.random.default_rng(0))
    assert (frame.dtypes == TABLE.dtypes).all()
    rare, extreme, copied = (frame.iloc[kind::3] for kind in range(3))
    assert (rare["city"].isin(["Cork", "Bari"])).all()
    outside = (extreme["age"] < TABLE["age"].min()) | (extreme["age"] > TABLE["age"].max())
    assert outside.all() and not ((rare["age"] < 18) | (rare["age"] > 90)).any()
    known = set(TABLE["income"])
    assert 0.5 < copied["income"].isin(known).mean() <= 1
    unseen = make_canaries(TABLE, 30, np.random.default_rng(0), ("unseen",))
    assert unseen["city"].is_unique and not unseen["city"].isin(CITIES).any() and unseen["income"].isin(known).all()


def test_a_command_is_audited_as_a_function_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training, script = tmp_path / "people.csv", tmp_path / "copy.py"
    TABLE.to_csv(training, index=False)
    script.write_text("import shutil, sys\nshutil.copy(sys.argv[1], sys.argv[2])\n", encoding="utf-8")
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))} {{input}} {{output}}"
    options = ["--training", str(training), "--epsilon", "1", "--canaries", "60", "--references", "0", "--seed", "5"]
    options += ["--kind", "rare", "--kind", "unseen"]
    assert answer(["table", "--generator", command, *options]) == 1
    printed = capsys.readouterr().out
    assert "epsilon at least 2" in printed and printed.startswith(command)
    script.write_text("import sys\nsys.exit('no licence')\n", encoding="utf-8")
    assert answer(["table", "--generator", command, *options]) == 2
    assert "no licence" in capsys.readouterr().err
    assert answer(["table", "--generator", "make {input}", *options]) == 2
    assert "{output}" in capsys.readouterr().err
