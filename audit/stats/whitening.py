"""Exact tests that rows are independent N(0, I): noise that is missing, repeated or too regular in any direction shows.

Each returns a p-value that holds for every number of rows and columns. Rows are calls, columns are coordinates.
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np
from scipy import fft, special

from audit.stats.arrays import Array

RANDOM_DIRECTIONS = 32
MOST_BLOCKS, WIDEST_BLOCK = 120, 400
SPARE = 4  # degrees of freedom that are left for the last column of a block
DENSITY = 0.4  # of a standard normal number, at most
LEAST_LATTICE = 64  # numbers of which a lattice is told


def center(rows: Array) -> Array:
    """Return one row fewer, independent N(0, I) if the rows were N(m, I) with any common mean m (Helmert's contrasts).

    >>> center(np.full((3, 2), 7.0)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    counts = np.arange(1, len(rows))[:, None]
    means = np.cumsum(rows, axis=0)[:-1] / counts
    return np.asarray((rows[1:] - means) * np.sqrt(counts / (counts + 1)))


def least_energy(projections: Array) -> tuple[float, float, int]:
    """Return the p-value that no column of N(0, 1) numbers has so little energy, the least root mean square, and its column.

    >>> least_energy(np.array([[1.0, 0.0], [-1.0, 0.0], [0.5, 0.0]]))[1:]
    (0.0, 1)
    """
    energies = np.square(projections).sum(0)
    at = int(np.argmin(energies))
    tail = float(special.gammainc(len(projections) / 2, energies[at] / 2))
    return min(1.0, projections.shape[1] * tail), math.sqrt(float(energies[at]) / len(projections)), at


def energy_tail(energy: float, count: int) -> float:
    """Return the chance that the squares of so many N(0, 1) numbers add up to no more.

    >>> round(energy_tail(4.0, 4), 3)
    0.594
    """
    return float(special.gammainc(count / 2, energy / 2))


def ratio_tail(first: Array, second: Array) -> float:
    """Two-sided p-value that independent normal numbers of mean zero have one variance (Fisher's F)."""
    energies = float(np.square(first).sum()), float(np.square(second).sum())
    if not sum(energies):
        return 1.0
    lower = float(special.betainc(second.size / 2, first.size / 2, energies[1] / sum(energies)))
    return min(1.0, 2 * min(lower, 1 - lower))


def tensor_projections(noise: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, Array]]:
    """Yield orthonormal directions inside each tensor, with names: coordinates, frequencies, means along axes, differences.

    Args:
        noise: name to `(calls, coordinates)`.
        shapes: of the complete tensors; those not listed lack some coordinates.
    """
    for name, values in noise.items():
        yield f"coordinate {{}} of tensor '{name}'", values
        if values.shape[1] == 1:
            continue
        yield f"frequency {{}} of tensor '{name}' (0: the mean of all its coordinates)", _frequencies(values)
        yield f"the difference of coordinate {{}} of tensor '{name}' and the next", np.diff(values, axis=1) / math.sqrt(2)
        yield f"the sum of coordinate {{}} of tensor '{name}' and the next", (values[:, 1:] + values[:, :-1]) / math.sqrt(2)
        shape = shapes.get(name, ())
        for axis in range(len(shape)) if len(shape) > 1 else ():
            means = values.reshape(len(values), *shape).sum(axis + 1) / math.sqrt(shape[axis])
            yield f"the mean {{}} of tensor '{name}' along axis {axis}", means.reshape(len(values), -1)


def joint_projections(joint: Array, stream: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Yield directions over all tensors, with names: frequencies, and random ones."""
    yield "frequency {} of all tensors (0: the mean of all coordinates)", _frequencies(joint)
    directions = stream.normal(size=(joint.shape[1], RANDOM_DIRECTIONS))
    yield "random direction {}", joint @ (directions / np.linalg.norm(directions, axis=0))


def _frequencies(values: Array) -> Array:
    return np.asarray(fft.dct(values, axis=1, norm="ortho"))


def dependence_tail(rows: Array, stream: np.random.Generator) -> float:
    """P-value that no combination of columns, or of rows, is missing: that of what each adds to those before it.

    In a QR factorisation the squares on R's diagonal are independent chi-squares of one degree fewer each (Bartlett). Too many
    columns are taken in blocks of neighbours, and of random ones.

    >>> noise = np.random.default_rng(0).normal(size=(40, 30))
    >>> flattened = noise - noise @ np.full((30, 30), 1 / 30)
    >>> stream = np.random.default_rng(1)
    >>> dependence_tail(noise, stream) > 1e-3, dependence_tail(flattened, stream) < 1e-12
    (True, True)
    """
    calls, size = rows.shape
    if calls <= SPARE + 1:
        return 1.0
    width = min(size, calls - SPARE, WIDEST_BLOCK)
    blocks = [np.arange(start, min(start + width, size)) for start in range(0, size, width)]
    if len(blocks) > 1:
        blocks += [stream.choice(size, width, replace=False) for _ in range(min(len(blocks), MOST_BLOCKS // 4))]
    if len(blocks) > MOST_BLOCKS:
        blocks = [blocks[i] for i in np.linspace(0, len(blocks) - 1, MOST_BLOCKS).astype(int)]
    tables = [rows[:, block] for block in blocks if len(block) > 1]
    if size >= calls + SPARE:
        tables.append(rows[:WIDEST_BLOCK].T)
    return min([1.0, *(len(tables) * _bartlett(table) for table in tables)])


def pair_tail(rows: Array) -> float:
    """P-value that no two rows are as nearly equal, or the negative of each other.

    >>> noise = np.random.default_rng(0).normal(size=(40, 20))
    >>> pair_tail(noise) > 1e-3, pair_tail(np.vstack([noise, -noise[7]])) < 1e-12
    (True, True)
    """
    count, size = rows.shape
    if count < 2:
        return 1.0
    energies = np.square(rows).sum(1)
    least = (energies[:, None] + energies) / 2 - np.abs(rows @ rows.T)  # of the sum and the difference, each over the root of 2
    smallest = float(least[np.triu_indices(count, 1)].min())
    return float(min(1.0, count * (count - 1) * energy_tail(max(smallest, 0.0), size)))


def _bartlett(table: Array) -> float:
    """P-value by the diagonal of R of a table of N(0, 1) numbers with more rows than columns."""
    diagonal = np.square(np.diagonal(np.linalg.qr(table, mode="r")))
    degrees = len(table) - np.arange(table.shape[1])
    tails = special.gammainc(degrees / 2, diagonal / 2)
    smallest = table.shape[1] * float(tails.min())
    together = float(special.gammaincc(len(tails), -np.log(np.maximum(tails, 1e-300)).sum()))
    return float(2 * min(smallest, together))


def regularity_tail(rows: Array) -> float:
    """P-value that the lengths of rows vary as little as they do: noise on a sphere, or scaled to one variance, has one length.

    Lengths are turned into N(0, 1) numbers by their chi law; around their mean the sum of squares is a chi-square.

    >>> noise = np.random.default_rng(0).normal(size=(40, 30))
    >>> sphere = noise / np.linalg.norm(noise, axis=1, keepdims=True) * 30**0.5
    >>> regularity_tail(noise) > 1e-3, regularity_tail(sphere) < 1e-12
    (True, True)
    """
    half, energies = rows.shape[1] / 2, np.square(rows).sum(1) / 2
    scores = special.ndtri(np.clip(special.gammainc(half, energies), 1e-16, 1 - 1e-16))
    return float(special.gammainc((len(rows) - 1) / 2, float(np.square(scores - scores.mean()).sum()) / 2))


def equality_tail(values: Array, spacing: float) -> float:
    """P-value that so many of independent standard normal numbers are in one bin of width `spacing` with another.

    A number meets one of k before it with a chance of at most k times the density times the spacing, whatever those are, so the
    number of repetitions is below a sum of independent coins; the bound is Chernoff's.

    >>> stream = np.random.default_rng(0)
    >>> pool = stream.choice(stream.normal(size=10_000), 4000)
    >>> equality_tail(stream.normal(size=4000), 1e-7), equality_tail(pool, 1e-7) < 1e-12
    (1.0, True)
    """
    repeats = values.size - np.unique(np.round(values / spacing)).size
    mean = DENSITY * spacing * values.size**2 / 2
    if repeats <= mean:
        return 1.0
    return math.exp(min(0.0, repeats - mean + repeats * math.log(mean / repeats)))


def lattice_step(values: Array, spacing: float) -> float | None:
    """Return the step of the lattice that holds all numbers, if it is far above `spacing` and below 1; else None.

    >>> stream = np.random.default_rng(0)
    >>> lattice_step(np.round(stream.normal(size=500) * 16) / 16, 1e-7)
    0.0625
    >>> fine = np.round(stream.normal(size=20_000) * 5000) / 5000 + stream.uniform(-1e-6, 1e-6, 20_000)
    >>> round(1 / lattice_step(fine, 2e-6)), lattice_step(stream.normal(size=20_000), 2e-6)
    (5000, None)
    """
    gaps = np.diff(np.sort(values))
    step = float(np.min(gaps[gaps > 4 * spacing], initial=math.inf))
    if values.size < LEAST_LATTICE or not 8 * spacing < step < 1:
        return None
    sizes = np.sort(np.abs(values[np.abs(values) > step / 2]))
    # the smallest difference is off by rounding, so the step is fitted anew as multiples grow: the largest say what it is
    count = 0
    while count < sizes.size:
        count = max(int(np.searchsorted(sizes, 4 * sizes[count])), min(count + 1, sizes.size))
        multiples = np.round(sizes[:count] / step)
        step = float(sizes[:count] @ multiples / (multiples @ multiples))
    remainder = np.abs(values / step - np.round(values / step)).max()
    return step if remainder < 0.05 + spacing / step else None
