"""Figures on plain data, without an experiment: groups are {label: values}."""

import math

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from scipy import stats as scipy_stats

from pillion.analysis import theme


def blank(height=theme.HIGH, width=theme.WIDE, **grid):
    """A figure with its axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**grid)


def _clean(values):
    values = np.asarray(values, dtype=float)
    return values[np.isfinite(values)]


def _groups(groups):
    cleaned = {str(label): _clean(values) for label, values in groups.items()}
    cleaned = {label: values for label, values in cleaned.items() if len(values)}
    if not cleaned:
        raise ValueError("draw: no group has a value")
    return cleaned


def large(axis, *values):
    """Write 20 M in place of a factor of 1e7 at the end of an axis."""
    most = max((np.nanmax(np.abs(v)) for v in map(np.asarray, values) if v.size and np.isfinite(v).any()), default=0)
    if most >= 1e5:
        axis.set_major_formatter(EngFormatter(sep="\u2009"))


def legend(axes, count, title=None, **options):
    """A legend beside the data, if there is more than one series."""
    if count > 1:
        axes.legend(title=title, loc="center left", bbox_to_anchor=(1.01, 0.5), title_fontsize=8, **options)


def _tilt(axes, labels):
    """Labels of categories, tilted where they would touch."""
    longest = max(len(label) for label in labels)
    if longest * len(labels) > 70:
        axes.tick_params(axis="x", labelrotation=35)
        for text in axes.get_xticklabels():
            text.set_horizontalalignment("right")
            text.set_rotation_mode("anchor")


@theme.themed
def ecdf(groups, label="", legend_title=None):
    """Empirical distribution functions, one step line for each group."""
    groups = _groups(groups)
    figure, axes = blank()
    for i, (name, values) in enumerate(groups.items()):
        values = np.sort(values)
        share = np.arange(1, len(values) + 1) / len(values)
        axes.step(np.concatenate([values[:1], values]), np.concatenate([[0], share]), where="post", color=theme.colour(i),
                  linestyle=theme.line(i), label=name)  # fmt: skip
    axes.set(xlabel=label, ylabel="share of runs at or below", ylim=(0, 1.02))
    large(axes.xaxis, *groups.values())
    legend(axes, len(groups), legend_title)
    return figure


def edges(values, most=40):
    """Bin edges by Freedman and Diaconis, as many as a figure can show, over all values.

    Nothing is clipped: the outermost bins hold the extremes.
    """
    values = _clean(values)
    low, high = values.min(), values.max()
    if low == high:
        return np.array([low - 0.5, low + 0.5])
    spread = np.subtract(*np.percentile(values, [75, 25]))
    width = 2 * spread / len(values) ** (1 / 3)
    count = math.ceil((high - low) / width) if width > 0 else 0
    # Of two peaks the quartiles are far apart: the root of the number keeps them apart.
    return np.linspace(low, high, min(max(count, math.ceil(math.sqrt(len(values))), 5), most) + 1)


@theme.themed
def histogram(groups, label="", bins=None, legend_title=None):
    """Relative frequencies: the shares of each group's values in bins that all groups share."""
    groups = _groups(groups)
    if bins is None:
        bins = edges(np.concatenate(list(groups.values())))
    figure, all_axes = blank(max(1.1 * len(groups) + 0.6, 2.4), nrows=len(groups), sharex=True, sharey=True, squeeze=False)
    for i, (axes, (name, values)) in enumerate(zip(all_axes[:, 0], groups.items())):
        shares = np.histogram(values, bins)[0] / len(values)
        axes.stairs(shares, bins, fill=True, color=theme.colour(i), alpha=0.35)
        axes.stairs(shares, bins, color=theme.colour(i))
        axes.axvline(np.median(values), color=theme.INK, linewidth=1, linestyle=":")
        axes.set_title("%s, median %.4g of %d" % (name, np.median(values), len(values)), loc="left", fontsize=8.5)
        outside = int((values < bins[0]).sum() + (values > bins[-1]).sum())
        if outside:
            axes.set_title("%d outside the axis" % outside, loc="right", fontsize=8)
    all_axes[-1, 0].set_xlabel(label)
    large(all_axes[-1, 0].xaxis, *groups.values())
    figure.supylabel("share of runs", fontsize=9)
    return figure


