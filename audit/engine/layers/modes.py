"""The two modes of a model: evaluation, and training as its maker left it."""

from torch import nn


class Modes:
    """Switches `module` from its layers' modes of training to evaluation and back."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._training = [(layer, layer.training) for layer in module.modules()]
        self._evaluates = False

    def train(self) -> None:
        if self._evaluates:
            self._module.train()
            for layer, mode in self._training:
                layer.training = mode
            self._evaluates = False

    def evaluate(self) -> None:
        self._module.eval()
        self._evaluates = True
