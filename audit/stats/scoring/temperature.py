"""The temperature at which ratios of probabilities distinguish members best, chosen on reference models alone."""

from collections.abc import Callable

import numpy as np

from audit.stats.arrays import AnyArray
from audit.stats.scoring import membership
from audit.stats.scoring.strength import mean_tpr, strength
from audit.stats.spread import evenly

DEFAULT = 2.0  # where references show nothing of it: what the attack's authors and other implementations take

GRID = (2.0, 1.0, 4.0, 0.5)  # temperatures that are tried; among equals the first is taken
_TARGETS = 16  # references that are attacked at most
_SIDE = 10  # records on the smaller side, below which a model's ROC says nothing


def fit(log_p_at: Callable[[float], AnyArray], included: AnyArray, *, online: bool, offline_weight: float) -> float:
    """The temperature at which the log ratio of RMIA is strongest on references, each attacked with all the others.

    Args:
        log_p_at: of a temperature, the references' log probabilities of the label `(k, m)` with logits divided by it.
        included: `(k, m)` bool.

    Returns: The default if fewer than two references, or none with records on both sides, are there.
    """
    balance = np.minimum(included.sum(axis=1), (~included).sum(axis=1))
    rows = np.flatnonzero(balance >= max(1, min(_SIDE, included.shape[1] // 4)))
    if len(included) < 2 or not len(rows):
        return DEFAULT
    rows = rows[evenly(len(rows), _TARGETS)]
    coins = list(included[rows])

    def ratios(temperature: float) -> list[AnyArray]:
        log_p = log_p_at(temperature)
        log_ratios = membership.reference_log_ratio(log_p, included, online=online, offline_weight=offline_weight)
        return list(log_ratios[rows])

    scores = {temperature: ratios(temperature) for temperature in GRID}
    tprs = {temperature: mean_tpr(values, coins) for temperature, values in scores.items()}
    strongest = [temperature for temperature in GRID if tprs[temperature] == max(tprs.values())]
    if len(strongest) == 1:  # the AUC decides ties alone
        return strongest[0]
    return max(strongest, key=lambda temperature: strength(scores[temperature], coins))
