"""One of each kind of plug-in in a package of a third party, and an audit that runs with all of them."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit import plugins
from audit.cli.app import answer
from audit.config import parse
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import NonPrivate
from audit.core.lower_bounds import LowerBound
from audit.core.seeds import Seed
from audit.step_checks.findings import all_findings
from audit.step_checks.run import PROBES, check_step
from audit.zoo._reference import DpSgdStep, small_parameters
from audit.zoo._survey import survey
from reports.formats.json import to_json
from tests.reports import sample

PLUGINS = """
import re
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from audit import plugins
from audit.core.canaries import CanaryRecords, Canaries
from audit.core.claims import Claim
from audit.core.data import Records
from audit.core.events import Composed, dp_sgd
from audit.core.lower_bounds import LowerBound
from audit.core.protocols import Needs
from audit.core.results import Check, Status
from audit.step_checks.findings import pass_finding
from audit.zoo._reference import DpSgdStep
from audit.data.source import NO_SCALING, Part, Source, array_sha256
from reports.words.languages import en


@dataclass(frozen=True, kw_only=True)
class Clouds:  # a data reader
    spread: float = 1.0

    def read(self):
        random = np.random.default_rng(3)
        labels = np.arange(300) % 3
        inputs = random.normal(scale=self.spread, size=(300, 4)) + labels[:, None]
        return Source(
            origin="three clouds", sha256=array_sha256(inputs, labels), classes=3,
            main=Part(inputs=inputs, labels=labels.astype(np.int64)), scaling=NO_SCALING,
        )


@dataclass(frozen=True, kw_only=True)
class Narrow:  # an architecture
    width: int = 3

    def build(self, input_shape, outputs):
        return nn.Sequential(nn.Linear(input_shape[0], self.width), nn.Tanh(), nn.Linear(self.width, outputs))


@dataclass(frozen=True, kw_only=True)
class Signs:  # an optimiser, with an option that no other has
    learning_rate: float
    dead_zone: float = 0.0

    def start(self, steps):
        return self

    def step(self, flat, gradient):
        flat.sub_(self.learning_rate * torch.sign(gradient) * (gradient.abs() > self.dead_zone))


@dataclass(frozen=True, kw_only=True)
class LoudThenQuiet:  # a mechanism: two phases of DP-SGD
    trainer: ClassVar[str] = ""
    loud: float
    quiet: float

    def event(self, setting):
        half = setting.steps // 2
        noises = ((self.loud, half), (self.quiet, setting.steps - half))
        return Composed(parts=tuple(
            dp_sgd(noise_multiplier=noise, clip_norm=1.0, sample_rate=setting.sample_rate, steps=steps)
            for noise, steps in noises
        ))


@dataclass(frozen=True, kw_only=True)
class Phases:  # a trainer, which executes it phase by phase
    def fit(self, job, progress):
        from dataclasses import replace

        start, trainer = job.start, plugins.build("audit.trainers", {"kind": "dpsgd"})
        for part in job.mechanism.parts:
            trained = trainer.fit(replace(job, mechanism=part, start=start), progress)
            start = {name: value[0] for name, value in trained.weights.items()}
        executed = replace(trained.executed, steps=job.steps, measured=True)
        return trained.changed(executed=executed)


@dataclass(frozen=True)
class Spread:  # a signal
    key = "spread"
    source = "outputs"

    def size(self, classes, steps):
        return 1

    def read(self, models, canaries):
        return None if canaries.records is None else models.outputs(canaries.records.inputs).std(axis=-1)


@dataclass(frozen=True, kw_only=True)
class Wide:  # a scorer that reads it
    @property
    def needs(self):
        return Needs(signals={Spread()})

    def score(self, target, reference, seed):
        return target["spread"].astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class BatchesSeen:  # a check
    least: int = 1

    def check(self, event, executed):
        status = Status.CHECKED if executed.batch_sizes.shape[1] >= self.least else Status.FAILED
        return (Check(code="batches-seen", item="Batches seen", value=str(executed.batch_sizes.shape[1]), status=status),)


