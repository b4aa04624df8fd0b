"""Published tables beside ours. docs/reference/experiment-papers.md defines their files."""

import csv
import glob
import io
import os
import re

from pillion.analysis.checks import p_short
from pillion.analysis.numbers import column, is_none, number
from pillion.report import paper_figure, vector
from pillion.report.document import Figure, Section, Table, Text, reason

PAPERS = {
    "pezaros-2011": "Pezaros et al. 2011", "hamilton-2012": "Hamilton and Pezaros 2012", "angrisani": "Angrisani et al.",
    "mehani-2011": "Mehani et al. 2011", "li-2015": "Li et al. 2015",
}  # fmt: skip
ANALYSES = ("means", "effects", "variation", "anova", "permanova", "tukey")
FILE_BYTES = 4 << 20

_keys = {"paper", "item", "title", "source", "unit", "columns", "rows", "errata", "ours", "note", "plots"}
_needed = ("paper", "item", "title", "source", "columns", "rows")
_errata = ("where", "printed", "evident", "reason")
_ours = {"experiment", "when", "analysis", "measure", "arguments", "keys", "columns", "scale", "note"}


class PaperError(ValueError):
    """A file of published tables that breaks the schema."""


def folder_of(name, folder=None):
    """The folder of a paper's tables."""
    if name not in PAPERS:
        raise PaperError("read paper %r: there are %s" % (name, ", ".join(PAPERS)))
    tree = folder or os.path.join(os.path.dirname(__file__), "..", "..", "..", "study", "experiment", "paper")
    path = os.path.join(tree, name)
    if not os.path.isdir(path):
        raise PaperError("read paper %s: no directory %s: name the one of the published tables with --papers" % (name, os.path.normpath(path)))
    return path


def read_paper(name, folder=None):
    """All tables of a paper, in the order of their files' names."""
    path = folder_of(name, folder)
    tables = [read_table(file) for file in sorted(glob.glob(os.path.join(glob.escape(path), "*.yaml")))]
    if not tables:
        raise PaperError("read paper %s: no table in %s" % (name, os.path.normpath(path)))
    for table in tables:
        if table["paper"] != name:
            raise PaperError("read %s: paper %r, but the directory is of %s" % (table["file"], table["paper"], name))
    return tables


def read_table(path):
    """One published table or figure, checked."""
    if os.path.getsize(path) > FILE_BYTES:
        raise PaperError("read %s: more than %d bytes" % (path, FILE_BYTES))
    with open(path, "rb") as file:
        text = file.read()

    def rows_of(name):
        if os.path.basename(name) != name:
            raise PaperError("read %s: rows in %r, which is no name of a file beside it" % (path, name))
        beside = os.path.join(os.path.dirname(path), name)
        if os.path.getsize(beside) > FILE_BYTES:
            raise PaperError("read %s: more than %d bytes" % (beside, FILE_BYTES))
        with open(beside, encoding="utf-8", newline="") as rows:
            return rows.read()

    try:
        return parse_table(text, rows_of, os.path.basename(path))
    except PaperError as error:
        raise PaperError("read %s: %s" % (path, error)) from None


