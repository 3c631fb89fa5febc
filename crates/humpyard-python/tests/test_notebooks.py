"""The notebooks run from start to end, each in a kernel of its own."""

import importlib.util
import tempfile
import unittest
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


@unittest.skipIf(importlib.util.find_spec("nbclient") is None, "nbclient is not installed")
class Notebooks(unittest.TestCase):
    def test_every_notebook_runs(self) -> None:
        import nbformat
        from nbclient import NotebookClient

        notebooks = sorted(NOTEBOOKS.glob("*.ipynb"))
        self.assertEqual(len(notebooks), 6)
        for path in notebooks:
            with self.subTest(notebook=path.name), tempfile.TemporaryDirectory() as directory:
                notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
                resources = {"metadata": {"path": directory}}
                NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
                plots = [
                    output
                    for cell in notebook.cells
                    for output in cell.get("outputs", [])
                    if "image/svg+xml" in output.get("data", {})
                ]
                self.assertEqual(bool(plots), path.stem not in ("everest", "my_capture"), path.name)

    def test_notebooks_are_committed_without_outputs(self) -> None:
        import nbformat

        for path in NOTEBOOKS.glob("*.ipynb"):
            notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
            self.assertFalse([cell for cell in notebook.cells if cell.get("outputs")], path.name)


if __name__ == "__main__":
    unittest.main()
