"""Figures and files of a report in MLflow: what is written is what the report says."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from audit.cli.app import answer
from audit.core.lower_bounds import read_epsilon
from reports import headline, tracking
from tests.reports import sample
from tests.reports.scored import scored_folder


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A local store of MLflow, which newer versions open on demand only."""
    pytest.importorskip("mlflow", reason="MLflow is an extra: pip install -e '.[mlflow]'")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return (tmp_path / "store").as_uri()


@pytest.mark.parametrize("kind", sample.ALL)
def test_metrics_are_the_figures_of_the_report(kind: str) -> None:
    report = sample.ALL[kind]()
    metrics = tracking.metrics(report)
    for mechanism in report.mechanisms:
        bound, verdict = headline.free(mechanism), headline.deciding(mechanism)
        kind = "void" if mechanism.is_void else "proven"
        assert metrics.get(f"{mechanism.name}/epsilon_{kind}") == (None if bound is None else read_epsilon(bound.bound))
        assert f"{mechanism.name}/epsilon_{'proven' if mechanism.is_void else 'void'}" not in metrics
        assert metrics.get(f"{mechanism.name}/epsilon_claimed") == (None if verdict is None else verdict.claim.epsilon)
        assert all(f"{mechanism.name}/{metric.name}" in metrics for metric in mechanism.utility)
        assert f"{mechanism.name}/epsilon_proven" not in metrics or (bound is not None and bound.bound.family is None)
    assert sum(name.startswith("policy/") for name in metrics) == len(report.policy)


@pytest.mark.slow
def test_a_report_is_logged(store: str) -> None:
    mlflow: Any = pytest.importorskip("mlflow")
    report = sample.run()
    name = tracking.log(report, {"report.json": b"{}", "figures/roc.svg": b"<svg/>"}, store)
    again = tracking.log(report, {}, store)
    client = mlflow.MlflowClient(tracking_uri=store)
    run = client.get_run(name)
    figures = {key: value for key, value in tracking.metrics(report).items() if math.isfinite(value)}
    assert list(run.data.metrics.values()) and sorted(run.data.metrics.values()) == sorted(figures.values())
    assert run.data.tags["report"] == report.id and run.info.status == "FINISHED"
    assert {file.path for file in client.list_artifacts(name)} == {"report.json", "figures"}
    assert client.get_run(again).info.experiment_id == run.info.experiment_id


@pytest.mark.slow
def test_a_run_that_breaks_off_has_failed(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow: Any = pytest.importorskip("mlflow")

    def stop(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tracking, "_artifacts", stop)
    with pytest.raises(KeyboardInterrupt):
        tracking.log(sample.run(), {}, store)
    client = mlflow.MlflowClient(tracking_uri=store)
    place = client.get_experiment_by_name(tracking.EXPERIMENT).experiment_id
    assert [run.info.status for run in client.search_runs([place])] == ["FAILED"]


@pytest.mark.slow
def test_the_command_logs_the_edition_that_it_writes(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mlflow: Any = pytest.importorskip("mlflow")
    folder = scored_folder(tmp_path / "run")
    words = ["report", str(folder), "--edition", "external", "--format", "json", "--mlflow", store, "--json"]
    assert answer(words) == 0
    printed = json.loads(capsys.readouterr().out)
    client = mlflow.MlflowClient(tracking_uri=store)
    assert [file.path for file in client.list_artifacts(printed["mlflow_run"])] == ["report-external.json"]


@pytest.mark.slow
def test_a_store_that_cannot_be_written_is_said(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import reports

    (tmp_path / "report.json").write_bytes(reports.render(sample.run(), ("json",))["report.json"])
    (tmp_path / "file").touch()
    words = ["report", str(tmp_path), "-o", str(tmp_path / "again"), "--format", "json"]
    assert answer([*words, "--mlflow", (tmp_path / "file").as_uri()]) == 4
    assert "MLflow at 'file://" in capsys.readouterr().err


def test_without_mlflow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)
    with pytest.raises(tracking.ConfigError, match="pip install mlflow"):
        tracking.log(sample.run(), {}, "file:///nowhere")
