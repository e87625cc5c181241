"""A classifier of LightGBM in its own text form (`booster.save_model`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.subjects._confined import ConfinedFile


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LightGbm(ConfinedFile):
    """A classifier of LightGBM in its own text form (`booster.save_model`)."""

    suffixes: ClassVar[tuple[str, ...]] = (".txt",)
    form: ClassVar[str] = "lightgbm"
    library: ClassVar[str] = "lightgbm"


PLUGIN = LightGbm
