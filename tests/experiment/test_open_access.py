"""A signal, an attack and an access of a third party play a game that this project has never heard of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import yaml

import reports
from attacks.signals.logits import Logits
from audit.config.read import load
from audit.core.access import Access
from audit.core.canaries import Canaries
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.models import Models
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.execution.store import Store
from audit.experiment.line import report as reporting
from audit.experiment.line.assemble import assemble
from audit.experiment.line.run import run
from reports.formats import json as report_json
from tests.reports import sample
from tests.tiny import CONFIG

ENDPOINT = Access(name="endpoint", released=frozenset({"completions"}))
NOT_AN_ACCESS = "endpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Completions:
    """What the endpoint of a third party answers: the log odds of its favourite class, rounded."""

    key = "completions"
    source = "completions"

    def size(self, classes: int, steps: int) -> int:
        return 1

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        if canaries.records is None:
            return None
        outputs = models.outputs(canaries.records.inputs)
        own = np.take_along_axis(outputs, canaries.records.labels[None, :, None], axis=-1)[..., 0]
        return np.round(own - outputs.mean(axis=-1), 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadsCompletions:
    @property
    def needs(self) -> Needs:
        return Needs(signals={Completions()}, references=1)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        assert set(target.signals) == set(reference.signals) == {"completions"}
        return np.asarray(target["completions"] - reference["completions"].mean(axis=0), dtype=np.float64)


def config(tmp_path: Path, **changes: object) -> str:
    full = yaml.safe_load(CONFIG)
    here = "tests.experiment.test_open_access"
    game = {"name": "one", "access": f"{here}:ENDPOINT", "canaries": "mislabelled", "count": 40, "runs": 2, "references": 2}
    game |= {"scorers": [f"{here}:ReadsCompletions"], "estimators": ["one_run"], **changes}
    full |= {"games": [game], "mechanisms": [{"name": "plain", "kind": "non_private"}], "certificates": 0}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(full))
    return str(path)


@pytest.mark.slow
def test_a_game_at_an_access_of_a_third_party_is_played_and_reported(tmp_path: Path) -> None:
    experiment = assemble(load(config(tmp_path)).config)
    results, _ = run(experiment, Store.start(tmp_path / "run", "0" * 64))
    (attack,) = results[0].games[0].attacks
    assert attack.access == ENDPOINT and attack.bounds[0].estimator == "one_run"
    frame = reporting.Frame(
        kind="run",
        title="endpoint",
        created="2026-01-01T00:00:00Z",
        budget=experiment.budget,
        data=reporting.data_summary(experiment.audit_inputs.dataset),
        model="m",
        config="",
        provenance=sample.run().provenance,
    )
    report = reporting.report(results, frame)
    assert report.coverage[0].status == "run" and report.coverage[1].status == "not run"
    again = report_json.from_json(report_json.to_json(report))
    assert again == report and again.mechanisms[0].games[0].game.access.name == "endpoint"
    assert reports.render(again, ["pdf"])["report.pdf"].startswith(b"%PDF")


def test_orders_of_access_are_partial() -> None:
    assert not ENDPOINT.shows(Access.LABEL_ONLY) and not Access.ALL_STEPS.shows(ENDPOINT)
    ladder = [Access.LABEL_ONLY, Access.FINAL_MODEL, Access.FINAL_WEIGHTS, Access.ALL_STEPS]
    for rank, access in enumerate(ladder):
        assert [access.shows(peer) for peer in ladder] == [place <= rank for place in range(4)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scorers": ["loss"]}, "'loss' reads outputs, which the game's access 'endpoint' does not release; final_model does"),
        ({"access": "final_model"}, "reads completions, which the game's access 'final_model' does not release"),
        ({"access": "tests.experiment.test_open_access:NOT_AN_ACCESS"}, "is a str; expected a Access"),
        ({"access": "tests.experiment.test_open_access:NOBODY"}, "cannot load"),
        ({"access": "server"}, "expected one of label_only, final_model, final_weights, all_steps"),
    ],
)
def test_what_an_access_does_not_release_is_not_attacked(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        assemble(load(config(tmp_path, **changes)).config)


def test_a_signal_needs_no_entry_anywhere() -> None:
    assert Needs(signals={Completions()}).of(ENDPOINT.released) == {Completions()}
    assert Needs(signals={Completions()}).of(Access.ALL_STEPS.released) is None
    assert Needs(signals={Logits()}, instead={Completions()}).of(ENDPOINT.released) == {Completions()}
    with pytest.raises(ConfigError, match="needs no signal"):
        Needs(signals=set())
