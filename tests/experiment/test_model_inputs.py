"""Records in any container beside a model: each AUC equals an own computation, or a refusal says what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC
from torch import nn
from torch.nn import functional

import audit
from audit.core.errors import ConfigError, DataError
from audit.data import model_records, row_containers
from audit.experiment.external.external_models import query_model

N = 80
RNG = np.random.default_rng(8)
X = RNG.normal(size=(2 * N, 6)).astype(np.float32)
Y = (X[:, 0] + RNG.normal(size=2 * N) > 0).astype(int)
IDS = np.arange(2 * N)
SIDES = slice(N), slice(N, None)


class Net(nn.Module):
    """Asked with numbers and an identity, it remembers members in part; `form` says how it takes and gives them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.weights = nn.Linear(6, 2)
        self.memory = nn.Embedding(2 * N, 2)
        with torch.no_grad():
            self.memory.weight.mul_(0.3)
            self.memory.weight[torch.arange(N), torch.as_tensor(Y[:N])] += 0.8

    def forward(self, a: Any, b: Any) -> Any:
        return self.weights(a) + self.memory(b)


NET = Net()
with torch.no_grad():
    LOGITS = NET(torch.as_tensor(X), torch.as_tensor(IDS))
LOSSES = functional.cross_entropy(LOGITS, torch.as_tensor(Y), reduction="none").numpy()


def expected(losses: Any) -> float:
    inside, outside = losses[:N], losses[N:]
    return float((inside[:, None] < outside).mean() + (inside[:, None] == outside).mean() / 2)


def measure_area(model: Any, pack: Callable[[slice], Any], **settings: Any) -> Any:
    result = audit.check(model, pack(SIDES[0]), pack(SIDES[1]), quiet=True, **settings)
    return next(row.auc for row in result.attacks if row.attack == "loss")


class Whole(Net):
    """Takes the container as one argument."""

    def forward(self, batch: Any) -> Any:  # type: ignore[override]
        first, second = (batch["a"], batch["b"]) if isinstance(batch, dict) else batch
        return super().forward(first, second)


class Keywords(Net):
    def forward(self, b: Any, *, a: Any, mask: Any = None) -> Any:  # type: ignore[override]
        return {"logits": super().forward(a, b), "hidden": a}


class Records(torch.utils.data.Dataset[Any]):
    def __init__(self, side: slice, form: str) -> None:
        self.places, self.form = IDS[side], form

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> Any:
        row = self.places[index]
        a, b, y = torch.as_tensor(X[row]), int(row), int(Y[row])
        return {"three": (a, b, y), "nested": ((a, b), y), "named": {"a": a, "b": b, "labels": y}}[self.form]


class HuggingFace:
    """Answers as `datasets.Dataset` does."""

    column_names = ("a", "b", "label")

    def __init__(self, side: slice) -> None:
        self.side = side

    def __len__(self) -> int:
        return len(X[self.side])

    def __getitem__(self, places: Any) -> Any:
        columns = {"a": X, "b": IDS, "label": Y}
        return {name: array[self.side][places].tolist() for name, array in columns.items()}


def loader(form: str) -> Callable[[slice], Any]:
    return lambda side: torch.utils.data.DataLoader(Records(side, form), batch_size=7, shuffle=True)


def tensors(side: slice) -> tuple[Any, Any]:
    return torch.as_tensor(X[side]), torch.as_tensor(IDS[side])


