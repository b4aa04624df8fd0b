"""The runner's and this package's estimates from the same journals are the same.

study/experiment/testdata/agreement has result folders with the runner's estimates, which its own
test TestAgreement compares and writes.
"""

import json
import os
import unittest

import numpy as np

import pillion
from pillion.analysis import effects, verdicts

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "..", "study", "experiment", "testdata", "agreement")


class Agreement(unittest.TestCase):
    def near(self, got, want, what):
        if want is None:
            self.assertFalse(np.isfinite(got), what)
        else:
            np.testing.assert_allclose(got, want, rtol=1e-8, err_msg=str(what))

    def same(self, row, name, want, what):
        self.assertEqual(row["n"], want["blocks"], what)
        self.near(row[name], want["value"], what)
        self.near(row["low"], want["low"], what)
        self.near(row["high"], want["high"], what)

    def test_estimates(self):
        names = sorted(os.listdir(FOLDER))
        self.assertGreater(len(names), 6)
        for name in names:
            with self.subTest(name), open(os.path.join(FOLDER, name, "estimates.json"), encoding="utf-8") as file:
                self.compare(pillion.experiment(os.path.join(FOLDER, name)), json.load(file))

    def compare(self, x, want):
        self.assertEqual(x.runs["block"].nunique(), want["blocks"])
        for one in want["effects"]:
            row = x.effects(one["factor"], resamples=0).set_index(one["factor"]).loc[one["level"]]
            self.same(row, "ratio", one, one)
        table = x.verdicts()
        self.assertEqual(len(table), len(want["targets"]))
        for at, one in enumerate(want["targets"]):
            row = table.iloc[at]
            self.same(row, effects.estimate_name(x.design), one, row["sentence"])
            self.assertEqual(row["verdict"], one["verdict"], row["sentence"])
        if "null" in want:
            values = effects.null_values(x)
            mean, low, high = (np.exp(v) for v in effects.t_interval(x, values))
            self.same({"n": len(values), "mean": mean, "low": low, "high": high}, "mean", want["null"], "null arm")
        if "half_width" in want:
            self.assertIn("known to ±%.2g %%" % (100 * want["half_width"]), x.precision())
            asked = verdicts.share(x.design.stop.get("half_width"))
            self.assertEqual("not reached" in x.precision(), asked is not None and want["half_width"] > asked)


if __name__ == "__main__":
    unittest.main()
