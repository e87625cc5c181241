"""How many numbers of a canary the usual signals are."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OnePerCanary:
    """A signal of one number per canary and model."""

    def size(self, classes: int, steps: int) -> int:
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OnePerStep:
    """A signal of one number per canary, model and step."""

    def size(self, classes: int, steps: int) -> int:
        return steps
