"""Whether memberships and outputs of references are in the order of the coins, if records carry an index."""

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError
from audit.data.members import MemberEvidence
from audit.experiment.external.external_models import RecordedOutputs, References, join
from audit.experiment.external.model_answers import Answers
from audit.stats.rank_evidence import likeness, neighbour_pairs, separation
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
