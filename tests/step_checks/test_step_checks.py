"""Step checks against the zoo: each wrong step fails by the check that names its defect, a correct one by none."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audit import plugins
from audit.cli.app import answer
from audit.core.errors import ConfigError, DataError, OutputError
from audit.step_checks.findings import PropertyStatus, StepReport, finding, gap
from audit.step_checks.probes.additivity import Additivity
from audit.step_checks.probes.noise import NoiseLaw
from audit.step_checks.probes.sensitivity import Sensitivity
from audit.step_checks.run import check_step
from audit.step_checks.step_under_test import StepUnderTest
from audit.step_checks.steps import FunctionStep, Setting
from audit.zoo._reference import DpSgdStep, small_parameters
from tests.step_checks import correct_setups

ZOO = "audit.zoo.steps"
EXPECTED = {name: entry.refuted_by for name in plugins.names(ZOO) if (entry := plugins.find(ZOO, name)).refuted_by}
QUICK = ("clip_norm_squared", "realised_normaliser")


def sample(seed: int = 0, count: int = 16) -> tuple[Any, Any]:
    stream = np.random.default_rng(seed)
    return stream.normal(size=(count, 6)).astype(np.float32), stream.integers(3, size=count)


def checked(step: Any, seed: int = 0, **claim: float) -> StepReport:
    setting = {"noise_multiplier": 1.0, "clip_norm": 1.0, "divisor": 16.0} | claim
    return check_step(step, small_parameters(seed=seed), sample(seed), seed=seed, **setting)


def codes(report: StepReport) -> set[str]:
    return {finding.check for finding in (*report.failures, *report.weaknesses)}


def test_each_wrong_step_says_which_check_refutes_it() -> None:
    assert set(EXPECTED) == {name for name in plugins.names(ZOO) if plugins.find(ZOO, name).wrong}
    assert len(EXPECTED) == 38 and {check.split(".")[0] for check in EXPECTED.values()} == {"clip", "noise", "sum"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(plugins.names(ZOO)) - set(EXPECTED)))
def test_a_correct_twin_fails_by_none(name: str) -> None:
    report = checked(plugins.find(ZOO, name)(), noise_multiplier=2.0, clip_norm=2.0)
    assert report.failures == () and report.open == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_wrong_step_fails_by_its_check(name: str) -> None:
    assert EXPECTED[name] in codes(checked(plugins.find(ZOO, name)()))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(EXPECTED) - set(QUICK)))
def test_every_wrong_step_fails_by_its_check(name: str) -> None:
    assert EXPECTED[name] in codes(checked(plugins.find(ZOO, name)()))


@pytest.mark.slow
def test_a_correct_step_has_no_failure_and_nothing_open() -> None:
    report = checked(DpSgdStep())
    assert report.failures == () and report.open == ()


@dataclass(frozen=True, eq=False)
class PaddedStep(DpSgdStep):
    """Two of six columns of a tensor are frozen if `frozen`, and have no noise."""

    frozen: bool = True

    def total(self, params: Any, inputs: Any, labels: Any, clip_norm: float) -> Any:
        total = super().total(params, inputs, labels, clip_norm)
        if self.frozen:
            total["hidden.weight"][:, :2] = 0.0
        return total

    def noise(self, params: Any, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator) -> Any:
        noise = super().noise(params, count, noise_multiplier, clip_norm, generator)
        noise["hidden.weight"][:, :2] = 0.0
        return noise


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [True, False])
def test_constants_need_no_noise_and_what_records_move_does(frozen: bool) -> None:
    step = FunctionStep(function=PaddedStep(frozen=frozen), params=small_parameters())
    bench = StepUnderTest(step=step, sample=sample(), claimed=Setting(noise_multiplier=1.0, clip_norm=1.0, divisor=16.0))
    failures = {finding.check for finding in NoiseLaw().run(bench) if finding.status is PropertyStatus.FAILED}
    assert failures == set() if frozen else failures & {"noise.variance", "noise.missing"}


@dataclass(frozen=True, eq=False)
class NoiseBySize(DpSgdStep):
    """Batches of 29 records have less noise in a tensor if `share` is below 1, or noise of one draw if it is 0."""

    share: float = 1.0

    def noise(self, params: Any, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator) -> Any:
        noise = super().noise(params, count, noise_multiplier, clip_norm, generator)
        if count == 29:
            bias = noise["head.bias"]
            noise["head.bias"] = bias * self.share if self.share else bias[:1].repeat(len(bias))
        return noise


@pytest.mark.parametrize("share", [1.0, 0.5, 0.0])
def test_noise_that_a_replay_follows_is_sampled_only_if_it_is_not_as_claimed(share: float) -> None:
    step = FunctionStep(function=NoiseBySize(share=share), params=small_parameters())
    claimed = Setting(noise_multiplier=1.0, clip_norm=1.0, divisor=16.0)
    bench = StepUnderTest(step=step, sample=sample(), claimed=claimed, replayed_step=step)
    failures = {finding.check for finding in NoiseLaw().run(bench) if finding.status is not PropertyStatus.PASSED}
    assert bool(failures) == (share < 1) and (bench.calls < 40) == (share == 1)


def test_records_that_act_for_themselves_are_not_tried_in_every_pair() -> None:
    function, params = DpSgdStep(), small_parameters()
    claimed = Setting(noise_multiplier=1.0, clip_norm=1.0, divisor=16.0)
    bench = StepUnderTest(step=FunctionStep(function=function, params=params), sample=sample(), claimed=claimed)
    findings = [*Additivity().run(bench), *Sensitivity().run(bench)]
    assert {finding.status for finding in findings} == {PropertyStatus.PASSED} and bench.calls < 260


class FalteringClip(DpSgdStep):
    """Gradients above 1e4 clip norms are taken for errors of the machine, and not clipped."""

    def total(self, params: Any, inputs: Any, labels: Any, clip_norm: float) -> Any:
        clipped = super().total(params, inputs, labels, clip_norm)
        raw = super().total(params, inputs, labels, 1e20)
        size = math.sqrt(sum(float(value.square().sum()) for value in raw.values()))
        return raw if size > 1e4 * clip_norm * max(1, len(labels)) else clipped


@pytest.mark.slow
def test_a_clip_that_ends_at_a_long_gradient_is_refuted() -> None:
    assert codes(checked(FalteringClip())) >= {"clip.add"}


@dataclass(frozen=True, eq=False)
class SignedNoise(DpSgdStep):
    """Noise of a few seeds, and its negative."""

    seeds: int = 2000

    def noise(self, params: Any, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator) -> Any:
        seed = int(torch.randint(self.seeds, (1,), generator=generator))
        fresh = torch.Generator().manual_seed(seed // 2)
        return super().noise(params, count, noise_multiplier * (1 - 2 * (seed % 2)), clip_norm, fresh)


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "fails"), [(2000, {"noise.repeats"}), (2**60, set())])
def test_noise_of_few_seeds_fails_where_two_calls_share_it(seeds: int, fails: set[str]) -> None:
    step = FunctionStep(function=SignedNoise(seeds=seeds), params=small_parameters())
    bench = StepUnderTest(step=step, sample=sample(), claimed=Setting(noise_multiplier=1.0, clip_norm=1.0, divisor=16.0))
    assert {finding.check for finding in NoiseLaw().run(bench) if finding.status is PropertyStatus.FAILED} == fails


@dataclass(frozen=True, eq=False)
class CutNoise(DpSgdStep):
    """Normal noise that is drawn again if it is beyond some deviations."""

    cut: float = 3.2

    def noise(self, params: Any, count: int, noise_multiplier: float, clip_norm: float, generator: torch.Generator) -> Any:
        noise = super().noise(params, count, 1.0, 1.0, generator)
        while any(bool((value.abs() > self.cut).any()) for value in noise.values()):
            again = super().noise(params, count, 1.0, 1.0, generator)
            noise = {name: torch.where(value.abs() > self.cut, again[name], value) for name, value in noise.items()}
        return {name: noise_multiplier * clip_norm * value for name, value in noise.items()}


@pytest.mark.slow
@pytest.mark.parametrize("cut", [3.2, math.inf])
def test_noise_cut_beyond_three_deviations_fails_by_its_largest_value(cut: float) -> None:
    step = FunctionStep(function=CutNoise(cut=cut), params=small_parameters())
    bench = StepUnderTest(step=step, sample=sample(), claimed=Setting(noise_multiplier=1.0, clip_norm=1.0, divisor=16.0))
    findings = {finding.check: finding for finding in NoiseLaw().run(bench)}
    failures = {name for name, finding in findings.items() if finding.status is PropertyStatus.FAILED}
    assert failures == ({"noise.law"} if cut < math.inf else set())
    assert cut < math.inf or "beyond 3.5 deviations would pass" in findings["noise.law"].message


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 31))
def test_correct_steps_are_never_accused(seed: int) -> None:
    stream = np.random.default_rng(seed)
    claim = {
        "noise_multiplier": stream.uniform(0.3, 4),
        "clip_norm": 10 ** stream.uniform(-1, 1),
        "divisor": stream.uniform(2, 200),
    }
    assert checked(DpSgdStep(), seed, **claim).failures == ()


@pytest.mark.parametrize(
    "count", [1, pytest.param(8, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.calibration)]
)
def test_random_correct_set_ups_are_never_accused(count: int) -> None:
    accused = [setup.text for setup in map(correct_setups.draw, range(count)) if setup.check(0).failures]
    assert accused == []


@pytest.mark.slow
def test_a_step_without_adjustable_settings_says_what_it_could_not_test() -> None:
    def fixed(params: Any, batch: Any, generator: torch.Generator) -> Any:
        return DpSgdStep()(params, batch, generator, noise_multiplier=1.0, clip_norm=1e4, divisor=16.0)

    report = checked(fixed, clip_norm=1e4)
    assert report.failures == ()
    assert {"clip.reached", "sum.additive"} <= {finding.check for finding in report.open}


@pytest.mark.slow
def test_noise_that_ignores_the_generator_accuses_nobody() -> None:
    stream = torch.Generator().manual_seed(3)

    def own_noise(params: Any, batch: Any, generator: torch.Generator) -> Any:
        return DpSgdStep()(params, batch, stream, noise_multiplier=1.0, clip_norm=1.0, divisor=16.0)

    report = checked(own_noise)
    assert report.failures == ()
    assert {"clip.add", "step.state"} <= {finding.check for finding in report.open}


@pytest.mark.slow
def test_memory_between_calls_is_a_question() -> None:
    class Adaptive(DpSgdStep):
        def factors(self, gradients: Any, clip_norm: float) -> Any:
            calls.append(clip_norm)
            return super().factors(gradients, clip_norm) / (1 + len(calls) % 5)

    calls: list[float] = []
    statuses = {finding.check: finding.status for finding in checked(Adaptive()).findings}
    assert statuses["step.state"] is PropertyStatus.QUESTION


def test_numpy_steps_and_released_sums() -> None:
    def step(params: Any, batch: Any, generator: np.random.Generator, *, noise_multiplier: float, clip_norm: float) -> Any:
        inputs, labels = batch
        gradients = (inputs @ params["w"] - labels)[:, None] * inputs
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        with np.errstate(all="ignore"):
            factors = np.where(np.isfinite(norms), np.minimum(1, clip_norm / np.maximum(norms, 1e-30)), 0)
            total = np.where(factors > 0, gradients * factors, 0).sum(0)
        return {"w": total + generator.normal(size=6) * noise_multiplier * clip_norm}

    params = {"w": np.linspace(-1, 1, 6)}
    inputs, labels = sample()
    claim = {"noise_multiplier": 1.0, "clip_norm": 1.0, "divisor": 1.0}
    report = check_step(step, params, (inputs, labels), returns="sum", **claim)
    assert report.failures == ()


@pytest.mark.slow
def test_a_failure_leaves_a_witness_that_replays(tmp_path: Path) -> None:
    report = checked(plugins.find(ZOO, "clip_per_tensor")())
    report.save(tmp_path)
    with pytest.raises(OutputError, match="cannot write to"):
        report.save(tmp_path / "findings.json")
    finding = next(finding for finding in report.failures if finding.check == "clip.add")
    with np.load(tmp_path / "clip.add.npz") as witness:
        noise, clip, divisor = witness["setting"]
        params, generator = small_parameters(), torch.Generator().manual_seed(int(witness["seed"]))
        releases = []
        for side in ("base", "neighbour"):
            batch = (torch.as_tensor(witness[f"{side}_0"]), torch.as_tensor(witness[f"{side}_1"]))
            step = plugins.find(ZOO, "clip_per_tensor")()
            after = step(params, batch, generator, noise_multiplier=noise, clip_norm=clip, divisor=divisor)
            releases.append({name: (params[name] - after[name]) * divisor for name in params})
    moved = sum(float((releases[1][name] - releases[0][name]).square().sum()) for name in params) ** 0.5
    assert moved == pytest.approx(finding.measured, rel=0.01) and moved > clip


def test_refusals_name_what_to_give() -> None:
    with pytest.raises(DataError, match="at least 8"):
        check_step(DpSgdStep(), small_parameters(), sample(count=3), noise_multiplier=1, clip_norm=1, divisor=1)
    spoiled = small_parameters() | {"bias": torch.full((2,), torch.nan)}
    with pytest.raises(DataError, match="parameter 'bias' holds NaN"):
        check_step(DpSgdStep(), spoiled, sample(), noise_multiplier=1, clip_norm=1, divisor=1)
    with pytest.raises(ConfigError, match="keys"):
        checked(lambda params, batch, generator: 3.0)
    for wrong, message in (
        (torch.zeros(2), r"the shape \(2,\) for .*; expected \("),
        ("text", "a str for .*; expected numbers"),
    ):
        with pytest.raises(ConfigError, match=message):
            checked(lambda params, batch, generator, wrong=wrong: params | {next(iter(params)): wrong})
    with pytest.raises(ConfigError, match="clip_norm"):
        checked(DpSgdStep(), clip_norm=-1.0)


def test_the_command_refutes_and_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs, labels = sample()
    np.savez(tmp_path / "sample.npz", x=inputs, y=labels)
    options = ["--noise-multiplier", "1", "--clip-norm", "1", "--divisor", "16", "--sample", str(tmp_path / "sample.npz")]
    code = answer(["step", f"{__name__}:wrong", "--params", "audit.zoo._reference:small_parameters", *options, "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert code == printed["exit_code"] == 1
    assert "clip.add" in {row["check"] for row in printed["findings"] if row["status"] == "failed"}


def command(folder: Path, name: str, *options: str) -> int:
    inputs, labels = sample()
    np.savez(folder / "sample.npz", x=inputs, y=labels)
    claim = ["--noise-multiplier", "1", "--clip-norm", "1", "--divisor", "16", "--sample", str(folder / "sample.npz")]
    return answer(["step", name, "--params", "audit.zoo._reference:small_parameters", *claim, *options])


@pytest.mark.slow
def test_a_weakness_fails_only_if_strict_and_not_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weak, file = f"{__name__}:weak", str(tmp_path / "baseline.json")
    assert command(tmp_path, weak, "--strict", "--write-baseline", file) == 5
    assert "clip.non_finite" in json.loads(Path(file).read_text())[weak]
    rows = json.loads(Path(file).read_text())
    rows[weak]["noise.missing"] = "a defect that was mended, whose check is no row any more"
    Path(file).write_text(json.dumps(rows))
    assert command(tmp_path, weak, "--strict", "--baseline", file) == 0
    capsys.readouterr()
    assert command(tmp_path, weak, "--strict", "--accept", "clip.non_finite=inputs are scaled", "-o", str(tmp_path)) == 0
    assert "accepted: inputs are scaled" in capsys.readouterr().out
    rows = json.loads((tmp_path / "findings.json").read_text())["findings"]
    assert [row["reason"] for row in rows if row["status"] == "accepted"] == ["inputs are scaled"]


def weak(params: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    step = plugins.find(ZOO, "clip_non_finite")()
    return step(params, batch, generator, noise_multiplier=noise_multiplier, clip_norm=clip_norm, divisor=divisor)


def test_what_is_accepted_has_a_check_and_a_reason() -> None:
    setting = Setting(noise_multiplier=1.0, clip_norm=1.0, divisor=8.0)
    report = StepReport(name="mine", setting=setting, findings=(finding("clip.add", False, "moves too far"),))
    assert report.accept({"clip.add": "known"}).failures == ()
    with pytest.raises(ConfigError, match=r"clip\.add"):
        report.accept({"clip.ad": "known"})
    with pytest.raises(ConfigError, match="reason"):
        report.accept({"clip.add": " "})


def wrong(params: Any, batch: Any, generator: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    step = plugins.find(ZOO, "clip_per_tensor")()
    return step(params, batch, generator, noise_multiplier=noise_multiplier, clip_norm=clip_norm, divisor=divisor)


def test_the_head_of_a_report_counts_in_plain_words() -> None:
    setting = Setting(noise_multiplier=1.0, clip_norm=1.0, divisor=8.0)
    results = (finding("clip.add", True, "moves little"), finding("clip.reached", False, "moves too far"))
    report = StepReport(name="mine", setting=setting, findings=results)
    assert str(report).splitlines()[0] == "mine: 1 of 2 checks passed, 1 failed, 0 open"
    report = StepReport(name="mine", setting=setting, findings=(gap("clip.add", "not tried"),))
    assert str(report).splitlines()[0] == "mine: 0 of 1 check passed, 0 failed, 1 open (not tested, or a question to you)"
