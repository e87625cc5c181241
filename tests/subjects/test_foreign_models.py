"""Model files of other libraries: the same answers as the library gives, regressors and untrusted types refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit import plugins
from audit.core.errors import ConfigError, DataError
from tests.subjects.foreign import FOREIGN, INPUTS, LABELS

KINDS = {kind: plugins.find("audit.subjects", kind) for kind in FOREIGN}


def read(kind: str, path: Path) -> Any:
    return KINDS[kind](path=str(path))


def need(kind: str) -> None:
    for library in {KINDS[kind].library, kind}:
        pytest.importorskip(library, reason="needs the extra 'models', and onnx to write a file")


@pytest.mark.parametrize("kind", FOREIGN)
def test_logits_are_those_of_the_library(kind: str, tmp_path: Path) -> None:
    need(kind)
    path = tmp_path / f"model{KINDS[kind].suffixes[0]}"
    FOREIGN[kind](path)
    logits = read(kind, path).logits(INPUTS)
    assert logits.shape == (120, 3)
    if kind == "onnx":
        expected = INPUTS @ (np.arange(12).reshape(4, 3) / 10) + [0.1, 0.0, -0.1]
    elif kind == "skops":
        from skops.io import load

        expected = load(path, trusted=[]).predict_proba(INPUTS)
    elif kind == "lightgbm":
        import lightgbm

        expected = lightgbm.Booster(model_file=path).predict(INPUTS, raw_score=True)
    else:
        import xgboost

        expected = xgboost.Booster(model_file=path).predict(xgboost.DMatrix(INPUTS), output_margin=True)
    assert np.allclose(logits, expected, atol=1e-4)


def test_trees_get_records_as_precise_as_they_were_given(tmp_path: Path) -> None:
    need("lightgbm")
    import lightgbm

    path, places = tmp_path / "model.txt", np.arange(120)
    inputs = 1 + places[:, None] * 2.0**-40  # one number in float32
    booster = lightgbm.train({"objective": "binary", "verbosity": -1}, lightgbm.Dataset(inputs, places >= 60), 3)
    booster.save_model(path)
    logits = read("lightgbm", path).logits(inputs)[:, 1]
    assert np.allclose(logits, booster.predict(inputs, raw_score=True)) and np.ptp(logits) > 0.1


def test_a_regressor_is_refused(tmp_path: Path) -> None:
    need("lightgbm")
    import lightgbm

    path = tmp_path / "model.txt"
    lightgbm.train({"objective": "regression", "verbosity": -1}, lightgbm.Dataset(INPUTS, LABELS), 2).save_model(path)
    with pytest.raises(DataError, match="expected a classifier"):
        read("lightgbm", path)


def test_types_that_skops_does_not_trust_are_not_loaded(tmp_path: Path) -> None:
    need("skops")
    from skops.io import dump

    path = tmp_path / "model.skops"
    dump(Path("somewhere"), path)
    with pytest.raises(DataError, match=r"model\.skops"):
        read("skops", path)


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_library_that_is_missing_is_named(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"model{KINDS[kind].suffixes[0]}"
    path.write_bytes(b"anything")
    monkeypatch.setattr("audit.subjects._confined.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=f"needs {KINDS[kind].library}, which is not installed"):
        read(kind, path)
