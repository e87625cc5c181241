"""What every subject promises: models trained here by any trainer, and models that are known by what was recorded of them."""

from __future__ import annotations

import numpy as np
import pytest

import audit
from attacks.signals.logits import Logits, Losses
from audit import plugins
from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Records
from audit.core.events import dp_sgd, sgd
from audit.core.models import Subject
from audit.experiment.external.external_models import RecordedOutputs
from tests.engine import cases

PLAIN = sgd(sample_rate=0.2, steps=3)
NOISY = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.2, steps=3)
RECORDS = Records(inputs=np.asarray(cases.job(PLAIN, models=1).dataset.test.inputs[:12]), labels=np.arange(12) % 2)
CANARIES = Canaries(kind="given", description="records", payload=CanaryRecords(records=RECORDS))


def trained(kind: str) -> Subject:
    mechanism = PLAIN if kind == "sgd" else NOISY
    subject: Subject = plugins.build("audit.trainers", {"kind": kind}).fit(cases.job(mechanism, models=2), cases.silent)
    return subject


def recorded() -> Subject:
    return RecordedOutputs(logits=np.random.default_rng(0).normal(size=(2, 12, 3)))


SUBJECTS = {"sgd": lambda: trained("sgd"), "dpsgd": lambda: trained("dpsgd"), "recorded": recorded}


@pytest.fixture(scope="module", params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return SUBJECTS[request.param]()


def test_signals_have_an_axis_of_models(subject: Subject) -> None:
    signals = subject.read([Logits(), Losses()], CANARIES)
    assert signals["logits"].shape[:2] == (len(subject), 12)
    assert np.array_equal(signals["logits"], subject.outputs(RECORDS.inputs))
    assert set(signals) <= {"logits", "losses"}


def test_what_is_known_of_the_training_fits_the_number_of_models(subject: Subject) -> None:
    assert all(len(value) == len(subject) for value in subject.weights.values())
    assert subject.executed is None or len(subject.executed.population) == len(subject)
    assert "outputs" in subject.released


def test_a_model_trained_here_is_audited_as_one_that_somebody_brings() -> None:
    subject = trained("sgd")
    item = subject.alone(0)
    x, y = RECORDS.inputs, RECORDS.labels
    sides = (x[:6], y[:6]), (x[6:], y[6:])
    as_subject = audit.check(item, *sides, quiet=True)
    as_function = audit.check(lambda inputs: item.outputs(inputs)[0], *sides, quiet=True)
    assert as_subject.to_pandas().equals(as_function.to_pandas())
    with pytest.raises(audit.ConfigError, match="holds 2 models"):
        audit.check(subject, *sides, quiet=True)
