"""Whether memberships of references fit their losses, if the target's fit its own: else columns or truth values are off."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.phrases import phrase
from audit.stats.rank_evidence import find_model_evidence, find_row_evidence, membership_evidence

_TELLS = 5.0  # standard errors from which on the target's losses clearly tell its members
_CHANCE = 2.0  # below them the memberships of references say nothing of their losses
_OPPOSITE = -6.0
_LEAST_EVIDENCE = 4.0  # standard errors by which the typical reference tells its own members, and more than one that lost them
_MOST_RECORDS = 20_000  # that models and rows are compared on
_INVERTED = "truth values are inverted"


# from an order of columns to the losses of the references, `(k, n)`, of outputs that were recorded, taken in that order
ReadAgain = Callable[[Array], Array]


def refuse_foreign_memberships(losses: Array, included: Array, read_again: ReadAgain | None = None) -> str:
    """Return what to ask of a reference that does not know its own members although the others know theirs; "" of none.

    Each record's losses in references that hold it are compared with those in references that do not, so that hard records do
    not matter; losses of each model are ranked first, so that better models do not. `DataError` if references do not
    know their own members although the target does or another order fits, or know them inverted; it states no bound.

    Args:
        losses: `(1 + k, n)`, the target's first; `included` `(1 + k, n)` bool, the same order.
        read_again: of recorded outputs, since their columns may be in the wrong order as well; None of models asked here.
    """
    sample = np.linspace(0, included.shape[1] - 1, min(included.shape[1], _MOST_RECORDS)).astype(np.int64)
    by_row = find_row_evidence(losses[:, sample], included[:, sample])[1:, 1:]
    _refuse_moved_rows(by_row)
    _refuse_foreign_columns(losses, included, read_again)
    worst = int(by_row.diagonal().argmin())
    if by_row[worst, worst] <= _OPPOSITE:
        raise DataError(
            f"reference {worst + 1} has lower losses on records that it was not trained on ({-by_row[worst, worst]:.0f} "
            f"standard errors): row {worst + 1} of references.included is inverted, or of another model"
        )
    return _question_row(by_row.diagonal())


def _question_row(own: Array) -> str:
    worst, typical = int(own.argmin()), float(np.median(own))
    if own[worst] >= _CHANCE or typical < max(_LEAST_EVIDENCE, own[worst] + _LEAST_EVIDENCE):
        return ""
    return phrase(
        "Look first: reference {number} tells nothing of its own memberships ({errors} standard errors), "
        "where the typical one does ({typical}): is row {row} of references.included its own, and was it "
        "trained like them?",
        number=worst + 1,
        errors=f"{own[worst]:.1f}",
        typical=f"{typical:.0f}",
        row=worst + 1,
    )


def _refuse_moved_rows(by_row: Array) -> None:
    """Raise `DataError` if a reference knows the memberships of another row and not its own."""
    own, row = by_row.diagonal(), by_row.argmax(axis=1)
    is_moved = (own < _CHANCE) & (by_row.max(axis=1) >= -_OPPOSITE)
    if is_moved.any():
        model = int(is_moved.argmax())
        raise DataError(
            f"reference {model + 1} was trained on the records of row {row[model] + 1} of references.included "
            f"({by_row[model, row[model]]:.0f} standard errors), not on those of its own row ({own[model]:.1f}): bring rows "
            f"into the order of the models; {is_moved.sum()} of {len(own)} are elsewhere"
        )


def _refuse_foreign_columns(losses: Array, included: Array, read_again: ReadAgain | None) -> None:
    evidence = membership_evidence(losses[1:], included[1:])
    if evidence is None:
        return
    target = find_model_evidence(losses, included[0])
    if evidence >= _CHANCE:
        return
    fits = {
        name: membership_evidence(values, columns) or 0.0
        for name, (values, columns) in _orders(losses[1:], included, read_again).items()
    }
    name = max(fits, key=lambda key: fits[key])
    if evidence > _OPPOSITE and target < _TELLS and fits[name] < -_OPPOSITE:
        return
    if evidence <= _OPPOSITE and name == _INVERTED:
        raise DataError(
            f"references have lower losses on records that they were not trained on ({-evidence:.0f} standard errors): "
            "memberships are inverted; give references.included with true where model k was trained on record n (~included)"
        )
    tells = f"the target's losses tell its members ({target:.0f} standard errors), but " if target >= _TELLS else ""
    advice = (
        f"it fits where {name} ({fits[name]:.0f} standard errors)"
        if fits[name] >= -_OPPOSITE
        else (
            "no other order that was tried fits either (nonmembers first, reversed, inverted): bring columns into the order of "
            "members, then nonmembers, as they are given"
        )
    )
    raise DataError(
        f"{tells}the references' losses tell nothing of references.included ({evidence:.1f} standard errors): columns are in "
        f"another order, or the models are of another kind; {advice}"
    )


def _orders(losses: Array, included: Array, read_again: ReadAgain | None) -> Mapping[str, tuple[Array, Array]]:
    """Return losses and memberships of references in other orders that people write by mistake."""
    references, members, places = included[1:], int(included[0].sum()), np.arange(included.shape[1])
    orders = {"nonmembers first, then members": np.roll(places, members), "in reverse order": places[::-1]}
    fits = {_INVERTED: (losses, ~references)}
    for name, order in orders.items():
        moved = references[:, order]
        if read_again is None:
            fits[f"columns are {name}"] = losses, moved
            continue
        values = read_again(order)
        fits[f"columns are {name}"] = values, moved
        fits[f"columns of included are {name}"] = losses, moved
        fits[f"columns of outputs are {name}"] = values, references
    return fits
