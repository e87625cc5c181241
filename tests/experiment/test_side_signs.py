"""What x of both sides, the data set or the memberships of references show is asked about, and splits at random never are."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, StandardScaler

from audit.core.claims import Outcome
from audit.core.data import Array
from audit.core.errors import DataError
from audit.data.members import gather
from audit.experiment.external.inspection import References, Settings, examine
from audit.experiment.external.side_signs import find_side_signs

MEASURED, _ = load_breast_cancer(return_X_y=True)
CONTINUOUS = np.random.default_rng(0).normal(size=(300, 4))
SETTINGS = Settings(scorers=("loss",), certificates=0)


def signs(members: Array, nonmembers: Array) -> list[str]:
    return find_side_signs(gather(*[(side, np.arange(len(side)) % 2) for side in (members, nonmembers)]))


def split(records: Array, seed: int, share: float = 0.5) -> tuple[Array, Array]:
    order = np.random.default_rng(seed).permutation(len(records))
    count = int(share * len(records))
    return records[order[:count]], records[order[count:]]


def shifted_copies(members: Array, nonmembers: Array) -> Array:
    return np.concatenate([members[:30] + 1e-4, nonmembers[30:]])


@pytest.mark.parametrize("name", ["copies", "rounded copies"])
def test_near_copies_on_both_sides_are_asked_about(name: str) -> None:
    members, nonmembers = split(CONTINUOUS, 0)
    copied = shifted_copies(members, nonmembers)
    copied = np.round(copied, 3) if name == "rounded copies" else copied
    assert "closest pairs of records" in signs(members, copied)[0]
    assert signs(members, nonmembers) == []


@pytest.mark.parametrize(
    ("scaler", "words"), [(StandardScaler, "same mean"), (MinMaxScaler, "same least"), (QuantileTransformer, "same least")]
)
def test_sides_that_were_scaled_separately_are_asked_about(scaler: Any, words: str) -> None:
    further = {"n_quantiles": 50} if scaler is QuantileTransformer else {}
    members, nonmembers = split(MEASURED, 1)
    separate = [scaler(**further).fit_transform(side) for side in (members, nonmembers)]
    assert words in signs(*separate)[0]
    whole = scaler(**further).fit(members)
    assert signs(whole.transform(members), whole.transform(nonmembers)) == []


def test_a_value_that_is_no_measurement_is_named() -> None:
    members, nonmembers = split(CONTINUOUS, 0)
    members[3, 2] = 1e38
    assert signs(members, nonmembers)[0].startswith("x of record 4 (counted from 1), members first, holds 1e+38 at place 3")


@pytest.mark.parametrize("name", ["digits", "wine", "cancer", "repeated", "walk", "clipped", "zeros and ones"])
def test_no_split_at_random_is_asked_about(name: str) -> None:
    random = np.random.default_rng(1)
    records = {
        "digits": lambda: load_digits(return_X_y=True)[0][:600],
        "wine": lambda: load_wine(return_X_y=True)[0],
        "cancer": lambda: StandardScaler().fit_transform(MEASURED),
        "repeated": lambda: np.repeat(random.normal(size=(150, 4)), 3, axis=0),
        "walk": lambda: np.cumsum(random.normal(size=(500, 3)), axis=0),
        "clipped": lambda: np.clip(random.normal(size=(400, 4)), -1, 1),
        "zeros and ones": lambda: random.integers(0, 2, size=(400, 20)),
    }[name]()
    assert [text for seed in range(20) for text in signs(*split(records, seed, (0.5, 0.3)[seed % 2]))] == []


class Augmented(torch.utils.data.Dataset[tuple[Any, int]]):
    """Records with noise that is drawn anew, or once."""

    def __init__(self, draws: bool) -> None:
        self.draws, self.records = draws, torch.randn(40, 3)

    def __len__(self) -> int:
        return 40

    def __getitem__(self, place: int) -> tuple[Any, int]:
        record = self.records[place]
        return (record + torch.randn(3) if self.draws else record), place % 2


@pytest.mark.parametrize("form", [lambda side: side, lambda side: torch.utils.data.DataLoader(side, batch_size=8)])
def test_a_data_set_that_draws_its_records_anew_is_refused(form: Callable[[Any], Any]) -> None:
    with pytest.raises(DataError, match=r"members: record 1 .* another one when the data set is asked again"):
        gather(form(Augmented(draws=True)), form(Augmented(draws=True)))
    assert len(gather(form(Augmented(draws=False)), form(Augmented(draws=False))).labels) == 80


def test_references_that_hold_the_members_are_invalid_without_coins_as_well() -> None:
    """The attacks that compare would read membership from them: copies of the target gave an AUC of 1."""
    inputs, labels = (array[:400] for array in load_digits(return_X_y=True))
    included = np.random.default_rng(2).random((5, 400)) < 0.5
    included[0] = np.random.default_rng(1).permutation(400) < 200
    order = np.argsort(~included[0], kind="stable")  # members first
    forests = [RandomForestClassifier(10, random_state=0).fit(inputs[side], labels[side]) for side in included]
    sides = [(inputs[side], labels[side]) for side in (included[0], ~included[0])]
    settings = Settings(scorers=("rmia",), proven_by=("rmia",), certificates=0)
    copies = References(included=included[[0, 0, 0, 0]][:, order], models=[forests[0]] * 4)
    report = examine(forests[0], *sides, settings, copies).report
    assert report.outcome is Outcome.INVALID and any("tell members from the references alone" in note for note in report.notes)
    independent = References(included=included[1:][:, order], models=forests[1:])
    assert examine(forests[0], *sides, settings, independent).report.outcome is not Outcome.INVALID


class Words(torch.nn.Module):
    """Sums the meaning of the first words before the padding, which is last."""

    def forward(self, tokens: Any) -> Any:
        meaning = torch.where(tokens > 0, torch.cos(1.7 * tokens), torch.zeros(()))[:, :4].sum(dim=1)
        return torch.stack([-meaning, meaning], dim=1)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("tokens of x less 1", lambda tokens: np.where(tokens > 0, tokens + 1, 0)),
        ("tokens of x plus 1", lambda tokens: np.where(tokens > 0, tokens - 1, 0)),
        ("padding of x last", lambda tokens: np.take_along_axis(tokens, np.argsort(tokens > 0, axis=1, kind="stable"), axis=1)),
    ],
)
def test_tokens_of_another_numbering_or_padding_are_asked_about(name: str, change: Callable[[Array], Array]) -> None:
    random = np.random.default_rng(3)
    tokens = random.integers(2, 40, size=(400, 10))
    tokens[np.arange(10) >= random.integers(4, 8, size=(400, 1))] = 0
    labels = Words()(torch.as_tensor(tokens)).argmax(dim=1).numpy()
    for given, words in ((tokens, ""), (change(tokens), f"far better with {name} ")):
        report = examine(Words(), (given[:200], labels[:200]), (given[200:], labels[200:]), SETTINGS).report
        assert words in str(report.notes) and ("Look first" in str(report.notes)) == bool(words)


def fill(records: Array, seed: int) -> Array:
    """Return records with -999 in a fifth of the cells, as for missing ones."""
    return np.where(np.random.default_rng(seed).random(records.shape) < 0.2, np.float32(-999), records)


def test_values_that_stand_for_missing_cells_are_named() -> None:
    members, nonmembers = split(CONTINUOUS, 0)
    assert signs(members, nonmembers) == []
    both = signs(fill(members, 0), fill(nonmembers, 1))[0]
    assert "holds -999 in" in both
    assert "Look first" not in both
    alone = signs(members, fill(nonmembers, 1))[0]
    assert alone.startswith("Look first: column ")
    assert "holds -999 in 0 members" in alone


def test_counts_that_each_side_standardised_for_itself_are_asked_about() -> None:
    counts = np.random.default_rng(0).poisson(30, size=(240, 5)).astype(np.float32)
    sides = split(counts, 0)
    assert signs(*sides) == []
    assert "same mean" in signs(*[StandardScaler().fit_transform(side) for side in sides])[0]