def parse_table(text, rows_of=None, name=""):
    """The table in the bytes of a file; rows_of reads a file of rows by its name."""
    import yaml

    try:
        table = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PaperError("no YAML: %s" % error) from None
    _check_keys(table, _keys, "the table")
    for key in _needed:
        if table.get(key) in (None, "", []):
            raise PaperError("no %s" % key)
    table = {"unit": "", "errata": [], "ours": [], "note": "", "plots": [], **{k: v for k, v in table.items() if v is not None}, "file": name}
    columns = table["columns"]
    if not isinstance(columns, list) or not all(isinstance(c, str) and c for c in columns) or len(set(columns)) != len(columns):
        raise PaperError("columns are not different names: %r" % (columns,))
    if isinstance(table["rows"], dict):
        _check_keys(table["rows"], {"file"}, "rows")
        if rows_of is None or not isinstance(table["rows"].get("file"), str):
            raise PaperError("rows name no file")
        table["rows"] = _rows_of_csv(rows_of(table["rows"]["file"]), columns)
    if not isinstance(table["rows"], list):
        raise PaperError("rows are no list")
    for i, row in enumerate(table["rows"]):
        if not isinstance(row, list) or len(row) != len(columns) or any(isinstance(v, (list, dict)) for v in row):
            raise PaperError("row %d: want %d values, have %r" % (i + 1, len(columns), row))
    if not isinstance(table["unit"], (str, dict)):
        raise PaperError("unit is neither a text nor one text for each column")
    for erratum in _list(table["errata"], "errata"):
        _check_keys(erratum, set(_errata), "an erratum")
        if any(erratum.get(key) in (None, "") for key in _errata):
            raise PaperError("an erratum lacks one of %s: %r" % (", ".join(_errata), erratum))
    for ours in _list(table["ours"], "ours"):
        _check_ours(ours, columns)
    for plot in _list(table["plots"], "plots"):
        fault = paper_figure.fault(plot)
        if fault:
            raise PaperError(fault)
    if not table["ours"] and not table["note"]:
        raise PaperError("neither ours nor a note says which experiment repeats it, or why none does")
    return table


def _list(value, what):
    if not isinstance(value, list):
        raise PaperError("%s is no list" % what)
    return value


def _check_keys(value, known, what):
    if not isinstance(value, dict):
        raise PaperError("%s is no object: %r" % (what, value))
    for key in value:
        if key not in known:
            raise PaperError("%s has the unknown key %r; there are %s" % (what, key, ", ".join(sorted(known))))


def _check_ours(ours, columns):
    _check_keys(ours, _ours, "ours")
    if not isinstance(ours.get("experiment"), str):
        raise PaperError("ours names no experiment: %r" % (ours,))
    if ours.get("analysis", "means") not in ANALYSES:
        raise PaperError("analysis %r: there are %s" % (ours["analysis"], ", ".join(ANALYSES)))
    for part in ("when", "arguments", "keys", "columns", "scale"):
        if not isinstance(ours.get(part) or {}, dict):
            raise PaperError("%s of ours is no object" % part)
    for part in ("when", "keys", "columns", "scale"):
        for column in ours.get(part) or {}:
            if column not in columns:
                raise PaperError("%s of ours: the table has no column %r" % (part, column))
    if not ours.get("columns"):
        raise PaperError("ours compares no column")
    for key in (ours.get("keys") or {}).values():
        if isinstance(key, dict):
            _check_keys(key, {"column", "values"}, "a key")
            if not isinstance(key.get("column"), str) or not isinstance(key.get("values") or {}, dict):
                raise PaperError("a key names no column, or its values are no object: %r" % (key,))
        elif not isinstance(key, str):
            raise PaperError("a key is neither a column nor an object: %r" % (key,))


def _rows_of_csv(text, columns):
    rows = list(csv.reader(io.StringIO(text)))
    if not rows or rows[0] != columns:
        raise PaperError("the first line of the rows' file is not %s" % ",".join(columns))
    return [[_value(v) for v in row] for row in rows[1:] if row]


def _value(text):
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def same(published, ours):
    """Whether two values are the same: numbers as numbers, other things as texts in any case."""
    try:
        return float(published) == float(ours)
    except (TypeError, ValueError):
        return str(published).casefold() == str(ours).casefold()


def closest(wanted, values):
    """The values that are the same; if some are so to the letter, only these."""
    exact = [v for v in values if str(v) == str(wanted)]
    return exact or [v for v in values if same(wanted, v)]