@theme.themed
def frequencies(groups, label=""):
    """Relative frequencies of binned values, one row of axes for each group.

    groups has bins with at, width and share. Bins may be of several widths: what is drawn is the
    share for each least width. Both axes are logarithmic, so that no tail is cut off.
    """
    cleaned = {str(name): bins.sort_values("at") for name, bins in groups.items() if len(bins)}
    if not cleaned:
        raise ValueError("draw: no group has a value")
    least = min(bins["width"].min() for bins in cleaned.values())
    figure, all_axes = blank(max(1.0 * len(cleaned) + 0.6, 2.4), nrows=len(cleaned), sharex=True, sharey=True, squeeze=False)
    for i, (axes, (name, bins)) in enumerate(zip(all_axes[:, 0], cleaned.items())):
        # A bin that begins at zero has no place on a logarithmic axis but its upper half.
        left = np.maximum(bins["at"].to_numpy(dtype=float), least / 2)
        right = (bins["at"] + bins["width"]).to_numpy(dtype=float)
        height = (bins["share"] * least / bins["width"]).to_numpy(dtype=float)
        floor = height.min() / 2
        # One outline: a bin of nothing between two that do not touch.
        edges, heights = [left[0]], []
        for low, high, value in zip(left, right, height):
            if low > edges[-1]:
                edges.append(low)
                heights.append(floor)
            edges.append(high)
            heights.append(value)
        axes.stairs(heights, edges, baseline=floor, fill=True, color=theme.colour(i))
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: "%g" % value)
            axis.set_minor_formatter(lambda value, _: "")
        axes.set_title(name, loc="left", fontsize=8.5)
    all_axes[-1, 0].set_xlabel(label)
    figure.supylabel("share for each %g" % least, fontsize=9)
    return figure


@theme.themed
def violin(groups, label="", place_label=""):
    """Densities with quartiles and median; the values themselves where they are few."""
    groups = _groups(groups)
    figure, axes = blank()
    names = list(groups)
    for i, values in enumerate(groups.values()):
        if len(values) > 1 and np.ptp(values) > 0:
            body = axes.violinplot([values], [i], widths=0.8, showextrema=False)["bodies"][0]
            body.set(facecolor=theme.colour(i), edgecolor=theme.colour(i), alpha=0.3)
        if max(map(len, groups.values())) <= 60:
            # A fixed spread, so that a figure is the same each time.
            shift = ((np.arange(len(values)) * 0.618034) % 1 - 0.5) * 0.3
            axes.plot(i + shift, values, linestyle="none", marker=theme.marker(i), markersize=2.5, color=theme.colour(i), alpha=0.8)
        low, middle, high = np.percentile(values, [25, 50, 75])
        axes.vlines(i, low, high, color=theme.INK, linewidth=3)
        axes.plot([i], [middle], marker="o", color=theme.PAPER, markeredgecolor=theme.INK, markersize=5)
    _categories(axes, names, label, place_label)
    large(axes.yaxis, *groups.values())
    return figure


@theme.themed
def box(groups, label="", place_label=""):
    """Boxes of the quartiles, whiskers to the last value within 1.5 times their distance, and the rest."""
    groups = _groups(groups)
    figure, axes = blank()
    names = list(groups)
    drawn = axes.boxplot(list(groups.values()), positions=range(len(names)), widths=0.55, patch_artist=True, manage_ticks=False)
    for i, patch in enumerate(drawn["boxes"]):
        patch.set(facecolor=(*_rgb(theme.colour(i)), 0.25), edgecolor=theme.colour(i))
        drawn["medians"][i].set(color=theme.INK, linewidth=1.6)
        drawn["fliers"][i].set(marker=theme.marker(i), markersize=3, markeredgecolor=theme.colour(i), markerfacecolor="none")
        for part in (*drawn["whiskers"][2 * i : 2 * i + 2], *drawn["caps"][2 * i : 2 * i + 2]):
            part.set(color=theme.colour(i))
    _categories(axes, names, label, place_label)
    large(axes.yaxis, *groups.values())
    return figure


def _rgb(text):
    return tuple(int(text[i : i + 2], 16) / 255 for i in (1, 3, 5))


def _categories(axes, names, label, place_label):
    axes.set_xticks(range(len(names)), names)
    axes.set(xlabel=place_label, ylabel=label, xlim=(-0.6, len(names) - 0.4))
    axes.grid(visible=False, axis="x")
    _tilt(axes, names)


@theme.themed
def qq(values, label="residual"):
    """Values against the normal distribution's quantiles, with the line through the quartiles."""
    values = np.sort(_clean(values))
    if len(values) < 3:
        raise ValueError("draw: a QQ plot of %d values" % len(values))
    figure, axes = blank(width=theme.WIDE * 0.62)
    expected = scipy_stats.norm.ppf((np.arange(1, len(values) + 1) - 0.5) / len(values))
    axes.plot(expected, values, linestyle="none", marker="o", markersize=3, color=theme.colour(0), label="runs")
    low, high = np.percentile(values, [25, 75])
    slope = (high - low) / (2 * scipy_stats.norm.ppf(0.75))
    ends = np.array([expected[0], expected[-1]])
    axes.plot(ends, (low + high) / 2 + slope * ends, color=theme.INK, linewidth=1, linestyle="--", label="normal")
    axes.set(xlabel="normal quantile", ylabel=label)
    return figure


@theme.themed
def scatter(x, y, xlabel="", ylabel="", zero=True):
    """Points, with a line at zero."""
    figure, axes = blank(width=theme.WIDE * 0.62)
    axes.plot(x, y, linestyle="none", marker="o", markersize=3, color=theme.colour(0), alpha=0.7)
    if zero:
        axes.axhline(0, color=theme.INK, linewidth=1, linestyle="--")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    return figure


