"""Outputs and weight differences of trained ensembles."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from audit.core.access import Access
from audit.core.canaries import Canaries, CanaryRecords, CoordinateGradients, DirectionGradients
from audit.core.data import Records
from audit.core.errors import DataError, ObservationError
from audit.core.events import dp_sgd, sgd
from audit.core.seeds import Seed
from audit.engine.ensemble import train
from audit.engine.read.observe import logits, weight_products
from audit.engine.read.subject import Ensemble
from audit.models.build import initialise_model
from tests.engine import cases


@pytest.mark.parametrize("name", ["mlp", "cnn", "convolutions", "raw", "normalised"])
def test_logits_are_those_of_each_model_alone(name: str) -> None:
    spec, shape = {**cases.MODELS, "normalised": (cases.factory("normalised"), (5,))}[name]
    modules = [initialise_model(spec, shape, 3, Seed(index)).eval() for index in range(3)]
    tables = [dict(module.named_parameters()) | dict(module.named_buffers()) for module in modules]
    weights = {key: np.stack([table[key].detach().numpy() for table in tables]) for key in tables[0]}
    inputs = cases.records(shape, 11, 4).inputs
    result = logits(spec, weights, inputs, 3, batch=4)
    assert result.shape == (3, 11, 3) and result.dtype == np.float32
    with torch.no_grad():
        expected = torch.stack([module(torch.from_numpy(np.array(inputs))) for module in modules])
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(result, logits(spec, weights, inputs, 3), rtol=1e-4, atol=1e-6)


def test_regression_has_one_output() -> None:
    done = train(cases.job(sgd(sample_rate=0.5, steps=2), data=cases.dataset((5,), classes=0)), cases.silent)
    assert logits({"kind": "mlp", "hidden": [8]}, done.weights, cases.records((5,), 7, 0).inputs, 0).shape == (3, 7, 1)


class Asked:
    """A signal that records its inputs for canaries, for other records, and for canaries again."""

    key, source = "asked", "outputs"

    def __init__(self, others: Records) -> None:
        self.others = others
        self.shown: list[np.ndarray] = []

    def read(self, models: Ensemble, canaries: Canaries) -> np.ndarray:
        assert canaries.records is not None
        self.shown += [models.outputs(records.inputs) for records in (canaries.records, self.others, canaries.records)]
        return self.shown[0][..., 0]


def test_outputs_that_are_remembered_are_those_of_the_records_asked_for() -> None:
    job = cases.job(sgd(sample_rate=0.5, steps=2))
    subject = Ensemble(job, train(job, cases.silent))
    requested = Asked(job.dataset.test)
    subject.read([requested], job.canaries)  # type: ignore[list-item]
    assert job.canaries.records is not None
    expected = [subject.outputs(records.inputs) for records in (job.canaries.records, requested.others, job.canaries.records)]
    for shown, outputs in zip(requested.shown, expected, strict=True):
        np.testing.assert_array_equal(shown, outputs)
    assert requested.shown[0] is requested.shown[2]


def test_a_diverged_model_is_named() -> None:
    done = train(cases.job(sgd(sample_rate=0.5, steps=1)), cases.silent)
    weights = {name: np.array(value) for name, value in done.weights.items()}
    weights["0.bias"][1] = np.nan
    with pytest.raises(ObservationError, match=r"1 of 3 models .*model 1"):
        logits({"kind": "mlp", "hidden": [8]}, weights, cases.records((5,), 7, 0).inputs, 3)


def test_outputs_that_are_not_the_classes_are_refused() -> None:
    done = train(cases.job(sgd(sample_rate=0.5, steps=0), model=cases.factory("used_twice")), cases.silent)
    with pytest.raises(ObservationError, match="3 outputs but the data has 5 classes"):
        logits(cases.factory("used_twice"), done.weights, cases.records((5,), 7, 0).inputs, 5)


@pytest.mark.parametrize("dense", [False, True])
def test_weight_products_show_what_a_canary_moved(dense: bool) -> None:
    directions = np.linalg.qr(np.random.default_rng(0).normal(size=(18, 4)))[0].T.astype(np.float32)
    canaries = (
        Canaries(kind="dense", description="", payload=DirectionGradients(directions=directions))
        if dense
        else Canaries(kind="dirac", description="", payload=CoordinateGradients(coordinates=np.array([0, 5, 15, 17])))
    )
    mechanism = dp_sgd(noise_multiplier=0.0, clip_norm=2.0, sample_rate=1.0, steps=5)
    job = cases.job(
        mechanism,
        canaries=canaries,
        model={"kind": "logistic"},
        models=8,
        access=Access.FINAL_WEIGHTS,
        optimizer={"kind": "sgd", "learning_rate": 1.0},
        data=cases.dataset((5,), train=4),
    )
    done = train(job, cases.silent)
    assert done.initial is not None
    products = weight_products(done.initial, done.weights, canaries)
    assert products.shape == (8, 4) and products.dtype == np.float32
    unit = 5 * 2.0 / 8  # five steps, each of norm 2 over the expected batch of 8
    assert products[job.included].mean() - products[~job.included].mean() == pytest.approx(unit, rel=0.3)
    too_far = Canaries(kind="d", description="", payload=CoordinateGradients(coordinates=np.array([18])))
    for wrong in (too_far, Canaries(kind="r", description="", payload=CanaryRecords(records=job.dataset.pool))):
        with pytest.raises(DataError):
            weight_products(done.initial, done.weights, wrong)