PACKED: dict[str, tuple[Any, Callable[[slice], Any]]] = {
    "tuple of arrays": (NET, lambda side: ((X[side], IDS[side]), Y[side])),
    "list of arrays": (NET, lambda side: ([X[side], IDS[side]], Y[side])),
    "tuple of tensors": (Whole(), lambda side: (tensors(side), torch.as_tensor(Y[side]))),
    "three in a row": (NET, lambda side: (X[side], IDS[side], Y[side])),
    "float labels": (NET, lambda side: (X[side], IDS[side], Y[side].astype(np.float32)[:, None])),
    "dictionary by name": (NET, lambda side: ({"a": X[side], "b": IDS[side]}, Y[side])),
    "dictionary in another order": (NET, lambda side: ({"b": IDS[side], "a": X[side]}, Y[side])),
    "dictionary with keywords": (Keywords(), lambda side: {"x": {"a": X[side], "b": IDS[side]}, "y": Y[side]}),
    "dictionary as one argument": (Whole(), lambda side: {"a": X[side], "b": IDS[side], "target": Y[side]}),
    "labels in the dictionary": (NET, lambda side: {"a": X[side], "b": IDS[side], "labels": Y[side]}),
    "data set of three": (NET, lambda side: Records(side, "three")),
    "data set of pairs": (NET, lambda side: Records(side, "nested")),
    "data set of dictionaries": (NET, lambda side: Records(side, "named")),
    "loader of three": (NET, loader("three")),
    "loader of pairs": (NET, loader("nested")),
    "loader of dictionaries": (NET, loader("named")),
    "hugging face": (NET, HuggingFace),
    "function of two": (lambda a, b: NET(torch.as_tensor(a), torch.as_tensor(b)), lambda side: ((X[side], IDS[side]), Y[side])),
    "function of a dictionary": (
        lambda batch: NET(torch.as_tensor(batch["a"]), torch.as_tensor(batch["b"])).detach(),
        lambda side: ({"a": X[side], "b": IDS[side]}, Y[side]),
    ),
    "function of a frame": (
        lambda frame: LOGITS[frame["id"].tolist()].softmax(-1).numpy(),
        lambda side: (pd.DataFrame({"id": IDS[side], "word": "a"}), Y[side]),
    ),
    "function of an array, given a frame": (
        lambda rows: NET(torch.as_tensor(rows[:, :6]), torch.as_tensor(rows[:, 6].astype(int))),
        lambda side: (pd.DataFrame(np.column_stack([X[side], IDS[side]])), Y[side]),
    ),
    "function of a list": (
        lambda rows: pd.DataFrame([LOGITS[row["id"]].numpy() for row in rows]),
        lambda side: ([{"id": int(place), "graph": set()} for place in IDS[side]], Y[side]),
    ),
    "numbers one each": (nn.Sequential(NET.memory), lambda side: ((IDS[side],), Y[side])),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PACKED)
def test_every_container_gives_the_auc_of_an_own_computation(name: str) -> None:
    model, pack = PACKED[name]
    logits = NET.memory.weight.detach() if name == "numbers one each" else LOGITS
    losses = functional.cross_entropy(logits, torch.as_tensor(Y), reduction="none").numpy()
    assert measure_area(model, pack) == pytest.approx(expected(losses), abs=5e-4)


def make_frame() -> pd.DataFrame:
    frame = pd.DataFrame(X[:, :3], columns=["age", "income", "tenure"])
    frame["job"] = RNG.choice(["clerk", "nurse", "cook"], 2 * N)
    frame.loc[::7, "age"], frame.loc[::11, "job"] = np.nan, None
    frame["grade"] = pd.Categorical(RNG.choice(["low", "high"], 2 * N))
    return frame


@pytest.mark.slow
def test_a_pipeline_on_raw_columns_with_missing_cells_and_text_labels() -> None:
    frame, y = make_frame(), np.where(Y, "yes", "no")
    columns = ColumnTransformer(
        [("n", SimpleImputer(), ["age", "income", "tenure"]), ("w", OneHotEncoder(handle_unknown="ignore"), ["job", "grade"])]
    )
    model = make_pipeline(columns, RandomForestClassifier(20, max_depth=5, random_state=0)).fit(frame[:N], y[:N])
    shares = model.predict_proba(frame)[np.arange(2 * N), Y]
    for target in (model, model.predict_proba):
        assert measure_area(target, lambda side: (frame[side], pd.Series(y[side]))) == pytest.approx(
            expected(-shares), abs=5e-3
        )


@pytest.mark.slow
def test_references_are_trained_on_frames() -> None:
    frame = make_frame()[["age", "income", "tenure"]].assign(job="clerk")

    def train(records: Any, seed: int) -> Any:
        assert list(records[0].columns) == list(frame.columns)
        columns = ColumnTransformer([("n", SimpleImputer(), ["age", "income"])])
        return make_pipeline(columns, RandomForestClassifier(5, random_state=seed)).fit(*records)

    model = train((frame[:N], Y[:N]), 0)
    result = audit.check(
        model,
        (frame[:N], Y[:N]),
        (frame[N:], Y[N:]),
        references=audit.ReferenceTraining(train=train, runs=3),
        quiet=True,
    )
    assert "rmia" in {row.attack for row in result.attacks if row.status == "run"}


