"""Attacks side by side on the same models: every model once the target, some or all others its references.

Descriptive: targets share references, so standard errors say how far targets differ and are no confidence intervals.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals.logits import Losses
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError, ObservationError
from audit.core.evaluation import AttackFigure
from audit.core.protocols import Attack
from audit.core.seeds import Seed
from audit.core.tables import Table
from audit.core.views import View
from audit.experiment.games.attack import canary_scores
from audit.stats.bounds import roc
from audit.stats.scoring.strength import tpr_at
from audit.stats.spread import evenly

FIGURES: Mapping[str, Callable[[Array, Array], float]] = {
    "auc": roc.auc,
    "tpr at 1% fpr": lambda members, nonmembers: tpr_at(members, nonmembers, 0.01),
    "tpr at 0.1% fpr": lambda members, nonmembers: tpr_at(members, nonmembers, 0.001),
}
# below these a rate is left out: no threshold realises it
LEAST_NONMEMBERS: Mapping[str, int] = {"tpr at 1% fpr": 100, "tpr at 0.1% fpr": 1000}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackComparison:
    """What a comparison found: the table, and why each other attack has no row."""

    rows: Table[AttackFigure]
    not_run: Mapping[str, str]


def compare(
    attacks: Mapping[str, Attack],
    models: View,
    labels: Array | None,
    *,
    references: int | None = None,
    targets: int | None = None,
    seed: int = 0,
) -> AttackComparison:
    """Return every figure of every attack that can score these models.

    Args:
        labels: `(m,)`, None if only losses are known.
        references: how many others each target is compared with, the next ones in order; None takes all.
        targets: how many models are attacked, evenly spread; None takes all.

    Raises:
        ConfigError: fewer than two models, more references than there are others, no target, or no attack that can score them.
        DataError: a target without records on both sides.
    """
    count = len(models)
    used = count - 1 if references is None else references
    if count < 2 or not 0 <= used < count or (targets is not None and targets < 1):
        raise ConfigError(
            f"{count} models with {used} references and {targets or count} targets; expected at least two models, fewer "
            "references than models and at least one target"
        )
    rows = evenly(count, targets or count).tolist()
    coins = np.asarray(models.included, dtype=bool)
    for row in rows:
        if coins[row].all() or not coins[row].any():
            raise DataError(
                f"model {row} trained on {'all' if coins[row].any() else 'none'} of the records; expected some of each"
            )
    contest = _Comparison(models=reading.with_confidences(models, labels), labels=labels, rows=rows, references=used, seed=seed)
    scores, not_run = contest.scores(attacks)
    if not scores:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in not_run.items()) or "none was named"
        raise ConfigError(f"none of the attacks can score these models: {reasons}")
    return AttackComparison(rows=Table(_figures(scores, coins[rows], used)), not_run=not_run)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Comparison:
    """The models of a comparison, and which of them are targets."""

    models: View
    labels: Array | None
    rows: Sequence[int]
    references: int
    seed: int

    def scores(self, attacks: Mapping[str, Attack]) -> tuple[dict[str, Array], dict[str, str]]:
        """Scores `(targets, m)` by attack, and why each other attack has none."""
        scores, not_run = {}, {}
        for name, attack in attacks.items():
            if attack.needs.references > self.references:
                not_run[name] = f"needs {attack.needs.references} references and has {self.references}"
            elif not attack.needs.are_met_by(self._signals(attack).keys()):
                keys = sorted({signal.key for signal in attack.needs.signals} - self.models.signals.keys())
                not_run[name] = f"needs {', '.join(keys)}, not recorded of these models"
            else:
                try:
                    scores[name] = np.stack([self._score(name, attack, row) for row in self.rows])
                except ObservationError as error:
                    not_run[name] = str(error)
        return scores, not_run

    def _signals(self, attack: Attack) -> Mapping[str, Array]:
        """The signals of all models; losses of logits as well for an attack that cannot do without."""
        signals, confidences = self.models.signals, self.models.get(reading.CONFIDENCES)
        if confidences is None or attack.needs.are_met_by(signals.keys()):
            return signals
        return {Losses.key: reading.confidence_losses(confidences), **signals}

    def _score(self, name: str, attack: Attack, row: int) -> Array:
        """Scores of one target, without its coins, against the models after it in order."""
        # the next ones in a circle, so that every model is a reference equally often
        near = (row + 1 + np.arange(self.references)) % len(self.models)
        keys = reading.view_keys(attack.needs)
        signals = {key: array for key, array in self._signals(attack).items() if key in keys}
        target = View(signals={key: array[row] for key, array in signals.items()}, labels=self.labels)
        coins = np.asarray(self.models.included, dtype=bool)
        reference = View(signals={key: array[near] for key, array in signals.items()}, included=coins[near])
        values = canary_scores(attack, target, reference, Seed(self.seed).child(name, row))
        if values.shape != coins[row].shape or np.isnan(values).any():
            raise ObservationError(
                f"it gives scores of shape {values.shape}, {int(np.isnan(values).sum())} of them not a number; expected one "
                f"number for each of {coins.shape[1]} records"
            )
        return values


def _figures(scores: Mapping[str, Array], coins: Array, references: int) -> list[AttackFigure]:
    nonmembers = int((~coins).sum(axis=1).min())
    rows = []
    for figure, measure in FIGURES.items():
        if nonmembers < LEAST_NONMEMBERS.get(figure, 1):
            continue
        by_attack = {
            name: np.array([measure(row[mask], row[~mask]) for row, mask in zip(values, coins, strict=True)])
            for name, values in scores.items()
        }
        best = max(by_attack.values(), key=lambda values: float(values.mean()))
        rows += [
            AttackFigure(
                attack=name,
                figure=figure,
                mean=float(values.mean()),
                error=_error(values),
                gap=float((values - best).mean()),
                gap_error=_error(values - best),
                targets=len(values),
                references=references,
                canaries=coins.shape[1],
            )
            for name, values in by_attack.items()
        ]
    return rows


def _error(values: Array) -> float:
    """Standard error of the mean; NaN of a single value."""
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")
