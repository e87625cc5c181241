"""What planted records made models answer, beside what the models still know and what the claim leaves such records."""

import numpy as np

from attacks.signals import _reading as reading
from audit.core.data import Dataset
from audit.core.game_results import TriggerResult
from audit.experiment.games.hypothesis import ClaimLimits
from audit.experiment.games.observed import GameModels
from audit.experiment.games.utility_figures import ACCURACY


def trigger_result(models: GameModels, dataset: Dataset, claim_limits: ClaimLimits) -> TriggerResult | None:
    """Return the figures of a game of backdoors over its targets that stayed finite; None for other games, or without such."""
    assignment = models.prepared_game.assignment
    canaries, observed = assignment.canaries, models.observed
    finite = np.flatnonzero(~observed.diverged[: assignment.runs])
    if canaries.payload.aim != "backdoor" or canaries.records is None or not len(finite):
        return None
    classes = reading.predicted_classes(observed.signals, finite)
    if classes is None:
        return None
    is_hit = classes == canaries.records.labels
    included = assignment.included[finite]
    with_records, hits_with = int(included.sum()), int((is_hit & included).sum())
    without_records, hits_without = int((~included).sum()), int((is_hit & ~included).sum())
    together = ClaimLimits(claim=claim_limits.claim).of_group(canaries.payload.copies)
    accuracy = None
    if ACCURACY in observed.test_figures:
        counts = np.rint(observed.test_figures[ACCURACY][finite] * len(dataset.test))  # whole again: the mean of all at once
        accuracy = float(counts.sum() / (len(finite) * len(dataset.test)))
    return TriggerResult(
        records=canaries.payload.copies,
        with_records=with_records,
        hits_with=hits_with,
        without_records=without_records,
        hits_without=hits_without,
        accuracy=accuracy,
        # no attacker brings an answer that is given with chance q above 1 - f(q), f of the group (Ma, Zhu and Hsu 2019, arXiv
        # 1903.09860; docs/theory/groups.md, "What a claim leaves poisoned records")
        allowed=None if together.claim is None else float(together.tpr(hits_without / max(without_records, 1))),
    )
