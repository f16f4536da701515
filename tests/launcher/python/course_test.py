"""docs/notebook.ipynb and examples/notebook in a real kernel: python course_test.py DDPRUN, by a Python that has torch, nbclient and
matplotlib.

With DDPRUN_UPDATE=1 what the cells show is written into the pages: look at the pictures.
"""
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import nbformat
from nbclient import NotebookClient

from programs import package_environment

DDPRUN = os.path.abspath(sys.argv.pop(1))
SOURCE = pathlib.Path(__file__).resolve().parents[3]
PAGE = SOURCE / "docs/notebook.ipynb"
EXAMPLE = SOURCE / "examples/notebook/train.ipynb"


def shown_by(cell):
    """Its text and the number of its pictures."""
    text = "".join(o["text"] for o in cell.outputs if o.output_type == "stream")
    text += "".join(o["data"]["text/plain"] for o in cell.outputs if o.output_type == "execute_result")
    text += "\n".join("\n".join(o["traceback"]) for o in cell.outputs if o.output_type == "error")
    return text, sum("image/png" in o.get("data", {}) for o in cell.outputs)


def executed(file):
    page = nbformat.read(file, nbformat.NO_CONVERT)
    os.environ.update(package_environment(DDPRUN), MPLBACKEND="module://matplotlib_inline.backend_inline")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "data").symlink_to(SOURCE / "data")
        NotebookClient(page, timeout=900, coalesce_streams=True, resources={"metadata": {"path": folder}}).execute()
    return page


def update(page, file):
    if not os.environ.get("DDPRUN_UPDATE"):
        return
    for cell in page.cells:
        cell.metadata.pop("execution", None)
    page.metadata = {"kernelspec": page.metadata["kernelspec"], "language_info": {"name": "python"}}
    nbformat.write(page, file)


class Course(unittest.TestCase):
    def test_every_cell_does_what_the_page_says(self):
        page = executed(PAGE)
        cells = {cell.source.splitlines()[0] + f" {number}": shown_by(cell)
                 for number, cell in enumerate(cell for cell in page.cells if cell.cell_type == "code")}
        text = "".join(text for text, _ in cells.values())
        for cell in page.cells:  # a page shows each piece of a stream as a box of its own
            names = [o.get("name", o.output_type) for o in cell.get("outputs", [])]
            self.assertTrue(all(one != other for one, other in zip(names, names[1:])), names)
        self.assertEqual(sum(pictures for _, pictures in cells.values()), 4, cells.keys())
        self.assertRegex(text, r"epoch 1: loss \d\.\d+\nepoch 2: loss \d\.\d+\nepoch 3: loss \d\.\d+\n")
        self.assertIn("{'averaged': 0.0, 'not averaged': 0.", text)
        self.assertRegex(text, r"ddprun: rank 1 was killed by SIGKILL, .* restart 1 of 1\.\n")
        self.assertRegex(text, r"(?s)epoch 3: .*goes on after epoch 3\n.*epoch 5: ")
        self.assertGreater(float(re.search(r"^accuracy ([\d.]+)%", text, re.MULTILINE)[1]), 80)
        self.assertIn('ddprun: rank 1 failed:\n  File "cell", line 7, in <module>\n', text)
        update(page, PAGE)

    def test_the_example_comes_back_after_a_killed_rank_and_has_its_values_here(self):
        page = executed(EXAMPLE)
        text = "".join(shown_by(cell)[0] for cell in page.cells if cell.cell_type == "code")
        self.assertRegex(text, r"(?s)epoch 2: .*ddprun: rank 1 was killed by SIGKILL, .* restart 1 of 1\.\n")
        self.assertRegex(text, r"(?s)going on: [23] epochs are done\n.*epoch 6: loss 0\.")
        self.assertIn("y = 3.00 x -1.00", text)
        self.assertIn('ddprun: rank 1 failed:\n  File "cell", line 5, in <module>\n', text)
        update(page, EXAMPLE)


if __name__ == "__main__":
    unittest.main()
