"""Low-rank adapters of N models on one frozen base, trained together: per-record gradients inside the backward pass.

Only the base's weights are shared: activations differ from the first adapted layer on, so what is saved is the cost of N passes
over small matrices, not arithmetic. A row of a pass belongs to one model and reads that model's two matrices; its gradient
in them is two batched products of what the pass holds anyway.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from audit.core.errors import UnsupportedMechanism
from audit.engine.device import switched
from audit.engine.gradients.clipping import Clip, Clipping
from audit.engine.parameter_layout import Slot
from audit.engine.text.text_model import TextModel, clip_records

ADAPTER = "default"  # peft's name of the adapter that it makes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pass:
    """What one pass over some texts reads and leaves."""

    flat: Tensor  # `(N, width)` parameters
    gradients: Tensor  # `(rows, width)` of each record, or `(N, width)` the sum over each model's
    texts: int  # of the pass, those of a record one after the other
    owner: Tensor | None  # `(texts,)` model of each; None if there is one model
    per_record: bool  # which of the two is left
    anchor: Tensor  # a number without meaning that makes autograd come back to layers with inputs that need no gradient


class _Layer:
    """One of peft's low-rank layers; its forward pass is another one while a pass is under way."""

    def __init__(self, path: str, layer: Any, slots: tuple[Slot, Slot]) -> None:
        base = layer.base_layer
        self.path, self._slots, self._bias, self._plain = path, slots, base.bias, layer.forward
        self._scale = float(layer.scaling[ADAPTER])
        self.matrix: Tensor = base.weight if type(base).__name__ == "Conv1D" else base.weight.t()  # (in, out)
        self.current: _Pass | None = None
        layer.forward = self.forward

    def forward(self, x: Tensor, *arguments: Any, **options: Any) -> Any:
        """Return the layer's outputs: peft's own outside of a pass."""
        if self.current is None:
            return self._plain(x, *arguments, **options)
        if len(x) != self.current.texts:
            raise UnsupportedMechanism(
                f"layer '{self.path}' takes {tuple(x.shape)} for {self.current.texts} texts: it gets the tokens of all records "
                "as one list, so no record has a gradient of its own; name other layers in adapter.layers"
            )
        tokens = x if x.dim() == 3 else x.unsqueeze(1)
        return _LowRank.apply(tokens, self.current.anchor, self, self.current).view(*x.shape[:-1], -1)  # type: ignore[no-untyped-call]

    def matrices(self, step_pass: _Pass) -> tuple[Tensor, Tensor]:
        """Return A and scaled B of each text's model, `(texts, r, in)` and `(texts, out, r)`; of one model without the rows."""
        down, up = (slot.view(step_pass.flat) for slot in self._slots)
        if step_pass.owner is None:
            return down[0], up[0] * self._scale
        return down[step_pass.owner], (up * self._scale)[step_pass.owner]

    def base(self, x: Tensor) -> Tensor:
        """Return what the frozen layer makes of `(tokens, in)`."""
        return x @ self.matrix if self._bias is None else torch.addmm(self._bias, x, self.matrix)

    def keep(self, step_pass: _Pass, down: tuple[Tensor, Tensor], up: tuple[Tensor, Tensor]) -> None:
        """Leave the gradients in A and B: of each the slopes `(texts, T, k)` and inputs `(texts, T, l)` whose product it is."""
        for slot, (slopes, inputs), scale in zip(self._slots, (down, up), (1.0, self._scale), strict=True):
            place = slot.view(step_pass.gradients)
            if step_pass.owner is None and not step_pass.per_record:
                place[0].addmm_(slopes.flatten(0, 1).t(), inputs.flatten(0, 1), alpha=scale)
                continue
            part = slopes.mT @ inputs
            if step_pass.owner is not None and not step_pass.per_record:
                place.index_add_(0, step_pass.owner, part, alpha=scale)
            elif len(part) == len(place):
                place.add_(part, alpha=scale)
            else:
                place.add_(part.unflatten(0, (len(place), -1)).sum(1), alpha=scale)


