"""RMIA: is the record likelier under the target than under an average model? As a ratio, not a count."""

from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals import _temperature
from attacks.signals.logits import Confidences, Logits, Losses
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import membership, population
from audit.stats.scoring.strength import GRID


@dataclass(frozen=True, slots=True, kw_only=True)
class Rmia:
    """Scores each canary with `log p(x | target) - log p(x)`, unquantised (also known as BASE).

    RMIA's own score counts the population records with a smaller ratio. For one target that count is an
    increasing function of this ratio, so it ranks canaries the same way but for the ties that it adds;
    if many canaries beat the whole population those ties hide all of the attack at low false positive
    rates. Finite; averaged over queries (of the log probabilities). Works from one reference on.

    Attributes:
        online: use the references that trained on the canary, too.
        offline_weight: `a` in `p_member = a p_nonmember + 1 - a`, by which the missing side is predicted.
        temperature: by which logits are divided before probabilities are taken. None fits it on the references, each of them
            once the target (0.5, 1, 2 or 4; most TPR at 1 % FPR), and takes 2 if they show nothing of it.
        population: give the ratio's normal quantile among pairs of a reference and a canary it did not
            train on (each reference once in the target's place), so that `Phi(-score)` is a calibrated
            p-value; same ranking. Needs three references.

    References: Zarifzadeh et al. 2024, arXiv 2312.03262; Lassila et al. 2025, arXiv 2505.24089.
    """

    online: bool = True
    offline_weight: float = membership.OFFLINE_WEIGHT
    temperature: float | None = None
    population: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.offline_weight <= 1:
            raise ConfigError(f"rmia.offline_weight is {self.offline_weight}; expected a number in (0, 1]")
        if self.temperature is not None and not 0 < self.temperature < np.inf:
            raise ConfigError(f"rmia.temperature is {self.temperature}; expected a finite number above 0, or none to fit it")

    @property
    def needs(self) -> Needs:
        grid = GRID if self.temperature is None else (self.temperature,)
        reductions = {Confidences(temperature=degree) for degree in grid}
        fewest = 3 if self.population else 1
        return Needs(signals={Logits()}, instead={Losses()}, reductions=reductions, references=fewest)

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        included = reading.memberships(reference, self.needs.references, "rmia", online=self.online)
        temperature = self.temperature or _temperature.fitted_temperature(
            target, reference, "rmia", online=self.online, offline_weight=self.offline_weight
        )
        if not self.population:
            # before any block, so that the error counts bad values of all records and not of the first block
            _temperature.refuse_unusable(target, reference, "rmia", temperature)
            parts = _temperature.in_blocks(target, reference)
            return np.concatenate([self._ratio(*part, temperature)[0] for part in parts])
        # in one piece: the quantile of a ratio is among the ratios of all pairs
        ratio, their_log_p = self._ratio(target, reference, temperature)
        of_references = membership.reference_log_ratio(
            their_log_p, included, online=self.online, offline_weight=self.offline_weight
        )
        return population.normal_score(ratio, of_references[~included])

    def _ratio(self, target: View, reference: View, temperature: float) -> tuple[Array, Array]:
        """Return log ratios `(m,)`, and the log probabilities of the references `(k, m)`."""
        log_p, their_log_p = _temperature.tempered_log_p(target, reference, "rmia", temperature)
        included = np.asarray(reference.included, dtype=bool)
        ratio = membership.log_ratio(log_p, their_log_p, included, online=self.online, offline_weight=self.offline_weight)
        return ratio, their_log_p


PLUGIN = Rmia
