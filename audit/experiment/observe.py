"""What is read off trained models: every signal that a game's access shows, once, for all attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attacks.signals.augmented import views_of
from attacks.signals.boundary import boundary_distances
from audit.core.data import Array, Canaries, Records, TrainedModels
from audit.core.errors import ObservationError
from audit.core.game import Access
from audit.core.protocols import Attack, TrainingJob
from audit.core.seeds import Seed
from audit.stats.scoring import signals

if TYPE_CHECKING:
    from audit.engine import observe

OF_WEIGHTS = ("weight_products", "gradient_norms", "last_gradient_norms", "class_distances", "hidden")
OF_CANARIES = ("canary_logits", "augmented_logits", "products", *OF_WEIGHTS, "trajectory", "boundary")
SIGNALS = (*OF_CANARIES, "test_logits")
_SINGLE = 16  # lengths and distances, and losses at checkpoints
_WIDEST = 256  # columns of a hidden representation, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is read off models only where an attack asks for it.

    Attributes:
        queries: label queries a record for the distance to the decision boundary, 0 to leave it out.
        hidden: keep the records' hidden representations.
        augmentations: views of each record to keep the outputs for, 1 for the record alone.
    """

    queries: int = 0
    hidden: bool = False
    augmentations: int = 1

    @classmethod
    def by(cls, attacks: Sequence[Attack]) -> Asked:
        """All that some attacks ask for."""
        needs = [attack.needs for attack in attacks]
        return cls(
            queries=max((one.queries for one in needs), default=0),
            hidden=any(one.hidden for one in needs),
            augmentations=max((one.augmentations for one in needs), default=1),
        )

    def most_kept(self, classes: int) -> int:
        """The most numbers that are kept of one canary under one model, products of its steps apart."""
        views = 1 + (self.augmentations if self.augmentations > 1 else 0)
        return max(classes, 1) * views + _SINGLE + (_WIDEST if self.hidden else 0)


def observed(job: TrainingJob, canaries: Canaries, models: TrainedModels, asked: Asked) -> dict[str, Array]:
    """The signals of some models, by name, each with a leading axis of models.

    Args:
        job: that trained them.
        canaries: each once, however many copies of it the job planted.
        asked: what is read besides.
    """
    trained = _loaded(job, models.weights)
    value: dict[str, Array] = {"test_logits": trained.outputs(job.dataset.test.inputs)}
    if canaries.records is None:
        return {**value, **_of_gradients(job, canaries, models)}
    value["canary_logits"] = trained.outputs(canaries.records.inputs)
    if not job.dataset.classes:
        return value
    if asked.augmentations > 1:
        views = [trained.outputs(view) for view in views_of(canaries.records.inputs, asked.augmentations)]
        value["augmented_logits"] = np.stack(views, axis=1)
    if job.access.shows(Access.FINAL_WEIGHTS):
        value["gradient_norms"] = trained.gradient_norms(canaries.records)
        inside = trained.representations(canaries.records)
        if inside is not None:
            value |= {"last_gradient_norms": inside.last_gradient_norms, "class_distances": inside.class_distances}
            value |= {"hidden": inside.hidden} if asked.hidden else {}
    if models.checkpoints:
        outputs = [_loaded(job, one).outputs(canaries.records.inputs) for one in models.checkpoints]
        losses = [signals.cross_entropy(one, canaries.records.labels) for one in outputs]
        value["trajectory"] = np.stack(losses, axis=-1).astype(np.float32)
    if asked.queries:
        value["boundary"] = np.stack(
            [_boundary(job, models.weights, canaries.records, asked.queries, n) for n in range(len(models))]
        )
    return value


def _loaded(job: TrainingJob, weights: Mapping[str, Array]) -> observe.Trained:
    """The models with these weights, ready to be asked."""
    from audit.engine import observe

    return observe.Trained(job.model, weights, job.dataset.test.inputs[:2], job.dataset.classes, device=job.device)


def _of_gradients(job: TrainingJob, canaries: Canaries, models: TrainedModels) -> dict[str, Array]:
    """What shows of canaries that are gradients."""
    from audit.engine import observe

    value: dict[str, Array] = {}
    if job.access is Access.ALL_STEPS:
        if models.products is None:
            raise ObservationError("the trainer recorded no gradient products; this game needs all steps")
        value["products"] = models.products
    if job.access.shows(Access.FINAL_WEIGHTS) and models.initial is not None:
        value["weight_products"] = observe.weight_products(models.initial, models.weights, canaries)
    return value


def _boundary(job: TrainingJob, weights: Mapping[str, Array], records: Records, queries: int, model: int) -> Array:
    """Distances `(m,)` of one model; a model whose outputs are not finite predicts class 0 for everything and has none."""
    trained = _loaded(job, {name: value[model : model + 1] for name, value in weights.items()})

    def predict(inputs: Array) -> Array:
        return np.asarray(np.nan_to_num(trained.outputs(inputs)[0]).argmax(axis=-1))

    seen = predict(records.inputs)
    if len(np.unique(seen)) < 2:
        return np.zeros(len(records), dtype=np.float32)
    seed = Seed(0).child("boundary")  # the same probes for every model, so that distances can be compared
    found = boundary_distances(predict, records.inputs, records.labels, budget=queries, seed=seed)
    return found.values.astype(np.float32)
