"""A correct twin: each tensor is clipped to its own budget, whose squares add up to C squared."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from audit.zoo._reference import DpSgdStep, Tensors, joint_norms, weighted_sum

WEIGHTS = (4.0, 1.0, 2.0, 1.0)
"""Budgets of the tensors, in proportion."""


class ClipLayerBudgets(DpSgdStep):
    """A correct twin: each tensor is clipped to its own budget, whose squares add up to C squared."""

    wrong = ""
    visibility = "per-layer clipping (McMahan et al. 2018, arXiv 1812.06210)"

    def total(self, params: Tensors, inputs: Tensor, labels: Tensor, clip_norm: float) -> Tensors:
        """Return the sum of gradients that were clipped tensor by tensor."""
        gradients = self.record_gradients(params, inputs, labels)
        finite = torch.isfinite(joint_norms(gradients))
        total: Tensors = {}
        for (name, value), weight in zip(gradients.items(), WEIGHTS, strict=True):
            budget = clip_norm * weight / math.hypot(*WEIGHTS)
            total |= weighted_sum({name: value}, self.factors({name: value}, budget) * finite)
        return total


PLUGIN = ClipLayerBudgets
