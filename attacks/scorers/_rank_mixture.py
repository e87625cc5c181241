"""A learned score steadied by RMIA, as one attack: the learned combination, or near records if their outputs are shown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.signals.nearby_confidences import NearbyConfidences
from audit import plugins
from audit.core.data import Array
from audit.core.protocols import Attack, Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import rank_mixture

FORMULA = "rmia"
LEARNED = ("learned_combination", "near_records")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMixture:
    """Scores each canary with the weighted sum of the log odds of its ranks under a learned score and `rmia`.

    RMIA's weight is `600 / (600 + pairs)` with `pairs` of a reference and a canary, none from 60,000 on
    (`audit.stats.scoring.rank_mixture`). A function of the target's outputs and the references, as its parts are.

    Attributes:
        scorer: name of the learned score.
    """

    scorer: str = "learned_combination"

    @property
    def name(self) -> str:
        """Of the attack in evidence and reports."""
        return f"{self.scorer} with {FORMULA}"

    @property
    def needs(self) -> Needs:
        """Signals that both parts read, and as many references as both take."""
        first, ratio = (attack.needs for attack in self._parts())
        return Needs(
            signals=first.signals | ratio.signals,
            instead=first.instead and ratio.instead,
            references=max(first.references, ratio.references),
        )

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Weighted sum of log odds of ranks or, from 60,000 pairs on, the learned scores, `(m,)` float64."""
        combination, ratio = self._parts()
        pairs = np.asarray(reference.included).size
        scores = combination.score(target, reference, seed)
        if pairs >= rank_mixture.ALONE_FROM:
            return scores
        return rank_mixture.mixed(scores, ratio.score(target, reference, seed), pairs)

    def _parts(self) -> tuple[Attack, Attack]:
        combination, ratio = (plugins.build("attacks.scorers", {"kind": kind}) for kind in (self.scorer, FORMULA))
        return combination, ratio


def choose_mixture(reference: View) -> RankMixture:
    """The mixture for what references show: of near records if each reference can be attacked so by all the others."""
    combination, near = (RankMixture(scorer=kind) for kind in LEARNED)
    return near if reference.get(NearbyConfidences.key) is not None and len(reference) > near.needs.references else combination