class _LowRank(torch.autograd.Function):
    """`x W + b + s x A' B'`; its backward pass leaves the gradients in A and B."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: _Layer, step_pass: _Pass) -> Tensor:
        down, up = layer.matrices(step_pass)
        output, low = layer.base(x.flatten(0, 1)), x @ down.mT
        if step_pass.owner is None:
            output.addmm_(low.flatten(0, 1), up.t())
        else:
            output.view(len(x), x.shape[1], -1).baddbmm_(low, up.mT)
        ctx.save_for_backward(x, low, down, up)
        ctx.layer, ctx.step_pass = layer, step_pass
        return output.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, None, None, None]:
        x, low, down, up = ctx.saved_tensors
        back = slope @ up
        ctx.layer.keep(ctx.step_pass, (back, x), (slope, low))
        if not ctx.needs_input_grad[0]:
            return None, None, None, None
        total = slope.flatten(0, 1) @ ctx.layer.matrix.t()
        if ctx.step_pass.owner is None:
            total.addmm_(back.flatten(0, 1), down)
        else:
            total.view(x.shape).baddbmm_(back, down)
        return total.view(x.shape), None, None, None


class AdapterModels:
    """N adapters on one frozen model with peft's low-rank layers; the rows of `flat` `(N, width)` are their parameters."""

    def __init__(self, text_model: TextModel, flat: Tensor) -> None:
        self.text_model, self.layout, self.flat = text_model, text_model.layout, flat
        slots = {slot.name: slot for slot in self.layout.slots}
        self._layers = [
            _Layer(path, layer, (slots[f"{path}.lora_A.{ADAPTER}.weight"], slots[f"{path}.lora_B.{ADAPTER}.weight"]))
            for path, layer in _low_rank_layers(text_model.module)
        ]

    @staticmethod
    def serve(text_model: TextModel) -> bool:
        """Return whether all that is trained are plain low-rank matrices beside frozen linear layers, in float32."""
        names = {f"{path}.lora_{side}.{ADAPTER}.weight" for path, _ in _low_rank_layers(text_model.module) for side in "AB"}
        return not text_model.precision.bfloat16 and names == {slot.name for slot in text_model.layout.slots}

    def add(self, tokens: Tensor, labels: Tensor, owner: Tensor, clip: Clip | None, total: Tensor) -> Clipping | None:
        """Add gradients of records `(rows, T)`, clipped if a `clip` is given, to `owner` `(rows,)` in `total` `(N, width)`."""
        if clip is None:
            self._run(tokens, labels, owner, total)
            return None
        gradients = total.new_zeros(len(tokens), total.shape[1])
        self._run(tokens, labels, owner, gradients, per_record=True)
        clipping, factors = clip_records(gradients.square().sum(1), clip)
        if not clipping.finite:
            gradients = torch.where(clipping.norms[0].isfinite()[:, None], gradients, 0.0)
        weights = total.new_zeros(len(total), len(tokens))
        weights[owner, torch.arange(len(tokens), device=total.device)] = factors
        total.addmm_(weights, gradients)
        return clipping

    def test_gradients(self, tokens: Tensor, labels: Tensor) -> float:
        """Return the largest relative difference between gradients of records and those by peft's own layers, as `compare`."""
        owner = torch.arange(len(tokens), device=tokens.device) % len(self.flat)
        gradients = self.flat.new_zeros(len(tokens), self.flat.shape[1])
        self._run(tokens, labels, owner, gradients, per_record=True)
        return self.text_model.compare(self.layout.views(gradients), tokens, labels, self.flat[owner])

    def _run(self, tokens: Tensor, labels: Tensor, owner: Tensor, gradients: Tensor, *, per_record: bool = False) -> None:
        anchor = torch.zeros((), requires_grad=True, device=self.flat.device)
        per_user = self.text_model.count_texts(tokens)
        step_pass = _Pass(
            flat=self.flat,
            gradients=gradients,
            texts=len(tokens) * per_user,
            owner=None if len(self.flat) == 1 else owner.repeat_interleave(per_user),
            per_record=per_record,
            anchor=anchor,
        )
        with switched([(layer, "current", step_pass) for layer in self._layers]):
            losses = self.text_model.record_losses(tokens, labels)
            torch.autograd.grad(losses.sum(), [anchor], allow_unused=True)


def _low_rank_layers(module: nn.Module) -> list[tuple[str, Any]]:
    """Return path and layer of each of peft's plain low-rank layers on a frozen linear one."""
    layers = []
    for path, layer in module.named_modules():
        base, scaling = getattr(layer, "base_layer", None), getattr(layer, "scaling", {})
        if base is None or not hasattr(layer, "lora_A") or ADAPTER not in scaling:
            continue
        is_more = getattr(layer, "use_dora", {}).get(ADAPTER, False) or getattr(layer, "lora_bias", {}).get(ADAPTER, False)
        is_frozen = not any(value.requires_grad for value in base.parameters())
        if type(base).__name__ in ("Linear", "Conv1D") and is_frozen and not is_more:
            layers.append((path, layer))
    return layers
