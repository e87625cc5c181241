"""Auto: the strongest attack for the number of reference models at hand."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.signals import _reading as reading
from attacks.signals.logits import Logits
from attacks.signals.losses import Losses
from audit.core.data import Array
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import learned_score, membership

_PAIRS = 5000  # (reference, canary) pairs under which 27 learned weights are not worth their noise
_ROWS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """Scores each canary by the attack that `choose` names. Decided by counts alone, never by coins or scores.

    The order was measured on the problem of `benchmarks/attack_battery.py` with 1 to 64 references and 50 to
    8000 canaries, and on the recipes of `benchmarks/real_data.py`. Online LiRA is never chosen: where a
    record's own effect is smaller than the error of its estimate (few references, or DP training), its ratio
    weighs records by noise, and the offset and the learned combination do better. Thresholds and priors were chosen on
    those same problems and on DP-trained digits models scored with their true coins: that this order beats LiRA there
    is a development result, not a held-out one.
    """

    @property
    def needs(self) -> Needs:
        """Outputs of the final model; uses whatever references there are."""
        return Needs(signals={Logits()}, instead={Losses()})

    def choose(self, references: int, canaries: int, *, online: bool) -> tuple[str, str]:
        """Name of the attack and the reason for it, in words.

        >>> Auto().choose(0, 100, online=False)[0], Auto().choose(16, 1000, online=True)[0]
        ('loss', 'learned_combination')
        """
        if references == 0:
            return "loss", "there is no reference model to compare with"
        if references == 1:
            return "rmia", "one reference tells how hard a record is, not how much models differ on it"
        if not online:
            return "lira", "no reference trained on a canary: one-sided deviation from models without it, fixed variance"
        if references < 4:
            return "offset", "two or three references give each side a mean but no spread"
        if references * canaries < _PAIRS:
            return "offset", f"{references * canaries} pairs of reference and canary are too few to learn a combination from"
        return "learned_combination", f"{references} references that drew coins: it beats LiRA and RMIA from four on"

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Scores of the chosen attack, `(m,)` float64."""
        target_values, reference_values = reading.mean_confidences(target, reference, "auto")
        if len(reference) == 0:
            return -reading.losses(target, reading.NO_REFERENCE, "auto")[0]
        included = reading.memberships(reference, 1, "auto", online=False)
        online = bool(included.any())
        kind, _ = self.choose(len(reference), len(target_values), online=online)
        if kind == "rmia":
            losses, their_losses = reading.losses(target, reference, "auto")
            return membership.log_ratio(-losses, -their_losses, included, online=online, offline_weight=0.3)
        if kind == "offset":
            return membership.difference(target_values, reference_values, included, online=True)
        if kind == "learned_combination":
            return learned_score.learned_log_odds(target_values, reference_values, included, _ROWS)
        return membership.deviation(target_values, reference_values, included)


PLUGIN = Auto
