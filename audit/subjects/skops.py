"""A scikit-learn estimator or pipeline written by `skops.io.dump`: never a pickle, and only types that skops trusts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.subjects._confined import ConfinedFile


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Skops(ConfinedFile):
    """A scikit-learn estimator or pipeline written by `skops.io.dump`: never a pickle, and only types that skops trusts."""

    suffixes: ClassVar[tuple[str, ...]] = (".skops",)
    form: ClassVar[str] = "skops"
    library: ClassVar[str] = "skops"


PLUGIN = Skops
