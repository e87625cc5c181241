"""Outputs for records that a model is asked about beside, or in place of, the audited ones."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attacks.signals._hop_skip_jump import boundary_distances
from attacks.signals._sizes import OnePerCanary
from audit.core.canaries import Canaries, PlantedRecords
from audit.core.data import Array, Records
from audit.core.errors import ConfigError
from audit.core.models import Models, OpenModels
from audit.core.seeds import Seed
from audit.stats.scoring import signals

# Several views of one image, by which an adversary asks about a record more than once.
_SHIFTS = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))  # (down, right) in pixels
MOST_VIEWS = 2 * len(_SHIFTS)


def require_count(count: int, attack: str) -> None:
    """Raise `ConfigError` if there are no `count` views."""
    if not 1 <= count <= MOST_VIEWS:
        raise ConfigError(f"{attack}.augmentations is {count}; expected 1 (the record alone) to {MOST_VIEWS}")


def make_views(inputs: Array, count: int) -> Iterator[Array]:
    """The first `count` views of images `(m, channels, height, width)`: themselves, mirrored, then both moved by one pixel;
    `ConfigError` if the records are no images, or there are fewer views.

    Zeros come in where a view was moved from.

    References: Carlini et al. 2022, arXiv 2112.03570, section VI-B (queries of mirrored and shifted images).

    >>> [view[0, 0].tolist() for view in make_views(np.arange(1.0, 5.0).reshape(1, 1, 2, 2), 3)]
    [[[1.0, 2.0], [3.0, 4.0]], [[2.0, 1.0], [4.0, 3.0]], [[0.0, 1.0], [0.0, 3.0]]]
    """
    require_count(count, "an attack")
    if inputs.ndim != 4:
        raise ConfigError(
            f"augmented queries are mirrored and shifted images and the records have shape {inputs.shape[1:]}, expected "
            "(channels, height, width); set augmentations: 1"
        )
    for number in range(count):
        (down, right), mirror = _SHIFTS[number // 2], number % 2
        yield _shift(inputs[..., ::-1] if mirror else inputs, down, right)


def _shift(images: Array, down: int, right: int) -> Array:
    if not down and not right:
        return images
    output = np.zeros_like(images)
    height, width = images.shape[2:]
    rows, columns = slice(max(down, 0), height + min(down, 0)), slice(max(right, 0), width + min(right, 0))
    came_rows, came_columns = slice(max(-down, 0), height + min(-down, 0)), slice(max(-right, 0), width + min(-right, 0))
    output[:, :, rows, columns] = images[:, :, came_rows, came_columns]
    return output


@dataclass(frozen=True, slots=True, kw_only=True)
class AugmentedLogits:
    """Outputs for the record itself, mirrored, and shifted by a pixel: as many views as are asked for, the record first."""

    views: int

    source = "queries"

    @property
    def key(self) -> str:
        return f"augmented_logits_{self.views}"

    def size(self, classes: int, steps: int) -> int:
        return self.views * max(classes, 1)

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, views, m, classes)`; None if canaries are gradients."""
        if canaries.records is None:
            return None
        views = make_views(canaries.records.inputs, self.views)
        return np.stack([models.outputs(view) for view in views], axis=1)


