"""The documented examples run: the examples in docs/howto/analysis.md, and the notebook.

Classes Long... run as a user would, by a shell and in a kernel of Jupyter: make test-long-python.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import pandas as pd

from pillion.analysis.simulate import simulate
from pillion.report.__main__ import main

LONG = unittest.skipUnless(os.environ.get("LONG"), "run by make test-long-python")
HERE = os.path.dirname(os.path.abspath(__file__))


def blocks(name, language):
    with open(os.path.join(HERE, "..", "docs", "howto", name), encoding="utf-8") as file:
        return re.findall(r"^```%s\n(.*?)^```$" % language, file.read(), re.DOTALL | re.MULTILINE)


class Folder(unittest.TestCase):
    """Runs in a folder with what the examples read."""

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder)
        simulate(
            "overhead-results", {"mark": ["none", "empty", "both"], "load": ["udp6-56", "tcp6"]}, effects=[("mark=both", 0.95)], blocks=20,
            intervals=3, targets=[{"where": "mark=both", "at_least": 0.9}],
        )  # fmt: skip
        rows = pd.DataFrame({"time": pd.to_datetime([1, 2], utc=True), "session": ["web", "other"], "delay_p50_ns": [1500, 1600]})
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.Table.from_pandas(rows)
        fields = [field.with_metadata({"unit": "ns" if "_ns" in field.name else "", "doc": field.name}) for field in table.schema]
        pyarrow.parquet.write_table(table.cast(pyarrow.schema(fields)), "flows.parquet")


class Documents(Folder):
    def test_analysis(self):
        """One after the other, as a reader would."""
        found, space = blocks("analysis.md", "python"), {}
        self.assertGreater(len(found), 6)
        for text in found:
            with mock.patch("sys.stdout"):
                exec(compile(text, "docs/howto/analysis.md", "exec"), space)
        self.assertTrue(os.path.exists("effects.svg"))
        self.assertEqual(len(space["rows"]), 1)

    def test_commands(self):
        """Each command is the report's, with arguments that it has and an experiment that is there."""
        for line in "".join(blocks("analysis.md", "sh")).splitlines():
            words = shlex.split(line)
            self.assertEqual(words[:3], ["python3", "-m", "pillion.report"])
            with mock.patch("pillion.report.compose.compose") as compose, mock.patch("pillion.report.page.write", return_value="<html>"), mock.patch("sys.stdout"):
                self.assertEqual(main(words[3:]), 0)
            self.assertEqual(compose.call_args.args[0].design.name, "simulated")
        self.assertTrue(os.path.exists("overhead.html"))


@LONG
class LongDocuments(Folder):
    def test_commands(self):
        """python3 is the one that runs the tests."""
        os.mkdir("bin")
        os.symlink(sys.executable, "bin/python3")
        # A link to a virtual environment's Python does not find its packages.
        path = [HERE, *(p for p in sys.path if p.endswith("-packages"))]
        environment = {**os.environ, "PATH": "%s:%s" % (os.path.abspath("bin"), os.environ["PATH"]), "PYTHONPATH": ":".join(path)}
        for text in blocks("analysis.md", "sh"):
            subprocess.run(["bash", "-euo", "pipefail", "-c", text], check=True, capture_output=True, env=environment)
        self.assertGreater(os.path.getsize("overhead.html"), 50_000)


NOTEBOOK = os.path.join(HERE, "examples", "experiment.ipynb")


class Notebook(unittest.TestCase):
    def test_runs(self):
        """Each cell of the example runs."""
        with open(NOTEBOOK, encoding="utf-8") as file:
            cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
        self.assertFalse(any(cell["outputs"] for cell in cells), "the notebook is kept without outputs")
        space = {}
        with mock.patch("sys.stdout"):
            for cell in cells:
                exec(compile("".join(cell["source"]).replace("%matplotlib inline", ""), NOTEBOOK, "exec"), space)
        self.addCleanup(shutil.rmtree, os.path.dirname(space["folder"]))
        self.assertGreater(len(space["x"].runs), 0)


@LONG
class LongNotebook(unittest.TestCase):
    def test_runs(self):
        """Each cell runs in a kernel of Jupyter, and its figures are drawn."""
        import nbformat
        from nbclient import NotebookClient
        from traitlets.config import Config

        notebook = nbformat.read(NOTEBOOK, as_version=4)
        folder = self.enterContext(tempfile.TemporaryDirectory())
        shutil.copy(NOTEBOOK, folder)
        environment = {"PYTHONPATH": HERE, "IPYTHONDIR": folder, "JUPYTER_RUNTIME_DIR": folder, "TMPDIR": folder}
        self.enterContext(mock.patch.dict(os.environ, environment))
        os.environ.pop("MPLBACKEND", None)
        # Its sockets are files, so that no other user can talk to it.
        local = Config({"ConnectionFileMixin": {"transport": "ipc", "ip": os.path.join(folder, "kernel")}})
        NotebookClient(notebook, config=local, timeout=120, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
        images = [o for cell in notebook.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})]
        self.assertEqual(len(images), 3)


if __name__ == "__main__":
    unittest.main()
