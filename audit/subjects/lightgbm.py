"""A classifier of LightGBM in its own text form (`booster.save_model`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from audit.core.errors import DataError
from audit.subjects._confined import ConfinedFile, Model, output_logits, unreadable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LightGbm(ConfinedFile):
    """A classifier of LightGBM in its own text form (`booster.save_model`)."""

    suffixes: ClassVar[tuple[str, ...]] = (".txt",)
    library: ClassVar[str] = "lightgbm"

    @staticmethod
    def load(content: bytes, name: str, device: torch.device) -> Model:
        """The classifier of a LightGBM text file.

        Raises:
            DataError: the file is damaged, or holds no classifier.
        """
        import lightgbm as library

        text = content.decode("utf-8", errors="replace")
        last = text.rstrip().rpartition("\n")[2]
        if not text.startswith("tree\n") or "\nend of trees\n" not in text or not last.startswith("pandas_categorical:"):
            raise DataError(f"{name} is not a complete model of LightGBM; expected what booster.save_model writes")
        try:
            booster = library.Booster(model_str=text, params={"verbosity": -1})
        except library.basic.LightGBMError as error:
            raise unreadable(name, "lightgbm", error) from error
        objective = next((line for line in text.splitlines() if line.startswith("objective=")), "objective=nothing")
        if not objective.startswith(("objective=binary", "objective=multiclass")):
            raise DataError(f"{name} has the {objective.replace('=', ' ')}; expected a classifier, binary or multiclass")

        def call(batch: torch.Tensor) -> torch.Tensor:
            try:
                return output_logits(booster.predict(batch.numpy(), raw_score=True))
            except library.basic.LightGBMError as error:
                raise RuntimeError(str(error)) from error

        return call


PLUGIN = LightGbm
