"""The content of an experiment's report."""

import itertools

import pandas as pd

from pillion.analysis import bins, effects, theme, verdicts
from pillion.analysis.checks import p_short
from pillion.analysis.numbers import column, fixed, interval, number
from pillion.report import vector
from pillion.report.document import Code, Figure, Report, Section, Table, Text, Verdict, reason

QUICK = "Quick run: a proof that the experiment works, on few blocks and without its requirements. Its numbers are no figures, and no target is judged."
# More runs that do not count are summed up only.
EXCLUDED_ROWS = 100
CELL_ROWS = 400
# With fewer values a level shows no distribution.
LEAST_VALUES = 5
# More cells make a plot of effects too long for a page, and more coefficients one of the model.
EFFECT_ROWS, COEFFICIENT_ROWS = 64, 72


class _Composer:
    """Makes the sections; figures are numbered, so that their elements' names are unique."""

    def __init__(self, experiment):
        self.x, self.figures = experiment, 0
        self.log = experiment.design.is_log

    def figure(self, title, description, draw, caption=""):
        """A drawn figure, or the reason why it cannot be drawn."""
        try:
            drawn = draw()
        except (ValueError, KeyError) as error:
            return Text("%s is not drawn: %s." % (title, reason(error)), note=True)
        self.figures += 1
        svg = vector.draw(drawn, "f%d" % self.figures, title, description)
        return Figure(title, description, svg, caption)

    def verdicts(self):
        x, parts = self.x, []
        if x.design.quick:
            return Section("Verdicts", [Text(QUICK)])
        table = x.verdicts()
        parts += [Verdict(row.verdict, row.sentence) for row in table.itertuples()]
        if table.empty:
            parts.append(Text("The experiment file states no targets."))
        parts.append(Text(x.precision()))
        if len(table) > 1:
            together = x.verdicts(simultaneous=True)
            moved = ["%s of %s" % (a.measure, a.where) for a, b in zip(table.itertuples(), together.itertuples()) if a.verdict != b.verdict]
            text = "Each interval holds by itself: one in twenty misses. Widened so that all %d hold together (Bonferroni), " % len(table)
            text += "these become undecided: %s." % "; ".join(moved) if moved else "no verdict changes."
            parts.append(Text(text, note=True))
        return Section("Verdicts", parts)

    def _effects_table(self, term):
        x = self.x
        table = x.effects(term)
        estimate = table.attrs["estimate"]
        names = [n for n in x.design.factors if n in table and (term or n in x.design.crossed())]
        margins = verdicts.margins(x) if x.design.to and not x.design.quick else []
        equal = [x.equivalence(margin, term) for margin in margins]
        write = column([*table["low"], *table["high"], *table[estimate]], (table["high"] - table["low"]) / 2, is_ratio=self.log)
        resampled = table["bca_low"].notna().any()
        columns = [*names, "blocks", estimate, "95 % (t)"] + (["95 % (BCa)"] if resampled else [])
        for margin in margins:
            columns += ["within %s" % ("%g %%" % (100 * margin) if self.log else "%g" % margin), "p of equivalence"]
        rows = []
        for i, row in table.iterrows():
            cells = [*(row[n] for n in names), row["n"], write(row[estimate]), interval(row["low"], row["high"], write)]
            if resampled:
                cells.append(interval(row["bca_low"], row["bca_high"], write) or "refused")
            for one in equal:
                cells += ["yes" if one["equivalent"][i] else "not shown", p_short(one["p"][i])]
            rows.append(cells)
        numeric = set(range(len(names), len(columns)))
        words = sorted(set(filter(None, table["word"])))
        return Table("", columns, rows, numeric), words

    def effects(self):
        x, parts = self.x, []
        base = x.design.base_label
        what = {"log_ratio": "ratio of %s to its value for %s in the same block" % (x.measure, base), "difference": "difference of %s from %s in the same block" % (x.measure, base),
                "log": "geometric mean of %s" % x.measure, "value": "mean of %s" % x.measure}[x.design.response]  # fmt: skip
        better = x.design.measures[x.measure].better
        start = "An effect is the" if x.design.to else "Nothing is compared with a base: what is estimated is the"
        parts.append(Text("%s %s%s. Blocks are the sample; intervals are Student's t, and beside them from %d blocks intervals by the bootstrap over blocks, corrected for bias and skewness (BCa).%s" % (
            start, what, "; %s is better" % better if better else "", effects.BCA_BLOCKS, self._pilot())))  # fmt: skip
        shown, told = [], []
        for name in dict.fromkeys([*x.design.to, *filter(None, [x.design.stop.get("effect")])]):
            if len(x.design.factors.get(name, ())) > 2 or len(x.design.crossed()) > 1:
                shown.append(name)
        for term in [*shown, None]:
            table, words = self._effects_table(term)
            if not table.rows:
                parts.append(Text("No block holds both a cell and its base yet."))
                break
            table.caption = "Effect of %s, the mean over the other factors within each block" % term if term else "Effect of each cell" if x.design.to else "Estimate of each cell"
            if len(table.rows) > CELL_ROWS:
                table.caption += ": the first %d of %d" % (CELL_ROWS, len(table.rows))
                table.rows = table.rows[:CELL_ROWS]
            parts.append(table)
            told += [word for word in words if word.partition(":")[0] not in [t.partition(":")[0] for t in told]]
        if "p of equivalence" in table.columns:
            parts.append(Text("Whether an effect lies within the margin of a target (“within”): two one-sided tests, whose small p shows that it does. A large p shows nothing.", note=True))
        parts += [Text(word + ".", note=True) for word in told]
        resampled = effects.block_values(x).shape[0] >= effects.BCA_BLOCKS
        caption = "One row for each cell: its %s with the t interval%s.%s" % (
            what, ", and the BCa interval as a thin line below" if resampled else "", " The vertical line is no effect.%s" % (" Marks are the bounds of targets of one cell." if x.design.targets else "") if x.design.to else "")  # fmt: skip
        term = None
        if len(x.design.cells) > EFFECT_ROWS and shown:
            term, caption = shown[0], "The effects of %s, means over the other factors: the table has the %d cells. %s" % (shown[0], len(x.design.cells), caption)
        if len(x.design.cells) > 1:  # one row says no more than the table
            parts.append(self.figure("%s with 95 %% intervals" % ("Effects" if x.design.to else "Estimates"), caption, lambda: x.plot.effects(term)))
        return Section("Effects", parts)

    def _pilot(self):
        pilot = self.x.design.pilot
        if not pilot or self.x.runs["block"].nunique() <= pilot:
            return ""
        return " The stop rule derived the number of blocks from a deviation, so that t has the %d degrees of freedom of its pilot of %d blocks." % (pilot - 1, pilot)

    def checks(self):
        table = self.x.check()
        signs = {True: "✓", False: "!\u00a0look"}
        rows = [[signs[bool(row.ok)] if row.tested else "–", name, row.finding, row.consequence] for name, row in table.iterrows()]
        failed, made = int((~table["ok"].astype(bool)).sum()), int(table["tested"].sum())
        lead = "All checks that could be made pass, which proves nothing: a test of few runs misses much."
        if failed:
            lead = "%d of %d checks %s a look." % (failed, made, "deserves" if failed == 1 else "deserve")
        if made < len(rows):
            lead += " %d could not be made (–)." % (len(rows) - made)
        marked = {i for i, ok in enumerate(table["ok"]) if not ok}
        return Section("Checks", [Text(lead), Table("What the analysis assumes, tested at 1 %", ["", "check", "finding", "consequence"], rows, set(), {0, 1}, marked)])

    def distribution(self):
        x, parts, plot = self.x, [], self.x.plot
        crossed = x.design.crossed()
        measure = x.design.measures[x.measure].label
        if len(crossed) > 1:
            by, line, panel = plot.axes()
            over = [name for name in crossed if name not in (by, line, panel)]
            caption = "Means of %s with 95 %% intervals%s. These contain the differences between blocks, which effects do not. Lines that are not parallel are an interaction." % (
                measure, ", over the levels of %s" % " and ".join(over) if over else "")  # fmt: skip
            title = "Interaction of %s" % " and ".join(n for n in (by, line, panel) if n)
            if plot.is_dominated(by, line, panel):
                caption = "Effects with 95 %% intervals: the means of %s differ by more than a factor of 100 between levels of %s. Lines that are not parallel are an interaction." % (measure, by)
                parts.append(self.figure(title, caption, lambda: plot.interaction(by, line, panel=panel, value="effect")))
            else:
                parts.append(self.figure(title, caption, lambda: plot.interaction()))
            if plot.is_matrix() and x.design.to:
                parts.append(self.figure("Effects by two factors", "A cell for each pair of levels, with the effect written in it; paler is closer to no effect.",
                                         lambda: plot.heat_map()))  # fmt: skip
            elif plot.is_matrix():
                parts.append(self.figure("Means by two factors", "A cell for each pair of levels, with the mean of %s written in it." % measure, lambda: plot.heat_map()))
        elif crossed:
            parts.append(self.figure("Means", "Means of %s with 95 %% intervals, which contain the differences between blocks." % measure, lambda: plot.means()))
        values = effects.responses(x) if x.design.to else effects.runs_of(x).rename(columns={x.measure: "value"})
        by = plot.compared()
        pooled = [name for name in crossed if name != by and name not in x.design.to]
        each = "Each value is one run%s%s." % (
            " against its base in the same block" if x.design.to else "", "; the levels of %s are pooled" % " and ".join(pooled) if pooled else "")  # fmt: skip
        reason = _no_distribution(values.groupby(by, observed=True)["value"])
        if reason:
            parts.append(Text("Distributions by %s are not drawn: %s." % (by, reason), note=True))
        else:
            count = values[by].nunique()
            parts.append(self.figure("Distribution by %s" % by, "Quartiles as boxes, whiskers to the last value within 1.5 times their distance, values beyond as marks. " + each,
                                     lambda: plot.box()))  # fmt: skip
            if count <= len(theme.COLOURS):  # more lines cannot be told apart
                parts.append(self.figure("Distribution functions", "Share of runs at or below a value, one line for each level of %s. %s" % (by, each), lambda: plot.ecdf()))
        return Section("Plots", parts)

    def packets(self):
        """Histograms that runs report, and packets that are in none of them."""
        x, parts = self.x, []
        for name in bins.names(x):
            parts.append(self.figure("Relative frequency of %s" % name.replace("_", " "),
                                     "All runs of a cell together; shares for each least width of a bin, both axes logarithmic: no tail is cut off.",
                                     lambda name=name: x.plot.frequencies(name)))  # fmt: skip
        lost = bins.fates(x)
        if len(lost):
            rows = [[*(row[n] for n in x.design.factors), row["reason"], fixed(row["packets"], 0)] for _, row in lost.head(CELL_ROWS).iterrows()]
            columns = [*x.design.factors, "reason", "packets"]
            parts.append(Table("Packets that were not measured, and why", columns, rows, {len(columns) - 1}))
        return Section("Packets", parts)

    def model(self):
        x, parts = self.x, []
        try:
            shares, anova = x.variation(), x.anova()
        except (ValueError, KeyError) as error:
            return Section("Model", [Text("The model cannot be fitted: %s." % reason(error))])
        column = shares.columns[0] if hasattr(shares, "columns") else None
        share = shares[column] if column is not None else shares
        # Rounding errors of sums of squares are no variation.
        total = float(anova["ss"].sum())
        exact = not float(anova["ss"].iloc[-1]) > 1e-12 * total
        rows = []
        for term, row in anova.iterrows():
            none = not row["ss"] > 1e-12 * total
            rows.append([term, number(row["df"]), "0" if none else number(row["ss"]), "0" if none else number(row["ms"]),
                         *(("", "") if exact else (number(row["f"]), p_short(row["p"]))),
                         "%.2f" % float(share[term]) if term in share.index else ""])  # fmt: skip
        scale = "the logarithm of %s" % x.measure if self.log else x.measure
        parts.append(Table("Analysis of variance of %s, blocks first, sums of squares in sequence" % scale,
                           ["term", "df", "SS", "MS", "F", "p", "variation, %"], rows, {1, 2, 3, 4, 5, 6}))  # fmt: skip
        if exact:
            parts.append(Text("All runs of a cell have the same value: there is no error to test terms against, and there are no residuals to draw.", note=True))
            return Section("Model", parts)
        parts.append(Text("A small p says that chance alone rarely gives such data, and a large p is no evidence that there is no effect. How large a term is, the effects say.", note=True))
        caption = "Deviations from the mean of each level and pair of levels, with 95 % intervals over blocks; levels of a term sum to zero."
        crossed = x.design.crossed()
        count = [len(x.design.factors[name]) for name in crossed]
        pairs = sum(a * b for a, b in itertools.combinations(count, 2))
        terms = None
        if sum(count) + pairs > COEFFICIENT_ROWS:
            terms = crossed
            caption = "Deviations from the mean of each level, with 95 %% intervals over blocks; levels of a term sum to zero. The %d pairs of levels are too many to draw." % pairs
        parts.append(self.figure("Coefficients", caption, lambda: x.plot.coefficients(terms)))
        parts.append(self.figure("Residuals in run order", "Runs less their cell's mean, in the order in which they were made, with a moving median: a slope is drift.", lambda: x.plot.run_order()))
        parts.append(self.figure("Normal quantiles of residuals", "Points on the line are normal; ends that bend away are heavy tails.", lambda: x.plot.qq()))
        parts.append(self.figure("Residuals by fit", "Residuals against fitted values: a funnel is unequal variance.", lambda: x.plot.residuals()))
        return Section("Model and residuals", parts)

    def means(self):
        x, parts = self.x, []
        for measure in x.design.measures:
            table = x.means(measure)
            table["sd"] = table["sd"].where(~(table["sd"] < 1e-12 * table["mean"].abs()), 0.0)  # rounding errors
            write = column([*table["max"], *table["high"]], table["sd"])
            rows = [[*(row[n] for n in x.design.factors), row["n"], write(row["mean"]), interval(row["low"], row["high"], write), write(row["sd"]),
                     write(row["median"]), write(row["min"]), write(row["max"])] for _, row in table.head(CELL_ROWS).iterrows()]  # fmt: skip
            columns = [*x.design.factors, "blocks", "mean", "95 % (t)", "sd", "median", "min", "max"]
            caption = x.design.measures[measure].label + ("" if len(table) <= CELL_ROWS else ": the first %d of %d cells" % (CELL_ROWS, len(table)))
            parts.append(Table(caption, columns, rows, set(range(len(x.design.factors), len(columns)))))
        return Section("Cells", parts)

    def design(self):
        d, parts = self.x.design, []
        rows = [[name, ", ".join(levels)] for name, levels in d.factors.items()]
        parts.append(Table("Factors; the first level is the base", ["factor", "levels"], rows))
        order = ", ".join("%s %s" % (k.replace("_", " "), _plain(v)) for k, v in d.order.items())
        stop = ", ".join("%s %s" % (k.replace("_", " "), _plain(v)) for k, v in d.stop.items() if v not in (None, "", 0))
        facts = [["design", order], ["seed", d.seed], ["hash", d.hash], ["stop", stop], ["cells", len(d.cells)]]
        parts.append(Table("Design", ["", ""], [[k, v] for k, v in facts if v not in ("", 0)]))
        for name, sentence in (("differences", "The hosts differ in what can change a result: %s."), ("changes", "The environment changed during the experiment: %s.")):
            found = d.environment.get(name)
            if isinstance(found, list) and found:
                parts.append(Text(sentence % "; ".join(str(one) for one in found)))
        environment = list(_flat({k: v for k, v in d.environment.items() if k not in ("differences", "changes")}))
        if environment:
            parts.append(Table("Environment, as the runner found it", ["", ""], environment))
        if self.x.source:
            parts.append(Code("The experiment file", self.x.source))
        return Section("Design and environment", parts)

    def excluded(self):
        x, out = self.x, self.x.excluded
        parts = [Text(x.left_out()), *(Text(note) for note in x.notes)]
        if len(out):
            rows = [[r["block"], r["position"], " ".join("%s=%s" % (n, r[n]) for n in x.design.factors), r["attempt"],
                     r["why"], number(r[x.measure])]
                    for _, r in out.head(EXCLUDED_ROWS).iterrows()]  # fmt: skip
            columns = ["block", "position", "cell", "attempt", "why", x.design.measures[x.measure].label]
            caption = "Runs that do not count%s; blocks and positions from 0" % ("" if len(out) <= EXCLUDED_ROWS else ": the first %d of %d" % (EXCLUDED_ROWS, len(out)))
            parts.append(Table(caption, columns, rows, {0, 1, 3, 5}))
        return Section("Runs left out", parts)


