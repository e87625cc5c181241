"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from audit.optimizers._moments import Moments


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamW(Moments):
    """Options of AdamW; `weight_decay` acts on the parameters.

    References:
        Loshchilov and Hutter 2019, arXiv 1711.05101.
    """

    fused = torch._fused_adamw_
    torch_class = torch.optim.AdamW


PLUGIN = AdamW
