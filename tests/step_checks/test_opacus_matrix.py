"""Opacus as its users write it: right set-ups of every mode and kind of model fail by nothing, wrong ones by their check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from audit.step_checks.findings import StepReport
from audit.step_checks.run import check_optimizer

opacus = pytest.importorskip("opacus", reason="needs the extra 'opacus'")
pytestmark = pytest.mark.slow
FLAT, CROSS_ENTROPY = {"max_grad_norm": 1.0}, nn.CrossEntropyLoss()


class Pictures(nn.Module):
    """A convolution and `view`, as in tutorials."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.head = nn.Conv2d(1, 3, 3), nn.Linear(3 * 16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.convolution(x.reshape(len(x), 1, 6, 6)))
        return self.head(x.view(x.size(0), -1))


class Sentences(nn.Module):
    """An embedding, a recurrent layer of Opacus and a head on the last state."""

    def __init__(self) -> None:
        super().__init__()
        from opacus.layers import DPGRU

        self.table, self.layer, self.head = nn.Embedding(20, 4), DPGRU(4, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.table(x))[0][:, -1])


class Shared(nn.Module):
    """One weight that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.middle, self.head = nn.Linear(36, 36), nn.Linear(36, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.middle(torch.tanh(self.middle(x)))))


class LowRank(nn.Module):
    """A frozen weight with a trained difference of rank 2."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.down, self.up = nn.Linear(36, 3), nn.Linear(36, 2, bias=False), nn.Linear(2, 3, bias=False)
        self.base.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.up(self.down(x))


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(36, 4), nn.Tanh(), nn.Dropout(0.2), nn.Linear(4, 3))


def attention() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
            self.body = BertForSequenceClassification(
                BertConfig(vocab_size=20, max_position_embeddings=8, num_labels=3, **sizes)
            )
            self.body.bert.embeddings.requires_grad_(False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(input_ids=x).logits

    return Classifier()


def vision() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
            self.body = ViTForImageClassification(ViTConfig(image_size=6, patch_size=3, num_channels=1, num_labels=3, **sizes))
            for value in (self.body.vit.embeddings.cls_token, self.body.vit.embeddings.position_embeddings):
                value.requires_grad_(False)  # of no layer, so that Opacus has no gradients of records

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(pixel_values=x.reshape(-1, 1, 6, 6)).logits

    return Classifier()


def tutorial_digits() -> nn.Module:
    """Return the network of the tutorial on MNIST, in small."""
    first = [nn.Unflatten(1, (1, 6, 6)), nn.Conv2d(1, 4, 3, 2, padding=1), nn.ReLU(), nn.MaxPool2d(2, 1)]
    return nn.Sequential(*first, nn.Conv2d(4, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))


class Residual(nn.Module):
    """A block with a shortcut and normalised batches, which Opacus replaces by groups."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x.reshape(-1, 1, 6, 6))))
        return self.head((x + torch.relu(self.second(x))).mean((2, 3)))


def tutorial_pictures() -> nn.Module:
    from opacus.validators import ModuleValidator

    return ModuleValidator.fix(Residual())


class Reviews(nn.Module):
    """The mean of embedded words and two layers, as in the tutorial on reviews of films."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.middle, self.head = nn.Embedding(20, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.middle(self.table(x).mean(1))))


class Names(nn.Module):
    """Characters, Opacus' LSTM, and a head on the last state, as in the tutorial on names."""

    def __init__(self) -> None:
        super().__init__()
        from opacus.layers import DPLSTM

        self.table, self.layer, self.head = nn.Embedding(20, 4), DPLSTM(4, 4, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.table(x))[0][:, -1])


def checked(model: Callable[[], nn.Module], criterion: Any = CROSS_ENTROPY, **private: Any) -> StepReport:
    torch.manual_seed(0)
    module = model().train()
    words = model in (Sentences, Reviews, Names, attention)
    inputs = torch.randint(20, (16, 6)) if words else torch.randn(16, 36)
    labels = torch.randint(3, (16,))
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if private.get("clipping") == "per_layer":
        private["max_grad_norm"] = [len(parameters) ** -0.5] * len(parameters)
    wrapped, optimizer, *loss, _ = opacus.PrivacyEngine().make_private(
        module=module,
        optimizer=torch.optim.SGD(parameters, lr=0.1),
        data_loader=torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, labels), batch_size=16),
        criterion=criterion,
        noise_multiplier=1.0,
        poisson_sampling=False,
        **FLAT | private,
    )
    claim = {"noise_multiplier": 1.0, "clip_norm": 1.0, "divisor": 16.0}
    return check_optimizer(wrapped, optimizer, loss[0] if loss else criterion, (inputs, labels), **claim)


def weights_of_records(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the mean of losses by the weights of their classes, which no other record changes."""
    return (torch.tensor([1.0, 1.0, 20.0])[labels] * functional.cross_entropy(outputs, labels, reduction="none")).mean()


ADAPTIVE = {
    "clipping": "adaptive",
    "target_unclipped_quantile": 0.5,
    "clipbound_learning_rate": 0.2,
    "max_clipbound": 10.0,
    "min_clipbound": 0.1,
    "unclipped_num_std": 5.0,
}
RIGHT = [
    *[(perceptron, mode) for mode in ({}, {"grad_sample_mode": "functorch"}, {"grad_sample_mode": "ghost"})],
    *[(perceptron, mode) for mode in ({"grad_sample_mode": "ew"}, {"clipping": "per_layer"})],
    *[(model, {}) for model in (Pictures, attention, LowRank, Sentences, Shared)],
    (Pictures, {"grad_sample_mode": "ghost"}),
    (LowRank, {"clipping": "per_layer"}),
    *[(model, {}) for model in (vision, tutorial_digits, tutorial_pictures, Reviews, Names)],
    (perceptron, {"criterion": weights_of_records}),
]


@pytest.mark.parametrize(("model", "private"), RIGHT)
def test_right_set_ups_fail_by_nothing(model: Callable[[], nn.Module], private: dict[str, Any]) -> None:
    assert checked(model, **private).failures == ()


def mean_of_tokens(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return a mean over the labels that count, as losses of language models do."""
    return functional.cross_entropy(outputs, torch.where(labels == 2, -100, labels), ignore_index=-100)


WRONG = [
    # Opacus 1.6 divides the noisy number of clipped records by the realised batch, which one record changes
    (perceptron, CROSS_ENTROPY, ADAPTIVE, "replay.loss"),
    (perceptron, nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.0, 20.0])), {}, "sum.additive"),
    (perceptron, mean_of_tokens, {}, "sum.additive"),
    (Pictures, CROSS_ENTROPY, {"loss_reduction": "sum"}, "sum.additive"),
]


@pytest.mark.parametrize(("model", "criterion", "private", "check"), WRONG)
def test_wrong_set_ups_fail_by_their_check(model: Any, criterion: Any, private: dict[str, Any], check: str) -> None:
    assert check in {finding.check for finding in checked(model, criterion, **private).failures}