@dataclass(frozen=True, kw_only=True)
class Wideness:  # a class of attack
    attack_class: ClassVar[str] = "Inference from the spread of outputs"
    absent: ClassVar[tuple[str, str]] = ("none", "not run")

    def covers(self, game):
        return any(attack.scorer == "Wide" for attack in game.attacks)


@dataclass(frozen=True, kw_only=True)
class MostModels:  # a policy gate
    limit: float

    def found(self, results):
        return float(max(result.models for result in results))

    def met(self, found):
        return found is not None and found <= self.limit


@dataclass(frozen=True, kw_only=True)
class Stored:  # a subject: a linear model whose weights stand in a text file
    path: str
    batch_size: int = 16

    def logits(self, inputs):
        weights = np.loadtxt(self.path)
        parts = [inputs[start : start + self.batch_size] @ weights for start in range(0, len(inputs), self.batch_size)]
        return np.concatenate(parts)


@dataclass(frozen=True, kw_only=True)
class Shifted:  # canaries
    by: float = 2.0

    def make(self, dataset, count, parameters, seed):
        rows = seed.child("shifted").numpy().choice(len(dataset.pool), size=count, replace=False)
        chosen = dataset.pool.take(rows)
        records = Records(inputs=chosen.inputs + self.by, labels=chosen.labels)
        payload = CanaryRecords(records=records, identifiers=-np.ones(count, dtype=np.int64))
        return Canaries(kind="shifted", description=f"pool records moved by {self.by:g}", payload=payload)


@dataclass(frozen=True, kw_only=True)
class NothingProven:  # an estimator
    assumes: ClassVar[frozenset] = frozenset()

    def lower_bound(self, scores, *, delta, confidence, seed):
        return LowerBound(
            epsilon=0.0, ceiling=0.0, delta=delta, confidence=confidence, estimator="nothing", comparisons=1, assumes=(),
        )


@dataclass(frozen=True, kw_only=True)
class Twice:  # an accountant
    by: str = "renyi"

    def claim(self, mechanism, *, delta, adjacency):
        accountant = plugins.build("audit.accounting.accountants", {"kind": self.by})
        single = accountant.claim(mechanism, delta=delta, adjacency=adjacency)
        return Claim(epsilon=2 * single.epsilon, delta=delta, adjacency=adjacency, source=f"twice {self.by}")


class OneByOne:  # an executor
    def map(self, work, context, jobs, progress):
        for index, job in enumerate(jobs):
            yield index, work(context, job, progress)


class Loud:  # a language
    tag, spaceless, forbidden, fonts = "en-x-loud", "", (), ()
    sentences = {key: re.sub(r"(?<!\\{)\\b[a-z]+\\b(?!\\})", lambda word: word[0].upper(), text)
                 for key, text in en.SENTENCES.items()}
    recorded = {"all {models} models stayed finite": "NOT ONE OF {models} WENT ASTRAY"}


class AlwaysFive(DpSgdStep):  # an entry of the zoo
    wrong = "A record moves the sum by five clip norms."
    visibility = "a test"
    refuted_by = "clip.add"

    def total(self, params, inputs, labels, clip_norm):
        return {name: 5 * value for name, value in super().total(params, inputs, labels, clip_norm).items()}


@dataclass(frozen=True)
class EmptyBatch:  # a probe of a step
    def run(self, step):
        return [pass_finding("empty.norm", "The release of an empty batch has the norm 0", 0.0)]


class Names:  # a report format
    def render(self, report):
        return {"names.txt": "\\n".join(result.name for result in report.mechanisms).encode()}



class Empty:  # and four of the wrong form
    pass