MOST_QUERIES = 1 << 10  # queries of a canary, for the estimate of memory


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConfidences:
    """Logit-scaled confidence in the true label of each of a canary's queries."""

    key = "query_confidences"
    source = "outputs"

    def size(self, classes: int, steps: int) -> int:
        return MOST_QUERIES

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m, q)` float32; None for canaries without queries."""
        queries = canaries.payload.queries if isinstance(canaries.payload, PlantedRecords) else None
        if queries is None:
            return None
        values = signals.scaled_confidence(models.outputs(queries.inputs), queries.labels)
        return np.asarray(values.reshape(len(values), len(canaries), -1), dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedLabels:
    """The class that a model predicts for each of some views of a record: itself, mirrored, shifted by a pixel."""

    views: int = 1

    @property
    def source(self) -> str:
        return "labels" if self.views == 1 else "label_queries"

    @property
    def key(self) -> str:
        return "predicted_labels" if self.views == 1 else f"predicted_labels_{self.views}"

    def size(self, classes: int, steps: int) -> int:
        return 2 * self.views

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, views, m)` int64; None if canaries are gradients."""
        if canaries.records is None:
            return None
        inputs = canaries.records.inputs
        # of records that are no images, too, if one is asked for
        views = [inputs] if self.views == 1 else make_views(inputs, self.views)
        return np.stack([models.outputs(view).argmax(axis=-1) for view in views], axis=1)


LEVELS = (0.25, 0.5, 1.0, 2.0)  # standard deviations of the noise, in those of each feature over the records


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyLabels:
    """Share of each record's noisy copies that are classified as its label, at each of `LEVELS`.

    Every feature gets normal noise in its own units standard deviation over the canaries (of a single canary: of its own
    values). The copies are the same for all models, so that shares can be compared.

    Attributes:
        queries: copies at each level, and so a quarter of the predicted labels that are asked for each record and model.
    """

    queries: int = 16

    source = "label_queries"

    def __post_init__(self) -> None:
        if isinstance(self.queries, bool) or not isinstance(self.queries, int) or self.queries < 1:
            raise ConfigError(f"noisy_labels.queries is {self.queries!r}; expected a whole number of at least 1")

    @property
    def key(self) -> str:
        return f"noisy_labels_{self.queries}"

    def size(self, classes: int, steps: int) -> int:
        return len(LEVELS)

    def read(self, models: Models, canaries: Canaries) -> Array | None:
        """`(N, m, levels)` float32; None if canaries are no records of real features and one class each."""
        records = canaries.records
        if records is None or not records.are_classified:
            return None
        inputs = np.asarray(records.inputs)
        if inputs.dtype.kind != "f":
            return None
        shares = np.zeros((len(models), len(inputs), len(LEVELS)), dtype=np.float32)
        random = Seed(0).child("noisy labels").numpy()
        spread = inputs.std(axis=0) if len(inputs) > 1 else inputs.std()
        for number, level in enumerate(LEVELS):
            for _ in range(self.queries):
                noise = random.standard_normal(inputs.shape, dtype=np.float32)
                copies = (inputs + level * spread * noise).astype(inputs.dtype)
                # argmax takes NaN for the largest; without it a diverged model predicts class 0 throughout
                shares[:, :, number] += np.nan_to_num(models.outputs(copies)).argmax(axis=-1) == records.labels
        return shares / self.queries


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryDistances(OnePerCanary):
    """l2 distance of each record to a point of another predicted label, 0 if its own is wrong.

    Attributes:
        queries: predicted labels asked for each record and model, at most.
    """

    queries: int

    source = "label_queries"

    @property
    def key(self) -> str:
        return f"boundary_distances_{self.queries}"

    def read(self, models: OpenModels, canaries: Canaries) -> Array | None:
        """`(N, m)` float32; None if canaries are gradients."""
        if canaries.records is None:
            return None
        # one model after the other: the points asked about depend on its answers
        return np.stack([self._distances(models.alone(number), canaries.records) for number in range(len(models))])

    def _distances(self, model: Models, records: Records) -> Array:
        """Distances `(m,)` of one model; outputs that are not finite predict class 0 for everything and have none."""

        def predict(inputs: Array) -> Array:
            return np.asarray(np.nan_to_num(model.outputs(inputs)[0]).argmax(axis=-1))

        if len(np.unique(predict(records.inputs))) < 2:  # a constant model has no boundary, and the search no start
            return np.zeros(len(records), dtype=np.float32)
        seed = Seed(0).child("boundary")  # the same probes for every model, so that distances can be compared
        distances = boundary_distances(predict, records.inputs, records.labels, budget=self.queries, seed=seed)
        return distances.values.astype(np.float32)
