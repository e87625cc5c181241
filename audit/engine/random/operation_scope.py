"""A scope that sees every operation of torch run in it."""

from torch.utils._python_dispatch import TorchDispatchMode


class OperationScope(TorchDispatchMode):
    """What a dispatch mode is, without loading torch's compiler; `__torch_dispatch__` is left to those that look."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: torch would load its compiler, which takes over a second, to keep it away from `__torch_dispatch__`."""
        return False
