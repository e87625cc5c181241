"""Which offline attack puts a target's scores farthest above those of references in its place: a comparison without a coin."""

from collections.abc import Mapping

import numpy as np

from attacks.scorers._contest import FOLDER, in_target_place
from attacks.signals import _temperature
from audit import plugins
from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.protocols import Attack
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.bounds.roc import auc

FEWEST = 3  # references: LiRA needs two beside the one that is put in the target's place

# attacks that are compared, by name; among equals the first is taken
FORMS: Mapping[str, Mapping[str, object]] = {
    f"rmia offline at temperature {degree:g}": {"kind": "rmia", "online": False, "temperature": degree}
    for degree in (2.0, 1.5, 1.0, 3.0, 0.5)
} | {"lira offline": {"kind": "lira", "online": False}}


def highest(target: View, reference: View, *, rows: Array, columns: Array) -> tuple[str, Attack, float] | None:
    """The attack that most often scores the target above a reference, and how often; None if none can score.

    A reference that did not train on the records represents a target that did not: over all records the share is 1/2 if the
    target trained on none of them, and grows with the records that an attack distinguishes, so the attack with the largest
    share has the largest AUC, but for noise. Both sides are scored with the same other references.
    """
    row = _temperature.some_records(_as_row(target), columns)
    some_target = View(signals={key: array[0] for key, array in row.signals.items()}, labels=row.labels)
    references = _temperature.some_records(reference, columns)
    best: tuple[str, Attack, float] | None = None
    for name, form in FORMS.items():
        attack = plugins.build(FOLDER, dict(form))
        share = elevation(attack, some_target, references, rows)
        if share is not None and (best is None or share > best[2]):
            best = name, attack, share
    return best


def elevation(attack: Attack, target: View, reference: View, rows: Array) -> float | None:
    """Return how often the target's score of a record is above that of a reference without it, ties counting half."""
    coins = np.asarray(reference.included, dtype=bool)
    shares = []
    for row in rows[~coins[rows].all(axis=1)].tolist():  # a reference that has all records shows no nonmember
        stand_in, remainder = in_target_place(reference, target.labels, row)
        seed = Seed(0).child("elevation", row)  # one for both sides, so that an attack's own draws favour neither
        try:
            scores, null_scores = attack.score(target, remainder, seed), attack.score(stand_in, remainder, seed)
        except ObservationError:
            return None
        shares.append(auc(scores, null_scores[~coins[row]]))
    return float(np.mean(shares)) if shares else None


def _as_row(target: View) -> View:
    return View(signals={key: np.asarray(array)[None] for key, array in target.signals.items()}, labels=target.labels)
