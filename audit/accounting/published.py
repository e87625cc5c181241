"""Published (epsilon, delta, noise, rate, steps) compared with the proven bracket: possible, impossible or undecided."""

import math
from dataclasses import dataclass

from audit.accounting import subjects
from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.events import dp_sgd
from audit.core.rounding import down, up

_DIGITS = 4
WORDS = {0: "possible", 1: "impossible", 3: "undecided"}  # by exit code


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTraining:
    """What was published about a training with DP-SGD on Poisson batches.

    Attributes:
        sigma: noise multiplier, standard deviation over clip norm.
    """

    sigma: float
    rate: float
    steps: int
    delta: float
    epsilon: float
    adjacency: str = "add_remove"

    def __post_init__(self) -> None:
        checks.nonnegative(self.epsilon, "epsilon")
        checks.open_probability(self.delta, "delta")
        Adjacency.by_name(self.adjacency, "--adjacency")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedAnswer:
    """Whether the published epsilon can be true.

    Attributes:
        exit_code: 0 possible, 1 impossible, 3 undecided.
        lower, upper: ends of the proven bracket on the true epsilon.
        margin: of the published epsilon above the upper end (possible), below the lower end (impossible, negative); 0 between.
    """

    exit_code: int
    lower: float
    upper: float
    margin: float
    sentence: str

    @property
    def word(self) -> str:
        return WORDS[self.exit_code]


def decide(training: PublishedTraining) -> PublishedAnswer:
    """Return whether the true epsilon of the training is at most the published one; `ConfigError` for a value that means
    nothing.
    """
    event = dp_sgd(noise_multiplier=training.sigma, clip_norm=1.0, sample_rate=training.rate, steps=training.steps)
    (low, high), doubt = subjects.bracket(event, training.delta, Adjacency(training.adjacency))
    epsilon = training.epsilon
    code = 0 if epsilon >= high else 1 if epsilon < low else 3
    margin = epsilon - high if code == 0 else epsilon - low if code == 1 else 0.0
    truth = doubt or f"the true epsilon lies between {down(low, _DIGITS)} and {up(high, _DIGITS)} at delta {training.delta:g}"
    end = {0: "above", 1: "below"}.get(code)
    share = f" ({abs(margin) / (high if code == 0 else low):.2%})" if end and low > 0 and math.isfinite(high) else ""
    description = (
        f"the published {epsilon:g} is {abs(margin):.4g}{share} {end} that"
        if end
        else f"the published {epsilon:g} lies in between"
    )
    rest = "" if code else "; what is above it is looseness of the accountant, or of other assumptions"
    return PublishedAnswer(exit_code=code, lower=low, upper=high, margin=margin, sentence=f"{truth}; {description}{rest}")
