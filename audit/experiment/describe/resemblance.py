"""Whether a target resembles its references: in accuracy, and in the distribution of its losses."""

import numpy as np

from attacks.signals import _reading as reading
from audit.core.coins import as_coins
from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.evaluation import Fidelity
from audit.core.phrases import join_clauses, phrase
from audit.core.views import View
from audit.experiment.games.observed import Room, in_memory

_TOLERANCE = 1.5  # times what the most unusual reference deviates
UNLIKE = "references do not resemble the target: a weak result speaks of the attack, not of the model"
_FEWEST = 3
_NEEDS = "the fidelity check needs logits and labels of the target and of at least 3 references"


class Resemblance:
    """The losses and coins `(R, m)` of at least three references, sorted once, against which each target is held; `DataError`
    if they are fewer, or have no logits.
    """

    def __init__(self, references: View, labels: Array | None, room: Room = in_memory) -> None:
        if len(references) < _FEWEST:
            raise DataError(_NEEDS)
        self._labels = labels
        coins = as_coins(references.included)
        members = int(coins.sum())
        self._pools = tuple(
            room(f"losses-{side}", (size,), np.float64) for side, size in enumerate((members, coins.size - members))
        )
        self._accuracy = np.empty((len(coins), 2))
        ends = [0, 0]
        for row, coin in enumerate(coins):
            losses, right = _outcomes(references, labels, row)
            self._accuracy[row] = _accuracies(right, coin)
            for side, mask in enumerate((coin, ~coin)):
                own = losses[mask]
                self._pools[side][ends[side] : ends[side] + len(own)] = own
                ends[side] += len(own)
        for pool in self._pools:
            pool.sort()
        self.typical = max(
            self._distance(_outcomes(references, labels, row)[0], coin, inside=True) for row, coin in enumerate(coins)
        )
        """Largest distance of a reference to the others."""
        mean_of_rest = (self._accuracy.sum(axis=0) - self._accuracy) / (len(coins) - 1)
        self._usual_gap = float(np.abs(self._accuracy - mean_of_rest).max())

    def of(self, target: View, included: Array) -> Fidelity:
        """Compares accuracy and losses of a target with those of the references, on members and non-members.

        The auditor knows the target's coins `(m,)`; the attack never sees this. References match if the target is no further
        from the pool of them than 1.5 times the furthest reference is from the others, both in the distribution of losses and
        in accuracy (there within one record). `DataError` without logits.
        """
        losses, right = _outcomes(target, self._labels)
        coins = np.asarray(included, dtype=bool)
        own = _accuracies(right, coins)
        distance = self._distance(losses, coins, inside=False)
        reference_accuracy = self._accuracy.mean(axis=0)
        gap = float(np.abs(own - reference_accuracy).max())
        matches = distance <= _TOLERANCE * self.typical and gap <= _TOLERANCE * self._usual_gap + 1 / len(coins)
        verdict = "references resemble the target" if matches else UNLIKE
        figures = phrase(
            "own label given to members and nonmembers {members} and {nonmembers} (references {one} and {two}), "
            "distance between loss distributions {distance} (among references up to {most})",
            members=f"{own[0]:.3f}",
            nonmembers=f"{own[1]:.3f}",
            one=f"{reference_accuracy[0]:.3f}",
            two=f"{reference_accuracy[1]:.3f}",
            distance=f"{distance:.3f}",
            most=f"{self.typical:.3f}",
        )
        return Fidelity(
            target_accuracy=(float(own[0]), float(own[1])),
            reference_accuracy=(float(reference_accuracy[0]), float(reference_accuracy[1])),
            distance=distance,
            typical=self.typical,
            matches=bool(matches),
            sentence=join_clauses((verdict, figures)),
        )

    def _distance(self, losses: Array, coins: Array, *, inside: bool) -> float:
        """Kolmogorov-Smirnov distance of one model's losses to those of the references; members or non-members, the larger.

        With `inside` the model is one of the references, and its losses are taken out of their pool. The largest gap is at one
        of the model's losses or just before it: between them its own distribution is still.
        """
        gaps = []
        for side, pool in zip((coins, ~coins), self._pools, strict=True):
            side_losses = np.sort(losses[side])
            remainder = len(pool) - len(side_losses) if inside else len(pool)
            for edge in ("left", "right"):
                below = np.searchsorted(side_losses, side_losses, edge)
                pool_ranks = np.searchsorted(pool, side_losses, edge) - (below if inside else 0)
                gaps.append(float(np.abs(below / len(side_losses) - pool_ranks / remainder).max()))
        return max(gaps)


def _outcomes(models: View, labels: Array | None, row: int | None = None) -> tuple[Array, Array]:
    """Losses of one model and whether it is right, `(m,)` each; `row` of references, None of a target."""
    own = models if row is None else View(signals={key: array[row] for key, array in models.signals.items()})
    outcomes = reading.outcomes(own, labels)
    if outcomes is None:
        raise DataError(_NEEDS)
    return outcomes


def _accuracies(right: Array, coins: Array) -> Array:
    """`(2,)` share of records that are classified right, among members and among non-members."""
    return np.array([mean(right[coins]), mean(right[~coins])])


def mean(values: Array) -> float:
    """Return the mean, not a number if there is nothing to average."""
    return float(np.mean(values)) if len(values) else float("nan")