def matched(table, entry, result):
    """Our values for each published row: a list of {published column: value}, or None."""
    at = {column: i for i, column in enumerate(table["columns"])}
    when, keys = entry.get("when") or {}, entry.get("keys") or {}
    found = []
    for row in table["rows"]:
        if not all(same(row[at[column]], value) for column, value in when.items()):
            found.append(None)
            continue
        mine = result
        for column, key in keys.items():
            name, values = (key, {}) if isinstance(key, str) else (key["column"], key.get("values") or {})
            if name not in result:
                raise PaperError("%s %s: our %s has no column %r; there are %s" % (
                    table["paper"], table["item"], entry.get("analysis", "means"), name, ", ".join(map(str, result))))  # fmt: skip
            published = row[at[column]]
            wanted = next((values[k] for k in closest(published, list(values))), published)
            mine = mine.loc[mine[name].isin(closest(wanted, list(mine[name])))]
        if len(mine) > 1:
            raise PaperError("%s %s: %d of our rows fit %r: name more keys" % (table["paper"], table["item"], len(mine), row))
        if mine.empty:
            found.append(None)
            continue
        scale = entry.get("scale") or {}
        found.append({column: Ours(mine.iloc[0], name, scale.get(column, 1)) for column, name in entry["columns"].items()})
    return found


class Ours:
    """A value of ours in the published unit, with its interval where it is an estimate that has one."""

    def __init__(self, row, name, scale=1):
        self.value, self.low, self.high = row[name] * scale, float("nan"), float("nan")
        if name in ("mean", "ratio", "difference", "percent") and {"low", "high"} <= set(row.index):
            ends = [100 * (row[end] - 1) if name == "percent" else row[end] for end in ("low", "high")]
            self.low, self.high = sorted(end * scale for end in ends)

    def text(self, is_chance):
        """As a cell of a table: an estimate without an interval says nothing."""
        try:
            value = float(self.value)
        except (TypeError, ValueError):
            return text_of(self.value)
        if is_chance:
            return p_short(value)
        if is_none(self.low) or is_none(self.high):
            return number(value)
        write = column([value, self.low, self.high], [(self.high - self.low) / 2])
        texts = [write(v) for v in (value, self.low, self.high)]
        return texts[0] if len(set(texts)) == 1 else "%s [%s, %s]" % tuple(texts)


def analysed(experiment, entry):
    """The table of ours that a published one is set beside."""
    analysis, arguments = entry.get("analysis", "means"), dict(entry.get("arguments") or {})
    if analysis != "means" and "where" in arguments:
        experiment = experiment.where(arguments.pop("where"))
    if analysis == "permanova":
        arguments.setdefault("measures", entry.get("measure") or experiment.measure)
    else:
        arguments.setdefault("measure", entry.get("measure") or experiment.measure)
    result = getattr(experiment, analysis)(**arguments)
    if hasattr(result, "to_frame") and not hasattr(result, "columns"):
        result = result.to_frame("share")
    if result.index.name:
        result = result.reset_index()
    return result


def text_of(value):
    if value is None or value != value:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return "%.4g" % value if isinstance(value, float) else str(value)


def unit_of(table, column):
    unit = table["unit"]
    return unit if isinstance(unit, str) else unit.get(column, "")


def _beside(experiment, table):
    """The published table with our columns, the entries they are of, and why some have none."""
    entries = [e for e in table["ours"] if e["experiment"] == experiment.design.name]
    columns, rows = list(table["columns"]), [[text_of(v) for v in row] for row in table["rows"]]
    at = {column: i for i, column in enumerate(columns)}
    compared = list(dict.fromkeys(column for entry in entries for column in entry["columns"]))
    ours = [{} for _ in rows]
    failed = []
    for entry in entries:
        try:
            result = analysed(experiment, entry)
        except ValueError as error:  # such as a measure that is the same in each run
            failed.append("Not set beside %s: %s of %s: %s." % (
                table["item"], entry.get("analysis", "means"), entry.get("measure") or experiment.measure, error))  # fmt: skip
            continue
        for mine, found in zip(ours, matched(table, entry, result)):
            mine.update(found or {})
    # A chance is written as such: 1e-165 would claim to know it.
    chances = {c for entry in entries for c, name in entry["columns"].items() if name in ("p", "p_permuted")}
    heads = []
    for name in columns:
        unit = unit_of(table, name) if name in compared or not entries else ""
        heads.append(name + (", %s" % unit if unit not in ("", "1", name) else "") + (" (paper)" if name in compared else ""))
    heads += ["%s (ours%s)" % (name, ", 95 %" if any(name in mine and not is_none(mine[name].low) for mine in ours) else "") for name in compared]
    covered = [any(all(same(row[at[c]], v) for c, v in (e.get("when") or {}).items()) for e in entries) or not entries for row in table["rows"]]
    for row, mine in zip(rows, ours):
        row += [mine[c].text(c in chances) if c in mine else "not measured" for c in compared]
    rows = [row for row, kept in zip(rows, covered) if kept]
    if not all(covered):
        failed.append("%d more rows of %s are of other experiments." % (len(covered) - sum(covered), table["item"]))
    numeric = {at[c] for c in compared} | set(range(len(columns), len(heads)))
    caption = "%s: %s (%s)" % (table["item"], table["title"], table["source"])
    return Table(caption, heads, rows, numeric), entries, failed


