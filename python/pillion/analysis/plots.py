"""The figures of an experiment. Each method returns a matplotlib Figure."""

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from pillion.analysis import bins, checks, effects, figures, levels, model, theme
from pillion.analysis.design import fits

# Ratios closer to 1 are pale in a heat map, whatever the others are.
SMALL = 0.02
# A third factor with more levels is averaged over: its panels would be too small.
PANELS = 6


class Plots:
    """Figures of one experiment; by, line, rows and columns name factors."""

    def __init__(self, experiment):
        self._x = experiment

    def _factor(self, name, at=0):
        names = self._x.design.crossed() or list(self._x.design.factors)
        if name is None:
            return names[at] if at < len(names) else None
        if name not in self._x.design.factors:
            raise KeyError("no factor %r; there are %s" % (name, ", ".join(self._x.design.factors)))
        return name

    def _compared(self, x, name, at=0):
        """The named factor, or one with several levels besides the base if there is one."""
        if name is not None:
            return self._factor(name)
        left = {n: len(own) - (n in x.design.to) for n, own in x.design.factors.items() if len(own) > 1}
        several = [n for n, count in left.items() if count > 1] or list(left) or list(x.design.factors)
        return several[at] if at < len(several) else None

    def is_matrix(self):
        """Whether two factors have several levels to compare: of one, a heat map shows no more than the effects."""
        x = self._x
        return sum(len(own) - (name in x.design.to) > 1 for name, own in x.design.factors.items()) > 1

    def compared(self, by=None):
        """The factor whose levels the distributions compare."""
        return self._compared(self._x, by)

    def _label(self, measure):
        return self._x.design.measures[effects.measure_of(self._x, measure)].label

    def _grouped(self, by, measure, where, value):
        """Values by level, and what they are.

        With a base, the values of a run against the base in its block: the raw values of levels
        that were measured under other levels too would show the effect of those.
        """
        x = self._x.where(where) if where else self._x
        by, measure = self._compared(x, by), effects.measure_of(x, measure)
        if value not in ("response", "measure"):
            raise ValueError("value %r: use response or measure" % value)
        if value == "measure" or not x.design.to:
            runs = effects.runs_of(x)
            return {level: runs.loc[runs[by] == level, measure].dropna() for level in levels.ordered(x.design.factors[by])}, self._label(measure), by
        table = effects.responses(x, measure)
        values = np.exp(table["value"]) if x.design.is_log else table["value"]
        base = x.design.base_label
        label = "%s, %s %s in its block" % (measure, "ratio to" if x.design.is_log else "difference to", base)
        return {level: values[table[by] == level] for level in levels.ordered(x.design.factors[by])}, label, by

    def effects(self, term=None, measure=None, confidence=0.95, resamples=2000):
        """Effects with t intervals, BCa thinner below, and targets as marks."""
        x = self._x
        table = effects.effects(x, term, measure, confidence, resamples)
        estimate = table.attrs["estimate"]
        names = x.design.crossed() if term is None else term.split(":")
        labels = table[names].astype(str).agg(" · ".join, axis=1)
        bounds = []
        if term is None:
            for target in (t for t in x.design.targets if t.of == "ratio"):
                rows = [i for i, row in enumerate(table[list(x.design.factors)].to_dict("records"))
                        if fits(target.where, row)]  # fmt: skip
                within = () if target.within is None else effects.margin(target.within, x.design.is_log)
                for value in (target.at_least, target.at_most, *within):
                    if value is not None and target.measure == table.attrs["measure"] and len(rows) == 1:
                        bounds.append((rows[0], value))
        by = next(iter(x.design.to), None)
        groups = list(table[by].astype(str)) if by in table and len(set(table[by])) > 1 else None
        reference = {"ratio": 1.0, "difference": 0.0}.get(estimate)
        name = effects.measure_of(x, measure)
        base = x.design.base_label
        label = {"ratio": "%s, ratio to %s" % (name, base), "difference": "%s, difference to %s" % (self._label(measure), base)}
        return figures.intervals(labels, table[estimate], table["low"], table["high"], label.get(estimate, self._label(measure)), reference,
                                 groups, (table["bca_low"], table["bca_high"]) if table["bca_low"].notna().any() else None, bounds,
                                 estimate == "ratio")  # fmt: skip

    def means(self, by=None, line=None, measure=None, where=None, confidence=0.95):
        """Means over blocks with t intervals, by the levels of one or two factors."""
        return self._series(by, line, None, measure, where, confidence)

    def interaction(self, by=None, line=None, measure=None, where=None, confidence=0.95, panel=None, value="mean"):
        """Means, or with value="effect" effects, joined by lines: where they are not parallel, factors interact.

        panel has a third factor.
        """
        crossed = self._x.design.crossed()
        if len(crossed) < 2 and line is None:
            raise ValueError("interaction: there are not two factors with two levels")
        if by is None and line is None:
            by, line, panel = self.axes()
        line = line or next(name for name in crossed if name != by)
        return self._series(by, line, panel, measure, where, confidence, value)

    def is_dominated(self, by, line, panel):
        """Whether a categorical factor changes the means so much that no other effect is visible on the same axis."""
        x = self._x
        if not x.design.to or by in x.design.to or line is None or levels.numbers(x.design.factors[by]) is not None:
            return False
        table = effects.means(x, None, [name for name in x.design.factors if name not in (by, line, panel)])
        means = table.groupby([n for n in (line, panel) if n], observed=True)["mean"]
        return bool((means.min() > 0).all() and (means.max() / means.min() > 100).any())

    def axes(self):
        """The factors on the axis, as lines and as panels that make an interaction plot easy to read, None without.

        Numbers make the axis, of which the one with most levels; what the response compares makes the lines, unless they
        would be more than the palette has.
        """
        x = self._x
        factors, names = x.design.factors, x.design.crossed()
        by = max(names, key=lambda n: (levels.numbers(factors[n]) is not None, n not in x.design.to, len(factors[n])))
        if levels.numbers(factors[by]) is None:
            # Of categories the longest makes the axis: few lines are easier to read.
            by = max(names[:3], key=lambda n: len(factors[n]))
        left = sorted((n for n in names if n != by), key=lambda n: (len(factors[n]) > len(theme.COLOURS), n not in x.design.to, -len(factors[n])))
        line = left[0] if left else None
        panel = next((n for n in left[1:] if len(factors[n]) <= PANELS), None)
        return by, line, panel

    def _series(self, by, line, panel, measure, where, confidence, value="mean"):
        x = self._x.where(where) if where else self._x
        by = self._factor(by)
        if line == by:
            raise ValueError("%r is both the axis and the lines" % by)
        label = self._label(measure)
        if value == "effect":
            table = effects.effects(x, ":".join(n for n in x.design.factors if n in (by, line, panel)), measure, confidence, resamples=0)
            label = "%s, %s to the base" % (effects.measure_of(x, measure), table.attrs["estimate"])
            table = table.rename(columns={table.attrs["estimate"]: "mean"})
        else:
            table = effects.means(x, measure, [name for name in x.design.factors if name not in (by, line, panel)], None, confidence)
        places = levels.ordered(x.design.factors[by])
        panels = {}
        for part in levels.ordered(x.design.factors[panel]) if panel else [""]:
            lines = {}
            for level in levels.ordered(x.design.factors[line]) if line else [""]:
                own = table[table[line] == level] if line else table
                own = own[own[panel] == part] if panel else own
                own = own.set_index(own[by].astype(str)).reindex(places)
                if own["mean"].notna().any():
                    lines[level] = (own["mean"], own["low"], own["high"])
            panels["%s = %s" % (panel, part) if panel else ""] = lines
        return figures.panels(panels, places, label, by, line, levels.numbers(places))

    def heat_map(self, rows=None, columns=None, measure=None, where=None, value="effect"):
        """Effects, or means with value="mean", by two factors."""
        x = self._x.where(where) if where else self._x
        of_effects = value == "effect" and bool(x.design.to)
        choose = (lambda name, at: self._compared(x, name, at)) if of_effects else self._factor
        if rows is None and columns is None:
            rows, columns = choose(None, 0), choose(None, 1)
        rows = choose(rows, 0)
        columns = columns or next((n for n in x.design.crossed() if n != rows), None)
        if columns is None or rows == columns:
            raise ValueError("heat map: name two factors")
        if of_effects:
            table = effects.effects(x, "%s:%s" % (rows, columns), measure, resamples=0)
            name = table.attrs["estimate"]
            label = "%s, %s to the base" % (effects.measure_of(x, measure), name)
            middle = {"ratio": 1.0, "difference": 0.0}.get(name)
        else:
            table = effects.means(x, measure, [n for n in x.design.factors if n not in (rows, columns)])
            name, label, middle = "mean", self._label(measure), None
        matrix = table.pivot(index=rows, columns=columns, values=name)
        matrix.index, matrix.columns = matrix.index.astype(str), matrix.columns.astype(str)
        matrix = matrix.reindex(index=[v for v in levels.ordered(x.design.factors[rows]) if v in matrix.index],
                                columns=[v for v in levels.ordered(x.design.factors[columns]) if v in matrix.columns])  # fmt: skip
        return figures.heat_map(matrix.to_numpy(), list(matrix.index), list(matrix.columns), label, rows, columns, middle,
                                None, SMALL if middle == 1.0 else 0.0, name == "ratio")  # fmt: skip

    def ecdf(self, by=None, measure=None, where=None, value="response"):
        """Empirical distribution of runs, by level; value="measure" without reference to the base."""
        groups, label, by = self._grouped(by, measure, where, value)
        return figures.ecdf(groups, label, by, self._is_ratio(value), "runs")

    def histogram(self, by=None, measure=None, where=None, value="response", bins=None):
        """Relative frequencies of runs, by level, in shared bins; nothing is clipped."""
        groups, label, by = self._grouped(by, measure, where, value)
        return figures.histogram(groups, label, bins, by, "runs")

    def frequencies(self, name, where=None):
        """Relative frequencies of a histogram that runs report, all runs of a cell together."""
        x = self._x.where(where) if where else self._x
        table, factors = bins.pooled(x, name), x.design.crossed() or list(x.design.factors)
        unit = bins.unit(x, name)
        groups = {" · ".join("%s=%s" % pair for pair in zip(factors, key if isinstance(key, tuple) else (key,))): own
                  for key, own in table.groupby(factors, observed=True, sort=True)}  # fmt: skip
        return figures.frequencies(groups, "%s, %s" % (name, unit) if unit else name)

    def violin(self, by=None, measure=None, where=None, value="response"):
        """Densities of runs, by level."""
        return figures.violin(*self._grouped(by, measure, where, value))

    def box(self, by=None, measure=None, where=None, value="response"):
        """Quartiles of runs, by level."""
        return figures.box(*self._grouped(by, measure, where, value), self._is_ratio(value))

    def _is_ratio(self, value):
        return value == "response" and self._x.design.response == "log_ratio"

    def _scale(self, measure, what):
        measure = effects.measure_of(self._x, measure)
        return "%s of log %s" % (what, measure) if self._x.design.is_log else "%s of %s" % (what, self._label(measure))

    def qq(self, measure=None):
        """Residuals against normal quantiles."""
        return figures.qq(checks.residuals(self._x, measure)["residual"], self._scale(measure, "residual"))

    def residuals(self, measure=None):
        """Residuals against fitted values; where the analysis is of logs these are on a logarithmic axis in their unit."""
        table, is_log = checks.residuals(self._x, measure), self._x.design.is_log
        label = "fitted %s" % self._label(measure)
        return figures.scatter(np.exp(table["fitted"]) if is_log else table["fitted"], table["residual"], label, self._scale(measure, "residual"), is_log=is_log)

    @theme.themed
    def run_order(self, measure=None):
        """Runs in the order in which they were made, less their cell's mean, with a moving median.

        Runs that do not count are crosses at the lower edge.
        """
        x, table = self._x, checks.residuals(self._x, measure, blocks=False)
        figure, axes = figures.blank(height=2.6)
        axes.plot(table["run_order"], table["residual"], linestyle="none", marker="o", markersize=2.5, color=theme.colour(0), alpha=0.7,
                  label="runs")  # fmt: skip
        span = max(5, len(table) // 15) | 1
        middle = pd.Series(table["residual"].to_numpy()).rolling(span, center=True, min_periods=span // 2 + 1).median()
        axes.plot(table["run_order"], middle, color=theme.colour(1), label="moving median of %d" % span)
        if len(x.excluded):
            low = table["residual"].min() - 0.06 * (np.ptp(table["residual"]) or 1)
            axes.plot(x.excluded["run_order"], np.full(len(x.excluded), low), linestyle="none", marker="x", color=theme.INK, markersize=4,
                      label="not counted")  # fmt: skip
        axes.axhline(0, color=theme.FAINT, linewidth=0.8)
        name = effects.measure_of(x, measure)
        axes.set(xlabel="run, in order", ylabel=("log %s less\nits cell's mean" if x.design.is_log else "%s less\nits cell's mean") % name)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figures.large(axes.yaxis, table["residual"])
        figures.legend(axes, 2)
        return figure

    def coefficients(self, terms=None, measure=None, confidence=0.95, resamples=2000):
        """Coefficients of the model with t intervals, BCa thinner below."""
        table = model.coefficients(self._x, terms, measure, confidence, resamples)
        names = table["term"] + " · " + table["level"].str.replace(":", " · ")
        beside = (table["bca_low"], table["bca_high"]) if table["bca_low"].notna().any() else None
        return figures.intervals(list(names), table["estimate"], table["low"], table["high"],
                                 self._scale(measure, "deviation"), 0.0, list(table["term"]), beside)  # fmt: skip
