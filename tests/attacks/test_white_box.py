"""Signals and scorers that look into the weights, against slow loops and closed forms."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
import torch

from attacks.scorers.boundary import Boundary
from attacks.scorers.gradient_norm import GradientNorm
from attacks.scorers.trajectory import Trajectory
from attacks.scorers.weight_difference import WeightDifference
from attacks.scorers.white_box_classifier import WhiteBoxClassifier
from audit.core.errors import ConfigError, ObservationError
from audit.core.records import Array, Records, ReferenceView, TargetView
from audit.core.seeds import Seed
from audit.stats import reference_fit, roc
from audit.training import observe
from audit.training.models import initialised

SEED = Seed(4)
NOTHING = ReferenceView(included=np.empty((0, 5), dtype=bool))


@pytest.mark.parametrize(("spec", "shape"), [({"kind": "mlp", "hidden": [6]}, (5,)), ({"kind": "cnn"}, (1, 6, 6))])
def test_gradient_norms_are_those_of_autograd(spec: dict[str, object], shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    records = Records(inputs=random.standard_normal((70, *shape)).astype(np.float32), labels=random.integers(0, 3, 70))
    modules = [initialised(spec, shape, 3, SEED.child("model", one)) for one in range(2)]
    weights = {
        name: np.stack([dict(module.named_parameters())[name].detach().numpy() for module in modules])
        for name, _ in modules[0].named_parameters()
    }
    found = observe.gradient_norms(spec, weights, records, 3)
    assert found.shape == (2, 70)
    for module, norms in zip(modules, found, strict=True):
        for one in (0, 33, 69):
            module.zero_grad()
            output = module(torch.from_numpy(np.array(records.inputs[one : one + 1])))
            torch.nn.functional.cross_entropy(output, torch.from_numpy(np.array(records.labels[one : one + 1]))).backward()
            naive = np.sqrt(sum(float(parameter.grad.square().sum()) for parameter in module.parameters()))
            assert norms[one] == pytest.approx(naive, rel=1e-4)


def drawn(records: int = 30, models: int = 7) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(2)
    return random.random(records) + 0.1, random.random((models, records)) + 0.1, random.random((models, records)) < 0.5


def naive_difference(ours: Array, theirs: Array, included: Array) -> list[float]:
    scores = []
    shift = []
    for one in range(len(ours)):
        inside, outside = theirs[included[:, one], one], theirs[~included[:, one], one]
        if len(inside) and len(outside):
            shift.append(inside.mean() - outside.mean())
    for one in range(len(ours)):
        outside = theirs[~included[:, one], one]
        level = outside.mean() if len(outside) else theirs[:, one].mean() - np.mean(shift)
        scores.append(ours[one] - level)
    return scores


def test_calibrated_norms_and_distances_are_differences_from_models_without_the_record() -> None:
    ours, theirs, included = drawn()
    target, reference = TargetView(gradient_norms=ours), ReferenceView(included=included, gradient_norms=theirs)
    by_loop = naive_difference(-np.log(ours), -np.log(theirs), included)
    np.testing.assert_allclose(GradientNorm(calibrated=True).score(target, reference, SEED), by_loop)
    np.testing.assert_allclose(GradientNorm().score(target, NOTHING, SEED), -np.log(ours))
    target, reference = TargetView(boundary=ours), ReferenceView(included=included, boundary=theirs)
    np.testing.assert_allclose(
        Boundary(calibrated=True).score(target, reference, SEED), naive_difference(ours, theirs, included)
    )
    np.testing.assert_array_equal(Boundary().score(target, NOTHING, SEED), ours)


def test_a_norm_of_zero_is_the_surest_member() -> None:
    scores = GradientNorm().score(TargetView(gradient_norms=np.array([0.0, 1e-3])), NOTHING, SEED)
    assert np.isfinite(scores).all() and scores[0] > scores[1]


def test_leave_one_out_of_some_models_is_that_of_all() -> None:
    _, theirs, included = drawn()
    every, some = reference_fit.leave_one_out(theirs, included), reference_fit.leave_one_out(theirs, included, 3)
    for whole, part in zip(every, some, strict=True):
        np.testing.assert_array_equal(whole.mean[:3], part.mean)
        np.testing.assert_array_equal(whole.squares[:3], part.squares)
        np.testing.assert_array_equal(whole.count[:3], part.count)


def confidences(checkpoints: int, shift: float, seed: int) -> tuple[Array, Array]:
    """Independent signals N(shift * member, 1) around a level of each record, as losses `(models, m, checkpoints)`."""
    random = np.random.default_rng(seed)
    included = random.random((33, 3000)) < 0.5
    level = random.standard_normal((1, 3000, checkpoints))
    values = level + shift * included[..., None] + random.standard_normal((33, 3000, checkpoints))
    return included, np.logaddexp(0.0, -values)


def test_a_trajectory_adds_up_what_its_checkpoints_say() -> None:
    included, losses = confidences(4, 0.7, 5)
    target, reference = TargetView(trajectory=losses[0]), ReferenceView(included=included[1:], trajectory=losses[1:])
    scores = Trajectory().score(target, reference, SEED)
    found = roc.auc(scores[included[0]], scores[~included[0]])
    best = NormalDist().cdf(0.7 * 4**0.5 / 2**0.5)  # four independent looks, levels known
    single = NormalDist().cdf(0.7 / 2**0.5)
    assert single + 0.05 < found <= best + 0.01
    assert found > best - 0.03


def test_the_white_box_classifier_uses_both_signals() -> None:
    included, losses = confidences(2, 1.0, 6)
    norms = np.exp(-np.log(np.expm1(np.maximum(losses[..., 1], 1e-9))) / 2)
    norms = 1 / norms  # small where the second signal is large
    target = TargetView(losses=losses[0, :, 0], gradient_norms=norms[0])
    reference = ReferenceView(included=included[1:], losses=losses[1:, :, 0], gradient_norms=norms[1:])
    scores = WhiteBoxClassifier().score(target, reference, SEED)
    found = roc.auc(scores[included[0]], scores[~included[0]])
    assert found > NormalDist().cdf(1 / 2**0.5) + 0.04  # more than one signal can give
    assert found <= NormalDist().cdf(2**0.5 / 2**0.5) + 0.01


def test_what_was_not_observed_is_said() -> None:
    with pytest.raises(ObservationError, match="dirac_gradient"):
        WeightDifference().score(TargetView(), NOTHING, SEED)
    with pytest.raises(ObservationError, match="not finite"):
        WeightDifference().score(TargetView(weight_products=np.array([1.0, np.nan])), NOTHING, SEED)
    with pytest.raises(ConfigError, match="at least 55"):
        Boundary(queries=54)
