"""A classifier of XGBoost in its own JSON or UBJSON form (`booster.save_model`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.subjects._confined import ConfinedFile


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class XgBoost(ConfinedFile):
    """A classifier of XGBoost in its own JSON or UBJSON form (`booster.save_model`)."""

    suffixes: ClassVar[tuple[str, ...]] = (".json", ".ubj")
    form: ClassVar[str] = "xgboost"
    library: ClassVar[str] = "xgboost"


PLUGIN = XgBoost
