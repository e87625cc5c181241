"""Coins that are held as bits are those that arrays hold: in every form that is asked for, and in the scores made of them."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import audit as api
from audit import plugins
from audit.core import coins
from audit.core.coins import Coins
from audit.core.seeds import Seed
from audit.core.views import View
from audit.execution.store import Store
from audit.experiment.describe.leave_one_out import leave_one_out
from audit.experiment.describe.resemblance import Resemblance
from audit.experiment.games.job_specs import _training_job
from tests.experiment.test_reductions import run
from tests.tiny import CONFIG

RANDOM = np.random.default_rng(0)


def both(models: int, width: int) -> tuple[np.ndarray, Coins]:
    array = RANDOM.random((models, width)) < 0.5
    return array, Coins.of([array[:3], array[3:]], models, width)


@pytest.mark.parametrize("width", [1, 7, 8, 19, 64])
def test_what_is_asked_for_is_what_an_array_gives(width: int) -> None:
    array, held = both(11, width)
    columns, mask = np.arange(width)[::-2], RANDOM.random(11) < 0.5
    keys: list[Any] = [0, -1, np.int64(3), slice(None), slice(2, 9, 3), [4, 1], np.array([5, 5]), mask, Ellipsis, None]
    keys += [(slice(None), slice(start, start + 5)) for start in range(width)] + [(slice(3, None), columns), (2, columns)]
    keys += [(slice(None), -1), (slice(None), slice(None, None, -1)), (4, 0), ([1, 2], [0, 0]), (slice(1, 4), slice(3, 2))]
    few = np.array([9, 2, 2])
    for a, b in ((array, held), (array[2:8], held.models(slice(2, 8))), (array[few], held.models(few))):
        retained = pickle.loads(pickle.dumps(b))
        for key in keys:
            wanted = None if isinstance(key, np.ndarray) and key.dtype == bool and len(key) != len(a) else key
            try:
                expected = a[wanted]
            except IndexError:
                continue
            for form in (b, retained):
                value = form[wanted]
                assert value.dtype == bool and np.array_equal(value, expected), key
        assert all((value in b) == (value in a) for value in (True, False, 2))
        assert (b.shape, len(b), b.size, b.ndim, b.dtype) == (a.shape, len(a), a.size, 2, bool)
        for axis in (None, 0, 1):
            for name in ("sum", "any", "all"):
                assert np.array_equal(getattr(b, name)(axis=axis), getattr(a, name)(axis=axis)), name
        assert np.array_equal(np.asarray(b), a) and np.array_equal(~b, ~a) and np.array_equal(b & a, a)
        assert np.array_equal(b.mean(axis=0), a.mean(axis=0)) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_they_cannot_be_written_to_and_only_own_rows_are_sent() -> None:
    array, held = both(1000, 80)
    with pytest.raises(ValueError, match="read-only"):
        held.bits[0, 0] = 1
    with pytest.raises(TypeError):
        np.logical_not(held, out=held)
    for part in (held.models(slice(10, 14)), held.models(np.arange(10, 14))):
        message = pickle.dumps(part)
        assert len(message) < 400 < held.bits.nbytes
        assert np.array_equal(np.asarray(pickle.loads(message)), array[10:14])


@pytest.mark.parametrize("copies", [1, 3])
def test_a_job_is_told_the_coins_of_each_copy(copies: int) -> None:
    array, held = both(6, 5)
    remainder: dict[str, Any] = dict.fromkeys(("dataset", "canaries", "seeds", "mechanism", "model", "optimizer", "access"))
    job = _training_job(included=held.models(slice(1, 4)), copies=copies, **remainder)
    assert isinstance(job.included, np.ndarray) and np.array_equal(job.included, np.repeat(array[1:4], copies, axis=1))


ATTACKS: list[dict[str, Any]] = [
    *({"kind": kind} for kind in ("loss", "lira", "offset", "attack_r", "attack_p", "reference_quantile", "auto")),
    *({"kind": kind, "online": False} for kind in ("lira", "offset", "rmia", "auto")),
    *({"kind": "rmia", **more} for more in ({}, {"temperature": 2.0}, {"population": True})),
    {"kind": "learned_combination"},
    {"kind": "shadow_classifier"},
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ATTACKS, ids=str)
def test_scores_are_those_of_arrays(form: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.stats.spread.LARGEST", 1 << 9)
    array, held = both(12, 301)
    labels = RANDOM.integers(0, 10, 301)
    logits = (RANDOM.standard_normal((12, 301, 10)) + (2 + array[..., None]) * np.eye(10)[labels]).astype(np.float32)
    attack = plugins.build("attacks.scorers", form)
    target = View(signals={"logits": logits[0]}, labels=labels)
    scores = [
        attack.score(target, View(signals={"logits": logits[1:]}, included=included), Seed(0))
        for included in (array[1:], held.models(slice(1, None)))
    ]
    assert scores[0].tobytes() == scores[1].tobytes()
    everyone = [View(signals={"logits": logits}, included=included) for included in (array, held)]
    if attack.needs.references < 4 and form["kind"] != "auto":
        results = [leave_one_out(attack, view, labels, Seed(1), targets=[0, 5, 2]) for view in everyone]
        assert results[0].values.tobytes() == results[1].values.tobytes()
        assert np.array_equal(results[0].included, results[1].included)
    fidelity = [Resemblance(view, labels).of(target, array[0]) for view in everyone]
    assert fidelity[0] == fidelity[1]


@pytest.mark.slow
def test_a_game_of_many_pairs_says_what_one_of_few_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attacks are shown arrays of few coins and bits of many."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    arrays = run(tmp_path / "arrays")
    monkeypatch.setattr(coins, "_ARRAY_PAIRS", 0)
    bits = run(tmp_path / "bits")
    assert arrays["mechanisms"] == bits["mechanisms"]


def test_lira_makes_no_array_of_all_coins() -> None:
    models, width = 200, 20_000
    held = Coins.of((RANDOM.random((20, width)) < 0.5 for _ in range(models // 20)), models, width)
    confidences = RANDOM.standard_normal((models, width))
    signals = {"confidences": confidences[1:]}
    target = View(signals={"confidences": confidences[0]}, labels=np.zeros(width, dtype=np.int64))
    reference = View(signals=signals, included=held.models(slice(1, None)))
    attack = plugins.build("attacks.scorers", {"kind": "lira"})
    tracemalloc.start()
    scores = attack.score(target, reference, Seed(0))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    full = attack.score(target, replace(reference, included=np.asarray(reference.included)), Seed(0))
    assert scores.tobytes() == full.tobytes()
    assert most < models * width, "a byte a pair would be as much by itself"


@pytest.mark.slow
def test_a_run_that_goes_on_keeps_the_coins_that_its_models_were_trained_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole coins of another run, under the same name, are no damage that a checksum shows."""
    config = yaml.safe_load(CONFIG) | {"certificates": 0, "delta": 1e-5, "output": {"formats": ["json"]}}
    config["games"], config["mechanisms"] = config["games"][:1], config["mechanisms"][:1]
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Store, "finish", stop)
        api.run(config, output=tmp_path / "run")
    path = tmp_path / "run.partial" / "private" / "coins-plain-outside.safetensors"
    before = path.read_bytes()
    store = Store.start(tmp_path / "of another", "config").private
    store.put("coins-plain-outside", {"bits": np.zeros((6, 3), np.uint8), "canaries": np.asarray(20)})
    path.write_bytes((store.folder / "private" / path.name).read_bytes())
    api.run(config, output=tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "private" / path.name).read_bytes() == before


def stop(store: Store) -> Path:
    store.close()
    raise KeyboardInterrupt
