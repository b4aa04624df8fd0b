"""What the analysis assumes of the runs, tested, each with its consequence.

Passing proves nothing: a test of few runs misses much. Failing says what to look at.
"""

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from pillion import stats
from pillion.analysis import effects
from pillion.analysis.numbers import count, number

# Several tests are made of each experiment: at 5 % one would often fail by chance.
LEVEL = 0.01
# Above this level there is not even weak evidence.
NOMINAL = 0.05
# The Shapiro-Wilk test is defined up to this many values.
SHAPIRO_MOST = 5000
# A machine is quiet with less than so many busy processors, and such a share of stolen time.
BUSY_MOST, STEAL_MOST = 0.5, 0.01


def residuals(x, measure=None, blocks=True):
    """Runs with fitted and residual of the additive model: cell, and block unless not wanted.

    On the scale of the analysis: logs where effects are ratios.
    """
    table = x.runs.assign(y=effects.scaled(x, measure))
    table = table[table["y"].notna()].copy()
    table["residual"] = _less(table["y"], _groups(x, table, blocks))
    table["fitted"] = table["y"] - table["residual"]
    return table.sort_values("run_order")


def _groups(x, table, blocks):
    """What the additive model explains runs by: their cell, and their block if wanted."""
    cell = table[[*x.design.factors, "null"]].astype(str).agg("|".join, axis=1)
    return [cell, table["block"]] if blocks else [cell]


def _less(values, groups):
    """Values less what an additive model of groups explains."""
    rest = values - values.mean()
    # Alternating projections: exact at once where balanced, and convergent where not.
    for _ in range(200):
        before = rest
        for group in groups:
            rest = rest - rest.groupby(group).transform("mean")
        if np.allclose(before, rest, rtol=0, atol=1e-12 * max(1.0, float(values.abs().max()))):
            break
    return rest


def _row(name, ok, finding, consequence, statistic=np.nan, p=np.nan, tested=True):
    """A check; one that could not be made is ok and not tested."""
    return {"name": name, "statistic": statistic, "p": p, "ok": ok, "tested": tested, "finding": finding, "consequence": consequence}


def p_text(p):
    return "p < 0.001" if p < 0.001 else "p = %.3f" % p


def p_short(p):
    """A p value for a column of such; nothing where there is none."""
    return "" if pd.isna(p) else p_text(p)[2:].replace("= ", "")


def _exclusions(x):
    out, total = x.excluded, len(x.runs) + len(x.excluded)
    invalid = out[out["kept"]]
    share = len(invalid) / total if total else 0
    consequence = "Results include all runs made."
    if len(invalid):
        cells = invalid[list(x.design.factors)].astype(str).value_counts()
        top = " ".join("%s=%s" % pair for pair in zip(x.design.factors, cells.index[0]))
        consequence = "Invalid runs were repeated; most (%d) are of %s. Results hold for valid runs only." % (cells.iloc[0], top)
    elif len(out):
        consequence = "Their blocks were run again as a whole; none of their runs counts."
    return _row("runs", share <= 0.05, x.left_out(), consequence, share)


def _balance(x):
    cells = {tuple(c[n] for n in x.design.factors) for c in x.design.cells}
    table = x.runs[~x.runs["null"]]
    counts = table.groupby(["block", *x.design.factors], observed=True).size()
    seen = table.groupby("block", observed=True).size()
    if not cells:
        cells = set(table[list(x.design.factors)].astype(str).itertuples(index=False, name=None))
    blocks = sorted(table["block"].unique())
    missing = int(len(blocks) * len(cells) - len(counts))
    double = int((counts > 1).sum())
    if not missing and not double:
        return _row("balance", True, "Each of %s holds each of %s once." % (count(len(blocks), "block"), count(len(cells), "cell")),
                    "Every effect compares runs of the same blocks.", 0)  # fmt: skip
    short = [b for b in blocks if seen.get(b, 0) < len(cells)]
    finding = "%d of %d runs are missing, in %d of %d blocks" % (missing, len(blocks) * len(cells), len(short), len(blocks))
    if double:
        finding += "; %d cells have more than one run in a block, of which the last counts" % double
    return _row("balance", False, finding + ".",
                "An effect uses the blocks that have all its runs; sequential and marginal sums of squares differ.",
                missing + double)  # fmt: skip


