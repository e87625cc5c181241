"""Independent trials, both adjacencies: right answers compared with the success of an attack that sees no release."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from audit.bounds.estimators import _shared
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, DataError
from audit.core.game import Assumption
from audit.core.lower_bounds import LowerBound
from audit.core.phrases import phrase
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.event_curves import MOST_SIGNAL, EventCurves, signal_noise
from audit.stats.bounds import reconstruction, roots, secret_guesses
from audit.stats.curves import tradeoff

FAMILIES = ("any", "gdp", "dp_sgd")
RESOLUTION = 1e-4  # of signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Right answers of independent trials; `baseline` is the largest chance of a right one without the release."""

    right: int
    trials: int
    baseline: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """Names for each secret the candidate with the highest score, and bounds the chance of a right answer from below.

    Attributes:
        family: "any" bounds epsilon for any mechanism, "gdp" the mu of a Gaussian-DP mechanism, "dp_sgd" the noise of DP-SGD
            with the sample rate and steps that are claimed (not for claims about replacing a record).

    Guarantee: `epsilon` exceeds the true epsilon, of the game's adjacency, with probability at most `1 - confidence` if each
        answer is about its own secret and its own release (docs/theory/secrets.md, "Reconstruction"); inside the
        family "gdp" or "dp_sgd" that of the member that is refuted.
    References: Balle, Cherubin and Hayes 2022, arXiv 2201.04845; Hayes, Mahloujifar and Balle 2023, arXiv 2302.07225.
    """

    assumes: ClassVar[frozenset[Assumption]] = frozenset({Assumption.INDEPENDENT_SECRETS, Assumption.INDEPENDENT_ANSWERS})

    family: str = "any"

    def __post_init__(self) -> None:
        checks.choice(self.family, "family", FAMILIES)

    def lower_bound(self, scores: Scores, *, delta: float, confidence: float, seed: Seed) -> LowerBound:
        """The largest epsilon that the right answers refute.

        Raises:
            DataError: there are no secrets.
            UnsupportedMechanism: the family is "dp_sgd", and scores carry no such mechanism, or claims are about replacing.
        """
        answers = _answers(scores)
        if self.family == "dp_sgd":
            return self._bound_inside_curve(answers, _curves(scores), delta=delta, confidence=confidence)
        return self.bound_answers(answers, scores.game.adjacency, delta=delta, confidence=confidence)

    def refutes(self, scores: Scores, *, epsilon: float, delta: float, confidence: float, seed: Seed) -> bool:
        """True if the right answers refute (epsilon, delta)-DP, or the member of the family that has this epsilon at `delta`;
        errors as of `lower_bound`.
        """
        answers, significance = _answers(scores), 1 - checks.open_probability(confidence, "confidence")
        if self.family != "dp_sgd":
            return self._prove(answers, scores.game.adjacency, checks.probability(delta, "delta"), significance)[0] > epsilon
        checks.open_probability(delta, "delta of reconstruction inside 'dp_sgd'")
        curves, success = _curves(scores), reconstruction.success_lower(answers.right, answers.trials, significance)
        signal = curves.signal_of(epsilon, delta)
        if math.isinf(signal) or success <= answers.baseline:
            return False
        return float(curves.at(signal_noise(signal)).tpr(answers.baseline)) < success

    def bound_answers(self, answers: Answers, adjacency: Adjacency, *, delta: float, confidence: float) -> LowerBound:
        """The bound from counts alone; `ConfigError` if the family is "dp_sgd": counts do not determine its curve."""
        if self.family == "dp_sgd":
            raise ConfigError("family 'dp_sgd' needs scores with the claimed mechanism, not counts alone; expected any or gdp")
        significance = 1 - checks.open_probability(confidence, "confidence")
        checks.probability(delta, "delta")
        epsilon, mu = self._prove(answers, adjacency, delta, significance)
        ceiling, _ = self._prove(replace(answers, right=answers.trials), adjacency, delta, significance)
        plain = self._bound(answers, (epsilon, ceiling), delta=delta, confidence=confidence)
        return replace(plain, family=None if mu is None else "gdp", parameter=mu)

    def _bound_inside_curve(self, answers: Answers, curves: EventCurves, *, delta: float, confidence: float) -> LowerBound:
        """The bound inside DP-SGD: the largest signal with a curve that allows less at the baseline than was reached."""
        significance = 1 - checks.open_probability(confidence, "confidence")
        checks.open_probability(delta, "delta of reconstruction inside 'dp_sgd'")
        signals = [
            self._refuted_signal(success, answers.baseline, curves)
            for right in (answers.right, answers.trials)
            for success in [reconstruction.success_lower(right, answers.trials, significance)]
        ]
        epsilon, ceiling = (curves.epsilon(signal_noise(signal), delta) for signal in signals)
        plain = self._bound(answers, (epsilon, ceiling), delta=delta, confidence=confidence)
        return replace(plain, family=curves.family, parameter=curves.parameter(signals[0]))

    @staticmethod
    def _refuted_signal(success: float, baseline: float, curves: EventCurves) -> float:
        """The largest inverse noise multiplier at which an answer cannot be right with chance `success`."""
        if baseline >= 1 or success <= baseline:
            return 0.0

        def refutes(signal: float) -> bool:
            return signal == 0 or float(curves.at(signal_noise(signal)).tpr(baseline)) < success

        return roots.last_rejected(refutes, largest=MOST_SIGNAL, resolution=RESOLUTION, stride=0.5)

    def _bound(self, answers: Answers, proof: tuple[float, float], *, delta: float, confidence: float) -> LowerBound:
        """The bound of an epsilon and its ceiling."""
        epsilon, ceiling = proof
        text = phrase(
            "{right} of {guesses} answers right, baseline {baseline}",
            right=answers.right,
            guesses=answers.trials,
            baseline=f"{answers.baseline:.3g}",
        )
        return LowerBound(
            epsilon=epsilon,
            delta=delta,
            confidence=confidence,
            estimator="reconstruction",
            comparisons=1,
            ceiling=max(epsilon, ceiling),
            assumes=tuple(sorted(self.assumes)),
            selected=text if epsilon > 0 else "",
        )

    def _prove(self, answers: Answers, adjacency: Adjacency, delta: float, significance: float) -> tuple[float, float | None]:
        """Epsilon at `delta`, and mu inside the family "gdp"."""
        if answers.baseline >= 1:
            return 0.0, None if self.family == "any" else 0.0
        success = reconstruction.success_lower(answers.right, answers.trials, significance)
        replacing = adjacency is Adjacency.REPLACE_ONE
        if self.family == "any":
            return reconstruction.success_epsilon(success, answers.baseline, delta, replace=replacing), None
        mu = reconstruction.success_mu(success, answers.baseline, replace=replacing)
        if delta == 0:
            return (math.inf if mu > 0 else 0.0), mu
        return tradeoff.gdp_epsilon(mu, delta), mu


def _answers(scores: Scores) -> Answers:
    values, drawn, prior = scores.secrets
    if not len(values):
        raise DataError("reconstruction needs scores of at least one secret; there are none")
    right = int(secret_guesses.likeliest_values(values, drawn, prior).right.sum())
    return Answers(right=right, trials=len(values), baseline=float(prior.max()))


def _curves(scores: Scores) -> EventCurves:
    name, instead = "reconstruction inside 'dp_sgd'", "family: any"
    return _shared.demand_curves(scores, name, f"{instead} or gdp", replaced=f"; use {instead}")


PLUGIN = Reconstruction