@theme.themed
def intervals(labels, estimates, lows, highs, label="", reference=None, groups=None, beside=None, bounds=()):
    """Estimates with intervals, one row each; reference is the value of no effect.

    beside has second intervals, drawn thinner; bounds are [(row, value)], drawn as marks.
    """
    figure, axes = blank(max(1.0 + 0.24 * len(labels), 1.6))
    names = list(dict.fromkeys(groups)) if groups is not None else [None]
    rows = np.arange(len(labels))
    for i, name in enumerate(names):
        mine = [k for k in rows if groups is None or groups[k] == name]
        at = np.array([estimates[k] for k in mine], dtype=float)
        reach = np.array([[at[j] - lows[k], highs[k] - at[j]] for j, k in enumerate(mine)], dtype=float).T
        axes.errorbar(at, mine, xerr=np.nan_to_num(reach), fmt=theme.marker(i), color=theme.colour(i), markersize=5, capsize=2.5,
                      linewidth=1.6, label=name)  # fmt: skip
    if beside is not None and np.isfinite(np.asarray(beside, dtype=float)).any():
        low, high = np.asarray(beside, dtype=float)
        axes.hlines(rows + 0.28, low, high, color=theme.FAINT, linewidth=1, label="BCa")
    if reference is not None:
        axes.axvline(reference, color=theme.INK, linewidth=1)
    if bounds:
        at, values = zip(*bounds)
        axes.plot(values, at, linestyle="none", marker="|", markersize=13, markeredgewidth=2, color=theme.INK, label="target")
    axes.set_yticks(rows, [str(label) for label in labels])
    axes.set(xlabel=label, ylim=(len(labels) - 0.4, -0.6))
    large(axes.xaxis, estimates)
    axes.grid(visible=False, axis="y")
    legend(axes, 2 if len(names) > 1 or bounds or beside is not None else 1)
    return figure


@theme.themed
def heat_map(values, rows, columns, label="", row_label="", column_label="", middle=None, text="%.3g", reach=0.0):
    """A matrix with its values written in the cells; with a middle, colours diverge from it.

    The darkest colours are at least reach away from the middle, so that noise stays pale.
    """
    import matplotlib as mpl

    values = np.asarray(values, dtype=float)
    figure, axes = blank(max(1.2 + 0.36 * len(rows), 2.0))
    if np.isfinite(values).any():
        low, high = np.nanmin(values), np.nanmax(values)
    else:
        raise ValueError("draw: the heat map has no value")
    if middle is not None:
        reach = max(abs(high - middle), abs(low - middle), reach) or 1.0
        low, high = middle - reach, middle + reach
    elif low == high:
        low, high = low - 0.5, high + 0.5
    shades = mpl.colormaps["PuOr_r" if middle is not None else "cividis"]
    image = axes.pcolormesh(np.arange(len(columns) + 1) - 0.5, np.arange(len(rows) + 1) - 0.5, values, cmap=shades, vmin=low, vmax=high,
                            edgecolors=theme.PAPER, linewidth=0.8)  # fmt: skip
    for i in range(len(rows)):
        for j in range(len(columns)):
            if np.isfinite(values[i, j]):
                red, green, blue, _ = shades((values[i, j] - low) / (high - low))
                dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
                axes.text(j, i, text % values[i, j], ha="center", va="center", fontsize=8, color="#ffffff" if dark else "#000000")
            else:
                axes.text(j, i, "–", ha="center", va="center", fontsize=8, color=theme.FAINT)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlabel=column_label, ylabel=row_label, ylim=(len(rows) - 0.5, -0.5))
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, label=label, shrink=0.9, pad=0.02)
    bar.outline.set_visible(False)
    _tilt(axes, [str(c) for c in columns])
    return figure


@theme.themed
def series(lines, places, label="", place_label="", title=None, joined=True):
    """Means with intervals over places, one line for each series.

    lines is {label: (means, lows, highs)}, NaN where there is none.
    """
    figure, axes = blank()
    for i, (name, (means, lows, highs)) in enumerate(lines.items()):
        means, lows, highs = (np.asarray(v, dtype=float) for v in (means, lows, highs))
        shift = (i - (len(lines) - 1) / 2) * min(0.12, 0.6 / len(lines))
        reach = np.nan_to_num(np.vstack([means - lows, highs - means]))
        axes.errorbar(np.arange(len(places)) + shift, means, yerr=reach, marker=theme.marker(i), color=theme.colour(i), capsize=2.5,
                      linestyle=theme.line(i) if joined else "none", label=name)  # fmt: skip
    axes.set_xticks(range(len(places)), [str(p) for p in places])
    axes.set(xlabel=place_label, ylabel=label, xlim=(-0.5, len(places) - 0.5))
    axes.grid(visible=False, axis="x")
    _tilt(axes, [str(p) for p in places])
    large(axes.yaxis, *(means for means, _, _ in lines.values()))
    legend(axes, len(lines), title)
    return figure
