"""Gradients of single examples of wide convolutions, and Gram matrices, against plain autograd."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from audit.engine.gradients.clipping import Clip, Rows
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.layers import convolution_direct, convolution_examples
from audit.engine.layers.convolution_patches import read_geometry
from audit.engine.losses import find_loss

CONVOLUTIONS = {
    "large images": (nn.Conv2d(16, 32, 3, padding=1), 14),
    "a step of two": (nn.Conv2d(32, 16, 3, stride=2, padding=1), 28),
    "dilated": (nn.Conv2d(16, 16, (3, 2), padding=2, dilation=2), 16),
    "one pixel": (nn.Conv2d(16, 48, 1), 13),
    "odd channels": (nn.Conv2d(17, 20, 3, padding=1), 12),
    "few positions": (nn.Conv2d(64, 64, 3, padding=1), 4),
}


def operands(name: str, rows: int, copies: int = 1) -> tuple[nn.Conv2d, Tensor, Tensor]:
    layer, size = CONVOLUTIONS[name]
    with torch.random.fork_rng():  # weights that imports before this one decide bring a ReLU to 0 once in a hundred runs
        torch.manual_seed(1)
        layer.reset_parameters()
    stream = torch.Generator().manual_seed(1)
    inputs = torch.randn(rows * copies, layer.in_channels, size, size, generator=stream)
    signal = torch.randn(layer(inputs).shape, generator=stream)
    return layer, inputs.contiguous(memory_format=torch.channels_last), signal


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_example_gradients_are_those_of_autograd(name: str, copies: int) -> None:
    layer, inputs, signal = operands(name, 18, copies)
    gradients = convolution_examples.example_gradients(read_geometry(layer), inputs, signal, 18)
    for row in (0, 15, 17):
        piece = slice(row * copies, (row + 1) * copies)
        product = (layer.double()(inputs[piece].double()) * signal[piece].double()).sum()
        (plain,) = torch.autograd.grad(product, [layer.weight])
        layer.float()
        assert float((gradients[row] - plain).norm() / plain.norm()) < 1e-5


@pytest.mark.parametrize("name", ["dilated", "few positions"])
def test_gram_matrices_of_pixels_are_those_of_patches(name: str) -> None:
    layer, inputs, _ = operands(name, 2)
    geometry, inputs = read_geometry(layer), inputs.double()
    patches = F.unfold(inputs, geometry.kernel, geometry.dilation, geometry.padding, geometry.stride)
    torch.testing.assert_close(convolution_examples.gram(geometry, inputs), patches.transpose(1, 2) @ patches)


def test_bits_of_an_example_do_not_depend_on_their_number() -> None:
    layer, inputs, signal = operands("large images", 32)
    together = convolution_examples.example_gradients(read_geometry(layer), inputs, signal, 32)
    alone = convolution_examples.example_gradients(read_geometry(layer), inputs[16:], signal[16:], 16)
    assert torch.equal(together[16:], alone)


@pytest.mark.parametrize("limit", [0, 1 << 30])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_norms_and_sums_of_a_layer(name: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convolution_direct, "_KEPT_NUMBERS", limit)
    layer, inputs, _ = operands(name, 16)
    module = nn.Sequential(layer, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    state = {key: value.detach().unsqueeze(0) for key, value in module.state_dict().items()}
    models = TapeGradients(module, state)
    labels = torch.arange(16) % layer.out_channels
    rows = Rows(inputs=inputs, labels=labels, mask=torch.ones(1, 16, dtype=torch.bool), copies=1, loss=find_loss(""))
    clipped = torch.zeros_like(models.flat)
    clipping = models.add_sum(rows, Clip(norm=0.05), clipped)
    assert clipping is not None
    total, norms = torch.zeros(clipped.shape[1], dtype=torch.float64), []
    for row in range(16):
        loss = F.cross_entropy(module.double()(inputs[row : row + 1].double()), labels[row : row + 1])
        plain = dict(zip(state, torch.autograd.grad(loss, list(module.parameters())), strict=True))
        norms.append(torch.stack([gradient.norm() for gradient in plain.values()]).norm())
        for slot in models.layout.slots:
            place = slot.view(total.unsqueeze(0))
            place += plain[slot.name] * (0.05 / norms[-1]).clamp(max=1.0)
    module.float()
    torch.testing.assert_close(clipping.norms[0].double(), torch.stack(norms), rtol=1e-5, atol=0.0)
    assert float((clipped[0] - total).norm() / total.norm()) < 1e-5
