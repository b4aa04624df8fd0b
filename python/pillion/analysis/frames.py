"""Runs as DataFrames, from a journal and from rows of streams."""

import io
import os

import numpy as np
import pandas as pd

from pillion.analysis.design import Design, DesignError, Measure, level, parse_response

RUN_STREAM, INTERVAL_STREAM, TABLE_STREAM = "experiment_runs", "experiment_intervals", "oml_tables"
FACTOR, MEASURE = "factor_", "measure_"
# Columns of runs besides factors and measures.
RUN_COLUMNS = (
    "run", "block", "position", "run_order", "null", "attempt", "valid", "kept", "why", "machine_load", "machine_steal", "started",
    "run_seconds",
)  # fmt: skip
# Those that streams and journals call otherwise: a factor may well be called load.
SOURCES = {"null": "null_arm", "machine_load": "load", "machine_steal": "steal", "run_seconds": "seconds"}
RUN_KEYS = ("run", "block", "position", "null", "attempt")


def column(kind, name):
    """The column of a factor or measure in a stream, whose names are lowercase and have no hyphens."""
    return kind + name.replace("-", "_").lower()


def original(kind, its, names):
    """The name of a factor or measure of which a column is; names are those that are known otherwise."""
    return next((name for name in names if column(kind, name) == its), its[len(kind) :])


def _refuse_names(design):
    taken = [name for name in (*design.factors, *design.measures) if name in RUN_COLUMNS]
    if taken:
        raise DesignError("read design: %r is the name of a column of runs" % taken[0])


def _finish(table, design):
    """Levels in their order as categories, and the order in which runs were made."""
    for name, levels in design.factors.items():
        table[name] = pd.Categorical(table[name], categories=list(levels))
    table["started"] = pd.to_datetime(table["started"], utc=True, errors="coerce", format="ISO8601")
    for name in ("valid", "kept", "null"):
        table[name] = table[name].astype(bool)
    for name in ("machine_load", "machine_steal", "run_seconds", *design.measures):
        table[name] = table[name].astype(float)
    if table["started"].notna().all() and table["started"].is_unique:
        table = table.sort_values("started", kind="stable")
    table = table.reset_index(drop=True)
    table["run_order"] = np.arange(len(table))
    return table[[c for c in RUN_COLUMNS if c in table] + list(design.factors) + list(design.measures)]


def from_journal(runs, design):
    """Tables of the runs and of their intervals."""
    _refuse_names(design)
    rows, details = [], []
    for number, run in enumerate(runs):
        fields = {name: getattr(run, SOURCES.get(name, name), getattr(run, name, None)) for name in RUN_COLUMNS}
        rows.append({**fields, "run": number, **run.factors, **run.measures})
        for at, one in enumerate(run.intervals):
            plain = {k: v for k, v in one.items() if isinstance(v, (int, float, str, bool)) and k not in RUN_KEYS}
            details.append({"run": number, "interval": at, **plain})
    table = pd.DataFrame(rows, columns=[*RUN_COLUMNS, *design.factors, *design.measures])
    return _finish(table, design), pd.DataFrame(details)


def unfinished(table, design):
    """Which runs are of the last block, if that is not complete: the runner will make it again.

    The runner's estimates leave it out, too.
    """
    counts = table[table["valid"] & table["kept"]]
    if counts.empty or not design.cells:
        return pd.Series(False, index=table.index)
    seen = counts.groupby("block")["position"].nunique()
    nulls = counts[counts["null"]].groupby("block")["position"].nunique()
    last = counts["block"].max()
    turns = len(design.cells) + (0 if nulls.empty else nulls.max())
    return (table["block"] == last) & table["kept"] & bool(seen[last] < turns)


def read_file(path):
    """The rows of a file that `pillion export` wrote: Parquet, or Arrow's IPC stream."""
    import pyarrow.parquet

    if os.fspath(path).endswith((".arrow", ".arrows")):
        with open(path, "rb") as file:
            return read_arrow(file.read())
    return _described(pyarrow.parquet.read_table(path))


def read_server(client, name):
    """The rows of an experiment on a server: runs, and intervals or None."""
    try:
        runs = _tables(client, RUN_STREAM, name)
    except LookupError as error:
        raise LookupError("read experiment %r: the server has no run of it; %s (%s)" % (name, _reported(client), error)) from None
    if runs.empty:
        raise LookupError("read experiment %r: the server has no run of it; %s" % (name, _reported(client)))
    try:
        intervals = _tables(client, INTERVAL_STREAM, name)
    except LookupError:
        intervals = None
    return runs, intervals


def _reported(client):
    """The experiments that a server has, for an error."""
    try:
        tables = client.stream(TABLE_STREAM)
        names = sorted(set(tables.loc[tables["table_name"].str.fullmatch(RUN_STREAM + r"(_\d+)?"), "domain"]))
    except (LookupError, OSError):
        names = []
    return "it has runs of %s" % ", ".join(names) if names else "runners report with --collector"


def _tables(client, table, name):
    """The rows of an experiment in all streams of a table: a design with other factors has
    another stream. A server without tables of the experiment's domain may have the stream
    itself."""
    try:
        tables = client.stream(TABLE_STREAM, where={"domain": name})
    except LookupError:
        tables = pd.DataFrame()
    streams = []
    if "table_name" in tables:
        named = tables["table_name"].str.fullmatch(table + r"(_\d+)?")
        streams = list(dict.fromkeys(tables.loc[named, "stream"]))
    found = [client.stream(stream, where={"experiment": name}) for stream in streams or [table]]
    rows = pd.concat(found, ignore_index=True) if len(found) > 1 else found[0]
    return _wide(rows) if {"interval", "field", "value"} <= set(rows.columns) else rows


