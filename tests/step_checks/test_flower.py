"""Flower's own strategies and mods, if Flower is installed: the defects of its version, and a strategy without them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

flwr_app = pytest.importorskip("flwr.app", reason="needs flwr >= 1.41 (docs/use/federated.md)")

from flwr.client import mod as older_mod  # noqa: E402
from flwr.clientapp import mod  # noqa: E402
from flwr.server import strategy as older  # noqa: E402
from flwr.serverapp import strategy as flower  # noqa: E402

from audit.cli import app  # noqa: E402
from audit.step_checks.findings import PropertyStatus, StepReport  # noqa: E402
from audit.step_checks.rounds.run import check_strategy  # noqa: E402
from tests.step_checks import flower_stand_in as stand_in  # noqa: E402

SERVER = {"clip.parameter", "clip.non_finite", "clip.zero", "clip.names", "clip.integer"}
SUM = {"server.weights", "server.denominator", "server.metrics", "noise.influence"}
ADAPTIVE = {"adaptive.direction", "adaptive.count", "noise.scale", "server.iterable"}


def failures(report: StepReport) -> set[str]:
    return {finding.check for finding in report.failures}


def questions(report: StepReport) -> set[str]:
    return {finding.check for finding in report.findings if finding.status is PropertyStatus.QUESTION}


def fixed(inner: Any = None, clients: int = 10, **options: Any) -> Any:
    return flower.DifferentialPrivacyServerSideFixedClipping(inner or flower.FedAvg(), 1.0, 1.0, clients, **options)


def test_fixed_clipping_at_the_server() -> None:
    """F1, F3, F4, F5, F6, F7, F12, F14, and metrics without noise."""
    report = check_strategy(fixed())
    assert failures(report) == SERVER | SUM and questions(report) == {"noise.generator"}
    scalar = next(finding for finding in report.findings if finding.check == "clip.parameter")
    assert scalar.measured == pytest.approx(100, rel=1e-3) and "'scale' (a scalar)" in scalar.message


def test_fixed_clipping_at_the_clients_with_and_without_the_mod() -> None:
    """F13: without the mod nothing is clipped, and nothing says so."""
    strategy = flower.DifferentialPrivacyClientSideFixedClipping(flower.FedAvg(), 1.0, 1.0, 10)
    report = check_strategy(strategy, mods=[mod.fixedclipping_mod])
    assert failures(report) == SERVER - {"clip.names"} | SUM and questions(report) == {"noise.generator", "clip.trust"}
    forgotten = {finding.check: finding for finding in check_strategy(strategy).failures}
    assert forgotten["clip.update"].measured == pytest.approx(100, rel=1e-3)


@pytest.mark.slow
def test_adaptive_clipping() -> None:
    """F2, F9, F10, F15, F16 beside the rest."""
    server = check_strategy(flower.DifferentialPrivacyServerSideAdaptiveClipping(flower.FedAvg(), 1.0, 100))
    assert failures(server) == SERVER | SUM | ADAPTIVE
    strategy = flower.DifferentialPrivacyClientSideAdaptiveClipping(flower.FedAvg(), 1.0, 100)
    client = check_strategy(strategy, mods=[mod.adaptiveclipping_mod])
    assert failures(client) == SERVER - {"clip.names"} | SUM | ADAPTIVE
    metrics = next(finding for finding in client.findings if finding.check == "server.metrics")
    assert "norm_bit by 0.01" in metrics.message


LEGACY = SERVER - {"clip.names"} | SUM - {
    "server.metrics"
}  # parameters have no names there, and metrics are added up on demand


@pytest.mark.slow
def test_strategies_of_the_older_api_have_the_same_defects() -> None:
    """F1, F3, F4, F5, F6, F7, F14; F2, F9, F15 if clipping adapts; without a mod nothing is clipped (F13)."""
    server = check_strategy(older.DifferentialPrivacyServerSideFixedClipping(older.FedAvg(), 1.0, 1.0, 10))
    assert failures(server) == LEGACY and questions(server) == {"noise.generator"}
    client = check_strategy(older.DifferentialPrivacyClientSideFixedClipping(older.FedAvg(), 1.0, 1.0, 10))
    assert failures(client) == LEGACY - {"clip.zero"} | {"clip.update"}
    adaptive = check_strategy(older.DifferentialPrivacyServerSideAdaptiveClipping(older.FedAvg(), 1.0, 100))
    assert failures(adaptive) == LEGACY | ADAPTIVE - {"server.iterable"}


@pytest.mark.slow
def test_mods_of_the_older_api_have_the_same_defects() -> None:
    fixed_clipping = older.DifferentialPrivacyClientSideFixedClipping(older.FedAvg(), 1.0, 1.0, 10)
    client = check_strategy(fixed_clipping, mods=[older_mod.fixedclipping_mod])
    assert failures(client) == LEGACY and questions(client) == {"noise.generator", "clip.trust"}
    adaptive = older.DifferentialPrivacyClientSideAdaptiveClipping(older.FedAvg(), 1.0, 100)
    report = check_strategy(adaptive, mods=[older_mod.adaptiveclipping_mod])
    assert failures(report) == LEGACY | ADAPTIVE - {"server.iterable"}
    local = check_strategy(older_mod.LocalDpMod(1.0, 1.0, 1.0, 1e-5))
    assert failures(local) == failures(check_strategy(mod.LocalDpMod(1.0, 1.0, 1.0, 1e-5)))


@pytest.mark.slow
def test_adaptive_strategies_are_checked_within_ten_seconds() -> None:
    """In CPU seconds; reading each client's arrays anew took twenty."""
    start = time.process_time()
    strategy = flower.DifferentialPrivacyClientSideAdaptiveClipping(flower.FedAvg(), 1.0, 100)
    check_strategy(strategy, mods=[mod.adaptiveclipping_mod])
    assert time.process_time() - start < 10


