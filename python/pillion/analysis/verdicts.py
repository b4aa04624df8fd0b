"""Verdicts: met, missed or undecided, from the interval against the target."""

import copy
import dataclasses

import numpy as np
import pandas as pd

from pillion.analysis import effects
from pillion.analysis.design import fits

MET, MISSED, UNDECIDED = "met", "missed", "undecided"


def decide(low, high, target, p=None, confidence=0.95):
    """The verdict of an interval.

    Within a distance of no effect, met is a matter of the equivalence test: that an
    interval contains no effect shows nothing.
    """
    if np.isnan(low) or np.isnan(high):
        return UNDECIDED
    if target.within is not None:
        if p is not None and p < 1 - confidence:
            return MET
        return MISSED if _outside(low, high, target) else UNDECIDED
    if target.at_least is not None and high < target.at_least or target.at_most is not None and low > target.at_most:
        return MISSED
    if (target.at_least is None or low >= target.at_least) and (target.at_most is None or high <= target.at_most):
        return MET
    return UNDECIDED


def _outside(low, high, target):
    return low > target.high or high < target.low


def number(value):
    """A number with as many digits as its interval deserves."""
    return "%.4g" % value


def _selected(x, where, measure):
    """One value per block: the mean over the cells that a target names."""
    values = effects.block_values(x, measure)
    names = list(x.design.factors)
    cells = [c for c in values if fits(where, dict(zip(names, c)))]
    return values[cells].mean(axis=1, skipna=False).dropna() if cells else pd.Series(dtype=float)


class _Bound:
    """A target with the bounds of its distance on the scale of the effect."""

    def __init__(self, target, is_ratio):
        self.at_least, self.at_most, self.within = target.at_least, target.at_most, target.within
        if self.within is not None:
            middle = 1.0 if is_ratio else 0.0
            self.low, self.high = middle - self.within, middle + self.within

    def label(self, is_ratio):
        if self.within is not None:
            return "within %s of no effect" % ("%g %%" % (100 * self.within) if is_ratio else "%g" % self.within)
        parts = ["at least %g" % self.at_least] if self.at_least is not None else []
        parts += ["at most %g" % self.at_most] if self.at_most is not None else []
        return " and ".join(parts)


def _reason(verdict, bound, low, high, n):
    if n < 2:
        return "too few blocks"
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
    targets, rows, all_of, column = x.design.targets, [], x, effects.estimate_name(x.design)
    level = 1 - (1 - confidence) / len(targets) if simultaneous and targets else confidence
    for target in targets:
        x = _plain(all_of) if target.of == "mean" else all_of
        is_ratio, estimate = x.design.response == "log_ratio", effects.estimate_name(x.design)
        back = np.exp if x.design.is_log else (lambda v: v)
        base = " ".join("%s=%s" % pair for pair in x.design.to.items())
        values = _selected(x, target.where, target.measure)
        bound = _Bound(target, is_ratio)
        # A distance is decided by two one-sided tests, each at its level: a narrower interval.
        mean, low, high = (back(v) for v in effects.t_interval(values, level))
        p = None
        if target.within is not None and len(values) > 1:
            edges = (np.log(bound.low), np.log(bound.high)) if is_ratio else (bound.low, bound.high)
            p = effects.tost_of(values, *edges, level)
        verdict = decide(low, high, bound, p, level)
        what = target.measure + (" against " + base if base else "")
        sentence = "%s: %s %s %s [%s, %s] at %.4g\u00a0%% over %d blocks; target %s: %s, %s." % (
            target.label, what, estimate, number(mean), number(low), number(high), 100 * level, len(values),
            bound.label(is_ratio), verdict, _reason(verdict, bound, low, high, len(values)),
        )  # fmt: skip
        if len(values) == 0:
            sentence = "%s: no complete block has been measured; target %s: %s." % (target.label, bound.label(is_ratio), verdict)
        rows.append({"where": target.label, "measure": target.measure, "target": bound.label(is_ratio), "n": len(values),
                     column: mean, "low": low, "high": high, "p": np.nan if p is None else p, "verdict": verdict,
                     "sentence": sentence})  # fmt: skip
    return pd.DataFrame(rows, columns=["where", "measure", "target", "n", column, "low", "high", "p", "verdict", "sentence"])


def precision(x, confidence=0.95):
    """The half-width of the effects that the stop rule names, asked and reached."""
    stop = x.design.stop
    asked, term = share(stop.get("half_width")), stop.get("effect")
    term = term if term and all(name in x.design.factors for name in term.split(":")) else None
    table = effects.effects(x, term, confidence=confidence, resamples=0)
    if table.empty or table["low"].isna().all():
        return "Too few blocks for an interval."
    if x.design.is_log:
        half = float((np.log(table["high"] / table["low"]) / 2).max())
        reached, wanted = "±%.2g %%" % (100 * np.expm1(half)), "±%g %%" % (100 * (asked or 0))
        half = float(np.expm1(half))
    else:
        half = float(((table["high"] - table["low"]) / 2).max())
        reached, wanted = "±%.3g" % half, "±%g" % (asked or 0)
    of = "The effects of %s are" % term if term else "Effects are"
    text = "%s known to %s at %g %%, in %d blocks" % (of, reached, 100 * confidence, int(table["n"].max()))
    if asked is None:
        return text + "."
    if half <= asked * 1.0005:
        return "%s; %s was asked for." % (text, wanted)
    return "%s; %s was asked for and not reached: that an effect is not seen at this width does not mean that there is none." % (text, wanted)


def share(value):
    """A number, or a text such as 2%, as a number; None without."""
    if value in (None, ""):
        return None
    if isinstance(value, str):
        text = value.strip()
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    return float(value)
