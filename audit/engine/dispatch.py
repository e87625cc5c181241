"""Which way to clipped sums a module takes: all models at once, or one after another."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from audit.engine.clipping import Clip, Gradients, Rows
from audit.engine.ghost_clipping import TapeGradients
from audit.engine.layer_map import DROPOUTS, covered, has_hooks, is_dropout
from audit.engine.layers import UncoveredUse
from audit.engine.per_model_loop import LoopGradients

log = logging.getLogger(__name__)


def gradients_of(
    module: nn.Module,
    state: Mapping[str, Tensor],
    probe: Tensor | None = None,
    *,
    force_loop: bool = False,
    products: torch.dtype | None = None,
) -> Gradients:
    """N models with the architecture of `module` and the parameters of `state` (name to `(N, ...)`).

    Models made of supported layers share every kernel launch; others are run one after another, which is said once.

    Args:
        module: one model.
        state: of all models.
        probe: two records; with them it is tried out whether the fast path computes what the module computes.
        force_loop: take the slow path.
        products: type in which the fast path multiplies; None for that of the parameters.
    """
    slow = force_loop or why_one_by_one(module, state, probe) is not None
    return LoopGradients(module, state) if slow else TapeGradients(module, state, products)


def why_one_by_one(module: nn.Module, state: Mapping[str, Tensor], probe: Tensor | None) -> str | None:
    """Why these models cannot share their kernel launches, or None where they can; a reason is also logged."""
    reason = uncovered(module, state)
    if reason is None and probe is not None:
        two = {name: value[:2] for name, value in state.items()}
        steady = _without_dropout(module)
        reason = _disagreement(TapeGradients(steady, two), LoopGradients(steady, two), probe)
    if reason is not None:
        log.warning("the models are trained one after another, which is slower: %s", reason)
    return reason


def _disagreement(fast: Gradients, slow: Gradients, probe: Tensor) -> str | None:
    """Why the fast path cannot be used, or None where both give the same outputs and sums for the records of `probe`."""
    models = fast.flat.shape[0]
    folded = probe.repeat(models, *(1,) * (probe.dim() - 1))
    try:
        outputs = fast.forward(folded)
    except (UncoveredUse, RuntimeError) as error:
        return str(error)
    if not torch.allclose(outputs, slow.forward(folded), rtol=1e-3, atol=1e-4, equal_nan=True):
        return "its forward pass treats a batch of several models unlike a batch of one"
    labels = torch.zeros(len(folded), dtype=torch.int64 if outputs.shape[-1] > 1 else outputs.dtype, device=probe.device)
    rows = Rows(inputs=folded, labels=labels, mask=torch.ones(models, len(probe), dtype=torch.bool, device=probe.device))
    sums = [torch.zeros_like(fast.flat) for _ in range(2)]
    try:
        fast.add_sum(rows, Clip(norm=1.0), sums[0])
    except RuntimeError as error:
        return str(error)
    slow.add_sum(rows, Clip(norm=1.0), sums[1])
    if not torch.allclose(sums[0], sums[1], rtol=1e-2, atol=1e-4, equal_nan=True):
        return "a parameter takes part in its forward pass in a way that the layers do not show"
    return None


def uncovered(module: nn.Module, state: Mapping[str, Tensor]) -> str | None:
    """Why the tape cannot run this module, or None where it can."""
    for path, layer in module.named_modules():
        own = [name for name, _ in layer.named_parameters(recurse=False)]
        if own and not covered(layer):
            return (
                f"layer '{path or '(the model itself)'}' ({type(layer).__name__}) holds parameters that only torch.func covers"
            )
        if has_hooks(layer):
            return f"layer '{path or '(the model itself)'}' has hooks"
        unknown_dropout = is_dropout(layer) and type(layer) not in DROPOUTS
        if unknown_dropout or isinstance(layer, nn.modules.batchnorm._BatchNorm):
            return f"layer '{path}' ({type(layer).__name__}) has a state of its own"
    for name, _ in module.named_buffers():
        if not torch.equal(state[name], state[name][:1].expand_as(state[name])):
            return f"buffer '{name}' differs between the models"
    return None


def _without_dropout(module: nn.Module) -> nn.Module:
    """A copy in which dropout layers pass everything, so that two computations can be compared."""
    return copy.deepcopy(module, {id(layer): nn.Identity() for layer in module.modules() if is_dropout(layer)})
