"""Designs and journals: what a runner writes is read, anything else is refused with a reason."""

import copy
import io
import json
import math
import os
import random
import tempfile
import unittest

import pandas as pd

from pillion.analysis import source
from pillion.analysis.design import DesignError, parse_where, read_design
from pillion.analysis.journal import read_journal
from pillion.analysis.result import from_rows
from pillion.analysis.simulate import simulate
from pillion.analysis.source import parse_source

HERE = os.path.dirname(os.path.abspath(__file__))

DESIGN = {
    "experiment": "overhead", "description": "What does it cost?", "hash": "h1", "seed": 11,
    "factors": [{"name": "mark", "levels": ["none", "both"]}, {"name": "every", "levels": [1, 10]}],
    "cells": [{"mark": "none", "every": "1"}, {"mark": "both", "every": 1}],
    "measures": {"rate": {"field": "packets_per_s", "unit": "packets/s", "better": "higher"}},
    "response": {"log_ratio": "rate", "to": {"mark": "none"}},
    "targets": [{"where": {"mark": ["both"]}, "measure": "rate", "at_least": 0.95}, {"where": "mark=both every=1,10", "within": 0.02}],
    "stop": {"effect": "mark", "half_width": 0.02}, "design": {"order": "random"}, "environment": {"kernel": "6"}, "started": "2026-01-01T00:00:00Z",
}  # fmt: skip
RUN = {
    "block": 0, "position": 3, "cell": 1, "factors": {"mark": "both", "every": 1}, "null": False, "attempt": 1, "valid": True, "why": "",
    "kept": True, "measures": {"rate": 123.0}, "intervals": [{"rate": 120}], "load": 0.31, "steal": 0.0,
    "started": "2026-01-01T00:00:00Z", "seconds": 1.2,
}  # fmt: skip


def changed(value, path, new):
    value = copy.deepcopy(value)
    at = value
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return value


class Design(unittest.TestCase):
    def test_reads_what_the_runner_writes(self):
        design = read_design(json.dumps(DESIGN))
        self.assertEqual(design.factors, {"mark": ("none", "both"), "every": ("1", "10")})
        self.assertEqual(design.cells[1], {"mark": "both", "every": "1"})
        self.assertEqual((design.response, design.response_measure, design.to), ("log_ratio", "rate", {"mark": "none"}))
        self.assertEqual(design.targets[0].where, {"mark": ("both",)})
        self.assertEqual(design.targets[1].where, {"mark": ("both",), "every": ("1", "10")})
        self.assertEqual((design.targets[1].within, design.targets[1].measure), (0.02, "rate"))
        self.assertEqual(design.measures["rate"].label, "rate (packets/s)")
        self.assertEqual(design.question, "What does it cost?")

    def test_refuses_with_a_reason(self):
        for name, path, new, words in [
            ("no factors", ["factors"], None, "factors"),
            ("factor twice", ["factors", 1, "name"], "mark", "no new name"),
            ("level twice", ["factors", 0, "levels"], ["a", "a"], "one twice"),
            ("no measures", ["measures"], {}, "there are none"),
            ("response of nothing", ["response", "log_ratio"], "speed", "no measure 'speed'"),
            ("no base", ["response", "to"], {}, "needs the base"),
            ("base of no level", ["response", "to"], {"mark": "all"}, "no level 'all'"),
            ("two responses", ["response", "difference"], "rate", "both"),
            ("target without a bound", ["targets", 0], {"where": {}}, "none of at_least"),
            ("target at no level", ["targets", 0, "where"], "mark=x", "no level 'x'"),
            ("target of no number", ["targets", 0, "at_least"], "much", "no number"),
            ("cell without a factor", ["cells", 0], {"mark": "none"}, "no level of each factor"),
            ("factor like a measure", ["factors", 0, "name"], "rate", "both a factor and a measure"),
        ]:
            with self.subTest(name):
                with self.assertRaises(DesignError) as caught:
                    read_design(json.dumps(changed(DESIGN, path, new)))
                self.assertIn(words, str(caught.exception).replace("not a finite number", "no number"))

    def test_where(self):
        factors = {"mark": ("none", "both")}
        self.assertEqual(parse_where("mark=none,both", factors), {"mark": ("none", "both")})
        for wrong in ("mark", "mark=none mark=both", 7, "load=x"):
            with self.assertRaises(DesignError):
                parse_where(wrong, factors)


class Journal(unittest.TestCase):
    design = read_design(json.dumps(DESIGN))

    def read(self, *lines, end="\n"):
        text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines) + end
        return read_journal(io.BytesIO(text.encode()), self.design)

    def test_reads_runs(self):
        runs, torn = self.read(RUN, {**RUN, "valid": False, "why": "lost"}, {**RUN, "kept": False})
        self.assertFalse(torn)
        self.assertEqual([run.counts for run in runs], [True, False, False])
        self.assertEqual((runs[0].measures["rate"], runs[0].factors["every"]), (123.0, "1"))

    def test_a_line_cut_off_is_not_read(self):
        runs, torn = self.read(RUN, json.dumps(RUN)[:40], end="")
        self.assertEqual((len(runs), torn), (1, True))

    def test_measures_that_are_no_numbers_are_missing(self):
        for value in (None, "fast", [1], float("inf")):
            runs, _ = self.read({**RUN, "measures": {"rate": value}})
            self.assertTrue(math.isnan(runs[0].measures["rate"]), value)

    def test_errors_have_the_line(self):
        for name, wrong in [
            ("JSON", "{"), ("array", "[]"), ("level", {**RUN, "factors": {"mark": "x", "every": 1}}), ("factor", {**RUN, "factors": {}}),
            ("block", {**RUN, "block": "0"}), ("valid", {**RUN, "valid": 1}), ("measures", {**RUN, "measures": [1]}),
        ]:  # fmt: skip
            with self.subTest(name), self.assertRaisesRegex(DesignError, "line 2"):
                self.read(RUN, wrong, RUN)

    def test_fuzz(self):
        """Bytes from outside are read or refused, and nothing else happens."""
        chance = random.Random(7)
        lines = (json.dumps(RUN) + "\n" + json.dumps({**RUN, "valid": False}) + "\n").encode()
        whole = json.dumps(DESIGN).encode()
        values = [b"null", b"1e999", b"-1", b"{}", b"[]", b'""', b"\xff", b"9" * 400, b"true"]
        for _ in range(3000):
            for text, read in ((lines, lambda t: read_journal(io.BytesIO(t), self.design)), (whole, lambda t: read_design(t.decode(errors="surrogateescape")))):
                text = bytearray(text)
                for _ in range(chance.randint(1, 4)):
                    at = chance.randrange(len(text))
                    text[at : at + chance.randint(0, 12)] = chance.choice(values)
                try:
                    read(bytes(text))
                except DesignError:
                    pass


