"""The journal of an experiment: one line of JSON for each run that was completed."""

import dataclasses
import json
import math

from pillion.analysis.design import DesignError, level

JOURNAL_FILE = "journal.jsonl"
# A run with its per-interval rows; more is no journal of ours.
LINE_BYTES = 64 << 20


@dataclasses.dataclass
class Run:
    """One run. intervals are the rows that its workload reported while it ran."""

    block: int
    position: int
    factors: dict
    measures: dict
    cell: int = -1
    null: bool = False
    attempt: int = 1
    valid: bool = True
    why: str = ""
    kept: bool = True
    load: float = math.nan
    steal: float = math.nan
    started: str = ""
    seconds: float = math.nan
    intervals: list = dataclasses.field(default_factory=list)

    @property
    def counts(self):
        """Whether the analysis uses it."""
        return self.valid and self.kept


def _whole(value, what):
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 1 << 53:
        raise DesignError("%s %r is no whole number" % (what, value))
    return value


def _flag(value, what):
    if not isinstance(value, bool):
        raise DesignError("%s %r is neither true nor false" % (what, value))
    return value


def number(value):
    """A measure as float; what is no finite number is NaN: not measured."""
    if not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value) if math.isfinite(value) else math.nan
    except OverflowError:  # an integer
        return math.nan


def read_run(line, design):
    """The run in one line."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DesignError("no JSON: %s" % error) from None
    if not isinstance(value, dict):
        raise DesignError("no object")
    factors, measures = value.get("factors"), value.get("measures")
    intervals = value.get("intervals") or []
    if not isinstance(factors, dict) or not isinstance(measures or {}, dict) or not isinstance(intervals, list):
        raise DesignError("factors, measures or intervals have another type")
    levels = {}
    for name, known in design.factors.items():
        if name not in factors or level(factors[name]) not in known:
            raise DesignError("factor %s has level %r; there are %s" % (name, factors.get(name), ", ".join(known)))
        levels[name] = level(factors[name])
    return Run(
        block=_whole(value.get("block"), "block"),
        position=_whole(value.get("position"), "position"),
        factors=levels,
        measures={name: number((measures or {}).get(name)) for name in design.measures},
        cell=_whole(value.get("cell", -1), "cell"),
        null=_flag(value.get("null", False), "null"),
        attempt=_whole(value.get("attempt", 1), "attempt"),
        valid=_flag(value.get("valid", True), "valid"),
        why=str(value.get("why") or ""),
        kept=_flag(value.get("kept", True), "kept"),
        load=number(value.get("load")),
        steal=number(value.get("steal")),
        started=str(value.get("started") or ""),
        seconds=number(value.get("seconds")),
        intervals=[one for one in intervals if isinstance(one, dict)],
    )


def read_journal(file, design):
    """The runs in a binary file, and whether its last line was cut off by a crash.

    A journal grows by whole lines, so only the last can lack its end; any other faulty
    line is an error.
    """
    runs, lines = [], 0
    while True:
        line = file.readline(LINE_BYTES)
        if not line:
            return runs, False
        lines += 1
        if not line.endswith(b"\n"):
            if len(line) == LINE_BYTES:
                raise DesignError("read journal, line %d: longer than %d bytes" % (lines, LINE_BYTES))
            return runs, True
        if not line.strip():
            continue
        try:
            runs.append(read_run(line.decode(), design))
        except (DesignError, UnicodeDecodeError) as error:
            raise DesignError("read journal, line %d: %s" % (lines, error)) from None
