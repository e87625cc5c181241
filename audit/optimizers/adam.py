"""Adam."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from audit.optimizers._moments import Moments


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam(Moments):
    """Options of Adam; `weight_decay` is added to the gradient.

    References:
        Kingma and Ba 2015, arXiv 1412.6980.
    """

    fused = torch._fused_adam_
    torch_class = torch.optim.Adam


PLUGIN = Adam