@pytest.mark.slow
def test_texts_are_records_of_a_pipeline() -> None:
    words = np.array(["red", "blue", "green", "black", "white"])
    texts = [" ".join(words[RNG.integers(0, 5, 4)]) + f" {place}" for place in IDS]
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=30)).fit(texts[:N], Y[:N])
    losses = -model.predict_proba(texts)[np.arange(2 * N), Y]
    for form in (list, np.array, pd.Series):
        assert measure_area(model, lambda side, form=form: (form(texts[side]), Y[side])) == pytest.approx(
            expected(losses), abs=5e-4
        )


MASKS = RNG.integers(0, 3, (2 * N, 4, 5))
SCORES = torch.as_tensor(RNG.normal(size=(2 * N, 3, 4, 5)), dtype=torch.float32)
SCORES += 1.2 * functional.one_hot(torch.as_tensor(MASKS), 3).permute(0, 3, 1, 2)
SCORES[:N] += 0.5 * functional.one_hot(torch.as_tensor(MASKS[:N]), 3).permute(0, 3, 1, 2)
IMAGES = np.repeat(IDS[:, None], 2, axis=1)


def answer(table: Any) -> Callable[[Any], Any]:
    return lambda x: table[torch.as_tensor(x)[:, 0].long()]


def pixel_losses(scores: Any, masks: Any, ignored: int = -100) -> Any:
    losses = functional.cross_entropy(scores, torch.as_tensor(masks), reduction="none", ignore_index=ignored)
    return (losses.sum((1, 2)) / (torch.as_tensor(masks) != ignored).sum((1, 2))).numpy()


IGNORING = np.where(RNG.random(MASKS.shape) < 0.3, 255, MASKS)
MASKED: dict[str, tuple[Any, Any, Any]] = {
    "classes second": (SCORES, MASKS, pixel_losses(SCORES, MASKS)),
    "classes last": (SCORES.permute(0, 2, 3, 1), MASKS, pixel_losses(SCORES, MASKS)),
    "probabilities": (SCORES.softmax(1), MASKS, pixel_losses(SCORES, MASKS)),
    "an axis of one": (SCORES, MASKS[:, None].astype(np.uint8), pixel_losses(SCORES, MASKS)),
    "one-hot pixels": (
        SCORES.permute(0, 2, 3, 1),
        np.eye(3, dtype=np.float32)[MASKS],
        pixel_losses(SCORES, MASKS),
    ),
    "ignored pixels": (SCORES, IGNORING, pixel_losses(SCORES, IGNORING, 255)),
    "ignored as -100": (SCORES, np.where(IGNORING == 255, -100, IGNORING), pixel_losses(SCORES, IGNORING, 255)),
    "sequences last": (SCORES[:, :, 0], MASKS[:, 0], pixel_losses(SCORES[:, :, :1], MASKS[:, :1])),
    "yes or no": (
        SCORES[:, :1],
        MASKS == 0,
        functional.binary_cross_entropy_with_logits(SCORES[:, 0], torch.as_tensor(MASKS == 0).float(), reduction="none")
        .mean((1, 2))
        .numpy(),
    ),
    "images": (SCORES, (SCORES + 0.1 * torch.randn(SCORES.shape)).numpy(), None),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MASKED)
def test_masks_and_images_give_the_auc_of_an_own_computation(name: str) -> None:
    table, y, losses = MASKED[name]
    if losses is None:
        y[N:] += 0.01 * RNG.normal(size=y[N:].shape)
        squares = (table.numpy().astype(np.float64) - y) ** 2
        losses = (squares / squares.mean(axis=0)).sum((1, 2, 3))  # each number in its own unit
    assert measure_area(answer(table), lambda side: (IMAGES[side], y[side])) == pytest.approx(expected(losses), abs=5e-4)


