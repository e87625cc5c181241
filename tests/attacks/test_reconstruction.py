"""Reconstruction from gradients: closed forms are exact, matching comes near, metrics agree with their names."""

from __future__ import annotations

from dataclasses import replace

import image_distances as images
import numpy as np
import pytest
import torch
from torch import nn

from attacks.reconstruction import closed_form, matching
from attacks.reconstruction.matching import DeepLeakage, InvertingGradients, Released
from audit.core.errors import ConfigError, ObservationError
from audit.core.seeds import Seed
from audit.data import load

DIGITS = load.load({"kind": "digits", "train": 600, "pool": 100}, Seed(3)).train
INPUTS, LABELS = torch.tensor(DIGITS.inputs), torch.tensor(DIGITS.labels)


def perceptron() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def convolutional(activation: type[nn.Module]) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), activation(), nn.Flatten(), nn.Linear(12 * 64, 10))


def name_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach() for name, value in model.named_parameters()}


def parts(flat: torch.Tensor, model: nn.Module) -> dict[str, np.ndarray]:
    weights = name_weights(model)
    pieces = flat.split([value.numel() for value in weights.values()], dim=1)
    return {name: piece.reshape(len(flat), *weights[name].shape).numpy() for name, piece in zip(weights, pieces, strict=True)}


def released(model: nn.Module, count: int, noise: float = 0.0) -> Released:
    weights = name_weights(model)
    observed = matching.model_gradients(model, weights, INPUTS[:count, None], LABELS[:count, None])
    if noise:
        observed = matching.clip_and_noise(observed, 1.0, noise, torch.Generator().manual_seed(0))
    return Released(model=model, weights=weights, gradients=observed, labels=LABELS[:count, None], shape=(1, 8, 8))


def test_gradients_equal_finite_differences() -> None:
    model = convolutional(nn.Sigmoid).double()
    weights = name_weights(model)
    record, label = INPUTS[:2].double(), LABELS[:2]
    result = matching.flat_gradient(model, weights, record, label)
    step, name = 1e-6, "0.bias"
    start = weights["0.weight"].numel()
    for index in range(3):
        losses = []
        for sign in (1, -1):
            moved = {**weights, name: weights[name].clone()}
            moved[name][index] += sign * step
            outputs = torch.func.functional_call(model, moved, (record,))
            losses.append(nn.functional.cross_entropy(outputs, label))
        assert float(result[start + index]) == pytest.approx(float((losses[0] - losses[1]) / (2 * step)), rel=1e-5)


def test_the_first_layer_gives_its_input_away() -> None:
    model = perceptron()
    by_layer = parts(matching.model_gradients(model, name_weights(model), INPUTS[:200, None], LABELS[:200, None]), model)
    result = closed_form.inputs(by_layer["1.weight"], by_layer["1.bias"])
    assert np.abs(result - DIGITS.inputs[:200].reshape(200, -1)).max() < 1e-5
    with pytest.raises(ObservationError, match="target 1: all bias gradients are 0"):
        closed_form.inputs(np.ones((2, 3, 4)), np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))


def test_labels_of_single_records_and_counts_of_batches() -> None:
    model, batch = perceptron(), 8
    weights = name_weights(model)
    single = parts(matching.model_gradients(model, weights, INPUTS[:300, None], LABELS[:300, None]), model)
    assert (closed_form.single(single["3.bias"]) == DIGITS.labels[:300]).all()
    inputs, classes = INPUTS[:400].reshape(50, batch, 1, 8, 8), LABELS[:400].reshape(50, batch)
    by_layer = parts(matching.model_gradients(model, weights, inputs, classes), model)
    public = model(INPUTS[400:]).softmax(dim=1).detach().numpy()
    result = closed_form.counts(by_layer["3.bias"], public, batch)
    true = np.stack([np.bincount(row, minlength=10) for row in classes.numpy()])
    assert (result.sum(axis=1) == batch).all()
    assert (result == true).all(axis=1).mean() > 0.9
    with pytest.raises(ConfigError):
        closed_form.counts(by_layer["3.bias"], public, 0)


def test_counts_always_sum_to_the_batch() -> None:
    draw = np.random.default_rng(0)
    result = closed_form.counts(draw.normal(size=(200, 10)), np.full((1, 10), 0.1), 7)
    assert (result.sum(axis=1) == 7).all() and (result >= 0).all()


def test_an_imprint_layer_gives_away_who_is_alone_in_a_bin() -> None:
    flat = DIGITS.inputs.reshape(len(DIGITS.inputs), -1).astype(np.float64)
    weights, biases = closed_form.imprint_layer(flat[300:], 100)
    draw = np.random.default_rng(1)
    for start in range(0, 160, 16):
        records = flat[start : start + 16]
        active = records @ weights.T + biases > 0
        signals = draw.normal(size=16)
        result = closed_form.imprinted_inputs((active * signals[:, None]).T @ records, (active * signals[:, None]).sum(axis=0))
        bins = active.sum(axis=1)
        alone = [np.sum(bins == number) == 1 and number > 0 for number in bins]
        errors = np.abs(records[:, None] - result[None]).max(axis=2).min(axis=1)
        assert (errors[alone] < 1e-8).all()
        assert sum(alone) >= 4


@pytest.mark.slow
def test_inverting_gradients_comes_near_and_noise_ends_it() -> None:
    truth = DIGITS.inputs[:4]
    grey = images.psnr(np.full_like(truth, 0.5), truth, 1.0)
    quality = {}
    for noise in (0.0, 0.5):
        attack = InvertingGradients(iterations=150)
        result = attack.reconstruct(released(convolutional(nn.ReLU), 4, noise), torch.Generator().manual_seed(0))
        assert result.shape == (4, 1, 1, 8, 8) and float(result.min()) >= 0 and float(result.max()) <= 1
        quality[noise] = images.psnr(result[:, 0].numpy(), truth, 1.0)
    assert (quality[0.0] > grey + 8).all()
    assert quality[0.5].mean() < quality[0.0].mean() - 8


