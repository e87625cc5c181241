"""Clip norms that are tried: none from gradients that the rounding of other records hides."""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.step_checks.step_under_test import StepUnderTest
from audit.step_checks.steps import FunctionStep, Setting


def step(params: Any, batch: Any, rng: Any, *, noise_multiplier: float, clip_norm: float, divisor: float) -> Any:
    (gradients,) = batch
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    total = (gradients * np.minimum(1, clip_norm / np.maximum(norms, 1e-300))).sum(axis=0)
    return {"w": params["w"] - (total + noise_multiplier * clip_norm * rng.standard_normal(4)) / divisor}


def test_clip_norms_are_not_taken_from_gradients_that_rounding_of_others_hides() -> None:
    lengths = np.where(np.arange(16) % 2, 1.0, 1e-9)[:, None]
    sample = (np.random.default_rng(0).normal(size=(16, 4)) * lengths,)
    claim = Setting(noise_multiplier=1.0, clip_norm=1.0, divisor=8.0)
    function_step = FunctionStep(function=step, params={"w": np.zeros(4)}, generator="numpy")
    assert min(StepUnderTest(step=function_step, sample=sample, claimed=claim).natural_norms) > 1e-4
