"""Renyi divergences of releases that are chosen one after the other, as filters and odometers add them up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from audit.accounting.accountants._closed_forms import divergences
from audit.accounting.accountants._rewriting import known_uncut
from audit.core.adjacency import Adjacency
from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import is_non_private, nodes
from audit.core.events import Event


def adaptive_divergences(event: Event, adjacency: Adjacency, orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the divergences of all releases added up, at each order; infinite if nothing hides a record.

    Raises:
        UnsupportedMechanism: some part has no formula for its divergence, or its batches are cut.
    """
    exposure = np.full(len(orders), np.inf)
    if is_non_private(event):
        return exposure
    total = divergences(known_uncut(event, adjacency), adjacency, orders)
    if total is not None:
        return total
    if any(getattr(node, "noise_multiplier", 1.0) == 0 for node in nodes(event)):
        return exposure
    raise UnsupportedMechanism(f"{event} has a part without a formula for its Renyi divergence under {adjacency}")
