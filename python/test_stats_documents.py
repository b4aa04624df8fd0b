"""The examples of docs/howto/statistics.md give what it says."""

import doctest
import pathlib
import unittest


class Documents(unittest.TestCase):
    def test_statistics(self):
        path = pathlib.Path(__file__).parents[1] / "docs" / "howto" / "statistics.md"
        text = path.read_text(encoding="utf-8").replace("```", "")  # a fence is no output
        examples = doctest.DocTestParser().get_doctest(text, {}, path.name, str(path), 0)
        said = []
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        runner.run(examples, out=said.append)
        self.assertEqual(runner.failures, 0, "".join(said))
        self.assertGreater(runner.tries, 20)


if __name__ == "__main__":
    unittest.main()
