"""Mechanisms with a known epsilon, each with the neighbouring data sets that show it: controls, and wrong ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.mechanism_checks.sampling import Pair
from tests.mechanism_checks.controls import additive, selection, statistics
from tests.mechanism_checks.controls.sparse_vector import SparseVectorTechnique, step_pair


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownMechanism:
    """A mechanism, its claim and its true privacy.

    Attributes:
        name: for tables.
        function: `(data, rng, size)` or `(data, rng)`.
        pair: neighbouring data sets on which the exact value is reached.
        epsilon: and `delta`: claimed.
        exact: the true epsilon at the claimed delta, on this pair; None if no closed form is known.
        wrong: what is wrong, in a sentence; "" for a control.
        family: that the claim asserts, or None.
        floating_point: True if only the lowest bits of outputs show what is wrong.
    """

    name: str
    function: Callable[..., Any]
    pair: Pair
    epsilon: float
    delta: float = 0.0
    exact: float | None
    wrong: str = ""
    family: str | None = None
    floating_point: bool = False


def _pair(data: Any, neighbour: Any) -> Pair:
    return Pair(data=np.asarray(data), neighbour=np.asarray(neighbour), name="exact")


STEP = _pair([0.0], [1.0])
SWAP = _pair([1.0, 0.0], [0.0, 1.0])
SPREAD = _pair([1.0, *[0.0] * 9], [0.0, *[1.0] * 9])


@functools.cache
def controls() -> tuple[KnownMechanism, ...]:
    """Return mechanisms that keep their claim."""
    entry = functools.partial(KnownMechanism, epsilon=1.0, exact=1.0)
    deviation, truth = additive.analytic_deviation(1.0, 1e-5), statistics.response_truth(1.0)
    answers, neighbour, pattern = step_pair(20)
    vector = SparseVectorTechnique(threshold_scale=2.0, query_scale=4.0)
    threshold = statistics.histogram_threshold(1.0, 0.01)
    exponential = selection.ExponentialChoice(rate=0.5)
    return (
        entry(name="Laplace", function=additive.LaplaceSum(1.0), pair=STEP),
        entry(name="Gaussian, analytic", function=additive.GaussianSum(deviation), pair=STEP, delta=1e-5),
        entry(
            name="Gaussian, classic formula",
            function=additive.GaussianSum(additive.classic_deviation(2.0, 1e-5)),
            pair=STEP,
            epsilon=2.0,
            delta=1e-5,
            exact=additive.GaussianSum(additive.classic_deviation(2.0, 1e-5)).epsilon(1e-5),
        ),
        entry(name="geometric", function=additive.GeometricSum(1.0), pair=STEP),
        entry(name="Laplace, then rounded", function=additive.RoundedSum(1.0), pair=STEP),
        entry(name="randomised response", function=statistics.Response(truth), pair=STEP),
        entry(
            name="randomised response, 5 values",
            function=statistics.Response(statistics.response_truth(1.0, 5), 5),
            pair=STEP,
        ),
        entry(
            name="exponential, 10 candidates",
            function=exponential,
            pair=SPREAD,
            exact=exponential.epsilon(SPREAD.data, SPREAD.neighbour),
        ),
        entry(name="permute and flip", function=selection.PermuteAndFlip(0.5), pair=SPREAD, exact=_flip(0.5, 10)),
        entry(name="report noisy max", function=selection.ReportNoisyMax(2.0), pair=SWAP, exact=_noisy_max(2.0)),
        entry(
            name="sparse vector",
            function=vector,
            pair=_pair(answers, neighbour),
            exact=vector.epsilon(answers, neighbour, pattern),
        ),
        entry(name="quantile", function=statistics.PrivateQuantile(0.5), pair=_pair([1.0] * 6, [1.0] * 5), exact=None),
        entry(
            name="mean of unknown number", function=statistics.PrivateMean(1.0), pair=_pair([1.0] * 3, [1.0] * 2), exact=None
        ),
        entry(
            name="histogram with threshold",
            function=statistics.ThresholdedHistogram(1.0, threshold),
            pair=_pair([0, 0, 0, 1], [0, 0, 0]),
            delta=0.01,
            exact=0.0,
        ),
    )


@functools.cache
def wrong_twins() -> tuple[KnownMechanism, ...]:
    """Return mechanisms that break their claim, one defect each."""
    entry = functools.partial(KnownMechanism, epsilon=1.0)
    rows = [
        entry(name="Laplace, half the scale", function=additive.LaplaceSum(0.5), pair=STEP, exact=2.0, wrong="Half the noise."),
        entry(
            name="randomised response, fair coins",
            function=statistics.Response(0.75),
            pair=STEP,
            exact=math.log(3),
            wrong="Counts the epsilon of one coin (1) where the truth is told three times of four.",
        ),
        entry(
            name="permute and flip without permuting",
            function=selection.PermuteAndFlip(0.5, permutes=False),
            pair=_pair([0.0, 0.0], [0.0, 1.0]),
            exact=math.inf,
            wrong="Candidates are tried in the order in which they stand.",
        ),
        entry(
            name="noisy max with its value",
            function=selection.ReportNoisyMax(2.0, with_value=True),
            pair=_pair([0.0] * 5, [1.0] * 5),
            exact=2.5,
            wrong="The noisy value of the winner is released with it.",
        ),
        entry(
            name="mean by the true number",
            function=statistics.PrivateMean(1.0, private_count=False),
            pair=_pair([1.0, 0.0], [1.0]),
            exact=math.inf,
            wrong="Divides by the number of records, which one record changes.",
        ),
        entry(
            name="histogram, true counts compared",
            function=statistics.ThresholdedHistogram(1.0, 1.0, noisy=False),
            pair=_pair([0, 0, 0, 1], [0, 0, 0]),
            delta=0.01,
            exact=math.inf,
            wrong="A category is released if it occurs.",
        ),
        entry(
            name="Laplace from a 16-bit seed",
            function=additive.SmallSeedSum(1.0, 1 << 16),
            pair=STEP,
            exact=math.inf,
            wrong="The noise has 65,536 values, and the sums on two data sets share few.",
        ),
        entry(
            name="Laplace from one seed",
            function=additive.SameSeedSum(1.0),
            pair=STEP,
            exact=math.inf,
            wrong="The generator is made anew in every call.",
        ),
        entry(
            name="Laplace in single precision",
            function=additive.FloatLaplaceSum(16),
            pair=STEP,
            exact=math.inf,
            wrong="Sums of floating-point numbers lie on a grid that depends on the data.",
            floating_point=True,
        ),
    ]
    return (*rows, *_exponentials(), *_gaussians(), *_sparse_vectors())


def _exponentials() -> list[KnownMechanism]:
    rows = []
    for candidates in (10, 100):
        mechanism = selection.ExponentialChoice(rate=1.0)
        pair = _pair([1.0, *[0.0] * (candidates - 1)], [0.0, *[1.0] * (candidates - 1)])
        rows.append(
            KnownMechanism(
                name=f"exponential without the factor 2, {candidates} candidates",
                function=mechanism,
                pair=pair,
                epsilon=1.0,
                exact=mechanism.epsilon(pair.data, pair.neighbour),
                wrong="Weights exp(epsilon u) in place of exp(epsilon u / 2).",
            )
        )
    return rows


def _gaussians() -> list[KnownMechanism]:
    inversion = "sigma = D / (epsilon sqrt(2 ln(2 / delta))): the root stands under the line."
    classic = "The classic formula beyond its range."
    cases = [
        ("Gaussian, inverted formula", additive.inverted_deviation(1.0, 1e-5), 1.0, 1e-5, 1.0, inversion),
        ("Gaussian, inverted formula at 0.1", additive.inverted_deviation(0.1, 1e-5), 0.1, 1e-5, 1.0, inversion),
        ("Gaussian, classic at 10", additive.classic_deviation(10.0, 1e-5), 10.0, 1e-5, 1.0, classic),
        ("Gaussian, classic at 10, delta 0.1", additive.classic_deviation(10.0, 0.1), 10.0, 0.1, 1.0, classic),
        (
            "local Gaussian, sensitivity C",
            additive.classic_deviation(1.0, 1e-5),
            1.0,
            1e-5,
            2.0,
            "One record moves the sum by 2 C.",
        ),
    ]
    return [
        KnownMechanism(
            name=name,
            function=additive.GaussianSum(deviation),
            pair=_pair([0.0], [sensitivity]),
            epsilon=epsilon,
            delta=delta,
            exact=additive.GaussianSum(deviation).epsilon(delta, sensitivity),
            wrong=wrong,
            family="gdp",
        )
        for name, deviation, epsilon, delta, sensitivity, wrong in cases
    ]


def _sparse_vectors() -> list[KnownMechanism]:
    variants = [
        ("algorithm 4", SparseVectorTechnique(4.0, 4 / 3), (20, 1), "Noise of a query without the factor 2 c."),
        ("algorithm 6", SparseVectorTechnique(2.0, 2.0, None), (5, 5), "Never stops: answers any number of queries."),
        ("algorithm 5", SparseVectorTechnique(2.0, 0.0, None), (1, 1), "No noise on the queries."),
    ]
    rows = []
    for name, mechanism, (below, above), wrong in variants:
        answers, neighbour, pattern = step_pair(below, above)
        exact = mechanism.epsilon(answers, neighbour, pattern)
        pair = _pair(answers, neighbour)
        rows.append(
            KnownMechanism(name=f"sparse vector, {name}", function=mechanism, pair=pair, epsilon=1.0, exact=exact, wrong=wrong)
        )
    return rows


def _flip(rate: float, candidates: int) -> float:
    """The exact epsilon of permute and flip, for a candidate that is first above all others and then below them."""
    chance = math.exp(-rate)  # of a candidate one below the highest
    above = sum((1 - chance) ** place for place in range(candidates)) / candidates  # no other is taken before its turn
    below = chance / candidates  # its turn comes first: any other is taken for certain
    return math.log(above / below)


def _noisy_max(scale: float) -> float:
    """The exact epsilon of noisy max with two candidates that change places: odds of the better one."""
    tail = 0.5 * math.exp(-1 / scale) * (1 + 0.5 / scale)
    return math.log((1 - tail) / tail)
