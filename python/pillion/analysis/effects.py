"""Effects of cells on the response, compared within each block.

A block has one run of every cell, so that changes between blocks do not affect the difference of
two cells within a block. Each block gives one value; blocks are the sample.
"""

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from pillion import stats
from pillion.analysis.numbers import share

# With fewer blocks the bootstrap has too few values to resample: the coverage of its interval is below
# the stated confidence.
BCA_BLOCKS = 20


def measure_of(x, measure):
    measure = measure or x.measure
    if measure not in x.design.measures:
        raise KeyError("no measure %r; there are %s" % (measure, ", ".join(x.design.measures)))
    return measure


def runs_of(x):
    """Runs without the null arm; of repeated runs of a cell in a block only the last."""
    table = x.runs[~x.runs["null"]]
    return table[~table.duplicated(["block", *x.design.factors], keep="last")]


def scaled(x, measure, runs=None):
    """The measure of each run, or its natural logarithm if effects are ratios."""
    values = (x.runs if runs is None else runs)[measure_of(x, measure)]
    if not x.design.is_log:
        return values
    if (values <= 0).any():
        raise ValueError(
            "%d runs have a %s of zero or less, which has no logarithm: use the response difference or value"
            % ((values <= 0).sum(), measure_of(x, measure))
        )
    return np.log(values)


def wide(x, measure=None, null=False):
    """Scaled values by block (rows) and cell (columns); with null, of the null arm only."""
    factors = list(x.design.factors)
    table = x.runs.assign(_y=scaled(x, measure))
    table = table[(table["null"] == null) & table["_y"].notna()]
    # Of several valid runs of a cell in a block, the last counts.
    table = table.drop_duplicates(["block", *factors], keep="last")
    table = table.astype({name: str for name in factors})
    return table.pivot(index="block", columns=factors, values="_y")


def ordered_cells(x, columns):
    """Cells in the order of the factors' levels."""
    ranks = [{value: i for i, value in enumerate(levels)} for levels in x.design.factors.values()]
    return sorted((tuple(c) if isinstance(c, tuple) else (c,) for c in columns), key=lambda c: [r[v] for r, v in zip(ranks, c)])


def is_base(x, cell):
    levels = dict(zip(x.design.factors, cell))
    return bool(x.design.to) and all(levels[name] == value for name, value in x.design.to.items())


def partner(x, cell, cells):
    """The base cell that a cell is compared with, by the runner's rule.

    It is the base cell that shares most levels with the cell and, among equals, has the first level of
    most other factors.
    """
    bases = [c for c in cells if is_base(x, c)]
    if not bases:
        raise ValueError("no cell is the base %s" % x.design.base_label)
    base = x.design.base.values()

    def score(c):
        return sum(len(c) + 1 if mine == its else its == first for mine, its, first in zip(cell, c, base))

    return max(bases, key=score)


def block_values(x, measure=None):
    """The response of each cell (columns) in each block (rows)."""
    table = wide(x, measure)
    cells = ordered_cells(x, table.columns)
    key = (lambda c: c) if table.columns.nlevels > 1 else (lambda c: c[0])
    # The base follows from the design, even if its runs are missing.
    planned, values = [tuple(c[name] for name in x.design.factors) for c in x.design.cells] or cells, {}
    for cell in cells:
        if x.design.to and is_base(x, cell):
            continue
        own = table[key(cell)]
        if x.design.response in ("log_ratio", "difference"):
            base = key(partner(x, cell, planned))
            own = own - (table[base] if base in table else np.nan)
        values[cell] = own
    return pd.DataFrame(values, index=table.index) if values else pd.DataFrame(index=table.index)


def null_values(x, measure=None):
    """The response of the null arm in each block: the base compared with itself."""
    null, table = wide(x, measure, null=True), wide(x, measure)
    shared = [c for c in null.columns if c in table.columns]
    return (null[shared] - table[shared].reindex(null.index)).mean(axis=1).dropna() if shared else pd.Series(dtype=float)


def responses(x, measure=None):
    values = block_values(x, measure)
    rows = [
        {"block": block, **dict(zip(x.design.factors, cell)), "value": value}
        for cell in values
        for block, value in values[cell].dropna().items()
    ]
    table = pd.DataFrame(rows, columns=["block", *x.design.factors, "value"])
    for name, levels in x.design.factors.items():
        table[name] = pd.Categorical(table[name], categories=list(levels))
    return table


def estimate_name(design):
    return {"log_ratio": "ratio", "difference": "difference"}.get(design.response, "mean")


def grouped(x, term, measure=None):
    """For each level of a term one value per block: the mean over the cells with that level."""
    values = block_values(x, measure)
    names = list(x.design.factors)
    chosen = names if term is None else term.split(":")
    for name in chosen:
        if name not in names:
            raise KeyError("no factor %r; there are %s" % (name, ", ".join(names)))
    groups = {}
    for cell in values:
        levels = dict(zip(names, cell))
        groups.setdefault(tuple(levels[name] for name in chosen), []).append(cell)
    # A block without all cells of a level is left out: its mean would not be comparable.
    return chosen, {key: values[cells].mean(axis=1, skipna=False).dropna() for key, cells in groups.items()}


