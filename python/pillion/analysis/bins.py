"""Histograms that runs report as rows of intervals, summed over runs.

A row with the fields histogram, at, width and packets is a bin: so many values from at to at +
width, in a unit if there is a field of that name. Rows of the histogram named fate have a reason instead: so many packets ended that way.
"""

import pandas as pd

FIELDS = ("histogram", "at", "width", "packets")
FATE = "fate"


def _rows(x):
    """The bins of the runs that count, without the null arm, with their factors."""
    if x.intervals.empty or any(name not in x.intervals for name in FIELDS):
        return pd.DataFrame(columns=["run", *FIELDS])
    runs = x.runs[~x.runs["null"]]
    table = x.intervals[x.intervals["histogram"].notna()]
    return table.merge(runs[["run", *x.design.factors]], on="run")


def names(x):
    """The histograms, in the order in which runs report them."""
    found = list(dict.fromkeys(_rows(x)["histogram"]))
    return [name for name in found if name != FATE]


def pooled(x, name):
    """Bins of a histogram by cell: at, width, packets, and share of the cell's packets."""
    table = _rows(x)
    table = table[table["histogram"] == name]
    if table.empty:
        raise KeyError("no histogram %r; there are %s" % (name, ", ".join(names(x)) or "none"))
    factors = list(x.design.factors)
    bins = table.groupby([*factors, "at", "width"], observed=True)["packets"].sum().reset_index()
    bins["share"] = bins["packets"] / bins.groupby(factors, observed=True)["packets"].transform("sum")
    return bins


def unit(x, name):
    """The unit of a histogram's values."""
    table = _rows(x)
    units = table.loc[table["histogram"] == name, "unit"] if "unit" in table else pd.Series(dtype=str)
    return str(units.iloc[0]) if len(units) else ""


def fates(x):
    """Packets that ended otherwise than measured, by cell and reason."""
    table = _rows(x)
    table = table[table["histogram"] == FATE]
    if table.empty or "reason" not in table:
        return pd.DataFrame(columns=[*x.design.factors, "reason", "packets"])
    return table.groupby([*x.design.factors, "reason"], observed=True)["packets"].sum().reset_index()
