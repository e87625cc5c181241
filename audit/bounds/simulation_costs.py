"""About how long simulated audits take, so that their number depends on estimators and scores alone, never on the clock."""

import math

from audit.core.errors import ConfigError
from audit.core.protocols import Estimator

BUDGET, QUICK = 2.0, 0.25  # about so many seconds on one core for each question, and where a caller waits for it
# about how long a few thousand scores take to test one claim, and to make a whole bound, in seconds on one core
SECONDS = {
    "both_ends": (0.003, 0.2),
    "clopper_pearson": (0.0005, 0.001),
    "fdp_rank": (0.001, 0.2),
    "gaussian": (0.0005, 0.2),
    "one_run": (0.0005, 0.02),
    "one_run_fdp": (0.0015, 0.02),
    "one_run_secrets": (0.003, 0.1),
    "product_channel": (0.001, 0.02),
    "rank_exact": (0.002, 0.01),
    "reconstruction": (0.0002, 0.09),  # inside DP-SGD
    "sequential": (0.006, 0.2),
}
UNKNOWN = (0.05, 0.05)
TOGETHER = {"sequential": (0.0003, 5e-6)}  # of one test among many, and for each score, if an estimator plays them at once
SECONDS_A_SCORE = 2e-7  # of a test, for each further score
SLOPES = {"sequential": 1e-5}  # the same, of bets in eight orders
WHOLE = 10  # simulated audits to one whose bounds are made, and
FEWEST_BOUNDS = 5  # so many of them whatever they take
SIMULATING = ("both_ends", "fdp_rank", "gaussian")  # a bound draws more for a smaller significance: so many times as much at
FINER = 2 / 3  # a share of 5 % is one over that share to this power
MOST_SECONDS = 600.0  # that a number of audits may take for each law if a caller asks for that number


def audit_seconds(estimator: Estimator, scores: int, level: float) -> float:
    """About how long a simulated audit of a certificate takes: a test, and now and then a bound."""
    return claim_seconds(estimator, scores) + bound_seconds(estimator, level) / WHOLE


def bound_seconds(estimator: Estimator, level: float) -> float:
    """About how long a whole bound at a confidence `level` takes."""
    kind = _kind(estimator)
    finer = (0.05 / (1 - level)) ** FINER if kind in SIMULATING else 1.0
    return SECONDS.get(kind, UNKNOWN)[1] * finer


def claim_seconds(estimator: Estimator, scores: int, *, together: bool = False) -> float:
    """About how long one test of one claim takes, alone or as one of many audits."""
    kind = _kind(estimator)
    alone = SECONDS.get(kind, UNKNOWN)[0], SLOPES.get(kind, SECONDS_A_SCORE)
    seconds, slope = TOGETHER.get(kind, alone) if together else alone
    return seconds + slope * scores


def _kind(estimator: Estimator) -> str:
    return type(estimator).__module__.rsplit(".", maxsplit=1)[-1]


def affordable(repetitions: int, seconds: float, choices: tuple[int, ...], budget: float | None = None) -> int:
    """`repetitions`, else the largest of `choices` below it, that fits into the budget; 0 if none does."""
    if repetitions < choices[-1]:
        return repetitions
    limit = BUDGET if budget is None else budget
    return max((count for count in (repetitions, *choices) if count <= repetitions and count * seconds <= limit), default=0)


def affordable_bounds(repetitions: int, seconds: float) -> int:
    """Return in how many of these simulated audits bounds are made, if those of one audit take so many seconds."""
    return max(min(repetitions // WHOLE, max(math.floor(BUDGET / seconds), FEWEST_BOUNDS)), 1)


def within_limit(repetitions: int, seconds: float) -> int:
    """Return `repetitions` if so many audits of so many seconds each end within `MOST_SECONDS`; else `ConfigError`."""
    if repetitions * seconds > MOST_SECONDS:
        raise ConfigError(
            f"{repetitions} simulated audits would take about {repetitions * seconds / 60:.0f} minutes for each law; ask for "
            f"at most {math.floor(MOST_SECONDS / seconds)}, which end within about {MOST_SECONDS / 60:.0f} minutes"
        )
    return repetitions
