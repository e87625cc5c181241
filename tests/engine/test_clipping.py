"""Clipped sums of the ensemble equal a slow loop over examples, for every kind of model."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from audit.core.seeds import Seed
from audit.engine.gradients.clipping import Clip, Gradients, Rows, stacked_state
from audit.engine.gradients.dispatch import model_gradients
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.gradients.per_model_loop import LoopGradients
from audit.engine.layers import batched_matmul
from audit.engine.layers.batched_matmul import add_outer, rowwise
from audit.engine.layers.layers import MatrixLayer
from audit.engine.layers.layers_elementwise import rms_norm
from audit.models.build import initialise_model
from tests.engine import cases

COUNT, ROWS = 3, 16


def ensemble(name: str, *, force_loop: bool = False) -> tuple[list[nn.Module], Gradients, tuple[int, ...]]:
    spec, shape = cases.MODELS[name]
    modules = [initialise_model(spec, shape, 3, Seed(index)).double() for index in range(COUNT)]
    state = stacked_state(modules, torch.float64, torch.device("cpu"))
    probe = torch.randn(2, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return modules, model_gradients(modules[0], state, probe, force_loop=force_loop), shape


def rows_for(shape: tuple[int, ...], copies: int = 1, seed: int = 0) -> Rows:
    generator = np.random.default_rng(seed)
    count = COUNT * ROWS
    labels = np.repeat(generator.integers(0, 3, count), copies)
    mask = generator.random((COUNT, ROWS)) < 0.7
    return Rows(
        inputs=torch.from_numpy(generator.normal(size=(count * copies, *shape))),
        labels=torch.from_numpy(labels),
        mask=torch.from_numpy(mask),
        copies=copies,
    )


def compare(modules: list[nn.Module], models: Gradients, rows: Rows, clip_norm: float | None) -> Tensor:
    total = torch.zeros_like(models.flat)
    clipped = models.add_sum(rows, None if clip_norm is None else Clip(norm=clip_norm), total)
    inputs = rows.inputs.unflatten(0, (COUNT, ROWS))
    labels = rows.labels.unflatten(0, (COUNT, ROWS))
    all_norms = []
    for index, module in enumerate(modules):
        real = rows.mask[index]
        expected, norms = cases.slow_sum(module, inputs[index][real], labels[index][real], clip_norm)
        for slot, value in zip(models.layout.slots, expected, strict=True):
            np.testing.assert_allclose(slot.view(total)[index], value, rtol=1e-6, atol=1e-9, err_msg=slot.name)
        if clipped is not None:
            np.testing.assert_allclose(clipped.norms[index][real], norms.detach(), rtol=1e-9)
            assert (clipped.left[index][~real] == 0).all()
            np.testing.assert_allclose(clipped.left[index][real], norms.detach().clamp(max=clip_norm), rtol=1e-9)
        all_norms.append(norms.detach())
    return torch.cat(all_norms)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", sorted(cases.MODELS))
def test_clipped_sum_equals_the_slow_loop(name: str) -> None:
    modules, models, shape = ensemble(name)
    rows = rows_for(shape)
    norms = compare(modules, models, rows, 1e9)
    middle = float(norms.median())
    compare(modules, models, rows, middle)  # about half of the examples are clipped
    compare(modules, models, rows, None)


class Bags(nn.Module):
    """Weighted bags of words, as many numbers as a record has."""

    def __init__(self, mode: Literal["sum", "mean", "max"]) -> None:
        super().__init__()
        self.bag, self.head = nn.EmbeddingBag(5, 4, mode=mode), nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        words = (inputs.abs() * 4).long() % 5
        scores: Tensor = self.head(torch.tanh(self.bag(words, None, inputs if self.bag.mode == "sum" else None)))
        return scores


class Written(nn.Module):
    """Parameters that einsum multiplies in several ways, or that are looked up by the places of positions."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.weight, self.blocks = kind, nn.Parameter(torch.randn(6, 6)), nn.Parameter(torch.randn(3, 2, 2))
        self.table, self.head = nn.Parameter(torch.randn(5, 2)), nn.Linear(6, 3)
        self.places = torch.arange(3) - torch.arange(3).unsqueeze(1) + 2

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.einsum("bi,oi->bo", inputs, self.weight)
        hidden = torch.einsum("io,bi->bo", self.weight, hidden).view(-1, 3, 2)
        if self.kind == "einsum":
            hidden = torch.einsum("gij,bgi,j->bgj", self.blocks, hidden, self.table[0])
            scores: Tensor = self.head(torch.tanh(hidden.flatten(1)))
            return scores
        bias = self.table[self.places.view(-1)].view(3, 3, 2).permute(2, 0, 1).unsqueeze(0)
        heads = torch.tanh(hidden).transpose(1, 2).unsqueeze(-1)
        if self.kind == "a mask":
            mixed = nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=bias)
        else:
            mixed = (heads @ heads.transpose(2, 3) + bias).softmax(-1) @ heads
        return self.head(mixed.flatten(1))  # type: ignore[no-any-return]


LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "volumes": (lambda: nn.Conv3d(2, 3, 2, stride=(1, 2, 1), padding="valid"), (2, 4, 4, 3)),
    "volumes, margins of one side": (lambda: nn.Conv3d(2, 3, (2, 3, 1), padding="same", bias=False), (2, 3, 4, 3)),
    "volumes in groups": (lambda: nn.Conv3d(4, 6, 3, padding="same", groups=2), (4, 3, 3, 4)),
    "a ring": (lambda: nn.Conv1d(2, 3, 4, padding=2, padding_mode="circular"), (2, 6)),
    "reflected": (lambda: nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode="reflect", stride=2), (2, 6, 6)),
    "margins of one side": (lambda: nn.Conv2d(16, 8, 4, padding="same"), (16, 5, 5)),
    "large kernels": (lambda: nn.Conv2d(3, 3, (5, 7), stride=2, padding=3, dilation=(2, 1), groups=3), (3, 9, 9)),
    "one channel, several out": (lambda: nn.Conv2d(2, 6, 5, groups=2), (2, 6, 6)),
    "transposed sequences": (lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (4, 5)),
    "transposed volumes": (lambda: nn.ConvTranspose3d(2, 3, 2, stride=2, dilation=2), (2, 2, 3, 2)),
    "transposed large kernels": (lambda: nn.ConvTranspose2d(2, 2, 5, groups=2), (2, 3, 3)),
}


@pytest.mark.parametrize("name", [*LAYERS, "sum", "mean", "max", "einsum", "a mask", "biases of positions"])
def test_layers_of_other_kinds_equal_the_slow_loop(name: str) -> None:
    modules: list[nn.Module] = []
    make, shape = LAYERS.get(name, (None, (6,)))
    for index in range(COUNT):
        torch.manual_seed(index)
        if make is None:
            module: nn.Module = Bags(name) if name in ("sum", "mean", "max") else Written(name)  # type: ignore[arg-type]
        else:
            module = nn.Sequential(make(), nn.Tanh(), nn.Flatten())
            width = module(torch.zeros(1, *shape)).shape[1]
            module.append(nn.Linear(width, 3))
        modules.append(module.double())
    rows = rows_for(shape)
    models = model_gradients(modules[0], stacked_state(modules, torch.float64, torch.device("cpu")), rows.inputs)
    assert isinstance(models, TapeGradients)
    middle = float(compare(modules, models, rows, 1e9).median())
    compare(modules, models, rows, middle)
    compare_copies(modules, models, rows_for(shape, copies=3))
    compare(modules, models, rows, None)


@pytest.mark.parametrize("name", ["mlp", "cnn", "tied", "convolutions"])
def test_fallback_equals_the_slow_loop(name: str) -> None:
    modules, models, shape = ensemble(name, force_loop=True)
    assert isinstance(models, LoopGradients)
    compare(modules, models, rows_for(shape), 0.3)
    compare(modules, models, rows_for(shape), None)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ghost", [True, False])
@pytest.mark.parametrize("name", ["cnn", "sequences", "convolutions", "wide_resnet", "grouped"])
def test_ghost_and_whole_gradients_agree(name: str, ghost: bool) -> None:
    modules, models, shape = ensemble(name)
    assert isinstance(models, TapeGradients)
    layers = [layer for layer in models.module.modules() if isinstance(layer, MatrixLayer)]
    for layer in layers:
        layer.ghost = ghost
    assert layers
    compare(modules, models, rows_for(shape), 0.3)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mlp", TapeGradients),
        ("wide_resnet", TapeGradients),
        ("tied", TapeGradients),
        ("grouped", TapeGradients),
        ("vit", TapeGradients),
        ("transformer", TapeGradients),
        ("recurrent", TapeGradients),
        ("vision", TapeGradients),
        ("attending", TapeGradients),
        ("encoder", TapeGradients),
        ("crossing", TapeGradients),
        ("lstm", TapeGradients),
        ("transposed", TapeGradients),
        ("raw", LoopGradients),
        ("sneaky", TapeGradients),
    ],
)
def test_the_fast_path_is_taken_where_it_is_exact(name: str, kind: type, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        _, models, _ = ensemble(name)
    assert type(models) is kind
    assert ("one after another" in caplog.text) == (kind is LoopGradients)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("force_loop", [False, True])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e200])
@pytest.mark.parametrize("name", ["mlp", "cnn", "used_twice", "many_channels"])
def test_a_record_without_finite_gradient_contributes_exactly_zero(name: str, value: float, force_loop: bool) -> None:
    modules, models, shape = ensemble(name, force_loop=force_loop)
    rows = rows_for(shape)
    rows.mask[:] = True
    rows.inputs.unflatten(0, (COUNT, ROWS))[1, 2] = value
    with_it = torch.zeros_like(models.flat)
    clipped = models.add_sum(rows, Clip(norm=0.3), with_it)
    assert clipped is not None
    if torch.isfinite(clipped.norms[1, 2]):  # tanh saturates: a huge input may have a gradient after all
        assert value == 1e200 or name == "used_twice"
        return
    assert clipped.left[1, 2] == 0
    rows.mask[1, 2] = False
    rows.inputs.unflatten(0, (COUNT, ROWS))[1, 2] = 0.0
    without = torch.zeros_like(models.flat)
    models.add_sum(rows, Clip(norm=0.3), without)
    assert torch.isfinite(with_it).all()
    torch.testing.assert_close(with_it, without, rtol=1e-12, atol=1e-12)
    compare(modules, models, rows, 0.3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["mlp", "cnn", "tied", "wide_resnet", "sequences", "many_channels", "grouped", "raw"])
