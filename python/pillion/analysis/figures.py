"""Figures on plain data, without an experiment: groups are {label: values}."""

import math
import textwrap

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from scipy import stats as scipy_stats

from pillion.analysis import levels, theme

# Ratios that span so much are drawn on a logarithmic axis, on which twice and half are as far from 1.
RATIO_SPAN = 4
# Inches of a letter of a tick's label.
LETTER = 0.075
# More rows of intervals stand in two columns.
COLUMN_ROWS = 36


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


def _plain(value, _=None):
    """A tick of a logarithmic axis."""
    return EngFormatter(sep="\u2009")(value) if abs(value) >= 1e5 else "%g" % value


def logarithmic(axes, which, values):
    """Make an axis logarithmic, with numbers at its ticks."""
    values = [value for value in np.ravel(values) if np.isfinite(value) and value > 0]
    (axes.set_xscale if which == "x" else axes.set_yscale)("log", nonpositive="clip")
    axis = axes.xaxis if which == "x" else axes.yaxis
    span = math.log10(max(values) / min(values)) if values else 1
    axis.set_major_locator(LogLocator(subs=(1,) if span > 3 else (1, 2, 5), numticks=12))
    axis.set_major_formatter(FuncFormatter(_plain))
    axis.set_minor_formatter(NullFormatter())


def scaled_axis(axes, which, values, is_ratio):
    """An axis of results: logarithmic if they span much, else with prefixes of large numbers."""
    values = np.concatenate([np.ravel(np.asarray(v, dtype=float)) for v in values])
    if levels.is_wide(values, RATIO_SPAN if is_ratio else levels.DECADES):
        logarithmic(axes, which, values)
    else:
        large(axes.xaxis if which == "x" else axes.yaxis, values)
        if which == "x":
            _thin(axes)


def _thin(axes):
    """As many ticks on a horizontal axis as their labels have room for."""
    longest = max(map(len, axes.xaxis.get_major_formatter().format_ticks(axes.get_xticks())), default=0)
    width = axes.get_window_extent().width / axes.figure.dpi  # before the layout, which takes some for labels beside the axis
    fitting = int(0.75 * width / (LETTER * (longest + 3)))
    if fitting < 9:
        axes.xaxis.set_major_locator(MaxNLocator(nbins=max(2, fitting), steps=[1, 2, 2.5, 5, 10]))


def limits(estimates, lows, highs, reference=None, is_log=False):
    """The range of an axis that shows all estimates, and of their intervals what does not press them together.

    None where all intervals fit.
    """
    to, back = (np.log, np.exp) if is_log else (lambda v: v, lambda v: v)
    with np.errstate(invalid="ignore", divide="ignore"):
        at, low, high = (to(np.asarray(v, dtype=float)) for v in (estimates, lows, highs))
    shown = at[np.isfinite(at)] if reference is None else np.append(at[np.isfinite(at)], to(reference))
    half = np.fmax(high - at, at - low)
    half = half[np.isfinite(half)]
    if not len(shown) or not len(half):
        return None
    span = 1.5 * max(np.ptp(shown), 3 * np.median(half))
    floor, ceiling = shown.min() - span, shown.max() + span
    if not span or (np.nanmin(low) >= floor and np.nanmax(high) <= ceiling):
        return None
    room = 0.04 * np.ptp(shown)
    return back(max(floor, np.nanmin(low) - room)), back(min(ceiling, np.nanmax(high) + room))


def places_of(axes, names, numbers, place_label):
    """Places of levels on the horizontal axis: of numbers to scale, else side by side."""
    if numbers is None:
        axes.set_xticks(range(len(names)), [str(name) for name in names])
        axes.set(xlabel=place_label, xlim=(-0.5, len(names) - 0.5))
        axes.grid(visible=False, axis="x")
        _tilt(axes, [str(name) for name in names])
        return np.arange(len(names), dtype=float)
    at = np.asarray(numbers, dtype=float)
    where = np.log(at) if levels.is_wide(at) else at
    if levels.is_wide(at):
        axes.set_xscale("log")
    share = (where - where.min()) / np.ptp(where)
    width, last, shown = axes.get_window_extent().width / axes.figure.dpi, -1.0, []
    for place, name in zip(share, names):
        room = LETTER * (len(str(name)) + 1.5) / width  # and a gap
        shown.append(str(name) if place - last >= room else "")
        last = place if shown[-1] else last
    axes.set_xticks(at, shown)
    axes.minorticks_off()
    axes.set_xlabel(place_label)
    return at


