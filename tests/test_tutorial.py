"""The notebook runs with the package of a wheel."""

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from checkout import ROOT


@pytest.mark.long
def test_the_notebook_runs_from_the_wheel(
    wheel_contents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.fspath(wheel_contents))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # other tests take the other cores
    notebook = nbformat.read(ROOT / "docs" / "tutorial.ipynb", as_version=4)
    code = "import anchorflow\nprint(anchorflow.__file__)"
    notebook.cells.append(nbformat.v4.new_code_cell(code))
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
    assert outputs[-1]["text"].startswith(os.fspath(wheel_contents))