def _null(x):
    values = effects.null_values(x)
    if len(values) < 2:
        return _row("null arm", True, "There is no null arm." if not x.runs["null"].any() else "The null arm has too few blocks.",
                    "The noise floor is unknown.", tested=False)  # fmt: skip
    mean, low, high = effects.t_interval(x, values)
    p = effects.t_p(x, values)
    ok = bool(p >= LEVEL)
    repeated = len(x.runs.loc[x.runs["null"], list(x.design.factors)].drop_duplicates())
    over = ", the mean over its %d cells" % repeated if repeated > 1 else ""
    if x.design.is_log:
        finding = "The base against itself%s: ratio %.4f [%.4f, %.4f], %s, in %d blocks." % (
            over, np.exp(mean), np.exp(low), np.exp(high), p_text(p), len(values))  # fmt: skip
        half = (high - low) / 2
        floor = "%.2g %%" % (100 * np.expm1(half)) if half < np.log(2) else "a factor of %s" % number(np.exp(half), 2)
    else:
        finding = "The base against itself%s: difference %.4g [%.4g, %.4g], %s, in %d blocks." % (over, mean, low, high, p_text(p), len(values))
        floor = "%.2g" % ((high - low) / 2)
    consequence = (
        "Noise alone moves such a comparison by up to %s (95 %%); how well an effect over more cells is known, its own interval says." % floor
        if ok
        else "Two identical treatments differ: something besides the treatments affects the runs, and effects of this size are not to be trusted."
    )
    return _row("null arm", ok, finding, consequence, mean, p)


def _trend(x, name, along, blocks, sentence, consequence):
    """The row of a linear change of the measure along a column, beside cells and, if wanted, blocks."""
    table = residuals(x, blocks=blocks)
    if _alike(name, table):
        return _alike(name, table)
    groups = _groups(x, table, blocks)
    at = _less(table[along].astype(float), groups)
    df = len(table) - sum(group.nunique() for group in groups) + len(groups) - 2
    if df < 1 or not np.ptp(at) > 1e-9:
        return _row(name, True, "Too few runs for the test.", "Whether the %s changed is unknown." % x.measure, tested=False)
    squares = float((at**2).sum())
    slope = float((at * table["residual"]).sum()) / squares
    error = np.sqrt(max(0.0, float(((table["residual"] - slope * at) ** 2).sum())) / df / squares)
    p = float(2 * scipy_stats.t.sf(abs(slope) / error, df)) if error > 0 else float(slope == 0)
    span, half = np.ptp(table[along]), scipy_stats.t.ppf(0.975, df) * error
    change, low, high = (value * span for value in (slope, slope - half, slope + half))
    if p >= NOMINAL:
        consequence = "No change is shown; one as large as the ends of the interval is not excluded."
    elif p >= LEVEL:
        consequence = "Weak evidence of a change, not significant at 1 %. " + consequence
    write = _percent if x.design.is_log else lambda value: "%+.3g" % (value + 0.0)
    return _row(name, bool(p >= LEVEL), "%s the %s changed by %s [%s, %s] (%s)." % (sentence, x.measure, write(change), write(low), write(high), p_text(p)),
                consequence, change, p)  # fmt: skip


def _percent(change):
    """A change of a logarithm in percent, or as a factor if it is large."""
    if abs(change) > np.log(3):
        return "a factor of %s" % number(np.exp(np.clip(change, -300, 300)), 2)
    text = "%+.2g\u00a0%%" % (100 * np.expm1(change)) if abs(change) >= 1e-6 else "0\u00a0%"
    return text


def _alike(name, table):
    """The row of a test of residuals that are all zero; None if they are not."""
    if len(table) and np.abs(table["residual"]).max() > 1e-9 * max(1.0, np.abs(table["fitted"]).max()):
        return None
    if table["block"].nunique() < 2:
        finding = "One block has one run of each cell."
    elif len(table) <= table["block"].nunique() + 1:
        finding = "A block has one run: nothing is compared within it."
    else:
        finding = "All runs of a cell are alike."
    return _row(name, True, finding, "There is nothing to test.", tested=False)


def _drift(x):
    return _trend(x, "drift", "run_order", False, "Over the experiment",
                  "Effects are compared within blocks, which a slow change does not bias; means of single cells over time include it.")  # fmt: skip


def _position(x):
    return _trend(x, "position", "position", True, "From the first to the last position of a block",
                  "Order within blocks is random, so that this adds noise and no bias; a longer settle time may remove it.")  # fmt: skip