@dataclass(frozen=True, slots=True)
class Returns:  # the same from every method that is asked for
    answer: object = None
    assumes: ClassVar[frozenset] = frozenset()
    attack_class, absent = "mine", ("none", "not run")
    limit: float = 1.0

    def render(self, *call, **options):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    read = event = fit = claim = lower_bound = check = found = met = covers = start = map = make = run = render


class Runs:  # an executor of some jobs
    jobs = ()

    def map(self, work, context, jobs, progress):
        for index in self.jobs:
            yield index, work(context, jobs[index], progress)


class RunsTwice(Runs):
    jobs = (0, 0)


class NoLetters:
    tag, sentences, recorded, forbidden, fonts = "en-x", en.SENTENCES, {}, (), ()


class OtherNames(NoLetters):
    spaceless, sentences = "", {**en.SENTENCES, "units.user": "{people}"}
"""
CONFIG = """
version: 1
name: foreign
seed: 271828182845904523536028747135266249775
data: {kind: "their_audit.parts:Clouds", spread: 0.5, train: 150, pool: 100}
model: {kind: "their_audit.parts:Narrow", width: 4}
training: {optimizer: {kind: "their_audit.parts:Signs", dead_zone: 1e-6}, learning_rate: 0.01, batch_size: 30, steps: 10}
mechanisms:
  - {name: plain, kind: non_private}
  - {name: phased, kind: "their_audit.parts:LoudThenQuiet", loud: 4.0, quiet: 2.0, trainer: "their_audit.parts:Phases"}
games:
  - name: outside
    canaries: {kind: "their_audit.parts:Shifted", by: 1}
    count: 20
    runs: 2
    scorers: ["their_audit.parts:Wide"]
    estimators: [one_run, "their_audit.parts:NothingProven"]
accountants: [renyi, {kind: "their_audit.parts:Twice", by: rdp}]
checks: ["their_audit.parts:BatchesSeen"]
coverage: ["their_audit.parts:Wideness"]
policy: {"their_audit.parts:MostModels": 1}
output: {formats: [json, "their_audit.parts:Names"]}
certificates: 0
execution: {kind: "their_audit.parts:OneByOne", models_per_job: 1}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "their_audit"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "parts.py").write_text(PLUGINS)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "foreign.yaml").write_text(CONFIG)
    return tmp_path


@pytest.mark.slow
def test_an_audit_runs_with_a_plug_in_of_each_kind(package: Path) -> None:
    folder = package / "run"
    assert answer(["run", str(package / "foreign.yaml"), "-o", str(folder), "--quiet"]) == 1  # the gate is not met
    report = json.loads((folder / "report.json").read_text())
    assert report["data"]["source"] == "three clouds"
    assert "their_audit.parts:Narrow (width 4)" in report["model"]
    plain, phased = report["mechanisms"]
    assert plain["mechanism"]["type"] == "NonPrivate" and phased["mechanism"]["type"] == "OtherEvent"
    assert phased["mechanism"]["words"].startswith("DP-SGD (noise 4")
    assert [claim["source"] for claim in phased["claims"]] and phased["claims"][0]["epsilon"] > 0
    assert [attack["scorer"] for attack in plain["games"][0]["attacks"]] == ["Wide"]
    assert ("batches-seen", "checked") in [(check["code"], check["status"]) for check in plain["checks"]]
    rows = {row["attack_class"]: row["status"] for row in report["coverage"]}
    assert rows["Inference from the spread of outputs"] == "run"
    (gate,) = report["policy"]
    assert gate == {"gate": "their_audit.parts:MostModels", "limit": 1.0, "found": 2.0, "met": False}
    assert (folder / "names.txt").read_text() == "plain\nphased"
    assert not (folder / "report.pdf").exists()
    assert [claim["source"] for claim in phased["claims"]][-1] == "twice rdp"
    game = plain["games"][0]
    assert "pool records moved by 1" in json.dumps(plain)
    assert "nothing" in [bound["estimator"] for bound in game["attacks"][0]["bounds"]]
    command = ["report", str(folder), "--lang", "their_audit.parts:Loud", "--format", "html"]
    assert answer([*command, "-o", str(package / "loud")]) == 0
    (page,) = (package / "loud").glob("*.html")
    assert "NOT ONE OF" in page.read_text()


