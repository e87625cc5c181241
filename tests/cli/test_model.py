"""`audit model`: every kind of target from the command line, files written, exit codes."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
import typer
from torch import nn

from audit.cli.app import answer
from audit.cli.model import model
from audit.cli.targets import guess_kind
from audit.core.errors import AuditError, ConfigError
from audit.experiment.external.inspection import draw_coins

pytestmark = pytest.mark.usefixtures("models_in_this_process")
FACTORY = """
from torch import nn

def make(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(5, width), nn.Tanh(), nn.Linear(width, 3))
"""


def audit(*arguments, expect: int = 0) -> int:
    """Runs the command as the command line does."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(model)
    try:
        code = app([str(argument) for argument in arguments], standalone_mode=False)
    except AuditError as error:
        assert error.exit_code == expect, error
        raise
    assert code == expect
    return code


def fit(net: nn.Module, inputs: np.ndarray, labels: np.ndarray) -> None:
    """Trains a network on all of these records at once, far beyond use."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(600):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(torch.from_numpy(inputs)), torch.from_numpy(labels)).backward()
        optimizer.step()


@pytest.fixture(scope="module")
def trained():
    """A network fitted far beyond use on random labels, with the records of both sides and the coins."""
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(160, 5)).astype(np.float32), generator.integers(0, 3, 160)
    coins = draw_coins(160, 8)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        net = nn.Sequential(nn.Linear(5, 96), nn.Tanh(), nn.Linear(96, 3))
    fit(net, x[coins], y[coins])
    return net.eval(), x, y, coins


@pytest.fixture
def folder(tmp_path, trained, monkeypatch):
    """The records as files in the working directory, with a module that holds the factory; reports as JSON alone."""
    _, x, y, coins = trained
    monkeypatch.setattr("audit.cli.model.USUAL_FORMATS", ("json",))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_net", raising=False)
    np.savez("members.npz", x=x[coins], y=y[coins], index=np.flatnonzero(coins))
    np.savez("nonmembers.npz", x=x[~coins], y=y[~coins], index=np.flatnonzero(~coins))
    np.savez("coins.npz", coins=coins)
    (tmp_path / "my_net.py").write_text(FACTORY)
    return tmp_path


SIDES = ("--members", "members.npz", "--nonmembers", "nonmembers.npz", "--json")


def saved(kind, net, x):
    """Writes the network in one form and returns the options that read it."""
    if kind == "torch_export":
        program = torch.export.export(net, (torch.from_numpy(x[:4]),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
        torch.export.save(program, "net.pt2")
        return ("--target", "net.pt2")
    if kind == "torchscript":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.save(torch.jit.trace(net, torch.from_numpy(x[:4])), "net.pt")
        return ("--target", "net.pt")
    options = ("--factory", "my_net:make", "--arguments", '{"width": 96}')
    if kind == "safetensors":
        safetensors.torch.save_file(net.state_dict(), "net.safetensors")
        return ("--target", "net.safetensors", *options)
    torch.save({"weights": {f"_module.{name}": value for name, value in net.state_dict().items()}}, "net.pth")
    return ("--target", "net.pth", *options, "--key", "weights", "--strip-prefix", "_module.")


@pytest.mark.slow
def test_every_format_is_written_for_a_target(tmp_path, folder, trained, monkeypatch):
    from audit.cli import scores

    net, x, _, _ = trained
    monkeypatch.setattr("audit.cli.model.USUAL_FORMATS", scores.USUAL_FORMATS)
    audit(*saved("torch_export", net, x), *SIDES, "-o", "out")
    names = {path.name for path in (folder / "out").iterdir()}
    assert {"report.pdf", "report.json", "junit.xml", "results.sarif", "scores.parquet", "SHA256SUMS", "figures"} <= names
    assert (folder / "out" / "report.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["torch_export", "torchscript", "safetensors", "state_dict"])
def test_every_kind_of_target_gives_the_same_report(folder, trained, capsys, kind):
    net, x, y, coins = trained
    audit(*saved(kind, net, x), *SIDES, "-o", "out")
    printed = json.loads(capsys.readouterr().out)
    loss = next(attack for attack in printed["attacks"] if attack["scorer"] == "loss")
    with torch.no_grad():
        losses = nn.functional.cross_entropy(net(torch.from_numpy(x)), torch.from_numpy(y), reduction="none").numpy()
    pairs = losses[coins][:, None] - losses[~coins][None, :]
    assert loss["auc"][1] == pytest.approx((pairs < 0).mean() + (pairs == 0).mean() / 2, abs=1e-6)
    assert loss["auc"][0] > 0.6
    assert loss["bounds"] == []
    assert printed["exit_code"] == 0
    assert any("no epsilon" in note for note in printed["notes"])


@pytest.mark.slow
def test_coins_and_a_claim_end_in_exit_code_one(folder, trained, capsys):
    net, x, _, _ = trained
    target = saved("torch_export", net, x)
    audit(*target, *SIDES, "--coins", "coins.npz", "--claim-epsilon", "0.1", "-o", "out", expect=1)
    printed = json.loads(capsys.readouterr().out)
    assert printed["outcome"] == "violated"
    bounds = printed["attacks"][0]["bounds"]
    bound = next(bound for bound in bounds if bound["estimator"] == "one_run")
    assert 0.1 < bound["epsilon"] <= bound["ceiling"]
    with pytest.raises(ConfigError, match=r"below 2\*\*64 .*audit.draw_coins\(n\)"):
        audit(*target, *SIDES, "--randomised-seed", "8", "--claim-epsilon", "0.1", "-o", "again", expect=2)
    assert not (folder / "again").exists()


def test_scores_of_every_record_go_beside_the_report_and_can_be_read_back(folder, trained, capsys):
    from audit.cli.scores import ScoreTable, read_scores

    net, x, _, coins = trained
    audit(*saved("torch_export", net, x), *SIDES, "-o", "out")
    report = json.loads((folder / "out" / "report.json").read_text())
    assert "net.pt2 (torch_export, sha256 " in report["model"]
    printed = json.loads(capsys.readouterr().out)
    columns, included = read_scores(ScoreTable(path=folder / "out" / "scores.parquet"), None, ["attack=loss"])
    values = columns["score"]
    assert included.sum() == coins.sum()
    pairs = values[included][:, None] - values[~included][None, :]
    assert (pairs > 0).mean() + (pairs == 0).mean() / 2 == pytest.approx(printed["attacks"][0]["auc"][1])


def test_a_claim_on_a_plain_split_is_not_testable(folder, trained, capsys):
    net, x, _, _ = trained
    audit(*saved("torch_export", net, x), *SIDES, "--claim-epsilon", "2", "-o", "out", expect=3)
    assert json.loads(capsys.readouterr().out)["outcome"] == "out_of_reach"


@pytest.mark.slow
def test_predictions_in_one_table_and_in_two_files(folder, trained, capsys):
    net, x, y, coins = trained
    with torch.no_grad():
        logits = net(torch.from_numpy(x)).numpy()
    frame = pd.DataFrame({**{f"logit_{i}": logits[:, i] for i in range(3)}, "label": y, "member": coins})
    frame.to_csv("predictions.csv", index=False)
    pd.DataFrame({"coin": coins}).to_csv("coins.csv", index=False)
    audit("--target", "predictions.csv", "--coins", "coins.csv", "--json", "-o", "one")
    item = json.loads(capsys.readouterr().out)
    np.savez("pm.npz", logits=logits[coins], labels=y[coins])
    np.savez("pn.npz", logits=logits[~coins], labels=y[~coins])
    audit("--members", "pm.npz", "--nonmembers", "pn.npz", "--json", "-o", "two")
    two = json.loads(capsys.readouterr().out)
    assert item["attacks"][0]["auc"] == two["attacks"][0]["auc"]
    assert item["attacks"][0]["bounds"] and not two["attacks"][0]["bounds"]


def test_the_text_says_what_was_found_and_why_no_epsilon_follows(folder, trained, capsys):
    net, x, _, _ = trained
    audit(*saved("torch_export", net, x), *SIDES[:-1], "--scorer", "loss", "-o", "out")
    text = capsys.readouterr().out
    assert "loss: AUC 0." in text
    assert "TPR" in text
    assert "so no epsilon follows" in text
    assert text.rstrip().endswith("report: out/report.json")  # the fixture writes no other format


@pytest.mark.slow
def test_references_in_one_file_or_a_folder_of_models_serve_the_attacks_that_compare(folder, trained, capsys):
    net, x, y, _ = trained
    (folder / "models").mkdir()
    drawn, outputs = [], []
    for number in range(3):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(number)  # of other models `auto` may take lira, which is then no row of its own
            peer = nn.Sequential(nn.Linear(5, 96), nn.Tanh(), nn.Linear(96, 3))
        drawn.append(np.random.default_rng(number).random(len(x)) < 0.5)
        fit(peer, x[drawn[-1]], y[drawn[-1]])  # models that do not know the records drawn for them are refused
        torch.save(peer.state_dict(), folder / "models" / f"{number}.pth")
        with torch.no_grad():
            outputs.append(peer(torch.from_numpy(x)).numpy())
    included = np.stack(drawn)
    np.savez(folder / "models" / "membership.npz", included=included)
    np.savez("references.npz", included=included, logits=np.stack(outputs))
    torch.save(net.state_dict(), "net.pth")
    target = ("--target", "net.pth", "--factory", "my_net:make", "--arguments", '{"width": 96}', *SIDES)
    result = []
    for number, provided in enumerate(("models", "references.npz")):
        audit(*target, "--references", provided, "-o", f"out{number}")
        printed = json.loads(capsys.readouterr().out)
        result.append({attack["scorer"]: attack["auc"] for attack in printed["attacks"]})
    assert result[0] == result[1] and {"lira", "rmia", "auto"} <= set(result[0])
    with pytest.raises(AuditError, match="lacks included"):
        audit(*target, "--references", "coins.npz", "-o", "out", expect=2)


REFUSED = {
    "no such file": (("--target", "absent.pt2", *SIDES), "no file absent.pt2"),
    "no members": (("--target", "net.pt2"), "give --target, --members and --nonmembers"),
    "no factory": (("--target", "net.safetensors", *SIDES), "--factory"),
    "suffix": (("--target", "net.bin", *SIDES), "add --kind"),
    "kind": (("--target", "net.pt2", "--kind", "tensorflow", *SIDES), "--kind has no 'tensorflow'"),
    "arguments": (("--target", "n.safetensors", "--factory", "a:b", "--arguments", "[1]", *SIDES), "expected a JSON object"),
    "delta": (("--target", "net.pt2", "--delta", "0", *SIDES), "delta is 0.0"),
    "confidence": (("--target", "net.pt2", "--confidence", "1", *SIDES), "confidence is 1.0"),
    "coins": (("--target", "net.pt2", "--coins", "members.npz", *SIDES), "has no 'coins'"),
    "output": (("--target", "net.pt2", "-o", "members.npz", *SIDES), "exists already"),
    "scorer": (("--target", "net.pt2", "--scorer", "lira", *SIDES), "needs 2 reference models"),
    "unknown scorer": (("--target", "net.pt2", "--scorer", "los", *SIDES), "Did you mean 'loss'"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", REFUSED)
def test_bad_usage_ends_in_exit_code_two(folder, trained, name):
    net, x, _, _ = trained
    saved("torch_export", net, x)
    safetensors.torch.save_file(net.state_dict(), "net.safetensors")
    arguments, message = REFUSED[name]
    with pytest.raises(AuditError, match=message):
        audit(*arguments, *(() if name == "output" else ("-o", "out")), expect=2)
    assert not (folder / "out").exists()


def test_a_pickled_model_is_refused_and_not_run(folder, trained):
    import os

    class Hostile:
        def __reduce__(self):
            return os.mkdir, ("ran",)

    torch.save(Hostile(), "net.pt")
    with pytest.raises(AuditError, match=r"net\.pt is refused.*--factory"):
        audit("--target", "net.pt", "--factory", "my_net:make", "--arguments", '{"width": 96}', *SIDES, expect=2)
    with pytest.raises(AuditError, match="--factory"):
        audit("--target", "net.pt", *SIDES, expect=2)
    assert not (folder / "ran").exists()


@pytest.mark.slow
def test_overlap_is_refused_and_can_be_dropped(folder, trained, capsys):
    net, x, y, coins = trained
    target = saved("torch_export", net, x)
    np.savez("members.npz", x=x[coins], y=y[coins])
    np.savez("both.npz", x=np.concatenate([x[~coins], x[coins][:2]]), y=np.concatenate([y[~coins], y[coins][:2]]))
    arguments = (*target, "--members", "members.npz", "--nonmembers", "both.npz", "--json")
    with pytest.raises(AuditError, match="2 nonmembers are equal to members"):
        audit(*arguments, "-o", "out", expect=2)
    audit(*arguments, "--drop-overlap", "-o", "out")
    assert any("2 records were left out" in note for note in json.loads(capsys.readouterr().out)["notes"])


def test_the_kind_is_guessed(tmp_path):
    from pathlib import Path

    torch.save({}, tmp_path / "a.pt")
    assert guess_kind(tmp_path / "a.pt") == "state_dict"
    assert guess_kind(Path("a.pt2")) == "torch_export"
    assert guess_kind(Path("a.parquet")) == "predictions"
    assert guess_kind(Path("a.bin"), ["factory"]) == "state_dict"
    assert guess_kind(None) == "predictions"
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 1)), str(tmp_path / "b.pt"))
    assert guess_kind(tmp_path / "b.pt") == "torchscript"
    (tmp_path / "c.pt").write_bytes(b"PK\x03\x04" + bytes(40) + b"PK\x05\x06" + bytes(3))
    assert guess_kind(tmp_path / "c.pt") == "state_dict"
    with pytest.raises(ConfigError, match=r"'rf\.joblib' does not show its kind.*audit\.check\(model"):
        guess_kind(Path("rf.joblib"))
    with pytest.raises(ConfigError, match=r"'a\.bin' does not show its kind"):
        guess_kind(Path("a.bin"))


def test_an_option_that_the_kind_does_not_take_is_refused(folder, trained):
    net, x, _, _ = trained
    with pytest.raises(AuditError, match="--key means nothing to a target of the kind 'torch_export', which takes batch_size"):
        audit(*saved("torch_export", net, x), "--members", "m.npz", "--nonmembers", "n.npz", "--key", "model", expect=2)


@pytest.mark.slow
def test_options_come_from_a_file_and_the_command_line_goes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(0)
    member = generator.random(200) < 0.5
    np.savez(tmp_path / "seen.npz", losses=generator.normal(size=200) - member, member=member)
    config = tmp_path / "options.yaml"
    config.write_text(f"target: {tmp_path / 'seen.npz'}\ndelta: 1e-6\nscorer: [loss]\n")
    assert answer(["model", "--config", str(config), "--delta", "1e-4", "-o", str(tmp_path / "run")]) == 0
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["delta"] == 1e-4
    assert [attack["scorer"] for attack in report["mechanisms"][0]["games"][0]["attacks"]] == ["loss"]
    config.write_text("dleta: 1e-6\n")
    capsys.readouterr()
    assert answer(["model", "--config", str(config)]) == 2
    assert "Did you mean 'delta'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("confidence: high", "options.yaml:2: confidence is 'high'"),
        ("runs: 0", "options.yaml:2: runs is 0"),
        ("jsn: true", "Did you mean 'json'"),
    ],
)
def test_a_wrong_value_in_a_file_of_options_is_named_with_its_line(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "options.yaml"
    config.write_text(f"json: true\n{line}\n")
    assert answer(["model", "--config", str(config)]) == 2
    assert message in capsys.readouterr().err


def test_a_misspelt_scorer_is_named_before_a_folder_that_exists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["model", "--target", "seen.npz", "--scorer", "lsos", "-o", str(tmp_path)]) == 2
    assert "lsos" in capsys.readouterr().err
