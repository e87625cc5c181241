"""`audit scores FILE --epsilon E`: how large delta is at least at that epsilon."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from audit.cli.printing import print_json, print_plain

if TYPE_CHECKING:
    from audit.core.data import Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Asked:
    """The question; `estimators` None takes all that the game grants and that hold for any mechanism."""

    epsilon: float
    confidence: float
    game: str
    seed: int
    estimators: Sequence[str] | None


def found(values: Array, included: Array, asked: Asked) -> list[dict[str, Any]]:
    """A row for each estimator; all hold together with the confidence asked for."""
    from audit.bounds import claim_test
    from audit.core import checks
    from audit.core.seeds import Seed
    from audit.core.views import Scores
    from audit.experiment import figures
    from audit.experiment.scores import game_of, granted_estimators

    checks.open_probability(asked.confidence, "confidence")
    rules = game_of(asked.game, len(values))
    scores = Scores(values=values, included=included, game=rules, attack="scores")
    checks.both_sides(included, "scores")
    chosen = granted_estimators(rules, asked.estimators)
    level, rows = figures.share(asked.confidence, len(chosen)), []
    for index, one in enumerate(chosen):
        rules.require(one.assumes, type(one).__name__)
        seed = Seed(asked.seed).child("estimator", index)
        delta = claim_test.delta_refuted(one, scores, epsilon=asked.epsilon, confidence=level, seed=seed)
        kind = claim_test.probe(one, rules, None, claim_test.LEAST_DELTA)
        rows.append({"estimator": kind.estimator, "family": kind.family, "delta": delta, "confidence": level})
    return rows


def show(rows: Sequence[dict[str, Any]], asked: Asked, as_json: bool) -> int:
    """Prints the rows; always 0, since nothing is claimed."""
    if as_json:
        print_json({"epsilon": asked.epsilon, "confidence": asked.confidence, "game": asked.game, "bounds": list(rows)})
        return 0
    print_plain(f"delta at epsilon {asked.epsilon:g}; all lines hold together with {asked.confidence:.4g}")
    for row in rows:
        inside = f" inside the family '{row['family']}'" if row["family"] else ""
        print_plain(f"  {row['estimator']}: delta at least {_down(row['delta'])}{inside}, confidence {row['confidence']:.4g}")
    return 0


def _down(delta: float) -> str:
    """Three digits, rounded down."""
    from decimal import ROUND_DOWN, Context, Decimal

    return f"{Context(prec=3, rounding=ROUND_DOWN).create_decimal(Decimal(delta)):g}"