@pytest.mark.slow
def test_signs_of_the_gradient_invert_a_trained_network_that_pools_and_normalises() -> None:
    torch.manual_seed(2)
    layers = (
        nn.Conv2d(1, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(12 * 16, 10),
    )
    model = nn.Sequential(*layers)
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(150):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(INPUTS[8:]), LABELS[8:]).backward()
        optimiser.step()
    model.eval()
    seen, truth = released(model, 8), DIGITS.inputs[:8]
    public = replace(seen, centre=INPUTS[8:].mean(), deviation=INPUTS[8:].std())
    grey = images.psnr(np.full_like(truth, truth.mean()), truth, 1.0).mean()
    for known, variation in ((seen, 0.5), (public, 0.2)):
        attack = InvertingGradients(iterations=200, variation=variation, variation_end=variation, signed=True)
        result = attack.reconstruct(known, torch.Generator().manual_seed(0))
        assert images.psnr(result[:, 0].numpy(), truth, 1.0).mean() > grey + 4


def test_records_begin_at_the_centre_of_public_ones_in_units_of_their_deviation() -> None:
    seen = released(convolutional(nn.ReLU), 8)
    public = replace(seen, centre=torch.tensor(0.7), deviation=torch.tensor(0.02))
    start = InvertingGradients(iterations=1).reconstruct(public, torch.Generator().manual_seed(0))
    assert float(start.mean()) == pytest.approx(0.7, abs=0.01) and float(start.std()) == pytest.approx(0.02, rel=0.2)
    with pytest.raises(ConfigError, match="give both or neither"):
        replace(seen, centre=torch.tensor(0.7))
    with pytest.raises(ConfigError, match="not above 0"):
        replace(public, deviation=torch.tensor(0.0))


def test_targets_do_not_touch_each_other() -> None:
    """Each is optimised alone: a target's records depend on its own gradient and start alone."""
    full = released(convolutional(nn.ReLU), 3)
    alone = Released(
        model=full.model, weights=full.weights, gradients=full.gradients[:1], labels=full.labels[:1], shape=full.shape
    )
    attack = InvertingGradients(iterations=20)
    result = [attack.reconstruct(provided, torch.Generator().manual_seed(0))[0] for provided in (full, alone)]
    assert torch.allclose(result[0], result[1], atol=1e-3)


def test_deep_leakage_finds_records_of_a_smooth_network() -> None:
    result = DeepLeakage(iterations=200).reconstruct(released(convolutional(nn.Sigmoid), 1), torch.Generator().manual_seed(0))
    assert images.psnr(result[:, 0].numpy(), DIGITS.inputs[:1], 1.0)[0] > 40


def test_clipping_and_noise() -> None:
    gradients = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    clipped = matching.clip_and_noise(gradients, 1.0, 0.0, torch.Generator())
    assert torch.allclose(clipped, torch.tensor([[0.6, 0.8], [0.3, 0.4]]))
    noisy = matching.clip_and_noise(torch.zeros(200, 500), 1.0, 0.5, torch.Generator().manual_seed(1))
    assert float(noisy.std()) == pytest.approx(0.5, rel=0.02)


def test_what_cannot_be_matched_is_refused() -> None:
    model = perceptron()
    weights = name_weights(model)
    size = sum(value.numel() for value in weights.values())
    with pytest.raises(ConfigError, match="expected one row each"):
        Released(model=model, weights=weights, gradients=torch.zeros(2, 3), labels=torch.zeros(2, 1), shape=(64,))
    with pytest.raises(ConfigError, match="records of each"):
        Released(model=model, weights=weights, gradients=torch.zeros(2, size), labels=torch.zeros(3, 1), shape=(64,))
    with pytest.raises(ObservationError, match="not finite"):
        Released(
            model=model, weights=weights, gradients=torch.full((1, size), torch.nan), labels=torch.zeros(1, 1), shape=(64,)
        )


def test_metrics_equal_slow_ones() -> None:
    draw = np.random.default_rng(2)
    x, y = draw.random((2, 3, 1, 9, 9))
    assert images.psnr(x, y, 2.0) == pytest.approx(
        [10 * np.log10(4 / ((a - b) ** 2).mean()) for a, b in zip(x, y, strict=True)]
    )
    assert np.isinf(images.psnr(x, x, 1.0)).all()
    assert images.ssim(x, x, 1.0) == pytest.approx([1, 1, 1])
    for index in range(3):
        values = []
        for row in range(3):
            for column in range(3):
                a, b = (part[index, 0, row : row + 7, column : column + 7].ravel() for part in (x, y))
                covariance = np.cov(a, b)
                near = (2 * a.mean() * b.mean() + 1e-4) * (2 * covariance[0, 1] + 9e-4)
                values.append(near / ((a.mean() ** 2 + b.mean() ** 2 + 1e-4) * (covariance[0, 0] + covariance[1, 1] + 9e-4)))
        assert images.ssim(x, y, 1.0)[index] == pytest.approx(np.mean(values))
    order = np.array([2, 0, 1])
    assert (images.best_match(x[order], x) == np.argsort(order)).all()
    assert images.nearest(x + 0.01, x).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="data_range"):
        images.psnr(x, y, 0.0)
    with pytest.raises(ValueError, match="at least 7"):
        images.ssim(x[..., :5], y[..., :5], 1.0)