def _wide(rows):
    """A column for each field of intervals, of rows with one field each."""
    keys = ["hash", "block", "position", "attempt", "interval"]
    return rows.pivot_table(index=keys, columns="field", values="value", aggfunc="last").reset_index().rename_axis(columns=None)


def one_design(rows, wanted=None):
    """The rows of one design, by its hash; the newest by default."""
    if "hash" not in rows or rows.empty:
        return rows, wanted or ""
    hashes = list(dict.fromkeys(rows["hash"]))
    if wanted is None:
        time = next((c for c in ("started", "time", "oml_ts_server") if c in rows), None)
        wanted = rows.loc[rows[time].astype(str).idxmax(), "hash"] if time and len(hashes) > 1 else hashes[-1]
    if wanted not in hashes:
        raise LookupError("read experiment: no run of design %s; there are %s" % (wanted, ", ".join(map(str, hashes))))
    return rows[rows["hash"] == wanted], wanted


def derive_design(rows, response, hash_):
    """What rows say of their design: levels in the order in which they appear, base first."""
    factors, to = {}, response.get("to") or {}
    for its in rows:
        # A stream of several experiments has a column for each of their factors; columns of
        # others are empty.
        if its.startswith(FACTOR) and rows[its].notna().any() and (rows[its] != "").any():
            name = original(FACTOR, its, to)
            levels = sorted(dict.fromkeys(level(v) for v in rows[its] if v is not None and v != ""), key=_natural)
            if name in to and level(to[name]) in levels:
                levels.insert(0, levels.pop(levels.index(level(to[name]))))
            factors[name] = tuple(levels)
    known = [value for value in response.values() if isinstance(value, str)]
    names = [original(MEASURE, c, known) for c in rows if c.startswith(MEASURE) and rows[c].notna().any()]
    measures = {name: Measure(name) for name in names}
    if not measures:
        raise DesignError("read rows: no column %s... has a value: not rows of %s" % (MEASURE, RUN_STREAM))
    cells = rows[[column(FACTOR, name) for name in factors]].drop_duplicates()
    names = rows["experiment"] if "experiment" in rows and len(rows) else [""]
    return Design(
        name=str(next(iter(names))), hash=str(hash_), seed=0, factors=factors,
        cells=tuple({n: level(v) for n, v in zip(factors, row)} for row in cells.itertuples(index=False)),
        measures=measures, targets=(), stop={}, order={}, environment={}, started="",
        **parse_response(response, measures, factors),
    )  # fmt: skip


def _natural(text):
    try:
        return (0, float(text), "")
    except ValueError:
        return (1, 0.0, text)


def from_stream(rows, intervals, design):
    """Tables of the runs and intervals in rows of streams."""
    _refuse_names(design)
    # A runner that was stopped may have reported a run twice.
    rows = rows.drop_duplicates([c for c in ("block", "position", "attempt", "started", "kept") if c in rows], keep="last")
    table = pd.DataFrame({"run": range(len(rows))})
    source = dict(SOURCES)
    blank = {"null": False, "attempt": 1, "valid": True, "kept": True, "why": "", "machine_load": np.nan,
             "machine_steal": np.nan, "started": pd.NaT, "run_seconds": np.nan}  # fmt: skip
    if "started" not in rows and "time" in rows:
        source["started"] = "time"
    for name in RUN_COLUMNS:
        its = source.get(name, name)
        if its in rows:
            table[name] = rows[its].to_numpy()
        elif name in blank:
            table[name] = blank[name]
        elif name not in ("run", "run_order"):
            raise DesignError("read rows: no column %s: not rows of %s" % (its, RUN_STREAM))
    for name in design.factors:
        if column(FACTOR, name) not in rows:
            raise DesignError("read rows: no column %s of the factor %s" % (column(FACTOR, name), name))
        table[name] = [level(v) for v in rows[column(FACTOR, name)]]
    for name in design.measures:
        table[name] = rows[column(MEASURE, name)].to_numpy() if column(MEASURE, name) in rows else np.nan
    finished = _finish(table, design)
    if intervals is None or intervals.empty:
        return finished, pd.DataFrame()
    detail = intervals[intervals["hash"] == design.hash] if "hash" in intervals and design.hash else intervals
    keys = [k for k in ("block", "position", "attempt") if k in detail]
    numbers = finished[keys + ["run"]].drop_duplicates(keys, keep="last")
    return finished, detail.merge(numbers, on=keys, how="inner")


def read_arrow(data):
    """The rows of an Arrow IPC stream."""
    import pyarrow as pa

    with pa.ipc.open_stream(io.BytesIO(data)) as reader:
        return _described(reader.read_all())


def _described(table):
    """A DataFrame with the units and documentation that an Arrow table has of its columns."""
    rows = table.to_pandas(date_as_object=False)
    for key, name in ((b"unit", "units"), (b"doc", "docs")):
        rows.attrs[name] = {f.name: (f.metadata or {}).get(key, b"").decode() for f in table.schema}
    return rows
