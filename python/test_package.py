"""The package itself needs nothing but Python; what needs more says so, before anything is measured."""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


class Dependencies(unittest.TestCase):
    def test_none(self):
        """-S leaves out installed packages."""
        code = (
            "import pillion, pillion.oml, pillion.histogram\n"
            "try:\n    import pillion.stats\n"
            "except ImportError as e:\n    print(e)\n"
        )
        said = subprocess.run(
            [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True
        ).stdout
        self.assertIn("run pip install './python[analysis]'", said)

    def test_experiments_do_not_begin_without_reports(self):
        """.ci/experiment looks for what reports need before it measures."""
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(folder + "/bin")
            for name, text in (("bin/pillion", "#!/bin/sh\necho \"$2\" >> verbs\n"), ("bare", '#!/bin/sh\nexec %s -S "$@"\n' % sys.executable)):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
                os.chmod(os.path.join(folder, name), 0o755)
            with open(folder + "/e.yaml", "w", encoding="utf-8") as file:
                file.write("experiment: e\n")
            for python, verbs, words in (("./bare", [], "./bare cannot write reports"), (sys.executable, ["run", "status", "report"], "")):
                os.makedirs(folder + "/results/e", exist_ok=True)
                environment = {**os.environ, "PILLION_PYTHON": python, "PYTHONPATH": HERE, "QUICK": ""}
                done = subprocess.run(["bash", os.path.join(HERE, "../.ci/experiment"), "results", "e.yaml"], cwd=folder, env=environment, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0 if verbs else 1, done.stderr)
                self.assertIn(words, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 0 if verbs else 1)
                called = []
                if os.path.exists(folder + "/verbs"):
                    with open(folder + "/verbs", encoding="utf-8") as file:
                        called = file.read().split()
                self.assertEqual(called, verbs)


if __name__ == "__main__":
    unittest.main()
