"""A classifier of XGBoost in its own JSON or UBJSON form (`booster.save_model`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from audit.core.errors import DataError
from audit.subjects._confined import ConfinedFile, Model, output_logits, unreadable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class XgBoost(ConfinedFile):
    """A classifier of XGBoost in its own JSON or UBJSON form (`booster.save_model`)."""

    suffixes: ClassVar[tuple[str, ...]] = (".json", ".ubj")
    library: ClassVar[str] = "xgboost"

    @staticmethod
    def load(content: bytes, name: str, device: torch.device) -> Model:
        """The classifier of an XGBoost file.

        Raises:
            DataError: the file is damaged, or holds no classifier.
        """
        import json

        import xgboost as library

        booster = library.Booster()
        try:
            booster.load_model(bytearray(content))
        except (library.core.XGBoostError, ValueError) as error:
            raise unreadable(name, "xgboost", error) from error
        objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
        if objective not in ("binary:logistic", "binary:logitraw", "multi:softprob", "multi:softmax"):
            raise DataError(f"{name} has the objective {objective}; expected a classifier, binary or multi")
        return lambda batch: output_logits(booster.predict(library.DMatrix(batch.numpy()), output_margin=True))


PLUGIN = XgBoost
