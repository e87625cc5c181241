"""What a run will take on disk, before it is run."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from audit.api.configs import resolve
from audit.core.errors import ConfigError
from audit.experiment.line import assemble
from audit.experiment.plan.plan import bytes_needed
from tests.tiny import CONFIG


def bytes_of(canaries: int, scorers: list[str]) -> int:
    game: dict[str, Any] = {"name": "g", "canaries": "held_out", "count": canaries, "runs": 1, "references": 8}
    game |= {"scorers": scorers, "estimators": ["one_run"]}
    settings = yaml.safe_load(CONFIG) | {
        "delta": 1e-5,
        "games": [game],
        "mechanisms": [{"name": "plain", "kind": "non_private"}],
    }
    experiment = assemble.assemble(resolve(settings, {}).config)
    return bytes_needed(experiment.design, experiment.audit_inputs)


def test_confidences_that_are_made_of_whole_outputs_have_a_place_on_disk() -> None:
    """Ten classes of 4 bytes in each job, gathered, and of all models but one; a loss, a coin, and a confidence of 8 bytes."""
    per_pair = (bytes_of(48, ["shadow_classifier"]) - bytes_of(24, ["shadow_classifier"])) / (24 * 9)
    assert per_pair == 3 * 40 + 8 + 1 + 8
    retained = (bytes_of(48, ["lira"]) - bytes_of(24, ["lira"])) / (24 * 9)
    assert retained == 3 * 16 + 8 + 1


def test_more_canaries_than_the_pool_holds_are_refused_before_any_room_is_asked_for() -> None:
    with pytest.raises(ConfigError, match=r"1000000 canaries .* from a pool of \d+ records"):
        bytes_of(1_000_000, ["lira"])
