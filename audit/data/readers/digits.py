"""The handwritten digits inside scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from audit.data.source import Part, Scaling, Source, array_sha256, class_labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Digits:
    """1,797 handwritten digits `(1, 8, 8)` that come with scikit-learn, divided by 16."""

    is_public: ClassVar[bool] = True

    def read(self) -> Source:
        """The whole set; no test its own part."""
        from sklearn.datasets import load_digits

        bunch = load_digits()
        images, labels = np.asarray(bunch.images), np.asarray(bunch.target)
        return Source(
            origin="UCI optical recognition of handwritten digits (test part), embedded in scikit-learn; divided by 16",
            sha256=array_sha256(images, labels),
            classes=10,
            main=Part(inputs=images[:, None], labels=class_labels(labels, 10, "digits")),
            scaling=Scaling(offset=np.zeros(()), unit=np.array(16.0)),
        )


PLUGIN = Digits
