"""Tests of pillion.stats.bca, t_interval and tost against R and Efron's book."""

import unittest

import numpy as np
import pandas as pd
from scipy import stats

import oracle
from pillion.stats import bca, t_interval, tost

R = oracle.read("interval")
NAMES = ["estimate", "low", "high", "z0", "acceleration"]
SPATIAL = R["variance"]["values"]


def variance(x):
    return np.mean((x - np.mean(x)) ** 2)


class BCa(unittest.TestCase):
    def test_efron_published(self):
        """An Introduction to the Bootstrap, section 14.3: from 2,000 resamples."""
        found = bca(SPATIAL, variance, confidence=0.90, resamples=10000)
        self.assertEqual(list(found.index), NAMES)
        self.assertAlmostEqual(found["estimate"], 171.5, delta=0.05)
        self.assertAlmostEqual(found["low"], 115.8, delta=2)
        self.assertAlmostEqual(found["high"], 259.6, delta=4)
        self.assertAlmostEqual(found["z0"], 0.146, delta=0.04)
        self.assertAlmostEqual(found["acceleration"], 0.061, delta=0.0006)

    def test_r(self):
        """boot.ci with 200,000 resamples; within what 20,000 here leave open."""
        rows = [
            ("variance", variance, 0.01),
            ("mean", np.mean, 0.01),
            ("sd", lambda x: np.std(x, ddof=1), 0.02),
        ]
        for name, statistic, near in rows:
            with self.subTest(name):
                want = R[name]
                found = bca(want["values"], statistic, want["confidence"], 20000, seed=7)
                self.assertAlmostEqual(found["estimate"], want["estimate"], places=10)
                self.assertAlmostEqual(found["acceleration"], want["acceleration"], places=10)
                self.assertAlmostEqual(found["z0"], want["z0"], delta=0.03)
                for end in ("low", "high"):
                    self.assertAlmostEqual(found[end] / want[end], 1, delta=near)

    def test_scipy(self):
        for name in ("mean", "sd"):
            values = np.array(R[name]["values"])
            statistic = np.mean if name == "mean" else np.std
            library = stats.bootstrap(
                (values,), statistic, n_resamples=40000, rng=np.random.default_rng(3)
            ).confidence_interval
            found = bca(values, statistic, resamples=40000)
            np.testing.assert_allclose([found["low"], found["high"]], library, rtol=0.02)

    def test_forms(self):
        """A name, a function with an axis, one without, a Series, and rows give one interval."""
        want = bca(SPATIAL, "mean", resamples=2000)
        rows = [
            ("function", SPATIAL, np.mean),
            ("without axis", SPATIAL, lambda x: float(np.mean(x))),
            ("series", pd.Series(SPATIAL, index=range(50, 76)), "mean"),
            ("rows", np.column_stack([SPATIAL, SPATIAL]), lambda x: x[:, 1].mean()),
            ("frame", pd.DataFrame({"a": SPATIAL, "g": "x"}), lambda x: x["a"].mean()),
        ]
        for name, values, statistic in rows:
            with self.subTest(name):
                found = bca(values, statistic, resamples=2000)
                np.testing.assert_allclose(found[NAMES].astype(float), want[NAMES], atol=1.2)
                self.assertAlmostEqual(found["acceleration"], want["acceleration"])

    def test_axis_of_its_own_meaning(self):
        """A function whose axis means something else is called value by value."""
        plain = bca(SPATIAL, lambda x: np.mean(x), resamples=500)
        other = bca(SPATIAL, lambda x, axis=0: np.mean(np.sort(x, axis=None)), resamples=500)
        np.testing.assert_allclose(plain, other, rtol=0.1)

    def test_seed(self):
        first, again, other = (bca(SPATIAL, resamples=500, seed=s)["low"] for s in (1, 1, 2))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_degenerate(self):
        """A point or an edge and a word, never NaN."""
        rows = [
            ("constant", [3.5] * 12, "mean", 3.5, "constant sample"),
            ("constant up to rounding", [0.1 + 0.2, 0.3] * 6, "mean", 0.3, "constant sample"),
            ("median of few distinct values", [1.0] * 40 + [2.0], "median", 1.0, "point"),
            ("constant statistic", SPATIAL, lambda x: 4.0, 4.0, "point"),
            ("maximum", SPATIAL, np.max, None, None),
            ("beyond all", SPATIAL, lambda x: float(len(np.unique(x))), None, "beyond all"),
            ("two values", [1.0, 2.0], "mean", None, None),
            ("zeros", [0.0] * 5, "mean", 0.0, "constant sample"),
            (
                "undefined resamples",
                [[1, 2], [2, 3], [3, 5], [4, 1], [9, 9], [2, 2]],
                lambda x: np.corrcoef(x.T)[0, 1],
                None,
                "left out",
            ),
        ]
        for name, values, statistic, point, word in rows:
            with self.subTest(name):
                found = bca(values, statistic, resamples=1000)
                numbers = found[NAMES].astype(float)
                self.assertTrue(np.isfinite(numbers).all(), numbers)
                self.assertLessEqual(found["low"], found["high"])
                if point is not None:
                    np.testing.assert_allclose(found[["estimate", "low", "high"]].astype(float), point)
                self.assertRegex(found.get("note", ""), word or "^$")

    def test_errors(self):
        rows = [
            ("one value", ([1.0],), {}, "1 given, want at least 2"),
            ("NaN", ([1.0, np.nan, 2],), {}, "1 of 3 are missing or infinite, the first at position 1"),
            ("text", (["a", "b"],), {}, "want numbers"),
            ("a cube", (np.ones((2, 2, 2)),), {}, "3 dimensions"),
            ("NaN in rows", (np.array([[1, np.nan], [1, 2]]), np.mean), {}, "missing"),
            ("name", (SPATIAL, "mode"), {}, "'mode'"),
            ("many numbers", (SPATIAL, np.sort), {}, "26 values: want one number"),
            ("undefined", (SPATIAL, lambda x: np.nan), {}, "finite"),
            ("confidence", (SPATIAL,), {"confidence": 95}, "confidence=95"),
            ("resamples", (SPATIAL,), {"resamples": 10}, "at least 100"),
        ]
        for name, arguments, named, says in rows:
            with self.subTest(name), self.assertRaisesRegex(ValueError, says):
                bca(*arguments, **named)


