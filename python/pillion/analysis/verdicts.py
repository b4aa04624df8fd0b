"""Verdicts: met, missed or undecided, from the interval against the target."""

import copy
import dataclasses

import numpy as np
import pandas as pd

from pillion.analysis import effects, numbers
from pillion.analysis.design import fits
from pillion.analysis.numbers import number, share

MET, MISSED, UNDECIDED = "met", "missed", "undecided"


def decide(low, high, least=-np.inf, most=np.inf):
    """The verdict of an interval for a target that values from least to most meet.

    Within a distance of no effect the interval corresponds to two one-sided tests, so that met
    is their result: that an interval contains no effect shows nothing.
    """
    if np.isnan(low) or np.isnan(high):
        return UNDECIDED
    if low >= least and high <= most:
        return MET
    if high < least or low > most:
        return MISSED
    return UNDECIDED


def _selected(x, where, measure):
    """One value per block: the mean over the cells that a target names."""
    values = effects.block_values(x, measure)
    names = list(x.design.factors)
    cells = [c for c in values if fits(where, dict(zip(names, c)))]
    return values[cells].mean(axis=1, skipna=False).dropna() if cells else pd.Series(dtype=float)


class _Bound:
    """A target as a range of effects that meet it."""

    def __init__(self, target, is_ratio):
        self.at_least, self.at_most, self.within, self.is_ratio = target.at_least, target.at_most, target.within, is_ratio
        if self.within is not None:
            self.low, self.high = effects.margin(self.within, is_ratio)
        else:
            self.low = -np.inf if self.at_least is None else self.at_least
            self.high = np.inf if self.at_most is None else self.at_most

    @property
    def label(self):
        if self.within is not None:
            return "within %s of no effect" % ("%g\u00a0%%" % (100 * self.within) if self.is_ratio else "%g" % self.within)
        parts = ["at least %g" % self.at_least] if self.at_least is not None else []
        parts += ["at most %g" % self.at_most] if self.at_most is not None else []
        return " and ".join(parts)


def _reason(verdict, bound):
    if verdict == UNDECIDED:
        return "the interval contains the bound; more blocks would narrow it"
    if bound.within is not None:
        return "by two one-sided tests" if verdict == MET else "the whole interval lies outside"
    if bound.at_least is not None and bound.at_most is not None:
        return "the whole interval lies %s the bounds" % ("within" if verdict == MET else "outside")
    above = (bound.at_least is not None) == (verdict == MET)
    return "the whole interval lies %s the bound" % ("above" if above else "below")


def _plain(x):
    """The experiment with values in place of what its response compares."""
    plain = copy.copy(x)
    plain.design = dataclasses.replace(x.design, response="value", to={})
    return plain


def verdicts(x, confidence=0.95, simultaneous=False):
    targets = x.design.targets
    level = 1 - (1 - confidence) / len(targets) if simultaneous and targets else confidence
    column = effects.estimate_name(x.design)
    columns = ["where", "measure", "target", "n", column, "low", "high", "confidence", "verdict", "sentence"]
    return pd.DataFrame([_judge(_plain(x) if t.of == "mean" else x, t, level, column) for t in targets], columns=columns)


def _judge(x, target, level, column):
    """One target as a row, whose estimate is in that column."""
    bound, estimate = _Bound(target, x.design.is_log), effects.estimate_name(x.design)
    row = {"where": target.label, "measure": target.measure, "target": bound.label, "n": 0, column: np.nan, "low": np.nan, "high": np.nan}
    # Two one-sided tests at 5 % are one interval of 90 %.
    row["confidence"] = level if target.within is None else 2 * level - 1
    start = "%s: %%s; target %s: %%s, %%s." % (target.label.replace("%", "%%"), bound.label.replace("%", "%%"))
    if x.design.quick:
        return {**row, "verdict": UNDECIDED, "sentence": start % ("was not judged", UNDECIDED, "a quick run is no measurement")}
    try:
        values = _selected(x, target.where, target.measure)
    except ValueError as error:  # such as a measure of zero, of which there is no ratio
        return {**row, "verdict": UNDECIDED, "sentence": start % ("cannot be judged", UNDECIDED, str(error))}
    if values.empty:
        return {**row, "verdict": UNDECIDED, "sentence": start % ("no block is complete yet", UNDECIDED, "nothing was measured")}
    back = np.exp if x.design.is_log else (lambda v: v)
    row["n"] = len(values)
    row[column], row["low"], row["high"] = (back(v) for v in effects.t_interval(x, values, row["confidence"]))
    row["verdict"] = decide(row["low"], row["high"], bound.low, bound.high)
    base = x.design.base_label
    unit = x.design.measures[target.measure].shown_unit if estimate != "ratio" else ""
    write = numbers.column([row[column], row["low"], row["high"]], [(row["high"] - row["low"]) / 2], is_ratio=x.design.is_log)
    found = "%s%s, %s %s%s [%s, %s] at %.4g\u00a0%% over %s" % (
        target.measure, " against " + base if base else "", estimate, write(row[column]), " " + unit if unit else "", write(row["low"]),
        write(row["high"]), 100 * row["confidence"], numbers.count(len(values), "block"),
    )  # fmt: skip
    reason = "too few blocks" if len(values) < 2 else _reason(row["verdict"], bound)
    if len(values) > 1 and row["low"] == row["high"]:
        reason += "; every block has the same value, so that the interval is a point"
    return {**row, "sentence": start % (found, row["verdict"], reason)}


def margins(x):
    """The margins within which targets say that effects of the response's measure do not matter."""
    return sorted({t.within for t in x.design.targets if t.within and t.measure == x.measure and t.of == "ratio"})


def precision(x, confidence=0.95):
    """The half-width of the effects that the stop rule names, asked and reached.

    Without such a rule the effects of the response's factors, or else of the cells.
    """
    stop = x.design.stop
    asked, term = share(stop.get("half_width")), stop.get("effect")
    terms = [term] if term in x.design.factors else list(x.design.to)
    table = pd.concat([effects.effects(x, term, confidence=confidence, resamples=0) for term in terms or [None]])
    if table.empty or table["low"].isna().all():
        return "Too few blocks for an interval."
    if x.design.is_log:
        half = float((np.log(table["high"] / table["low"]) / 2).max())
        reached = "±%.2g %%" % (100 * np.expm1(half)) if half < np.log(2) else "a factor of %s" % number(np.exp(min(half, 300)), 2)
        wanted = "±%g %%" % (100 * (asked or 0))
        half = float(np.expm1(half))
    else:
        half = float(((table["high"] - table["low"]) / 2).max())
        reached, wanted = "±%.3g" % half, "±%g" % (asked or 0)
    of = "The effects of %s are" % " and ".join(terms) if terms else "Estimates are"
    text = "%s known to %s%s at %g %%, in %s" % (of, reached, " or better" if len(table) > 1 else "", 100 * confidence, numbers.count(int(table["n"].max()), "block"))
    if asked is None:
        return text + "."
    if half <= asked * 1.0005:
        return "%s; %s was asked for." % (text, wanted)
    return "%s; %s was asked for and not reached: that an effect is not seen at this width does not mean that there is none." % (text, wanted)
