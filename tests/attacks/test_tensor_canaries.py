"""Canary clients by the tensors of a model."""

from __future__ import annotations

import numpy as np
import pytest

from audit import plugins
from audit.core.canaries import DirectionGradients
from audit.core.errors import ConfigError
from audit.core.protocols import TensorCanaryMaker
from audit.core.seeds import Seed
from tests.conformance.test_canaries import dataset_for

TENSORS = (30, 12, 1, 7)


def directions(kind: str, count: int) -> np.ndarray:
    maker: TensorCanaryMaker = plugins.build("attacks.canaries", {"kind": kind})
    payload = maker.make_in_tensors(dataset_for(kind), count, TENSORS, Seed(3)).payload
    assert isinstance(payload, DirectionGradients)
    return payload.directions


@pytest.mark.parametrize(("kind", "count"), [("single_coordinate", 50), ("single_tensor", 50), ("every_tensor", 1)])
def test_updates_are_orthonormal_however_small_a_tensor_is(kind: str, count: int) -> None:
    rows = directions(kind, count)
    np.testing.assert_allclose(rows @ rows.T, np.eye(count), atol=1e-12)


@pytest.mark.parametrize("kind", ["single_coordinate", "single_tensor"])
def test_each_tensor_has_canaries_of_its_own(kind: str) -> None:
    energies = np.add.reduceat(directions(kind, 16) ** 2, np.cumsum((0, *TENSORS[:-1])), axis=1)
    assert ((energies > 1 - 1e-12).sum(axis=0) == [5, 5, 1, 5]).all()


def test_each_tensor_has_the_same_share_of_an_update() -> None:
    energies = np.add.reduceat(directions("every_tensor", 1) ** 2, np.cumsum((0, *TENSORS[:-1])), axis=1)
    np.testing.assert_allclose(energies, 0.25)


def test_more_updates_than_the_smallest_tensor_holds_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected 1 to 1, or a larger model"):
        directions("every_tensor", 2)
