"""`audit scores FILE --epsilon E`: how large delta is at least at that epsilon."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from audit.cli.printing import print_result
from audit.core.errors import ConfigError

if TYPE_CHECKING:
    from audit.core.claims import DeltaBound
    from audit.core.data import Array

LITTLE = 0.01  # a ceiling below says little of any mechanism


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeltaQuestion:
    """What is to be bounded; `estimators` None takes the default of the game alone, with the whole error rate."""

    epsilon: float
    confidence: float
    game: str
    seed: int
    estimators: Sequence[str] | None


def answer(columns: Mapping[str, Array], included: Array, question: DeltaQuestion, as_json: bool) -> int:
    """Print the bounds that the one column of scores proves; always 0, since nothing is claimed."""
    if len(columns) > 1:
        raise ConfigError("--epsilon takes one --score; for several, give each a confidence that shares the error rate")
    show(bounds(next(iter(columns.values())), included, question), question, as_json)
    return 0


def bounds(values: Array, included: Array, question: DeltaQuestion) -> list[DeltaBound]:
    """One for each estimator; all hold together with the confidence asked for."""
    from audit.bounds import budget, claim_test, granted
    from audit.bounds.granted import granted_estimators
    from audit.core import checks
    from audit.core.game import Game
    from audit.core.seeds import Seed
    from audit.core.views import Scores

    checks.confidence(question.confidence)
    game = Game.of_scores(question.game, len(values), canary="scores given")
    scores = Scores(values=values, included=included, game=game, attack="scores")
    checks.both_sides(included, "scores")
    estimators = granted_estimators(game, question.estimators or (granted.for_delta(game),))
    level, bounds = budget.share(question.confidence, len(estimators)), []
    for index, estimator in enumerate(estimators):
        game.require(estimator.assumes, type(estimator).__name__)
        seed = Seed(question.seed).child("estimator", index)
        bounds.append(claim_test.delta_bound(estimator, scores, epsilon=question.epsilon, confidence=level, seed=seed))
    return bounds


def show(delta_bounds: Sequence[DeltaBound], question: DeltaQuestion, as_json: bool) -> None:
    """Print the bounds."""
    keys = ("estimator", "family", "delta", "ceiling", "confidence")
    rows = [{key: getattr(bound, key) for key in keys} for bound in delta_bounds]
    lines = [f"delta at epsilon {question.epsilon:g}; all lines hold together with {question.confidence:.4g}"]
    for bound in delta_bounds:
        inside = f" inside the family '{bound.family}'" if bound.family else ""
        lines.append(
            f"  {bound.estimator}: delta at least {_down(bound.delta)}{inside}, confidence {bound.confidence:.4g}; "
            f"ceiling {_down(bound.ceiling)}"
        )
    if question.game == "one_run" and all(bound.ceiling < LITTLE for bound in delta_bounds):
        lines.append(
            "note: even perfect scores of one run prove no more of delta; scores from separate trainings do "
            "(--game independent_trials)"
        )
    values = {"epsilon": question.epsilon, "confidence": question.confidence, "game": question.game, "bounds": rows}
    print_result(as_json, values, *lines)


def _down(delta: float) -> str:
    """Three digits, rounded down."""
    from decimal import ROUND_DOWN, Context, Decimal

    return f"{Context(prec=3, rounding=ROUND_DOWN).create_decimal(Decimal(delta)):g}"
