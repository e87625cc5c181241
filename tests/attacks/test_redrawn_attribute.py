"""Redrawn attributes: alternatives that differ in the attribute alone, priors that are what was declared."""

from __future__ import annotations

import numpy as np
import pytest

from attacks.canaries.candidate_gradients import CandidateGradients
from attacks.canaries.redrawn_attribute import RedrawnAttribute
from audit.core.canaries import Canaries, CoordinateGradients
from audit.core.data import Dataset, Records
from audit.core.errors import ConfigError
from audit.core.seeds import Seed


def table() -> Dataset:
    """A column of numbers, one of three categories that follows the label, and one of two."""
    draw = np.random.default_rng(0)

    def part(count: int) -> Records:
        labels = draw.integers(2, size=count)
        follows = np.where(draw.random(count) < 0.8, labels, 2)
        inputs = np.concatenate(
            [draw.normal(size=(count, 1)), np.eye(3)[follows], np.eye(2)[draw.integers(2, size=count)]], axis=1
        )
        return Records(inputs=inputs.astype(np.float32), labels=labels)

    return Dataset(
        name="people",
        source="made up",
        sha256="0" * 64,
        classes=2,
        train=part(400),
        pool=part(50),
        test=part(10),
        pool_index=np.arange(50),
        columns={"age": (0, 1), "region": (1, 4), "sex": (4, 6)},
    )


def make(count: int = 20, **options: object) -> Canaries:
    return RedrawnAttribute(**options).make(table(), count, 100, Seed(3))  # type: ignore[arg-type]


def alternatives(canaries: Canaries) -> tuple[np.ndarray, np.ndarray]:
    assert canaries.records is not None and canaries.secrets is not None
    shape = (len(canaries.secrets.prior), canaries.secrets.choices)
    return canaries.records.inputs.reshape(*shape, -1), canaries.records.labels.reshape(shape)


@pytest.mark.parametrize(
    ("attribute", "columns", "choices"), [("region", [1, 2, 3], 3), ("sex", [4, 5], 2), ([4, 5], [4, 5], 2)]
)
def test_alternatives_differ_in_the_attribute_alone(attribute: object, columns: list[int], choices: int) -> None:
    inputs, labels = alternatives(make(attribute=attribute))
    assert inputs.shape[1] == choices
    peers = np.delete(inputs, columns, axis=2)
    assert (peers == peers[:, :1]).all() and (labels == labels[:, :1]).all()
    assert (inputs[:, :, columns] == inputs[:1, :, columns]).all()
    assert len(np.unique(inputs[0][:, columns], axis=0)) == choices


def test_a_number_is_cut_at_its_quantiles() -> None:
    inputs, _ = alternatives(make(attribute="age", values=4))
    ages = np.sort(table().train.inputs[:, 0])
    assert inputs[0, :, 0] == pytest.approx(np.quantile(ages, [0.125, 0.375, 0.625, 0.875]), abs=0.05)


def test_a_label_is_an_attribute() -> None:
    inputs, labels = alternatives(make(attribute="label"))
    assert (labels == [0, 1]).all() and (inputs == inputs[:, :1]).all()


def prior_of(name: str, **options: object) -> np.ndarray:
    secrets = make(attribute="region", prior=name, **options).secrets
    assert secrets is not None
    return secrets.prior


def test_priors_are_those_declared() -> None:
    assert (prior_of("uniform") == 1 / 3).all()
    inputs, labels = alternatives(make(attribute="region"))
    region = inputs[0][:, 1:4].argmax(axis=1)  # of each alternative
    shares = table().train.inputs[:, 1:4].mean(axis=0)[region]
    assert prior_of("marginal") == pytest.approx(np.tile(shares, (20, 1)), abs=0.02)
    conditional = prior_of("conditional")
    for label in (0, 1):
        follows = conditional[labels[:, 0] == label][:, region == label]
        assert (follows > 0.5).all()
    assert conditional.min() > 0.01


def test_values_are_drawn_with_their_priors_one_a_secret() -> None:
    secrets = make(attribute="region", prior="conditional", count=20).secrets
    assert secrets is not None
    drawn = secrets.draw(np.random.default_rng(1).random((5000, 20))).reshape(5000, 20, 3)
    assert (drawn.sum(axis=2) == 1).all()
    assert drawn.mean(axis=0) == pytest.approx(secrets.prior, abs=0.03)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attribute": "regoin"}, "Did you mean 'region'"),
        ({"attribute": [1, 1]}, "distinct"),
        ({"attribute": [99]}, "from 0 to 5"),
        ({"attribute": [0, 1], "values": 3}, "more than values"),
        ({"prior": "posterior"}, "expected one of uniform"),
        ({"values": 1}, "at least 2"),
    ],
)
def test_what_cannot_be_redrawn_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make(**options)


def test_candidates_own_parameters() -> None:
    canaries = CandidateGradients(candidates=5).make(table(), 20, 100, Seed(0))
    assert isinstance(canaries.payload, CoordinateGradients) and len(canaries) == 100
    with pytest.raises(ConfigError, match="1 to 19 canaries"):
        CandidateGradients(candidates=5).make(table(), 20, 99, Seed(0))
