"""Eight kinds of model are audited by their own loss, and each AUC is that of an own computation."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import audit

_SPEC = importlib.util.spec_from_file_location("own_losses", Path(__file__).parents[2] / "examples" / "own_losses.py")
assert _SPEC is not None and _SPEC.loader is not None
examples: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(examples)


@pytest.mark.slow
@pytest.mark.parametrize("kind", examples.KINDS, ids=lambda kind: kind.__name__)
def test_the_auc_of_the_loss_is_the_share_of_pairs_that_it_orders(kind: Any) -> None:
    torch.manual_seed(0)
    loss_of, members, nonmembers = kind()
    result = audit.check(loss_of=loss_of, members=members, nonmembers=nonmembers, quiet=True)
    (row,) = [row for row in result.attacks if row.attack == "loss"]
    with torch.no_grad():
        inside, outside = (np.asarray(loss_of(side), np.float64) for side in (members, nonmembers))
    pairs = (inside[:, None] < outside).mean() + (inside[:, None] == outside).mean() / 2
    assert row.auc == pytest.approx(pairs, abs=2e-3)
    assert row.auc > 0.6
