"""Every data reader: missing files are named, and the data are complete, finite and the same each time."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from audit import plugins
from audit.core.errors import ConfigError, DataError
from audit.core.seeds import Seed
from audit.data.load import load

PACKAGE = plugins.FOLDERS["readers"]
READERS = plugins.names(PACKAGE)
EMBEDDED = [name for name in READERS if "root" not in plugins.keys(plugins.find(PACKAGE, name))[0]]
OPTIONS = {
    "npy": {"path": "nothing.npy", "labels": "nothing.npy"},
    "npz": {"path": "nothing.npz"},
    "speeches": {"path": "nothing.txt"},
    "text": {"path": "nothing.txt"},
    "table": {"path": "nothing.csv", "label": "y"},
}


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_sets_are_whole_and_the_same_each_time(name: str) -> None:
    reader = plugins.build(PACKAGE, {"kind": name})
    source, again = reader.read(), reader.read()
    assert source.sha256 == again.sha256 and source.origin
    assert len(source.main) == len(source.main.inputs) > 0 and np.isfinite(source.main.inputs).all()
    dataset = load({"kind": name, "train": 20, "pool": 10}, Seed(1))
    if source.vocabulary is not None:
        assert source.main.inputs.min() >= -1 and source.main.inputs.max() < source.vocabulary.ordinary
        return
    assert set(np.unique(source.main.labels)) == set(range(source.classes))
    assert np.abs(dataset.train.inputs).max() <= 1.5, "scaled by public constants"


@pytest.mark.parametrize("name", [name for name in READERS if name not in EMBEDDED])
def test_a_file_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing is ever downloaded"):
        plugins.build(PACKAGE, {"kind": name, "root": str(tmp_path), **OPTIONS.get(name, {})}).read()


@pytest.mark.parametrize("name", READERS)
def test_options_are_frozen_and_typed(name: str) -> None:
    plugin = plugins.find(PACKAGE, name)
    assert dataclasses.is_dataclass(plugin) and plugin.__dataclass_params__.frozen  # type: ignore[attr-defined]
    for key in plugins.keys(plugin)[0]:
        if key in ("path", "root"):
            with pytest.raises(ConfigError, match=rf"data\.{key} is 3; expected text"):
                plugins.build(PACKAGE, {"kind": name, **OPTIONS.get(name, {}), key: 3})
