"""Which share of the audited records a model was trained on, estimated from the rates of an attack on references."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attacks.signals import _reading as reading
from audit.core import checks
from audit.core.data import Records
from audit.core.errors import DataError
from audit.core.evaluation import Usage
from audit.core.protocols import Attack
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.describe.leave_one_out import leave_one_out
from audit.experiment.describe.leave_one_out_summary import CONFIDENCE, LEAST_REFERENCES, make_usage
from audit.experiment.external import external_models
from audit.experiment.external.external_models import References
from audit.experiment.external.label_reading import find_class_names
from audit.experiment.games.attack import canary_scores
from audit.stats.scoring import usage


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSettings:
    """By which attack a share is estimated, with which confidence its limits hold, and the seed of attacks that draw."""

    attack: Attack
    seed: Seed
    confidence: float = CONFIDENCE


def estimate_usage(target: Any, records: Records, references: References, settings: UsageSettings) -> Usage:
    """Return which share of these records a model was trained on, from references whose records are known and its own none.

    Each reference is attacked with the others as its references, the target with all of them. `DataError` for references that
    are too few or of other records, and for answers that do not fit the records.
    """
    attack, seed, confidence = settings.attack, settings.seed, settings.confidence
    inputs, labels = records.inputs, records.labels
    checks.confidence(confidence)
    _check_references(references, len(inputs))
    answers = external_models.query_model(target, inputs, labels)
    models = external_models.join(answers, references, inputs, labels, find_class_names(target))
    read = np.asarray(answers.labels)
    classes = read if read.ndim == 1 and models.logits is not None else None
    form = "losses" if models.logits is None else "logits"
    if attack.needs.of(models.released) is None:
        raise DataError(f"the attack needs more than {', '.join(sorted(models.released))} of the models; use loss or lira")
    signals = {form: np.asarray(models.losses if models.logits is None else models.logits)}
    everyone = reading.with_confidences(View(signals=signals), classes)
    own = View(signals={key: array[1:] for key, array in everyone.signals.items()}, included=references.included)
    view = View(signals={key: array[0] for key, array in everyone.signals.items()}, labels=classes)
    values = leave_one_out(attack, own, classes, seed.child("references")).values
    target_values = canary_scores(attack, view, own, seed.child("target"))
    thresholds = usage.candidate_thresholds(values)
    fprs, tprs, _ = usage.member_rates(values, references.included, thresholds)
    share = usage.share_from(target_values, thresholds)
    return make_usage(usage.estimate_share(share, fprs, tprs, confidence, len(inputs)), confidence, len(references))


def _check_references(references: References, count: int) -> None:
    if len(references) < LEAST_REFERENCES or references.included.shape[1] != count:
        raise DataError(
            f"references.included has shape {references.included.shape} for {count} records; expected at least "
            f"{LEAST_REFERENCES} references, (k, n), with a column for each record"
        )
    sides = references.included.sum(axis=1)
    bad = np.flatnonzero((sides == 0) | (sides == count))
    if len(bad):
        raise DataError(
            f"reference {bad[0]} was trained on {sides[bad[0]]} of {count} records; expected some but not all, so that it "
            "has a true and a false positive rate"
        )
