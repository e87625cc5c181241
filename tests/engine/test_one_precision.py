"""Full single precision on a GPU, whichever of torch's switches a user has set, and as it was afterwards. Needs no GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from audit.engine.device import one_precision

if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
    pytest.skip("torch's switches by name exist from 2.9 on", allow_module_level=True)
SWITCHES = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    earlier = [switch.fp32_precision for switch in SWITCHES]
    yield
    for switch, precision in zip(SWITCHES, earlier, strict=True):
        switch.fp32_precision = precision


@pytest.mark.parametrize("precision", ["tf32", "ieee", "none"])
def test_training_is_in_full_precision_after_torchs_switches_by_name(precision: str) -> None:
    for switch in SWITCHES:
        switch.fp32_precision = precision
    earlier = [switch.fp32_precision for switch in SWITCHES]
    with one_precision(torch.device("cuda")):
        assert [switch.fp32_precision for switch in SWITCHES] == ["ieee"] * 3
        assert torch.backends.cudnn.deterministic
        assert not torch.backends.cudnn.benchmark
    assert [switch.fp32_precision for switch in SWITCHES] == earlier


def test_a_cpu_leaves_the_switches_alone() -> None:
    earlier = [switch.fp32_precision for switch in SWITCHES]
    with one_precision(torch.device("cpu")):
        assert [switch.fp32_precision for switch in SWITCHES] == earlier
