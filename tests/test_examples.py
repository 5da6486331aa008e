"""The notebooks in `examples/`: their code runs here on the tiny model, every night as it is."""

import json
import os
from pathlib import Path

import matplotlib.pyplot
import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))
#: What makes the tiny model's byte-level tokens few enough.
SMALLER = {
    '"smollm2-135m"': '"tiny"',
    "count=36": "count=8",
    "window=24": "window=4",
    "updates=24": "updates=2",
    "boundary=26": "boundary=2",
}


def cells(path):
    notebook = json.loads(path.read_text())
    assert notebook["nbformat"] == 4
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_there_are_notebooks_without_output():
    assert EXAMPLES
    for path in EXAMPLES:
        told = json.loads(path.read_text())["cells"]
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in told)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_its_code_runs_on_the_tiny_model(path, monkeypatch):
    program = "\n".join(cells(path))
    for real, small in SMALLER.items():
        assert real in program  # otherwise this would be another notebook than that of the night
        program = program.replace(real, small)
    monkeypatch.setattr(matplotlib.pyplot, "show", lambda: None)
    with matplotlib.rc_context({"backend": "Agg"}):
        names: dict = {}
        exec(compile(program, path.name, "exec"), names)
        matplotlib.pyplot.close("all")
    assert {"kept", "reset", "sham", "words"} == set(names["mean"])


@pytest.mark.network
@pytest.mark.skipif(not os.environ.get("LARC_NETWORK"), reason="takes minutes; set LARC_NETWORK=1")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs_as_it_is(path, tmp_path):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=1500, kernel_name="python3", resources=where).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert sum("image/png" in output.get("data", {}) for output in shown) == 2
