"""Streams of the archive as DataFrames, for notebooks.

Each function reads a server, a client of connect, or a file that `pillion export` wrote
(Parquet, or Arrow's IPC stream). Columns keep their names, in which times have the unit:
delay_p50_ns is in nanoseconds. attrs has units and documentation, by column:

    rows = pillion.flows(session="web")
    rows.attrs["units"]["delay_p50_ns"]    # 'ns'
    rows.attrs["docs"]["delay_p50_ns"]     # 'median one-way delay'
"""

import os

import pandas as pd

from pillion import histogram
from pillion.analysis import connection, frames


def read_stream(name, server=None, start=None, end=None, columns=None, limit=None, **where):
    """Rows of any stream, oldest first. where are columns that must have a value."""
    where = {column: value for column, value in where.items() if value is not None}
    if _is_file(server):
        rows = frames.read_file(server)
        if "null_arm" in rows and name != frames.RUN_STREAM:
            raise ValueError("read %s as %s: it has runs of an experiment: use pillion.experiment" % (server, name))
        for column, value in where.items():
            if column not in rows:
                raise KeyError("read %s: no column %r" % (server, column))
            rows = rows[rows[column].astype(str) == str(value)]
        if start is not None:
            rows = rows[rows["time"] >= connection.moment(start)]
        if end is not None:
            rows = rows[rows["time"] < connection.moment(end)]
        rows = rows[list(columns)] if columns else rows
        rows = rows.head(limit) if limit else rows
    else:
        rows = connection.connect(server).stream(name, start, end, columns, where, limit)
    if "time" in rows:
        attrs = dict(rows.attrs)
        rows = rows.sort_values("time", kind="stable").reset_index(drop=True)
        rows.attrs.update(attrs)
    return rows


def _is_file(source):
    return isinstance(source, os.PathLike) or isinstance(source, str) and (
        os.sep in source and "://" not in source or source.endswith((".parquet", ".arrow", ".arrows")) or os.path.isfile(source)
    )  # fmt: skip


def flows(server=None, start=None, end=None, session=None, source=None, destination=None, **options):
    """One-way delay, loss, duplication and reordering by session, flow and interval.

    Delays in ns; a row's window of interval_ns ends at time. source marked the packets and
    destination, the column agent, read them.
    """
    return read_stream("flows", server, start, end, session=session, source=source, agent=destination, **options)


def hops(server=None, start=None, end=None, session=None, **options):
    """Traced paths: a row for each hop, rtt_ns the least round-trip time."""
    return read_stream("hops", server, start, end, session=session, **options)


def router(server=None, start=None, end=None, stage=None, session=None, **options):
    """Times inside routers by pair of interfaces and stage: delays in ns.

    Stages are input_queuing, processing, output_queuing, their sum transit, and hold.
    """
    return read_stream("router", server, start, end, stage=stage, session=session, **options)


def sent(server=None, start=None, end=None, session=None, packets=False, **options):
    """What senders sent by traffic and interval: packets, lateness in ns, rates in bit/s.

    With packets, the rows of single packets, if the session records them: intended and real
    departure.
    """
    return read_stream("send_packets" if packets else "send", server, start, end, session=session, **options)


_COUNTS = ("packets", "bytes", "expected", "lost", "duplicated", "reordered", "late", "unchecked")


def windows(source, destination, server=None, start=None, end=None, points=300, **selection):
    """Flows of a pair of hosts added up in windows of equal length, as the page draws them.

    start is the start of each window; loss is lost/expected; delays and their changes (ipdv)
    are in ns, quantiles of merged histograms. selection has session, src, dst, proto, sport
    and dport.
    """
    message = {"selection": {"source": source, "destination": destination, **selection}, "points": points}
    for key, bound in (("from", start), ("to", end)):
        if bound is not None:
            message[key] = connection.timestamp(bound)
    answer = connection.connect(server).call("FlowService/Windows", **message)
    return windows_table(answer)


def windows_table(answer):
    """The windows in an answer of FlowService/Windows."""
    rows = []
    for window in answer.get("windows", []):
        row = {"start": pd.Timestamp(int(window.get("startMs", 0)), unit="ms", tz="UTC")}
        row.update({name: int(window.get(name, 0)) for name in _COUNTS})
        row["loss"] = row["lost"] / row["expected"] if row["expected"] else float("nan")
        for kind in ("delay", "ipdv"):
            found = window.get(kind, {})
            row[kind + "_count"] = int(found.get("count", 0))
            for name in ("min", "mean", "p50", "p90", "p99", "max"):
                # The JSON mapping leaves zero out, and writes NaN as a text.
                value = float(found.get(name + "Ns", 0)) if row[kind + "_count"] else float("nan")
                row["%s_%s_ns" % (kind, name)] = value
        row["clock_error_ns"] = float(window.get("clockErrorNs", 0))
        rows.append(row)
    columns = ["start", *_COUNTS, "loss", *("%s_%s" % (k, n) for k in ("delay", "ipdv") for n in ("count", "min_ns", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns")), "clock_error_ns"]
    table = pd.DataFrame(rows, columns=columns)
    table.attrs.update(step_ms=int(answer.get("stepMs", 0)), sampled=int(answer.get("sampled", 1)),
                       units={c: "ns" if c.endswith("_ns") else "packets" if c in _COUNTS and c != "bytes" else "bytes" if c == "bytes" else "" for c in columns})  # fmt: skip
    return table


def quantile(rows, q, of="delay"):
    """A quantile of all values in rows of flows or router, in ns, from their merged histograms.

    A quantile of rows' quantiles would be no packet's quantile.
    """
    offsets = of + "_offsets_ns"
    parts = []
    for _, row in rows.iterrows():
        bounds, counts = row[of + "_bounds_ns"], row[of + "_counts"]
        if bounds is not None and len(bounds):
            known = row[offsets] if offsets in row and row[offsets] is not None and len(row[offsets]) else None
            parts.append(([int(b) for b in bounds], [int(c) for c in counts], None if known is None else [int(o) for o in known]))
    if not parts:
        return float("nan")
    least, most = rows[of + "_min_ns"].min(), rows[of + "_max_ns"].max()
    return float(histogram.quantile(q, *histogram.merge(parts), least, most))