def wrapped(label, inches):
    """A label of a vertical axis in lines that the axis has room for."""
    return textwrap.fill(label, max(16, int(inches * 12)), break_long_words=False)


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
def ecdf(groups, label="", legend_title=None, is_ratio=False, of="values"):
    """Empirical distribution functions, one step line for each group."""
    groups = _groups(groups)
    figure, axes = blank()
    for i, (name, values) in enumerate(groups.items()):
        values = np.sort(values)
        share = np.arange(1, len(values) + 1) / len(values)
        axes.step(np.concatenate([values[:1], values]), np.concatenate([[0], share]), where="post", color=theme.colour(i),
                  linestyle=theme.line(i), label=name)  # fmt: skip
    axes.set(xlabel=label, ylabel="share of %s at or below" % of, ylim=(0, 1.02))
    scaled_axis(axes, "x", groups.values(), is_ratio)
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
def histogram(groups, label="", bins=None, legend_title=None, of="values"):
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
        axes.set_title("%s: median %.4g, %d %s" % (name, np.median(values), len(values), of), loc="left", fontsize=8.5)
        outside = int((values < bins[0]).sum() + (values > bins[-1]).sum())
        if outside:
            axes.set_title("%d outside the axis" % outside, loc="right", fontsize=8)
    all_axes[-1, 0].set_xlabel(label)
    large(all_axes[-1, 0].xaxis, *groups.values())
    figure.supylabel("share of %s" % of, fontsize=9)
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
    columns = 1 if len(cleaned) <= 6 else 2
    rows = math.ceil(len(cleaned) / columns)
    figure, all_axes = blank(max(1.0 * rows + 0.6, 2.4), nrows=rows, ncols=columns, sharex=True, sharey=True, squeeze=False)
    # Down the columns, so that neighbours of a factor stand above each other.
    places = all_axes.T.flatten()
    for axes in places[len(cleaned) :]:
        axes.set_visible(False)
    for axes, (name, bins) in zip(places, cleaned.items()):
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
        axes.stairs(heights, edges, baseline=floor, fill=True, color=theme.colour(0))
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: "%g" % value)
            axis.set_minor_formatter(lambda value, _: "")
        axes.set_title(name, loc="left", fontsize=8.5)
    for axes in [[axes for axes in column if axes.get_visible()][-1] for column in all_axes.T]:
        axes.tick_params(labelbottom=True)
    figure.supxlabel(label, fontsize=9)
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
def box(groups, label="", place_label="", is_ratio=False):
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
    scaled_axis(axes, "y", groups.values(), is_ratio)
    return figure


def _rgb(text):
    return tuple(int(text[i : i + 2], 16) / 255 for i in (1, 3, 5))


def _categories(axes, names, label, place_label):
    axes.set_xticks(range(len(names)), names)
    axes.set(xlabel=place_label, ylabel=wrapped(label, theme.HIGH - 0.6), xlim=(-0.6, len(names) - 0.4))
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
def scatter(x, y, xlabel="", ylabel="", zero=True, is_log=False):
    """Points, with a line at zero; is_log makes a wide horizontal axis logarithmic."""
    figure, axes = blank(width=theme.WIDE * 0.62)
    axes.plot(x, y, linestyle="none", marker="o", markersize=3, color=theme.colour(0), alpha=0.7)
    if zero:
        axes.axhline(0, color=theme.INK, linewidth=1, linestyle="--")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    scaled_axis(axes, "x", [x], is_log)
    large(axes.yaxis, y)
    return figure


