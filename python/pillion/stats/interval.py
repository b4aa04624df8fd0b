"""Confidence intervals: of a mean by Student's t, and of any statistic by the bootstrap."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from .outcome import is_constant, outcome, read_sample

# Values that one batch of resamples holds.
BATCH = 1 << 20

# Share of resamples that may be without a value, such as a correlation of equal values.
MOST_UNDEFINED = 0.05

NAMED = {"mean": np.mean, "median": np.median}


def check_confidence(confidence):
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence!r}: want a share between 0 and 1, such as 0.95")


def check_df(df, size):
    """Degrees of freedom of a mean of that many values: its own, or fewer that a caller names."""
    if df is None:
        return size - 1
    if not 1 <= df <= size - 1:
        raise ValueError(f"df={df!r}: want degrees of freedom between 1 and {size - 1}, as {size} values have")
    return df


def t_interval(values, confidence=0.95, df=None):
    """Mean of a sample and its confidence interval by Student's t.

    values: independent numbers, one a run or a block, at least two. Returns a Series: estimate,
    low, high (unit of the values) and df. It is exact for normal values, and good for others if
    they are many or not much skewed. A ratio is best taken as a difference of logarithms, and the
    ends of the interval exponentiated.

    df: the degrees of freedom if they are fewer than the sample's. If the deviation of a pilot
    decided how many values follow, give the pilot's, its number of values less one: with
    the sample's, the interval holds the mean too rarely.

    Sources: Student, The probable error of a mean, Biometrika 6 (1908) 1-25; for df of a pilot
    Stein, A two-sample test for a linear hypothesis whose power is independent of the variance,
    Annals of Mathematical Statistics 16 (1945) 243-258."""
    check_confidence(confidence)
    sample = read_sample(values)
    mean, df = float(sample.mean()), check_df(df, len(sample))
    if is_constant(sample):
        return outcome("constant sample: its interval is a point", estimate=mean, low=mean, high=mean, df=df)
    width = float(stats.t.ppf((1 + confidence) / 2, df) * sample.std(ddof=1) / np.sqrt(len(sample)))
    return outcome(estimate=mean, low=mean - width, high=mean + width, df=df)


def bca(values, statistic="mean", confidence=0.95, resamples=10000, seed=1):
    """Bootstrap confidence interval of a statistic, bias-corrected and accelerated (BCa).

    values: independent observations: a list of numbers, or an array or DataFrame whose rows are
    resampled whole. statistic: "mean", "median", or a function from such values to a number.
    resamples are drawn from seed.

    Returns a Series: estimate (the statistic of the values), low, high (its unit), z0 (bias
    correction, in standard deviations of a normal distribution; resampled values equal to the
    estimate count half) and acceleration (from the jackknife). If the values or all resampled
    statistics are equal, low and high are the estimate, and an entry note says so; there is also
    a note if the estimate lies at or beyond the edge of the resampled values, where the interval
    is not to be relied upon. Otherwise there is no note.

    It assumes no form of distribution, but small samples do not hold enough of it: with fewer
    than 20 observations less than 95 % of intervals cover the true value, and those by t
    cover more. Time series are not independent.

    Source: Efron, Better bootstrap confidence intervals, JASA 82 (1987) 171-185; Efron and
    Tibshirani, An Introduction to the Bootstrap (1993), chapter 14."""
    check_confidence(confidence)
    if isinstance(resamples, bool) or int(resamples) != resamples or resamples < 100:
        raise ValueError(f"resamples={resamples!r}: want a number of at least 100")
    sample = _read_rows(values)
    statistic = _Statistic(statistic, sample)
    estimate = statistic.of(sample)
    if not np.isfinite(estimate):
        raise ValueError(f"statistic gives {estimate} for the values: want a finite number")
    equal = all(is_constant(column) for column in np.atleast_2d(statistic.array.T))
    drawn, undefined = np.full(1, estimate), 0
    if not equal:
        drawn = statistic.resampled(int(resamples), np.random.default_rng(seed))
        undefined = int(np.sum(~np.isfinite(drawn)))
        if undefined > MOST_UNDEFINED * len(drawn):
            raise ValueError(f"statistic gives no finite number for {undefined} of {len(drawn)} resamples")
        drawn = drawn[np.isfinite(drawn)]
    if equal or is_constant(np.append(drawn, estimate)):
        note = (
            "constant sample: its interval is a point"
            if equal
            else "all resampled statistics are equal: the interval is a point"
        )
        return outcome(note, estimate=estimate, low=estimate, high=estimate, z0=0.0, acceleration=0.0)
    rounding = 1e-12 * max(abs(estimate), np.ptp(drawn))
    below = (np.sum(drawn < estimate - rounding) + np.sum(drawn <= estimate + rounding)) / 2 / len(drawn)
    note = f"{undefined} resamples are left out: the statistic is not defined for them" if undefined else ""
    if not 0 < below < 1:
        note = "the estimate lies beyond all resampled statistics: the interval is not to be relied upon"
        below = min(max(below, 0.5 / len(drawn)), 1 - 0.5 / len(drawn))
    z0 = float(stats.norm.ppf(below))
    acceleration = _acceleration(statistic.jackknife())
    low, high = (
        _end(drawn, z0, acceleration, z) for z in stats.norm.ppf([(1 - confidence) / 2, (1 + confidence) / 2])
    )
    return outcome(note, estimate=estimate, low=low, high=high, z0=z0, acceleration=acceleration)


def _end(drawn, z0, acceleration, z):
    shifted = z0 + z
    scale = 1 - acceleration * shifted
    # Beyond the pole the transformation is not monotonic: its limit is the outermost value.
    share = stats.norm.cdf(z0 + shifted / scale) if scale > 0 else float(shifted > 0)
    return float(np.quantile(drawn, share, method="weibull"))


def _acceleration(jackknife):
    if not np.isfinite(jackknife).all():
        raise ValueError("statistic gives no finite number without one of the values: BCa needs it")
    influence = jackknife.mean() - jackknife
    size = np.sqrt((influence**2).sum())
    if size <= 1e-12 * np.abs(jackknife).max() * np.sqrt(len(jackknife)):
        return 0.0
    return float(((influence / size) ** 3).sum() / 6)


def _read_rows(values):
    """A list as an array, a table as it is, without missing numbers."""
    if isinstance(values, pd.DataFrame) or np.ndim(values) == 2:
        table = values if isinstance(values, pd.DataFrame) else np.asarray(values, dtype=float)
        numbers = values.select_dtypes("number") if isinstance(values, pd.DataFrame) else table
        if len(table) < 2:
            raise ValueError(f"values: {len(table)} rows given, want at least 2")
        if (
            isinstance(values, pd.DataFrame)
            and values.isna().to_numpy().any()
            or not np.isfinite(np.asarray(numbers, dtype=float)).all()
        ):
            raise ValueError("values: some are missing or infinite")
        return table
    return read_sample(values)


class _Statistic:
    """A function of a sample; along an axis at once if it can."""

    def __init__(self, function, sample):
        if isinstance(function, str):
            if function not in NAMED:
                raise ValueError(f"statistic {function!r}: want a function, or one of {', '.join(NAMED)}")
            function = NAMED[function]
        if not callable(function):
            raise TypeError(f"statistic {function!r}: want a function of the values")
        self.function, self.sample = function, sample
        self.array = sample.to_numpy() if isinstance(sample, pd.DataFrame) else sample
        self.along_axis = isinstance(sample, np.ndarray) and sample.ndim == 1 and self._check_axis()

    def of(self, sample):
        with np.errstate(all="ignore"):
            value = self.function(sample)
        if np.ndim(value) != 0 and np.size(value) != 1:
            raise ValueError(f"statistic gives {np.size(value)} values: want one number")
        return float(np.asarray(value).reshape(-1)[0])

    def _check_axis(self):
        rows = np.stack([self.sample, self.sample[::-1], np.roll(self.sample, 1) * 0.5])
        rows[2, 0] = self.sample[0]
        try:
            found = np.asarray(self.function(rows, axis=1), dtype=float)
            return found.shape == (3,) and np.allclose(found, [self.of(r) for r in rows], rtol=1e-12, atol=0)
        except Exception:  # whatever a function does that has no such argument
            return False

    def resampled(self, count, random):
        n = len(self.sample)
        if not self.along_axis:
            return np.array([self.of(self._take(random.integers(n, size=n))) for _ in range(count)])
        size = max(1, BATCH // n)
        with np.errstate(all="ignore"):
            return self._in_batches(count, size, random)

    def _in_batches(self, count, size, random):
        n = len(self.sample)
        parts = [
            self.function(self.sample[random.integers(n, size=(min(size, count - i), n))], axis=1)
            for i in range(0, count, size)
        ]
        return np.concatenate(parts)

    def jackknife(self):
        n = len(self.sample)
        rows = np.arange(n)
        return np.array([self.of(self._take(np.delete(rows, i))) for i in range(n)])

    def _take(self, rows):
        return self.sample.iloc[rows] if isinstance(self.sample, pd.DataFrame) else self.sample[rows]
