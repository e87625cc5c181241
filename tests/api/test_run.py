"""`audit.run`: the report of `audit run` as a function, from a file, a name or a mapping."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

import audit
from audit.cli.app import answer
from audit.execution.run_folder import verify_folder
from reports.formats.json import from_json, to_json
from tests import tiny

CONFIG = tiny.CONFIG.replace("certificates: 20", "certificates: 0")
KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the command leaves."""
    place = tmp_path_factory.mktemp("door")
    (place / "tiny.yaml").write_text(CONFIG)
    (place / "key").write_text(KEY)
    (place / "user").mkdir()
    arguments = ["run", str(place / "tiny.yaml"), "-o", str(place / "run"), "--record-key", str(place / "key"), "--quiet"]
    assert answer([*arguments, "--set", "output.formats=[json, junit]"]) in (0, 1, 3)
    return place


@pytest.mark.slow
def test_a_mapping_gives_the_report_of_the_command_and_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "user")
    config = yaml.safe_load(CONFIG)
    done: list[int] = []
    report = audit.run(
        config,
        record_key=folder / "key",
        overrides={"output.formats": ["json", "junit"], "delta": np.float64(1e-5)},
        progress=done.append,
    )
    assert list((folder / "user").iterdir()) == []
    command = json.loads((folder / "run" / "report.json").read_text())
    own = json.loads(to_json(report))
    for key in ("mechanisms", "outcome", "id", "comparisons", "config"):
        assert own[key] == command[key], key
    assert sum(done) > 0
    assert report.to_pandas("games")["game"].tolist() == ["outside", "outside", "inside"]
    assert set(report.to_pandas()["estimator"]) == {"one_run"}
    assert len(report.to_pandas("attacks")) == 5 and report.to_pandas("verdicts")["claimed"].notna().all()
    with pytest.raises(audit.ConfigError, match="table is 'bonds'"):
        report.to_pandas("bonds")


@pytest.mark.slow
def test_a_folder_is_written_whole_and_goes_on_where_it_stopped(folder: Path) -> None:
    class Stopped(Exception):
        pass

    def stop(steps: int) -> None:
        raise Stopped

    output = folder / "own"
    with pytest.raises(Stopped):
        audit.run(folder / "tiny.yaml", output=output, record_key=folder / "key", progress=stop)
    report = audit.run(folder / "tiny.yaml", output=output, overrides={"output.formats": ["json"]}, resume=True)
    assert verify_folder(output) == []
    assert from_json((output / "report.json").read_bytes()) == report
    assert "all games played" in (output / "audit.log").read_text()
    with pytest.raises(audit.ConfigError, match="exists already"):
        audit.run(folder / "tiny.yaml", output=output)


@pytest.mark.slow
def test_a_wrong_config_or_argument_is_named(folder: Path) -> None:
    with pytest.raises(audit.ConfigError, match=r"no config is called 'quickstrat'.*Did you mean 'quickstart'"):
        audit.run("quickstrat")
    with pytest.raises(audit.ConfigError, match="unknown key 'gmaes'"):
        audit.run({**yaml.safe_load(CONFIG), "gmaes": []})
    with pytest.raises(audit.ConfigError, match="no output is given"):
        audit.run(folder / "tiny.yaml", resume=True)
    with pytest.raises(audit.ConfigError, match="config holds a set"):
        audit.run({**yaml.safe_load(CONFIG), "accountants": {"rdp"}})
    with pytest.raises(audit.ConfigError, match="no --ledger"):
        audit.run(folder / "tiny.yaml", record="dp")
