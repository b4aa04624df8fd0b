"""Tests of the tests of assumptions in pillion.stats against R and published moments."""

import itertools
import unittest

import numpy as np

import oracle
from pillion.stats import breusch_pagan, ks, shapiro, turning_points

R = oracle.read("assumptions")


class TurningPoints(unittest.TestCase):
    def test_formulae(self):
        """Moments over all orders of 4 to 6 values are Kendall's."""
        for n in range(4, 7):
            orders = np.array(list(itertools.permutations(range(n))))
            counts = np.array([turning_points(o)["count"] for o in orders])
            found = turning_points(orders[1])
            self.assertAlmostEqual(counts.mean(), found["expected"])
            self.assertAlmostEqual(counts.var(), found["variance"])

    def test_series(self):
        rows = [
            ("rising", range(20), 0, True),
            ("alternating", [0.1 * i + (-3) ** (i % 2) for i in range(20)], 18, True),
            ("peak and trough", [1, 3, 2, 4], 2, False),
        ]
        for name, values, count, small in rows:
            with self.subTest(name):
                found = turning_points(values)
                self.assertEqual(list(found.index), ["count", "expected", "variance", "z", "p"])
                self.assertEqual((found["count"], found.count), (count, count))
                self.assertEqual(found["p"] < 0.01, small)
                n = len(values)
                self.assertAlmostEqual(found["expected"], 2 * (n - 2) / 3)
                self.assertAlmostEqual(found["variance"], (16 * n - 29) / 90)
                self.assertAlmostEqual(found["z"], (count - found["expected"]) / found["variance"] ** 0.5)

    def test_ties(self):
        """Values of few levels in random order: 5 % of p are below 0.05, not nearly all."""
        random = np.random.default_rng(3)
        p = np.array([turning_points(random.integers(3, size=30))["p"] for _ in range(150)])
        self.assertLess((p < 0.05).mean(), 0.1)
        self.assertIn("neighbours are equal", turning_points([1, 1, 2, 3, 1])["note"])

    def test_constant_and_errors(self):
        found = turning_points([2, 2, 2, 2])
        self.assertEqual((found["z"], found["p"]), (0, 1))
        for values, says in [([1, 2], "at least 3"), ([1, np.nan, 2], "position 1")]:
            with self.assertRaisesRegex(ValueError, says):
                turning_points(values)


class Variance(unittest.TestCase):
    def test_r(self):
        data = oracle.frame(R["warpbreaks"]["data"])
        for name, formula in [
            ("additive", "breaks ~ wool + tension"),
            ("crossed", "breaks ~ wool * tension"),
        ]:
            found = breusch_pagan(data, formula)
            for entry in ("statistic", "df", "p"):
                self.assertAlmostEqual(found[entry], R["warpbreaks"][name][entry], places=9)

    def test_equal_residuals(self):
        data = oracle.frame(R["warpbreaks"]["data"])
        self.assertEqual(breusch_pagan(data.assign(breaks=7.0), "breaks ~ wool")["p"], 1)

    def test_errors(self):
        data = oracle.frame(R["warpbreaks"]["data"])
        with self.assertRaisesRegex(ValueError, "repeat runs"):
            breusch_pagan(data.drop_duplicates(["wool", "tension"]), "breaks ~ wool * tension")


class Distribution(unittest.TestCase):
    def test_r(self):
        rows = [
            ("shapiro_x", shapiro(R["x"])),
            ("shapiro_y", shapiro(R["y"])),
            ("ks_two", ks(R["x"], R["y"])),
            ("ks_one", ks(R["x"], lambda t: 1 - np.exp(-t))),
        ]
        for name, found in rows:
            with self.subTest(name):
                self.assertEqual(list(found.index), ["statistic", "p"])
                self.assertAlmostEqual(found["statistic"], R[name]["statistic"], places=6)
                self.assertAlmostEqual(found["p"] / R[name]["p"], 1, delta=0.002)

    def test_two_peaks(self):
        """Delays with two peaks: not normal, and not those whose peaks have other weights, though
        median-like summaries may agree."""
        peaks, later = oracle.read("interval")["mean"]["values"], oracle.read("interval")["later"]
        self.assertLess(shapiro(peaks)["p"], 1e-6)
        self.assertLess(ks(peaks)["p"], 0.0011)
        self.assertLess(ks(peaks, later)["p"], 0.05)

    def test_normal_with_estimated_moments(self):
        """Lilliefors's p, not the plain test's: 5 % of normal samples are below 0.05."""
        random = np.random.default_rng(8)
        p = np.array([ks(random.normal(5, 2, size=20))["p"] for _ in range(300)])
        self.assertTrue(0.015 < (p < 0.05).mean() < 0.09)

    def test_constant_and_large(self):
        self.assertEqual(shapiro([1, 1, 1])["p"], 1)
        self.assertIn("constant", shapiro([1, 1, 1])["note"])
        self.assertIn("constant", ks([1, 1, 1, 1])["note"])
        self.assertIn("extrapolation", shapiro(np.random.default_rng(1).normal(size=5001))["note"])

    def test_errors(self):
        rows = [
            (lambda: shapiro([1, 2]), "at least 3"),
            (lambda: ks([1, 2, 3, 4], "uniform"), "'uniform'"),
            (lambda: ks([1.0], [np.inf]), "other: 1 of 1"),
        ]
        for call, says in rows:
            with self.assertRaisesRegex(ValueError, says):
                call()


if __name__ == "__main__":
    unittest.main()
