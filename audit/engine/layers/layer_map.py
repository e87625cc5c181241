"""Which layers the ensemble covers, and what takes their place."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from audit.engine.layers import attention, recurrent
from audit.engine.layers.convolution import convolution_layer
from audit.engine.layers.layers import LinearLayer, Tape
from audit.engine.layers.layers_elementwise import BagLayer, DropoutLayer, LookupLayer, ScaleLayer, SlopeLayer, rms_norm
from audit.engine.layers.parameter_facts import ParameterOwner
from audit.engine.parameter_layout import Slot

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_PLAIN = (nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, nn.PReLU)

_MAKERS: Mapping[type[nn.Module], Callable[..., ParameterOwner]] = {
    nn.MultiheadAttention: attention.AttentionLayer,
    **dict.fromkeys(_CONVOLUTIONS, convolution_layer),
    nn.Embedding: LookupLayer,
    nn.EmbeddingBag: BagLayer,
    **dict.fromkeys(recurrent.KINDS, recurrent.RecurrentLayer),
    **dict.fromkeys(recurrent.CELLS, recurrent.CellLayer),
}
# what has a rule if its attributes allow it
_COVERS: Mapping[type[nn.Module], Callable[[Any], bool]] = {
    nn.MultiheadAttention: attention.covers,
    **dict.fromkeys(recurrent.KINDS, recurrent.covers),
}


def has_rule(module: nn.Module) -> bool:
    """True if `ensemble_layer` has an exact replacement for this one layer (its type, not a subclass of it)."""
    if isinstance(module, nn.Embedding | nn.EmbeddingBag) and type(module) in _MAKERS:
        bag_with_padding = type(module) is nn.EmbeddingBag and module.padding_idx is not None  # which its mean does not count
        return module.max_norm is None and not module.scale_grad_by_freq and not module.sparse and not bag_with_padding
    if type(module) in _COVERS:
        return _COVERS[type(module)](module)
    if type(module) in BATCH_NORMS:
        return not module.training and module.running_mean is not None
    if type(module) in INSTANCE_NORMS:
        return module.running_mean is None
    return type(module) in (*_PLAIN, *_CONVOLUTIONS, *recurrent.CELLS)


def ensemble_layer(plain: nn.Module, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]) -> ParameterOwner:
    """The layer that does for N models what `plain`, which must be `has_rule`, does for one."""
    make = _MAKERS.get(type(plain))
    if make is not None:
        return make(plain, tape, values, slots)
    if isinstance(plain, nn.Linear):
        return LinearLayer(plain.out_features, tape, values, slots)
    if isinstance(plain, nn.PReLU):
        return SlopeLayer(tape, values, slots)
    if type(plain) in (nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, *BATCH_NORMS, *INSTANCE_NORMS):
        channels_first = type(plain) not in (nn.LayerNorm, nn.RMSNorm)
        return ScaleLayer(_normalisation(plain, values), channels_first, tape, values, slots)
    raise TypeError(f"no ensemble layer for {type(plain).__name__}; ask covered() first")


def _normalisation(plain: nn.Module, values: Mapping[str, Tensor]) -> Callable[[Tensor], Tensor]:
    """Return what `plain` does before its scale and shift."""
    match plain:
        case nn.GroupNorm():
            return functools.partial(F.group_norm, num_groups=plain.num_groups, eps=plain.eps)
        case nn.LayerNorm():
            shape, like = plain.normalized_shape, next(iter(values.values()))
            scale, shift = like.new_ones(shape), like.new_zeros(shape)  # twice as fast as without, and the same bits
            return functools.partial(F.layer_norm, normalized_shape=list(shape), weight=scale, bias=shift, eps=plain.eps)
        case nn.RMSNorm():
            return functools.partial(rms_norm, shape=plain.normalized_shape, eps=plain.eps)
        case nn.InstanceNorm1d() | nn.InstanceNorm2d() | nn.InstanceNorm3d():
            return functools.partial(F.instance_norm, eps=plain.eps)
        case nn.BatchNorm1d(running_mean=Tensor() as mean, running_var=Tensor() as variance):  # in evaluation mode
            pass
        case nn.BatchNorm2d(running_mean=Tensor() as mean, running_var=Tensor() as variance):
            pass
        case _:
            raise TypeError(f"no normalisation in {type(plain).__name__}; ask covered() first")
    like = next(iter(values.values()))
    return functools.partial(F.batch_norm, running_mean=mean.to(like), running_var=variance.to(like), eps=plain.eps)


def has_hooks(layer: nn.Module) -> bool:
    """True if functions are attached to this one layer that may change what it computes."""
    return bool(layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks or layer._backward_pre_hooks)


DROPOUTS: Mapping[type[nn.Module], int] = {nn.Dropout: 0, nn.Dropout1d: 1, nn.Dropout2d: 2, nn.Dropout3d: 3}


def is_dropout(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.dropout._DropoutNd)


def has_random_layers(module: nn.Module) -> bool:
    """True if layers of `module` draw random numbers in its modes of training."""
    own = (nn.MultiheadAttention, nn.RNNBase)
    return any(
        (is_dropout(layer) and getattr(layer, "p") > 0.0) or (isinstance(layer, own) and layer.dropout > 0.0)  # noqa: B009
        for layer in module.modules()
        if layer.training
    )


def dropout_layer(plain: nn.Module, tape: Tape) -> DropoutLayer | None:
    """The dropout of N models that does what `plain` does for one, or None if there is none for its kind."""
    axes = DROPOUTS.get(type(plain))
    if axes is None:
        return None
    layer = DropoutLayer(float(getattr(plain, "p")), axes, tape)  # noqa: B009
    layer.training = plain.training
    return layer
