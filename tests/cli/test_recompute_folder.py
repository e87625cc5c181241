"""`audit verify --recompute` holds a report against the files beside it, and a folder against the kind of its audit."""

from __future__ import annotations

import functools
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from audit.api.training import check_training
from audit.cli import deliver
from audit.cli.app import answer
from audit.cli.report_files import load
from audit.cli.verify import check_numbers
from audit.config import read
from audit.core.errors import DataError
from audit.core.event_forms import encode
from audit.core.events import dp_sgd
from audit.core.results import AuditReport, GateResult
from audit.execution import run_folder
from audit.execution.report_fields import find_foreign
from audit.experiment.external.inspection import Settings, inspect_scores
from audit.experiment.line import again, consistency, folder_again
from reports.formats.json import to_json
from tests.reports.scored import scored_report
from tests.tiny import CONFIG


@functools.lru_cache
def scored() -> AuditReport:
    report, _ = scored_report(seed=2**100 + 9)
    return report


def as_run(report: AuditReport) -> AuditReport:
    return replace(report, kind="run")


def written(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("epsilon at most 0.1")
    return folder


STRANGE = ["summary.rtf", "README", "private/report.html", "old/report.json", "references/a.npz", "report.pdf.", ".hidden"]


def test_a_folder_holds_only_what_audits_of_its_kind_write(tmp_path: Path) -> None:
    usual = ["report.json", "scores.parquet", "SHA256SUMS", "private/record-key", "figures/a.svg"]
    folder, report = written(tmp_path, *usual, *STRANGE), scored()
    assert set(run_folder.find_strange(folder, report, ["report.json", "figures/a.svg"])) == set(STRANGE)
    (folder / "approved by the regulator").mkdir()
    words = run_folder.find_strange(folder, report, ["report.json", "figures/a.svg"])
    assert "an empty folder" in words["approved by the regulator"] and "not part of the run" in words["README"]


def test_what_runs_write_is_strange_beside_scores_and_missed_in_a_run(tmp_path: Path) -> None:
    (result,) = scored().mechanisms
    coins = f"private/coins-{result.name}-{result.games[0].name}.safetensors"
    of_runs = [
        "audit.log",
        "environment.json",
        "config.resolved.yaml",
        "private/seed",
        coins,
        f"models/{'ab' * 16}.safetensors",
    ]
    folder = written(tmp_path, "scores.parquet", *of_runs)
    assert set(run_folder.find_strange(folder, scored(), [])) == set(of_runs)
    run = as_run(scored())
    assert run_folder.find_strange(folder, run, []) == {} and run_folder.find_missing(folder, run) == []
    written(folder, "started.json", "models/summary.safetensors")
    assert set(run_folder.find_strange(folder, run, [])) == {"started.json", "models/summary.safetensors"}
    (folder / "audit.log").unlink()
    (folder / coins).unlink()
    assert {line.partition(":")[0] for line in run_folder.find_missing(folder, run)} == {"audit.log", coins}
    assert run_folder.find_missing(folder, scored()) == []


def first_training(report: Any) -> Any:
    return report["mechanisms"][0]


FOREIGN: dict[str, tuple[Callable[[Any], Any], str, Any]] = {
    "costs": (lambda report: report, "costs", [{"label": "x"}]),
    "engagement": (lambda report: report, "engagement", {"owner": "TUV"}),
    "mechanisms.limit": (first_training, "limit", {"fpr": [0.0, 1.0], "tpr": [0.0, 1.0]}),
    "mechanisms.trajectories": (first_training, "trajectories", [{"epsilon": [0.1]}]),
    "mechanisms.games.groups": (lambda report: first_training(report)["games"][0], "groups", [{"group": "0"}]),
    "data": (lambda report: report, "data", {"name": "everything"}),
}


def test_sections_of_another_kind_are_named() -> None:
    plain = json.loads(to_json(scored()))
    assert find_foreign("scores", plain) == []
    for place, (part, key, value) in FOREIGN.items():
        changed = json.loads(to_json(scored()))
        part(changed)[key] = value
        assert [line.partition(":")[0] for line in find_foreign("scores", changed)] == [place]
        assert place == "mechanisms.games.groups" or find_foreign("model", changed) or place == "data"


def test_a_gate_that_no_command_gave_does_not_go_with_the_rest() -> None:
    gate = GateResult(gate="max_auc", limit=0.99, found=0.5, met=True)
    given = scored().provenance
    for name, command, fits in (
        ("max_auc", "audit scores x.csv --gate auc<=0.99", True),
        ("max_auc", "audit scores x.csv", False),
        ("max_auc", "audit", False),
        ("no leak of names", "audit scores x.csv --config gates.yaml", False),
        ("max_auc", "audit scores x.csv --config gates.yaml", True),
    ):
        report = replace(scored(), policy=(replace(gate, gate=name),), provenance=replace(given, command=command))
        _, problems, unread = consistency.contradictions(report)
        assert ("report: gates: does not go with the rest" in problems) is not fits
        assert unread == ["gates of a file of options"] * ("--config" in command)


def train(records: Any, seed: int) -> Any:
    return records + np.random.default_rng(seed).normal(0, 1, records.shape)


def score(system: Any, canaries: Any) -> Any:
    return -((canaries[:, None] - system) ** 2).sum(axis=2).min(axis=1)


@pytest.fixture
def checked(tmp_path: Path) -> Iterator[tuple[Path, pd.DataFrame]]:
    """Yield the folder of a check of a training, and its scores."""
    stream = np.random.default_rng(2)
    data, canaries = stream.normal(size=(60, 5)), 2 * stream.normal(size=(120, 5))
    report = check_training(train, data, canaries, epsilon=3.0, score=score, seed=2**70)
    (tmp_path / "report.json").write_bytes(to_json(report.report))
    files = deliver.scores({"score": report.untied_scores.ravel()}, report.included.ravel())
    (tmp_path / "scores.parquet").write_bytes(files["scores.parquet"])
    yield tmp_path, pd.read_parquet(tmp_path / "scores.parquet")


def lines(folder: Path) -> list[str]:
    return again.differences(folder, load(folder))[1]


def test_memberships_that_are_not_those_of_the_hash_are_found(checked: tuple[Path, pd.DataFrame]) -> None:
    folder, table = checked
    assert check_numbers(folder).problems == []
    coins = table["member"].to_numpy()
    table.assign(member=np.random.default_rng(1).permutation(coins)).to_parquet(folder / "scores.parquet")
    assert any("coins_sha256" in line for line in lines(folder))


def stated(table: pd.DataFrame) -> pd.DataFrame:
    table.attrs["approved"] = "yes"
    return table


SCORES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "texts": lambda table: table.assign(score=table.score.astype(str)),
    "categories": lambda table: table.assign(attack=table.attack.astype("category")),
    "another order": lambda table: table.iloc[::-1],
    "an index": lambda table: table.set_index(table.score.rename("other")),
    "a column more": lambda table: table.assign(patient="Bob"),
    "facts of its own": lambda table: table.assign().pipe(stated),
    "numbers for memberships": lambda table: table.assign(member=table.member.astype(int)),
}