def _turning(x):
    table = residuals(x)
    if _alike("turning points", table):
        return _alike("turning points", table)
    if len(table) < 10:
        return _row("turning points", True, "Too few runs for the test.", "Independence of the runs is not tested.", tested=False)
    result = stats.turning_points(table["residual"].to_numpy())
    p, ok = float(result["p"]), bool(result["p"] >= LEVEL)
    finding = "Residuals in run order turn %d times, where %.0f are expected of independent ones (%s)." % (
        result["count"], result["expected"], p_text(p))  # fmt: skip
    few = result["count"] < result["expected"]
    consequence = (
        "No sign that runs depend on their predecessors."
        if ok
        else "Neighbouring runs resemble each other: %s" % "something changes within blocks; shorten blocks or let the machine settle."
        if few
        else "Runs alternate: each seems to affect the next; lengthen the settle time."
    )
    return _row("turning points", ok, finding, consequence, float(result["z"]), p)


def _shapiro(x):
    table = residuals(x)
    if _alike("Shapiro-Wilk", table):
        return _alike("Shapiro-Wilk", table)
    values = table["residual"].to_numpy()
    if len(values) < 8:
        return _row("Shapiro-Wilk", True, "Too few runs for the test.", "Normality is not tested.", tested=False)
    note = ""
    if len(values) > SHAPIRO_MOST:
        values = np.random.default_rng(1).choice(values, SHAPIRO_MOST, replace=False)
        note = " of a sample of %d runs" % SHAPIRO_MOST
    result = stats.shapiro(values)
    w, p = float(result["statistic"]), float(result["p"])
    ok = p >= LEVEL
    blocks = x.runs["block"].nunique()
    consequence = (
        "No sign against Student's t."
        if ok
        else "Student's t holds for means of %d blocks nevertheless; compare the BCa interval." % blocks
        if blocks >= effects.BCA_BLOCKS
        else "With %d blocks Student's t leans on normality: run at least %d, and compare the BCa interval." % (blocks, effects.BCA_BLOCKS)
    )
    return _row("Shapiro-Wilk", bool(ok), "Residuals%s: W = %.3f (%s)." % (note, w, p_text(p)), consequence, w, p)


def _pagan(x):
    table = residuals(x)
    if _alike("Breusch-Pagan", table):
        return _alike("Breusch-Pagan", table)
    cell = table[list(x.design.factors)].astype(str).agg("|".join, axis=1)
    if cell.nunique() < 2 or len(table) <= cell.nunique() + 2:
        return _row("Breusch-Pagan", True, "Too few cells or runs for the test.", "Equal variance is not tested.", tested=False)
    # Of the residuals, so that the test is one of the cells alone and not of the blocks.
    result = stats.breusch_pagan(pd.DataFrame({"y": table["residual"], "cell": cell}), "y ~ cell")
    p = float(result["p"])
    spread = table.groupby(list(x.design.factors), observed=True)["residual"].std()
    finding = "Standard deviations of the cells lie between %.2g and %.2g (%s)." % (spread.min(), spread.max(), p_text(p))
    ok = p >= LEVEL
    return _row("Breusch-Pagan", bool(ok), finding,
                "No sign of unequal variance." if ok else "Variance differs between cells: intervals of effects, each with its own variance, hold; analysis of variance and Tukey's pairs, which pool it, lean on their permutations.",
                float(result["statistic"]), p)  # fmt: skip


def _machine(x):
    load, steal = x.runs["machine_load"].dropna(), x.runs["machine_steal"].dropna()
    if load.empty and steal.empty:
        return _row("machine", True, "Load and stolen time were not recorded.", "Disturbance by other programs is unknown.", tested=False)
    worst = steal.max() if len(steal) else 0.0
    busy = load.median() if len(load) else 0.0
    parts = []
    if len(load):
        parts.append("processors busy with other work before runs: median %.2f, most %.2f" % (busy, load.max()))
    else:
        parts.append("load before runs was not measured, for which the settle time may be too short")
    if len(steal):
        parts.append("processor time taken by other virtual machines: most %.1f %%" % (100 * worst))
    text = "; ".join(parts)
    consequence = "No sign of disturbance." if len(load) else "Disturbance by other programs is unknown."
    if worst > STEAL_MOST:
        consequence = "Other virtual machines took processor time: expect noise that nothing here can remove."
    elif busy > BUSY_MOST:
        consequence = "Other work ran beside the experiment: expect noise; random blocks keep it from biasing effects."
    return _row("machine", bool(worst <= STEAL_MOST and busy <= BUSY_MOST), text[0].upper() + text[1:] + ".", consequence, worst,
                tested=len(load) > 0 or worst > STEAL_MOST)  # fmt: skip


def check(x):
    """The checks as a table, in the order of their weight."""
    if x.runs.empty:
        raise ValueError("check: no run counts. " + x.left_out())
    made = (_exclusions, _balance, _null, _drift, _position, _turning, _shapiro, _pagan, _machine)
    return pd.DataFrame([one(x) for one in made]).set_index("name")
