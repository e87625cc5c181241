"""`audit verify --recompute`: no tampered number agrees with the rest, even if all hashes and pages are written anew."""

from __future__ import annotations

import ast
import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from audit.cli import verify as verification
from audit.core.files import file_sha256
from audit.execution import recompute, run_folder
from audit.experiment.external.inspection import Settings, inspect_scores
from audit.stats.bounds import binomial, ranks
from reports.formats.json import to_json
from tests.reports.scored import scored_folder

SOURCE = Path(recompute.__file__)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scored_folder(tmp_path_factory.mktemp("run") / "run", seed=2**100 + 9)


def test_it_imports_nothing_of_this_package_and_is_short() -> None:
    text = SOURCE.read_text()
    names = [
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert not [
        name for name in names if str(name).split(".")[0] in ("audit", "attacks", "reports", "scipy", "pandas", "torch")
    ]
    assert len(text.splitlines()) <= 500


def test_an_untouched_folder_agrees(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, comparison = recompute.recompute(run)
    assert comparison.problems == [] and comparison.numbers > 200
    assert verification.check_numbers(run).problems == []
    assert recompute.main(str(run)) == 0
    assert f"{comparison.numbers} of {comparison.numbers} numbers recomputed" in capsys.readouterr().out


Report = dict[str, Any]
Change = Callable[[Report], None]


def game_of(report: Report) -> Any:
    return report["mechanisms"][0]["games"][0]


def attack_of(report: Report) -> Any:
    return game_of(report)["attacks"][1]


def bound_of(report: Report) -> Any:
    return attack_of(report)["bounds"][0]


def verdict_of(report: Report) -> Any:
    return report["mechanisms"][0]["verdicts"][0]


def put(place: Callable[[Report], Any], key: Any, value: Any) -> Change:
    def change(report: Report) -> None:
        target = place(report)
        target[key] = value(target[key]) if callable(value) else value

    return change


def full_report(report: Report) -> Report:
    return report


def every_bound(report: Report, key: str, value: float) -> None:
    for attack in game_of(report)["attacks"]:
        for bound in attack["bounds"]:
            bound[key] = value
    verdict_of(report)["bound"][key] = value


CHANGES: dict[str, Change] = {
    "area": put(attack_of, "auc", lambda value: value - 0.01),
    "area to chance": put(attack_of, "auc", 0.51),
    "lower limit of the area": put(attack_of, "auc_lower", lambda value: value - 0.05),
    "upper limit of the area": put(attack_of, "auc_upper", lambda value: value + 0.05),
    "limits exchanged": lambda report: attack_of(report).update(
        auc_lower=attack_of(report)["auc_upper"], auc_upper=attack_of(report)["auc_lower"]
    ),
    "members": put(lambda report: attack_of(report)["roc"], "members", lambda value: value + 1),
    "nonmembers": put(lambda report: attack_of(report)["roc"], "nonmembers", lambda value: value - 1),
    "point of the curve": put(lambda report: attack_of(report)["roc"]["tpr"], 20, lambda value: value + 0.001),
    "point of the curve by one record": put(lambda report: attack_of(report)["roc"]["tpr"], 30, lambda value: value * 0.5),
    "false positives of the curve": put(lambda report: attack_of(report)["roc"]["fpr"], 20, lambda value: value * 1.5),
    "band": put(lambda report: attack_of(report)["roc"]["lower"], 30, 0.999),
    "curve of another attack": lambda report: attack_of(report).update(roc=copy.deepcopy(game_of(report)["attacks"][4]["roc"])),
    "rate": put(lambda report: attack_of(report)["tpr_at"][0], "tpr", lambda value: value * 0.9),
    "true positives": put(lambda report: attack_of(report)["tpr_at"][0], "true_positives", lambda value: value - 3),
    "rate with its count": lambda report: attack_of(report)["tpr_at"][0].update(
        true_positives=7, tpr=7 / attack_of(report)["roc"]["members"], lower=0.0
    ),
    "false positives": put(lambda report: attack_of(report)["tpr_at"][0], "false_positives", lambda value: value + 1),
    "realised rate": put(lambda report: attack_of(report)["tpr_at"][0], "realised_fpr", 0.05),
    "limit of a rate": put(lambda report: attack_of(report)["tpr_at"][0], "upper", 0.01),
    "bin": put(lambda report: attack_of(report)["histogram"]["members"], 9, lambda value: value + 3),
    "bins exchanged": lambda report: attack_of(report)["histogram"].update(
        members=attack_of(report)["histogram"]["nonmembers"], nonmembers=attack_of(report)["histogram"]["members"]
    ),
    "edges": put(lambda report: attack_of(report)["histogram"], "edges", lambda edges: [edge + 1 for edge in edges]),
    "control": put(lambda report: attack_of(report)["control"], "passed", False),
    "alarms": put(lambda report: attack_of(report)["control"], "false_alarms", 19),
    "allowed alarms": put(lambda report: attack_of(report)["control"], "allowed", 20),
    "repetitions": put(lambda report: attack_of(report)["control"], "repetitions", 4000),
    "epsilon": put(bound_of, "epsilon", 2.81),
    "epsilon slightly lower": put(bound_of, "epsilon", lambda value: value - 0.01),
    "epsilon slightly higher": put(bound_of, "epsilon", lambda value: value + 0.01),
    "every epsilon a little lower": lambda report: every_bound(report, "epsilon", bound_of(report)["epsilon"] - 0.01),
    "ceiling slightly higher": put(bound_of, "ceiling", lambda value: value + 0.01),
    "every epsilon": lambda report: every_bound(report, "epsilon", 3.3),
    "negative epsilon": put(bound_of, "epsilon", -0.1),
    "ceiling": put(bound_of, "ceiling", 0.0),
    "ceiling below the claim": lambda report: every_bound(report, "ceiling", 99.0),
    "delta of a bound": put(bound_of, "delta", 1e-2),
    "confidence of a bound": put(bound_of, "confidence", 0.9999),
    "guesses": put(bound_of, "selected", "350 of 350 guesses right"),
    "right guesses": put(bound_of, "selected", lambda text: text.replace(text.split()[0], "1", 1)),
    "comparisons": put(full_report, "comparisons", 1),
    "confidence": put(full_report, "confidence", 0.99),
    "delta": put(full_report, "delta", 1e-9),
    "outcome": put(full_report, "outcome", "violated"),
    "outcome of the training": put(lambda report: report["mechanisms"][0], "outcome", "violated"),
    "verdict": put(verdict_of, "outcome", "violated"),
    "bound of the verdict": put(lambda report: verdict_of(report)["bound"], "epsilon", 0.0),
    "no bound in the verdict": put(verdict_of, "bound", None),
    "claim of the verdict": put(lambda report: verdict_of(report)["claim"], "epsilon", 80.0),
    "claim": put(lambda report: report["mechanisms"][0]["claims"][0], "epsilon", 0.1),
    "both claims": lambda report: (
        verdict_of(report)["claim"].update(epsilon=0.01),
        report["mechanisms"][0]["claims"][0].update(epsilon=0.01),
    ),
    "reason": put(verdict_of, "reason", "no bound lies above the claim; perfect scores would have proved up to 77.12"),
    "verdict left out": put(lambda report: report["mechanisms"][0], "verdicts", []),
    "id": put(full_report, "id", "PA-00000000"),
    "hash of the config": put(lambda report: report["provenance"], "config_sha256", "0" * 64),
    "id and hash": lambda report: (report.update(id="PA-00000000"), report["provenance"].update(config_sha256="0" * 64)),
    "text of the config": put(full_report, "config", lambda text: text + "more: 1\n"),
    "schema": put(full_report, "schema", "audit-report/9"),
    "canaries": put(lambda report: game_of(report)["game"], "canaries", lambda value: value * 2),
    "name of an attack": put(attack_of, "scorer", "lira"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", CHANGES)
def test_a_changed_number_is_found(run: Path, kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    report = json.loads((folder / "report.json").read_text())
    before = json.dumps(report)
    CHANGES[kind](report)
    assert json.dumps(report) != before, "nothing was changed"
    (folder / "report.json").write_text(json.dumps(report))
    assert verification.check_numbers(folder).problems, kind


def scores_changed(name: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    changes: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
        "inverted": lambda table: table.assign(score=-table.score),
        "memberships exchanged": lambda table: table.assign(member=~table.member),
        "memberships of one attack": lambda table: table.assign(member=table.member ^ (table.attack == "a")),
        "an attack left out": lambda table: table[table.attack != "b"],
        "rows left out": lambda table: table.groupby("attack").head(600),
        "rows twice": lambda table: pd.concat([table, table]),
        "no rows": lambda table: table[:0],
        "one membership": lambda table: table.assign(member=np.where(table.index % 700 == 3, ~table.member, table.member)),
        "an attack more": lambda table: pd.concat(
            [table, table[table.attack == "a"].assign(attack="z", score=0.0, member=False)]
        ),
        "scores of another attack": lambda table: table.assign(
            attack=table.attack.map({"a": "e", "e": "a"}).fillna(table.attack)
        ),
    }
    return changes[name]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "kind",
    ["inverted", "memberships exchanged", "memberships of one attack", "an attack left out", "rows left out", "rows twice",
     "no rows", "one membership", "an attack more", "scores of another attack"],
)  # fmt: skip
def test_changed_scores_are_found(run: Path, kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    table = pd.read_parquet(folder / "scores.parquet").reset_index(drop=True)
    scores_changed(kind)(table).to_parquet(folder / "scores.parquet", index=False)
    assert recompute.recompute(folder)[1].problems, kind


@pytest.mark.parametrize("seed", range(8))
def test_rectangles_computed_again_are_those_of_the_estimator(seed: int) -> None:
    stream = np.random.default_rng(seed)
    size, delta = int(stream.integers(4, 900)), (0.0, 1e-5, 0.01)[seed % 3]
    member = (np.arange(size) < 2) | (stream.random(size) < 0.4)
    scores = np.round(stream.normal(size=size) + seed * member, seed % 4)
    epsilon, _, tests = binomial.by_rank_bound(ranks.by_rank(scores, member), delta=delta, significance=0.01, ratio=3.0)
    again = recompute.rectangles(scores, member, delta, 0.01)
    assert again == (pytest.approx(epsilon, abs=1e-9), tests, None)


def test_bounds_of_independent_trials_are_computed_again(tmp_path: Path) -> None:
    stream = np.random.default_rng(1)
    member = stream.random(300) < 0.5
    scores = stream.normal(size=300) + 2.0 * member
    settings = Settings(certificates=0, estimators=("clopper_pearson", "gaussian"), created="2026-01-15T12:34:56Z")
    report = inspect_scores({"a": scores}, member, settings, game="independent_trials", name="people.csv")
    pd.DataFrame({"attack": "a", "score": scores, "member": member}).to_parquet(tmp_path / "scores.parquet")
    text = to_json(report).decode()
    (tmp_path / "report.json").write_text(text)
    assert verification.check_numbers(tmp_path).problems == []
    for row, key in ((0, "epsilon"), (0, "ceiling"), (1, "epsilon_inside"), (1, "parameter")):
        changed = json.loads(text)
        changed["mechanisms"][0]["games"][0]["attacks"][0]["bounds"][row][key] += 0.01
        (tmp_path / "report.json").write_text(json.dumps(changed))
        assert verification.check_numbers(tmp_path).problems, (row, key)


def signed_sums(folder: Path) -> None:
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (run_folder.SUMS, run_folder.SIGNATURE, "record-key")
    ]
    (folder / run_folder.SUMS).write_text(
        "".join(f"{file_sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
    )


@pytest.mark.slow
def test_what_was_not_checked_is_not_passed_over(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    import reports
    from audit.cli.report_files import load

    for name, content in reports.render(load(folder)).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    signed_sums(folder)
    assert verification.verify(folder, again=True) == 0
    printed = capsys.readouterr().out
    assert "unsigned: shows only that the files agree" in printed and "numbers recomputed" in printed
    rendered, strange = "not what report.json renders to", "not part of the run"
    pages = {"report.html": rendered, "report-zh.pdf": rendered, "summary.pdf": strange, "figures/other.png": strange}
    pages |= {"report-external.json": strange, "README": strange, "summary.rtf": strange, "private/summary.xhtml": strange}
    for name, words in pages.items():
        (folder / name).write_bytes((folder / "report.json").read_bytes())
        signed_sums(folder)
        assert verification.verify(folder) == 1
        assert f"{name}: {words}" in capsys.readouterr().out
        (folder / name).unlink()
    signed_sums(folder)
    (folder / run_folder.SIGNATURE).write_text("hello")
    assert verification.verify(folder) == 1
    assert "SHA256SUMS.sig: not checked" in capsys.readouterr().out
    (folder / run_folder.SIGNATURE).unlink()
    with (folder / run_folder.SUMS).open("a") as sums:
        sums.write((folder / run_folder.SUMS).read_text().splitlines()[0] + "\n")
    assert verification.verify(folder) == 1
    assert "twice" in capsys.readouterr().out
    signed_sums(folder)
    shutil.move(folder / "junit.xml", tmp_path / "junit.xml")
    (folder / "junit.xml").symlink_to(tmp_path / "junit.xml")
    assert verification.verify(folder) == 1
    assert "junit.xml: a link" in capsys.readouterr().out
    (folder / "junit.xml").unlink()
    (tmp_path / "elsewhere").mkdir()
    (folder / "pages").symlink_to(tmp_path / "elsewhere")
    assert verification.verify(folder) == 1
    assert "pages: not part of the run" in capsys.readouterr().out
