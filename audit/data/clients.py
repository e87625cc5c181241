"""Which client holds which record: splits of one data set over the clients of a federation."""

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError


def uniform(records: int, clients: int, generator: np.random.Generator) -> tuple[Array, ...]:
    """Return the rows of each client, dealt out at random in equal parts; `DataError` if clients outnumber the records."""
    _refuse_small(records, clients)
    return tuple(np.sort(part) for part in np.array_split(generator.permutation(records), clients))


def dirichlet(labels: Array, clients: int, concentration: float, generator: np.random.Generator) -> tuple[Array, ...]:
    """Return the rows of each client, the records of each class dealt out in shares of a symmetric Dirichlet law.

    A client that got nothing takes one record of the client that has most, so that each holds at least one. `DataError` if
    there are fewer records than clients, or labels are no classes.

    Args:
        labels: `(n,)` class of each record.
        concentration: small for clients of few classes, large for clients that are alike.

    References:
        Hsu, Qi, Brown 2019, arXiv 1909.06335.
    """
    _refuse_small(len(labels), clients)
    if np.asarray(labels).dtype.kind not in "iu":
        raise DataError(f"a Dirichlet split needs class labels, got labels of type {labels.dtype}; use split 'uniform'")
    rows_by_client: list[list[int]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        # sums of shares are rounded, not shares, so that every record is dealt out once
        ends = np.floor(np.cumsum(generator.dirichlet(np.full(clients, concentration))) * len(rows) + 0.5).astype(int)
        for client, part in enumerate(np.split(rows, ends[:-1])):
            rows_by_client[client].extend(part.tolist())
    for rows_of_client in rows_by_client:
        if not rows_of_client:
            rows_of_client.append(max(rows_by_client, key=len).pop())
    return tuple(np.sort(np.asarray(rows, dtype=np.int64)) for rows in rows_by_client)


def by_owner(owners: Array | None, records: int, clients: int) -> tuple[Array, ...]:
    """Return the rows of each client, if `owners` `(records,)` name it; of the public number of clients others hold nothing.
    `DataError` if they do not, or name more clients.
    """
    if owners is None or len(owners) != records:
        raise DataError(
            "split 'column' needs data that say whose record each is; name the columns in data.client (kind: table)"
        )
    names, codes = np.unique(owners, return_inverse=True)
    if len(names) > clients:
        raise DataError(
            f"the train records belong to {len(names)} clients, and 'clients' is {clients}; raise it to {len(names)}"
        )
    return tuple(np.flatnonzero(codes == client) for client in range(clients))


def _refuse_small(records: int, clients: int) -> None:
    if records < clients:
        raise DataError(f"{records} training records for {clients} clients; each needs at least one: lower clients")
