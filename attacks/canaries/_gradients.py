"""Canaries that are gradients, not records."""

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _cosines, _pool
from audit.core.canaries import Canaries, CanaryRecords, ClientBehaviour, CoordinateGradients, DirectionGradients
from audit.core.data import Array, Dataset, Records
from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.stats.scoring import linear_probe


@dataclass(frozen=True, slots=True, kw_only=True)
class DiracGradient:
    """Unit gradients along distinct random parameter coordinates.

    Exactly orthogonal, so the noise that each canary meets is independent of what the others meet.

    References: Nasr et al. 2023, arXiv 2302.07956, section 5; Steinke, Nasr and Jagielski 2023, arXiv 2305.08846.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` distinct coordinates of a model with `parameters` parameters; `ConfigError` if there are more canaries than
        parameters.
        """
        if not 1 <= count <= parameters:
            raise ConfigError(
                f"{count} canaries of kind 'dirac_gradient' for a model with {parameters} parameters; each canary owns "
                f"one parameter: expected 1 to {parameters} canaries, or a larger model"
            )
        coordinates = seed.child("dirac").numpy().choice(parameters, size=count, replace=False)
        return Canaries(
            kind="dirac_gradient",
            description="crafted unit gradients, each along one parameter of its own",
            payload=CoordinateGradients(coordinates=coordinates),
        )


