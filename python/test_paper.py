"""Published tables: their files, how ours are set beside them, and that ours in the tree are sound."""

import glob
import os
import random
import tempfile
import unittest

import yaml

import pillion
from pillion.analysis.simulate import simulate
from pillion.report import paper
from pillion.report.document import Table, Text

PAPERS = os.path.join(os.path.dirname(__file__), "..", "experiment", "paper")

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
        self.assertEqual(table.columns, ["instrumentation", "size", "rate, Mb/s (paper)", "rate (ours)"])
        self.assertEqual(table.rows, [["native", "56", "181", "181"], ["delay", "56", "154", "153.8"], ["delay", "1400", "922", "not measured"]])
        self.assertEqual(beside.parts[-1], Text("Erratum in Table I, the text: printed 19.96 %, evidently 16.96 %; the table prints that."))
        self.assertIsInstance(others.parts[0], Table)
        self.assertEqual(others.parts[0].rows, [["Table II", "Throughput", "needs oprofile"]])

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