SEQUENCES = RNG.normal(size=(2 * N, 7, 3)).astype(np.float32)


class Sequences(nn.Module):
    def __init__(self, *, first: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rnn, self.head, self.first = nn.LSTM(3, 8, batch_first=first), nn.Linear(8, 2), first

    def forward(self, x: Any) -> Any:
        states = self.rnn(x)[0]
        return self.head(states[:, -1] if self.first else states[-1])


class Everywhere(Sequences):
    def forward(self, x: Any) -> Any:
        return self.head(self.rnn(x)[0])


def test_sequences_with_time_first_are_read_or_refused_with_the_line_to_write() -> None:
    model = Sequences(first=False)
    with torch.no_grad():
        logits = model(torch.as_tensor(SEQUENCES).swapaxes(0, 1))
    losses = functional.cross_entropy(logits, torch.as_tensor(Y), reduction="none").numpy()
    right = lambda x: model(torch.as_tensor(x).swapaxes(0, 1))  # noqa: E731 - as the message writes it
    assert measure_area(right, lambda side: (SEQUENCES[side], Y[side])) == pytest.approx(expected(losses), abs=5e-4)
    with pytest.raises(DataError, match=r"second axis of x has as many.*x\.swapaxes\(0, 1\)"):
        measure_area(model, lambda side: (SEQUENCES[side].swapaxes(0, 1), Y[side]))
    with pytest.raises(DataError, match=r"7, 2\).*|outputs of shape"):
        measure_area(model, lambda side: (SEQUENCES[side], Y[side]))
    tokens = RNG.integers(0, 2, (2 * N, 7))
    with pytest.raises(DataError, match=r"place in the batch.*batch_first=True"):
        measure_area(Everywhere(first=False), lambda side: (SEQUENCES[side], tokens[side]))
    with pytest.raises(DataError, match=r"records are the second axis.*swapaxes\(0, 1\)"):
        measure_area(lambda x: torch.zeros(7, len(x), 2), lambda side: (SEQUENCES[side], tokens[side]))


class Heads(Net):
    def forward(self, a: Any, b: Any) -> Any:
        return {"sex": super().forward(a, b), "age": self.weights(a)}


def raises(batch: Any) -> Any:
    raise KeyError("age")


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "several heads": (Heads(), lambda s: ((X[s], IDS[s]), Y[s]), r"with 'sex', 'age'; .*model\(.*\['sex'\].*loss_of=fn"),
    "several tasks": (
        NET,
        lambda s: ((X[s], IDS[s]), {"p": Y[s], "q": Y[s]}),
        r"y is a dict with 'p', 'q'.*lambda x: model\(x\)\['task'\]",
    ),
    "output and state": (nn.LSTM(6, 2), lambda s: (X[s, None], Y[s]), r"returns tuple; .*model\(torch\.as_tensor\(x\)\)\[0\]"),
    "text for a module": (NET, lambda s: ({"a": X[s], "b": ["x"] * N}, Y[s]), "torch module takes tensors.*text as codes"),
    "ragged": (NET, lambda s: ({"a": X[s], "b": [[1], [2, 3]] * (N // 2)}, Y[s]), "sequences padded to one length"),
    "further columns": (NET, lambda s: ({"a": X[s], "b": IDS[s], "id": IDS[s]}, Y[s]), "also have 'id'; leave them out"),
    "no y": (NET, lambda s: {"a": X[s], "b": IDS[s]}, r"'a', 'b' and no y; expected it under one of y, label"),
    "two ys": (NET, lambda s: {"a": X[s], "y": Y[s], "label": Y[s]}, "'y' and 'label', so which of them"),
    "frame alone": (NET, lambda s: pd.DataFrame(X[s]), r'members\.drop\(columns="target"\)'),
    "generator": (NET, lambda s: (batch for batch in [(X[s], Y[s])]), r"generator.*np\.concatenate\(xs\)"),
    "function that raises": (raises, lambda s: (X[s], Y[s]), r"function raises was given ndarray float32\(160, 6\).*KeyError"),
    "classes of pixels": (lambda x: np.array(MASKS[x[:, 0]]), lambda s: (IMAGES[s], MASKS[s]), "before argmax"),
    "axes of a forecast": (
        lambda x: np.zeros((len(x), 3, 7)) + x[:, :1, None],
        lambda s: (X[s], SEQUENCES[s]),
        r"lambda x: model\(x\)\.swapaxes\(1, 2\)",
    ),
    "half of the records": (
        lambda rows: np.zeros((3, 2)),
        lambda s: ([{"id": int(i)} for i in IDS[s]], Y[s]),
        "one row a record",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_with_what_to_write(name: str) -> None:
    model, pack, message = REFUSED[name]
    with pytest.raises((DataError, ConfigError), match=message):
        measure_area(model, pack)


def test_sides_of_two_forms_are_refused() -> None:
    frame = pd.DataFrame(X[:N])
    with pytest.raises(DataError, match="expected the same form on both sides"):
        audit.check(NET, (frame, Y[:N]), (X[N:], Y[N:]), quiet=True)
    with pytest.raises(DataError, match=r"one kind of numbers on both sides"):
        audit.check(NET, ((X[:N], IDS[:N]), Y[:N]), ((X[N:], IDS[N:] / 2), Y[N:]), quiet=True)


def test_records_on_both_sides_are_refused_or_dropped_in_any_form() -> None:
    places = np.r_[N : 2 * N, 0:3]
    sides = [({"a": X[at], "b": IDS[at]}, Y[at]) for at in (np.arange(N), places)]
    with pytest.raises(DataError, match=r"3 nonmembers are equal to members \(nonmember 80 is member 0\)"):
        audit.check(NET, *sides, quiet=True)
    result = audit.check(NET, *sides, overlap="drop", quiet=True)
    assert next(row.auc for row in result.attacks if row.attack == "loss") == pytest.approx(expected(LOSSES), abs=5e-4)


@pytest.mark.slow
def test_a_sparse_matrix_is_asked_about_in_its_own_form() -> None:
    model = LogisticRegression(C=100).fit(scipy.sparse.csr_matrix(X[:N]), Y[:N])
    losses = -model.predict_proba(X)[np.arange(2 * N), Y]
    for form in (scipy.sparse.csr_matrix, scipy.sparse.csc_matrix):
        assert measure_area(model, lambda side, form=form: (form(X[side]), Y[side])) == pytest.approx(
            expected(losses), abs=5e-4
        )


class Iterable(torch.utils.data.IterableDataset[Any]):
    def __init__(self, side: slice) -> None:
        self.side = side

    def __iter__(self) -> Any:
        return iter(zip(X[self.side], Y[self.side], strict=True))


class Siamese(nn.Module):
    def forward(self, first: Any, second: Any) -> Any:
        return 4 - ((first - second) ** 2).sum(-1, keepdim=True)


class Forecaster:
    def predict(self, rows: Any) -> pd.DataFrame:
        return pd.DataFrame({"yhat": np.asarray(rows)[:, 0]})


DATES = pd.DataFrame({"score": X[:, 0], "day": pd.date_range("2020", periods=2 * N), "is_new": pd.array([None, True] * N)})
PAIRS = 4 - ((X - X[::-1]) ** 2).sum(1)
FORECASTS = (X[:, 0] - X[:, 1].astype(np.float64)) ** 2
SEVERAL = (X[:, :3] + RNG.normal(size=(2 * N, 3)) > 0).astype(int)
EACH = OneVsRestClassifier(LogisticRegression()).fit(X[:N], SEVERAL[:N])
MARGIN = LinearSVC().fit(X[:N], np.array(["yes", "no"])[Y[:N]])
EXPORTED = torch.export.export(NET.weights.eval(), (torch.as_tensor(X),), dynamic_shapes=({0: torch.export.Dim.AUTO},)).module()
FURTHER: dict[str, tuple[Any, Callable[[slice], Any], Any]] = {
    "pairs of a siamese model": (
        Siamese(),
        lambda side: (X[side], X[::-1][side], Y[side]),
        np.logaddexp(0, np.where(Y == 1, -PAIRS, PAIRS)),
    ),
    "forecasts in a frame": (Forecaster(), lambda side: (X[side], X[side, 1].astype(np.float64)), FORECASTS),
    "dates and missing truth values": (
        lambda frame: np.stack([-frame["score"], frame["score"]], axis=1),
        lambda side: (DATES[side], Y[side]),
        np.logaddexp(0, np.where(Y == 1, -2, 2) * X[:, 0]),
    ),
    "one probability a record": (
        lambda rows: 1 / (1 + np.exp(-np.asarray(rows)[:, 0])),
        lambda side: (X[side], Y[side].astype(float)),
        np.logaddexp(0, np.where(Y == 1, -1, 1) * X[:, 0]),
    ),
    "several labels, an estimator for each": (
        EACH,
        lambda side: (X[side], SEVERAL[side]),
        -np.log(np.where(SEVERAL == 1, EACH.predict_proba(X), 1 - EACH.predict_proba(X))).sum(axis=1),
    ),
    "a margin beside text labels": (
        MARGIN.decision_function,
        lambda side: (X[side], np.array(["yes", "no"])[Y[side]]),
        np.logaddexp(0, np.where(Y == 0, -1, 1) * MARGIN.decision_function(X)),
    ),
    "an exported module": (
        EXPORTED,
        lambda side: (X[side], Y[side]),
        functional.cross_entropy(NET.weights(torch.as_tensor(X)), torch.as_tensor(Y), reduction="none").detach().numpy(),
    ),
    "sparse tensors": (
        lambda rows: rows[:, 0],
        lambda side: (torch.as_tensor(X)[side].to_sparse(), Y[side]),
        np.logaddexp(0, np.where(Y == 1, -1, 1) * X[:, 0]),
    ),
    "iterable data set by the line of its refusal": (
        lambda rows: rows[:, 0],
        lambda side: tuple(map(list, zip(*Iterable(side), strict=True))),
        np.logaddexp(0, np.where(Y == 1, -1, 1) * X[:, 0]),
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FURTHER)
def test_further_models_give_the_auc_of_an_own_computation(name: str) -> None:
    model, pack, losses = FURTHER[name]
    assert measure_area(model, pack) == pytest.approx(expected(losses), abs=5e-4)


def test_an_iterable_data_set_is_refused_with_the_line_that_reads_it() -> None:
    with pytest.raises(DataError, match=r"tuple\(map\(list, zip\(\*members\)\)\)"):
        measure_area(NET, Iterable)


class Sealed:
    """A record that cannot be written down, nor distinguished by its text."""

    __slots__ = ("_value",)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("sealed")

    def __repr__(self) -> str:
        return "Sealed"


class Rows(list[Any]):
    """A frame by rows, as of polars, or of tensors by names."""

    get_column = None

    def rows(self) -> list[Any]:
        return list(self)


def test_records_that_cannot_be_written_down_are_equal_to_no_other() -> None:
    assert row_containers.digest([Sealed()]) is None
    assert (
        row_containers.digest(Rows([(1, 2)])) == row_containers.digest(Rows([(1, 2)])) != row_containers.digest(Rows([(1, 3)]))
    )


def test_containers_of_other_libraries_are_read_or_refused_with_the_line_to_write() -> None:
    class Booster:
        def inplace_predict(self, x: Any) -> Any:
            return torch.softmax(torch.as_tensor(x[:, :2]), 1).numpy()

    assert query_model(Booster(), X, Y).reading == "outputs are probabilities of 2 classes, y holds classes"
    tensors, arrow = Rows([1]), Rows([1])
    tensors.batch_dims = 1  # type: ignore[attr-defined]
    arrow.to_pylist = arrow.columns = None  # type: ignore[attr-defined]
    with pytest.raises(DataError, match=r"expected a dictionary of tensors, dict\(x\.items\(\)\)"):
        row_containers.read_rows(tensors, "members: x")
    with pytest.raises(DataError, match=r"of an Arrow table: its to_pandas\(\)"):
        row_containers.read_rows(arrow, "members: x")
    with pytest.raises(DataError, match=r"members\['target'\]\.to_pandas|members\.drop\(\"target\"\)\.to_pandas\(\)"):
        model_records.split_side(arrow, "members")
    with pytest.raises(ConfigError, match=r"load a file first, as joblib\.load\(path\)"):
        query_model("model.joblib", X, Y)
