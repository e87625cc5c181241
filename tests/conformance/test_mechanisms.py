"""Every mechanism: an event that files can hold, of so many steps at that rate, and a trainer that executes it."""

from __future__ import annotations

from typing import Any

import pytest

from audit import plugins
from audit.core import event_reading
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError
from audit.core.event_forms import decode, encode
from audit.core.protocols import Mechanism, MechanismSetting

PACKAGE = plugins.FOLDERS["mechanisms"]
MECHANISMS = plugins.names(PACKAGE)
OPTIONS: dict[str, dict[str, Any]] = {
    "dp_sgd": {"noise_multiplier": 1.5, "clip_norm": 0.5},
    "matrix_factorization": {"noise_multiplier": 1.5, "clip_norm": 0.5},
    "federated": {"noise_multiplier": 1.5, "clip_norm": 0.5, "clients": 20},
}
RATES = {"matrix_factorization": None}  # batches in cycles: no coin of Poisson sampling
UNITS = {"federated": "client"}
SETTING = MechanismSetting(sample_rate=0.2, steps=7, delta=1e-5, adjacency=Adjacency.ADD_REMOVE, accountants=())


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_event_is_what_was_asked_for(name: str) -> None:
    mechanism: Mechanism = plugins.build(PACKAGE, {"kind": name, **OPTIONS.get(name, {})})
    event = mechanism.event(SETTING)
    assert (event_reading.steps(event), event_reading.sample_rate(event), event_reading.unit(event)) == (
        7,
        RATES.get(name, 0.2),
        UNITS.get(name, "example"),
    )
    assert decode(encode(event)) == event
    assert str(event) and len({event, mechanism.event(SETTING)}) == 1


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_trainer_is_named(name: str) -> None:
    assert plugins.find(PACKAGE, name).trainer in plugins.names(plugins.FOLDERS["trainers"])


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("option", [{"clip_norm": 1e300}, {"clip_norm": 1e-300}, {"noise_multiplier": 1e60}])
def test_numbers_that_float32_cannot_compute_with_are_refused(name: str, option: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"clip_norm is .*float32"):
        plugins.build(PACKAGE, {"kind": name, **OPTIONS[name], **option})


def test_a_function_in_the_place_of_a_class_is_not_called() -> None:
    with pytest.raises(ConfigError, match=r"'os:_exit' is a .*function.*; expected a class"):
        plugins.build(PACKAGE, {"kind": "os:_exit", "status": 7})
