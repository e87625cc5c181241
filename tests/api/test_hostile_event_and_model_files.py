"""Files that a third party wrote, of events and of models: refused in a sentence, not read without end, not quoted whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from audit.core.errors import DataError
from audit.core.event_forms import decode


def test_a_large_event_that_cannot_be_read_is_quoted_by_its_beginning() -> None:
    with pytest.raises(DataError, match="cannot read") as caught:
        decode({"kind": "Gaussian", "noise_multiplier": 1.0, "parts": [{"kind": "Laplace", "scale": 1.0}] * 1000})
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", ["generation_config.json", "model.safetensors"])
def test_a_pipe_in_a_models_folder_is_refused_before_it_is_read(name: str, tmp_path: Path) -> None:
    language = pytest.importorskip("audit.models.language")
    (tmp_path / "config.json").write_text("{}")
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="a pipe or a device"):
        language.LanguageModel(folder=str(tmp_path)).digest()
