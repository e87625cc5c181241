"""A classifier of LightGBM in its own text form (`booster.save_model`)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from audit.core.errors import DataError
from audit.subjects._confined import ConfinedFile, Model, output_logits, unreadable
from audit.subjects._loading import DescribedModel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LightGbm(ConfinedFile):
    """A classifier of LightGBM in its own text form (`booster.save_model`)."""

    suffixes: ClassVar[tuple[str, ...]] = (".txt",)
    library: ClassVar[str] = "lightgbm"

    @staticmethod
    def load(content: bytes, name: str, device: torch.device) -> Model:
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class XgBoost(ConfinedFile):
    """A classifier of XGBoost in its own JSON or UBJSON form (`booster.save_model`)."""

    suffixes: ClassVar[tuple[str, ...]] = (".json", ".ubj")
    library: ClassVar[str] = "xgboost"

    @staticmethod
    def load(content: bytes, name: str, device: torch.device) -> Model:
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Skops(ConfinedFile):
    """A scikit-learn estimator or pipeline written by `skops.io.dump`: never a pickle, and only types that skops trusts."""

    suffixes: ClassVar[tuple[str, ...]] = (".skops",)
    library: ClassVar[str] = "skops"

    @staticmethod
    def load(content: bytes, name: str, device: torch.device) -> Model:
        import zipfile

        from skops.io import get_untrusted_types, loads

        try:
            untrusted = get_untrusted_types(data=content)
            if untrusted:
                raise DataError(
                    f"{name} holds {', '.join(sorted(untrusted)[:5])}, which skops does not trust; it is not loaded"
                )
            estimator = loads(content, trusted=[])
        except (zipfile.BadZipFile, ValueError, TypeError, KeyError, AttributeError, ImportError, OSError, EOFError) as error:
            raise unreadable(name, "skops", error) from error
        answers = ("predict_proba", "decision_function")
        methods = [getattr(estimator, method) for method in answers if hasattr(estimator, method)]
        if not methods:
            raise DataError(
                f"{name} holds a {type(estimator).__name__}; expected a classifier with predict_proba or decision_function"
            )
        names = getattr(estimator, "classes_", None)
        classes = names.tolist() if isinstance(names, np.ndarray) and names.ndim == 1 else None
        return DescribedModel(lambda batch: output_logits(methods[0](batch.numpy())), {"classes": classes})