@pytest.mark.parametrize("kind", SCORES)
def test_scores_in_another_form_are_refused(kind: str, tmp_path: Path) -> None:
    report, table = scored_report()
    table.to_parquet(tmp_path / "scores.parquet")
    assert len(folder_again.read_source(tmp_path, report).tables) == 5
    SCORES[kind](table).to_parquet(tmp_path / "scores.parquet")
    with pytest.raises(DataError, match=r"scores\.parquet"):
        folder_again.read_source(tmp_path, report)


def test_lines_that_no_audit_writes_into_its_config_are_named(tmp_path: Path) -> None:
    report = scored()
    for more in ('certified_by: "TUV"\n', "# signed by TUV\n", "order: {distance: 1}\n"):
        source = folder_again.read_source(tmp_path, replace(report, config=report.config + more))
        assert any(value != follows for _, value, follows in folder_again.read_config(source)[1]), more
    source = folder_again.read_source(tmp_path, report)
    assert all(value == follows for _, value, follows in folder_again.read_config(source)[1])


def test_a_bound_by_an_estimator_of_others_is_named_as_not_computed(tmp_path: Path) -> None:
    stream = np.random.default_rng(3)
    member = stream.random(200) < 0.5
    settings = Settings(certificates=0, estimators=("one_run",), created="2026-01-15T12:34:56Z")
    report = inspect_scores({"a": stream.normal(size=200) + member}, member, settings, name="people.csv")
    text = to_json(report).decode().replace('"estimator":"one_run"', '"estimator":"theirs:Bound"')
    (tmp_path / "report.json").write_text(text)
    table = pd.DataFrame({"attack": "a", "score": stream.normal(size=200), "member": member})
    table.to_parquet(tmp_path / "scores.parquet")
    assert any(
        "by an estimator that is not of this package" in words for words in again.differences(tmp_path, load(tmp_path))[2]
    )


