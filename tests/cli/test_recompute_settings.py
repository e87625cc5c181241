"""`audit verify --recompute` holds a report against its config, and the list of exposed records against the scores."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from audit.cli.verify import check_numbers
from audit.execution import recompute
from tests.cli.test_recompute import attack_of, full_report, game_of, put, verdict_of
from tests.reports.scored import scored_folder

SCORED: dict[str, Callable[[Any], Any]] = {
    "reason": put(verdict_of, "reason", "the training is certified to leak nothing"),
    "coverage of an attack": put(lambda report: report["coverage"][0], "done", lambda text: text + ", lira"),
    "class of attack": put(lambda report: report["coverage"][1], "status", "run"),
    "kind": put(full_report, "kind", "run"),
    "access of an attack": put(attack_of, "access", "all_steps"),
    "lower access of an attack": put(attack_of, "access", "label_only"),
    "noise of single steps": put(lambda report: game_of(report)["game"], "independent_noise", True),
    "models": put(lambda report: report["mechanisms"][0], "models", 600),
}


@pytest.mark.slow
def test_further_falsehoods_beside_scores_are_found(tmp_path: Path) -> None:
    folder = scored_folder(tmp_path / "run", seed=2**100 + 9)
    text = (folder / "report.json").read_text()
    for kind, change in SCORED.items():
        report = json.loads(text)
        change(report)
        (folder / "report.json").write_text(json.dumps(report))
        assert check_numbers(folder).problems, kind


def test_records_of_scores_next_to_zero_are_listed_as_they_are() -> None:
    stream = np.random.default_rng(3)
    member = stream.random(80) < 0.5
    scores = -(10.0 ** stream.uniform(-15, -6, 80))  # losses of a net that fits: differences far below 1e-9
    names = tuple(f"{index:04x}" for index in range(80))
    column = recompute.Row(scores=scores, member=member, records=names, labels=None)
    order = pd.Series(scores).sort_values(ascending=False, kind="stable").index[:30]
    rows = [
        {"record": names[i], "rank": k + 1, "member": bool(member[i]), "score": float(scores[i]),
         "fpr": float((scores[~member] >= scores[i]).mean())}
        for k, i in enumerate(order)
    ]  # fmt: skip
    game = recompute.Row(game=recompute.Row(runs=1), attacks=[None])
    for shown, wrong in ((rows, 0), (rows[1:], 1), ([rows[0] | {"rank": 9}, *rows[1:]], 1)):
        at = recompute.Row(value=shown, tables={"a": column}, game=game, column=lambda attack: column)
        assert (recompute.records_fit(at) is not True) == bool(wrong)
