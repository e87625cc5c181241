"""What a step of language models measures of each model, gathered if the models are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from audit.core.events import dp_sgd
from audit.engine.gradients.clipping import Clip, Clipping
from audit.engine.parameter_layout import Layout
from audit.engine.text.text_training import _Step
from tests.engine import cases
from tests.engine.pretend_device import PRETENDED, pretended
from tests.engine.test_device_path import Launches

EVENT = dp_sgd(noise_multiplier=1.5, clip_norm=0.5, sample_rate=0.3, steps=4)


def learners(device: torch.device, passes: list[list[float]]) -> Any:
    """Three models without a network, with passes that have these norms."""
    layout = Layout.of(nn.Linear(300, 20))
    remaining = iter(passes)

    def add(tokens: Tensor, labels: Tensor, owner: Tensor, clip: Clip, total: Tensor) -> Clipping:
        norms = torch.tensor([next(remaining)], device="cpu").to(device)
        first = (norms.clamp(max=float(clip.norm))).nan_to_num(nan=0.0) * norms.isfinite()
        return Clipping(norms=norms, left=first, finite=False)

    return SimpleNamespace(layout=layout, flat=torch.zeros(3, layout.width, device=device), add=add)


def repeated_step(device: torch.device, passes: list[tuple[list[int], list[float]]]) -> _Step:
    job = cases.job(EVENT, models=3)
    step = _Step(learners(device, [norms for _, norms in passes]), job, job.seeds)
    for owners, _ in passes:
        step.add(
            torch.zeros(0),
            torch.zeros(0),
            torch.tensor(owners).to(device),
        )
    step.finish(10.0)
    return step


def test_norms_and_what_is_not_finite_are_those_of_each_model() -> None:
    passes = [([0, 0, 2], [0.1, 0.3, float("nan")]), ([0, 2, 2], [0.2, 9.0, float("inf")])]
    done = repeated_step(torch.device("cpu"), passes).executed(np.zeros((3, 1)), np.zeros(3), 0.0)
    np.testing.assert_allclose(done.largest_norm, [0.6, 0.0, 1.0])
    assert done.skipped.tolist() == [0, 0, 2]
    np.testing.assert_allclose(done.noise_multiplier, 1.5, rtol=0.06)  # of 6,020 numbers


def test_a_pass_of_language_models_waits_for_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = [([0, 0, 2], [0.1, 0.3, 0.2])] * 3
    with pretended(), Launches() as counted:
        step = repeated_step(PRETENDED, passes)
        waits, transfers = counted.waits, counted.transfers
        repeated_step(PRETENDED, passes * 2)
    assert waits == 0 and counted.waits == 0
    assert counted.transfers - transfers == transfers + 6  # owners and norms of this test, of three passes more
    assert step is not None
