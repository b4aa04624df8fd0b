"""Histograms that runs report: every packet of every run that counts is in what is drawn."""

import dataclasses
import tempfile
import unittest

import numpy as np
import pandas as pd

import pillion
from pillion.analysis import bins, figures, result
from pillion.analysis.simulate import simulate
from pillion.report import compose


class Bins(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        simulate(folder, {"size": ["a", "b"]}, blocks=3, seed=1)
        x = pillion.experiment(folder)
        rows = []
        for run in x.runs["run"]:
            for at, width, packets in [(0, 1, 10), (1, 1, 5), (1000, 32, 1)]:
                rows.append({"run": run, "histogram": "delay", "at": at, "width": width, "packets": packets, "unit": "us", "reason": ""})
            rows.append({"run": run, "histogram": "fate", "at": 0, "width": 0, "packets": 2, "unit": "", "reason": "dropped"})
        cls.x = result.Experiment(x.design, x._rows, pd.DataFrame(rows), x.notes, x.source)

    def test_pooled(self):
        self.assertEqual(bins.names(self.x), ["delay"])
        table = bins.pooled(self.x, "delay")
        self.assertEqual(list(table.loc[table["size"] == "a", "packets"]), [30, 15, 3], "three runs, without the null arm")
        np.testing.assert_allclose(table.groupby("size", observed=True)["share"].sum(), 1)
        self.assertEqual(bins.unit(self.x, "delay"), "us")
        with self.assertRaisesRegex(KeyError, "no histogram 'loss'; there are delay"):
            bins.pooled(self.x, "loss")

    def test_fates(self):
        self.assertEqual(bins.fates(self.x).to_dict("records"), [
            {"size": "a", "reason": "dropped", "packets": 6}, {"size": "b", "reason": "dropped", "packets": 6}])  # fmt: skip

    def test_figure_holds_every_packet(self):
        figure = self.x.plot.frequencies("delay")
        axes = figure.axes
        self.assertEqual([a.get_title(loc="left") for a in axes], ["size=a", "size=b"])
        self.assertEqual(figure.get_supxlabel(), "delay, us")
        heights, edges, floor = axes[0].patches[0].get_data()
        self.assertEqual(list(edges), [0.5, 1, 2, 1000, 1032])
        np.testing.assert_allclose(heights, [10 / 16, 5 / 16, floor, 1 / 16 / 32])
        with self.assertRaises(ValueError):
            figures.frequencies({"none": pd.DataFrame(columns=["at", "width", "share"])})

    def test_report(self):
        titles = [section.title for section in compose.compose(self.x).sections]
        self.assertIn("Packets", titles)
        bare = result.Experiment(dataclasses.replace(self.x.design), self.x._rows, pd.DataFrame(), self.x.notes, self.x.source)
        self.assertNotIn("Packets", [section.title for section in compose.compose(bare).sections])


if __name__ == "__main__":
    unittest.main()
