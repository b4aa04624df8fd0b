"""Tests of pillion.stats.anova and variation against R and Jain's book."""

import unittest

import numpy as np
import pandas as pd
from pandas.testing import assert_frame_equal

import oracle
from pillion.stats import anova, variation
from pillion.stats.formula import parse_formula, term_name

R = oracle.read("anova")


def agree(test, found, case, rtol=1e-8):
    want = oracle.table(case).rename(index={"Residuals": "Residual"})
    want.index.name = "term"
    test.assertEqual(list(found.columns), ["df", "ss", "ms", "f", "p"])
    found = found if "Residual" in want.index else found.drop("Residual")
    assert_frame_equal(found, want.reindex(columns=found.columns), check_dtype=False, rtol=rtol)


class Oracle(unittest.TestCase):
    def test_r(self):
        rows = [
            ("jain", "y ~ memory * cache", "anova"),
            ("unbalanced", "y ~ a * b", "ab"),
            ("unbalanced", "y ~ b * a", "ba"),
            ("unbalanced", "y ~ a / b", "nested"),
            ("unbalanced", "y ~ a:b", "cells"),
            ("drift", "y ~ block + mark * every", "with"),
            ("drift", "y ~ mark * every", "without"),
            ("slopes", "y ~ g * x", "crossed"),
            ("slopes", "y ~ g + g:x", "nested"),
            ("slopes", "log(y) ~ x + x:g", "odd"),
        ]
        for case, formula, name in rows:
            with self.subTest(case=case, formula=formula):
                found = anova(oracle.frame(R[case]["data"]), formula)
                want = R[case][name]
                if formula == "y ~ b * a":
                    self.assertEqual(list(found.index), ["b", "a", "b:a", "Residual"])
                agree(self, found, want)

    def test_marginal(self):
        data = oracle.frame(R["unbalanced"]["data"])
        found = anova(data, "y ~ a * b", by="marginal")
        agree(self, found, R["unbalanced"]["marginal"])
        # Both orders, one term after the other, are the marginal ones.
        self.assertAlmostEqual(found.loc["a", "ss"], anova(data, "y ~ b + a").loc["a", "ss"])
        self.assertAlmostEqual(found.loc["b", "ss"], anova(data, "y ~ a + b").loc["b", "ss"])
        jain = oracle.frame(R["jain"]["data"])
        assert_frame_equal(
            anova(jain, "y ~ memory * cache", by="marginal"), anova(jain, "y ~ memory * cache")
        )

    def test_jain_published(self):
        data = oracle.frame(R["jain"]["data"])
        found = variation(data, "y ~ memory * cache")
        self.assertEqual(list(found.columns), ["share"])
        self.assertEqual(list(found.index), ["memory", "cache", "memory:cache", "Residual"])
        np.testing.assert_allclose(found["share"], [78.88, 15.40, 4.27, 1.45], atol=0.005)
        np.testing.assert_allclose(found["share"], R["jain"]["share"])
        np.testing.assert_allclose(anova(data, "y ~ memory * cache")["ss"], [5547, 1083, 300, 102])

    def test_saturated(self):
        data = oracle.frame(R["jain"]["data"]).iloc[::3]
        found = variation(data, "y ~ memory * cache")["share"]
        self.assertAlmostEqual(found.sum(), 100)
        self.assertAlmostEqual(found["Residual"], 0)
        with self.assertRaisesRegex(ValueError, "repeat runs"):
            anova(data, "y ~ memory * cache")


