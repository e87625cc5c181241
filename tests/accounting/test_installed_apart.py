"""Accountants of libraries that want their own environment: how events reach them, and their answers if installed."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from audit.accounting import resolve
from audit.accounting.accountants import _as_it_is
from audit.accounting.accountants.reference import Reference
from audit.accounting.event_expressions import parse
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, UnsupportedMechanism

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
PACKAGES = {"pfl": "pfl", "pipeline_dp": "pipeline-dp", "tumult": "tmlt.core"}
MODULES = {"pfl": "pfl", "pipeline_dp": "pipeline_dp", "tumult": "tmlt"}


def claim(spec: str, text: str, adjacency: Adjacency = ADD) -> float:
    return resolve.subject(spec).claim(parse(text), delta=1e-5, adjacency=adjacency).epsilon


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_what_is_not_installed_is_said(name: str) -> None:
    if importlib.util.find_spec(MODULES[name]) is not None:
        pytest.skip(f"{PACKAGES[name]} is installed")
    with pytest.raises(UnsupportedMechanism, match=f"pip install {PACKAGES[name]}"):
        claim(name, "Laplace(2.0)")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("pfl", "RandomizedResponse(0.5, 2)"),
        ("pfl", "PoissonSampled(2 * Gaussian(1.0), 0.1)"),
        ("pfl", "0 * Gaussian(1.0)"),
        ("pipeline_dp", "dp_sgd(1.0, 0.1, 10)"),
        ("pipeline_dp,accountant=naive", "Gaussian(1.0) + Laplace(1.0)"),
        ("pipeline_dp", "0 * Laplace(1.0)"),
        ("tumult", "dp_sgd(1.0, 0.1, 10)"),
        ("tumult", "2000 * Laplace(10.0)"),
        ("tumult", "0 * Laplace(1.0)"),
    ],
)
def test_what_a_library_does_not_know_never_reaches_it(spec: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_as_it_is, "library", lambda *names: pytest.fail(f"{names} was asked"))
    with pytest.raises(UnsupportedMechanism):
        claim(spec, text)


def test_pfl_has_no_figure_for_replaced_records() -> None:
    with pytest.raises(UnsupportedMechanism, match="add/remove only"):
        claim("pfl", "Laplace(1.0)", REPLACE)
    with pytest.raises(ConfigError, match="accountant"):
        resolve.subject("pfl,accountant=gdp")


@dataclass
class Joint:
    """Keeps what pfl's joint accountant is given."""

    total_epsilon: float = 1.5
    calls: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, **provided: Any) -> Joint:
        self.calls.append(provided)
        return self


def test_pfl_is_given_every_part_with_its_own_rate_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    joint = Joint()
    module = SimpleNamespace(JointPrivacyAccountant=joint, PRVPrivacyAccountant="its class")
    monkeypatch.setattr(_as_it_is, "library", lambda *names: module)
    monkeypatch.setattr(_as_it_is.importlib.metadata, "version", lambda name: "0")
    assert claim("pfl,accountant=prv", "dp_sgd(0.8, 0.01, 100) + 3 * (2 * Laplace(5.0)) + 0 * Gaussian(1.0)") == 1.5
    assert joint.calls == [
        {
            "mechanisms": ["gaussian", "laplace"],
            "accountants": "its class",
            "num_compositions": [100, 6],
            "sampling_probability": [0.01, 1.0],
            "total_delta": 1e-5,
            "noise_parameters": [0.8, 5.0],
        }
    ]


@dataclass
class Budgets:
    """A budget accountant that gives noise `constant / total epsilon` over the weight."""

    total: float
    delta: float
    base_noise_std: float = 0.0
    constant: float = 0.0

    def request_budget(self, kind: str, *, weight: float, count: int) -> None:
        self.constant += weight * count

    def compute_budgets(self) -> None:
        self.base_noise_std = self.constant / self.total


def test_pipeline_dp_states_the_least_budget_with_so_little_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(PLDBudgetAccountant=Budgets, MechanismType=SimpleNamespace(GAUSSIAN="g", LAPLACE="l"))
    monkeypatch.setattr(_as_it_is, "library", lambda *names: module)
    monkeypatch.setattr(_as_it_is.importlib.metadata, "version", lambda name: "0")
    for text, budget in (("3 * Gaussian(4.0)", 0.75), ("Gaussian(0.001)", 1000.0), ("Gaussian(100.0)", 0.01)):
        assert budget <= claim("pipeline_dp", text) <= budget * 1.0005
        assert claim("pipeline_dp", text, REPLACE) == pytest.approx(2 * budget, rel=5e-4)
    with pytest.raises(UnsupportedMechanism, match="no such noise"):
        claim("pipeline_dp", "Gaussian(1e-6)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "text", "most"),
    [
        ("pfl", "dp_sgd(1.0, 0.01, 1000)", 1.001),
        ("pfl,accountant=rdp", "2 * Laplace(2.0)", 1.2),
        ("pipeline_dp", "Gaussian(4.0)", 1.001),
        ("pipeline_dp,accountant=naive", "10 * Laplace(0.5)", 1.01),
        ("tumult", "10 * Laplace(0.5)", 1.01),
        ("tumult", "2 * Gaussian(4.0)", 1.3),
    ],
)
def test_its_figures_are_above_the_bracket_and_close(spec: str, text: str, most: float) -> None:
    pytest.importorskip(MODULES[spec.partition(",")[0]])
    low, high = Reference().bracket(parse(text), delta=1e-5, adjacency=ADD)
    assert low * (1 - 1e-6) <= claim(spec, text) <= most * high


@pytest.mark.slow
def test_pfl_takes_the_scale_of_laplace_noise_for_its_inverse() -> None:
    """`docs/evidence/findings/pfl-0.6.0.md`: PRV of 0.6.0 states 0.098 at a scale of 0.1, if the truth is 10."""
    pytest.importorskip("pfl")
    low, _ = Reference().bracket(parse("Laplace(0.1)"), delta=1e-5, adjacency=ADD)
    assert claim("pfl,accountant=prv", "Laplace(0.1)") < 0.1 and low > 9.99
