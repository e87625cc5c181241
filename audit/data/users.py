"""Users as records: all that a user has, up to a public number of records, side by side, so that a claim is about the user."""

from dataclasses import replace

import numpy as np

from audit.core.errors import ConfigError, DataError
from audit.core.record_arrays import RecordArray
from audit.data import typed
from audit.data.source import Part, Source

NO_RECORD = -1.0  # the label that stands where a user has no further record


def group_source(source: Source, limit: object) -> Source:
    """Return the source with a user in place of each record: `(users, limit, ...)` inputs, `(users, limit)` float64 labels.

    Users are named by `owners`; without them `limit` neighbouring records of the file make up one. Further records of a user
    are left out: what bounds a user's part is clipped, and `limit` only bounds the work. `ConfigError` for a `limit` below 1,
    texts, or records without a class; `DataError` for columns scaled by the train split, or fewer than two users.
    """
    count = typed.records("records_per_user", limit)
    if count is None or count < 1:
        raise ConfigError(f"data.records_per_user is {limit!r}; expected a whole number of at least 1")
    if source.vocabulary is not None or source.unit != "example" or not source.classes:
        raise ConfigError(
            "data.records_per_user joins records that have a class each; texts of a user are joined by data.user (kind: text)"
        )
    if source.scaling.standardised_columns:
        raise DataError(
            "data.records_per_user: numeric columns would be scaled by statistics of the train split; declare their public "
            "limits in data.ranges"
        )
    main = _group(source.main, count)
    naming = "named in the data" if source.main.owners is not None else f"{count} neighbouring records each"
    if len(main) < 2:
        raise DataError(f"data.records_per_user: the records belong to {len(main)} user; expected at least 2")
    origin = f"{source.origin}; a record is a user ({naming}), with at most {count} records"
    test = None if source.test is None else _group(source.test, count)
    return replace(source, origin=origin, main=main, test=test, unit="user", columns={})


def _group(part: Part, limit: int) -> Part:
    owners = np.arange(len(part)) // limit if part.owners is None else part.owners
    _, first, codes = np.unique(owners, return_index=True, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(first)))
    place = np.arange(len(part)) - starts[codes[order]]  # of each record among those of its user
    within = place < limit
    rows = np.zeros((len(first), limit), dtype=np.int64)
    rows[codes[order][within], place[within]] = order[within]
    present = np.zeros(rows.shape, dtype=bool)
    present[codes[order][within], place[within]] = True
    rows = np.where(present, rows, first[:, None])  # a record of the user's own, which the loss leaves out by its label
    flat = part.inputs.take_rows(rows.ravel()) if isinstance(part.inputs, RecordArray) else part.inputs[rows.ravel()]
    return Part(
        inputs=np.asarray(flat).reshape(*rows.shape, *part.inputs.shape[1:]),
        labels=np.where(present, part.labels[rows], NO_RECORD),
        groups=None if part.groups is None else part.groups[first],
    )
