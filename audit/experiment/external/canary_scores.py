"""Scores of canaries through any door (callback, folder, server): what is known of their coins, and the report that follows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from audit.checks import blind
from audit.checks.membership import IMPLAUSIBLE, order_tail
from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.game import Game, Inclusion
from audit.core.phrases import phrase
from audit.core.results import Check, Status
from audit.endpoint.canary_files import TextCanary
from audit.experiment.external.scores import DECLARATION, ScoredReport, ScoreOrigin, judge_scores
from audit.experiment.games.settings import Settings
from audit.stats.bounds import guess_split
from audit.stats.sign_test import lower_tail

DECOY_LEVEL = 1e-5
_FEWEST, _AT_CHANCE = 80, 0.01
_APART = (
    "scores fall into two groups far apart, as of texts that were trained on and others, and the coins do not agree with them: "
    "the coins are probably others than those planted, or in another order"
)
NO_COINS = (
    "No epsilon: nothing shows that coins decided who was included. Give the commitment that was published before the training "
    "(--commitment, from `audit canaries new`), or state it by --coins."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoinKnowledge:
    """A statement about the coins.

    Attributes:
        commitment: that was opened, published before the training; "" if there is none.
        declared: it is stated, without a commitment, that fair coins decided.
        in_process: this process saw the coins fixed before the training began.
    """

    commitment: str = ""
    declared: bool = False
    in_process: bool = False

    @property
    def are_stated(self) -> bool:
        """True if memberships are taken as decided by coins."""
        return bool(self.commitment) or self.declared

    @property
    def check(self) -> Check:
        code, value, status = "coins", "no commitment, and nobody states that there were coins: no epsilon follows", Status.GAP
        digest = {"commitment": self.commitment}
        if self.commitment and self.in_process:
            value = phrase("fixed before the training began, in the process that trained; commitment {commitment}", **digest)
        elif self.commitment:
            value = phrase(
                "texts and coins are those of the commitment {commitment}; that it was published before is declared", **digest
            )
        elif self.declared:
            code, value, status = "game", "independent coins, without a commitment to them", Status.DECLARED
        status = Status.CHECKED if self.commitment else status
        return Check(code=code, item="Coins of the canaries", value=value, status=status)


def examine_canaries(
    columns: Mapping[str, Array] | Array,
    canaries: Sequence[TextCanary],
    coins: CoinKnowledge,
    settings: Settings,
    *,
    name: str,
    remarks: Sequence[str] = (),
) -> ScoredReport:
    """Return the report on canaries: bounds if coins decided and nothing in texts, order or decoys speaks against it.

    `columns` are `(m,)` scores in the order of the canaries, decoys among them, higher for those taken for members; or several
    such columns by name. `DataError` if one is not a number for each.
    """
    named = columns if isinstance(columns, Mapping) else {"scores": columns}
    tables = {key: _demand_scores(key, column, len(canaries)) for key, column in named.items()}
    is_decoy = np.array([canary.decoy for canary in canaries])
    own = [canary for canary in canaries if not canary.decoy]
    included = np.array([canary.included for canary in own])
    features = blind.text_features([canary.text for canary in own])
    guard = blind.guard(features, None, included, settings.stream.child("texts"))
    order = order_tail(included)
    first = next(iter(tables.values()))
    decoys, groups = _judge_decoys(first, is_decoy, canaries), _find_groups(first[~is_decoy], included)
    text_groups = blind.NOT_RUN if groups is None else blind.guard(features, None, groups, settings.stream.child("groups"))
    doubts = [
        "texts alone tell included canaries from the others, so scores show how they were chosen" * guard.has_bias,
        "the coins, in the order of the file, are no independent fair ones" * (coins.are_stated and order < IMPLAUSIBLE),
        "too few canaries for the blind classifier, and no commitment"
        * (coins.declared and not coins.commitment and guard.auc is None),
        decoys[1] if coins.are_stated else "",
        _APART * (coins.are_stated and groups is not None and not text_groups.has_bias),
    ]
    value = phrase("number of heads and of runs: p = {p}", p=f"{order:.2g}")
    status = Status.FAILED if doubts[1] else Status.CHECKED
    order_row = Check(code="order", item="Order of the coins", value=value, status=status)
    notes = [phrase("Commitment: {commitment}.", commitment=coins.commitment) if coins.commitment else "Commitment: none."]
    notes += [] if coins.are_stated else [NO_COINS]
    notes += [phrase("{item}: {value}.", item=guard.check.item, value=guard.check.value)]
    game = Game.of_scores("one_run", len(own), settings.adjacency, DECLARATION)
    origin = ScoreOrigin(
        name=name,
        game=game if coins.are_stated else replace(game, inclusion=Inclusion.SPLIT),
        claims=settings.claims,
        checks=(coins.check, guard.check, order_row, *decoys[0]),
        remarks=(*notes, *remarks),
        facts=_facts(name, canaries, coins),
        log_odds=coins.are_stated and not any(map(guess_split.has_long_lower_tail, tables.values())),
        doubt=next(filter(None, doubts), ""),
    )
    own_columns = {key: column[~is_decoy] for key, column in tables.items()}
    return ScoredReport(report=judge_scores(own_columns, included, origin, settings), columns=own_columns, included=included)


def _facts(name: str, canaries: Sequence[TextCanary], coins: CoinKnowledge) -> dict[str, Any]:
    own = [canary for canary in canaries if not canary.decoy]
    content = "\n".join(repr(canary) for canary in canaries)
    return {
        "scores": name,
        "records": len(own),
        "game": "one_run",
        "commitment": coins.commitment or None,
        "canaries_sha256": hashlib.sha256(content.encode()).hexdigest(),
        "decoys": len(canaries) - len(own),
        "place": own[0].context.place,
        "form": own[0].context.form,
    }


def _demand_scores(name: str, column: Array, count: int) -> Array:
    """Return a column as `(count,)` float64, or raise `DataError`."""
    values = np.asarray(column)
    if values.shape != (count,) or values.dtype.kind not in "fiu":
        raise DataError(
            f"column '{name}' is {values.dtype} of shape {values.shape} for {count} canaries, decoys among them; expected one "
            f"number per canary, in their order, ({count},)"
        )
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        raise DataError(
            f"column '{name}' is NaN for canary {missing[0] + 1} ({len(missing)} of {count}): score these canaries again, or "
            "leave them out of the file"
        )
    return values.astype(np.float64)


def _find_groups(values: Array, included: Array) -> Array | None:
    """Return which scores are above a gap wider than the groups on both sides of it, if coins agree by chance alone; or None.

    Scores of texts that were learnt by heart are such a group. Each holds a quarter of the canaries at least.
    """
    count, order = len(values), np.sort(values)
    # shares of secrets that a model writes have few values; what is in no list of tokens has minus infinity
    if count < _FEWEST or len(np.unique(order)) <= count / 2 or not np.isfinite(order).all():
        return None
    first = count // 4
    cut = first + int(np.diff(order)[first - 1 : count - first].argmax())
    is_above = values >= order[cut]
    if order[cut] - order[cut - 1] <= max(values[is_above].std(), values[~is_above].std()):
        return None
    return is_above if lower_tail(-is_above.astype(np.float64), included) > _AT_CHANCE else None


def _judge_decoys(values: Array, is_decoy: Array, canaries: Sequence[TextCanary]) -> tuple[tuple[Check, ...], str]:
    """Return the row on whether canaries left out are scored like those that never existed, and what is in doubt if not."""
    if not is_decoy.any():
        return (), ""
    is_out = np.array([not canary.included for canary in canaries])
    column = np.asarray(values, dtype=np.float64)[is_out]
    chance = min(1.0, 2 * min(lower_tail(column, is_decoy[is_out]), lower_tail(-column, is_decoy[is_out])))
    text = f"{int(is_decoy.sum())} decoys beside {int((is_out & ~is_decoy).sum())} left out: p = {chance:.2g}"
    is_failure = chance < DECOY_LEVEL
    check = Check(code="decoys", item="Decoys", value=text, status=Status.FAILED if is_failure else Status.CHECKED)
    doubt = "canaries that coins left out are not scored like decoys: the coins are others than those planted"
    return (check,), doubt * is_failure
