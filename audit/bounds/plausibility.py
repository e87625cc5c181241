"""What the scores themselves say against the game that they are said to come from.

Assumptions cannot be proved from scores, but some breaches show: coins that cannot be fair, copied rows, scores that follow
their neighbours. A breach that no honest game shows is an error; what only looks odd is a remark.
"""

import math
from dataclasses import dataclass

import numpy as np

from audit.core import checks
from audit.core.data import Array
from audit.core.errors import AssumptionError
from audit.core.game import Assumption, Game
from audit.core.phrases import join_clauses, phrase
from audit.core.views import Scores
from audit.stats.bounds.binomial import two_sided
from audit.stats.sampling_tests import lag_rank_correlation

CERTAIN = 1e-9  # an honest game shows so much less often
ODD = 1e-3
DISTINCT = 20  # different values, below which equal rows are the nature of the score
MOST_TIES = 0.2  # share of scores with an equal on the other side that is worth a remark


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Equal scores taken together: how many each group holds, and whether both sides are among them."""

    size: Array
    two_sided: Array


def remarks(scores: Scores, assumes: frozenset[Assumption], *, own_coins: bool = False) -> tuple[str, ...]:
    """Return what contradicts `assumes`, or the listing of the rows, one sentence each; empty if nothing does.

    `own_coins`: the suite drew the coins itself, and no row of theirs can be missing.

    Raises:
        AssumptionError: coins that are said to be fair are off by so much that chance is ruled out, or all rows are copies.
    """
    checks.both_sides(scores.included, "the table of scores")
    groups = _groups(scores.values, scores.included)
    remark_list = [_copies(groups, scores.included)]
    if Assumption.INDEPENDENT_COINS in assumes:
        remark = _coins(scores.included, scores.game)
        ending = (
            "the audit drew them itself: this is chance" if own_coins else "check that every record with a coin is in the table"
        )
        remark_list.append(join_clauses((remark, ending)) if remark else "")
    if Assumption.INDEPENDENT_TRIALS in assumes:
        remark_list.append(_neighbours(scores.values, scores.included))
    remark_list.append(_ties(groups))
    return tuple(remark for remark in remark_list if remark)


def _groups(values: Array, included: Array) -> Groups:
    order = np.argsort(values)
    starts = np.flatnonzero(np.append(True, values[order][1:] != values[order][:-1]))
    size = np.diff(np.append(starts, len(values)))
    members = np.add.reduceat(included[order].astype(np.int64), starts)
    return Groups(size=size, two_sided=(members > 0) & (members < size))


def _coins(included: Array, game: Game) -> str:
    members, count = int(included.sum()), len(included)
    chance = two_sided(members, count, game.inclusion_probability)
    remark = phrase(
        "{members} of {count} are members, which coins with probability {rate} give with probability {chance}",
        members=members,
        count=count,
        rate=f"{game.inclusion_probability:g}",
        chance=f"{chance:.1g}",
    )
    if chance < CERTAIN:
        raise AssumptionError(
            f"{remark}: memberships were not decided by such coins. Give every record that a coin was drawn for, or state the "
            "game as it was (independent trials need no coins)"
        )
    return remark if chance < ODD else ""


def _copies(groups: Groups, included: Array) -> str:
    """Rows that repeat value and side; with many different values two records hardly ever share one by chance."""
    if len(groups.size) < DISTINCT or groups.two_sided.any():  # some value is on both sides, as in scores of few values
        return ""
    fewest = int(groups.size.min())
    if fewest > 1 and min(int(included.sum()), int((~included).sum())) > DISTINCT:
        raise AssumptionError(
            f"all {len(included)} rows are copies: each of the {len(groups.size)} values stands at least {fewest} times, "
            "always on one side. Copies are not further evidence; give each record once"
        )
    extra = len(included) - len(groups.size)
    if extra <= 0.05 * len(included):
        return ""
    return phrase(
        "{extra} of {count} rows repeat the score and the side of another: copies are no further evidence",
        extra=extra,
        count=len(included),
    )


def _neighbours(values: Array, included: Array) -> str:
    """Rank correlation of scores with the next of the same side, in the order of listing; a sorted table says nothing."""
    strongest = 0.0
    for side in (False, True):
        side_values = values[included == side]
        # the normal tail below is asymptotic, and a sorted table tells of its sorting only
        if len(side_values) < 30 or len(np.unique(side_values)) < 3 or _is_sorted(side_values):
            continue
        strongest = max(strongest, abs(lag_rank_correlation(side_values)) * math.sqrt(len(side_values) - 2))
    if math.erfc(strongest / math.sqrt(2)) >= CERTAIN:  # two-sided normal tail
        return ""
    return phrase(
        "scores follow those listed before them on their side ({errors} standard errors): they do not look "
        "like independent trials",
        errors=f"{strongest:.1f}",
    )


def _is_sorted(values: Array) -> bool:
    ascending = values[1:] >= values[:-1]
    return bool(ascending.all() or (values[1:] <= values[:-1]).all())


def _ties(groups: Groups) -> str:
    share = float(groups.size[groups.two_sided].sum() / groups.size.sum())
    if share < MOST_TIES:
        return ""
    return phrase(
        "{share} of the scores equal one of the other side; ties count against the attack, so a finer score proves more",
        share=f"{share:.0%}",
    )
