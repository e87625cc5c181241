"""The adapters of other people's accountants give the figures that those libraries give; skipped if one is absent."""

from __future__ import annotations

import pytest

from audit.accounting import resolve
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import (
    ApproximateDp,
    Composed,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
    Repeated,
    SampledWithoutReplacement,
    dp_sgd,
)

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
D = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=1000)


def ask(spec: str, event: Event, delta: float = 1e-5, adjacency: Adjacency = ADD) -> float:
    """The figure, or a skip if the library is not installed; other refusals are raised."""
    try:
        return resolve.subject(spec).claim(event, delta=delta, adjacency=adjacency).epsilon  # type: ignore[arg-type]
    except UnsupportedMechanism as error:
        if "not installed" in str(error):
            pytest.skip(str(error))
        raise


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("opacus_rdp", 2.1014),
        ("opacus_prv", 1.8384),
        ("opacus_gdp", 1.6177),
        ("dp_accounting_rdp", 2.1014),
        ("dp_accounting_pld", 1.82824),
        ("prv_accountant", 1.8384),
        ("prv_accountant,side=estimate", 1.8282),
        ("prv_accountant,side=lower", 1.8181),
        ("autodp_rdp", 2.1078),
        ("jax_privacy", 1.82824),
        ("jax_privacy,accountant=rdp", 2.1018),
    ],
)
def test_the_case_that_everybody_tests(spec: str, expected: float) -> None:
    assert ask(spec, D) == pytest.approx(expected, rel=2e-4)


@pytest.mark.parametrize("spec", ["prv_accountant", "autodp_rdp", "dp_accounting_pld", "dp_accounting_pld,pessimistic=false"])
def test_laplace_and_what_is_composed_of_it(spec: str) -> None:
    assert ask(spec, Laplace(noise_multiplier=1.0)) == pytest.approx(0.99998, abs=0.012)
    event = Composed(parts=(Repeated(mechanism=Laplace(noise_multiplier=2.0), count=4), Gaussian(noise_multiplier=3.0)))
    assert 2.0 < ask(spec, event) < 4.0


def test_prv_gives_three_figures_in_their_order() -> None:
    event = PoissonSampled(mechanism=Gaussian(noise_multiplier=0.8), sample_rate=0.1)
    lower, estimate, upper = (ask(f"prv_accountant,side={side}", event) for side in ("lower", "estimate", "upper"))
    assert lower < estimate < upper and upper - lower == pytest.approx(0.02, rel=0.1)
    assert ask("prv_accountant", ApproximateDp(epsilon=1.0)) == pytest.approx(1.01, abs=0.01)
    with pytest.raises(UnsupportedMechanism, match="does not sample"):
        ask("prv_accountant", PoissonSampled(mechanism=Laplace(noise_multiplier=1.0), sample_rate=0.1))
    with pytest.raises(ConfigError, match="side"):
        resolve.subject("prv_accountant,side=middle")


def test_autodp_asks_for_the_tighter_theorem_where_it_holds() -> None:
    general = ask("autodp_rdp", PoissonSampled(mechanism=Laplace(noise_multiplier=1.0), sample_rate=0.1))
    assert 0 < general < 1.0
    response = RandomizedResponse(noise_parameter=0.5, buckets=2)
    assert ask("autodp_rdp", response, adjacency=REPLACE) == pytest.approx(1.0986, rel=1e-3)
    assert ask("autodp_rdp", Repeated(mechanism=Exponential(epsilon=1.0), count=100), 1e-6) == pytest.approx(37.42, rel=1e-3)
    with pytest.raises(UnsupportedMechanism, match="two answers"):
        ask("autodp_rdp", RandomizedResponse(noise_parameter=0.5, buckets=3), adjacency=REPLACE)


def test_jax_privacy_takes_phases_and_batches_of_fixed_size() -> None:
    phases = Composed(parts=(D, dp_sgd(noise_multiplier=2.0, clip_norm=1.0, sample_rate=0.01, steps=500)))
    assert 1.83 < ask("jax_privacy,accountant=rdp", phases) < 2.4
    step = SampledWithoutReplacement(mechanism=Gaussian(noise_multiplier=1.0), population=100, batch=50)
    fixed = ask("jax_privacy", step, adjacency=REPLACE)
    assert fixed == pytest.approx(8.9815, rel=1e-4)  # where dp-accounting, asked without doubling, says 4.086
    other_rate = dp_sgd(noise_multiplier=2.0, clip_norm=1.0, sample_rate=0.02, steps=500)
    with pytest.raises(UnsupportedMechanism, match="one rate"):
        ask("jax_privacy", Composed(parts=(D, other_rate)))
    with pytest.raises(UnsupportedMechanism, match="fixed size"):
        ask("jax_privacy", D, adjacency=REPLACE)


@pytest.mark.slow
def test_the_optimistic_side_of_dp_accounting_is_below_the_pessimistic_one() -> None:
    low, high = ask("dp_accounting_pld,pessimistic=false", D), ask("dp_accounting_pld", D)
    assert 1.7 < low < 1.82819 < high
    assert resolve.find_side(resolve.subject("dp_accounting_pld,pessimistic=false")) == "lower"
    with pytest.raises(UnsupportedMechanism):
        ask("dp_accounting_pld,pessimistic=false", Laplace(noise_multiplier=1.0), adjacency=REPLACE)
    response = Repeated(mechanism=RandomizedResponse(noise_parameter=0.5, buckets=2), count=100)
    assert ask("dp_accounting_pld,pessimistic=false", response, 1e-6, REPLACE) == pytest.approx(94.28, rel=1e-3)


@pytest.mark.parametrize("theorem", ["basic", "advanced", "best"])
def test_composition_theorems_by_their_formulas(theorem: str) -> None:
    event = Repeated(mechanism=ApproximateDp(epsilon=0.1, delta=1e-8), count=50)
    result = ask(f"composition_theorems,theorem={theorem}", event, 1e-5)
    drift, squared = 50 * 0.1 * 0.049958, 50 * 0.01
    advanced = drift + (2 * 12.20607 * squared) ** 0.5
    assert result == pytest.approx({"basic": 5.0, "advanced": advanced, "best": min(5.0, advanced)}[theorem], rel=1e-4)


def test_opendp_gives_its_own_maps() -> None:
    assert ask("opendp_maps", Gaussian(noise_multiplier=1.0)) == pytest.approx(4.72839, rel=1e-4)
    assert ask("opendp_maps", Gaussian(noise_multiplier=1.0), adjacency=REPLACE) == pytest.approx(10.72482, rel=1e-4)
    three = Repeated(mechanism=Laplace(noise_multiplier=2.0), count=3)
    assert ask("opendp_maps", three) == pytest.approx(1.5)


def test_opendp_is_not_asked_about_what_it_does_not_compose_here() -> None:
    with pytest.raises(UnsupportedMechanism, match="PoissonSampled"):
        resolve.subject("opendp_maps").claim(D, delta=1e-5, adjacency=ADD)
    with pytest.raises(UnsupportedMechanism, match="1000"):
        many = Repeated(mechanism=Laplace(noise_multiplier=2.0), count=3000)
        resolve.subject("opendp_maps").claim(many, delta=1e-5, adjacency=ADD)
    both = Composed(parts=(Laplace(noise_multiplier=2.0), Gaussian(noise_multiplier=2.0)))
    with pytest.raises(UnsupportedMechanism, match="one kind"):
        resolve.subject("opendp_maps").claim(both, delta=1e-5, adjacency=ADD)
