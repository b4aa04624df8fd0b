"""A figure of a paper drawn from our runs on its axes, with what the paper prints of it.

What is ours has intervals; what is published is hollow and dashed. docs/reference/experiment-papers.md defines the keys.
"""

import numpy as np

from pillion.analysis import bins, checks, effects, figures, levels, theme

KINDS = ("means", "effects", "histograms", "coefficients", "residuals")
_known = {"experiment", "kind", "measure", "where", "x", "x_measure", "line", "panel", "xlabel", "ylabel", "scale", "x_scale", "log", "title", "published"}
_published = {"label", "points", "line", "panel"}


def fault(plot):
    """What is wrong with a plot of a file; None if it is sound."""
    if not isinstance(plot, dict):
        return "a plot is no object: %r" % (plot,)
    unknown = [key for key in plot if key not in _known]
    if unknown:
        return "a plot has the unknown key %r; there are %s" % (unknown[0], ", ".join(sorted(_known)))
    if not isinstance(plot.get("experiment"), str):
        return "a plot names no experiment: %r" % (plot,)
    kind = plot.get("kind", "means")
    if kind not in KINDS:
        return "a plot of the kind %r; there are %s" % (kind, ", ".join(KINDS))
    if kind in ("means", "effects") and not isinstance(plot.get("x"), str):
        return "a plot of %s has no x, the factor of its axis" % kind
    for key in ("where", "x", "x_measure", "line", "panel", "xlabel", "ylabel", "title"):
        if not isinstance(plot.get(key, ""), str):
            return "%s of a plot is no text" % key
    for key in ("scale", "x_scale"):
        if isinstance(plot.get(key, 1), bool) or not isinstance(plot.get(key, 1), (int, float)):
            return "%s of a plot is no number" % key
    if not isinstance(plot.get("log", False), bool):
        return "log of a plot is neither true nor false"
    measures = plot.get("measure", "")
    if not (isinstance(measures, str) or isinstance(measures, dict) and measures and all(isinstance(v, str) for v in measures.values())):
        return "measure of a plot is neither a name nor names by label"
    if not isinstance(plot.get("published") or [], list):
        return "published of a plot is no list"
    for one in plot.get("published") or []:
        if not isinstance(one, dict) or set(one) - _published or not isinstance(one.get("label"), str) or not isinstance(one.get("points"), list):
            return "published points are not {label, points, line, panel}: %r" % (one,)
        for point in one["points"]:
            if not (isinstance(point, list) and len(point) == 2 and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in point)):
                return "a published point is not [x, y]: %r" % (point,)
    return None


@theme.themed
def draw(x, plot):
    """The figure of a plot, by its kind. ValueError says why it cannot be drawn."""
    kind = plot.get("kind", "means")
    if plot.get("where") and kind not in ("means", "histograms"):  # which need no base
        x = x.where(plot["where"])
    if kind == "coefficients":
        return x.plot.coefficients(measure=plot.get("measure"))
    if kind == "residuals":
        return _residuals(x, plot.get("measure"))
    if kind == "histograms":
        return _histograms(x, plot)
    return _series(x, plot)


def _series(x, plot):
    """Means or effects over a factor: {panel: {line: (places, means, lows, highs)}}, with what is published."""
    factor, line, panel = plot["x"], plot.get("line"), plot.get("panel")
    for name in (factor, line, panel):
        if name is not None and name not in x.design.factors:
            raise ValueError("no factor %r" % name)
    measures = plot.get("measure") or x.measure
    measures = measures if isinstance(measures, dict) else {"": measures}
    places = levels.ordered(x.design.where(plot.get("where")).get(factor) or x.design.factors[factor])
    numbers = levels.numbers(places)
    axis = dict(zip(places, numbers or range(len(places))))
    found = {}
    for label, measure in measures.items():
        table, at = _table(x, plot, measure, [n for n in (factor, line, panel) if n], axis)
        for key, own in table.groupby([n for n in (line, panel) if n], observed=True, sort=False) if line or panel else [((), table)]:
            key = dict(zip([n for n in (line, panel) if n], key if isinstance(key, tuple) else (key,)))
            name = " · ".join(filter(None, [label, key.get(line, "")])) or effects.measure_of(x, measure)
            own = own.assign(_at=[at(row) for _, row in own.iterrows()]).sort_values("_at")
            found.setdefault("%s = %s" % (panel, key[panel]) if panel else "", {})[name] = tuple(
                own[c].to_numpy(dtype=float) for c in ("_at", "mean", "low", "high"))  # fmt: skip
    if panel:
        found = {name: found[name] for name in ("%s = %s" % (panel, v) for v in levels.ordered(x.design.factors[panel])) if name in found}
    return _drawn(found, plot, places, numbers if not plot.get("x_measure") else [])


