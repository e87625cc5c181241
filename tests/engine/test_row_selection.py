"""Operations that pick or sort rows of a batch by their values are seen; those within records, and of constants, are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from audit.engine.row_selection import RowSelection

ROWS = 6
SEEN: dict[str, Callable[[Tensor], object]] = {
    "mask": lambda values: values[values[:, 0, 0] > 0],
    "tokens": lambda values: values[values[..., 0] > 0],
    "folded tokens": lambda values: values.flatten(0, 1)[values.flatten(0, 1)[:, 0] > 0],
    "places": lambda values: (values[:, 0, 0] > 0).nonzero(),
    "masked_select": lambda values: values.masked_select(values > 0),
    "argsort": lambda values: values[..., 0].flatten().argsort(stable=True),
    "topk": lambda values: values[..., 0].topk(2, dim=0),
    "unique": lambda values: values[..., 0].unique(),
}
UNSEEN: dict[str, Callable[[Tensor], object]] = {
    "sorted positions": lambda values: values.sort(dim=1),
    "best channels": lambda values: values.topk(2, dim=-1),
    "constant mask": lambda values: values[:, torch.tensor([True, False, True, True])],
    "constant places": lambda values: values[:, torch.tensor([True, False, True, True]).nonzero().flatten()],
    "filled": lambda values: values.clone().masked_fill_(values > 0, 0.0),
    "where": lambda values: torch.where(values > 0, values, 0.0),
}


@pytest.mark.parametrize("name", [*SEEN, *UNSEEN])
def test_rows_picked_by_values_are_seen(name: str) -> None:
    values = torch.randn(ROWS, 4, 5, generator=torch.Generator().manual_seed(0))
    with RowSelection(ROWS) as selection:
        (SEEN | UNSEEN)[name](values)
    assert bool(selection.operations) is (name in SEEN)