class T(unittest.TestCase):
    def test_r(self):
        found = t_interval(R["t"]["values"])
        np.testing.assert_allclose([found["low"], found["high"]], [R["t"]["low"], R["t"]["high"]], rtol=1e-10)
        self.assertEqual(list(found.index), ["estimate", "low", "high", "df"])

    def test_constant(self):
        values = [4.1, 5.2, 3.9, 4.7]
        row = t_interval(values, df=2)  # t of 2 degrees of freedom, from tables
        self.assertAlmostEqual(row["high"] - row["low"], 2 * 4.302653 * np.std(values, ddof=1) / 2, 6)
        self.assertEqual(row["df"], 2)
        self.assertEqual(tost(values, low=0, high=9, df=2)["df"], 2)
        for wrong in (0, 4):
            with self.assertRaisesRegex(ValueError, "degrees of freedom between 1 and 3"):
                t_interval(values, df=wrong)
        with self.assertRaises(ValueError):
            tost(values, values, low=0, high=9, df=2)
        found = t_interval([2, 2, 2])
        self.assertEqual((found["low"], found["high"]), (2, 2))
        self.assertIn("constant", found["note"])


class Tost(unittest.TestCase):
    def test_r(self):
        case = R["tost"]
        a, b = case["a"], case["b"]
        rows = [
            ("welch", (a, b, -1.5, 1), {}),
            ("pooled", (a, b, -1.5, 1), {"equal_variance": True}),
            ("paired", (a[:11], b, -1.5, 1), {"paired": True}),
            ("one", (a,), {"low": 9.5, "high": 10.5}),
        ]
        for name, arguments, named in rows:
            with self.subTest(name):
                found, want = tost(*arguments, **named), case[name]
                self.assertEqual(
                    list(found.index), ["difference", "low", "high", "p_low", "p_high", "df", "p"]
                )
                for entry in want:
                    self.assertAlmostEqual(found[entry], want[entry], places=9)
                self.assertEqual(found["p"], max(found["p_low"], found["p_high"]))

    def test_interval_and_p_agree(self):
        """p < 0.05 exactly if the 90 % interval lies within the margin."""
        random = np.random.default_rng(5)
        decided = 0
        for _ in range(200):
            a, b = random.normal(size=12), random.normal(0.4, 1, size=9)
            found = tost(a, b, -1.2, 1.2)
            within = found["low"] > -1.2 and found["high"] < 1.2
            self.assertEqual(found["p"] < 0.05, within)
            decided += within
        self.assertTrue(20 < decided < 180)

    def test_no_variation(self):
        self.assertEqual(tost([1, 1], [1, 1], -0.1, 0.1)["p"], 0)
        self.assertEqual(tost([3, 3], [1, 1], -0.1, 0.1)["p"], 1)
        self.assertIn("no variation", tost([1, 1], low=0, high=2)["note"])

    def test_errors(self):
        rows = [
            ("no margin", ([1, 2], [1, 3]), {}, "want low < high"),
            ("margin reversed", ([1, 2], [1, 3], 1, -1), {}, "want low < high"),
            ("lengths", ([1, 2], [1, 3, 4], -1, 1), {"paired": True}, "2 and 3 values"),
            ("paired with none", ([1, 2], None, -1, 1), {"paired": True}, "second sample"),
            ("NaN", ([1, 2], [1, np.nan], -1, 1), {}, "other: 1 of 2 are missing"),
        ]
        for name, arguments, named, says in rows:
            with self.subTest(name), self.assertRaisesRegex(ValueError, says):
                tost(*arguments, **named)


if __name__ == "__main__":
    unittest.main()
