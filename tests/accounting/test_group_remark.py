"""What a federation's cover says of groups of records is never below what such a group costs."""

from __future__ import annotations

import re

import pytest

from audit.accounting.accountants.reference import Reference
from audit.core.adjacency import Adjacency
from audit.core.events import Gaussian, Repeated
from audit.core.protocols import MechanismSetting
from audit.mechanisms.federated import GROUPS, Federated

DELTA, NOISE, ROUNDS, LOCAL_STEPS = 1e-5, 40.0, 3, 2


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
def test_the_epsilon_of_a_group_is_that_of_the_gaussian_that_it_moves_most(adjacency: Adjacency) -> None:
    """Where records are replaced a group moves a sum twice as far; figures are rounded up."""
    training = Federated(
        clients=9, noise="records", noise_multiplier=NOISE, unit="example", local_steps=LOCAL_STEPS, record_rate=0.5
    )
    setting = MechanismSetting(sample_rate=1.0, steps=ROUNDS, delta=DELTA, adjacency=adjacency, accountants=())
    texts = re.findall(r"(?:epsilon of|\d+ records) (\d[\d,.]*\d)", training.remark(setting))
    figures = [float(text.replace(",", "")) for text in texts]
    assert len(figures) == len(GROUPS)
    for size, figure in zip(GROUPS, figures, strict=True):
        event = Repeated(mechanism=Gaussian(noise_multiplier=NOISE / size), count=ROUNDS * LOCAL_STEPS)
        low, high = Reference().bracket(event, delta=DELTA, adjacency=adjacency)
        assert low <= figure <= high + 0.02