FEDERATED = """
version: 1
name: federation
seed: 20260102
data: {kind: digits, train: 200, pool: 100}
model: {kind: mlp, hidden: [8]}
training: {optimizer: sgd, learning_rate: 1.0, sample_rate: 0.5, steps: 5}
mechanisms:
  - name: central
    kind: federated
    clients: 10
    noise_multiplier: 3.0
    trainer: {kind: federated, concentration: 0.3, local_batch: 10, local_learning_rate: 0.2, local_steps: 2}
games:
  - name: canary-clients
    access: each_update
    adjacency: zero_out
    canaries: signed_cosine
    count: 40
    scorers: [update_product, model_product]
    estimators: [one_run]
certificates: 0
output: {formats: [json]}
"""


@pytest.mark.slow
def test_a_federation_s_noise_and_coins_are_those_of_config_and_seed(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(FEDERATED)
    assert answer(["run", str(tmp_path / "config.yaml"), "--quiet", "-o", str(tmp_path / "run")]) in (0, 3)
    folder = tmp_path / "run"
    assert check_numbers(folder).problems == []
    report, config = load(folder), read.parse(load(folder).config, environment={}).config
    result = next(row for row in report.mechanisms if row.claims)
    source = folder_again.read_source(folder, report)
    accountants = again._accountants(source)
    assert accountants is not None and result.mechanism is not None
    follows = again._event(result, "client", config, accountants, source)
    assert encode(follows) == encode(result.mechanism)
    forged = dp_sgd(noise_multiplier=9.0, clip_norm=1.0, sample_rate=0.5, steps=5, unit="client")
    changed = replace(
        report, mechanisms=tuple(replace(row, mechanism=forged) if row is result else row for row in report.mechanisms)
    )
    _, problems, _ = again.differences(folder, changed)
    assert any(f"{result.name}: mechanism" in line for line in problems)
    games = tuple(replace(game, game=replace(game.game, unit="model")) for game in result.games)
    changed = replace(
        report, mechanisms=tuple(replace(row, games=games) if row is result else row for row in report.mechanisms)
    )
    assert any("rules" in line for line in consistency.contradictions(changed)[1])
    table = pd.read_parquet(folder / "scores.parquet")
    table["member"] = ~table["member"]
    table.to_parquet(folder / "scores.parquet")
    shutil.rmtree(folder / "private")  # the coins that were stored
    assert any("coins of the seed" in line for line in lines(folder))


PAGE = """
class Page:
    def render(self, report):
        return {"summary.txt": report.title.encode()}


PLUGIN = Page
"""


@pytest.mark.slow
def test_a_run_with_few_formats_a_format_of_others_another_zone_and_a_fixed_date_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_page.py").write_text(PAGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1900000000")
    time.tzset()
    (tmp_path / "tiny.yaml").write_text(CONFIG)
    change = ["--set", "output.formats=[junit, 'own_page:Page']", "--set", "seed=5"]
    assert answer(["run", str(tmp_path / "tiny.yaml"), "-q", "-o", str(tmp_path / "run"), *change]) in (0, 1, 3)
    monkeypatch.setenv("TZ", "America/Caracas")
    monkeypatch.delitem(sys.modules, "own_page")
    time.tzset()
    capsys.readouterr()
    assert answer(["verify", str(tmp_path / "run"), "--recompute"]) == 0
    assert "summary.txt, perhaps of the format own_page:Page" in capsys.readouterr().out
    assert "own_page" not in sys.modules, "code that a stranger's folder names was run"
    (tmp_path / "run" / "junit.xml").unlink()
    assert answer(["verify", str(tmp_path / "run")]) == 1 and "junit.xml: missing" in capsys.readouterr().out
    monkeypatch.undo()
    time.tzset()
