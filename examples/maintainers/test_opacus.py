"""A gate for Opacus: each set-up is one test; what is known to be wrong stands in opacus.json with its reason.

pip install 'epsilon-audit[opacus]' pytest
pytest examples/maintainers/test_opacus.py          # one passes, one is an accepted defect
"""

from pathlib import Path

import pytest
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import audit
from audit.testing import assert_baseline

CRITERIA = {
    "mean loss": nn.CrossEntropyLoss(),
    "class-weighted mean loss": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 50.0])),
}


@pytest.mark.parametrize("name", CRITERIA)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_a_step_keeps_its_promise(name: str) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(64, 5), torch.arange(64) % 2
    net = nn.Linear(5, 2)
    model, optimizer, _ = PrivacyEngine().make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(x, y), batch_size=16),
        noise_multiplier=1.5,
        max_grad_norm=1.0,
    )
    claim = {"noise_multiplier": 1.5, "clip_norm": 1.0, "divisor": optimizer.expected_batch_size}
    report = audit.check_optimizer(model, optimizer, CRITERIA[name], (x[:16].numpy(), y[:16].numpy()), **claim)
    assert_baseline(name, report, Path(__file__).with_name("opacus.json"))
