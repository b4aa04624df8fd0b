"""Equivalence: that a difference is too small to matter."""

from __future__ import annotations

import numpy as np
from scipy import stats

from .interval import check_confidence, check_df
from .outcome import outcome, read_sample


def tost(values, other=None, low=None, high=None, paired=False, equal_variance=False, confidence=0.95, df=None):
    """Equivalence test by two one-sided t tests: does a mean, or a difference of means, lie
    between low and high?

    values: independent runs. other: a second sample, with whose mean the mean of the first is
    compared (values - other), with paired=True pair by pair, for instance in one block; None: the mean
    of values itself, for instance of log ratios. low, high: the margin within which a difference
    does not matter, in the unit of the values, fixed before measuring. equal_variance: pool both
    variances; otherwise Welch's test. df: as for t_interval; of one sample or pairs only.

    Returns a Series: difference; low and high, the interval of confidence 1 - 2 (1 - confidence),
    90 % by default; p_low and p_high, of the tests against both margins; df; and p, the larger of
    the two. If p < 1 - confidence, which is so exactly if the interval lies within the margin, the
    difference is too small to matter. A large p does not say that there is a difference: it may
    be undecided. Samples without variation give p = 0 or 1 and an entry note.

    Source: Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987) 657-680."""
    check_confidence(confidence)
    if low is None or high is None or not low < high:
        raise ValueError(f"margin from {low!r} to {high!r}: want low < high, in the unit of the values")
    sample = read_sample(values)
    if other is None:
        if paired:
            raise ValueError("paired=True wants a second sample")
        difference, deviation, df = _one(sample, df)
    else:
        second = read_sample(other, "other")
        if paired:
            if len(sample) != len(second):
                raise ValueError(f"paired: {len(sample)} and {len(second)} values, want as many")
            difference, deviation, df = _one(sample - second, df)
        elif df is not None:
            raise ValueError("df is of one sample or of pairs: give no other, or paired=True")
        else:
            difference, deviation, df = _two(sample, second, equal_variance)
    scale = max(np.abs(sample).max(), 0 if other is None else np.abs(second).max())
    if deviation <= 1e-14 * scale:
        within = float(not low < difference < high)
        return outcome(
            "no variation: its interval is a point",
            difference=difference,
            low=difference,
            high=difference,
            p_low=within,
            p_high=within,
            df=df,
            p=within,
        )
    p_low = float(stats.t.sf((difference - low) / deviation, df))
    p_high = float(stats.t.cdf((difference - high) / deviation, df))
    width = float(stats.t.ppf(confidence, df)) * deviation
    return outcome(
        difference=difference,
        low=difference - width,
        high=difference + width,
        p_low=p_low,
        p_high=p_high,
        df=df,
        p=max(p_low, p_high),
    )


def _one(sample, df):
    return float(sample.mean()), float(sample.std(ddof=1) / np.sqrt(len(sample))), check_df(df, len(sample))


def _two(first, second, equal_variance):
    difference = float(first.mean() - second.mean())
    n, m = len(first), len(second)
    v, w = first.var(ddof=1), second.var(ddof=1)
    if equal_variance:
        pooled = ((n - 1) * v + (m - 1) * w) / (n + m - 2)
        return difference, float(np.sqrt(pooled * (1 / n + 1 / m))), n + m - 2
    deviation = np.sqrt(v / n + w / m)
    if deviation == 0:
        return difference, 0.0, n + m - 2
    return (
        difference,
        float(deviation),
        float(deviation**4 / ((v / n) ** 2 / (n - 1) + (w / m) ** 2 / (m - 1))),
    )
