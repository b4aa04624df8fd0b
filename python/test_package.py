"""The package itself needs nothing but Python; pillion.stats says what it needs."""

import subprocess
import sys
import unittest


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
        self.assertIn("pip install 'pillion[analysis]'", said)


if __name__ == "__main__":
    unittest.main()
