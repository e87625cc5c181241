"""Sparse, half-precision, parallel and pruned modules, and those that write into their input: trained right, or refused so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.core.errors import ConfigError
from audit.core.events import dp_sgd, sgd
from audit.core.training import TrainingJob
from audit.engine.ensemble import train
from audit.engine.read.subject import Ensemble
from tests.engine import cases
from tests.engine.twin import slow_training
from tests.engine.unusual_modules import REFUSED, TRAINED

PLAIN = sgd(sample_rate=0.3, steps=3)
PRIVATE = dp_sgd(noise_multiplier=0.0, clip_norm=0.3, sample_rate=0.3, steps=3)


def make_job(kind: str, mechanism: Any) -> TrainingJob:
    spec = {"factory": "tests.engine.unusual_modules:make", "arguments": {"kind": kind}}
    return cases.job(mechanism, model=spec, data=cases.dataset((5,)), models=2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mechanism", [PLAIN, PRIVATE], ids=["plain", "private"])
@pytest.mark.parametrize("kind", sorted(TRAINED))
def test_unusual_modules_train_like_the_slow_loop(kind: str, mechanism: Any) -> None:
    job = make_job(kind, mechanism)
    done = train(job, cases.silent)
    assert done.executed.recomputed.max() < 1e-5
    for model in range(2):
        for name, value in slow_training(job, model).items():
            np.testing.assert_allclose(done.weights[name][model], value, rtol=1e-4, atol=1e-5, err_msg=name)
    assert np.isfinite(Ensemble(job, done).outputs(job.dataset.test.inputs)).all()


@pytest.mark.parametrize("mechanism", [PLAIN, PRIVATE], ids=["plain", "private"])
@pytest.mark.parametrize("kind", sorted(REFUSED))
def test_what_cannot_be_trained_is_refused_by_the_reason(kind: str, mechanism: Any) -> None:
    with pytest.raises(ConfigError, match=REFUSED[kind][1]):
        train(make_job(kind, mechanism), cases.silent)