class Source(unittest.TestCase):
    TEXT = """experiment: e
factors: {mark: [none, both], every: [1, 10]}
measures: {rate: {field: r, unit: 1/s}}
response: {log_ratio: rate, to: {mark: none}}
targets: [{where: mark=both every=1, within: 2%}]
stop: {half_width: 2%, pilot: 12}
"""
    ROWS = pd.DataFrame({"factor_mark": ["none", "both"], "factor_every": ["1", "10"], "measure_rate": [1.0, 2.0]})

    def test_reads_a_file(self):
        design = parse_source(self.TEXT, self.ROWS, "h")
        self.assertEqual((design.hash, design.targets[0].within, design.cells[1]), ("h", 0.02, {"mark": "both", "every": "10"}))
        for wrong in (self.TEXT.replace("both,", "x,").replace("both]", "x]"), self.TEXT.replace("every:", "often:", 1), "", "[]"):
            with self.assertRaises(DesignError):
                parse_source(wrong, self.ROWS, "h")

    def test_the_default_pilot_is_the_runners(self):
        with open(os.path.join(HERE, "..", "docs", "reference", "experiment.md"), encoding="utf-8") as file:
            self.assertIn("| `stop.pilot` | %d |" % source.DEFAULT_PILOT, file.read())
        for stop, want in (("{effect: mark, half_width: 2%}", 12), ("{effect: mark, half_width: 2%, pilot: 5}", 5), ("{blocks: 9}", None)):
            design = parse_source(self.TEXT.replace("{half_width: 2%, pilot: 12}", stop), self.ROWS, "h")
            self.assertEqual(design.stop.get("pilot"), want)
            self.assertEqual(design.freedom(40), (want or 40) - 1)

    def test_fuzz(self):
        chance = random.Random(5)
        values = ["[", "{", "]", "2026-01-01", "null", "- ", ": ", "&a ", "*a", "1e999", ".nan", "!!python/name:os.system", "\n", "? [x]", "\x00"]
        for _ in range(600):
            text = self.TEXT
            for _ in range(chance.randint(1, 3)):
                at = chance.randrange(len(text))
                text = text[:at] + chance.choice(values) + text[at + chance.randint(0, 8) :]
            try:
                parse_source(text, self.ROWS, "h")
            except DesignError:
                pass


class Simulation(unittest.TestCase):
    def test_is_a_result_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            simulate(folder, {"a": ["x", "y"], "b": [1, 2]}, blocks=3, invalid=0.2, seed=3)
            with open(folder + "/experiment.json", encoding="utf-8") as file:
                design = read_design(file.read())
            with open(folder + "/journal.jsonl", "rb") as file:
                runs, torn = read_journal(file, design)
            self.assertFalse(torn)
            self.assertEqual(sum(run.counts for run in runs), 3 * 5)

    def test_results_of_runs_are_not_overwritten(self):
        """Neither a whole folder, nor one whose design is missing or cannot be read."""
        for name, text in (("experiment.json", '{"environment": {"kernel": "6.1"}}'), ("experiment.json", "{"), ("experiment.json", "[]"), ("journal.jsonl", "")):
            with self.subTest(name=name, text=text), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                with self.assertRaisesRegex(FileExistsError, "has results of an experiment: name another folder"):
                    simulate(folder, {"a": ["x", "y"]}, blocks=3)
                self.assertEqual(os.listdir(folder), [name])
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(file.read(), text)
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):  # its own it replaces
                simulate(folder, {"a": ["x", "y"]}, blocks=3)


class Columns(unittest.TestCase):
    def test_names_come_back_from_columns(self):
        """Streams have lowercase names without hyphens; a response tells the names of the file."""
        rows = pd.DataFrame({
            "experiment": "e", "hash": "h", "block": [0, 0, 1, 1], "position": [0, 1] * 2, "null_arm": False, "attempt": 1, "valid": True,
            "kept": True, "why": "", "started": ["2026-01-01T00:00:0%dZ" % i for i in range(4)],
            "factor_mark_mode": ["none", "both"] * 2, "measure_rate_pps": [1.0, 2.0, 1.0, 2.1],
        })  # fmt: skip
        x = from_rows(rows, response={"log_ratio": "Rate-pps", "to": {"Mark-mode": "none"}})
        self.assertEqual((x.design.factors, list(x.design.measures)), ({"Mark-mode": ("none", "both")}, ["Rate-pps"]))
        self.assertEqual(list(x.runs["Rate-pps"]), [1.0, 2.0, 1.0, 2.1])
        self.assertEqual(list(x.runs["Mark-mode"]), ["none", "both"] * 2)


if __name__ == "__main__":
    unittest.main()
