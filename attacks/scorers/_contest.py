"""References as targets: which attack on outputs tells their members best."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from attacks.signals import _temperature
from attacks.signals.logits import Logits
from attacks.signals.losses import Losses
from audit import plugins
from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.protocols import Attack, Chooser
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.scoring.strength import TailPower, strength

FOLDER = "attacks.scorers"
_REMEMBERED = 64
_ROWS = 16_000  # (reference, record) pairs that an attack with a fit learns from while it is tried
_WINNERS: dict[bytes, tuple[str, TailPower, int] | None] = {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contest:
    """References that attacks are compared on.

    Attributes:
        views: signals and coins of all.
        targets: rows of those that are attacked.
    """

    views: View
    labels: Array | None
    targets: Array

    def winner(self) -> tuple[str, TailPower, int] | None:
        """The strongest attack, its strength and how many were tried; remembered, since every run of a game asks again."""
        key = self._digest()
        if key not in _WINNERS:
            if len(_WINNERS) >= _REMEMBERED:
                _WINNERS.clear()
            _WINNERS[key] = self._strongest()
        return _WINNERS[key]

    def _strongest(self) -> tuple[str, TailPower, int] | None:
        shared = replace(self, views=_temperature.with_tempered_confidences(self.views, self.labels))
        tried = {name: shared.strength(attack) for name, attack in candidates(len(self.views) - 1, rows=_ROWS)}
        able = {name: value for name, value in tried.items() if value is not None}
        if not able:
            return None
        name = max(able, key=lambda key: able[key])
        return name, able[name], len(able)

    def _digest(self) -> bytes:
        """Of all that decides the winner."""
        digest = hashlib.sha256()
        arrays = {"coins": self.views.included, "labels": self.labels, "targets": self.targets, **self.views.signals}
        for name, array in arrays.items():
            values = np.ascontiguousarray(np.asarray([] if array is None else array))
            digest.update(f"{name} {values.shape} {values.dtype}".encode())
            digest.update(values.tobytes())
        return digest.digest()

    def strength(self, attack: Attack) -> TailPower | None:
        """Of an attack on these references; None where it cannot score one of them."""
        coins = np.asarray(self.views.included, dtype=bool)
        rows = []
        for row in self.targets.tolist():
            target, rest = in_target_place(self.views, self.labels, row)
            try:
                rows.append(attack.score(target, rest, Seed(0).child("auto", row)))
            except ObservationError:
                return None
        return strength(rows, list(coins[self.targets]))


def in_target_place(models: View, labels: Array | None, row: int) -> tuple[View, View]:
    """One of the models as a target, and all others as its references."""
    coins = np.asarray(models.included, dtype=bool)
    rivals = np.delete(np.arange(len(coins)), row)
    target = View(signals={key: array[row] for key, array in models.signals.items()}, labels=labels)
    return target, View(signals={key: array[rivals] for key, array in models.signals.items()}, included=coins[rivals])


def candidates(references: int, *, rows: int | None = None) -> Iterator[tuple[str, Attack]]:
    """The attacks of the folder that read outputs of so many references, by name: as they are, and offline.

    `rows` is how many pairs those learn from that say so; None leaves what they take by themselves.
    """
    for kind in plugins.names(FOLDER):
        settings = {field.name for field in dataclasses.fields(plugins.find(FOLDER, kind))}
        form: dict[str, object] = {"kind": kind} if rows is None or "rows" not in settings else {"kind": kind, "rows": rows}
        forms = {kind: form, f"{kind} offline": {**form, "online": False}}
        for name in list(forms) if "online" in settings else [kind]:
            attack = plugins.build(FOLDER, forms[name])
            reads_outputs = attack.needs.keys <= {Logits.key, Losses.key}
            if reads_outputs and attack.needs.references <= references and not isinstance(attack, Chooser):
                yield name, attack
