"""Operations that pick or sort rows of a batch by their values are seen; those within records, and of constants, are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from audit.engine.gradients.clipping import Rows, stacked_state
from audit.engine.gradients.dispatch import loop_reason
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.layers.parameter_facts import UncoveredUse
from audit.engine.layers.row_selection import RowSelection

ROWS = 6
SEEN: dict[str, Callable[[Tensor], object]] = {
    "mask": lambda values: values[values[:, 0, 0] > 0],
    "mask of bytes": lambda values: torch.ops.aten.index(values, [(values[:, 0, 0] > 0).byte()]),
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
    "positions by a constant as long as the batch": lambda values: values.repeat(1, 3, 1)[:, torch.arange(12) % 2 == 0],
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


class Graph(nn.Module):
    """Records of 18 nodes, as many as a trial has rows: edges are read off a constant matrix, of some or all records."""

    def __init__(self, all_records: bool) -> None:
        super().__init__()
        self.layer, self.head, self.all_records = nn.Linear(3, 8), nn.Linear(8, 2), all_records
        self.register_buffer("adjacency", torch.eye(18).roll(1, 0) > 0)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden, edges = self.layer(inputs), self.adjacency.nonzero()
        hidden = hidden.index_add(1, edges[:, 1], hidden[:, edges[:, 0]]).tanh().mean(1)
        if self.all_records:
            return self.head(hidden)
        chosen = hidden[:, 0] > -1.0  # all records of a trial
        return hidden.new_zeros(len(hidden), 2).masked_scatter(chosen.unsqueeze(1), self.head(hidden[chosen]))


@pytest.mark.parametrize("all_records", [True, False])
def test_a_constant_as_long_as_the_batch_by_chance_is_no_reason_for_the_slow_loop(all_records: bool) -> None:
    torch.manual_seed(0)
    module = Graph(all_records)
    reason = loop_reason(module, stacked_state([module], torch.float32, torch.device("cpu")), torch.randn(20, 18, 3))
    assert reason is None if all_records else reason is not None and "picks rows of a batch by their values (index)" in reason


class Half(nn.Module):
    """A layer on the first rows of a batch, as many as the host counted."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        count = int((inputs[:, 0] > 0).sum())
        return torch.cat([self.layer(inputs[:count]), inputs[count:, :2]])


def test_a_layer_that_takes_a_part_of_the_rows_is_refused_in_both_passes() -> None:
    module = Half()
    fast = TapeGradients(module, stacked_state([module] * 2, torch.float32, torch.device("cpu")))
    inputs = torch.ones(8, 4)
    inputs[4:, 0] = -1.0  # half of the rows: as many for each model, were they not all of the first
    rows = Rows(inputs=inputs, labels=torch.zeros(8, dtype=torch.int64), mask=torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(UncoveredUse, match="4 rows where a batch of all models has 8"):
        fast.forward(inputs)
    fast.tape.batch = 0
    with pytest.raises(UncoveredUse, match="4 rows where a batch of all models has 8"):
        fast.add_sum(rows, None, torch.zeros_like(fast.flat))
