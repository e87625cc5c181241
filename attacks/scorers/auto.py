"""Auto: the attack that does best on the reference models, each of them once in the target's place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attacks.scorers._contest import FOLDER, Contest, candidates
from attacks.signals import _temperature
from attacks.signals.logits import Logits
from attacks.signals.losses import Losses
from audit import plugins
from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.protocols import Attack, Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.spread import evenly

_FEWEST_RECORDS = 1000  # that are looked at for the choice, where there are as many: ten nonmembers a model decide a TPR at 1 %
_SIDE = 10  # records on the smaller side, below which a model's ROC says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """Scores each canary by the attack that was strongest on the references: most TPR at 1 % FPR, among equals most AUC.

    Every attack of this folder that reads outputs alone takes part, also in its offline form where it has one. References
    are targets one after the other, attacked with all the others. Nothing of the target takes part, neither its outputs nor its
    coins, so the choice is part of an attack that was fixed before the target was looked at, and bounds on epsilon hold as they
    do for any fixed attack (docs/statistics.md, "An attack chosen on the references").

    Where the references show nothing, because there is none or only one, or because none trained on a canary, a fixed attack is
    taken: the loss, or the ratio of RMIA.

    Attributes:
        targets: references that are put in the target's place at most, evenly spread.
        pairs: about how many (reference, canary) pairs each of these attacks looks at for the choice; of more canaries an
            evenly spread subset decides.
    """

    targets: int = 8
    pairs: int = 64_000

    @property
    def needs(self) -> Needs:
        """Outputs of the final model; uses whatever references there are."""
        return Needs(signals={Logits()}, instead={Losses()})

    def choose(self, reference: View, labels: Array | None) -> tuple[str, str]:
        """Name of the attack that is taken with these references, and the evidence for it, in words.

        >>> from attacks.signals import _reading as reading
        >>> Auto().choose(reading.NO_REFERENCE, None)
        ('loss', 'there is no reference model to compare with')
        """
        name, _, reason = self._choice(reference, labels)
        return name, reason

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Scores of the chosen attack, `(m,)` float64.

        Raises:
            ObservationError: the target shows neither outputs nor losses, or none of what the chosen attack reads.
        """
        if all(target.get(signal.key) is None for signal in (Logits(), Losses())):
            raise ObservationError("attack 'auto' reads outputs or losses, and the target shows neither")
        _, attack, _ = self._choice(reference, target.labels)
        return attack.score(target, reference, seed)

    def _choice(self, reference: View, labels: Array | None) -> tuple[str, Attack, str]:
        if len(reference) == 0:
            return _fixed({"kind": "loss"}, "there is no reference model to compare with")
        coins = np.asarray(reference.included, dtype=bool)
        balance = np.minimum(coins.sum(axis=1), (~coins).sum(axis=1))
        usable = np.flatnonzero(balance >= max(1, min(_SIDE, coins.shape[1] // 4)))
        online = bool(coins.any())
        if len(coins) < 2 or not len(usable):
            reason = "a single reference has no other to be attacked with" if online else "no reference trained on a canary"
            return _fixed({"kind": "rmia", "online": online}, f"{reason}, so none shows how strong an attack is")
        columns = evenly(coins.shape[1], max(_FEWEST_RECORDS, self.pairs // len(coins)))
        contest = Contest(
            views=_temperature.some_records(reference, columns),
            labels=None if labels is None else np.asarray(labels)[columns],
            targets=usable[evenly(len(usable), self.targets)],
        )
        winner = contest.winner()
        if winner is None:
            return _fixed({"kind": "rmia", "online": online}, "no attack could be tried on the references")
        name, best, attacks = winner
        evidence = (
            f"on {len(contest.targets)} references in the target's place it had the most TPR at 1 % FPR of {attacks} attacks, "
            f"{best.tpr:.3f} on average (AUC {best.auc:.3f})"
        )
        return name, dict(candidates(len(coins)))[name], evidence


def _fixed(form: dict[str, object], reason: str) -> tuple[str, Attack, str]:
    name = str(form["kind"]) if form.get("online", True) else f"{form['kind']} offline"
    return name, plugins.build(FOLDER, form), reason


PLUGIN = Auto