@theme.themed
def intervals(labels, estimates, lows, highs, label="", reference=None, groups=None, beside=None, bounds=(), is_ratio=False):
    """Estimates with intervals, one row each; reference is the value of no effect.

    groups have colours and markers of their own: their names are to be in the labels. beside has second intervals, drawn
    thinner; bounds are [(row, value)], drawn as marks. Many rows stand in two columns.
    """
    count = len(labels)
    columns = 2 if count > COLUMN_ROWS else 1
    rows = math.ceil(count / columns)
    estimates, lows, highs = (np.asarray(v, dtype=float) for v in (estimates, lows, highs))
    figure, all_axes = blank(max(1.0 + (0.24 if rows <= 24 else 0.19) * rows, 1.6), ncols=columns, sharex=True, squeeze=False)
    order = list(dict.fromkeys(groups)) if groups is not None else []
    for column, axes in enumerate(all_axes[0]):
        first = column * rows
        mine = range(first, min(first + rows, count))
        for i, name in enumerate(order or [None]):
            own = np.array([k for k in mine if not order or groups[k] == name], dtype=int)
            if len(own):
                reach = np.nan_to_num([estimates[own] - lows[own], highs[own] - estimates[own]])
                axes.errorbar(estimates[own], own - first, xerr=reach, fmt=theme.marker(i), color=theme.colour(i), markersize=5, capsize=2.5, linewidth=1.6)
        if beside is not None and np.isfinite(np.asarray(beside, dtype=float)).any():
            low, high = (np.asarray(v, dtype=float)[first : first + rows] for v in beside)
            axes.hlines(np.arange(len(low)) + 0.28, low, high, color=theme.FAINT, linewidth=1, label="BCa")
        if reference is not None:
            axes.axvline(reference, color=theme.INK, linewidth=1)
        own = [(k - first, value) for k, value in bounds if k in mine]
        if own:
            at, values = zip(*own)
            axes.plot(values, at, linestyle="none", marker="|", markersize=13, markeredgewidth=2, color=theme.INK, label="target")
        axes.set_yticks(range(len(mine)), [str(labels[k]) for k in mine])
        axes.set(ylim=(rows - 0.4, -0.6))
        axes.grid(visible=False, axis="y")
    values = [estimates, [] if reference is None else [reference], *([lows[lows > 0], highs] if is_ratio else [])]
    scaled_axis(all_axes[0, 0], "x", values, is_ratio)
    ends = limits(estimates, lows, highs, reference, is_ratio)
    for column, axes in enumerate(all_axes[0]):
        axes.set_xlabel(label)
        if ends:  # arrows for intervals that go on
            axes.set_xlim(ends)
            own = slice(column * rows, (column + 1) * rows)
            for values, end, marker in ((lows[own] < ends[0], ends[0], "<"), (highs[own] > ends[1], ends[1], ">")):
                at = np.flatnonzero(values)
                axes.plot(np.full(len(at), end), at, linestyle="none", marker=marker, markersize=5, color=theme.FAINT, clip_on=False)
    last = all_axes[0, -1]
    if last.get_legend_handles_labels()[1]:
        legend(last, 2)
    return figure


def significant(value, is_ratio=False):
    """A number with three digits at least, and no more decimals than they take; ratios near 1 to a thousandth."""
    if is_ratio and 0.5 < value < 2:
        return "%.3f" % value
    if value == 0 or not np.isfinite(value):
        return "%g" % value
    size = abs(value)
    if size >= 1e5 or size < 1e-4:
        return _plain(value) if size >= 1e5 else "%.3g" % value
    return "%.*f" % (min(max(0, 2 - math.floor(math.log10(size))), 6), value)


@theme.themed
def heat_map(values, rows, columns, label="", row_label="", column_label="", middle=None, text=None, reach=0.0, is_ratio=False):
    """A matrix with its values written in the cells; with a middle, colours diverge from it.

    The darkest colours are at least reach away from the middle, so that noise stays pale. Of ratios colours follow the
    logarithm: twice and half are as dark.
    """
    import matplotlib as mpl

    values = np.asarray(values, dtype=float)
    figure, axes = blank(max(1.2 + 0.36 * len(rows), 2.0))
    if not np.isfinite(values).any():
        raise ValueError("draw: the heat map has no value")
    is_ratio = is_ratio and middle == 1 and np.nanmin(values) > 0
    shade, back = (np.log, np.exp) if is_ratio else (lambda v: v, lambda v: v)
    shown = shade(values)
    least, most = np.nanmin(shown), np.nanmax(shown)
    low, high = least, most
    if middle is not None:
        centre = shade(middle)
        reach = max(abs(most - centre), abs(least - centre), shade(1 + reach) if is_ratio else reach) or 1.0
        low, high = centre - reach, centre + reach
        least, most = min(least, centre), max(most, centre)
    elif low == high:
        low, high = low - 0.5, high + 0.5
    shades = mpl.colormaps["PuOr_r" if middle is not None else "cividis"]
    image = axes.pcolormesh(np.arange(len(columns) + 1) - 0.5, np.arange(len(rows) + 1) - 0.5, shown, cmap=shades, vmin=low, vmax=high,
                            edgecolors=theme.PAPER, linewidth=0.8)  # fmt: skip
    for i in range(len(rows)):
        for j in range(len(columns)):
            if np.isfinite(values[i, j]):
                red, green, blue, _ = shades((shown[i, j] - low) / (high - low))
                dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
                axes.text(j, i, text % values[i, j] if text else significant(values[i, j], is_ratio), ha="center", va="center", fontsize=8 if len(columns) <= 9 else 6.5,
                          color="#ffffff" if dark else "#000000")  # fmt: skip
            else:
                axes.text(j, i, "–", ha="center", va="center", fontsize=8, color=theme.FAINT)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlabel=column_label, ylabel=row_label, ylim=(len(rows) - 0.5, -0.5))
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    size, span = np.nanmax(np.abs(values)), back(most) - back(least)
    digits = max(4, math.ceil(math.log10(size / span)) + 2) if span > 1e-12 * size else 4  # so that ticks differ
    bar = figure.colorbar(image, ax=axes, label=wrapped(label, figure.get_figheight() - 0.6), shrink=0.9, pad=0.02, format=FuncFormatter(lambda v, _: "%.*g" % (digits, back(v))))
    bar.outline.set_visible(False)
    if is_ratio:  # at round ratios, not at round logarithms
        ends = np.exp([least, most])
        ticks = LogLocator(subs=(1, 2, 5)).tick_values(*ends) if ends[1] > 4 * ends[0] else MaxNLocator(5).tick_values(*ends)
        bar.set_ticks([np.log(tick) for tick in ticks if ends[0] * 0.999 <= tick <= ends[1] * 1.001])
        bar.ax.minorticks_off()
    if most > least:  # of the colours those that occur
        bar.ax.set_ylim(least, most)
    _tilt(axes, [str(c) for c in columns])
    return figure


