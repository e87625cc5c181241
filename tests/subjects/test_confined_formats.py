"""A file format that a third party adds is loaded and run in the confined process, like those that are here."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from audit import plugins
from audit.subjects import _loading
from audit.subjects._confined import ConfinedFile

FORMAT = """
import json
import os
from dataclasses import dataclass
from typing import ClassVar

import torch

from audit.core.errors import DataError
from audit.subjects._confined import ConfinedFile


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weights(ConfinedFile):
    suffixes: ClassVar[tuple[str, ...]] = (".weights",)
    library: ClassVar[str] = "json"

    @staticmethod
    def load(content, name, device):
        try:
            weights = torch.tensor(json.loads(content))
        except ValueError as error:
            raise DataError(f"{name} holds no weights") from error
        process = float(os.getpid())
        return lambda batch: torch.cat([batch @ weights, torch.full((len(batch), 1), process)], dim=1)
"""


def test_every_format_of_another_library_says_how_it_is_loaded() -> None:
    subjects = [plugins.find("audit.subjects", name) for name in plugins.names("audit.subjects")]
    formats = [subject for subject in subjects if isinstance(subject, type) and issubclass(subject, ConfinedFile)]
    assert len(formats) >= 4
    for form in formats:
        assert _loading.loader(_loading.loader_name(form.load)) is form.load


@pytest.mark.slow
def test_a_format_of_somebody_else_runs_in_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from audit.core.errors import DataError

    (tmp_path / "their_formats.py").write_text(FORMAT, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "model.weights").write_text("[[1.0, -1.0], [0.5, 2.0]]", encoding="utf-8")
    spec = {"kind": "their_formats:Weights", "path": str(tmp_path / "model.weights")}
    inputs = np.arange(6, dtype=np.float32).reshape(3, 2)
    outputs = plugins.build("audit.subjects", spec).logits(inputs)
    assert np.allclose(outputs[:, :2], inputs @ np.array([[1.0, -1.0], [0.5, 2.0]]))
    assert set(outputs[:, 2]) != {float(os.getpid())}
    (tmp_path / "model.weights").write_text("[[1.0,", encoding="utf-8")
    with pytest.raises(DataError, match=r"model\.weights holds no weights"):
        plugins.build("audit.subjects", spec)
