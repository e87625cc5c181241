"""How unusual a record's hidden representation is in its class."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.data import Array, Canaries
from audit.core.models import OpenModels


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassDistances:
    """The distance of each hidden representation to the mean of the other records of the class."""

    key = "class_distances"
    source = "weights"

    def size(self, classes: int, steps: int) -> int:
        """Numbers that are kept of one canary under one model, at most."""
        return 1

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m)`; None for canaries that are gradients, and where no linear layer gives the outputs."""
        inside = None if canaries.records is None else models.representations(canaries.records)
        return None if inside is None else inside.class_distances


PLUGIN = ClassDistances
