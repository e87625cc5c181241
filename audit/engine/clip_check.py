"""A second opinion on clipping: single examples by plain autograd, sharing no arithmetic with the engine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.core.seeds import Seed
from audit.engine.clipping import Clip, Gradients, Rows

_MODELS = 8


def clipped_alone(
    module: nn.Module, values: Mapping[str, Tensor], example: tuple[Tensor, Tensor], clip: Clip
) -> dict[str, Tensor]:
    """The clipped gradient of one example, name to value.

    Args:
        module: the plain module.
        values: its parameters and buffers.
        example: inputs `(copies, ...)` and labels `(copies,)`; the loss is their mean.
        clip: how; `norm` is one number.
    """
    names = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    leaves = {name: values[name].detach().clone().requires_grad_() for name in names}
    outputs = torch.func.functional_call(module, {**values, **leaves}, (example[0],))
    wanted = example[1]
    loss = F.cross_entropy(outputs, wanted) if wanted.dtype == torch.int64 else F.mse_loss(outputs.flatten(), wanted)
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    gradients = {name: torch.zeros_like(leaves[name]) if g is None else g for name, g in zip(names, found, strict=True)}
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.rpartition(".")[0] if clip.per_layer else "", []).append(name)
    bound = float(clip.norm) / math.sqrt(len(groups))
    for group in groups.values():
        length = math.sqrt(sum(float(gradients[name].double().square().sum()) for name in group))
        for name in group:
            gradients[name] = gradients[name] * min(1.0, bound / length) if length else gradients[name]
    if not all(bool(gradient.isfinite().all()) for gradient in gradients.values()):
        return {name: torch.zeros_like(gradient) for name, gradient in gradients.items()}
    return gradients


class Recomputation:
    """One example of some models at one step, drawn from the models' own streams, held against the engine.

    `errors` `(N,)`: distance between the engine's clipped gradient and the plain one, over the clip norm; -1 where
    nothing was recomputed.
    """

    def __init__(self, module: nn.Module, seeds: Sequence[Seed], models: int, steps: int) -> None:
        self._module = module
        self._draws = [seed.child("recomputation").numpy().random(2) for seed in seeds]
        self._share = _MODELS / max(models, 1)
        self.step = int(np.random.default_rng(steps).integers(steps)) if steps else -1
        self.errors = np.full(len(seeds), -1.0)

    def compare(self, engine: Gradients, rows: Rows, clip: Clip) -> None:
        """Recomputes one real row of each chosen model; leaves the engine's parameters and `rows` alone."""
        chosen: dict[int, int] = {}
        for model, (coin, place) in enumerate(self._draws):
            real = rows.mask[model].nonzero().flatten().tolist()
            if coin < self._share and real:
                chosen[model] = real[int(place * len(real))]
        if not chosen:
            return
        mask = torch.zeros_like(rows.mask)
        for model, row in chosen.items():
            mask[model, row] = True
        total = torch.zeros_like(engine.flat)
        engine.add_sum(Rows(inputs=rows.inputs, labels=rows.labels, mask=mask, copies=rows.copies), clip, total)
        module = self._module.to(engine.flat.device, engine.flat.dtype).train()
        for model, row in chosen.items():
            first = (model * rows.mask.shape[1] + row) * rows.copies
            example = (rows.inputs[first : first + rows.copies], rows.labels[first : first + rows.copies])
            values = {name: value[model] for name, value in engine.state().items()}
            own = clip.of_model(model)
            plain = clipped_alone(module, values, example, own)
            apart = [(slot.view(total)[model] - plain[slot.name]).double().square().sum() for slot in engine.layout.slots]
            error = math.sqrt(float(torch.stack(apart).sum())) / float(own.norm)
            self.errors[model] = error if math.isfinite(error) else math.inf
