"""Gradients of each record of a batch in the trainable parameters of an unchanged model, by hooks on its layers.

For a linear layer the gradient of one record is the product of what goes in and what comes back: those of all records are one
batched product. For the two matrices of a low-rank adapter they are small, so nothing is gained by computing norms alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.core.errors import UnsupportedMechanism

Rule = Callable[[nn.Module, Tensor, Tensor], dict[str, Tensor]]
INSTEAD = "use a model made of linear, embedding and normalisation layers, or adapters on its linear layers"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Call:
    path: str
    layer: nn.Module
    inputs: Tensor
    output: Tensor


class RecordGradients:
    """Reads the gradient of every record off a model, in the parameters that require one.

    `UnsupportedMechanism` if one is in a layer that cannot distinguish records.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._names = {id(parameter): name for name, parameter in module.named_parameters() if parameter.requires_grad}
        self._rules: dict[str, tuple[nn.Module, Rule]] = {}
        for path, layer in module.named_modules():
            own = [value for value in layer.parameters(recurse=False) if value.requires_grad]
            if own:
                self._rules[path] = (layer, _rule(path, layer))

    def of(self, losses: Callable[[], Tensor], texts: int = 1) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of each record, `(rows,)`, and each parameter's gradients by name, `(rows, ...)` float32.

        `losses` runs the model once; `texts` rows of its inputs are one record. `UnsupportedMechanism` if a layer takes
        records together.
        """
        calls: list[_Call] = []
        hooks = [layer.register_forward_hook(_note(path, calls)) for path, (layer, _) in self._rules.items()]
        try:
            values = losses()
        finally:
            for hook in hooks:
                hook.remove()
        # in the outputs of layers: a parameter's own gradient would come summed over the records
        slopes = torch.autograd.grad(values.sum(), [call.output for call in calls], allow_unused=True)
        gradients: dict[str, Tensor] = {}
        for call, slope in zip(calls, slopes, strict=True):
            if slope is not None:
                self._add(call, slope.detach(), (len(values), texts), gradients)
        for parameter in self._module.parameters():
            name = self._names.get(id(parameter))
            if name is not None and name not in gradients:
                gradients[name] = torch.zeros(len(values), *parameter.shape, device=parameter.device)
        return values.detach(), gradients

    def _add(self, call: _Call, slope: Tensor, shape: tuple[int, int], gradients: dict[str, Tensor]) -> None:
        rows, inputs = shape[0] * shape[1], call.inputs
        if len(slope) != rows or len(inputs) != rows:
            raise UnsupportedMechanism(
                f"layer '{call.path}' ({type(call.layer).__name__}) takes {tuple(call.inputs.shape)} for {rows} texts: it "
                f"gets the tokens of all records as one list, so no record has a gradient of its own; {INSTEAD}"
            )
        _, rule = self._rules[call.path]
        if shape[1] > 1:  # the texts of a record count as one longer one
            inputs, slope = inputs.unflatten(0, shape), slope.unflatten(0, shape)
        with torch.no_grad():
            parts = rule(call.layer, inputs, slope)
        for key, part in parts.items():
            name = self._names.get(id(getattr(call.layer, key)))
            if name is not None:
                gradients[name] = gradients[name] + part if name in gradients else part


def _note(path: str, calls: list[_Call]) -> Callable[..., None]:
    def note(layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if len(inputs) != 1 or not isinstance(inputs[0], Tensor) or not isinstance(output, Tensor):
            raise UnsupportedMechanism(
                f"layer '{path}' ({type(layer).__name__}) takes more than one tensor or gives none, so its records cannot be "
                f"told apart; {INSTEAD}"
            )
        if output.requires_grad:  # nothing comes back to a layer before all trained ones
            calls.append(_Call(path=path, layer=layer, inputs=inputs[0].detach(), output=output))

    return note


def _rule(path: str, layer: nn.Module) -> Rule:
    for kind, rule in _RULES.items():
        if type(layer) is kind:  # a subclass may compute something else
            return rule
    if type(layer).__name__ == "Conv1D" and hasattr(layer, "nf"):  # GPT-2's linear layer, known by name to spare an import
        return _transposed_linear
    if any(True for _ in layer.children()):
        raise UnsupportedMechanism(
            f"layer '{path}' ({type(layer).__name__}) has parameters of its own beside those of layers inside it, and DP-SGD "
            f"cannot be exact for it here; {INSTEAD}"
        )
    return _by_single_records


def _tokens(values: Tensor) -> Tensor:
    """`(rows, T, width)` float32; a layer that is called once a record has one token."""
    return values.float().flatten(1, -2) if values.dim() > 2 else values.float().unsqueeze(1)


def _linear(layer: nn.Module, inputs: Tensor, slope: Tensor) -> dict[str, Tensor]:
    before, after = _tokens(inputs), _tokens(slope)
    parts = {"weight": after.transpose(1, 2) @ before}
    return parts | ({"bias": after.sum(1)} if layer.bias is not None else {})


def _transposed_linear(layer: nn.Module, inputs: Tensor, slope: Tensor) -> dict[str, Tensor]:
    before, after = _tokens(inputs), _tokens(slope)
    return {"weight": before.transpose(1, 2) @ after, "bias": after.sum(1)}


def _embedding(layer: nn.Module, inputs: Tensor, slope: Tensor) -> dict[str, Tensor]:
    weight: Any = layer.weight
    rows, after = inputs.flatten(1), _tokens(slope)
    total = torch.zeros(len(rows), *weight.shape, device=weight.device)
    total.scatter_add_(1, rows.unsqueeze(-1).expand(*rows.shape, weight.shape[1]), after)
    padding: Any = layer.padding_idx
    if padding is not None:
        total[:, padding] = 0.0  # torch never trains the row of the padding
    return {"weight": total}


def _layer_norm(layer: nn.Module, inputs: Tensor, slope: Tensor) -> dict[str, Tensor]:
    shape: Any = layer.normalized_shape
    eps: Any = layer.eps
    normal = F.layer_norm(inputs.float(), shape, eps=eps)
    between = tuple(range(1, slope.dim() - len(shape)))
    parts = {"weight": (slope.float() * normal).sum(between) if between else slope.float() * normal}
    return parts | ({"bias": slope.float().sum(between) if between else slope.float()} if layer.bias is not None else {})


def _by_single_records(layer: nn.Module, inputs: Tensor, slope: Tensor) -> dict[str, Tensor]:
    """The layer's own backward pass for each record alone, for layers that are not known here, such as RMSNorm."""
    own = {name: value for name, value in layer.named_parameters(recurse=False) if value.requires_grad}

    def pull(record: Tensor, back: Tensor) -> dict[str, Tensor]:
        def run(values: dict[str, Tensor]) -> Any:
            return torch.func.functional_call(layer, values, (record.unsqueeze(0),))

        backward: Any = torch.func.vjp(run, own)[1]
        parts: dict[str, Tensor] = backward(back.unsqueeze(0))[0]
        return parts

    with torch.enable_grad():
        parts = torch.func.vmap(pull)(inputs, slope)
    return {name: part.detach().float() for name, part in parts.items()}


_RULES: dict[type[nn.Module], Rule] = {nn.Linear: _linear, nn.Embedding: _embedding, nn.LayerNorm: _layer_norm}
