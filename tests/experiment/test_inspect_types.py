"""Inputs reach a model unchanged: tokens stay whole, outputs may come in an object, types of both sides are compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from audit.cli.app import answer
from audit.core.errors import DataError
from audit.experiment.external.inspection import Settings, inspect

QUIET = Settings(certificates=0, scorers=("loss",), proven_by=("loss",))


@dataclass
class ModelOutput:
    """As the classifiers of Hugging Face return it."""

    logits: torch.Tensor
    loss: None = None


class Classifier(nn.Module):
    """Mean of token embeddings, then a linear layer; refuses anything but whole numbers, as `nn.Embedding` does."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.head = nn.Embedding(50, 8), nn.Linear(8, 3)

    def forward(self, input_ids: torch.Tensor) -> ModelOutput:
        assert input_ids.dtype == torch.int64
        return ModelOutput(logits=self.head(self.tokens(input_ids).mean(dim=1)))


def sides(dtype: str = "int64") -> list[tuple[np.ndarray, np.ndarray]]:
    generator = np.random.default_rng(1)
    return [(generator.integers(0, 50, size=(60, 12)).astype(dtype), generator.integers(0, 3, size=60)) for _ in range(2)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_token_models_that_return_an_object_are_audited(dtype: str) -> None:
    model, (members, nonmembers) = Classifier(), sides(dtype)
    report = inspect(model, members, nonmembers, QUIET)
    (attack,) = report.mechanisms[0].games[0].attacks
    with torch.no_grad():
        losses = [
            nn.functional.cross_entropy(
                model(torch.from_numpy(x.astype(np.int64))).logits, torch.from_numpy(y), reduction="none"
            )
            for x, y in (members, nonmembers)
        ]
    pairs = losses[0][:, None] - losses[1][None, :]
    expected = float(((pairs < 0).double() + 0.5 * (pairs == 0).double()).mean())
    assert attack.auc == pytest.approx(expected, abs=1e-3)


def test_whole_numbers_against_fractions_are_a_difference_of_types() -> None:
    generator = np.random.default_rng(2)
    full = generator.integers(0, 255, size=(60, 4)).astype(np.uint8)
    with pytest.raises(DataError, match=r"members have x of type uint8 .* nonmembers of type float32"):
        inspect(nn.Linear(4, 3), (full, np.arange(60) % 3), ((full / 255).astype(np.float32), np.arange(60) % 3), QUIET)


@pytest.mark.parametrize(
    ("name", "message"), [("pickled.npz", "holds pickled Python objects"), ("single.npy", "is a single array")]
)
def test_pickles_and_single_arrays_are_called_what_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    path = tmp_path / name
    if name.endswith("npz"):
        np.savez(path, score=np.array([object(), {}], dtype=object), member=np.array([True, False]))
    else:
        np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert answer(["scores", str(path)]) == 2
    assert message in capsys.readouterr().err