def t_interval(x, values, confidence=0.95):
    """Mean over blocks and bounds of Student's t interval; bounds are NaN below two blocks."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return (values[0] if len(values) else np.nan), np.nan, np.nan
    result = stats.t_interval(values, confidence, df=x.design.freedom(len(values)))
    return float(result["estimate"]), float(result["low"]), float(result["high"])


def bca_interval(values, confidence, resamples, seed):
    """Bounds of the BCa interval of the mean, and a note if it is not computed or degenerate."""
    if len(values) < BCA_BLOCKS:
        word = "BCa refused: %d blocks, and below %d the resampled interval covers less than it says"
        return np.nan, np.nan, word % (len(values), BCA_BLOCKS)
    result = stats.bca(np.asarray(values), "mean", confidence=confidence, resamples=resamples, seed=seed)
    return float(result["low"]), float(result["high"]), str(result.get("note", ""))


def effects(x, term=None, measure=None, confidence=0.95, resamples=10000, seed=1):
    measure = measure_of(x, measure)
    names, groups = grouped(x, term, measure)
    back = np.exp if x.design.is_log else (lambda v: v)
    estimate, rows = estimate_name(x.design), []
    for key, values in groups.items():
        mean, low, high = t_interval(x, values, confidence)
        bca_low, bca_high, word = bca_interval(values, confidence, resamples, seed) if resamples else (np.nan, np.nan, "")
        row = {**dict(zip(names, key)), "n": len(values), estimate: back(mean), "low": back(low), "high": back(high),
               "bca_low": back(bca_low), "bca_high": back(bca_high), "word": word}  # fmt: skip
        if estimate == "ratio":
            row["percent"] = 100 * (row["ratio"] - 1)
        rows.append(row)
    columns = [*names, "n", estimate, "low", "high", "bca_low", "bca_high", *(["percent"] if estimate == "ratio" else []), "word"]
    table = pd.DataFrame(rows, columns=columns)
    table.attrs.update(measure=measure, confidence=confidence, estimate=estimate, term=term)
    return table


def means(x, measure=None, over=(), where=None, confidence=0.95):
    measure = measure_of(x, measure)
    over = [over] if isinstance(over, str) else list(over)
    names = [name for name in x.design.factors if name not in over]
    table = x.runs[~x.runs["null"] & x.runs[measure].notna()]
    for name, levels in x.design.where(where).items():
        table = table[table[name].isin(levels)]
    rows = []
    for key, group in table.groupby(names, observed=True, sort=True) if names else [((), table)]:
        # A block has several runs with different levels of the factors in over: average them.
        values = group.groupby("block")[measure].mean().to_numpy()
        mean, low, high = t_interval(x, values, confidence)
        points = np.quantile(values, [0.05, 0.25, 0.5, 0.75, 0.95])
        rows.append((*key, len(values), mean, values.std(ddof=1) if len(values) > 1 else np.nan, low, high, points[2],
                     points[0], points[1], points[3], points[4], values.min(), values.max()))  # fmt: skip
    statistics = ["n", "mean", "sd", "low", "high", "median", "p05", "p25", "p75", "p95", "min", "max"]
    result = pd.DataFrame(rows, columns=[*names, *statistics])
    result.attrs.update(measure=measure, confidence=confidence)
    return result


def t_p(x, values):
    """p of Student's t test that the mean over blocks is zero, consistent with t_interval."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    if not error > 0:
        return 1.0 if values.mean() == 0 else 0.0
    return float(2 * scipy_stats.t.sf(abs(values.mean()) / error, x.design.freedom(len(values))))


def tost_of(x, values, low, high, confidence=0.95):
    """p of two one-sided t tests that the mean over blocks lies between low and high."""
    if len(values) < 2:
        return np.nan
    return float(stats.tost(np.asarray(values, dtype=float), low=low, high=high, confidence=confidence, df=x.design.freedom(len(values)))["p"])


def margin(within, is_ratio):
    """The range of effects that count as equivalent; for ratios it is symmetric in the logarithm."""
    return (1 / (1 + within), 1 + within) if is_ratio else (-within, within)


def equivalence(x, within, term=None, measure=None, confidence=0.95):
    try:
        distance = share(within)
    except (TypeError, ValueError):
        distance = None
    if distance is None or not distance > 0:
        raise ValueError("equivalence within %r: give a distance above zero, such as 0.02 or 2%%" % (within,))
    within = distance
    if x.design.response not in ("log_ratio", "difference"):
        raise ValueError("equivalence: the response %s has no base to be equivalent to" % x.design.response)
    if x.design.is_log and within >= 1:
        raise ValueError("equivalence within %r: of a ratio, give a share below 1, such as 0.02" % (within,))
    measure = measure_of(x, measure)
    names, groups = grouped(x, term, measure)
    bounds = margin(within, x.design.is_log)
    bounds = np.log(bounds) if x.design.is_log else bounds
    back, estimate, rows = np.exp if x.design.is_log else (lambda v: v), estimate_name(x.design), []
    for key, values in groups.items():
        # Two one-sided tests at 5 % succeed exactly if the 90 % interval lies within the bounds.
        mean, low, high = t_interval(x, values, 1 - 2 * (1 - confidence))
        p = tost_of(x, values, *bounds, confidence)
        rows.append({**dict(zip(names, key)), "n": len(values), estimate: back(mean), "low": back(low), "high": back(high),
                     "within": within, "p": p, "equivalent": bool(p < 1 - confidence)})  # fmt: skip
    return pd.DataFrame(rows)
