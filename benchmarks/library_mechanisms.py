"""OpenDP's and diffprivlib's mechanisms, as they are, compared with their claims: for docs/use/mechanisms.md.

pip install opendp diffprivlib
python benchmarks/library_mechanisms.py 20000
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

import audit
from audit.core.rounding import down

RECORDS = np.array([0.0, 0.3, 0.7, 1.0, 1.0])
"""A data set of numbers between 0 and 1; its neighbour has another last record."""
NEIGHBOUR = np.array([0.0, 0.3, 0.7, 1.0, 0.0])
DELTA = 1e-5


@dataclass(frozen=True, kw_only=True)
class LibraryMechanism:
    """A mechanism of a library with its claim.

    Attributes:
        name: library and mechanism.
        function: `(data, rng) -> output`; the libraries draw from the system's randomness, not from `rng`.
        epsilon, delta: claimed.
        pair: neighbouring data sets.
    """

    name: str
    function: Callable[[Any, Any], Any]
    epsilon: float
    delta: float = 0.0
    pair: tuple[Any, Any] = (RECORDS, NEIGHBOUR)


def opendp_mechanisms() -> Iterator[LibraryMechanism]:
    """Yield measurements of OpenDP at epsilon 1, its noise scales from its own privacy maps."""
    import opendp.prelude as dp

    dp.enable_features("contrib", "honest-but-curious")
    real, full = (
        (dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)),
        (dp.atom_domain(T=int), dp.absolute_distance(T=int)),
    )
    vector = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    laplace = dp.m.make_laplace(*real, scale=1.0)
    geometric = dp.m.make_laplace(*full, scale=1.0)
    gaussian = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*real, scale=4.0)), delta=DELTA)
    noisy_max = dp.m.make_noisy_max(*vector, dp.max_divergence(), scale=1.0)
    response = dp.m.make_randomized_response_bool(prob=float(np.e / (1 + np.e)))
    yield LibraryMechanism(
        name="OpenDP laplace", function=lambda data, rng: laplace(float(data.sum())), epsilon=laplace.map(1.0)
    )
    yield LibraryMechanism(
        name="OpenDP laplace of whole numbers", function=lambda data, rng: geometric(int(data.sum())), epsilon=geometric.map(1)
    )
    claim = gaussian.map(1.0)
    yield LibraryMechanism(
        name="OpenDP gaussian", function=lambda data, rng: gaussian(float(data.sum())), epsilon=claim[0], delta=claim[1]
    )
    answers = (np.array([1.0, 1.0, 1.0, 1.0, 1.0]), np.array([2.0, 0.0, 0.0, 0.0, 0.0]))
    yield LibraryMechanism(
        name="OpenDP noisy max", function=lambda data, rng: noisy_max(data.tolist()), epsilon=noisy_max.map(1.0), pair=answers
    )
    yield LibraryMechanism(
        name="OpenDP randomised response", function=lambda data, rng: response(bool(data[-1])), epsilon=response.map(1)
    )


def diffprivlib_mechanisms() -> Iterator[LibraryMechanism]:
    """Yield mechanisms and tools of diffprivlib at epsilon 1."""
    from diffprivlib import mechanisms, tools

    laplace = mechanisms.Laplace(epsilon=1.0, sensitivity=1.0)
    truncated = mechanisms.LaplaceTruncated(epsilon=1.0, sensitivity=1.0, lower=0.0, upper=5.0)
    bounded = mechanisms.LaplaceBoundedDomain(epsilon=1.0, sensitivity=1.0, lower=0.0, upper=5.0)
    snapping = mechanisms.Snapping(epsilon=1.0, sensitivity=1.0, lower=0.0, upper=5.0)
    geometric = mechanisms.Geometric(epsilon=1.0, sensitivity=1)
    gaussian = mechanisms.GaussianAnalytic(epsilon=1.0, delta=DELTA, sensitivity=1.0)
    discrete = mechanisms.GaussianDiscrete(epsilon=1.0, delta=DELTA, sensitivity=1)
    uniform = mechanisms.Uniform(delta=0.1, sensitivity=1.0)
    staircase = mechanisms.Staircase(epsilon=1.0, sensitivity=1.0)
    binary = mechanisms.Binary(epsilon=1.0, value0="0", value1="1")
    for noise in (laplace, truncated, bounded, snapping, staircase):
        yield LibraryMechanism(name=f"diffprivlib {type(noise).__name__}", function=_sum_noise(noise, float), epsilon=1.0)
    yield LibraryMechanism(name="diffprivlib Geometric", function=_sum_noise(geometric, int), epsilon=1.0)
    yield LibraryMechanism(name="diffprivlib GaussianAnalytic", function=_sum_noise(gaussian, float), epsilon=1.0, delta=DELTA)
    yield LibraryMechanism(name="diffprivlib GaussianDiscrete", function=_sum_noise(discrete, int), epsilon=1.0, delta=DELTA)
    yield LibraryMechanism(name="diffprivlib Uniform", function=_sum_noise(uniform, float), epsilon=0.0, delta=0.1)
    yield LibraryMechanism(
        name="diffprivlib Binary", function=lambda data, rng: binary.randomise(str(int(data[-1]))), epsilon=1.0
    )
    yield LibraryMechanism(
        name="diffprivlib mean", function=lambda data, rng: tools.mean(data, epsilon=1.0, bounds=(0.0, 1.0)), epsilon=1.0
    )
    yield LibraryMechanism(
        name="diffprivlib median", function=lambda data, rng: tools.median(data, epsilon=1.0, bounds=(0.0, 1.0)), epsilon=1.0
    )
    yield LibraryMechanism(name="diffprivlib histogram", function=_histogram, epsilon=1.0, pair=(RECORDS, RECORDS[:-1]))
    yield LibraryMechanism(
        name="diffprivlib var",
        function=lambda data, rng: tools.var(data, epsilon=1.0, bounds=(0.0, 1.0)),
        epsilon=1.0,
        pair=(np.zeros(5), np.eye(5)[-1]),
    )


def _sum_noise(noise: Any, kind: type) -> Callable[[Any, Any], Any]:
    return lambda data, rng: noise.randomise(kind(data.sum()))


def _histogram(data: Any, rng: Any) -> Any:
    from diffprivlib import tools

    return tools.histogram(data, epsilon=1.0, bins=3, range=(0.0, 1.0))[0]


def installed() -> Iterator[LibraryMechanism]:
    """Yield the mechanisms of the libraries that are installed."""
    if find_spec("opendp"):
        yield from opendp_mechanisms()
    if find_spec("diffprivlib"):
        yield from diffprivlib_mechanisms()


def check(known: LibraryMechanism, samples: int, floating_point: bool = False) -> Any:
    """Return the report of one mechanism."""
    return audit.mechanism(
        known.function,
        epsilon=known.epsilon,
        delta=known.delta,
        pairs=[known.pair],
        samples=samples,
        floating_point=floating_point,
    )


def main(samples: int) -> None:
    """Print the table of docs/use/mechanisms.md."""
    print(f"| Mechanism | Claim | Proven from {samples:,} outputs | Verdict | Lowest bits |\n|---|---|---|---|---|")
    for known in installed():
        report, bits = check(known, samples), check(known, samples, floating_point=True).floating_point
        claim = f"{known.epsilon:.4g}" + (f", {known.delta:g}" if known.delta else "")
        proof = f"epsilon {report.epsilon.epsilon:.3f}, delta {report.delta.delta:.3g}"
        bit_text = "not told apart" if bits is None or bits.delta <= known.delta else f"delta {down(bits.delta)}"
        print(f"| {known.name} | {claim} | {proof} | {report.verdict.outcome.value} | {bit_text} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
