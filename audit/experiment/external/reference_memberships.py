"""Whether memberships and outputs of references fit their losses and the order of the coins: else columns are off."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.core.phrases import phrase
from audit.data.members import MemberEvidence
from audit.experiment.external.external_models import RecordedOutputs, References, join
from audit.experiment.external.model_answers import Answers
from audit.stats.rank_evidence import (
    find_model_evidence,
    find_row_evidence,
    likeness,
    membership_evidence,
    neighbour_pairs,
    separation,
)
from audit.stats.scoring.signals import cross_entropy

_AHEAD = 5.0  # standard errors and twice as many as in the right order, which chance gives once in 250,000
_ADVICE = (
    "where records carry an index, column j of included and of recorded outputs is the record with index j; bring them into "
    "that order"
)


def refuse_strange_index(references: References, evidence: MemberEvidence) -> None:
    """Raise `DataError` unless the index names a column of the references for each record, none twice."""
    index, columns = evidence.index, references.included.shape[1]
    if index is None or evidence.units is not None:
        return
    if index.min() < 0 or index.max() >= columns or len(np.unique(index)) < len(index):
        raise DataError(
            f"the index of the records goes from {index.min()} to {index.max()}, {len(np.unique(index))} different ones of "
            f"{len(index)}; references have {columns} columns, one for each coin, so expected each of 0 to {columns - 1} once; "
            "without coins leave 'index' out: columns are members first, then nonmembers"
        )


def refuse_members_first(
    references: References, target: Answers, models: RecordedOutputs, evidence: MemberEvidence, labels: Array | None
) -> None:
    """Raise `DataError` if references clearly are in the order "members, then nonmembers", not in that of the coins.

    In the wrong order every attack with references finds chance, and no figure shows why. Models that were asked here have
    their outputs in the right order, so their losses show whether memberships are; recorded outputs, whether hard records are
    hard to target and references alike. Both are asked within pairs of neighbours of one label: a trend along the records,
    memberships in runs and labels alone look alike in either order. A refusal proves nothing, so bounds hold as without it.
    `labels` `(n,)` are None if only losses are known.
    """
    if evidence.index is None or evidence.units is not None or np.array_equal(evidence.index, evidence.rows):
        return
    losses = losses_by_model(models, labels)
    has_classes = evidence.labels.ndim == 1 and evidence.labels.dtype.kind == "i"
    pairs = neighbour_pairs(evidence.labels if has_classes else np.zeros_like(evidence.rows))
    if len(references.models):
        fits = [separation(losses[1:], references.included[:, order], pairs) for order in (evidence.index, evidence.rows)]
        agreement = "memberships fit the models' own losses"
    else:
        again = losses_by_model(join(target, references.of(evidence.rows), evidence.records, labels), labels)
        fits = [likeness(values[0], values[1:].mean(axis=0), pairs) for values in (losses, again)]
        agreement = "records are as hard to the references as to the target"
    by_coins, by_rows = fits
    if by_rows > max(by_coins, 0.0) + _AHEAD and by_rows > 2 * by_coins:
        raise DataError(
            f"references are in the order members first, then nonmembers: so read, {agreement} ({by_rows:.0f} standard errors) "
            f"and far less in the order of the index ({by_coins:.1f}); {_ADVICE}"
        )


def losses_by_model(models: RecordedOutputs, labels: Array | None) -> Array:
    """Losses of all records, or what represents them, `(models, n)`."""
    if models.logits is None or labels is None:
        return np.asarray(models.losses)
    return cross_entropy(models.logits, labels)


def read_moved(models: RecordedOutputs, labels: Array | None, order: Array) -> Array:
    """Return losses of the references, `(k, n)`, if their recorded outputs are taken in another order of columns."""
    if models.logits is None or labels is None:
        return np.asarray(models.losses)[1:, order]
    return cross_entropy(np.asarray(models.logits)[1:, order], labels)


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
