"""A scikit-learn estimator or pipeline written by `skops.io.dump`: never a pickle, and only types that skops trusts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from audit.core.errors import DataError
from audit.subjects._confined import ConfinedFile, Model, output_logits, unreadable
from audit.subjects._loading import DescribedModel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Skops(ConfinedFile):
    """A scikit-learn estimator or pipeline written by `skops.io.dump`: never a pickle, and only types that skops trusts."""

    suffixes: ClassVar[tuple[str, ...]] = (".skops",)
    library: ClassVar[str] = "skops"

    @staticmethod
    def load(content: bytes, name: str, device: torch.device) -> Model:
        """The estimator of a `.skops` file.

        Raises:
            DataError: the file is damaged, holds types that skops does not trust, or no classifier.
        """
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
        methods = [
            getattr(estimator, method) for method in ("predict_proba", "decision_function") if hasattr(estimator, method)
        ]
        if not methods:
            raise DataError(
                f"{name} holds a {type(estimator).__name__}; expected a classifier with predict_proba or decision_function"
            )
        names = getattr(estimator, "classes_", None)
        classes = names.tolist() if isinstance(names, np.ndarray) and names.ndim == 1 else None
        return DescribedModel(lambda batch: output_logits(methods[0](batch.numpy())), {"classes": classes})


PLUGIN = Skops
