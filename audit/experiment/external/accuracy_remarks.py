"""Remarks on a given model that treats both sides alike: a split of the training records made after training."""

import math

import numpy as np

from audit.core.data import Array
from audit.core.phrases import phrase
from audit.core.preflight import LIKE_SIDES, Preflight
from audit.experiment.describe.leave_one_out_summary import LEAST_REFERENCES
from audit.stats.scoring import usage

LOOKS_TRAINED = 0.98  # share of right answers from which on a side looks trained on
_CONFIDENCE = 0.95
_FEWEST = 30  # nonmembers of the target, below which a reference's rates on them say little
_SURE_SHARE, _MOST_STRANGERS = 0.5, 0.1
_GAP_ERRORS = 3.0


def like_sides(preflight: Preflight, losses: Array, included: Array, *, by_coins: bool) -> list[str]:
    """Return what speaks for nonmembers that were trained on, or that nothing here could speak against it.

    Outputs and labels of one model cannot tell training records from a model that generalises (docs/theory/reading.md). So a
    target alone is remarked on if both sides are nearly always right, and otherwise asked about if sides are alike.

    Args:
        losses: `(1 + k, n)`, the target's first; `included` `(1 + k, n)` bool.
        by_coins: recorded coins decided membership, so that references alone may speak against it.
    """
    share = limit_trained_share(losses, included, ~included[0])[0]
    highest_share = limit_trained_share(losses, included, included[0])[1]
    if highest_share < 1 - _MOST_STRANGERS and not preflight.doubt:
        return [
            phrase(
                "Look first: some losses on the members are those of references on records that they were not "
                "trained on: at most {share} of the members were trained on, if target and references are trained "
                "alike. Were all members in its training?",
                share=f"{highest_share:.0%}",
            )
        ]
    if share > _SURE_SHARE:
        return [
            phrase(
                "The target's losses on the nonmembers are those of references on records that they were trained on: at least "
                "{share} of the nonmembers were, if target and references are trained alike; {like}. Give records that the "
                "model was never trained on.",
                share=f"{share:.0%}",
                like=LIKE_SIDES,
            )
        ]
    inside, outside = preflight.members, preflight.nonmembers
    if by_coins or preflight.measure != "accuracy" or inside is None or outside is None or preflight.doubt:
        return []
    shares = {"members": f"{inside:.1%}", "nonmembers": f"{outside:.1%}"}
    if min(inside, outside) >= LOOKS_TRAINED and inside - outside <= 1 - LOOKS_TRAINED:
        return [
            phrase(
                "The model is right on {members} of the members and {nonmembers} of the nonmembers: {like}. If nonmembers "
                "were split from the training records after training, no figure here says anything; give records that the "
                "model was never trained on. If they are such records, the model generalises.",
                **shares,
                like=LIKE_SIDES,
            )
        ]
    members = int(included[0].sum())
    error = math.sqrt(inside * (1 - inside) / members + outside * (1 - outside) / (included.shape[1] - members))
    is_learned = outside > (preflight.baseline or 0.0) + _GAP_ERRORS * error
    if len(included) > LEAST_REFERENCES or not is_learned or abs(inside - outside) > _GAP_ERRORS * error:
        return []
    return [
        phrase(
            "The model is right on {members} of the members and {nonmembers} of the nonmembers, alike within "
            "chance: so is a model that generalises, and so are two parts of its training records. Nothing of "
            "one model tells these from each other; references that were trained like it do.",
            **shares,
        )
    ]


def limit_trained_share(losses: Array, included: Array, side: Array) -> tuple[float, float]:
    """Return limits of the share of a side that the target was trained on, by its references; 0 and 1 if that is unknown.

    A record's loss is compared with its mean over references that were not trained on it, so that hard and mislabelled
    records do not matter. The limits are those of `usage_share`, at 95 %, for a target that is trained like its references.

    Args:
        losses: `(1 + k, n)`, the target's first; `included` `(1 + k, n)` bool; `side` `(n,)` bool.
    """
    if len(losses) <= LEAST_REFERENCES:
        return 0.0, 1.0
    values, coins = np.asarray(losses, np.float64)[:, side], included[:, side]
    means, counts = np.zeros(values.shape), np.zeros(values.shape, int)
    for row in range(len(values)):
        rivals = [rival for rival in range(1, len(values)) if rival != row]
        counts[row] = (~coins[rivals]).sum(axis=0)
        means[row] = (values[rivals] * ~coins[rivals]).sum(axis=0) / np.maximum(counts[row], 1)
    is_known = (counts > 0).all(axis=0)
    if is_known.sum() < _FEWEST:
        return 0.0, 1.0
    drops, coins = (means - values)[:, is_known], coins[:, is_known]
    if (coins[1:].all(axis=1) | ~coins[1:].any(axis=1)).any():
        return 0.0, 1.0
    thresholds = usage.candidate_thresholds(drops)
    fprs, tprs, _ = usage.member_rates(drops[1:], coins[1:], thresholds)
    share = usage.share_from(drops[0], thresholds)
    return usage.estimate_share(share, fprs, tprs, _CONFIDENCE, drops.shape[1])[1:]
