"""`audit.check`: one call on arrays, tensors, data sets and loaders; its printed and saved results, and skipped attacks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler, TensorDataset, WeightedRandomSampler

import audit
from audit import plugins
from audit.data.model_records import split_side
from audit.experiment.external.inspected import SPLIT_NOTE
from tests.reports import sample


class Pairs(Dataset):
    """Records one by one, as a user's own class gives them."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        return self.x[index], int(self.y[index])


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.random.default_generator.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def side(seed: int, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(count, 4)).astype(np.float32), random.integers(0, 3, count)


SIDES = {
    "arrays": lambda x, y: (x, y),
    "tensors": lambda x, y: (torch.tensor(x, requires_grad=True), torch.tensor(y)),
    "mapping": lambda x, y: {"x": torch.tensor(x), "y": y},
    "dataset": lambda x, y: TensorDataset(torch.tensor(x), torch.tensor(y)),
    "own dataset": Pairs,
    "loader": lambda x, y: DataLoader(TensorDataset(torch.tensor(x), torch.tensor(y)), batch_size=7),
    "shuffling loader": lambda x, y: DataLoader(Pairs(x, y), batch_size=7, shuffle=True, drop_last=True),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", SIDES)
def test_records_come_in_many_forms_and_give_the_same(model: nn.Module, form: str) -> None:
    members, nonmembers = side(1), side(2)
    plain = audit.check(model, members, nonmembers, quiet=True)
    peer = audit.check(model, SIDES[form](*members), SIDES[form](*nonmembers), quiet=True)
    assert peer.to_pandas().equals(plain.to_pandas())
    for attack, scores in plain.inspection.scores.items():
        assert np.array_equal(scores, peer.inspection.scores[attack])


def test_a_few_lines_are_printed(model: nn.Module, capsys: pytest.CaptureFixture[str]) -> None:
    result = audit.check(model, side(1), side(2), claim_epsilon=3.0)
    lines = capsys.readouterr().out.splitlines()
    notes = [note for note in result.report.notes if note != SPLIT_NOTE]
    assert lines == str(result).splitlines() and len(lines) == 8 + len(notes) + len(result.inspection.repeats)
    assert lines[0] == "60 members, 60 nonmembers: not testable: this audit could not have contradicted the claim"
    assert lines[1].startswith("  read as: outputs are logits of 3 classes")
    assert lines[2].startswith("  right answers: members ")
    assert lines[3 : 3 + len(notes)] == [f"  {note}" for note in notes]
    strongest, proof, guard, further, *_ = lines[3 + len(notes) :]
    assert "strongest attack" in strongest and "AUC 0." in strongest
    assert "none follows" in proof and result.bound is None
    assert "inputs alone do not tell" in guard
    assert "reference models" in further


def test_two_sides_that_look_trained_on_are_told_of_before_any_figure() -> None:
    """A random split of the training records after training reads as safe elsewhere."""
    inputs = np.eye(60, dtype=np.float32)
    labels = np.arange(60) % 3
    learned = np.eye(3)[labels] * 9.0  # right on every record
    members, nonmembers = (inputs[:30], labels[:30]), (inputs[30:], labels[30:])
    result = audit.check(lambda batch: batch @ learned, members, nonmembers, quiet=True)
    lines = str(result).splitlines()
    assert lines[1].startswith("  read as: ")
    assert lines[3].startswith("  no figure may follow: ") and "both sides look trained on" in lines[3]
    assert lines[1:4] == str(result.report).splitlines()[1:4]


def test_one_record_on_a_side_states_no_area(model: nn.Module, tmp_path: Path) -> None:
    result = audit.check(model, side(1, 1), side(2, 30), quiet=True)
    assert result.to_pandas().query("status == 'run'").auc.isna().all()
    assert "AUC" not in str(result)
    written = result.save(tmp_path / "check.json").read_text()
    assert set(re.findall(r'"auc(?:_lower|_upper)?":([^,}]+)', written)) == {"null"}


def test_a_report_says_how_outputs_and_y_were_read(model: nn.Module, tmp_path: Path) -> None:
    result = audit.check(model, side(1), side(2), quiet=True)
    page = result.save(tmp_path / "check.html").read_text(encoding="utf-8")
    assert "Outputs are logits of 3 classes, y holds classes. Right answers: members " in page


def test_a_skipped_attack_is_not_run_and_says_why(model: nn.Module) -> None:
    table = audit.check(model, side(1), side(2), quiet=True).to_pandas().set_index("attack")
    assert table.loc["lira", "status"].startswith("not run: needs") and np.isnan(table.loc["lira", "auc"])
    assert table.loc["loss", "status"] == "run" and 0 < table.loc["loss", "auc"] < 1
    assert set(plugins.names("attacks.scorers")) == set(table.index)


def test_coins_give_a_bound(model: nn.Module) -> None:
    x, y = side(3, 200)
    coins = audit.draw_coins(200, seed=9)
    result = audit.check(model, (x[coins], y[coins]), (x[~coins], y[~coins]), coins=coins, quiet=True)
    assert result.bound is not None and "at least 0.00" in str(result)


def test_a_check_is_saved_by_its_suffix(model: nn.Module, tmp_path: Path) -> None:
    result = audit.check(model, side(1), side(2), quiet=True)
    assert result.save(tmp_path / "check.json") == tmp_path / "check.json"
    assert json.loads((tmp_path / "check.json").read_text())["kind"] == "model"
    assert result.save(str(tmp_path / "check.xml")).read_bytes().startswith(b"<?xml")
    assert b"sarif" in audit.save(result.report, tmp_path / "check.sarif").read_bytes()
    with pytest.raises(audit.ConfigError, match=r"ends in \.docx; expected one of .*\.json"):
        result.save(tmp_path / "check.docx")
    with pytest.raises(audit.OutputError, match="cannot write"):
        result.save(tmp_path / "nowhere" / "check.json")


@pytest.mark.slow
def test_figures_are_those_of_matplotlib(model: nn.Module) -> None:
    from matplotlib.figure import Figure

    report = audit.check(model, side(1), side(2), quiet=True).report
    assert any(name.startswith("roc") for name in audit.plots(report))
    assert all(isinstance(audit.plot(report, name), Figure) for name in audit.plots(report))
    assert audit.plot(report).axes
    with pytest.raises(audit.ConfigError, match="no figure 'roc2'; it has: "):
        audit.plot(report, "roc2")


def test_a_report_in_a_notebook_escapes_every_text(model: nn.Module) -> None:
    settings = audit.Settings(title="<script>alert(1)</script>", claim_epsilon=1.0)
    html = audit.inspect(model, side(1), side(2), settings)._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;alert(1)&lt;/script&gt;" in html and "<td>declared</td>" in html


def test_print_shows_a_report_in_a_few_lines_and_repr_in_one() -> None:
    report = sample.run()
    lines = str(report).splitlines()
    assert lines[0].startswith(report.title) and 3 <= len(lines) <= 12 and max(map(len, lines)) < 200
    verdict = report.mechanisms[1].verdicts[0]
    assert any(verdict.claim.source in line and verdict.reason in line for line in lines)
    assert repr(report).startswith(f"<AuditReport {report.id} ") and "\n" not in repr(report) and len(repr(report)) < 200


def test_loaders_without_a_fixed_place_for_a_record_are_refused() -> None:
    x, y = side(1)
    full = TensorDataset(torch.tensor(x), torch.tensor(y))
    rows = [5, 3, 40]
    drawn = split_side(DataLoader(full, sampler=SubsetRandomSampler(rows)), "members")
    assert np.array_equal(drawn["x"], x[sorted(rows)]) and np.array_equal(drawn["y"], y[sorted(rows)])
    for loader in (
        DataLoader(full, sampler=WeightedRandomSampler([1.0] * 60, 60)),
        DataLoader(full, batch_size=None),
    ):
        with pytest.raises(audit.DataError, match="give the Dataset"):
            split_side(loader, "members")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (TensorDataset(torch.zeros(3, 4)), "expected \\(x, y\\)"),
        (TensorDataset(torch.zeros(0, 4), torch.zeros(0)), "empty"),
        ([(np.zeros(4), 0), (np.zeros(5), 1)], "given as list"),
        (Pairs(np.array([np.zeros(4), np.zeros(5)], dtype=object), np.zeros(2)), "records of shapes"),
        (3, "given as int"),
    ],
)
def test_records_that_cannot_be_read_are_named(model: nn.Module, given: object, message: str) -> None:
    with pytest.raises(audit.DataError, match=message):
        audit.check(model, given, side(2), quiet=True)
