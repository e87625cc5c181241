"""Attacks on texts by the likelihood of their tokens."""

from dataclasses import dataclass
from typing import ClassVar

from attacks.signals import _canary_reading as canary_reading
from attacks.signals._text_signals import CompressedSizes, InitialLosses, TokenLogProbabilities, TokenMoments
from attacks.signals.logits import Losses
from audit.core import checks
from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.protocols import Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring import texts


@dataclass(frozen=True, slots=True, kw_only=True)
class MinK:
    """Scores each text with the mean log-probability of its least likely tokens, of those that are predicted.

    Attributes:
        share: of tokens that count, at least one of each text.

    References: Shi et al. 2024, arXiv 2310.16789.
    """

    attack: ClassVar[str] = "min_k"
    needs: ClassVar[Needs] = Needs(signals={TokenLogProbabilities()})
    share: float = 0.2

    def __post_init__(self) -> None:
        checks.open_probability(self.share, f"{self.attack}.share")

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        return texts.lowest_share_mean(self.values(target), canary_reading.text_labels(target, self.attack), self.share)

    def values(self, target: View) -> Array:
        """Values of which the lowest are averaged, `(m, T)`."""
        return canary_reading.text_signal(target, "token_log_probabilities", self.attack)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinKPlusPlus(MinK):
    """Scores each text as `min_k` does, each log-probability standardised over the distribution of its token.

    A token with a distribution without spread scores 0: public code divides by it.

    References: Zhang et al. 2024, arXiv 2404.02936.
    """

    attack: ClassVar[str] = "min_k_plus_plus"
    needs: ClassVar[Needs] = Needs(signals={TokenLogProbabilities(), TokenMoments()})

    def values(self, target: View) -> Array:
        moments = canary_reading.text_signal(target, "token_moments", self.attack)
        values = canary_reading.text_signal(target, "token_log_probabilities", self.attack)
        return texts.standardised(values, moments[..., 0], moments[..., 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ZlibRatio:
    """Scores each text with minus its loss over the size that zlib compresses it to.

    References: Carlini et al. 2021, arXiv 2012.07805.
    """

    needs: ClassVar[Needs] = Needs(signals={Losses(), CompressedSizes()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        sizes = canary_reading.text_signal(target, "compressed_sizes", "zlib_ratio")
        if not (sizes > 0).all():
            raise ObservationError("attack 'zlib_ratio' got sizes that are not above 0; zlib gives at least 8 bytes")
        return -canary_reading.text_signal(target, "losses", "zlib_ratio") / sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceDifference:
    """Scores each text with its loss before training minus its loss after it: the gain in log-probability of a token.

    The model before training is public: the base model of a fine-tuning is a reference that costs nothing.

    References: Carlini et al. 2021, arXiv 2012.07805; Mireshghallah et al. 2022, arXiv 2203.03929.
    """

    needs: ClassVar[Needs] = Needs(signals={Losses(), InitialLosses()})

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        after = canary_reading.text_signal(target, "losses", "reference_difference")
        return canary_reading.text_signal(target, "initial_losses", "reference_difference") - after