def sections(experiment, name, folder=None):
    """Sections with the tables of a paper, those that this experiment repeats first."""
    tables, parts = read_paper(name, folder), []
    own = experiment.design.name
    mine = [t for t in tables if any(e["experiment"] == own for e in (*t["ours"], *t["plots"])) or not t["ours"] and _names(t["note"], own)]
    others = [t for t in tables if t not in mine]
    for table in mine:
        parts += _plotted(experiment, table, len(parts))
        if not table["plots"] or any(e["experiment"] == own for e in table["ours"]):
            shown, entries, failed = _beside(experiment, table)
            parts.append(shown)
            parts += [Text(text, note=True) for text in failed]
            parts += [Text(entry["note"], note=True) for entry in entries if entry.get("note")]
        parts += _remarks(table)
    if not mine:
        parts.append(Text("No published table or figure of %s is repeated by %s." % (PAPERS[name], own)))
    found = [Section("Beside %s" % PAPERS[name], parts)]
    if others:
        rest = []
        for table in others:
            where = ", ".join(dict.fromkeys(e["experiment"] for e in table["ours"]))
            remark = "repeated by %s" % where if where else table["note"]
            rest.append([table["item"], table["title"], remark])
        errata = [part for table in others for part in _remarks(table) if not (isinstance(part, Text) and part.text == table["note"])]
        found.append(Section("Other tables of %s" % PAPERS[name], [Table("Published tables that this experiment does not repeat", ["table", "title", ""], rest), *errata]))
    return found


def _names(text, experiment):
    """Whether a text names an experiment, and not one that begins with the same name."""
    return re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(experiment), text) is not None


def _plotted(experiment, table, first):
    """The published figure drawn of our runs, a figure for each plot of this experiment; first makes names unique."""
    parts = []
    for plot in table["plots"]:
        if plot["experiment"] != experiment.design.name:
            continue
        title = "%s, ours%s" % (table["item"], ": " + plot["title"] if plot.get("title") else "")
        try:
            drawn = paper_figure.draw(experiment, plot)
        except (ValueError, KeyError) as error:
            parts.append(Text("%s is not drawn: %s." % (title, reason(error)), note=True))
            continue
        words = "%s (%s). " % (table["title"], table["source"])
        if plot.get("published") and plot.get("kind") == "histograms":
            words += "The dashed line is what the paper prints; ours is all runs together."
        elif plot.get("published"):
            words += "Hollow and dashed is what the paper prints; ours have 95 % intervals."
        elif plot.get("kind") == "histograms":
            words += "The paper's plot has no numbers that can be read; ours is on its axes, all runs together."
        else:
            words += "The paper's plot has no numbers that can be read; ours is on its axes, with 95 % intervals." if plot.get("kind") != "residuals" else "Ours on the paper's axes."
        parts.append(Figure(title, words, vector.draw(drawn, "p%d" % (first + len(parts)), title, words)))
    return parts


def _remarks(table):
    """The note and the errata of a table."""
    parts = [Text(table["note"], note=True)] if table["note"] else []
    return parts + [
        Text("Erratum in %s, %s: printed %s, evidently %s; %s." % (
            table["item"], e["where"], e["printed"], e["evident"], str(e["reason"]).rstrip(".")))
        for e in table["errata"]
    ]  # fmt: skip
