"""The estimator that a game's scores are put to where none is named: the one that proves most for any mechanism."""

from __future__ import annotations

from audit.core.errors import AssumptionError
from audit.core.game import PRESENCE_ALONE, Assumption, Game


def for_epsilon(game: Game) -> str:
    """Return the plug-in's name for a bound on epsilon.

    Raises:
        AssumptionError: the game grants neither independent trials nor independent fair coins.
    """
    return _is_granted(game, trials="both_ends")


def for_delta(game: Game) -> str:
    """Return the plug-in's name for a bound on delta, which needs tests that are nested in delta.

    Raises:
        AssumptionError: as `for_epsilon`.
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
