"""Tests of what other methods assume: independence in order, equal variance, a distribution.

A small p says that the assumption does not hold. A large one does not say that it holds: with
few runs these tests see little, with very many they see what does not matter.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy import stats

from .design import Design, read_numbers
from .formula import parse_formula
from .outcome import is_constant, outcome, read_sample

# How many random orders give the moments of turning points when there are ties.
ORDERS = 4000


def turning_points(values):
    """Turning-point test of independence: is a series in random order?

    values: in the order they were measured, at least three. A value is a turning point if it is
    greater than both its neighbours or less than both. Too few mean a slow drift, too many an
    oscillation from one to the next.

    Returns a Series: count, expected and variance of the count in random order, z and the
    two-sided p (normal approximation, good from about 10 values). If no neighbours are equal,
    expected = 2 (n - 2) / 3 and variance = (16 n - 29) / 90. If some are, the two are computed from
    the same values in random order (4,000 orders, of a fixed seed), and an entry note says so:
    the formulae do not hold for values with ties. A constant series gives z = 0, p = 1 and a
    note.

    Source: Kendall and Stuart, The Advanced Theory of Statistics 3 (1966) 45.18; Brockwell and
    Davis, Time Series: Theory and Methods (1991) section 9.4."""
    series = read_sample(values, least=3)
    n, count = len(series), int(_turns(series[None, :])[0])
    expected, variance, note = 2 * (n - 2) / 3, (16 * n - 29) / 90, ""
    if (series[1:] == series[:-1]).any():
        if is_constant(series):
            return outcome(
                "constant series: it has no order", count=0, expected=0.0, variance=0.0, z=0.0, p=1.0
            )
        expected, variance = _moments(series)
        note = "neighbours are equal: expected and variance are computed from the same values in random order"
    z = (count - expected) / np.sqrt(variance)
    return outcome(
        note,
        count=count,
        expected=expected,
        variance=variance,
        z=float(z),
        p=float(2 * stats.norm.sf(abs(z))),
    )


def _turns(series):
    """Turning points of each row."""
    step = np.sign(np.diff(series, axis=1))
    return (step[:, 1:] * step[:, :-1] < 0).sum(axis=1)


def _moments(series):
    random = np.random.default_rng(1)
    ranks = np.unique(series, return_inverse=True)[1].astype(np.float32)
    size = max(1, (1 << 20) // len(ranks))
    counts = []
    for begin in range(0, ORDERS, size):
        orders = np.tile(ranks, (min(size, ORDERS - begin), 1))
        counts.append(_turns(random.permuted(orders, axis=1, out=orders)))
    counts = np.concatenate(counts)
    variance = float(counts.var(ddof=1))
    return float(counts.mean()), variance if variance > 0 else 1.0


def breusch_pagan(data, formula):
    """Breusch-Pagan test: does the variance of the errors depend on the terms of the model?

    data: a DataFrame, one row a run. formula: "y ~ a * b". The squared residuals of the model are
    explained by its own terms. Returns a Series: statistic (n times the share explained), df and
    p (chi-squared). It is Koenker's form, which does not assume normal errors.

    Source: Breusch and Pagan, Econometrica 47 (1979) 1287-1294; Koenker, Journal of
    Econometrics 17 (1981) 107-112."""
    response, terms = parse_formula(formula)
    design = Design(data, terms)
    y = read_numbers(data, response)
    _, full = design.bases("sequential")
    df = full.shape[1]
    if len(y) - 1 - df < 1:
        raise ValueError(
            f"{formula}: no degrees of freedom are left for the residual: repeat runs, or leave out an interaction"
        )
    centred = y - y.mean()
    squares = (centred - full @ (full.T @ centred)) ** 2
    squares -= squares.mean()
    total = float(squares @ squares)
    if total <= 1e-26 * max(float((y**2).mean()) ** 2 * len(y), 1e-300):
        return outcome("the squared residuals are all equal", statistic=0.0, df=df, p=1.0)
    statistic = len(y) * float(((full.T @ squares) ** 2).sum()) / total
    return outcome(statistic=statistic, df=df, p=float(stats.chi2.sf(statistic, df)))


def shapiro(values):
    """Shapiro-Wilk test: are the values normal?

    values: independent, at least three: residuals of a model, or one treatment's runs. Returns a
    Series: statistic (W, 1 for a normal sample) and p. Above 5,000 values p is an extrapolation,
    and an entry note says so; a constant sample gives W = 1, p = 1 and a note.

    Source: Royston, Algorithm AS R94, Applied Statistics 44 (1995) 547-551."""
    sample = read_sample(values, least=3)
    if is_constant(sample):
        return outcome("constant sample: it has no distribution", statistic=1.0, p=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = stats.shapiro((sample - sample.mean()) / sample.std())
    note = "p is an extrapolation: the test is made for at most 5,000 values" if len(sample) > 5000 else ""
    return outcome(note, statistic=float(found.statistic), p=float(found.pvalue))


def ks(values, other="normal"):
    """Kolmogorov-Smirnov test: do two samples have the same distribution, or is one normal?

    values: independent. other: a second sample; or a function that is the cumulative
    distribution function, fixed before looking at the values; or "normal": a normal distribution
    with the mean and standard deviation of the values, for which p is Lilliefors's (the plain
    test's would be far too large; it is known between 0.001 and 0.99).

    Returns a Series: statistic (largest distance between the distribution functions, 0 to 1) and
    p (two-sided). It sees any difference: of place, spread or number of peaks. Ties make p larger
    than it should be.

    Source: Massey, JASA 46 (1951) 68-78; Lilliefors, JASA 62 (1967) 399-402."""
    if isinstance(other, str):
        if other not in ("normal", "norm"):
            raise ValueError(f"other={other!r}: want a sample, a function, or 'normal'")
        sample = read_sample(values, least=4)
        if is_constant(sample):
            return outcome("constant sample: it has no distribution", statistic=0.0, p=1.0)
        from statsmodels.stats.diagnostic import lilliefors

        statistic, p = lilliefors(sample, dist="norm", pvalmethod="table")
        return outcome(statistic=float(statistic), p=float(p))
    if callable(other):
        found = stats.ks_1samp(read_sample(values, least=1), other)
    else:
        found = stats.ks_2samp(read_sample(values, least=1), read_sample(other, "other", least=1))
    return outcome(statistic=float(found.statistic), p=float(found.pvalue))
