"""Opake's accounting as a subject: asked if it can be imported, and said why if it cannot."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from audit.accounting import resolve
from audit.accounting.accountants.reference import Reference
from audit.accounting.event_expressions import parse
from audit.core.adjacency import Adjacency
from audit.core.errors import UnsupportedMechanism
from audit.core.events import Gaussian, PoissonSampled, Repeated

TEXTS = {
    "dp_sgd(1.0, 0.01, 1000)": 1.02,
    "dp_sgd(1.0, 0.01, 100) + 5 * Gaussian(4.0)": 1.02,
    "RandomAllocation(1.0, 10)": 1.02,
    # a batch is cut with a chance of 3e-13 a step, which moves the truth by 1e-5 of it and Opake's figure from 0.7181 to 0.7680
    "TruncatedPoisson(1.0, 0.01, 100, 10000, 180)": 1.07,
    "TruncatedPoisson(1.0, 0.01, 100, 10000, 200)": 1.0002,
    "3 * ApproximateDp(0.2, 1e-7)": 1.02,
}
"""Events, and how many times the bracket's upper end release 0.16.1 states at most."""
_CUT_AND_WHOLE = "TruncatedPoisson(1.0, 0.01, 100, 10000, 180)", "dp_sgd(1.0, 0.01, 100)"
USUAL = next(iter(TEXTS))


def claim(text: str, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> float:
    return resolve.subject("opake").claim(parse(text), delta=1e-5, adjacency=adjacency).epsilon


def test_it_has_no_figure_for_replaced_records() -> None:
    with pytest.raises(UnsupportedMechanism, match="add/remove only"):
        claim(USUAL, Adjacency.REPLACE_ONE)


@pytest.mark.skipif(importlib.util.find_spec("opake") is not None, reason="opake is installed")
def test_what_is_not_installed_is_said() -> None:
    with pytest.raises(UnsupportedMechanism, match="pip install opake"):
        claim(USUAL)


@pytest.mark.parametrize("text", TEXTS)
def test_its_figures_are_close_to_the_bracket(text: str) -> None:
    pytest.importorskip("opake")
    low, high = Reference().bracket(parse(text), delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    assert low * (1 - 1e-9) <= claim(text) <= TEXTS[text] * high


def test_batches_that_are_hardly_ever_cut_cost_what_whole_ones_do() -> None:
    """The bracket and not Opake's figure at 180 is near the truth: it holds Opake's own figure without a limit."""
    ends = [Reference().bracket(parse(text), delta=1e-5, adjacency=Adjacency.ADD_REMOVE) for text in _CUT_AND_WHOLE]
    assert ends[0] == pytest.approx(ends[1], rel=5e-6)
    if importlib.util.find_spec("opake") is not None and sys.version_info >= (3, 13):
        assert ends[0][0] <= claim(_CUT_AND_WHOLE[1]) <= 1.0001 * ends[0][1]


def test_several_answers_on_a_batch_have_no_figure() -> None:
    pytest.importorskip("opake")
    event = PoissonSampled(mechanism=Repeated(mechanism=Gaussian(noise_multiplier=2.0), count=3), sample_rate=0.1)
    with pytest.raises(UnsupportedMechanism, match="single Gaussian releases"):
        resolve.subject("opake").claim(event, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