def test_copies_of_an_example_share_one_clip(name: str) -> None:
    modules, models, shape = ensemble(name)
    compare_copies(modules, models, rows_for(shape, copies=3))


def compare_copies(modules: list[nn.Module], models: Gradients, rows: Rows) -> None:
    """Compare the clipped sum of three copies of each record with plain autograd of their mean loss."""
    total = torch.zeros_like(models.flat)
    clipped = models.add_sum(rows, Clip(norm=0.2), total)
    assert clipped is not None
    inputs = rows.inputs.unflatten(0, (COUNT, ROWS, 3))
    labels = rows.labels.unflatten(0, (COUNT, ROWS, 3))
    for index, module in enumerate(modules):
        expected = [torch.zeros_like(slot.view(total)[0]) for slot in models.layout.slots]
        for row in rows.mask[index].nonzero().flatten():
            mean = [part / 3 for part in cases.slow_sum(module, inputs[index, row], labels[index, row], None)[0]]
            norm = torch.stack([part.square().sum() for part in mean]).sum().sqrt()
            torch.testing.assert_close(clipped.norms[index, row], norm)
            for place, part in zip(expected, mean, strict=True):
                place.add_(min(1.0, 0.2 / float(norm)) * part)
        for slot, value in zip(models.layout.slots, expected, strict=True):
            torch.testing.assert_close(slot.view(total)[index], value, rtol=1e-6, atol=1e-9)


def test_regression_equals_the_slow_loop() -> None:
    modules = [initialise_model({"kind": "mlp", "hidden": [6]}, (5,), 0, Seed(index)).double() for index in range(COUNT)]
    models = model_gradients(modules[0], stacked_state(modules, torch.float64, torch.device("cpu")))
    rows = rows_for((5,))
    rows = Rows(inputs=rows.inputs, labels=torch.randn(COUNT * ROWS, dtype=torch.float64), mask=rows.mask)
    compare(modules, models, rows, 0.5)
    compare(modules, models, rows, None)


def test_no_single_example_moves_the_sum_by_more_than_the_clip_norm() -> None:
    for name in ("mlp", "cnn", "tied", "used_twice", "sequences"):
        _, models, shape = ensemble(name)
        rows = rows_for(shape)
        rows.mask[:] = False
        rows.mask[:, 0] = True
        rows.inputs.mul_(1e3)
        total = torch.zeros_like(models.flat)
        models.add_sum(rows, Clip(norm=0.1), total)
        assert (total.norm(dim=1) <= 0.1 * (1 + 1e-9)).all()
        assert (total.norm(dim=1) > 0.099).any(), name


@pytest.mark.parametrize("blas", [True, False])
@pytest.mark.parametrize(("rows", "width", "outputs"), [(64, 256, 128), (512, 100, 48), (16, 8, 4)])
def test_products_by_either_kernel_agree(
    rows: int, width: int, outputs: int, blas: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batched_matmul, "_blas_takes_vectors", lambda: blas)
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(3, rows, width, generator=generator, requires_grad=True)
    right = torch.randn(3, outputs, width, generator=generator)
    bias = torch.randn(3, outputs, generator=generator)
    signal = torch.randn(3, rows, outputs, generator=generator)
    for shift in (bias, None):
        built = rowwise(first, right, shift)
        expected = first.double() @ right.double().transpose(1, 2) + (0 if shift is None else shift.unsqueeze(1))
        torch.testing.assert_close(built.double(), expected, rtol=1e-4, atol=1e-4)
        (back,) = torch.autograd.grad(built, first, signal)
        torch.testing.assert_close(back, signal @ right, rtol=1e-4, atol=1e-4)
    total = torch.ones(3, outputs * width + 16)[:, : outputs * width].view(3, outputs, width)
    add_outer(total, signal, first.detach())
    torch.testing.assert_close(total, 1 + signal.transpose(1, 2) @ first, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("shape", "eps"), [((6,), None), ((4, 6), 1e-2)])
def test_root_mean_square_normalisation_is_torchs(shape: tuple[int, ...], eps: float | None) -> None:
    inputs = torch.randn(3, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    built, expected = rms_norm(inputs, shape, eps), torch.nn.functional.rms_norm(inputs, shape, eps=eps)
    torch.testing.assert_close(built, expected, rtol=1e-14, atol=0)
    signal = torch.linspace(-1, 1, 72, dtype=torch.float64).view(3, 4, 6)
    gradients = [torch.autograd.grad(output, inputs, signal)[0] for output in (built, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-14)
