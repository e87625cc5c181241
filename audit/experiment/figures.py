"""From scores to results: bounds within one error budget, the negative control, curves and figures.

Shared by every way into an audit (a run, a trained model, a table of scores), so that all of them
mean the same thing by the same word.
"""

from __future__ import annotations

import importlib.metadata
import math
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from audit.bounds import claim_test
from audit.bounds import group_privacy as group
from audit.core import checks
from audit.core.claims import Claim, LowerBound, NegativeControl
from audit.core.data import Array
from audit.core.game import Inclusion
from audit.core.protocols import Estimator
from audit.core.results import AttackResult, GroupResult, Histogram, LimitCurve, Provenance, RecordExposure, RocCurve, TprAtFpr
from audit.core.seeds import Seed
from audit.core.version import __version__
from audit.core.views import Scores
from audit.stats.bounds import roc
from audit.stats.curves import tradeoff

TARGET_FPRS = (0.1, 0.01, 0.001)
CURVE_POINTS = 400
HISTOGRAM_RANGE = (0.005, 0.995)
CONTROL_REPETITIONS = 20
CONTROL_SIGNIFICANCE = 1e-3
PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "pandas", "matplotlib", "dp-accounting", "typst", "pydantic")


def share(confidence: float, comparisons: int) -> float:
    """The confidence of one bound such that `comparisons` of them hold together with `confidence` (Bonferroni).

    >>> round(share(0.95, 5), 6)
    0.99
    """
    return 1 - (1 - confidence) / max(comparisons, 1)


def bounds(
    scores: Scores, estimators: Sequence[Estimator], *, delta: float, confidence: float, seed: Seed
) -> tuple[LowerBound, ...]:
    """One lower bound per estimator, each at `confidence` (already the split share).

    Raises:
        AssumptionError: an estimator assumes what the game does not grant.
    """
    found = []
    for index, estimator in enumerate(estimators):
        scores.game.require(estimator.assumes, type(estimator).__name__)
        stream = seed.child("estimator", index)
        if scores.game.copies > 1:
            found.append(group.bound(estimator, scores, delta=delta, confidence=confidence, seed=stream))
        else:
            found.append(estimator.lower_bound(scores, delta=delta, confidence=confidence, seed=stream))
    return tuple(found)


def negative_control(
    scores: Scores, estimators: Sequence[Estimator], *, delta: float, confidence: float, seed: Seed
) -> NegativeControl:
    """How often the same statistics "prove" something when the coins are drawn anew and mean nothing.

    Guarantee: a sound pipeline fails this control with probability at most `CONTROL_SIGNIFICANCE`: the
        number of false alarms among the repetitions is at most binomial with the union of the estimators' error rates.
    """
    alarms = 0
    for repetition in range(CONTROL_REPETITIONS):
        stream = seed.child("control", repetition)
        shuffled = replace(scores, included=fresh_coins(scores, stream))
        alarms += any(
            claim_test.refutes(
                one, shuffled, epsilon=0.0, delta=delta, confidence=confidence, seed=stream.child("estimator", index)
            )
            for index, one in enumerate(estimators)
        )
    return control_of(alarms, len(estimators) * (1 - confidence))


def fresh_coins(scores: Scores, seed: Seed) -> Array:
    """Memberships `(n,)` drawn anew as the game draws them; those of the game shuffled where it drew none."""
    coins = seed.numpy().random(len(scores.values)) < scores.game.inclusion_probability
    if scores.game.inclusion is not Inclusion.COINS or coins.all() or not coins.any():
        return np.asarray(seed.numpy().permutation(scores.included))
    return np.asarray(coins)


def control_of(alarms: int, rate: float) -> NegativeControl:
    """The control that found so many false alarms in `CONTROL_REPETITIONS`, each of which may have one at this rate."""
    allowed = _allowed_alarms(CONTROL_REPETITIONS, min(1.0, rate))
    return NegativeControl(repetitions=CONTROL_REPETITIONS, false_alarms=alarms, allowed=allowed, passed=alarms <= allowed)


