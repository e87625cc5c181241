"""The learned combination steadied by RMIA: ranks under both, weighed by how many pairs the combination was fitted on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logit
from scipy.stats import rankdata

from attacks.scorers.learned_combination import LearnedCombination
from attacks.scorers.rmia import Rmia
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View

_EQUAL_AT = 600  # pairs of a reference and a canary at which both count alike (docs/results.md, section 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMixture:
    """Scores each canary with the weighted sum of the log odds of its ranks under `learned_combination` and `rmia`.

    Fitted on few (reference, canary) pairs the combination errs, and apart from RMIA, so that both together find more than
    either; RMIA's weight is `600 / (600 + pairs)`. A function of the target's outputs and the references, as its parts are.

    Attributes:
        rows: about how many pairs the combination is fitted on at most.
    """

    rows: int = LearnedCombination().rows

    @property
    def needs(self) -> Needs:
        """Outputs of the final model and two references."""
        combination, ratio = LearnedCombination().needs, Rmia().needs
        return Needs(
            signals=combination.signals,
            instead=combination.instead,
            reductions=combination.reductions | ratio.reductions,
            references=max(combination.references, ratio.references),
        )

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Weighted sum of log odds of ranks, equal scores sharing theirs, `(m,)` float64."""
        combination = _log_odds_of_ranks(LearnedCombination(rows=self.rows).score(target, reference, seed))
        ratio = _log_odds_of_ranks(Rmia().score(target, reference, seed))
        weight = _EQUAL_AT / (_EQUAL_AT + len(reference) * len(ratio))
        return (1 - weight) * combination + weight * ratio


def _log_odds_of_ranks(scores: Array) -> Array:
    return np.asarray(logit(rankdata(scores) / (len(scores) + 1)))
