"""Clients that real data name: as many as published counts say, unbalanced, and no one beyond the cap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.core.access import Access
from audit.core.canaries import Canaries, CoordinateGradients
from audit.core.data import Dataset
from audit.core.errors import ConfigError, DataError
from audit.core.events import dp_sgd
from audit.core.seeds import Seed
from audit.core.training import Executed, TrainingJob
from audit.data.load import load
from audit.data.readers._corpora import Speeches
from audit.trainers.federated import FederatedTrainer
from tests.engine import cases
from tests.engine.test_data_real import ADULT, ADULT_CATEGORICAL

BANK_CATEGORICAL = ["job", "marital", "education", "default", "housing", "loan", "contact", "month", "day_of_week", "poutcome"]
SPEECHES = {"kind": "speeches", "path": "tiny_shakespeare/input.txt.gz", "stride": 8}
BANK = {
    "kind": "table",
    "path": "bank_marketing/bank-additional-full.csv.gz",
    "separator": ";",
    "label": "y",
    "categorical": BANK_CATEGORICAL,
    "drop": ["duration"],
    "client": {"columns": ["month", "day_of_week"], "runs": True},
}
OCCUPATIONS = {
    "kind": "table",
    "path": "adult/adult.data.gz",
    "columns": ADULT,
    "label": "income",
    "categorical": ADULT_CATEGORICAL,
    "client": {"columns": ["occupation", "age"], "widths": {"age": 5}},
}
PLAY = """ROMEO:
It is the east.

JULIET:
Ay me!

[Exit]

ROMEO:
O é

"""


def sizes_of(dataset: Dataset) -> np.ndarray:
    assert dataset.owners is not None
    return np.unique(dataset.owners, return_counts=True)[1]


def two_rounds(dataset: Dataset, model: dict[str, Any], **options: Any) -> Executed:
    """Train one federation of the clients that the data name, without noise."""
    job = TrainingJob(
        dataset=dataset,
        canaries=Canaries(kind="none", description="", payload=CoordinateGradients(coordinates=np.zeros(1, dtype=np.int64))),
        included=np.zeros((1, 1), dtype=bool),
        seeds=(Seed(3),),
        mechanism=dp_sgd(noise_multiplier=0.0, clip_norm=0.02, sample_rate=0.1, steps=2, unit="client"),
        model=model,
        optimizer={"kind": "sgd", "learning_rate": 1.0},
        access=Access.FINAL_MODEL,
    )
    clients = len(sizes_of(dataset))
    trainer = FederatedTrainer(clients=clients, split="column", local_batch=10, local_steps=2, slots=16, **options)
    return trainer.fit(job, cases.silent).models.executed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "clients", "largest", "model"),
    [
        (BANK, 488, 822, {"kind": "logistic"}),
        (OCCUPATIONS, 215, 690, {"kind": "logistic"}),
        (SPEECHES, 299, 4738, {"kind": "transformer", "vocabulary": 97, "width": 8, "depth": 1, "heads": 2}),
    ],
)
def test_clients_of_real_data_count_up_to_a_cap(
    spec: dict[str, Any], clients: int, largest: int, model: dict[str, Any], data_root: Path
) -> None:
    dataset = load({**spec, "root": str(data_root), "train": None, "pool": 1, "test": 1}, Seed(1))
    sizes = sizes_of(dataset)
    assert len(sizes) == clients and abs(int(sizes.max()) - largest) <= 2
    assert sizes.max() >= 50 * np.quantile(sizes, 0.1), "weights by records alone would let one client outweigh fifty"
    measured = two_rounds(dataset, model, example_cap=20)
    assert 0.5 < measured.largest_norm.max() <= 1 + 1e-5


def test_speeches_are_windows_of_their_speakers(tmp_path: Path) -> None:
    (tmp_path / "play.txt").write_text(PLAY)
    spec = {"kind": "speeches", "root": str(tmp_path), "path": "play.txt", "length": 4, "stride": 1, "pool": 0, "test": 0}
    dataset = load({**spec, "train": None}, Seed(1))
    assert dataset.owners is not None and dataset.classes == 97
    records = {
        (owner, "".join("·\n"[int(n)] if n < 2 else chr(int(n) + 30) for n in (*row, label)))
        for owner, row, label in zip(dataset.owners, dataset.train.inputs, dataset.train.labels, strict=True)
    }
    assert {("ROMEO", "···It"), ("ROMEO", "It is"), ("ROMEO", "east."), ("JULIET", "···Ay"), ("JULIET", "y me!")} <= records
    assert ("ROMEO", "··O ·") in records, "a character outside of the alphabet is 0, like what lies before a speech"
    assert len(dataset.train) == len("It is the east.") - 1 + len("Ay me!") - 1 + len("O é") - 1


def test_line_ends_of_other_systems_make_the_same_speeches(tmp_path: Path) -> None:
    inputs = []
    for number, end in enumerate(("\n", "\r\n", "\r")):
        (tmp_path / f"{number}.txt").write_bytes(PLAY.replace("\n", end).encode())
        inputs.append(Speeches(root=str(tmp_path), path=f"{number}.txt").read().main.inputs)
    assert len(inputs[0]) and all(np.array_equal(inputs[0], peer) for peer in inputs[1:])


def test_a_speaker_s_name_has_a_length_that_every_record_can_keep(tmp_path: Path) -> None:
    (tmp_path / "play.txt").write_text(f"{'N' * 100}:\nWho is there?\n\n{'M' * 20_000}:\n{'word ' * 4_000}\n")
    with pytest.raises(DataError, match="has 20,000 characters; expected at most 100"):
        Speeches(root=str(tmp_path), path="play.txt").read()
    (tmp_path / "play.txt").write_text(f"{'N' * 100}:\nWho is there?\n")
    owners = Speeches(root=str(tmp_path), path="play.txt").read().main.owners
    assert owners is not None and set(owners) == {"N" * 100}


def test_what_is_no_play_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("one\ntwo\n\nthree:\n")
    spec = {"kind": "speeches", "root": str(tmp_path), "path": "list.txt", "train": 1, "pool": 0, "test": 0}
    with pytest.raises(DataError, match="holds no speech"):
        load(spec, Seed(1))
    with pytest.raises(ConfigError, match=r"data\.stride is 0"):
        load({**spec, "stride": 0}, Seed(1))