def _allowed_alarms(repetitions: int, rate: float) -> int:
    """The least count whose binomial tail beyond it is at most `CONTROL_SIGNIFICANCE`."""
    cumulative = 0.0
    for count in range(repetitions + 1):
        cumulative += math.comb(repetitions, count) * rate**count * (1 - rate) ** (repetitions - count)
        if cumulative >= 1 - CONTROL_SIGNIFICANCE:
            return count
    return repetitions


def attack_result(
    scores: Scores,
    *,
    confidence: float,
    seed: Seed,
    bounds: tuple[LowerBound, ...] = (),
    control: NegativeControl | None = None,
    claim: Claim | None = None,
    limit: LimitCurve | None = None,
) -> AttackResult:
    """Every figure of one attack: AUC, ROC with simultaneous band, TPR at low FPR, histogram, and the given bounds.

    Raises:
        DataError: one side is empty.
    """
    checks.both_sides(scores.included, f"attack '{scores.attack}'")
    members, nonmembers = _without_ties(scores, seed.child("ties"))
    if scores.game.copies > 1:
        claim, limit = None if claim is None else group.claim(claim, scores.game.copies), None
    low, high = roc.auc_interval(scores.members, scores.nonmembers, confidence)
    return AttackResult(
        scorer=scores.attack,
        auc=roc.auc(scores.members, scores.nonmembers),
        auc_lower=low,
        auc_upper=high,
        roc=_curve(members, nonmembers, confidence),
        tpr_at=tuple(
            _tpr_at(members, nonmembers, target, confidence, _allowed(target, claim, limit)) for target in TARGET_FPRS
        ),
        histogram=_histogram(scores),
        bounds=bounds,
        control=control,
    )


def _without_ties(scores: Scores, seed: Seed) -> tuple[Array, Array]:
    """Both sides as distinct ranks, ties broken at random."""
    order = np.lexsort((seed.numpy().random(len(scores.values)), scores.values))
    ranks = np.empty(len(order))
    ranks[order] = np.arange(len(order))
    return ranks[scores.included], ranks[~scores.included]


def _curve(members: Array, nonmembers: Array, confidence: float) -> RocCurve:
    band = roc.band(members, nonmembers, confidence)
    keep = _thin(band.fpr, 1 / len(nonmembers))
    return RocCurve(
        fpr=tuple(band.fpr[keep].tolist()),
        tpr=tuple(band.tpr[keep].tolist()),
        lower=tuple(band.lower[keep].tolist()),
        upper=tuple(band.upper[keep].tolist()),
        confidence=confidence,
        band=band.method,
        members=len(members),
        nonmembers=len(nonmembers),
    )


def _thin(fpr: Array, resolution: float) -> Array:
    """At most `CURVE_POINTS` indices, spread evenly on a logarithmic axis, the last point of each FPR, ends kept."""
    last = np.flatnonzero(np.append(np.diff(fpr) > 0, True))
    if len(last) <= CURVE_POINTS:
        return last
    grid = np.geomspace(resolution, 1, CURVE_POINTS - 1)
    picked = np.searchsorted(fpr[last], grid, side="right") - 1
    kept: Array = last[np.unique(np.concatenate([[0], np.maximum(picked, 0), [len(last) - 1]]))]
    return kept


def _allowed(target: float, claim: Claim | None, limit: LimitCurve | None) -> float | None:
    """The most true positives that the claim leaves an attack at this rate, by its (epsilon, delta) and its whole curve."""
    found = []
    if claim is not None and math.isfinite(claim.epsilon):
        found.append(float(tradeoff.tpr_allowed(claim.epsilon, claim.delta, target)))
    if limit is not None:
        found.append(float(np.interp(target, limit.fpr, limit.tpr)))
    return min(found, default=None)


