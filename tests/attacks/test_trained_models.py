"""What a trained model gives away: a record to who knows all others, a class to anyone, and updates of several local steps."""

from __future__ import annotations

import copy

import image_distances as images
import numpy as np
import pytest
import torch
from scipy import optimize
from torch import nn

from attacks.reconstruction import matching
from attacks.reconstruction.closed_form import SoftmaxRegression, missing_record
from attacks.reconstruction.inversion import ModelInversion
from attacks.reconstruction.matching import InvertingGradients, LocalSteps, Released
from audit.core.data import Records
from audit.core.errors import ConfigError
from tests.attacks.test_reconstruction import DIGITS, INPUTS, LABELS, convolutional, name_weights, perceptron

COUNT, RIDGE = 60, 1.0


def fitted(records: Records, ridge: float = RIDGE) -> SoftmaxRegression:
    """A softmax regression at the minimum of its convex loss, by L-BFGS and Newton's last steps through the same gradient."""
    inputs = records.inputs.reshape(len(records), -1).astype(np.float64)

    def model(flat: np.ndarray) -> SoftmaxRegression:
        table = flat.reshape(10, 65)
        return SoftmaxRegression(weights=table[:, :-1], biases=table[:, -1], ridge=ridge)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        regression = model(flat)
        outputs = inputs @ regression.weights.T + regression.biases
        value = (np.log(np.exp(outputs - outputs.max(1, keepdims=True)).sum(1)) + outputs.max(1)).sum()
        value -= outputs[np.arange(len(records)), records.labels].sum()
        slopes, bias_slopes = regression.gradients(inputs, records.labels)
        slope = np.concatenate([slopes, bias_slopes[:, None]], axis=1).ravel() + ridge * flat
        return value + ridge / 2 * (flat**2).sum(), slope

    solved = optimize.minimize(
        loss, np.zeros(650), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-16, "gtol": 1e-10}
    )
    assert np.abs(loss(solved.x)[1]).max() < 1e-5
    assert optimize.check_grad(lambda x: loss(x)[0], lambda x: loss(x)[1], solved.x + 0.01) < 1e-3
    return model(solved.x)


def test_the_record_that_is_missing_is_read_off_a_convex_model() -> None:
    for target in (0, 7, 31):
        model = fitted(DIGITS.take(np.arange(COUNT)))
        peers = DIGITS.take(np.delete(np.arange(COUNT), target))
        result, label = missing_record(model, peers)
        assert label == DIGITS.labels[target]
        assert images.psnr(result.reshape(1, 1, 8, 8), DIGITS.inputs[target : target + 1], 1.0)[0] > 60


def test_noise_on_the_weights_takes_the_record_away() -> None:
    model = fitted(DIGITS.take(np.arange(COUNT)))
    draw = np.random.default_rng(0)
    noisy = SoftmaxRegression(
        weights=model.weights + 0.1 * draw.normal(size=model.weights.shape),
        biases=model.biases + 0.1 * draw.normal(size=10),
        ridge=RIDGE,
    )
    result, _ = missing_record(noisy, DIGITS.take(np.arange(1, COUNT)))
    assert images.psnr(result.reshape(1, 1, 8, 8), DIGITS.inputs[:1], 1.0)[0] < 12
    with pytest.raises(ConfigError, match="expected \\(classes, features\\)"):
        SoftmaxRegression(weights=model.weights, biases=np.zeros(3), ridge=1.0)


def test_model_inversion_shows_a_class_and_members_no_better_than_others() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.3)
    members, peers = slice(0, 300), slice(300, 600)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(INPUTS[members]), LABELS[members]).backward()
        optimiser.step()
    slopes = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    result = ModelInversion(iterations=60).class_inputs(model, (1, 8, 8))
    assert all(torch.equal(a, b.grad) for a, b in zip(slopes, model.parameters(), strict=True) if b.grad is not None)
    assert model(result).argmax(dim=1).tolist() == list(range(10)) and 0 <= float(result.min()) <= float(result.max()) <= 1
    nearest = {}
    for name, side in (("members", members), ("others", peers)):
        by_class = [INPUTS[side][LABELS[side] == label] for label in range(10)]
        nearest[name] = [float((by_class[label] - result[label]).flatten(1).norm(dim=1).min()) for label in range(10)]
        means = np.stack([part.mean(dim=0).numpy().ravel() for part in by_class])
        correlations = np.corrcoef(result.flatten(1).numpy(), means)[:10, 10:]
        assert (correlations.argmax(axis=1) == np.arange(10)).sum() >= 8  # the class, whoever its records are
    assert np.mean(nearest["members"]) > 0.9 * np.mean(nearest["others"])  # a record of it, no


def local_update(model: nn.Module, local: LocalSteps, records: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """First weights less last, over the learning rate and the steps, by torch's own SGD."""

    client = copy.deepcopy(model)
    optimiser = torch.optim.SGD(client.parameters(), lr=local.learning_rate)
    for step in range(local.steps):
        rows = local.rows(step, len(classes))
        optimiser.zero_grad()
        nn.functional.cross_entropy(client(records[rows]), classes[rows]).backward()
        optimiser.step()
    change = [first - last for first, last in zip(model.parameters(), client.parameters(), strict=True)]
    return torch.cat([part.detach().reshape(-1) for part in change]) / local.learning_rate / local.steps


@pytest.mark.parametrize("local", [LocalSteps(learning_rate=0.3, steps=3), LocalSteps(learning_rate=0.1, steps=4, batch=2)])
def test_updates_are_those_of_sgd(local: LocalSteps) -> None:
    model = convolutional(nn.Sigmoid)
    result = matching.model_gradients(model, name_weights(model), INPUTS[None, :4], LABELS[None, :4], local)[0]
    assert torch.allclose(result, local_update(model, local, INPUTS[:4], LABELS[:4]), atol=1e-5)
    single = matching.model_gradients(model, name_weights(model), INPUTS[None, :4], LABELS[None, :4])[0]
    once = matching.model_gradients(
        model, name_weights(model), INPUTS[None, :4], LABELS[None, :4], LocalSteps(learning_rate=0.2)
    )[0]
    assert torch.allclose(single, once, atol=1e-5) and not torch.allclose(single, result, atol=1e-3)


@pytest.mark.slow
def test_an_update_is_inverted_by_who_simulates_its_steps() -> None:
    """Two clients of two records each, four local steps on one record at a time."""
    model, local = perceptron(), LocalSteps(learning_rate=2.0, steps=4, batch=1)
    weights, classes = name_weights(model), LABELS[:4].reshape(2, 2)
    observed = matching.model_gradients(model, weights, INPUTS[:4].reshape(2, 2, 1, 8, 8), classes, local)
    quality = {}
    for name, plan in (("simulated", local), ("taken for a gradient", LocalSteps())):
        released = Released(model=model, weights=weights, gradients=observed, labels=classes, shape=(1, 8, 8), local=plan)
        result = InvertingGradients(iterations=150).reconstruct(released, torch.Generator().manual_seed(0))
        quality[name] = images.psnr(result.reshape(4, 1, 8, 8).numpy(), DIGITS.inputs[:4], 1.0).mean()
    assert quality["simulated"] > 11 and quality["simulated"] > quality["taken for a gradient"] + 4


def test_local_steps_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="steps is 0"):
        LocalSteps(steps=0)
    with pytest.raises(ConfigError, match="learning_rate"):
        LocalSteps(learning_rate=0.0)