def _table(x, plot, measure, names, axis):
    """A table with mean, low and high of each combination of the factors, and where a row is on the axis."""
    scale = plot.get("scale", 1)
    if plot.get("kind") == "effects":
        table = effects.effects(x, ":".join(names), measure, resamples=0)
        table = table.rename(columns={table.attrs["estimate"]: "mean"})
    else:
        table = effects.means(x, measure, [n for n in x.design.factors if n not in names], plot.get("where"))
    for column in ("mean", "low", "high"):
        table[column] = table[column] * scale
    table[names] = table[names].astype(str)
    if not plot.get("x_measure"):
        return table, lambda row: axis[row[names[0]]]
    other = effects.means(x, plot["x_measure"], [n for n in x.design.factors if n not in names], plot.get("where")).astype(dict.fromkeys(names, str))
    values = other.set_index(names)["mean"] * plot.get("x_scale", 1)
    return table, lambda row: values[tuple(row[n] for n in names) if len(names) > 1 else row[names[0]]]


def _drawn(panels, plot, places, numbers):
    """The panels side by side. numbers are the places of the axis, empty where a measure makes it, None for categories."""
    count = len(panels)
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    if not names:
        raise ValueError("no cell of it was measured")
    published = plot.get("published") or []
    figure, all_axes = figures.blank(theme.HIGH, ncols=count, sharey=True, squeeze=False)
    values, everything = [], ([], [], [])
    for axes, (panel, lines) in zip(all_axes[0], panels.items()):
        if numbers == []:
            axes.margins(x=0.04)
        else:
            figures.places_of(axes, places, numbers, "")
        for i, name in enumerate(names):
            if name not in lines:
                continue
            at, means, lows, highs = lines[name]
            figures.draw_series(axes, {name: (means, lows, highs)}, at, i, is_category=numbers is None, of=len(names))
            values.append(means)
            for kept, new in zip(everything, (means, lows, highs)):
                kept.extend(new)
        for k, one in enumerate(published):
            if one.get("panel", panel) == panel:
                values.append(_published_line(axes, one, names, len(names) + k))
        axes.set_title(panel, loc="left", fontsize=8.5)
    all_axes[0, 0].set_ylabel(figures.wrapped(plot.get("ylabel", ""), theme.HIGH - 0.8))
    label = plot.get("xlabel") or plot["x"]
    if count > 1:
        figure.supxlabel(label, fontsize=9)
    else:
        all_axes[0, 0].set_xlabel(label)
    shown = np.concatenate([np.ravel(v) for v in values])
    if plot.get("log") and (shown[np.isfinite(shown)] > 0).all():
        figures.logarithmic(all_axes[0, 0], "y", shown)
    else:
        figures.large(all_axes[0, 0].yaxis, shown)
    ends = figures.limits(*everything, is_log=all_axes[0, 0].get_yscale() == "log")
    if ends:
        room = 0.04 * (np.nanmax(shown) - np.nanmin(shown)) if not plot.get("log") else 0
        all_axes[0, 0].set_ylim(min(ends[0], np.nanmin(shown) - room), max(ends[1], np.nanmax(shown) + room))
    handles = {label: handle for axes in all_axes[0] for handle, label in zip(*axes.get_legend_handles_labels())}
    order = [*(name for name in names if name in handles), *(label for label in handles if label not in names)]
    figures.legend(all_axes[0, -1], len(order), handles=[handles[label] for label in order], labels=order)
    return figure


def _published_line(axes, one, names, i):
    """What the paper prints: hollow marks, dashed where they are several. The same line of ours has the same colour."""
    i = names.index(one["line"]) if one.get("line") in names else i
    at, values = np.array(one["points"], dtype=float).T
    axes.plot(at, values, linestyle=(0, (3, 2)) if len(at) > 1 else "none", marker=theme.marker(i), markersize=7, markerfacecolor="none",
              color=theme.colour(i), markeredgewidth=1.4, label="%s (paper)" % one["label"])  # fmt: skip
    return values


