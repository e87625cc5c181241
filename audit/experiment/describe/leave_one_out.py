"""What trained models say about an attack: every model once the target, all others its references.

Descriptive figures with error bars for free: how strong an attack is on a typical target, which records
are exposed and whether the same ones are every time, what threshold an adversary could have set without
knowing the target, whether the references resemble the target.

Never bounds. A score of leave-one-out depends on the coins of the other targets, and pooling such scores
into one table breaks the theorems behind epsilon bounds, which need guesses with errors driven by independent coins.
Two models, one canary, nothing leaked: "guess model 1's coin to be model 2's" and
"model 2's to be model 1's" are both functions of the target's references, and with probability one half
both are right. Over m canaries the pool of 2m guesses has the errors of m coins, each counted twice.
Bounds come from targets with coins that no reference of the pool's other scores knows; no function here
returns `audit.core.views.Scores`, so none can be handed to an estimator by mistake.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attacks.signals import _reading as reading
from audit.core import checks
from audit.core.coins import Coins, as_coins
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.evaluation import Calibrated, Spread
from audit.core.protocols import Attack
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.describe.resemblance import mean
from audit.experiment.games.attack import canary_scores
from audit.experiment.games.observed import Room, in_memory, read_only
from audit.stats.bounds import roc
from audit.stats.scoring.strength import tpr_at

FPRS = (0.01, 0.001)
_COINS = "coins of the others"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeaveOneOut:
    """Scores of each target `(targets, m)` by one attack, with what was true; `models`: which model each row is."""

    values: Array
    included: Array
    models: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exposure:
    """How exposed each record is over the targets that trained on it.

    Attributes:
        fpr: `(m,)` median over those targets of the false positive rate at which the record is found. NaN if none trained on
            it.
        found: `(m,)` share of those targets in which it is found at `at_fpr`; NaN likewise.
        reproducibility: mean Jaccard overlap, over pairs of targets, of the lists of records found at `at_fpr`, among records
            that both trained on. NaN if all those lists are empty; `chance` is the same of as many records at random.
    """

    fpr: Array
    found: Array
    at_fpr: float
    reproducibility: float
    chance: float


def leave_one_out(
    attack: Attack,
    models: View,
    labels: Array | None,
    seed: Seed,
    targets: Sequence[int] | None = None,
    *,
    room: Room = in_memory,
) -> LeaveOneOut:
    """Scores of every model (or of `targets`) with all the others as its references; `ConfigError` for fewer than two models.

    Coins must be independent between models. If every record is in the same number of models, the coins of the others tell the
    target's, and an attack whose score moves with how many references hold a record reads them there.

    Args:
        models: signals and coins of all models; the coins of the target are taken away from its attack.
        labels: `(m,)` true labels, or None if only losses or products are known.
        room: where a copy of the references' signals is kept.
    """
    if len(models) < 2:
        raise ConfigError(f"leave-one-out over {len(models)} model(s); expected at least 2")
    row_list = np.arange(len(models)) if targets is None else np.asarray(targets)
    keys = reading.view_keys(attack.needs)
    rivals = _Rivals(replace(models, signals={key: array for key, array in models.signals.items() if key in keys}), room)
    rows = [
        np.array(canary_scores(attack, rivals.target(row, labels), rivals.reference(row), seed.child("leave one out", row)))
        for row in row_list.tolist()
    ]
    return LeaveOneOut(values=np.stack(rows), included=_coins(models)[row_list], models=row_list)


def spreads(result: LeaveOneOut, fprs: Sequence[float] = FPRS) -> tuple[Spread, ...]:
    """AUC and TPR at each false positive rate over targets; rates below one over the non-members are left out."""
    aucs = [roc.auc(*_split(values, coins)) for values, coins in zip(result.values, result.included, strict=True)]
    figures = [_spread("auc", aucs)]
    for fpr in fprs:
        if all(fpr * np.sum(~coins) >= 1 for coins in result.included):
            rates = [tpr_at(*_split(values, coins), fpr) for values, coins in zip(result.values, result.included, strict=True)]
            figures.append(_spread(f"tpr at fpr {fpr:g}", rates))
    return tuple(figures)


def exposure(result: LeaveOneOut, at_fpr: float = 0.01) -> Exposure:
    """Per-record exposure over targets and how far targets agree on who is exposed."""
    ranks = np.stack([_share_above(values, coins) for values, coins in zip(result.values, result.included, strict=True)])
    ranks = np.where(result.included, ranks, np.nan)
    is_trained = result.included.any(axis=0)
    fpr, detection = np.full(ranks.shape[1], np.nan), np.full(ranks.shape[1], np.nan)
    fpr[is_trained] = np.nanmedian(ranks[:, is_trained], axis=0)
    flags = ranks <= at_fpr
    detection[is_trained] = flags.sum(axis=0)[is_trained] / result.included.sum(axis=0)[is_trained]
    overlap, chance = _overlaps(flags, result.included)
    return Exposure(fpr=fpr, found=detection, at_fpr=at_fpr, reproducibility=overlap, chance=chance)


def worst_records(exposure: Exposure, count: int) -> Array:
    """Positions of the `count` most exposed records, worst first; records that no target trained on come last."""
    return np.argsort(np.where(np.isnan(exposure.fpr), np.inf, exposure.fpr), kind="stable")[:count]


def by_group(result: LeaveOneOut, groups: Array) -> dict[str, Spread]:
    """AUC over targets within each value of `groups` `(m,)`: a class, a user's column, or the user a record belongs to.

    Groups without a member and a non-member in every target are left out.
    """
    spread_by_group = {}
    for group in np.unique(groups):
        inside = groups == group
        coins = result.included[:, inside]
        if (coins.any(axis=1) & ~coins.all(axis=1)).all():
            rows = zip(result.values[:, inside], coins, strict=True)
            spread_by_group[str(group)] = _spread("auc", [roc.auc(*_split(values, group_mask)) for values, group_mask in rows])
    return spread_by_group


def by_unit(result: LeaveOneOut, column: Array, fprs: Sequence[float] = FPRS) -> tuple[int, tuple[Spread, ...]]:
    """Return the number of units in `column` `(m,)`, and AUC and TPR over targets for an adversary who judges them as wholes.

    In each target the records of a unit that the coins took in and those that they left out are two sets, each scored by the
    mean over its records. Coins decide record by record, so this says nothing of a user-level guarantee. Units without a set on
    both sides in every target are left out; rates below one over the units are, too.
    """
    names, unit = np.unique(column, return_inverse=True)
    sums, counts = (np.zeros((2, len(result.values), len(names))) for _ in range(2))
    for row, (values, coins) in enumerate(zip(result.values, result.included, strict=True)):
        for side, mask in enumerate((coins, ~coins)):
            sums[side, row] = np.bincount(unit[mask], values[mask], minlength=len(names))
            counts[side, row] = np.bincount(unit[mask], minlength=len(names))
    complete = (counts > 0).all(axis=(0, 1))
    total = int(complete.sum())
    if not total:
        return 0, ()
    means = sums[:, :, complete] / counts[:, :, complete]
    sets = LeaveOneOut(
        values=np.concatenate(list(means), axis=1),
        included=np.tile(np.repeat([True, False], total), (len(result.values), 1)),
        models=result.models,
    )
    return total, spreads(sets, fprs)


def calibrate(result: LeaveOneOut, nominal_fpr: float, prior: float) -> Calibrated:
    """Return what a threshold set on the non-members of all other models realises on each target.

    The scores of those models come from the same leave-one-out, so the target was among their references. `prior` is the share
    of members among candidates. `DataError` if the other models' non-members do not resolve the rate.
    """
    checks.open_probability(prior, "prior")
    rates = []
    for row, (values, coins) in enumerate(zip(result.values, result.included, strict=True)):
        other_rows = np.delete(np.arange(len(result.values)), row)
        null = result.values[other_rows][~result.included[other_rows]]
        if nominal_fpr * len(null) < 1:
            raise DataError(f"{len(null)} non-members of other models cannot set a threshold at rate {nominal_fpr:g}")
        # no more than the intended share is strictly above it, whatever is tied
        threshold = np.sort(null)[::-1][int(nominal_fpr * len(null))]
        members, nonmembers = _split(values, coins)
        rates.append((np.mean(nonmembers > threshold), np.mean(members > threshold)))
    fpr, tpr = (float(rate) for rate in np.mean(rates, axis=0))
    return Calibrated(nominal_fpr=nominal_fpr, realised_fpr=fpr, tpr=tpr, precision=precision(tpr, fpr, prior), prior=prior)


def precision(tpr: float, fpr: float, prior: float) -> float | None:
    """Share of members among the records that are called members, if `prior` of all candidates are; None if none is.

    >>> round(precision(0.5, 0.01, 0.01), 3)
    0.336
    """
    positive_rate = tpr * prior + fpr * (1 - prior)
    return tpr * prior / positive_rate if positive_rate > 0 else None


class _Rivals:
    """All models but one, for one target after the other, in arrays of which only the rows between two targets change."""

    def __init__(self, models: View, room: Room) -> None:
        self._models, self._row = models, 0
        self._coins = _coins(models)
        shared = models.signals if isinstance(self._coins, Coins) else {**models.signals, _COINS: self._coins}
        self._pairs: dict[str, tuple[Array, Array]] = {}
        for key, array in shared.items():
            remainder = room(f"others-{key}", (len(array) - 1, *array.shape[1:]), array.dtype)
            remainder[...] = array[1:]
            self._pairs[key] = (np.asarray(array), remainder)

    def target(self, row: int, labels: Array | None) -> View:
        return View(signals={key: read_only(array[row]) for key, array in self._models.signals.items()}, labels=labels)

    def reference(self, row: int) -> View:
        """All others; the view before this one changes with it."""
        for array, remainder in self._pairs.values():
            # rows between the old gap and the new one move by one place; all others are right already
            if row > self._row:
                remainder[self._row : row] = array[self._row : row]
            else:
                remainder[row : self._row] = array[row + 1 : self._row + 1]
        self._row = row
        arrays = {key: read_only(remainder) for key, (_, remainder) in self._pairs.items()}
        if isinstance(self._coins, Coins):  # bits are not copied: their rows are named
            coins: Any = self._coins.models(np.delete(np.arange(len(self._coins)), row))
            return View(included=coins, signals=arrays)
        return View(included=arrays.pop(_COINS), signals=arrays)


def _coins(models: View) -> Any:
    """Coins of all models `(k, m)`, an array or bits, which leave-one-out has to know."""
    if models.included is None:
        raise DataError("leave-one-out needs the coins of every model; give View.included")
    return as_coins(models.included)


def _split(values: Array, included: Array) -> tuple[Array, Array]:
    return values[included], values[~included]


def _spread(figure: str, values: Sequence[float]) -> Spread:
    row = np.asarray(values, dtype=np.float64)
    std = float(row.std(ddof=1)) if len(row) > 1 else float("nan")
    return Spread(figure=figure, mean=mean(row), std=std, lowest=float(row.min()), highest=float(row.max()), targets=len(row))


def _share_above(values: Array, included: Array) -> Array:
    """For each record the share of non-members that score at least as high."""
    nonmembers = np.sort(values[~included])
    return np.asarray((len(nonmembers) - np.searchsorted(nonmembers, values, side="left")) / len(nonmembers))


def _overlaps(flags: Array, included: Array) -> tuple[float, float]:
    """Mean Jaccard overlap of flagged records over pairs of targets, and what random lists of the same lengths give."""
    overlaps, chances = [], []
    for first in range(len(flags)):
        for second in range(first + 1, len(flags)):
            joint = included[first] & included[second]
            first_flags, two = flags[first, joint], flags[second, joint]
            union = np.sum(first_flags | two)
            if union:
                overlaps.append(np.sum(first_flags & two) / union)
                # two lists at random: the share that both name, over the share that either names
                chance_overlap = first_flags.mean() * two.mean()
                chances.append(chance_overlap / (first_flags.mean() + two.mean() - chance_overlap))
    return mean(np.array(overlaps)), mean(np.array(chances))
