"""Tests of pillion.stats.permanova against vegan's adonis2."""

import tracemalloc
import unittest

import numpy as np
import pandas as pd

import oracle
from pillion.stats import anova, permanova

R = oracle.read("permanova")
PERMUTATIONS = 4999


def agree(test, found, case, rtol=1e-7):
    """p to five standard errors of the permutations here."""
    want = oracle.table(case)
    test.assertEqual(list(found.columns), ["df", "ss", "r2", "f", "p"])
    for column in ("df", "ss", "r2", "f"):
        np.testing.assert_allclose(
            found.loc[want.index, column], want[column].astype(float), rtol=rtol, err_msg=column
        )
    for term in want.index[:-2]:
        p, near = want.loc[term, "p"], found.loc[term, "p"]
        test.assertLess(abs(p - near), 5 * np.sqrt(p * (1 - p) / PERMUTATIONS) + 1 / PERMUTATIONS, term)


class Dune(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.species = oracle.frame(R["dune"]["species"])
        cls.data = pd.concat([cls.species, oracle.frame(R["dune"]["env"])], axis=1)

    def run_case(self, case, terms, **arguments):
        arguments = {"responses": list(self.species), "distance": "braycurtis", **arguments}
        found = permanova(self.data, terms=terms, permutations=PERMUTATIONS, **arguments)
        agree(self, found, R["dune"][case])
        return found

    def test_sequential(self):
        found = self.run_case("sequential", "Management * A1")
        self.assertEqual(list(found.index), ["Management", "A1", "Management:A1", "Residual", "Total"])
        self.assertTrue(np.isnan(found.loc["Total", "p"]))

    def test_euclidean(self):
        self.run_case("euclidean", "Management * A1", distance="euclidean")

    def test_marginal(self):
        self.run_case("marginal", "Management + A1 + Moisture", by="marginal")

    def test_marginal_interaction(self):
        """adonis2 shows the interaction only, since the main effects are within it."""
        self.run_case("interaction", "Management * A1", by="marginal")

    def test_blocks(self):
        self.run_case("blocks", "Management + A1", blocks="Use")
        self.run_case("blocks", "Management + A1", strata="Use")

    def test_empty_cells(self):
        self.run_case("empty_cells", "Management * Use")

    def test_distances(self):
        matrix = np.array(R["dune"]["bray"])
        agree(
            self,
            permanova(self.data, distances=matrix, terms="Management * A1", permutations=PERMUTATIONS),
            R["dune"]["sequential"],
        )
        flat = matrix[np.triu_indices(20, 1)]
        frame = pd.DataFrame(matrix, index=range(1, 21))
        for distances in (flat, frame):
            found = permanova(self.data, distances=distances, terms="Management", permutations=9)
            self.assertAlmostEqual(found.loc["Management", "ss"], R["dune"]["sequential"]["ss"][0])

    def test_seed(self):
        p = [permanova(self.data, list(self.species), "A1", seed=s).loc["A1", "p"] for s in (5, 5, 6, 7, 8)]
        self.assertEqual(p[0], p[1])
        self.assertGreater(len(set(p)), 1)


class Responses(unittest.TestCase):
    def test_multi(self):
        data = oracle.frame(R["multi"]["data"])
        rows = [
            ("sequential", {"terms": "a * b"}),
            ("reversed", {"terms": "b * a"}),
            ("marginal", {"terms": "a + b + x", "by": "marginal"}),
            ("blocks", {"terms": "a * b", "blocks": "block"}),
        ]
        for name, arguments in rows:
            with self.subTest(name):
                found = permanova(data, responses=["y1", "y2", "y3"], permutations=PERMUTATIONS, **arguments)
                agree(self, found, R["multi"][name])

    def test_distances_are_the_same(self):
        """Euclidean distances given as a matrix, and never built: one table."""
        data = oracle.frame(R["multi"]["data"])
        y = data[["y1", "y2", "y3"]].to_numpy()
        matrix = np.linalg.norm(y[:, None] - y[None], axis=2)
        for by in ("sequential", "marginal"):
            direct = permanova(data, ["y1", "y2", "y3"], "a * b", by=by, permutations=PERMUTATIONS)
            given = permanova(data, distances=matrix, terms="a * b", by=by, permutations=PERMUTATIONS, seed=2)
            np.testing.assert_allclose(direct.drop(columns="p"), given.drop(columns="p"))
            np.testing.assert_allclose(direct["p"], given["p"], atol=0.04)

    def test_one_response_is_anova(self):
        data = oracle.frame(R["multi"]["data"])
        for by in ("sequential", "marginal"):
            found = permanova(data, "y1", "a * b", by=by).drop("Total")
            want = anova(data, "y1 ~ a * b", by=by)
            np.testing.assert_allclose(found[["df", "ss", "f"]], want[["df", "ss", "f"]])
            # Freely exchanged rows of normal errors: F's own distribution.
            np.testing.assert_allclose(found["p"], want["p"], atol=0.05)

    def test_smallest_p(self):
        data = pd.DataFrame({"g": list("ab") * 20, "y": [0.0, 9.0] * 20})
        data["y"] += np.arange(40) / 100
        self.assertEqual(permanova(data, "y", "g", permutations=199).loc["g", "p"], 1 / 200)

    def test_memory(self):
        """What is held grows with the rows: 16 times as many take far from 256 times as much."""

        def peak(rows):
            random = np.random.default_rng(1)
            data = pd.DataFrame(
                {
                    "a": random.integers(4, size=rows),
                    "b": random.integers(2, size=rows),
                    "y": random.normal(size=rows),
                    "z": random.normal(size=rows),
                }
            )
            tracemalloc.start()
            permanova(data, ["y", "z"], "a * b", permutations=20, by="marginal")
            held = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            return held

        few, many = peak(3200), peak(51200)
        self.assertLess(few, 3200**2)  # an eighth of a matrix of distances
        self.assertLess(many, 24 * few)


class Errors(unittest.TestCase):
    def test_errors(self):
        data = oracle.frame(R["multi"]["data"])
        matrix = 1 - np.eye(26)
        skewed = matrix.copy()
        skewed[0, 1] = 2
        diagonal = np.ones((26, 26))
        hole = matrix.copy()
        hole[3, 4] = np.nan
        twin = data.assign(c=data["a"].astype(str) + "!")
        rows = [
            ("no terms", {"responses": ["y1"]}, "terms are missing"),
            ("a whole formula", {"responses": ["y1"], "terms": "y1 ~ a"}, "without '~'"),
            ("neither", {"terms": "a"}, "responses=.* or distances"),
            ("both", {"terms": "a", "responses": ["y1"], "distances": matrix}, "responses=.* or distances"),
            ("no such response", {"terms": "a", "responses": ["y4"]}, "no column 'y4'"),
            ("no response", {"terms": "a", "responses": []}, "empty"),
            ("text", {"terms": "a", "responses": ["b"]}, "want numbers"),
            ("distance", {"terms": "a", "responses": ["y1"], "distance": "manhattan"}, "manhattan"),
            ("negative", {"terms": "a", "responses": ["x"], "distance": "braycurtis"}, "negative"),
            ("shape", {"terms": "a", "distances": matrix[:5, :5]}, "shape \\(5, 5\\): want \\(26, 26\\)"),
            ("asymmetric", {"terms": "a", "distances": skewed}, "symmetric"),
            ("diagonal", {"terms": "a", "distances": diagonal}, "from itself"),
            ("NaN", {"terms": "a", "distances": hole}, "missing"),
            ("negative distances", {"terms": "a", "distances": -matrix}, "negative"),
            ("zeros", {"terms": "a", "distances": 0 * matrix}, "no variation"),
            ("by", {"terms": "a", "responses": ["y1"], "by": "margin"}, "'sequential' or 'marginal'"),
            ("permutations", {"terms": "a", "responses": ["y1"], "permutations": 9.5}, "at least 1"),
            ("confounded", {"terms": "a + c", "responses": ["y1"]}, "confounded"),
            (
                "two names of blocks",
                {"terms": "a", "responses": ["y1"], "blocks": "b", "strata": "block"},
                "give one",
            ),
        ]
        for name, arguments, says in rows:
            with self.subTest(name), self.assertRaisesRegex(ValueError, says):
                permanova(twin, **arguments)


if __name__ == "__main__":
    unittest.main()
