"""Experiments: the runs with the statistics and figures on them."""

import dataclasses
import os

import pandas as pd

from pillion.analysis import checks, effects, frames, model, plots, verdicts
from pillion.analysis.design import DESIGN_FILE, Design, DesignError, Measure, fits, parse_response, read_design
from pillion.analysis.journal import JOURNAL_FILE, read_journal
from pillion.analysis.numbers import count
from pillion.analysis.source import design_of, read_sources

SOURCE_FILE = "experiment.yaml"


def experiment(source, server=None, design=None, response=None, run=None):
    """The experiment in a folder, in a Parquet file, or on a server.

    source is the folder that `pillion experiment run` wrote, a Parquet file that `pillion
    export experiment_runs` wrote, or an experiment's name on a server. server is as for
    connect; without it the name is asked of the configured one. A server also has the
    experiment file. Rows of a file do not carry the design: design is the experiment.json
    beside them, or response says what the effects refer to, as in the experiment file:
    {"log_ratio": "rate", "to": {"mark": "none"}}.
    run is the hash of the design, where a name has several; the newest by default.
    """
    text, sources = os.fspath(source), []
    if server is None and os.path.isdir(text):
        return read_folder(text)
    if design is not None and os.path.exists(design):
        with open(design, encoding="utf-8") as file:
            design = read_design(file.read())
    if server is None and os.path.exists(text):
        rows = frames.read_file(text)
        intervals = None
    elif server is None and (os.sep in text or text.endswith(".parquet")):
        raise FileNotFoundError("read experiment: no folder or file %s" % text)
    else:
        from pillion.analysis.connection import connect

        try:
            client = connect(server)
        except OSError as error:
            if server is not None:
                raise
            raise type(error)("read experiment %r: no such folder or file here, and no server: %s" % (text, error)) from None
        rows, intervals = frames.read_server(client, text)
        sources = read_sources(client, text)
    return from_rows(rows, intervals, design=design, response=response, run=run, sources=sources)


def read_folder(folder):
    """The experiment that a runner wrote into a folder."""
    path = os.path.join(folder, DESIGN_FILE)
    try:
        with open(path, encoding="utf-8") as file:
            design = read_design(file.read())
    except FileNotFoundError:
        raise FileNotFoundError("read experiment: no %s in %s: not a result folder" % (DESIGN_FILE, folder)) from None
    except DesignError as error:
        raise DesignError("%s: %s" % (path, error)) from None
    path = os.path.join(folder, JOURNAL_FILE)
    runs, torn = [], False
    if os.path.exists(path):  # not before the first run is complete
        with open(path, "rb") as file:
            try:
                runs, torn = read_journal(file, design)
            except DesignError as error:
                raise DesignError("%s: %s" % (path, error)) from None
    notes = ["The journal's last line is incomplete and was not read: the runner was stopped."] if torn else []
    source = ""
    if os.path.exists(os.path.join(folder, SOURCE_FILE)):
        with open(os.path.join(folder, SOURCE_FILE), encoding="utf-8", errors="replace") as file:
            source = file.read()
    rows, intervals = frames.from_journal(runs, design)
    return Experiment(design, rows, intervals, notes=notes, source=source)


def from_rows(rows, intervals=None, design=None, response=None, run=None, sources=()):
    """The experiment in rows of the stream experiment_runs; sources are files that may be its own."""
    rows, hash_ = frames.one_design(rows, run or (design.hash if isinstance(design, Design) else None))
    text = ""
    if not isinstance(design, Design):
        design, text = design_of(sources, rows, hash_)
    if design is None:
        design = frames.derive_design(rows, response or {}, hash_)
    elif response:
        design = dataclasses.replace(design, **parse_response(response, design.measures, design.factors))
    table, detail = frames.from_stream(rows, intervals, design)
    return Experiment(design, table, detail, source=text)