def _histograms(x, plot):
    """Relative frequencies in panels side by side, on linear axes; the least width of a bin is the resolution."""
    wanted = plot.get("measure") or ""
    wanted = wanted if isinstance(wanted, dict) else {wanted: wanted}
    allowed = x.design.where(plot.get("where"))
    panels = {}
    for label, name in wanted.items():
        table = bins.pooled(x, name)
        for factor, kept in allowed.items():
            table = table[table[factor].astype(str).isin(kept)]
        table = table.groupby(["at", "width"])["packets"].sum().reset_index()
        if table.empty:
            raise ValueError("no run has the histogram %s" % name)
        panels[label] = (table, bins.unit(x, name))
    figure, all_axes = figures.blank(2.9, ncols=len(panels), squeeze=False)
    for i, (axes, (label, (table, unit))) in enumerate(zip(all_axes[0], panels.items())):
        beyond = _frequencies(axes, table, i)
        axes.set_title(figures.wrapped(label, 2), loc="left", fontsize=8.5)
        told = ", %.2g %% beyond" % (100 * beyond) if beyond > 0 else ""
        axes.set_xlabel(("µs" if unit == "us" else unit) + told)
        for one in plot.get("published") or []:
            if one.get("panel") == label:
                for at, _ in one["points"]:
                    axes.axvline(at, color=theme.INK, linestyle="--", linewidth=1, label="%s (paper)" % one["label"])
                axes.legend(loc="upper right")
    all_axes[0, 0].set_ylabel("relative frequency")
    return figure


# What lies beyond this share of the values is told, not drawn: tails of milliseconds would leave one bar.
TAIL = 0.99


# More bars are too thin to see: they are drawn together.
BARS = 120


def _frequencies(axes, table, i):
    """Draw a histogram; the share of its values that lies beyond the axis."""
    table = table.sort_values("at")
    total = table["packets"].sum()
    least = table["width"].min()
    up_to = table["packets"].cumsum() / total
    shown = table[np.append(True, up_to.to_numpy()[:-1] < TAIL)]
    beyond = 1 - shown["packets"].sum() / total
    first, last = shown["at"].min(), (shown["at"] + shown["width"]).max()
    if (last - first) / least > BARS and len(shown) > BARS / 2:
        bars, edges = np.histogram(shown["at"] + shown["width"] / 2, np.linspace(first, last, BARS // 2 + 1), weights=shown["packets"])
        axes.bar(edges[:-1], bars / total, np.diff(edges), align="edge", color=theme.colour(i), linewidth=0)
        top = bars.max() / total
    else:
        # Of bins of several widths the share for each least width, so that areas are shares.
        heights = shown["packets"] / total * least / shown["width"]
        axes.bar(shown["at"], heights, shown["width"], align="edge", color=theme.colour(i), linewidth=0)
        top = heights.max()
    axes.set_ylim(0, top * 1.08)
    figures.large(axes.xaxis, shown["at"] + shown["width"])
    return beyond


def _residuals(x, measure):
    """Residuals against the fit, and their normal quantiles, side by side."""
    from scipy import stats as scipy_stats

    table = checks.residuals(x, measure)
    values = np.sort(table["residual"].to_numpy())
    if not np.ptp(values) > 1e-12:
        raise ValueError("all runs of a cell have the same value, so that there are no residuals")
    figure, (left, right) = figures.blank(2.9, ncols=2)
    left.plot(table["fitted"], table["residual"], linestyle="none", marker="o", markersize=2.5, color=theme.colour(0), alpha=0.7)
    left.axhline(0, color=theme.INK, linewidth=1, linestyle="--")
    expected = scipy_stats.norm.ppf((np.arange(1, len(values) + 1) - 0.5) / len(values))
    right.plot(expected, values, linestyle="none", marker="o", markersize=2.5, color=theme.colour(0))
    slope, at = np.polyfit(expected, values, 1)
    right.plot(expected[[0, -1]], at + slope * expected[[0, -1]], color=theme.INK, linewidth=1, linestyle="--")
    of = "log %s" if x.design.is_log else "%s"
    left.set(xlabel="predicted " + of % effects.measure_of(x, measure), ylabel="residual")
    right.set(xlabel="normal quantile", ylabel="residual")
    return figure
