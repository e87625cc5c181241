"""Answers of clients: mods that repeat are called for two clients of a kind, all others for each; copies their own are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.step_checks.rounds import wire
from audit.step_checks.rounds.processing import SMALL
from audit.step_checks.rounds.replies import Replies, make_answers
from audit.step_checks.tensors import spread, zeros
from tests.step_checks import flower_stand_in as stand_in

CLIENTS = 9


class Mod:
    """Clips, and counts how often it is called; with noise that hangs on a generator, or on the number of the client."""

    def __init__(self, noise: str = "") -> None:
        self.noise, self.calls = noise, 0
        self.generator = np.random.default_rng(0)

    def __call__(self, message: Any, context: Any, call_next: Any) -> Any:
        self.calls += 1
        reply = stand_in.clipping_mod(message, context, call_next)
        record = next(iter(reply.content.array_records.values()))
        if self.noise:
            drawn = self.generator.normal() if self.noise == "drawn" else message.metadata.src_node_id
            record["bias"] = stand_in.Array(record["bias"].numpy() + np.float32(drawn))
        return reply


def answered(mods: list[Any], settings: int = 0) -> list[Any]:
    """One long update, two clients without mods, the others alike."""
    long, faint = spread(SMALL, 10.0), spread(SMALL, 1e-6)
    replies = Replies(updates=[long, *[faint] * (CLIENTS - 1)], start=zeros(SMALL), unmodded=(3, 4))
    start = wire.to_record(stand_in, replies.start)
    messages = [
        stand_in.Message(
            stand_in.RecordDict({"arrays": start, "config": stand_in.ConfigRecord(own=index * settings)}), dst_node_id=index
        )
        for index in range(CLIENTS)
    ]
    return make_answers(messages, replies, mods, stand_in, "num-examples")


def biases(answers: list[Any]) -> np.ndarray:
    return np.array([answer.content["arrays"]["bias"].numpy() for answer in answers])


@pytest.mark.parametrize(("noise", "settings", "calls"), [("", 0, 3), ("drawn", 0, 7), ("by number", 0, 7), ("", 1, 7)])
def test_a_mod_is_called_for_each_client_unless_two_of_a_kind_get_the_same(noise: str, settings: int, calls: int) -> None:
    mod = Mod(noise)
    answers = answered([mod], settings)
    assert mod.calls == calls and len(answers) == CLIENTS
    if noise:
        assert len({row.tobytes() for row in biases(answers)[[1, 2, 5, 6, 7, 8]]}) == 6
    else:
        assert np.array_equal(biases(answers)[2:], biases(answers)[1:2].repeat(CLIENTS - 2, axis=0))


def test_copied_answers_may_be_changed_one_by_one() -> None:
    answers = answered([Mod()])
    answers[5].content["arrays"]["bias"].value = np.ones(5)
    answers[6].content["metrics"]["num-examples"] = 7
    assert not biases(answers)[[2, 6, 7]].any(where=biases(answers)[[2, 6, 7]] == 1)
    assert [answer.content["metrics"]["num-examples"] for answer in answers] == [1] * 6 + [7, 1, 1]