def _tpr_at(members: Array, nonmembers: Array, target: float, confidence: float, allowed: float | None) -> TprAtFpr:
    point = roc.tpr_at_fpr(members, nonmembers, target, confidence)
    if point is None:
        return TprAtFpr(
            target_fpr=target,
            tpr=None,
            realised_fpr=None,
            lower=None,
            upper=None,
            false_positives=None,
            true_positives=None,
            allowed=allowed,
        )
    return TprAtFpr(
        target_fpr=target,
        tpr=point.tpr,
        realised_fpr=point.realised_fpr,
        lower=point.lower,
        upper=point.upper,
        false_positives=point.false_positives,
        true_positives=point.true_positives,
        allowed=allowed,
    )


def _histogram(scores: Scores) -> Histogram:
    """Counts in bins over all but the outermost scores, which the end bins take in."""
    finite = scores.values[np.isfinite(scores.values)]
    ends = np.quantile(finite, HISTOGRAM_RANGE) if len(finite) else np.array([0.0, 1.0])
    low, high = float(ends[0]), float(ends[1])
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, 41)
    members, _ = np.histogram(np.clip(scores.members, low, high), edges)
    nonmembers, _ = np.histogram(np.clip(scores.nonmembers, low, high), edges)
    return Histogram(edges=tuple(edges.tolist()), members=tuple(members.tolist()), nonmembers=tuple(nonmembers.tolist()))


def exposures(
    scores: Scores, identifiers: Sequence[str], labels: Sequence[str], *, count: int = 30
) -> tuple[RecordExposure, ...]:
    """The `count` records with the highest scores; `fpr` is the share of nonmembers scored at least as high."""
    nonmembers = np.sort(scores.nonmembers)
    order = np.argsort(-scores.values, kind="stable")[:count]
    above = len(nonmembers) - np.searchsorted(nonmembers, scores.values[order], side="left")
    return tuple(
        RecordExposure(
            record=identifiers[i],
            label=labels[i],
            score=float(scores.values[i]),
            rank=rank + 1,
            fpr=float(above[rank] / max(len(nonmembers), 1)),
            member=bool(scores.included[i]),
        )
        for rank, i in enumerate(order.tolist())
    )


def group_results(
    scores: Scores, groups: Sequence[str], confidence: float, correct: Array | None = None
) -> tuple[GroupResult, ...]:
    """AUC and accuracy in each slice; None where a slice has one side only. All intervals hold at once (Bonferroni)."""
    column = np.asarray(groups)
    names = sorted(set(groups))
    each = 1 - (1 - confidence) / len(names)
    found = []
    for name in names:
        here = column == name
        members, nonmembers = scores.values[here & scores.included], scores.values[here & ~scores.included]
        both = len(members) > 0 and len(nonmembers) > 0
        low, high = roc.auc_interval(members, nonmembers, each) if both else (None, None)
        found.append(
            GroupResult(
                group=str(name),
                members=len(members),
                nonmembers=len(nonmembers),
                auc=roc.auc(members, nonmembers) if both else None,
                accuracy=None if correct is None else float(np.mean(correct[here])),
                auc_lower=low,
                auc_upper=high,
            )
        )
    return tuple(found)


def provenance(*, command: str, seed: int, config_sha256: str, device: str, threads: int) -> Provenance:
    """Versions, code and machine, as far as they matter for getting the same report again."""
    return Provenance(
        command=command,
        version=__version__,
        code_commit=_commit(),
        seed=seed,
        config_sha256=config_sha256,
        packages=tuple((name, _version(name)) for name in PACKAGES),
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        device=device,
        threads=threads,
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """The commit of a source checkout, with a mark where files differ from it; "release" for an installed package."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return "release"
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    if shutil.which("git") is None:
        return "unknown"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def command_line(arguments: Sequence[str] | None = None) -> str:
    """The command as typed, for the report; the program's own path is left out."""
    return " ".join(["audit", *(sys.argv[1:] if arguments is None else arguments)])
