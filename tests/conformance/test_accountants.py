"""What every accountant must do, whichever file it is in."""

from __future__ import annotations

import math

import pytest

from audit import plugins
from audit.accounting import resolve
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import AuditError, UnsupportedMechanism
from audit.core.events import dp_sgd, sgd
from audit.stats.curves.pld import subsampled_gaussian_epsilon
from audit.stats.curves.tradeoff import gdp_epsilon

NAMES = plugins.names("audit.accounting.accountants")
PLUGINS = {name: plugins.find("audit.accounting.accountants", name) for name in NAMES}
DEAR = [pytest.param(*setting, marks=pytest.mark.slow) for setting in ((0.7, 0.1, 50), (4.0, 0.2, 200))]
APPROXIMATIONS = tuple(name for name in NAMES if getattr(PLUGINS[name], "side", "upper") == "estimate")
CHECKED = tuple(name for name in NAMES if not resolve.is_as_it_is(PLUGINS[name]))
ODOMETER = "renyi_odometer"  # pays for figures that hold at every moment at once
PLAIN = "composition_theorems"  # adds releases up one by one, whatever they are


def ask(name: str, noise: float, rate: float, steps: int, *, delta: float = 1e-5) -> Claim:
    accountant = plugins.build("audit.accounting.accountants", {"kind": name})
    mechanism = dp_sgd(noise_multiplier=noise, clip_norm=1.0, sample_rate=rate, steps=steps)
    try:
        claim: Claim = accountant.claim(mechanism, delta=delta, adjacency=Adjacency.ADD_REMOVE)
    except UnsupportedMechanism as error:
        pytest.skip(str(error))
    return claim


@pytest.mark.parametrize("name", NAMES)
def test_states_where_the_figure_comes_from(name: str) -> None:
    claim = ask(name, 4.0, 1.0, 1)
    assert claim.source and claim.delta == 1e-5 and claim.adjacency is Adjacency.ADD_REMOVE
    assert 0 < claim.epsilon < math.inf
    if name in APPROXIMATIONS:
        assert "not a bound" in claim.note


@pytest.mark.parametrize("name", NAMES)
def test_the_plain_gaussian_in_closed_form(name: str) -> None:
    true = gdp_epsilon(1 / 4, 1e-5)
    assert true * (1 - 1e-9) <= ask(name, 4.0, 1.0, 1).epsilon <= true * (1.6 if name == ODOMETER else 1.35)


@pytest.mark.parametrize("name", [name for name in NAMES if name != PLAIN])
def test_many_releases_are_one_with_less_noise(name: str) -> None:
    assert ask(name, 20.0, 1.0, 25).epsilon == pytest.approx(ask(name, 4.0, 1.0, 1).epsilon, rel=0.02)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "classical_gaussian"])
@pytest.mark.parametrize(
    ("less", "more"),
    [
        ((2.0, 0.05, 100), (1.5, 0.05, 100)),
        ((2.0, 0.05, 100), (2.0, 0.08, 100)),
        ((2.0, 0.05, 100), (2.0, 0.05, 140)),
    ],
    ids=["noise", "rate", "steps"],
)
def test_less_protection_costs_more(name: str, less: tuple[float, float, int], more: tuple[float, float, int]) -> None:
    assert ask(name, *less).epsilon < ask(name, *more).epsilon


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", NAMES)
def test_a_smaller_delta_costs_more(name: str) -> None:
    assert ask(name, 4.0, 1.0, 1, delta=1e-7).epsilon > ask(name, 4.0, 1.0, 1).epsilon


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in APPROXIMATIONS])
@pytest.mark.parametrize(("noise", "rate", "steps"), [(1.0, 0.01, 500), (2.0, 1.0, 10), *DEAR])
def test_never_below_the_proven_lower_end(name: str, noise: float, rate: float, steps: int) -> None:
    lower = subsampled_gaussian_epsilon(noise, rate, steps, 1e-5, side="lower")
    assert ask(name, noise, rate, steps).epsilon >= lower * (1 - 1e-9)


@pytest.mark.parametrize("name", CHECKED)
def test_no_noise_and_no_release(name: str) -> None:
    assert ask(name, 0.0, 0.1, 10).epsilon == math.inf
    assert ask(name, 1.0, 0.1, 0).epsilon == 0
    assert ask(name, 1.0, 0.0, 10).epsilon == 0


@pytest.mark.parametrize("name", CHECKED)
def test_plain_training_has_no_guarantee(name: str) -> None:
    accountant = plugins.build("audit.accounting.accountants", {"kind": name})
    training = sgd(sample_rate=0.1, steps=10)
    assert accountant.claim(training, delta=1e-5, adjacency=Adjacency.ADD_REMOVE).epsilon == math.inf


PURE = ("composition_theorems", "reference")  # which also answer for pure differential privacy


@pytest.mark.parametrize("name", CHECKED)
@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_refuses_a_delta_that_means_nothing(name: str, delta: float) -> None:
    accountant = plugins.build("audit.accounting.accountants", {"kind": name})
    mechanism = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.1, steps=10)
    if delta == 0 and name in PURE:
        assert accountant.claim(mechanism, delta=delta, adjacency=Adjacency.ADD_REMOVE).epsilon == math.inf
        return
    with pytest.raises(AuditError, match="delta"):
        accountant.claim(mechanism, delta=delta, adjacency=Adjacency.ADD_REMOVE)


@pytest.mark.parametrize("name", CHECKED)
def test_replace_one_is_dearer_or_refused(name: str) -> None:
    accountant = plugins.build("audit.accounting.accountants", {"kind": name})
    mechanism = dp_sgd(noise_multiplier=2.0, clip_norm=1.0, sample_rate=1.0, steps=4)
    try:
        claim = accountant.claim(mechanism, delta=1e-5, adjacency=Adjacency.REPLACE_ONE)
    except UnsupportedMechanism:
        return
    assert claim.epsilon >= gdp_epsilon(2.0, 1e-5) * (1 - 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_subject_passes_figures_on_and_a_claim_source_answers_for_its_own(name: str) -> None:
    """Both kinds state which side of the truth they claim to be on; only a subject may be an estimate or a lower bound."""
    accountant = plugins.build("audit.accounting.accountants", {"kind": name})
    side = resolve.find_side(accountant)
    assert side == "upper" or resolve.is_as_it_is(accountant)
