"""Wrong steps of DP-SGD, and a correct one, by name; a third party adds one with one file."""

from types import ModuleType

from audit.plugins import name_classes
from audit.zoo._reference import DpSgdStep
from audit.zoo.steps import _batches, _clipping, _noise_law, _noise_size


def _steps(module: ModuleType) -> list[type[DpSgdStep]]:
    return [own for own in vars(module).values() if isinstance(own, type) and own.__module__ == module.__name__]


PLUGINS = name_classes(*(own for module in (_batches, _clipping, _noise_law, _noise_size) for own in _steps(module)))
