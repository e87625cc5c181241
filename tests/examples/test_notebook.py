"""The notebook of `examples/` runs in a Jupyter kernel, from its first cell to its last, and shows its result."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs the extra 'docs', which .ci/run installs")
nbclient = pytest.importorskip("nbclient", reason="needs the extra 'docs', which .ci/run installs")
pytest.importorskip("ipykernel", reason="needs the extra 'docs', which .ci/run installs")

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "dp_sgd_from_inside.ipynb"
FIXED_COINS = """import functools, audit
audit.draw_coins = functools.partial(audit.draw_coins, seed=20260101)"""
"""A cell in front, so that the figures of this test are the same in every run: readers' coins come from the system."""


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook with the outputs of this run; an error in a cell fails here, with the cell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        notebook.cells.insert(0, nbformat.v4.new_code_cell(FIXED_COINS))
        folder = str(tmp_path_factory.mktemp("notebook"))
        return nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()


def outputs(notebook: Any, kind: str) -> list[Any]:
    cells = (cell for cell in notebook.cells if cell.cell_type == "code")
    return [output for cell in cells for output in cell.outputs if output.output_type == kind]


def test_it_is_kept_without_outputs() -> None:
    retained = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(retained)
    assert not any(cell.outputs or cell.execution_count for cell in retained.cells if cell.cell_type == "code")


@pytest.mark.slow
def test_it_shows_bounds_and_a_curve(executed: Any) -> None:
    printed = "".join(output.text for output in outputs(executed, "stream") if output.name == "stdout")
    assert "inside the family 'dp_sgd'" in printed
    assert "claimed: epsilon <= " in printed
    assert any("image/png" in output.data for output in outputs(executed, "display_data"))


@pytest.mark.slow
def test_nothing_is_warned_of(executed: Any) -> None:
    assert not [output.text for output in outputs(executed, "stream") if output.name == "stderr"]