_LARGEST = 4 << 30  # bytes of directions held in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomGradient:
    """Unit gradients in random directions, uniform on the sphere.

    Two independent directions in `d` dimensions have an inner product of about `1 / sqrt(d)`.

    Attributes:
        orthogonalise: make them orthogonal by a QR decomposition (in float64), so that the canaries of a
            run do not touch each other; needs at most as many canaries as parameters.

    References: Andrew et al. 2023, arXiv 2302.03098; Steinke, Nasr and Jagielski 2023, arXiv 2305.08846.
    """

    orthogonalise: bool = False

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` directions `(count, parameters)` of unit l2 norm; `ConfigError` if there are more canaries than parameters
        although orthogonal ones were asked for, or the directions would not fit 4 GiB.
        """
        _check_size(count, parameters, self.orthogonalise)
        rows = seed.child("directions").numpy().standard_normal((count, parameters))
        directions = _orthogonal(rows) if self.orthogonalise else rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return Canaries(
            kind="random_gradient",
            description=f"crafted unit gradients in random {'orthogonal ' if self.orthogonalise else ''}directions",
            payload=DirectionGradients(directions=directions, orthogonal=self.orthogonalise),
        )


def _check_size(count: int, parameters: int, orthogonalise: bool) -> None:
    if count < 1 or parameters < 1:
        raise ConfigError(f"{count} canaries of kind 'random_gradient' for {parameters} parameters; expected at least 1 each")
    if orthogonalise and count > parameters:
        raise ConfigError(
            f"{count} orthogonal canaries of kind 'random_gradient' for a model with {parameters} parameters; "
            f"expected at most {parameters}, or orthogonalise: false"
        )
    size = 8 * count * parameters
    if size > _LARGEST:
        raise ConfigError(
            f"{count} canaries of kind 'random_gradient' for {parameters} parameters take {size / 2**30:.1f} GiB, more than "
            f"{_LARGEST >> 30} GiB; use dirac_gradient, which stores one index a canary"
        )


def _orthogonal(rows: Array) -> Array:
    orthonormal, triangle = np.linalg.qr(rows.T)
    # a QR routine is free in the sign of each column; with a positive diagonal the directions are uniform
    return np.ascontiguousarray((orthonormal * np.sign(np.diag(triangle))).T)


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedCosine:
    """Clients that send one row of a cosine transform each, with the signs of all coordinates flipped at random.

    Canary `i` is `s[j] * sqrt(2 / d) * cos(pi * (2 j + 1) * (i + 1) / (2 d))`: rows of an orthonormal transform (DCT-II), in
    which every coordinate takes part, so that none of them is clipped or noised apart from the others.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` directions `(count, parameters)` of unit l2 norm; `ConfigError` if canaries are not fewer than parameters,
        or directions would not fit 4 GiB.
        """
        return Canaries(
            kind="signed_cosine",
            description="canary clients whose whole update is a signed cosine, orthogonal to all others",
            payload=DirectionGradients(
                directions=_cosines.directions(count, parameters, seed.child("signs").integer(), "signed_cosine"),
                orthogonal=True,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFinite:
    """Clients of a federation that send a signed cosine far beyond the clip norm, and NaN in its first coordinate.

    An update that is not finite is to count as zero, so a correct training shows nothing of their coins. One that divides the
    clip norm by a norm of NaN, and replaces NaN afterwards, releases the rest unclipped.

    Attributes:
        beside: so many other clients send NaN in each round, and canaries none: one that makes of NaN what the others in its
            call send, such as their mean, counts a canary more than once.
    """

    beside: int = 0

    def __post_init__(self) -> None:
        ClientBehaviour(beside=self.beside)  # refuses a number below 0 here, not at the first round

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` directions `(count, parameters)` of unit l2 norm; `ConfigError` if canaries are not fewer than parameters,
        or directions would not fit 4 GiB.
        """
        return Canaries(
            kind="non_finite",
            description="canary clients that send a signed cosine far beyond the clip norm, "
            + (f"beside {self.beside} that send NaN" if self.beside else "and NaN in one coordinate"),
            payload=DirectionGradients(
                directions=_cosines.directions(count, parameters, seed.child("signs").integer(), "non_finite"), orthogonal=True
            ),
            behaviour=ClientBehaviour(finite=self.beside > 0, beside=self.beside),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdversarialDirection:
    """Pool records, each moved within the value range so that a linear model prefers another class, true label kept.

    The move maximises, over a box around the record, the margin by which another class beats the true one under a ridge
    classifier of the training records; it carries over to other models in part. Predicting such a record right takes
    memorisation.

    Attributes:
        radius: half the side of the box, as a share of the pool's value range.

    References: Goodfellow et al. 2015, arXiv 1412.6572 (the step); Nasr et al. 2021, arXiv 2101.04535 (adversarial canaries).
    """

    radius: float = 0.2

    def __post_init__(self) -> None:
        if not 0 < self.radius <= 1:
            raise ConfigError(f"adversarial_direction.radius is {self.radius}; expected a share of the range in (0, 1]")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` moved pool records; `identifiers` are -1 because no source row holds them."""
        pool_rows = _pool.choose(dataset, count, seed.child("adversarial"), "adversarial_direction")
        originals = dataset.pool.take(pool_rows)
        _pool.require_classes(dataset, "adversarial_direction")
        _pool.require_one_label(dataset, "adversarial_direction")
        probe_records = dataset.train if len(dataset.train) else dataset.pool
        weights = linear_probe.fit(probe_records.inputs.reshape(len(probe_records), -1), probe_records.labels, dataset.classes)
        uphill = self._uphill(originals, weights).reshape(originals.inputs.shape)
        return Canaries(
            kind="adversarial_direction",
            description=f"records held out of {dataset.name}, moved to where a linear model prefers a wrong class",
            payload=CanaryRecords(
                records=Records(inputs=self._move(originals.inputs, uphill, dataset.pool.inputs), labels=originals.labels),
                identifiers=np.full(count, -1),
            ),
        )

    def _uphill(self, records: Records, weights: Array) -> Array:
        """For each record the gradient, in its input, of the margin that one step can raise most, `(m, features)`."""
        flat = records.inputs.reshape(len(records), -1).astype(np.float64)
        scores = flat @ weights[:-1] + weights[-1]  # the last row is the intercept
        rows = weights[:-1].T
        # most that a step within a box raises a rival above the true class: the l1 norm of the difference of their weights
        reach = np.stack([np.abs(rows - own).sum(axis=1) for own in rows])  # [true class, rival]
        width = float(records.inputs.max() - records.inputs.min())
        gains = scores + self.radius * width * reach[records.labels]
        gains[np.arange(len(flat)), records.labels] = -np.inf  # the true class is no rival of itself
        return np.asarray(rows[gains.argmax(axis=1)] - rows[records.labels])

    def _move(self, inputs: Array, uphill: Array, like: Array) -> Array:
        low, high = float(like.min()), float(like.max())
        return np.clip(inputs + self.radius * (high - low) * np.sign(uphill), low, high).astype(like.dtype)