@pytest.mark.slow
def test_a_model_is_read_by_a_subject_of_somebody_else(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(2)
    np.savetxt(package / "model.txt", random.normal(size=(4, 3)))
    for name in ("members", "nonmembers"):
        np.savez(package / f"{name}.npz", x=random.normal(size=(40, 4)), y=np.arange(40) % 3)
    options = ["--target", "model.txt", "--members", "members.npz", "--nonmembers", "nonmembers.npz", "--scorer", "loss"]
    paths = [str(package / option) if option.endswith(("npz", "txt")) else option for option in options]
    command = ["model", *paths, "-o", str(package / "run"), "--kind"]
    assert answer([*command, "their_audit.parts:Stord"]) == 2
    assert "cannot load 'their_audit.parts:Stord'" in capsys.readouterr().err and not (package / "run").exists()
    assert answer([*command, "their_audit.parts:Stored"]) == 0
    report = json.loads((package / "run" / "report.json").read_text())
    assert "(their_audit.parts:Stored, sha256 " in report["model"] and report["data"]["classes"] == 3


@pytest.mark.slow
def test_a_step_is_checked_by_a_probe_of_somebody_else(package: Path) -> None:
    sample = (np.random.default_rng(0).normal(size=(16, 6)).astype(np.float32), np.arange(16) % 3)
    options = {"noise_multiplier": 1.0, "clip_norm": 1.0, "divisor": 16.0}
    report = check_step(DpSgdStep(), small_parameters(), sample, probes=["their_audit.parts:EmptyBatch"], **options)
    assert report.findings[-1].check == "empty.norm" and "their_audit.parts:EmptyBatch" in report.seconds
    with pytest.raises(ConfigError, match="cannot load"):
        check_step(DpSgdStep(), small_parameters(), sample, probes=["their_audit.parts:Emptied"], **options)


@pytest.mark.slow
def test_an_entry_of_somebody_else_is_in_the_zoo(package: Path) -> None:
    (entry,) = survey(["their_audit.parts:AlwaysFive"])
    assert "clip.add" in entry.checks and entry.wrong
    with pytest.raises(ConfigError, match="not a subclass"):
        survey(["their_audit.parts:EmptyBatch"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("data.kind='their_audit.parts:Cloud'", "cannot load 'their_audit.parts:Cloud'"),
        ("data.sprad=1", "unknown key 'sprad'.*Did you mean 'spread'"),
        ("model.kind='their_audit.nowhere:Narrow'", "cannot load"),
        ("training.optimizer='their_audit.parts:Sign'", "cannot load"),
        ("training.optimizer.dead_zon=1", "unknown key 'training.optimizer.dead_zon'.*Did you mean 'dead_zone'"),
        ("training.dead_zon=1", "unknown key 'training.dead_zon'.*Did you mean 'dead_zone'"),
        ("training.dead_zone=1", "dead_zone stands both in optimizer and beside it"),
        ("training.optimizer.dead_zone=much", "dead_zone is 'much'; expected a number"),
        ("mechanisms.phased.luod=1", "unknown key 'mechanisms.1.luod'.*Did you mean 'loud'"),
        ("mechanisms.phased.trainer=null", "has no default trainer"),
        ("output.formats=['their_audit.parts:Name']", "cannot load"),
    ],
)
def test_what_is_wrong_with_a_plug_in_is_said_before_the_training(package: Path, change: str, message: str) -> None:
    from audit.experiment.line.assemble import assemble

    with pytest.raises(ConfigError, match=message):
        assemble(parse(CONFIG, [change]).config)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["report", "REPORT", "--format", "their_audit.parts:Empty"], "has no method 'render'; expected render(report)"),
        (
            ["report", "REPORT", "--format", "their_audit.parts:Returns"],
            "Returns.render returned a NoneType; expected the",
        ),
        (["report", "REPORT", "--lang", "their_audit.parts:NoLetters"], "has no spaceless"),
        (["report", "REPORT", "--lang", "their_audit.parts:OtherNames"], "says 'units.user' with other names in braces"),
    ],
)
def test_a_format_or_language_of_the_wrong_form_is_named(
    package: Path, capsys: pytest.CaptureFixture[str], command: list[str], message: str
) -> None:
    (package / "report.json").write_bytes(to_json(sample.scores()))
    words = [str(package / "report.json") if word == "REPORT" else word for word in command]
    assert answer([*words, "-o", str(package / "out")]) == 2
    assert message in capsys.readouterr().err