class Experiment:
    """An experiment's runs, with the statistics on them.

    runs has the runs that count, valid and kept, in the order in which they were made;
    excluded has the others, with the reason in why. intervals has the workload's rows while
    it ran. The unit of all statistics is the run.
    """

    def __init__(self, design, rows, intervals=None, notes=(), source=""):
        self.design, self.notes, self.source = design, list(notes), source
        unfinished = frames.unfinished(rows, design)
        if len(rows):
            bare = rows["why"].isna() | (rows["why"] == "")
            why = rows["why"].mask(bare & ~rows["kept"], "block begun again").mask(bare & unfinished, "block not complete")
            rows = rows.assign(kept=rows["kept"] & ~unfinished, why=why)
        counts = rows["valid"] & rows["kept"]
        self.runs = rows[counts].reset_index(drop=True)
        self.excluded = rows[~counts].reset_index(drop=True)
        self.intervals = intervals if intervals is not None else pd.DataFrame()
        self._rows = rows
        self.plot = plots.Plots(self)

    def __repr__(self):
        return "<experiment %s: %s>" % (self.design.name, self.left_out())

    @property
    def measure(self):
        """The name of the response's measure."""
        return self.design.response_measure

    def left_out(self):
        """How many runs count, and how many do not and why, as a sentence."""
        total, out = len(self._rows), self.excluded
        blocks = self.runs["block"].nunique()
        text = "%d of %d runs count, in %s" % (len(self.runs), total, count(blocks, "block"))
        if out.empty:
            return text + "; none was left out."
        reasons = []
        abandoned = int((~out["kept"]).sum())
        invalid = out[out["kept"]]
        if abandoned:
            reasons.append("%d of unfinished blocks" % abandoned)
        for why, number in invalid["why"].replace("", "no reason recorded").value_counts().items():
            reasons.append("%d invalid (%s)" % (number, why))
        return "%s; %d left out: %s." % (text, len(out), ", ".join(reasons))

    def where(self, condition):
        """The experiment with only the runs at some levels, such as 'load=tcp6'."""
        allowed = self.design.where(condition)
        for name, value in self.design.to.items():
            if value not in allowed.get(name, (value,)):
                raise DesignError("restrict to %r: the response refers to %s=%s" % (condition, name, value))
        factors = {n: tuple(v for v in levels if v in allowed.get(n, levels)) for n, levels in self.design.factors.items()}
        cells = tuple(cell for cell in self.design.cells if fits(allowed, cell))
        design = dataclasses.replace(self.design, factors=factors, cells=cells, targets=())
        rows = self._rows
        for name, levels in allowed.items():
            rows = rows[rows[name].isin(levels)]
        rows = rows.assign(**{name: rows[name].cat.set_categories(factors[name]) for name in allowed})
        return Experiment(design, rows, self.intervals, self.notes, self.source)

    def summarise(self, field, by="mean", name=None, unit="", better=""):
        """The experiment with a measure more: a field of the intervals, summarised per run.

        by is mean, median, min, max, sum, std, a quantile between 0 and 1, or a function of
        a Series. Values within a run are not independent, so that only their summary counts.
        """
        if self.intervals.empty or field not in self.intervals:
            known = [c for c in self.intervals if c not in frames.RUN_KEYS]
            raise KeyError("summarise %r: the intervals have %s" % (field, ", ".join(known) or "no fields"))
        name = name or "%s_%s" % (field, by if isinstance(by, str) else "p%g" % (100 * by) if isinstance(by, float) else "of")
        if name in self.design.factors or name in frames.RUN_COLUMNS:
            raise ValueError("summarise: %r is the name of another column" % name)
        groups = self.intervals.groupby("run", sort=False)[field]
        values = groups.quantile(by) if isinstance(by, float) else groups.agg(by)
        rows = self._rows.copy()
        rows[name] = rows["run"].map(values).astype(float)
        measures = dict(self.design.measures)
        measures[name] = Measure(name, field, unit, better)
        return Experiment(dataclasses.replace(self.design, measures=measures), rows, self.intervals, self.notes, self.source)

    def responses(self, measure=None):
        """The response of each cell in each block: factors, block and value.

        Of a log_ratio, the log of the cell's measure over its base's measure in the same
        block; what the base's own runs are compared with is the null arm.
        """
        return effects.responses(self, measure)

    def means(self, measure=None, over=(), where=None, confidence=0.95):
        """Cells with n, mean, its t interval, and quantiles over runs."""
        return effects.means(self, measure, over, where, confidence)

    def effects(self, term=None, measure=None, confidence=0.95, resamples=10000, seed=1):
        """The response's mean over blocks with its intervals, for each cell or level of a term.

        low and high are of Student's t over the blocks' values; bca_low and bca_high are of
        the bootstrap over blocks (BCa), refused below 20 blocks: word says why. term is
        such as 'mark' or 'mark:load': the mean over the other factors within each block.
        """
        return effects.effects(self, term, measure, confidence, resamples, seed)

    def check(self):
        """What the analysis assumes, tested: name, statistic, p, ok, finding, consequence."""
        return checks.check(self)

    def variation(self, terms=None, measure=None):
        """Share of the variation that each term explains, in percent."""
        return model.variation(self, terms, measure)

    def anova(self, terms=None, by="sequential", measure=None, permutations=0, seed=1):
        """Analysis of variance with blocks; with permutations also p of runs permuted within blocks.

        After the stop rule p has the error's degrees of freedom in the pilot.
        """
        return model.anova(self, terms, by, measure, permutations, seed)

    def permanova(self, measures=None, terms=None, by="sequential", permutations=999, distance="euclidean", seed=1):
        """Permutational analysis of variance of one or several measures, permuted within blocks."""
        return model.permanova(self, measures, terms, by, permutations, distance, seed)

    def tukey(self, term, measure=None, terms=None, confidence=0.95):
        """All pairs of levels of a term, by Tukey and Kramer with the model's error."""
        return model.tukey(self, term, measure, terms, confidence)

    def equivalence(self, within, term=None, measure=None, confidence=0.95):
        """Two one-sided tests: is the response within that distance of no effect?"""
        return effects.equivalence(self, within, term, measure, confidence)

    def verdicts(self, confidence=0.95, simultaneous=False):
        """Each target: met, missed or undecided, with the interval and a sentence.

        simultaneous widens the intervals so that all hold together (Bonferroni).
        """
        return verdicts.verdicts(self, confidence, simultaneous)

    def precision(self, confidence=0.95):
        """The half-width that the stop rule asked for and the one that was reached, as a sentence."""
        return verdicts.precision(self, confidence)