def draw_series(axes, lines, at, first=0, is_category=False, of=None):
    """Means with intervals at places, a colour, marker and dash for each line. Empty places are left out.

    Where all lines are not drawn in one call, first is the number of the first one and of their number.
    """
    of = of or len(lines)
    for i, (name, (means, lows, highs)) in enumerate(lines.items(), first):
        means, lows, highs = (np.asarray(v, dtype=float) for v in (means, lows, highs))
        there = np.isfinite(means)
        reach = np.nan_to_num(np.vstack([means - lows, highs - means]))
        # Beside each other, so that intervals do not cover each other.
        shift = (i - (of - 1) / 2) * min(0.011, 0.05 / of)
        if is_category:
            places = np.asarray(at) + shift * 11
        elif axes.get_xscale() == "log":
            places = np.asarray(at) * (max(at) / min(at)) ** shift
        else:
            places = np.asarray(at) + shift * np.ptp(at)
        axes.errorbar(places[there], means[there], yerr=reach[:, there], marker=theme.marker(i), color=theme.colour(i), capsize=2.5,
                      linestyle=theme.line(i), label=name)  # fmt: skip


def series(lines, places, label="", place_label="", title=None, numbers=None):
    """Means with intervals over places, one line for each series: {label: (means, lows, highs)}, NaN where there is none.

    numbers are the places' on a scale, None for categories. One series is joined on a scale only, several always.
    """
    return panels({"": lines}, places, label, place_label, title, numbers)


@theme.themed
def panels(panels, places, label="", place_label="", title=None, numbers=None):
    """Series in several panels on the same axes: {title: lines}."""
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    columns = 2 if len(panels) in (2, 4) else min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure, all_axes = blank(theme.HIGH if rows == 1 else 0.6 + 2.0 * rows, nrows=rows, ncols=columns, sharex=True, sharey=True, squeeze=False)
    for axes in all_axes.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (panel, lines) in zip(all_axes.flat, panels.items()):
        at = places_of(axes, places, numbers, place_label)
        draw_series(axes, {name: lines[name] for name in names if name in lines}, at, is_category=numbers is None)
        if panel:
            axes.set_title(panel, loc="left", fontsize=8.5)
    if numbers is None and len(names) == 1:
        for axes in all_axes.flat[: len(panels)]:
            for line in axes.lines:
                line.set_linestyle("none")
    for axes in all_axes[:, 0]:
        axes.set_ylabel(wrapped(label, figure.get_figheight() / rows - 0.6))
    drawn = [np.concatenate([np.asarray(line[k], dtype=float) for lines in panels.values() for line in lines.values()]) for k in range(3)]
    scaled_axis(all_axes[0, 0], "y", drawn[:1], False)
    ends = limits(*drawn, is_log=all_axes[0, 0].get_yscale() == "log")
    if ends:
        all_axes[0, 0].set_ylim(ends)
        all_axes.flat[len(panels) - 1].annotate("longer intervals are cut", (1, 0), xycoords="axes fraction", xytext=(0, -34), textcoords="offset points",
                                                ha="right", fontsize=7, color=theme.FAINT)  # fmt: skip
    for axes in all_axes.flat[: len(panels)][:-columns]:
        axes.set_xlabel("")
    for axes in all_axes.flat[: len(panels)][-columns:]:
        axes.tick_params(labelbottom=True)
    legend(all_axes[0, -1], len(names), title)
    return figure
