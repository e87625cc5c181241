"""One line for each game of a plan: whether it could refute what is claimed, before anything is trained."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from audit.core.rounding import down, up

if TYPE_CHECKING:
    from audit.core.claims import Claim
    from audit.core.plans import CeilingRow, RunPlan


def lines(plan: RunPlan) -> Iterator[str]:
    """Yield a sentence for each game of each training, in the order of the plan."""
    games = dict.fromkeys((row.mechanism, row.game) for row in plan.ceilings)
    for mechanism, game in games:
        rows = [row for row in plan.ceilings if (row.mechanism, row.game) == (mechanism, game)]
        yield f"{mechanism}, {game}: {_answer(plan.claims[mechanism], rows)}"


def _answer(claims: Sequence[Claim], rows: Sequence[CeilingRow]) -> str:
    best = max(rows, key=lambda row: row.ceiling)
    if not claims:
        return f"no claim to refute; could prove epsilon of up to {_kind(best)}"
    refutable = {claim: row for claim in claims if (row := _strongest(claim, rows)) and row.ceiling > claim.epsilon}
    remainder = [claim for claim in claims if claim not in refutable]
    parts = [f"can refute {_named(claim)} by {_kind(row)}" for claim, row in refutable.items()]
    if remainder:
        reason = (
            "an infinite claim asserts nothing"
            if all(math.isinf(claim.epsilon) for claim in remainder)
            else _explain_reach(remainder, rows)
        )
        parts.append(f"cannot refute {', '.join(_named(claim) for claim in remainder)}: {reason}")
    return "; ".join(parts)


def _strongest(claim: Claim, rows: Sequence[CeilingRow]) -> CeilingRow | None:
    """The row with the highest ceiling among those that speak of such a claim."""
    speaking = [row for row in rows if row.family in (None, claim.family)]
    return max(speaking, key=lambda row: row.ceiling, default=None)


def _explain_reach(claims: Sequence[Claim], rows: Sequence[CeilingRow]) -> str:
    """Return why none of these can be refuted."""
    strongest = [row for claim in claims if (row := _strongest(claim, rows)) is not None]
    if not strongest:
        return "no estimator of this game speaks of such a claim"
    row = max(strongest, key=lambda row: row.ceiling)
    return f"the most that perfect scores prove is {_kind(row)}; more canaries or runs prove more"


def _named(claim: Claim) -> str:
    return f"{up(claim.epsilon)} ({claim.source})"


def _kind(row: CeilingRow) -> str:
    inside = f" inside the family {row.family}" if row.family else ""
    return f"{down(row.ceiling)} ({row.estimator}{inside})"