def test_canaries_and_probes_of_the_wrong_form_are_named(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from audit.experiment.games.prepared_game import prepare_games
    from audit.experiment.line.assemble import assemble

    bare = "\n".join(line for line in CONFIG.splitlines() if not line.startswith("  - {name: phased"))
    for kind, message in (
        ("Returns", "Returns.make returned a NoneType"),
        ("Empty", "has no method 'make'"),
    ):
        with pytest.raises(ConfigError, match=message):
            experiment = assemble(parse(bare, [f"games.outside.canaries={{kind: 'their_audit.parts:{kind}'}}"]).config)
            prepare_games(experiment.design, experiment.audit_inputs, experiment.budget.delta)
    monkeypatch.setattr(plugins, "names", lambda package: ())  # none of the package's own
    for kind, message in (
        ("Returns", "Returns.run returned a NoneType; expected a list"),
        ("Empty", "method 'run'"),
    ):
        with pytest.raises(ConfigError, match=message):
            all_findings(PROBES, None, [f"their_audit.parts:{kind}"])


TERMS = {"delta": 1e-5, "adjacency": Adjacency.ADD_REMOVE}
QUESTION = {"delta": 1e-5, "confidence": 0.95, "seed": Seed(0)}
CLAIM = Claim(epsilon=1.0, source="mine", **TERMS)
BOUND = LowerBound(epsilon=1.0, ceiling=2.0, delta=1e-5, confidence=0.95, estimator="mine", comparisons=1, assumes=())
JOB = SimpleNamespace(seeds=(Seed(0), Seed(1)))


@pytest.mark.parametrize(
    ("kind", "call", "right", "wrong"),
    [
        ("readers", lambda plugin: plugin.read(), None, ["text"]),
        ("mechanisms", lambda plugin: plugin.event(None), NonPrivate(), [None, "text", math.nan]),
        ("trainers", lambda plugin: plugin.fit(JOB, None), None, [None, [1, 2]]),
        (
            "accountants",
            lambda plugin: plugin.claim(NonPrivate(), **TERMS),
            CLAIM,
            [None, 1.0, replace(CLAIM, epsilon=math.nan), replace(CLAIM, epsilon=-1.0), replace(CLAIM, delta=0.5)],
        ),
        (
            "estimators",
            lambda plugin: plugin.lower_bound(None, **QUESTION),
            BOUND,
            [None, 1.0, replace(BOUND, epsilon=math.nan), replace(BOUND, epsilon=3.0), replace(BOUND, confidence=0.5)],
        ),
        ("checks", lambda plugin: plugin.check(None, None), (), [None, "text", [1]]),
        ("gates", lambda plugin: plugin.found(()), 1.0, ["many", math.nan]),
        ("gates", lambda plugin: plugin.met(1.0), np.bool_(True), [None, 1]),
        ("coverage", lambda plugin: plugin.covers(None), False, [None, [1]]),
        ("optimizers", lambda plugin: plugin.start(10), None, [[1, 2]]),
        ("executors", lambda plugin: plugin.map(None, (), [], None), (pair for pair in ()), [None, [(0, {})]]),
        ("canaries", lambda plugin: plugin.make(None, 3, 0, Seed(0)), None, [[1, 1, 1]]),
        ("formats", lambda plugin: plugin.render(None), {"a.txt": b""}, [{"a.txt": "text"}]),
    ],
)
@pytest.mark.usefixtures("package")
def test_an_answer_of_another_kind_names_the_plug_in(
    kind: str, call: Callable[[Any], Any], right: Any, wrong: list[Any]
) -> None:
    def ask(value: object) -> Any:
        return call(plugins.build(plugins.FOLDERS[kind], {"kind": "their_audit.parts:Returns", "answer": value}))

    if right is not None:
        assert ask(right) is right
    for value in wrong:
        with pytest.raises(ConfigError, match=r"^their_audit.parts:Returns.\w+ returned .*; expected "):
            ask(value)
    with pytest.raises(ConfigError, match=r"^their_audit.parts:Returns.\w+: KeyError: 'theirs' \(.*parts.py, line \d+\)"):
        ask(KeyError("theirs"))
    with pytest.raises(UnsupportedMechanism, match=r"^no such event$"):  # an error of this project's says enough
        ask(UnsupportedMechanism("no such event"))


def test_answers_are_checked_in_other_processes_too(package: Path) -> None:
    plugin = plugins.build(plugins.FOLDERS["trainers"], {"kind": "their_audit.parts:Returns", "answer": "text"})
    again = pickle.loads(pickle.dumps(plugin))
    assert again == plugin and hash(again) == hash(plugin) and repr(again) == "Returns(answer='text', limit=1.0)"
    with pytest.raises(ConfigError, match=r"Returns.fit returned a str"):
        again.fit(JOB, None)


@pytest.mark.parametrize(
    ("executor", "message"),
    [("Runs", "Runs.map returned no result of 2 of 2 jobs"), ("RunsTwice", "RunsTwice.map returned a result of job 0, which")],
)
def test_no_job_is_lost_or_counted_twice_by_an_executor(
    package: Path, capsys: pytest.CaptureFixture[str], executor: str, message: str
) -> None:
    changes = [f"execution.kind='their_audit.parts:{executor}'", "mechanisms=[{name: plain, kind: non_private}]"]
    command = ["run", str(package / "foreign.yaml"), "-o", str(package / "run"), "--quiet"]
    assert answer([*command, *(word for change in changes for word in ("--set", change))]) == 2
    assert message in capsys.readouterr().err


def test_a_signal_and_a_score_of_the_wrong_shape_are_named(package: Path) -> None:
    from attacks.signals._asking import ask_signals

    for value, message in (([0.5], "returned a list"), (np.zeros((1, 3)), r"returned an array \(1, 3\) for 2 models")):
        signal = plugins.foreign("their_audit.parts:Returns")(value)
        with pytest.raises(ConfigError, match=f"their_audit.parts:Returns.read {message}"):
            ask_signals([signal], [1, 2], SimpleNamespace())  # type: ignore[arg-type]


def test_sections_for_third_parties_are_not_written_where_they_are_empty() -> None:
    lines = CONFIG.splitlines()
    bare = "\n".join(
        line for line in lines if not line.startswith(("checks", "coverage", "policy", "output", "  - {name: phased"))
    )
    text = parse(bare).text
    assert "checks" not in text and "coverage" not in text


class _Open:
    def __init_subclass__(cls, *, place: str) -> None:
        super().__init_subclass__()

    def met(self, found: object) -> bool:
        return True


def test_a_class_that_allows_no_subclass_answers_as_it_is() -> None:
    gate = plugins.check_answers(_Open(), plugins.FOLDERS["gates"], "mine:Open")
    assert type(gate) is _Open
    assert gate.met(1.0)
