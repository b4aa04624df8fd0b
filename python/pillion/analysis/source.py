"""The design in an experiment's own file, for rows that come without the resolved one."""

import json

import pandas as pd

from pillion.analysis import frames
from pillion.analysis.design import DesignError, level, read_design
from pillion.analysis.numbers import share

METADATA_STREAM = "oml_metadata"

# The runner's pilot where the file states none; docs/reference/experiment.md has it.
DEFAULT_PILOT = 12


def read_sources(client, name):
    """The files that runners reported with an experiment's rows, the newest first."""
    try:
        notes = client.stream(METADATA_STREAM, where={"domain": name, "key": "file"})
    except LookupError:
        return []
    return list(dict.fromkeys(notes.sort_values("time", ascending=False)["value"]))


def design_of(sources, rows, hash_):
    """The design of the first file that fits the rows, and the file; None, and nothing, if none does."""
    for text in sources:
        try:
            return parse_source(text, rows, hash_), text
        except DesignError:
            continue  # another design of the same name
    return None, ""


def parse_source(text, rows, hash_):
    """The design in a file of YAML, with the cells that the rows have."""
    import yaml

    try:
        spec = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DesignError("read experiment file: %s" % error) from None
    if not isinstance(spec, dict) or not isinstance(spec.get("factors"), dict) or not isinstance(spec.get("measures"), dict):
        raise DesignError("read experiment file: no factors, or no measures")
    factors = {str(name): [level(v) for v in (levels if isinstance(levels, (list, dict)) else [levels])] for name, levels in spec["factors"].items()}
    missing = [name for name in factors if frames.column(frames.FACTOR, name) not in rows]
    missing += [name for name in spec["measures"] if frames.column(frames.MEASURE, str(name)) not in rows]
    if missing:
        raise DesignError("read experiment file: the rows have no %s" % missing[0])
    table = pd.DataFrame({name: [level(v) for v in rows[frames.column(frames.FACTOR, name)]] for name in factors})
    for name, levels in factors.items():
        if not set(table[name]) <= set(levels):
            raise DesignError("read experiment file: the rows have other levels of %s" % name)
    value = {
        **{key: spec.get(key) for key in ("experiment", "description", "response", "design")}, "stop": _stop(spec.get("stop")),
        "hash": hash_, "seed": spec.get("seed"), "factors": [{"name": name, "levels": levels} for name, levels in factors.items()],
        "cells": table.drop_duplicates().to_dict("records"), "measures": spec["measures"],
        "targets": [_target(one) for one in spec.get("targets") or []],
    }  # fmt: skip
    try:
        text = json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError) as error:  # keys that are no texts, or a cycle
        raise DesignError("read experiment file: %s" % error) from None
    return read_design(text)


def _stop(stop):
    """A stop rule with its pilot, of which the intervals' degrees of freedom are."""
    if isinstance(stop, dict) and stop.get("effect") and stop.get("pilot") is None:
        return {**stop, "pilot": DEFAULT_PILOT}
    return stop


def _target(target):
    """A target with its share as a number."""
    if isinstance(target, dict) and target.get("within") is not None:
        try:
            return {**target, "within": share(target["within"])}
        except (TypeError, ValueError):
            pass
    return target
