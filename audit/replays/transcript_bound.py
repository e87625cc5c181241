"""Bounds on the epsilon of a pair from the exact losses of many recorded transcripts (docs/theory/replay.md).

`T = L + log(1 - U)` for the loss L of a transcript and a uniform U exceeds e with probability delta(e), so epsilon at delta is
a quantile of T, and order statistics bound it whatever the law of L.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit.core.errors import ConfigError
from audit.replays.part_losses import log_outcome
from audit.replays.recording import CHOICE, NUMBER, Array, Recording
from audit.replays.run import Program
from audit.replays.transcripts import TranscriptPart, cut
from audit.stats import unit_laws
from audit.stats.bounds.binomial import exceedance_counts

_ROUNDING = 1e-9  # relative distance from what the noise reaches
_FIRST = 5_000_011  # seed of the first transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptBound:
    """An interval for the epsilon of the transcript of a pair at `delta`; the program needs no more than its upper end.

    Attributes:
        lower, upper: ends, both right with probability `confidence`; the upper is infinite below about 8/delta runs.
        delta, confidence: of the interval.
        runs: transcripts of each direction.
    """

    lower: float
    upper: float
    delta: float
    confidence: float
    runs: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; an infinite end is a text."""
        upper = self.upper if math.isfinite(self.upper) else str(self.upper)
        return {"lower": self.lower, "upper": upper, "confidence": self.confidence, "runs": self.runs}

    def __str__(self) -> str:
        return f"epsilon {self.lower:.4g} to {self.upper:.4g} at delta {self.delta:g}, {self.runs} transcripts on each side"


def bound_epsilon(
    program: Program, pair: tuple[Any, Any], *, runs: int, delta: float, confidence: float = 0.95, path: Path | None = None
) -> TranscriptBound:
    """Return the interval from `runs` transcripts on each side; those that the file at `path` holds are not run again.

    Guarantee: each direction's epsilon is in its interval except with probability `1 - confidence`; at delta 0 the lower end is
    below the supremum of losses always.

    Raises:
        ConfigError: a transcript with releases whose joint density is not known, or that differ in number or place.
    """
    key = repr((pair, delta))[:2000]
    store = json.loads(path.read_text(encoding="utf-8")) if path is not None and path.exists() else {}
    recorded = [list(map(float, side)) for side in store["losses"]] if store.get("pair") == key else [[], []]
    for place, (side, sides) in enumerate(zip(recorded, (pair, pair[::-1]), strict=True)):
        side += [loss(program, sides, _FIRST + 2 * i + place) for i in range(len(side), runs)]
    if path is not None:
        path.write_text(json.dumps({"pair": key, "losses": [[repr(x) for x in side] for side in recorded]}), encoding="utf-8")
    ends = [_interval(np.array(side[:runs]), delta, (1 - confidence) / 2, seed) for seed, side in enumerate(recorded)]
    lower, upper = (max(part) for part in zip(*ends, strict=True))
    return TranscriptBound(lower=max(0.0, lower), upper=upper, delta=delta, confidence=confidence, runs=runs)


def _interval(losses: Array, delta: float, significance: float, seed: int) -> tuple[float, float]:
    """Return bounds on the quantile of T that is exceeded with probability delta, each wrong with half the significance."""
    count = len(losses)
    with np.errstate(divide="ignore"):
        values = np.sort(losses + np.log1p(-np.random.default_rng(seed).random(count)))[::-1]
    above, below = exceedance_counts(count, delta, significance / 2)
    return float(values[above]) if above < count else 0.0, float(values[below - 1]) if below else math.inf


def loss(program: Program, pair: tuple[Any, Any], seed: int) -> float:
    """Return the log ratio of densities of one transcript that is recorded on the first data set, exactly."""
    first = program.run(pair[0], Recording(seed=seed))
    second = program.run(pair[1], Recording(seed=seed, frozen=first.recording))
    runs = first.recording, second.recording
    if first.error or second.error or runs[0].gaps or runs[1].gaps:
        raise ConfigError(f"a transcript cannot be followed: {first.error or second.error or (runs[0].gaps + runs[1].gaps)[0]}")
    if runs[1].divergence or len(runs[0].releases) != len(runs[1].releases):
        return math.inf  # what is released tells the data sets apart
    parts = cut(*runs, range(len(runs[0].releases)))
    if isinstance(parts, str):
        raise ConfigError(f"a transcript cannot be followed: {parts}")
    total = math.fsum(_part_loss(part) for part in parts)
    for record, neighbour in zip(runs[0].releases, runs[1].releases, strict=True):
        if record.kind == CHOICE and record.log_probabilities is not None and neighbour.log_probabilities is not None:
            total += float(record.log_probabilities[record.output] - neighbour.log_probabilities[record.output])
    return total


def _part_loss(part: TranscriptPart) -> float:
    if set(part.kinds) == {NUMBER}:
        (first, rank), (second, other_rank) = (_log_density(part, *side) for side in part.sides)
        return math.inf if second == -math.inf or other_rank > rank else first - second
    logs = log_outcome(part)
    if logs is None:
        raise ConfigError(f"the joint law of what {part.sites[0]} releases is not known")
    return logs[0] - logs[1]


def _log_density(part: TranscriptPart, value: Array, weights: Array) -> tuple[float, int]:
    """Return the log density of the outputs on the range of A, up to a constant of its rank and laws, and the rank."""
    basis, sizes, right = np.linalg.svd(weights, full_matrices=False)
    rank = int(np.sum(sizes > _ROUNDING * max(sizes.max(initial=0.0), 1e-300)))
    laws, gap = set(part.laws), part.outputs - value
    if laws - {"normal"} and (rank < weights.shape[1] or not all(_is_known(law) for law in laws)):
        raise ConfigError(f"the density of what {part.sites[0]} releases is not known: {', '.join(sorted(laws))}")
    draws = right[:rank].T @ (basis[:, :rank].T @ gap / sizes[:rank])
    if np.abs(weights @ draws - gap).max(initial=0.0) > 1e3 * _ROUNDING * max(
        1.0, float(np.abs(part.outputs).max(initial=0.0))
    ):
        return -math.inf, rank
    volume = float(np.log(sizes[:rank]).sum())
    if laws <= {"normal"}:
        return -float(draws @ draws) / 2 - volume, rank
    return math.fsum(_log_law(law, draw) for law, draw in zip(part.laws, draws.tolist(), strict=True)) - volume, rank


def _is_known(law: str) -> bool:
    return unit_laws.is_known(law) or law.startswith("two-sided")


def _log_law(law: str, draw: float) -> float:
    if unit_laws.is_known(law):
        return float(unit_laws.log_density(law, np.array(draw)))
    return -unit_laws.shift_rate(law) * abs(draw) if abs(draw - round(draw)) < 1e-6 else -math.inf