class Permuted(unittest.TestCase):
    def test_blocks(self):
        """Against 99,999 permutations in R; five standard errors of 9,999 here."""
        data = oracle.frame(R["drift"]["data"])
        found = anova(data, "y ~ mark * every", permutations=9999, blocks="block", seed=3)["p"].to_numpy()[:3]
        for p, want in zip(found, R["drift"]["permuted"]):
            self.assertLess(abs(p - want), 5 * np.sqrt(want * (1 - want) / 9999) + 1e-4)
        # The drift hides in the residual when rows are exchanged between blocks as well.
        free = anova(data, "y ~ mark * every", permutations=9999, seed=3)
        self.assertGreater(free.loc["mark", "p"], 10 * found[0])

    def test_statistics_are_the_classical_ones(self):
        data = oracle.frame(R["unbalanced"]["data"])
        classical, permuted = anova(data, "y ~ a * b"), anova(data, "y ~ a * b", permutations=999)
        assert_frame_equal(classical.drop(columns="p"), permuted.drop(columns="p"))

    def test_every_permutation_counts(self):
        """Two groups of two: 8 of 24 permutations reach F, since groups have no names."""
        data = pd.DataFrame({"g": ["a", "a", "b", "b"], "y": [1.0, 2, 5, 9]})
        p = anova(data, "y ~ g", permutations=20000).loc["g", "p"]
        self.assertAlmostEqual(p, 1 / 3, delta=0.02)

    def test_term_of_blocks(self):
        """What permutation leaves as it is cannot be tested by it."""
        data = oracle.frame(R["drift"]["data"])
        data["half"] = data["block"].isin(["b1", "b2", "b3", "b4", "b5", "b6"])
        found = anova(data, "y ~ half / block + mark", blocks="block")
        self.assertEqual(list(found.index), ["half", "mark", "half:block", "Residual"])
        self.assertEqual(list(found["p"].isna()), [True, False, True, True])
        # Blocks within halves: with levels of their own, together what blocks are.
        self.assertEqual(list(found["df"]), [1, 2, 10, 58])
        whole = anova(data, "y ~ block + mark")
        self.assertAlmostEqual(found["ss"].iloc[[0, 2]].sum(), whole.loc["block", "ss"])

    def test_seed(self):
        data = oracle.frame(R["unbalanced"]["data"])
        run = [anova(data, "y ~ a", permutations=99, seed=s).loc["a", "p"] for s in (1, 1)]
        self.assertEqual(*run)

    def test_unequal_blocks(self):
        """Blocks of unequal sizes, and one of a single row, which stays where it is."""
        random = np.random.default_rng(4)
        data = pd.DataFrame({"g": list("ab" * 8) + ["a"], "block": list("kkkkllllllmmmmmmn")})
        data["y"] = random.normal(size=17) + (data["block"] == "l") * 50
        p = [anova(data, "y ~ g", blocks="block", seed=s).loc["g", "p"] for s in range(4)]
        self.assertLess(np.ptp(p), 0.1)

    def test_exact_fit(self):
        data = pd.DataFrame({"g": list("aabb"), "y": [1.0, 1, 2, 2]})
        found = anova(data, "y ~ g").loc["g"]
        self.assertEqual((found["f"], found["p"]), (np.inf, 0))
        self.assertGreater(anova(data, "y ~ g", permutations=99).loc["g", "p"], 0.2)


class Errors(unittest.TestCase):
    def test_errors(self):
        good = oracle.frame(R["unbalanced"]["data"])
        hole = good[(good["a"] != "hi") | (good["b"] != "z")]
        twin = good.assign(c=np.where(good["a"] == "hi", "k", "l"))
        gap = good.assign(y=good["y"].where(good["y"] > good["y"].min()))
        lost = good.assign(a=good["a"].where(good.index != 4))
        rows = [
            ("no data frame", [1, 2], "y ~ a", TypeError, "DataFrame"),
            ("no rows", good.iloc[:0], "y ~ a", ValueError, "no rows"),
            ("missing column", good, "y ~ a * c", ValueError, "no column 'c'.*'a', 'b', 'y'"),
            ("missing value", gap, "y ~ a", ValueError, "column 'y' has 1 missing value"),
            ("missing level", lost, "y ~ a", ValueError, "column 'a' has 1 missing value.*row 4"),
            ("infinite", good.assign(y=np.inf), "y ~ a", ValueError, "infinite"),
            ("text as response", good, "a ~ b", ValueError, "want numbers"),
            (
                "empty cell",
                hole,
                "y ~ a * b",
                ValueError,
                "a:b cannot be estimated: 1 of its cells.*a=hi, b=z",
            ),
            ("confounded", twin, "y ~ a + c", ValueError, "c is confounded"),
            ("one level", good[good["a"] == "hi"], "y ~ a", ValueError, "factor a has one level \\(hi\\)"),
            ("constant covariate", good.assign(x=2.0), "y ~ x", ValueError, "constant"),
            ("constant response", good.assign(y=0.1), "y ~ a", ValueError, "y is constant"),
            ("no residual", good.iloc[:0:-7], "y ~ C(y)", ValueError, "repeat runs"),
            ("no response", good, "~ a", ValueError, "formula"),
            ("no terms", good, "y ~ 1", ValueError, "no terms"),
            ("no intercept", good, "y ~ a - 1", ValueError, "intercept"),
            ("bad operator", good, "y ~ a & b", ValueError, "unexpected '&'"),
            ("open bracket", good, "y ~ (a + b", ValueError, "its end"),
            (
                "log of zero",
                good.assign(y=good["y"] - good["y"].iloc[0]),
                "log(y) ~ a",
                ValueError,
                "not defined",
            ),
        ]
        for name, data, formula, kind, says in rows:
            with self.subTest(name), self.assertRaisesRegex(kind, says):
                anova(data, formula)

    def test_arguments(self):
        good = oracle.frame(R["unbalanced"]["data"])
        rows = [
            ("by", {"by": "typ3"}, "sequential"),
            ("permutations", {"permutations": 0}, "at least 1"),
            ("blocks", {"blocks": "k"}, "no column 'k'"),
            ("blocks of one row", {"blocks": "y"}, "every block has one row"),
        ]
        for name, arguments, says in rows:
            with self.subTest(name), self.assertRaisesRegex(ValueError, says):
                anova(good.assign(y=np.arange(len(good)) ** 1.5), "y ~ a", **arguments)


