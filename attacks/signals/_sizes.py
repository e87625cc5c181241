"""How many numbers of a canary the usual signals are."""

from __future__ import annotations


class OnePerCanary:
    """A signal of one number per canary and model."""

    def size(self, classes: int, steps: int) -> int:
        """Return the largest number of values that are stored per canary and model."""
        return 1


class OnePerStep:
    """A signal of one number per canary, model and step."""

    def size(self, classes: int, steps: int) -> int:
        """Return the largest number of values that are stored per canary and model."""
        return steps