@pytest.mark.parametrize("inner", ["FedAdam", "FedAdagrad", "FedMedian"])
def test_noise_after_a_step_that_is_no_mean(inner: str) -> None:
    """F11."""
    report = check_strategy(fixed(getattr(flower, inner)(), clients=11))
    assert "server.influence" in failures(report)


def test_the_accountant_mode_refuses_weights_and_missing_replies_and_nothing_else() -> None:
    pytest.importorskip("dp_accounting")
    from flwr.supercore.privacy_accounting import NeighboringRelation, PrivacyConfig, SamplingMethod
    from flwr.supercore.privacy_accounting.rdp_accountant import RdpAccountant

    config = PrivacyConfig(
        target_delta=1e-5,
        population_size=10,
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
        sampling_method=SamplingMethod.NO_AMPLIFICATION,
    )
    report = check_strategy(fixed(accountant=RdpAccountant(config)))
    assert failures(report) == SERVER | {"server.metrics"}


def test_local_noise() -> None:
    """F8: noise for a sensitivity of C is too little for updates that are 2 C apart; with 2 C it is enough."""
    report = check_strategy(mod.LocalDpMod(1.0, 1.0, 1.0, 1e-5))
    by_check = {finding.check: finding for finding in report.findings}
    assert by_check["local.epsilon"].measured == pytest.approx(1.61, abs=0.01)
    assert {"local.clip", "local.zero", "local.integer", "local.epsilon"} == failures(report)
    assert "local.epsilon" not in failures(check_strategy(mod.LocalDpMod(1.0, 2.0, 1.0, 1e-5)))
    assert "local.noise" in failures(check_strategy(mod.LocalDpMod(1.0, 0.0, 1.0, 1e-5)))


class OnFlower(stand_in.Correct):
    records = flwr_app


def test_a_corrected_strategy_on_flower_is_not_accused() -> None:
    report = check_strategy(OnFlower())
    assert report.failures == () and report.open == ()


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.answer(["flower", "tests.step_checks.test_flower:fixed", "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)["findings"]
    assert {row["check"] for row in rows if row["status"] == "failed"} == SERVER | SUM
    assert app.answer(["flower", "tests.step_checks.test_flower:OnFlower"]) == 0
