"""How much of a data set a model was trained on, asked by a user who does not know which records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from audit.core.data import Array
    from audit.core.evaluation import Usage
    from audit.core.protocols import Target
    from audit.experiment.external.inspection import References, ReferenceTraining


def dataset_usage(
    model: Callable[..., Any] | Target,
    inputs: Array,
    labels: Array,
    references: References | ReferenceTraining,
    *,
    attack: str = "lira",
    confidence: float = 0.95,
    seed: int = 0,
) -> Usage:
    """Return which share of a data set a model was trained on, with limits; no one needs to know which records.

    References are models of your own, trained as the model was, each on records of the data set that coins chose. Their false
    and true positive rates debias the share of records that the attack calls members of the model. The limits hold for a model
    that was trained as the references were, and with records of the data set like the others; they count each reference as
    one observation. On another training (more epochs, a larger network) they need not hold.

    Args:
        model: as in `audit.check`.
        inputs: `(n, ...)` the data set, as the model takes it.
        labels: `(n,)`.
        references: at least three, with a column of memberships for each record; or how to train them.
        attack: name of a scorer, or `package.module:Class` of your own.

    Raises:
        ConfigError: an attack that does not exist.
        DataError: records or references that cannot be used; the message names what to do.

    References:
        Tong et al. 2025, "How much of my dataset did you use? Quantitative data usage inference in machine learning".
    """
    import numpy as np

    from audit.core.data import Records
    from audit.core.seeds import Seed
    from audit.data.loaders import array
    from audit.experiment.external.dataset_usage import UsageSettings, estimate_usage
    from audit.experiment.external.inspection import ReferenceTraining
    from audit.experiment.external.reference_training import TrainingRecords
    from audit.experiment.games.attack import build_attack

    records, truths = array(inputs), np.asarray(array(labels))
    audited = Records(inputs=records, labels=truths)  # refuses inputs and labels of other lengths
    stream = Seed(seed).child("dataset usage")
    if isinstance(references, ReferenceTraining):
        training_records = TrainingRecords(inputs=records, original_labels=truths, labels=truths)
        references = references.references(training_records, 0.5, stream.child("trained references"))
    scorer = build_attack({"kind": attack})
    settings = UsageSettings(attack=scorer, seed=stream, confidence=confidence)
    return estimate_usage(model, audited, references, settings)
