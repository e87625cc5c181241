"""Estimators that a game allows, if no one names them."""

from collections.abc import Mapping, Sequence
from typing import Any

from audit import plugins
from audit.core.errors import AssumptionError
from audit.core.game import PRESENCE_ALONE, Assumption, Game
from audit.core.protocols import Estimator


# The estimator that a game's scores are put to where none is named: the one that proves most for any mechanism.
def for_epsilon(game: Game) -> str:
    """Return the plug-in's name for a bound on epsilon; `AssumptionError` if the game grants neither independent trials nor
    independent fair coins.
    """
    return _is_granted(game, trials="both_ends")


def for_delta(game: Game) -> str:
    """Return the plug-in's name for a bound on delta, which needs tests that are nested in delta; `AssumptionError` as
    `for_epsilon`.
    """
    return _is_granted(game, trials="rank_exact")


def _is_granted(game: Game, trials: str) -> str:
    if Assumption.INDEPENDENT_TRIALS in game.grants:
        return trials
    if Assumption.INDEPENDENT_COINS in game.grants:
        return "one_run"
    if game.adds_for_replacement:
        raise AssumptionError(f"no estimator applies ({game.describe()}): {PRESENCE_ALONE}")
    raise AssumptionError(
        f"no estimator applies: memberships were not decided by independent fair coins ({game.describe()}); "
        "figures such as AUC and TPR can be stated, an epsilon cannot"
    )


def granted_estimators(game: Game, names: Sequence[str | Mapping[str, Any]] | None = None) -> tuple[Estimator, ...]:
    """The estimators called `names`, or spelled out with options; or the game's default alone (none if nothing is granted).
    Raises `ConfigError` if there is no estimator of that name.
    """
    if names is None and not game.grants:
        return ()
    kinds = (for_epsilon(game),) if names is None else names
    specs = ({"kind": name} if isinstance(name, str) else name for name in kinds)
    return tuple(plugins.build("audit.bounds.estimators", spec) for spec in specs)
