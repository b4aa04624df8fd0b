"""Tests of pillion.stats.tukey against R's TukeyHSD and emmeans."""

import unittest

import numpy as np
import pandas as pd
from scipy import stats

import oracle
from pillion.stats import tukey

R = oracle.read("pairwise")


class Oracle(unittest.TestCase):
    def agree(self, found, case, atol):
        self.assertEqual(list(found.columns), ["difference", "low", "high", "p"])
        case = oracle.table(case)
        self.assertEqual(list(found.index), list(case.index))
        for column in found:
            np.testing.assert_allclose(found[column], case[column], rtol=1e-5, atol=atol, err_msg=column)

    def test_warpbreaks(self):
        data = oracle.frame(R["warpbreaks"]["data"])
        rows = [
            ("additive", "breaks ~ wool + tension", "tension", 0.95),
            ("crossed", "breaks ~ wool * tension", "tension", 0.95),
            ("cells", "breaks ~ wool * tension", "wool:tension", 0.95),
            ("wool99", "breaks ~ wool + tension", "wool", 0.99),
        ]
        for name, formula, term, confidence in rows:
            with self.subTest(name):
                self.agree(tukey(data, formula, term, confidence), R["warpbreaks"][name], 1e-5)

    def test_warpbreaks_published(self):
        """Printed by example(TukeyHSD)."""
        data = oracle.frame(R["warpbreaks"]["data"])
        found = tukey(data, "breaks ~ wool + tension", "tension")
        want = [
            [-10.000, -19.35342, -0.6465793, 0.0336262],
            [-14.722, -24.07564, -5.3688015, 0.0011218],
            [-4.722, -14.07564, 4.6311985, 0.4474210],
        ]
        np.testing.assert_allclose(found, want, atol=5e-4)

    def test_text_is_sorted(self):
        """Levels of text are in alphabetical order: other signs, the same comparisons."""
        data = oracle.frame(R["warpbreaks"]["data"])
        data["tension"] = data["tension"].astype(str)
        found = tukey(data, "breaks ~ wool + tension", "tension")
        self.assertEqual(list(found.index), ["L-H", "M-H", "M-L"])
        self.assertAlmostEqual(found.loc["L-H", "difference"], 14.7222222)

    def test_one_way(self):
        data = oracle.frame(R["oneway"]["data"])
        self.agree(tukey(data, "weight ~ feed", "feed"), R["oneway"]["pairs"], 1e-5)
        library = stats.tukey_hsd(*(group["weight"] for _, group in data.groupby("feed", observed=True)))
        found = tukey(data, "weight ~ feed", "feed")
        np.testing.assert_allclose(found["p"].iloc[0], library.pvalue[1, 0], rtol=1e-6)

    def test_unbalanced(self):
        data = oracle.frame(R["unbalanced"]["data"])
        rows = [("additive", "y ~ a + b"), ("crossed", "y ~ a * b"), ("covariate", "y ~ a + b + x")]
        for name, formula in rows:
            with self.subTest(name):
                found, case = tukey(data, formula, "b"), oracle.table(R["unbalanced"][name])
                self.assertEqual(set(found.index), set(case.index))
                np.testing.assert_allclose(found, case.loc[found.index], rtol=1e-5, atol=2e-5)

    def test_distribution(self):
        """Of the studentized range. R's own is off by 8e-5 at 2 degrees of freedom, where two
        groups have a closed form."""
        case = pd.DataFrame(R["range"])
        found = stats.studentized_range.sf(case["q"], case["k"], case["df"])
        np.testing.assert_allclose(found[case["df"] > 2], case["p"][case["df"] > 2], atol=2e-6)
        q = case["q"][(case["k"] == 2) & (case["df"] == 2)]
        np.testing.assert_allclose(found[q.index], 2 * stats.t.sf(q / np.sqrt(2), 2), atol=1e-9)

    def test_blocks(self):
        """The error is the model's: differences between blocks are none of it."""
        random = np.random.default_rng(2)
        data = pd.DataFrame({"block": np.repeat(np.arange(12), 3), "mark": list("abc") * 12})
        data["y"] = 10.0 * data["block"] + (data["mark"] == "c") * 2 + random.normal(size=36)
        with_blocks, without = (tukey(data, f, "mark") for f in ("y ~ block + mark", "y ~ mark"))
        self.assertLess(with_blocks.loc["c-a", "p"], 0.01)
        self.assertGreater(without.loc["c-a", "p"], 0.9)
        np.testing.assert_allclose(with_blocks["difference"], without["difference"])


class Errors(unittest.TestCase):
    def test_errors(self):
        data = oracle.frame(R["unbalanced"]["data"])
        hole = data[(data["a"] != "hi") | (data["b"] != "z")]
        rows = [
            ("no such term", data, "y ~ a + b", "c", "has no term 'c'; it has a, b"),
            ("interaction not in the model", data, "y ~ a + b", "a:b", "has no term 'a:b'"),
            ("two terms", data, "y ~ a + b", "a + b", "want one factor"),
            ("covariate", data, "y ~ a + x", "x", "x is a covariate"),
            ("empty cell", hole, "y ~ a * b", "a:b", "1 of its cells"),
            ("one level", data[data["a"] == "hi"], "y ~ a + b", "b", "one level"),
            ("missing value", data.assign(y=np.nan), "y ~ a", "a", "missing value"),
            ("no residual", data.drop_duplicates(["a", "b"]), "y ~ a * b", "a", "repeat runs"),
            ("exact fit", data.assign(y=3.0), "y ~ a", "a", "fits exactly"),
        ]
        for name, frame, formula, term, says in rows:
            with self.subTest(name), self.assertRaisesRegex(ValueError, says):
                tukey(frame, formula, term)
        with self.assertRaisesRegex(ValueError, "confidence=95"):
            tukey(data, "y ~ a", "a", confidence=95)


if __name__ == "__main__":
    unittest.main()