class Formula(unittest.TestCase):
    def test_terms(self):
        rows = [
            ("y ~ a + b", "a b"),
            ("y ~ a * b", "a b a:b"),
            ("y~b*a", "b a b:a"),
            ("y ~ a * b * c", "a b c a:b a:c b:c a:b:c"),
            ("y ~ (a + b + c)^2", "a b c a:b a:c b:c"),
            ("y ~ (a + b + c) ** 2 - a:b", "a b c a:c b:c"),
            ("y ~ a * b - b:a", "a b"),
            ("y ~ a / b", "a a:b"),
            ("y ~ a/b/c", "a a:b a:b:c"),
            ("y ~ a:b + a", "a a:b"),
            ("y ~ 1 + a + a", "a"),
            ("y ~ C(a) + log(x)", "C(a) log(x)"),
            ("y ~ `one way` * délai", "one way délai one way:délai"),
            ("sqrt(y) ~ block + mark*every", "block mark every mark:every"),
        ]
        for formula, want in rows:
            with self.subTest(formula):
                self.assertEqual(" ".join(term_name(t) for t in parse_formula(formula)[1]), want)

    def test_any_text(self):
        """Text is a formula or a ValueError, soon."""
        random = np.random.default_rng(1)
        parts = list("abc:+*/^()~- 019.`&é\n\0") + ["**", "C(", "log(", "`x y`", "(a + b)", "a*b*c"]
        parsed = 0
        for _ in range(4000):
            text = "y ~ " * int(random.integers(2)) + "".join(random.choice(parts, random.integers(1, 14)))
            try:
                parse_formula(text)
                parsed += 1
            except ValueError:
                pass
        self.assertGreater(parsed, 20)
        for text in (
            "y ~ " + "(" * 100000,
            "y ~ " + "(" * 400 + "a" + ")" * 400,
            "y ~ " + "a+" * 5000,
            "y ~ " + "*".join("abcdefghijklmnopqrs"),
            "y ~ (a+b)^99999999999999999999",
        ):
            try:
                parse_formula(text)
            except ValueError:
                pass

    def test_kinds_of_columns(self):
        """Integers, booleans and text are factors, floating-point numbers are covariates."""
        random = np.random.default_rng(1)
        levels = np.repeat([1, 10, 100], 4)
        data = pd.DataFrame(
            {"y": random.normal(size=12), "i": levels, "x": levels * 1.0, "s": levels.astype(str)}
        )
        df = [anova(data, f"y ~ {t}")["df"].iloc[0] for t in ("i", "x", "s", "C(x)", "log(i)")]
        self.assertEqual(df, [2, 1, 2, 2, 1])
        data["late"] = 1.6e9 + np.arange(12.0)  # seconds since 1970: a covariate far from zero
        data["early"] = np.arange(12.0)
        np.testing.assert_allclose(anova(data, "y ~ late * i"), anova(data, "y ~ early * i"), rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
