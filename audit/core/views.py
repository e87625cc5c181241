"""What an adversary sees of trained models, and the scores that it makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from audit.core import checks
from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.events import Event
from audit.core.game import Game


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """Signals by their keys: of one target, or of an adversary's own reference models.

    Attributes:
        signals: `(m, ...)` for a target, `(k, m, ...)` for `k` references; what each is, its file in `attacks/signals` says.
        labels: `(m,)` true label of each canary, or None (gradient canaries, or losses alone).
        included: `(k, m)` coins of the references. None for a target: an adversary does not see those, so no attack can peek.
        mechanism: what is publicly claimed to have been run, or None.
    """

    signals: Mapping[str, Array] = field(default_factory=dict)
    labels: Array | None = None
    included: Array | None = None
    mechanism: Event | None = None

    @classmethod
    def of(
        cls,
        *,
        labels: Array | None = None,
        included: Array | None = None,
        mechanism: Event | None = None,
        **signals: Array | None,
    ) -> View:
        """A view of the signals that are given by name; None leaves one out.

        >>> View.of(losses=np.zeros(3)).get("losses").shape
        (3,)
        """
        arrays = {name: array for name, array in signals.items() if array is not None}
        return cls(signals=arrays, labels=labels, included=included, mechanism=mechanism)

    def __len__(self) -> int:
        """Number of models."""
        return 1 if self.included is None else len(self.included)

    def __getitem__(self, key: str) -> Array:
        """The signal under `key`."""
        return self.signals[key]

    @property
    def is_silent(self) -> bool:
        """True of a target that shows the same of every canary: an untouched or constant model, of which scores say nothing.

        A single canary is compared with itself in other runs, so it is never silent.

        >>> View.of(losses=np.ones(3)).is_silent, View.of(losses=np.arange(3.0)).is_silent, View.of(losses=np.ones(1)).is_silent
        (True, False, False)
        """
        return bool(self.signals) and all(_is_constant(key, np.asarray(array)) for key, array in self.signals.items())

    def get(self, key: str) -> Array | None:
        """The signal under `key`, or None if the view does not hold it."""
        return self.signals.get(key)


def _is_constant(key: str, array: Array) -> bool:
    """True if several values are all equal; of logits, if several records have the same."""
    rows = array.reshape(-1, array.shape[-1]) if key == "logits" else array.reshape(-1, 1)
    return len(rows) > 1 and bool((rows == rows[:1]).all())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """`n = runs * m` scores with their coins; higher means more likely a member, always.

    Attributes:
        values: `(n,)` float64; infinities allowed, NaN refused.
        included: `(n,)` bool.
        game: the rules they were obtained under.
        attack: name of the scorer.
        mechanism: what is claimed to have been run (families of trade-off curves need it), or None.
        prior: `(n,)` chances with which the alternatives were drawn, in games of secrets; None elsewhere.
    """

    values: Array
    included: Array
    game: Game
    attack: str = ""
    mechanism: Event | None = None
    prior: Array | None = None

    def __post_init__(self) -> None:
        values = checks.frozen(self.values, np.float64)
        included = checks.frozen(self.included, bool)
        if values.ndim != 1 or values.shape != included.shape:
            raise DataError(
                f"scores of shape {values.shape} with memberships of shape {included.shape}; expected two equal lengths"
            )
        checks.without_nan(values, f"scores of {self.attack or 'the attack'}")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "included", included)
        if self.game.choices > 1:
            self._check_secrets()

    def _check_secrets(self) -> None:
        """Raise `DataError` unless every secret took exactly one of its values and the prior of each value is known."""
        choices = self.game.choices
        full = len(self.included) > 0 and len(self.included) % choices == 0
        if not full or not (self.included.reshape(-1, choices).sum(axis=1) == 1).all():
            raise DataError(f"{len(self.included)} scores of secrets with {choices} values; expected one true value for each")
        if self.prior is None or np.shape(self.prior) != self.values.shape:
            raise DataError(f"scores of secrets without the chances of their values; expected {len(self.values)} of them")
        prior = checks.frozen(self.prior, np.float64)
        object.__setattr__(self, "prior", prior)
        impossible = np.flatnonzero(self.included & ~(prior > 0))
        if len(impossible):
            secret = int(impossible[0]) // choices
            raise DataError(
                f"the drawn value of {len(impossible)} secrets has chance 0, the first is secret {secret}; "
                "expected values that were drawn from their prior"
            )

    @property
    def secrets(self) -> tuple[Array, Array, Array]:
        """Scores `(s, k)`, true values `(s,)` and priors `(s, k)` of the secrets, in a game of those."""
        if self.prior is None:
            raise DataError("these scores are of canaries that are in or out; expected a game of secrets")
        rows = (-1, self.game.choices)
        return self.values.reshape(rows), self.included.reshape(rows).argmax(axis=1), self.prior.reshape(rows)

    @property
    def members(self) -> Array:
        """Scores of the canaries that were trained on."""
        return self.values[self.included]

    @property
    def nonmembers(self) -> Array:
        """Scores of the canaries that were left out."""
        return self.values[~self.included]
