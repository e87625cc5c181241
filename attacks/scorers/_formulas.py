"""Formulas added up by rank, for references so few that nothing shows which formula is ahead."""

from dataclasses import dataclass, replace

import numpy as np

from audit import plugins
from audit.core.data import Array
from audit.core.protocols import Attack, Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring.rank_mixture import rank_log_odds

_FORMS: tuple[dict[str, object], ...] = (
    {"kind": "offset"},
    {"kind": "rmia", "temperature": 1.0},
    {"kind": "rmia", "temperature": 2.0},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formulas:
    """Scores each canary with the mean log odds of its ranks under `offset` and under `rmia` at temperatures 1 and 2.

    With one reference there is none left to attack it with, so that nothing shows which of them is ahead; the mean is rarely
    far behind any (docs/evidence/results.md, "One reference"). A function of the target's outputs and the references.

    Attributes:
        online: use references that trained on the canary, too.
    """

    online: bool = True

    @property
    def name(self) -> str:
        return "offset with rmia" if self.online else "offset with rmia offline"

    @property
    def needs(self) -> Needs:
        offset, *ratios = (attack.needs for attack in self._parts())
        return replace(offset, reductions=frozenset(offset.reductions).union(*(ratio.reductions for ratio in ratios)))

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        ranks = [rank_log_odds(attack.score(target, reference, seed)) for attack in self._parts()]
        return np.asarray(np.mean(ranks, axis=0))

    def _parts(self) -> list[Attack]:
        return [plugins.build("attacks.scorers", {**form, "online": self.online}) for form in _FORMS]