def _no_distribution(groups):
    """Why no distribution of the groups' values is drawn; empty if one is."""
    if groups.size().max() < LEAST_VALUES:
        return "there are %d values of a level, and %d at least show one" % (groups.size().max(), LEAST_VALUES)
    if not (groups.max() > groups.min()).any():
        return "all values of a level are the same"
    return ""


def _span(span):
    """A time span in the two largest of its units."""
    seconds = round(span.total_seconds())
    for unit, size, part, less in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= size:
            return "%d %s %d %s" % (seconds // size, unit, seconds % size // less, part)
    return "%d s" % seconds


def _when(text):
    """A time of the journal, to the second."""
    time = pd.to_datetime(text, utc=True, errors="coerce")
    return text if pd.isna(time) else time.strftime("%Y-%m-%d %H:%M:%S UTC")


def _plain(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "%g" % value if isinstance(value, float) else str(value)


def _flat(value, prefix=""):
    """Names and values of an object within objects."""
    for key, one in value.items():
        name = "%s %s" % (prefix, key) if prefix else str(key)
        if isinstance(one, dict):
            yield from _flat(one, name)
        elif isinstance(one, list):
            yield [name, ", ".join(_plain(v) for v in one)]
        elif one not in (None, ""):
            yield [name, _plain(one)]


def compose(experiment, published=()):
    """The report of an experiment; published has sections with tables of papers."""
    x, make = experiment, _Composer(experiment)
    facts = [("runs", x.left_out())]
    if x.design.started:
        facts.append(("started", _when(x.design.started)))
    if len(x.runs) and x.runs["started"].notna().any():
        span = x.runs["started"].max() - x.runs["started"].min()
        facts.append(("took", "%s from the first run to the last, interruptions included" % _span(span)))
    if x.design.hash:
        facts.append(("design", x.design.hash[:12]))
    if x.runs.empty:
        sections = [Section("Verdicts", [Text("No run counts yet.")]), make.design(), make.excluded()]
    else:
        packets = [make.packets()] if bins.names(x) else []
        sections = [make.verdicts(), make.effects(), *published[:1], make.checks(), make.distribution(), *packets, make.model(),
                    make.means(), *published[1:], make.design(), make.excluded()]  # fmt: skip
    title = "Experiment %s" % (x.design.name or "without a name")
    if x.design.quick:
        title += ", quick run: no figures"
    return Report(title, x.design.question, facts, sections, x.design.name, x.design.hash)
