"""Strategies of Flower's older API: distinguished from the message API, and refused with a message if they cannot be played."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest

from audit.core.errors import ConfigError
from audit.step_checks.rounds.legacy import LegacyManager, LegacyRounds, is_legacy, is_legacy_mod
from tests.step_checks import flower_stand_in as stand_in


class Older:
    """The methods of the older API, around a strategy of which it has the settings."""

    def __init__(self) -> None:
        self.clipping_norm, self.strategy = 1.0, SimpleNamespace(fraction_fit=0.5, min_available_clients=7)

    def configure_fit(self, *arguments: Any) -> list[Any]:
        return []

    def aggregate_fit(self, *arguments: Any) -> tuple[None, dict[str, Any]]:
        return None, {}


def test_settings_are_those_of_the_strategy_and_survive_a_copy() -> None:
    rounds = LegacyRounds(Older(), None)
    assert (rounds.fraction_train, rounds.min_available_nodes, rounds.clipping_norm) == (0.5, 7, 1.0)
    peer = copy.deepcopy(rounds)
    peer.clipping_norm = 3.0
    assert (rounds.strategy.clipping_norm, peer.strategy.clipping_norm) == (1.0, 3.0)
    assert not hasattr(rounds, "clipped_count_stddev")


def test_only_strategies_without_the_message_api_are_taken_for_older_ones() -> None:
    assert is_legacy(Older()) and not is_legacy(stand_in.Correct())


def test_only_mods_made_from_the_older_api_are_taken_for_older_ones() -> None:
    older = type("LocalDpMod", (), {"__module__": "flwr.client.mod.localdp_mod"})
    own = type("Own", (older,), {"__module__": __name__})
    assert is_legacy_mod(older()) and is_legacy_mod(own()) and not is_legacy_mod(stand_in.clipping_mod)


def test_a_strategy_that_waits_for_more_clients_is_refused() -> None:
    assert [client.cid for client in LegacyManager(3).sample(2)] == ["1", "2"]
    with pytest.raises(ConfigError, match="waits for more than 3 clients"):
        LegacyManager(3).sample(2, min_num_clients=4)
