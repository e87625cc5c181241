"""Estimators that a game allows, if no one names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from audit import plugins
from audit.bounds import defaults
from audit.core.game import Game
from audit.core.protocols import Estimator


def granted_estimators(game: Game, names: Sequence[str | Mapping[str, Any]] | None = None) -> tuple[Estimator, ...]:
    """The estimators called `names`, or spelled out with options; or the game's default alone (none if nothing is granted).

    Raises:
        ConfigError: there is no estimator of that name.
    """
    if names is None and not game.grants:
        return ()
    kinds = (defaults.for_epsilon(game),) if names is None else names
    specs = ({"kind": name} if isinstance(name, str) else name for name in kinds)
    return tuple(plugins.build("audit.bounds.estimators", spec) for spec in specs)
