"""Published tables: their files, how ours are set beside them, and that ours in the tree are sound."""

import glob
import os
import random
import tempfile
import unittest

import numpy as np
import pandas as pd
import yaml

import pillion
from pillion.analysis import figures
from pillion.analysis.simulate import simulate
from pillion.report import paper, paper_figure
from pillion.report.document import Figure, Table, Text

PAPERS = os.path.join(os.path.dirname(__file__), "..", "study", "experiment", "paper")

TABLE = {
    "paper": "pezaros-2011", "item": "Table I", "title": "Throughput", "source": "section V", "unit": {"rate": "Mb/s"},
    "columns": ["instrumentation", "size", "rate"],
    "rows": [["native", 56, 181], ["delay", 56, 154], ["delay", 1400, 922]],
    "errata": [{"where": "the text", "printed": "19.96 %", "evident": "16.96 %", "reason": "the table prints that"}],
    "ours": [{"experiment": "s1", "analysis": "means", "keys": {"instrumentation": {"column": "mark", "values": {"native": "none"}}, "size": "size"},
              "columns": {"rate": "mean"}, "scale": {"rate": 0.1}}],
}  # fmt: skip


def changed(**fields):
    return yaml.safe_dump({**TABLE, **fields}).encode()


class Paper(unittest.TestCase):
    def test_refuses_with_a_reason(self):
        ours = TABLE["ours"][0]
        for name, fields, words in [
            ("unknown key", {"tabel": 1}, "unknown key 'tabel'"),
            ("no title", {"title": ""}, "no title"),
            ("column twice", {"columns": ["a", "a", "b"]}, "different names"),
            ("short row", {"rows": [["native", 56]]}, "row 1: want 3 values"),
            ("erratum without reason", {"errata": [{"where": "x", "printed": 1, "evident": 2}]}, "lacks one of"),
            ("neither ours nor note", {"ours": []}, "neither ours nor a note"),
            ("unknown analysis", {"ours": [{**ours, "analysis": "guess"}]}, "there are means"),
            ("key of no column", {"ours": [{**ours, "keys": {"speed": "mark"}}]}, "no column 'speed'"),
            ("compares nothing", {"ours": [{**ours, "columns": {}}]}, "compares no column"),
            ("rows elsewhere", {"rows": {"file": 7}}, "name no file"),
        ]:
            with self.subTest(name), self.assertRaisesRegex(paper.PaperError, words):
                paper.parse_table(changed(**fields))

    def test_rows_in_a_file_beside(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("t.yaml", changed(rows={"file": "t.csv"}).decode()), ("t.csv", "instrumentation,size,rate\nnative,56,181\ndelay,56,\n")):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            self.assertEqual(paper.read_table(os.path.join(folder, "t.yaml"))["rows"], [["native", 56, 181], ["delay", 56, None]])
            with open(os.path.join(folder, "t.yaml"), "wb") as file:
                file.write(changed(rows={"file": "../t.csv"}))
            with self.assertRaisesRegex(paper.PaperError, "no name of a file beside"):
                paper.read_table(os.path.join(folder, "t.yaml"))

    def test_ours_beside(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(folder + "/papers/pezaros-2011")
            for name, fields in (("1", {}), ("2", {"item": "Table II", "ours": [], "note": "needs oprofile"})):
                with open("%s/papers/pezaros-2011/%s.yaml" % (folder, name), "wb") as file:
                    file.write(changed(**fields))
            simulate(folder + "/r", {"mark": ["none", "delay"], "size": [56]}, name="s1", blocks=4, noise=1e-9, mean=1810, effects=[("mark=delay", 0.85)])
            x = pillion.experiment(folder + "/r")
            beside, others = paper.sections(x, "pezaros-2011", folder + "/papers")
        table = beside.parts[0]
        self.assertEqual(table.columns, ["instrumentation", "size", "rate, Mb/s (paper)", "rate (ours, 95 %)"])
        self.assertEqual(table.rows, [["native", "56", "181", "181"], ["delay", "56", "154", "153.8 [153.8, 153.9]"], ["delay", "1400", "922", "not measured"]])
        self.assertEqual(beside.parts[-1], Text("Erratum in Table I, the text: printed 19.96 %, evidently 16.96 %; the table prints that."))
        self.assertIsInstance(others.parts[0], Table)
        self.assertEqual(others.parts[0].rows, [["Table II", "Throughput", "needs oprofile"]])

    def plotted(self, plots, **design):
        """The parts beside a paper with these plots, of an experiment with a size as a number."""
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(folder + "/papers/pezaros-2011")
            with open(folder + "/papers/pezaros-2011/1.yaml", "wb") as file:
                file.write(changed(item="Figure 1", plots=plots))
            simulate(folder + "/r", {"mark": ["none", "delay"], "size": [1400, 56, 512]}, name="s1", blocks=4, noise=0.01, **design)
            x = pillion.experiment(folder + "/r")
            return x, paper.sections(x, "pezaros-2011", folder + "/papers")[0].parts

    def test_a_figure_beside(self):
        plot = {"experiment": "s1", "x": "size", "line": "mark", "scale": 0.1, "xlabel": "packet size (bytes)", "ylabel": "rate (Mb/s)",
                "published": [{"label": "native", "line": "none", "points": [[56, 181], [1400, 300]]}]}  # fmt: skip
        x, parts = self.plotted([plot, {"experiment": "other", "x": "size"}])
        self.assertIsInstance(parts[0], Figure)
        self.assertEqual(parts[0].title, "Figure 1, ours")
        for text in ("native (paper)", "packet size (bytes)", "rate (Mb/s)", ">1400<"):
            self.assertIn(text, parts[0].svg)
        self.assertEqual(sum(isinstance(part, Figure) for part in parts), 1, "only plots of this experiment")
        axes = paper_figure.draw(x, plot).axes[0]
        means = x.means().set_index(["mark", "size"])["mean"]
        for bars, mark in zip(axes.containers, ("none", "delay")):
            np.testing.assert_allclose(bars[0].get_ydata(), [0.1 * means[mark, size] for size in ("56", "512", "1400")])
        published = next(line for line in axes.lines if line.get_label() == "native (paper)")
        self.assertEqual((list(published.get_xdata()), list(published.get_ydata())), ([56, 1400], [181, 300]))
        self.assertEqual(published.get_markerfacecolor(), "none")
        self.assertNotEqual(published.get_linestyle(), "-")

    def test_each_kind_of_figure(self):
        for plot in ({"kind": "effects", "x": "size", "line": "mark", "log": True}, {"kind": "coefficients"}, {"kind": "residuals"},
                     {"x": "size", "panel": "mark", "measure": {"a": "rate"}}, {"x": "size", "x_measure": "rate", "line": "mark"},
                     {"x": "mark", "where": "size=56"}):  # fmt: skip
            with self.subTest(plot):
                self.assertIsInstance(self.plotted([{"experiment": "s1", **plot}])[1][0], Figure)
        for plot, words in (({"x": "speed"}, "no factor 'speed'"), ({"kind": "histograms", "measure": "input"}, "no histogram")):
            with self.subTest(plot):
                part = self.plotted([{"experiment": "s1", **plot}])[1][0]
                self.assertIsInstance(part, Text)
                self.assertIn(words, part.text)

    def test_plots_that_are_refused(self):
        for plot, words in [
            ([], "no object"), ({}, "names no experiment"), ({"experiment": "s1"}, "no x"), ({"experiment": "s1", "kind": "pie"}, "there are means"),
            ({"experiment": "s1", "x": "size", "colour": 1}, "unknown key 'colour'"), ({"experiment": "s1", "x": "size", "scale": "2"}, "no number"),
            ({"experiment": "s1", "x": "size", "published": [{"label": "a"}]}, "not {label"), ({"experiment": "s1", "x": "size", "published": 7}, "no list"),
            ({"experiment": "s1", "x": "size", "published": [{"label": "a", "points": [[1]]}]}, r"not \[x, y\]"),
            ({"experiment": "s1", "x": "size", "measure": {}}, "neither a name"), ({"experiment": "s1", "x": "size", "log": 1}, "neither true"),
        ]:  # fmt: skip
            with self.subTest(plot), self.assertRaisesRegex(paper.PaperError, words):
                paper.parse_table(changed(plots=[plot]))

    def test_histograms_tell_what_lies_beyond(self):
        figure, axes = figures.blank()
        table = pd.DataFrame({"at": [0.0, 1.0, 2.0, 1000.0], "width": [1.0, 1.0, 2.0, 64.0], "packets": [500.0, 400.0, 95.0, 5.0]})
        self.assertAlmostEqual(paper_figure._frequencies(axes, table, 0), 0.005)
        np.testing.assert_allclose([bar.get_height() for bar in axes.patches], [0.5, 0.4, 0.0475])
        many = pd.DataFrame({"at": np.arange(2000.0), "width": 1.0, "packets": 1.0})
        figure, axes = figures.blank()
        paper_figure._frequencies(axes, many, 0)
        self.assertLessEqual(len(axes.patches), paper_figure.BARS)
        self.assertAlmostEqual(sum(bar.get_height() for bar in axes.patches), 0.99)

    def test_an_analysis_that_fails_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(folder + "/papers/pezaros-2011")
            entry = {**TABLE["ours"][0], "analysis": "permanova", "arguments": {"terms": "speed"}, "keys": {"size": "term"}, "columns": {"rate": "p"}}
            with open(folder + "/papers/pezaros-2011/1.yaml", "wb") as file:
                file.write(changed(ours=[entry]))
            simulate(folder + "/r", {"mark": ["none", "delay"], "size": [56]}, name="s1", blocks=4)
            beside = paper.sections(pillion.experiment(folder + "/r"), "pezaros-2011", folder + "/papers")[0]
        self.assertEqual({row[-1] for row in beside.parts[0].rows}, {"not measured"})
        self.assertIn("Not set beside Table I: permanova of rate: ", beside.parts[1].text)

    def test_names_that_differ_only_in_case(self):
        self.assertEqual(paper.closest("oml-O", ["oml-o", "oml-O", "OML-O"]), ["oml-O"])
        self.assertEqual(paper.closest("Native", ["native", "delay"]), ["native"])
        self.assertEqual(paper.closest(56, ["56.0", "512"]), ["56.0"])
        self.assertEqual(paper.closest("x", []), [])

    def test_several_rows_of_ours_are_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            simulate(folder, {"mark": ["none", "delay"], "size": [56, 1400]}, name="s1", blocks=3)
            x = pillion.experiment(folder)
        table = paper.parse_table(changed(ours=[{**TABLE["ours"][0], "keys": {"size": "size"}}]))
        with self.assertRaisesRegex(paper.PaperError, "2 of our rows fit"):
            paper.matched(table, table["ours"][0], paper.analysed(x, table["ours"][0]))

    def test_each_analysis_has_the_columns_it_documents(self):
        with tempfile.TemporaryDirectory() as folder:
            simulate(folder, {"mark": ["none", "delay"], "size": [56, 1400]}, name="s1", blocks=4, noise=0.01)
            x = pillion.experiment(folder)
        for analysis, arguments, columns in [
            ("means", {"over": ["size"]}, ["mark", "n", "mean", "sd", "low", "high", "median", "p05", "p25", "p75", "p95", "min", "max"]),
            ("effects", {"term": "mark", "where": "size=56"}, ["mark", "n", "ratio", "low", "high", "bca_low", "bca_high", "percent"]),
            ("variation", {}, ["term", "share"]),
            ("anova", {"by": "marginal"}, ["term", "df", "ss", "ms", "f", "p"]),
            ("permanova", {"permutations": 19}, ["term", "df", "ss", "r2", "f", "p"]),
            ("tukey", {"term": "mark:size"}, ["pair", "difference", "low", "high", "p"]),
        ]:
            with self.subTest(analysis):
                found = paper.analysed(x, {"experiment": "s1", "analysis": analysis, "arguments": arguments})
                self.assertEqual([c for c in columns if c not in found], [])

    def test_tables_in_the_tree(self):
        """Each file of published tables is sound, and only known papers are there."""
        folders = {os.path.basename(path) for path in glob.glob(os.path.join(PAPERS, "*")) if os.path.isdir(path)}
        self.assertLessEqual(folders, set(paper.PAPERS))
        for name in folders:
            self.assertGreater(len(paper.read_paper(name, PAPERS)), 0)

    def test_fuzz(self):
        chance, text = random.Random(3), changed()
        values = [b"[", b"{", b"- ", b"null", b"!!python/name:os.system", b"\xff", b"&a", b"*a", b": ", b"1e999", b"\n"]
        for _ in range(400):
            changed_text = bytearray(text)
            for _ in range(chance.randint(1, 3)):
                at = chance.randrange(len(changed_text))
                changed_text[at : at + chance.randint(0, 8)] = chance.choice(values)
            try:
                paper.parse_table(bytes(changed_text))
            except paper.PaperError:
                pass


if __name__ == "__main__":
    unittest.main()
