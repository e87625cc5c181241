"""Signals and scorers that look into the weights, against slow loops and closed forms."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
import torch
from torch import nn

from attacks.scorers._gradients import GradientNorm, WeightDifference
from attacks.scorers._labels import Boundary
from attacks.scorers._learned import Trajectory, WhiteBoxClassifier
from audit.core.data import Array, Records
from audit.core.errors import ConfigError, ObservationError
from audit.core.seeds import Seed
from audit.core.views import View
from audit.engine.read import observe
from audit.models.build import initialise_model
from audit.stats.bounds import roc
from audit.stats.scoring import reference_fit
from audit.stats.scoring.representation import class_distances
from tests.engine import cases

SEED = Seed(4)
NOTHING = View.of(included=np.empty((0, 5), dtype=bool))


class Ending(nn.Module):
    """A linear layer, and after it a log-softmax (the same cross-entropy), or a doubling (another one)."""

    def __init__(self, ending: str) -> None:
        super().__init__()
        self.first, self.last, self.ending = nn.Linear(5, 4), nn.Linear(4, 3, bias=False), ending

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        built = self.last(torch.tanh(self.first(inputs)))
        return torch.log_softmax(built, dim=1) if self.ending == "log_softmax" else 2 * built


def spec_of(ending: str) -> dict[str, object]:
    return {"factory": "tests.attacks.test_white_box:Ending", "arguments": {"ending": ending}}


KINDS: list[tuple[dict[str, object], tuple[int, ...], str]] = [
    ({"kind": "mlp", "hidden": [6]}, (5,), "2"),
    ({"kind": "cnn"}, (1, 6, 6), "5"),
    ({"kind": "logistic"}, (5,), ""),
    (cases.factory("raw"), (5,), "last"),  # one model after another
    (cases.factory("lstm"), (5,), "last"),  # one record after another, too
    (spec_of("log_softmax"), (5,), "last"),
]


def some_models(spec: dict[str, object], shape: tuple[int, ...]) -> tuple[list[nn.Module], dict[str, Array], Records]:
    records = cases.records(shape, 70, 0)
    modules = [initialise_model(spec, shape, 3, SEED.child("model", item)).eval() for item in range(2)]
    tables = [dict(module.named_parameters()) for module in modules]
    return modules, {name: np.stack([table[name].detach().numpy() for table in tables]) for name in tables[0]}, records


@pytest.mark.parametrize(("spec", "shape", "last"), KINDS)
def test_gradient_norms_are_those_of_autograd(spec: dict[str, object], shape: tuple[int, ...], last: str) -> None:
    modules, weights, records = some_models(spec, shape)
    trained = observe.EnsembleReader(spec, weights, records.inputs[:2], 3, batch=32)
    everything, inside = trained.gradient_norms(records), trained.representations(records)
    assert inside is not None
    assert everything.shape == inside.last_gradient_norms.shape == inside.class_distances.shape == (2, 70)
    for module, norms, last_norms in zip(modules, everything, inside.last_gradient_norms, strict=True):
        layers = dict(module.named_modules())
        layer = layers[last] if last else next(item for item in layers.values() if isinstance(item, nn.Linear))
        for row in (0, 33, 69):
            module.zero_grad()
            output = module(torch.from_numpy(np.array(records.inputs[row : row + 1])))
            nn.functional.cross_entropy(output, torch.from_numpy(np.array(records.labels[row : row + 1]))).backward()
            naive, own = (
                np.sqrt(sum(float(item.grad.square().sum()) for item in part.parameters() if item.grad is not None))
                for part in (module, layer)
            )
            assert norms[row] == pytest.approx(naive, rel=1e-4)
            assert last_norms[row] == pytest.approx(own, rel=1e-4)


@pytest.mark.parametrize(("spec", "shape", "last"), KINDS)
def test_hidden_is_what_the_last_layer_is_given(spec: dict[str, object], shape: tuple[int, ...], last: str) -> None:
    modules, weights, records = some_models(spec, shape)
    inside = observe.EnsembleReader(spec, weights, records.inputs[:2], 3, batch=32).representations(records)
    assert inside is not None
    for number, module in enumerate(modules):
        provided: list[torch.Tensor] = []
        layers = dict(module.named_modules())
        layer = layers[last] if last else next(item for item in layers.values() if isinstance(item, nn.Linear))
        layer.register_forward_hook(lambda _, inputs, built, provided=provided: provided.append(inputs[0].detach()))
        module(torch.from_numpy(np.array(records.inputs)))
        np.testing.assert_allclose(inside.hidden[number], provided[0].numpy(), rtol=1e-4, atol=1e-5)
        for item in (0, 40):
            peers = (records.labels == records.labels[item]) & (np.arange(70) != item)
            naive = np.linalg.norm(provided[0].numpy()[item] - provided[0].numpy()[peers].mean(axis=0))
            assert inside.class_distances[number, item] == pytest.approx(naive, rel=1e-3)


def test_models_whose_outputs_are_not_a_linear_layers_have_no_last_layer() -> None:
    _, weights, records = some_models(spec_of("doubled"), (5,))
    assert observe.EnsembleReader(spec_of("doubled"), weights, records.inputs[:2], 3).representations(records) is None


def test_wide_representations_keep_their_distances_under_the_map() -> None:
    random = np.random.default_rng(0)
    inputs = random.standard_normal((60, 900)).astype(np.float32)
    records = Records(inputs=inputs, labels=random.integers(0, 3, 60))
    spec = {"kind": "logistic"}
    module = initialise_model(spec, (900,), 3, SEED)
    weights = {name: value.detach().numpy()[None] for name, value in module.named_parameters()}
    inside = observe.EnsembleReader(spec, weights, inputs[:2], 3, batch=7).representations(records)
    assert inside is not None and inside.hidden.shape == (1, 60, 256)
    before, after = (np.linalg.norm(item[:30] - item[30:], axis=1) for item in (inputs, inside.hidden[0]))
    assert np.std(after / before) < 0.08 and np.mean(after / before) == pytest.approx(1.0, abs=0.04)
    gradient = np.sqrt((inputs.astype(float) ** 2).sum(axis=1) + 1)
    outputs = torch.softmax(module(torch.from_numpy(inputs)), 1).detach().numpy() - np.eye(3)[records.labels]
    np.testing.assert_allclose(inside.last_gradient_norms[0], gradient * np.linalg.norm(outputs, axis=1), rtol=1e-4)


def test_class_distances_do_not_depend_on_how_a_space_is_turned() -> None:
    random = np.random.default_rng(1)
    hidden, labels = random.standard_normal((1, 40, 5)), np.append(random.integers(0, 3, 39), 7)
    turned = hidden @ np.linalg.qr(random.standard_normal((5, 5)))[0] + 3.0
    result = class_distances(hidden, labels)
    np.testing.assert_allclose(result, class_distances(turned, labels), rtol=1e-9)
    assert result[0, 39] == pytest.approx(np.linalg.norm(hidden[0, 39] - hidden[0, :39].mean(axis=0)))  # alone in its class
    assert class_distances(hidden[:, :1], labels[:1]).tolist() == [[0.0]]


def drawn(records: int = 30, models: int = 7) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(2)
    return random.random(records) + 0.1, random.random((models, records)) + 0.1, random.random((models, records)) < 0.5


def naive_difference(ours: Array, theirs: Array, included: Array) -> list[float]:
    scores = []
    shift = []
    for item in range(len(ours)):
        inside, outside = theirs[included[:, item], item], theirs[~included[:, item], item]
        if len(inside) and len(outside):
            shift.append(inside.mean() - outside.mean())
    for item in range(len(ours)):
        outside = theirs[~included[:, item], item]
        level = outside.mean() if len(outside) else theirs[:, item].mean() - np.mean(shift)
        scores.append(ours[item] - level)
    return scores


def test_calibrated_norms_and_distances_are_differences_from_models_without_the_record() -> None:
    ours, theirs, included = drawn()
    target, reference = View.of(gradient_norms=ours), View.of(included=included, gradient_norms=theirs)
    by_loop = naive_difference(-np.log(ours), -np.log(theirs), included)
    np.testing.assert_allclose(GradientNorm(calibrated=True).score(target, reference, SEED), by_loop)
    np.testing.assert_allclose(GradientNorm().score(target, NOTHING, SEED), -np.log(ours))
    target = View.of(gradient_norms=theirs[0], last_gradient_norms=ours)
    np.testing.assert_allclose(GradientNorm(layer="last").score(target, NOTHING, SEED), -np.log(ours))
    target, reference = View.of(boundary_distances_300=ours), View.of(included=included, boundary_distances_300=theirs)
    np.testing.assert_allclose(
        Boundary(calibrated=True).score(target, reference, SEED), naive_difference(ours, theirs, included)
    )
    np.testing.assert_array_equal(Boundary().score(target, NOTHING, SEED), ours)


def test_a_norm_of_zero_is_the_surest_member() -> None:
    scores = GradientNorm().score(View.of(gradient_norms=np.array([0.0, 1e-3])), NOTHING, SEED)
    assert np.isfinite(scores).all() and scores[0] > scores[1]


def test_leave_one_out_of_some_models_is_that_of_all() -> None:
    _, theirs, included = drawn()
    every, some = reference_fit.leave_one_out(theirs, included), reference_fit.leave_one_out(theirs, included, 3)
    for full, part in zip(every, some, strict=True):
        np.testing.assert_array_equal(full.mean[:3], part.mean)
        np.testing.assert_array_equal(full.squares[:3], part.squares)
        np.testing.assert_array_equal(full.count[:3], part.count)


def confidences(checkpoints: int, shift: float, seed: int) -> tuple[Array, Array]:
    """Independent signals N(shift * member, 1) around a level of each record, as losses `(models, m, checkpoints)`."""
    random = np.random.default_rng(seed)
    included = random.random((33, 3000)) < 0.5
    level = random.standard_normal((1, 3000, checkpoints))
    values = level + shift * included[..., None] + random.standard_normal((33, 3000, checkpoints))
    return included, np.logaddexp(0.0, -values)


def test_a_trajectory_adds_up_what_its_checkpoints_say() -> None:
    included, losses = confidences(4, 0.7, 5)
    target, reference = View.of(loss_trajectory=losses[0]), View.of(included=included[1:], loss_trajectory=losses[1:])
    scores = Trajectory().score(target, reference, SEED)
    result = roc.auc(scores[included[0]], scores[~included[0]])
    best = NormalDist().cdf(0.7 * 4**0.5 / 2**0.5)  # four independent looks, levels known
    single = NormalDist().cdf(0.7 / 2**0.5)
    assert single + 0.05 < result <= best + 0.01
    assert result > best - 0.03


def test_the_white_box_classifier_uses_both_signals() -> None:
    included, losses = confidences(2, 1.0, 6)
    norms = np.exp(-np.log(np.expm1(np.maximum(losses[..., 1], 1e-9))) / 2)
    norms = 1 / norms  # small if the second signal is large
    target = View.of(losses=losses[0, :, 0], gradient_norms=norms[0])
    reference = View.of(included=included[1:], losses=losses[1:, :, 0], gradient_norms=norms[1:])
    scores = WhiteBoxClassifier().score(target, reference, SEED)
    result = roc.auc(scores[included[0]], scores[~included[0]])
    assert result > NormalDist().cdf(1 / 2**0.5) + 0.04  # more than one signal can give
    assert result <= NormalDist().cdf(2**0.5 / 2**0.5) + 0.01


def test_the_white_box_classifier_reads_the_hidden_representation_where_it_was_observed() -> None:
    """Two noisy looks at membership, one of them in the distances alone."""
    included, losses = confidences(2, 1.0, 6)
    flat = np.ones(losses.shape[:2])
    distances = np.expm1(np.maximum(losses[..., 1], 1e-9))  # small for members, its log has unit spread
    observed = {"losses": losses[..., 0], "gradient_norms": flat, "class_distances": distances}
    target = View.of(**{name: value[0] for name, value in observed.items()})
    reference = View.of(included=included[1:], **{name: value[1:] for name, value in observed.items()})
    scores = WhiteBoxClassifier().score(target, reference, SEED)
    result = roc.auc(scores[included[0]], scores[~included[0]])
    assert NormalDist().cdf(1 / 2**0.5) + 0.04 < result <= NormalDist().cdf(2**0.5 / 2**0.5) + 0.01


def test_what_was_not_observed_is_said() -> None:
    with pytest.raises(ObservationError, match="dirac_gradient"):
        WeightDifference().score(View.of(), NOTHING, SEED)
    with pytest.raises(ObservationError, match="not finite"):
        WeightDifference().score(View.of(weight_products=np.array([1.0, np.nan])), NOTHING, SEED)
    with pytest.raises(ObservationError, match="reads last_gradient_norms of records and the target does not show them"):
        GradientNorm(layer="last").score(View.of(gradient_norms=np.ones(5)), NOTHING, SEED)
    with pytest.raises(ConfigError, match="all or last"):
        GradientNorm(layer="first")
    with pytest.raises(ConfigError, match="at least 55"):
        Boundary(queries=54)
