#!/usr/bin/env python3
"""Write golden.json, the oracle of the tests of send/model: means and CDFs of truncated
distributions by numerical integration, and tests of fit, all by scipy.

Usage: golden.py >golden.json   (needs scipy 1.10 or later)
"""

import json
import math

import numpy as np
from scipy import integrate, special, stats

MS = 1e6  # a millisecond in ns

LAWS = [
    # text, quantity, scipy distribution, bounds, length of a unit of counts
    ("uniform(1ms,2ms)", "time", stats.uniform(MS, MS), 0, math.inf, None),
    ("uniform(100,1500,min=200,max=900)", "size", stats.uniform(100, 1400), 200, 900, None),
    ("exponential(1ms)", "time", stats.expon(scale=MS), 0, math.inf, None),
    ("exponential(1ms,min=500us,max=3ms)", "time", stats.expon(scale=MS), 0.5 * MS, 3 * MS, None),
    ("normal(10ms,1ms)", "time", stats.norm(10 * MS, MS), 0, math.inf, None),
    ("normal(1ms,1ms)", "time", stats.norm(MS, MS), 0, math.inf, None),
    ("normal(500,200,min=64,max=1500)", "size", stats.norm(500, 200), 64, 1500, None),
    ("pareto(1.5,100B)", "size", stats.pareto(1.5, scale=100), 0, math.inf, None),
    ("pareto(1.5,100B,max=1500B)", "size", stats.pareto(1.5, scale=100), 0, 1500, None),
    ("pareto(1,100us,max=1s)", "time", stats.pareto(1, scale=0.1 * MS), 0, 1000 * MS, None),
    ("pareto(0.7,100us,min=200us,max=1s)", "time", stats.pareto(0.7, scale=0.1 * MS), 0.2 * MS, 1000 * MS, None),
    ("cauchy(1ms,200us,max=100ms)", "time", stats.cauchy(MS, 0.2 * MS), 0, 100 * MS, None),
    ("cauchy(500,100,min=64,max=1500)", "size", stats.cauchy(500, 100), 64, 1500, None),
    ("gamma(0.15,1ms)", "time", stats.gamma(0.15, scale=MS), 0, math.inf, None),
    ("gamma(0.5,1ms)", "time", stats.gamma(0.5, scale=MS), 0, math.inf, None),
    ("gamma(2,1ms,min=1ms,max=5ms)", "time", stats.gamma(2, scale=MS), MS, 5 * MS, None),
    ("gamma(50,10)", "size", stats.gamma(50, scale=10), 0, math.inf, None),
    ("weibull(0.7,1ms)", "time", stats.weibull_min(0.7, scale=MS), 0, math.inf, None),
    ("weibull(10,100ms)", "time", stats.weibull_min(10, scale=100 * MS), 0, math.inf, None),
    ("weibull(2,500,min=100,max=1400)", "size", stats.weibull_min(2, scale=500), 100, 1400, None),
    ("poisson(500)", "size", stats.poisson(500), 0, math.inf, 1),
    ("poisson(3,min=1,max=8)", "size", stats.poisson(3), 1, 8, 1),
    ("poisson(10ms)", "time", stats.poisson(10), 0, math.inf, MS),
    ("poisson(1s,unit=1us)", "time", stats.poisson(1e6), 0, math.inf, 1000),
]


def part(function, a, b):
    return integrate.quad(function, a, b, epsabs=0, epsrel=1e-9, limit=500)[0]


def continuous(law, low, high):
    """Return mean and CDF of the law within the bounds."""
    below, mass = law.cdf(low), law.cdf(high) - law.cdf(low)
    # The mean is the integral of the quantile function: from below up to the middle, and
    # by the survival function above it, where a heavy tail needs the precision.
    steps = [0, 1e-9, 1e-6, 1e-3, 0.03, 0.1, 0.3, 0.5]
    mean = sum(part(law.ppf, below + mass * a, below + mass * b) for a, b in zip(steps[:-1], steps[1:]))
    above = law.sf(high)
    mean += sum(part(law.isf, above + mass * a, above + mass * b) for a, b in zip(steps[:-1], steps[1:]))
    mean /= mass
    return mean, lambda x: (law.cdf(x) - below) / mass


def discrete(law, low, high, unit):
    """Return mean and CDF of the counts within the bounds, times the unit."""
    last = min(high / unit, law.mean() + 40 * law.std())
    counts = np.arange(math.ceil(low / unit), int(last) + 1)
    weights = law.pmf(counts)
    mass = law.cdf(last) - law.cdf(counts[0] - 1)
    mean = float((counts * weights).sum() / weights.sum()) * unit
    return mean, lambda x: (law.cdf(math.floor(x / unit)) - law.cdf(counts[0] - 1)) / mass


def described(text, quantity, law, low, high, unit):
    mean, cdf = continuous(law, low, high) if unit is None else discrete(law, low, high, unit)
    scale = unit or 1
    xs = [law.ppf(p) * scale for p in (1e-4, 0.01, 0.25, 0.5, 0.9, 0.999)]
    points = [[float(x), float(cdf(x))] for x in xs if low <= x < high]
    return {"text": text, "quantity": quantity, "mean": float(mean), "cdf": points}


def fitted():
    """Return samples with the results of both tests of fit."""
    rng = np.random.default_rng(1)
    fits = []
    for text, law, sample in [
        ("exponential(1ms)", stats.expon(scale=MS), rng.exponential(MS, 200)),
        ("exponential(1ms)", stats.expon(scale=MS), rng.gamma(1.5, MS, 200)),
        ("normal(10ms,1ms)", stats.norm(10 * MS, MS), rng.normal(10 * MS, MS, 50)),
    ]:
        d = stats.kstest(sample, law.cdf).statistic
        root = math.sqrt(len(sample))
        p = special.kolmogorov((root + 0.12 + 0.11 / root) * d)
        exact = stats.kstest(sample, law.cdf, mode="exact").pvalue
        fits.append({"text": text, "test": "kolmogorov-smirnov", "values": sample.tolist(),
                     "statistic": d, "p": p, "exact": exact})
    for mean in (10, 10.7):
        sample = rng.poisson(mean, 1000)
        fits.append({"text": "poisson(10)", "test": "chi-square", "values": sample.tolist(),
                     **chi_square(stats.poisson(10), sample)})
    return fits


def chi_square(law, sample):
    """Merge cells from below until each holds its share, as the package describes it."""
    n = len(sample)
    share = max(5 / n, 1 / 200)
    bounds, reached = [], 0.0
    while 1 - reached >= 2 * share:
        bound = law.ppf(reached + share)
        if 1 - law.cdf(bound) < share:
            break
        bounds.append(bound)
        reached = law.cdf(bound)
    expected = n * np.diff([0, *law.cdf(bounds), 1])
    cell = np.searchsorted(bounds, sample)
    observed = np.bincount(cell, minlength=len(expected))
    statistic, p = stats.chisquare(observed, expected)
    return {"statistic": statistic, "p": p, "freedom": len(expected) - 1}


def main():
    golden = {
        "laws": [described(*law) for law in LAWS],
        "kolmogorov": [[x, special.kolmogorov(x)] for x in (0.05, 0.2, 0.5, 0.9, 1.17, 1.19, 1.63, 2.5, 5)],
        "fits": fitted(),
    }
    print(json.dumps(golden, indent=None, separators=(",", ":")).replace('{"text"', '\n{"text"'))


if __name__ == "__main__":
    main()
