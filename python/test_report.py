"""Reports: what they say, that they are whole and sound HTML, and that nothing in them runs."""

import contextlib
import dataclasses
import html.parser
import io
import json
import os
import re
import socket
import stat
import tempfile
import unittest
import unittest.mock

import pillion
from pillion.analysis.simulate import simulate
from pillion.report import compose, page, publish, vector
from pillion.report.__main__ import main, replace
from pillion.report.document import Code, Section, Table, Text
from pillion.report.document import Report as Report_

VOID = {"meta", "link", "br", "img", "input", "path", "use", "hr"}


class Checker(html.parser.HTMLParser):
    """Balanced elements, unique ids, no reference to elsewhere, no script."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.faults, self.tags, self.references = [], set(), [], {}, set()

    def handle_startendtag(self, tag, attributes):
        self.look(tag, attributes)

    def handle_starttag(self, tag, attributes):
        self.look(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)

    def look(self, tag, attributes):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attributes:
            if name == "id":
                if value in self.ids:
                    self.faults.append("id %s twice" % value)
                self.ids.add(value)
            if name.startswith("on") or tag in ("script", "iframe", "object", "embed", "link", "base", "form"):
                self.faults.append("<%s %s>" % (tag, name))
            if name in ("href", "xlink:href", "src"):
                if value.startswith("#"):
                    self.references.add(value[1:])
                elif not value.startswith("data:image/png;base64,"):
                    self.faults.append("reference to %s" % value)

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.faults.append("</%s>" % tag)


def checked(test, text):
    checker = Checker()
    checker.feed(text)
    checker.close()
    test.assertEqual((checker.faults[:5], checker.open), ([], []))
    test.assertLessEqual(checker.references, checker.ids)
    return checker


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.join(cls.enterClassContext(tempfile.TemporaryDirectory()), "r")
        cls.evil = "<script>alert(1)</script>"
        simulate(
            cls.folder, {"mark": ["none", "empty", "both"], "load": ["udp6-56", cls.evil]}, effects=[("mark=both", 0.9)], blocks=20,
            invalid=0.05, name='x"><img src=y onerror=z>', description="Does it cost & does it matter?",
            targets=[{"where": "mark=both", "at_least": 0.95}, {"where": "mark=empty", "within": 0.05}, {"where": "mark=both", "at_least": 0.9}], seed=1,
        )  # fmt: skip
        with open(os.path.join(cls.folder, "experiment.yaml"), "w", encoding="utf-8") as file:
            file.write("experiment: x # " + cls.evil)
        path = os.path.join(cls.folder, "experiment.json")
        with open(path, encoding="utf-8") as file:
            design = json.load(file)
        design["environment"] = {
            "kernel": "6.1", "hosts": {"a": {"kernel": "6.8"}}, "differences": ["kernel: 6.1 of b, 6.8 of a"], "changes": ["governor: x, now y"],
        }  # fmt: skip
        with open(path, "w", encoding="utf-8") as file:
            json.dump(design, file)
        cls.path = os.path.join(cls.folder, "r.html")
        with contextlib.redirect_stdout(io.StringIO()):
            assert main([cls.folder, "-o", cls.path]) == 0
        with open(cls.path, encoding="utf-8") as file:
            cls.text = file.read()

    def test_is_sound_and_nothing_runs(self):
        checker = checked(self, self.text)
        self.assertNotIn(self.evil, self.text)
        self.assertIn("default-src &#x27;none&#x27;", self.text)
        self.assertEqual(len(re.findall(r"url\((?!#)", self.text)), 0)
        self.assertGreaterEqual(checker.tags["figure"], 8)
        self.assertEqual(checker.tags["caption"], checker.tags["table"])
        self.assertEqual(checker.tags["svg"], checker.tags["figure"])
        self.assertGreaterEqual(checker.tags["desc"], checker.tags["svg"])

    def test_says_verdicts_first(self):
        text = self.text
        for part in ("Verdicts", "Effects", "Checks", "Plots", "Model and residuals", "Cells", "Design and environment", "Runs left out"):
            self.assertIn(">%s</h2>" % part, text)
        self.assertLess(text.index("missed</span>"), text.index(">Effects</h2>"))
        for sign in ("✗ missed", "✓ met", "? undecided"):
            self.assertEqual(text.count(sign), 1, sign)
        self.assertIn("Does it cost &amp; does it matter?", text)
        x = pillion.experiment(self.folder)
        self.assertRegex(text, "<dt>took</dt><dd>.* from the first run to the last, interruptions included</dd>")
        self.assertIn("%d left out" % len(x.excluded), text)
        self.assertIn("delivered &lt; 0.999*packets", text)

    def test_quick_runs_have_no_verdicts(self):
        x = pillion.experiment(self.folder)
        x.design = dataclasses.replace(x.design, quick=True)
        text = page.write(compose.compose(x))
        checked(self, text)
        self.assertIn("quick run: no figures</h1>", text)
        self.assertIn("Quick run: a proof that the experiment works", text)
        for words in ('class="verdict', "p of equivalence", "known to"):
            self.assertNotIn(words, text)

    def test_margins_are_those_of_targets(self):
        """A margin of what does not matter is stated by a target, not by the width to stop at."""
        self.assertIn(">within 5 %</th>", self.text)
        self.assertIn(">p of equivalence</th>", self.text)
        self.assertNotIn("within ±", self.text)
        x = pillion.experiment(self.folder)
        x.design = dataclasses.replace(x.design, targets=())
        self.assertNotIn("equivalence", page.write(compose.compose(x)))

    def test_what_was_not_tested_has_its_own_sign(self):
        x = pillion.experiment(self.folder)
        table = compose.compose(type(x)(x.design, x.runs[~x.runs["null"]])).sections[2].parts[1]
        signs = {row[1]: row[0] for row in table.rows}
        self.assertEqual((signs["null arm"], signs["balance"]), ("–", "✓"))

    def test_names_what_differs_in_the_environment(self):
        self.assertIn("The hosts differ in what can change a result: kernel: 6.1 of b, 6.8 of a.", self.text)
        self.assertIn("The environment changed during the experiment: governor: x, now y.", self.text)
        self.assertIn("hosts a kernel", self.text)

    def test_colours_follow_the_theme(self):
        """No colour of the axes or of the palette is fixed in a drawing."""
        drawings = "".join(re.findall(r"<svg.*?</svg>", self.text, re.DOTALL))
        for colour in vector.VARIABLES:
            self.assertNotIn(colour, drawings)
        self.assertIn("var(--c0)", drawings)
        self.assertIn("prefers-color-scheme:dark", self.text)
        self.assertIn("@page{size:A4", self.text)

    def test_is_the_same_each_time(self):
        again = page.write(compose.compose(pillion.experiment(self.folder)))
        self.assertEqual(again, self.text)

    def test_without_blocks(self):
        """From the first line of a journal to the first block: a report, never a fault."""
        with open(os.path.join(self.folder, "journal.jsonl"), encoding="utf-8") as file:
            lines = file.readlines()
        for count in (0, 1, 3, 8, 16):
            folder = os.path.join(self.folder, "part%d" % count)
            os.makedirs(folder)
            os.symlink(os.path.join(self.folder, "experiment.json"), os.path.join(folder, "experiment.json"))
            with open(os.path.join(folder, "journal.jsonl"), "w", encoding="utf-8") as file:
                file.writelines(lines[:count])
            with self.subTest(count):
                checked(self, page.write(compose.compose(pillion.experiment(folder))))

    def test_errors_are_one_line(self):
        for arguments, words in (([self.folder + "/none"], "not a result folder"), ([self.folder, "--paper", "other"], "there are pezaros-2011")):
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                self.assertEqual(main(arguments), 1)
            self.assertRegex(said.getvalue(), r"\Apillion.report: .*%s.*\n\Z" % words)
        self.assertEqual([name for name in os.listdir(self.folder) if name.endswith(".part")], [])


class Publish(unittest.TestCase):
    def report(self, *parts):
        return Report_("T", "?", [("runs", 7)], [Section("S", list(parts))], "e", "h")

    def test_parts(self):
        head, section, text, table = publish.parts(self.report(Text("a"), Table("c", ["x"], [[1]], {0})))
        self.assertEqual((head[0], head[1]["parts"], head[1]["facts"]), ("head", 3, [["runs", "7"]]))
        self.assertEqual((section, text), (("section", {"title": "S"}), ("text", {"text": "a", "note": False})))
        self.assertEqual((table[1]["rows"], table[1]["numeric"], table[1]["marked"]), ([["1"]], [0], []))

    def test_bounds(self):
        large = publish.parts(self.report(Code("listing", "x" * publish.PART_BYTES)))
        self.assertEqual(large[2], ("text", {"text": "listing is too large for this page; the HTML file has it.", "note": True}))
        with self.assertRaisesRegex(publish.PublishError, "the limits are"):
            publish.parts(self.report(*[Code("c", "x" * (publish.PART_BYTES // 2))] * 20))
        with self.assertRaisesRegex(publish.PublishError, "the limits are"):
            publish.parts(self.report(*[Text("x")] * publish.PARTS))

    def test_a_server_that_does_not_answer_is_said(self):
        with socket.socket() as taken, self.assertLogs("pillion.oml"):
            taken.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            with self.assertRaisesRegex(publish.PublishError, "3 of 3 parts were not stored"):
                publish.publish(self.report(Text("a")), address, timeout=0.2)

    def test_token_is_read_from_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".token") as file:
            file.write("secret\n")
            file.flush()
            with unittest.mock.patch.dict(os.environ, {"PILLION_OML_TOKEN_FILE": file.name}):
                self.assertEqual(publish.token(), "secret")
        self.assertIsNone(publish.token())

    def test_a_device_is_not_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            fifo, link, file = (os.path.join(folder, name) for name in ("fifo", "link", "file"))
            os.mkfifo(fifo)
            reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
            replace(fifo, "text")
            self.assertEqual(os.read(reader, 10), b"text")
            os.close(reader)
            self.assertTrue(stat.S_ISFIFO(os.lstat(fifo).st_mode))
            os.symlink("file", link)
            replace(link, "text")
            os.chmod(file, 0o640)
            replace(link, "new")
            self.assertEqual(os.readlink(link), "file")
            self.assertEqual(stat.S_IMODE(os.lstat(file).st_mode), 0o640)
            self.assertEqual(sorted(os.listdir(folder)), ["fifo", "file", "link"])


if __name__ == "__main__":
    unittest.main()
