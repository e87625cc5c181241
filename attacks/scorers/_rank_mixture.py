"""The learned combination steadied by RMIA, as one attack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit import plugins
from audit.core.data import Array
from audit.core.protocols import Attack, Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import rank_mixture

PARTS = ("learned_combination", "rmia")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMixture:
    """Scores each canary with the weighted sum of the log odds of its ranks under `learned_combination` and `rmia`.

    RMIA's weight is `600 / (600 + pairs)` with `pairs` of a reference and a canary, none from 60,000 on
    (`audit.stats.scoring.rank_mixture`). A function of the target's outputs and the references, as its parts are.
    """

    @property
    def needs(self) -> Needs:
        """Outputs of the final model and two references."""
        combination, ratio = (attack.needs for attack in _parts())
        return Needs(
            signals=combination.signals,
            instead=combination.instead,
            reductions=frozenset(combination.reductions | ratio.reductions),
            references=max(combination.references, ratio.references),
        )

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Weighted sum of log odds of ranks or, from 60,000 pairs on, the combination's scores, `(m,)` float64."""
        combination, ratio = _parts()
        pairs = np.asarray(reference.included).size
        scores = combination.score(target, reference, seed)
        if pairs >= rank_mixture.ALONE_FROM:
            return scores
        return rank_mixture.mixed(scores, ratio.score(target, reference, seed), pairs)


def _parts() -> tuple[Attack, Attack]:
    combination, ratio = (plugins.build("attacks.scorers", {"kind": kind}) for kind in PARTS)
    return combination, ratio
