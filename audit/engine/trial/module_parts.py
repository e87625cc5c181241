"""Parts of a module that many models at once cannot have for themselves, refused by a sentence with the layer's name."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from audit.core.errors import ConfigError
from audit.engine.gradients.trials import layer_title


def refuse_parts(module: nn.Module) -> None:
    """Raise `ConfigError` naming the first parameter or layer that cannot be trained as one of many."""
    refuse_no_shape(module)
    for path, layer in module.named_modules():
        layer_name = layer_title(path, layer)
        for name, parameter in layer.named_parameters(recurse=False):
            _refuse_parameter(layer_name, name, parameter)
        if isinstance(layer, nn.DataParallel | nn.parallel.DistributedDataParallel):
            raise ConfigError(
                f"{layer_name} spreads one model over devices, and an audit trains many models side by side; return the module "
                "inside of it (its attribute 'module')"
            )
        _refuse_computed_attribute(layer_name, layer)
        if "forward" in vars(layer):
            raise ConfigError(
                f"{layer_name}: forward() was replaced on the object, which refers to this one model wherever it is copied; "
                "return the plain module, or put the change into a subclass"
            )
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ConfigError(f"the model ({type(module).__name__}) has no trainable parameter")
    _refuse_common_memory(module)


def refuse_no_shape(module: nn.Module) -> None:
    """Raise `ConfigError` naming the first parameter or buffer of a lazy layer that has never been called."""
    for path, layer in module.named_modules():
        for name, value in (*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)):
            if is_lazy(value):
                raise ConfigError(
                    f"{layer_title(path, layer)}: '{name}' has no shape yet; run one batch through the model in the factory"
                )


def _refuse_parameter(layer_name: str, name: str, parameter: nn.Parameter) -> None:
    if parameter.requires_grad and parameter.is_complex():
        raise ConfigError(
            f"{layer_name}: '{name}' is complex, and clipping is of real numbers; hold its real and imaginary part "
            "as two parameters and join them by torch.complex in forward()"
        )
    if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
        raise ConfigError(
            f"{layer_name}: a hook is attached to the gradient of '{name}', which gradients of single records do not pass "
            "through; take it away (the change belongs into forward(), or into the optimiser)"
        )


def _refuse_computed_attribute(layer_name: str, layer: nn.Module) -> None:
    """Raise `ConfigError` for an attribute that was computed from parameters."""
    for name, value in vars(layer).items():
        if isinstance(value, Tensor) and value.grad_fn is not None:
            raise ConfigError(
                f"{layer_name}: '{name}' was computed from parameters and lies in an attribute, which no copy of the model can "
                "hold, and an audit trains copies; compute it in forward(), or by torch.nn.utils.parametrize"
            )


def _refuse_common_memory(module: nn.Module) -> None:
    """Raise `ConfigError` if two parameters, or one and a buffer, are different views of the same numbers."""
    of_storage: dict[int, list[tuple[str, Tensor]]] = {}
    for name, value in _strided(module):
        tensors = of_storage.setdefault(value.untyped_storage().data_ptr(), [])
        for peer, earlier in tensors:
            if (value.requires_grad or earlier.requires_grad) and _overlap(value, earlier):
                raise ConfigError(
                    f"the model ({type(module).__name__}): '{name}' and '{peer}' are views of the same numbers, which many "
                    "models at once would train apart; make them one parameter (decoder.weight = encoder.weight), or compute "
                    "with it in forward() (F.linear(x, encoder.weight.t()))"
                )
        tensors.append((name, value))


def _strided(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """All parameters, then all buffers, each tensor once, that are in memory."""
    identities: set[int] = set()
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if id(value) not in identities and value.layout is torch.strided and not value.is_meta and value.numel():
            identities.add(id(value))
            yield name, value


def _overlap(left: Tensor, right: Tensor) -> bool:
    """True if the bytes from the first to the last number of one meet those of the other."""
    (first, last), (start, stop) = _extent(left), _extent(right)
    return first < stop and start < last


def _extent(value: Tensor) -> tuple[int, int]:
    """First byte of a tensor, and the one behind its last."""
    reach = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    return value.data_ptr(), value.data_ptr() + (reach + 1) * value.element_size()
