"""Estimators that a game allows, where nobody names them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit import plugins
from audit.core.claims import LowerBound
from audit.core.errors import UnsupportedMechanism
from audit.core.game import Game
from audit.core.protocols import Estimator
from audit.core.seeds import Seed
from audit.core.views import Scores


def granted_estimators(game: Game, names: Sequence[str] | None = None) -> tuple[Estimator, ...]:
    """The estimators called `names`; or all, with default options, that assume no more than the game grants and no mechanism.

    Those whose bounds hold inside a trade-off family only have to be named: they cannot refute a bare claim, and would take
    their share of the error budget.

    Raises:
        ConfigError: there is no estimator of that name.
    """
    if names is not None:
        return tuple(plugins.build("audit.bounds.estimators", {"kind": name}) for name in names)
    offered = [plugins.build("audit.bounds.estimators", {"kind": name}) for name in plugins.names("audit.bounds.estimators")]
    granted = [(one, _probed(one, game)) for one in offered if one.assumes <= game.grants]
    return tuple(one for one, bound in granted if bound is not None and bound.family is None)


def _probed(estimator: Estimator, game: Game) -> LowerBound | None:
    """A bound on two made-up scores, None where the estimator needs a mechanism that a bare table of scores does not name."""
    probe = Scores(values=np.array([1.0, 0.0]), included=np.array([True, False]), game=game)
    try:
        return estimator.lower_bound(probe, delta=0.1, confidence=0.5, seed=Seed(0))
    except UnsupportedMechanism:
        return None
