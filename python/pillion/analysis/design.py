"""The design of an experiment, as the runner resolved it in experiment.json."""

import dataclasses
import json
import math

DESIGN_FILE = "experiment.json"
RESPONSES = ("log_ratio", "difference", "log", "value")
BOUNDS = ("at_least", "at_most", "within")


class DesignError(ValueError):
    """A design that cannot be read; the text says where and why."""


@dataclasses.dataclass(frozen=True)
class Measure:
    """One number of each run. better is higher, lower, or empty if neither is."""

    name: str
    field: str = ""
    unit: str = ""
    better: str = ""

    @property
    def label(self):
        return "%s (%s)" % (self.name, self.shown_unit) if self.shown_unit else self.name

    @property
    def shown_unit(self):
        """The unit, except for 1, the unit of shares and counts."""
        return "" if self.unit == "1" else self.unit


@dataclasses.dataclass(frozen=True)
class Target:
    """A bound on the response, or on the values of a measure, at some levels.

    within is a distance from no effect.
    """

    where: dict
    measure: str
    of: str = "ratio"
    at_least: float = None
    at_most: float = None
    within: float = None

    @property
    def label(self):
        return where_label(self.where) or "all cells"


@dataclasses.dataclass(frozen=True)
class Design:
    """What was to be run: factors with their levels in order, the first being the base."""

    name: str
    hash: str
    seed: int
    factors: dict  # name: tuple of levels
    cells: tuple  # of dicts, factor: level
    measures: dict  # name: Measure
    response: str  # one of RESPONSES
    response_measure: str
    to: dict  # levels of the base of the response; empty without
    targets: tuple
    stop: dict
    order: dict  # design: order, blocks, null_arm
    environment: dict
    started: str
    question: str = ""
    quick: bool = False  # run to see that the experiment works: no measurement

    @property
    def is_log(self):
        """Whether effects are ratios."""
        return self.response in ("log_ratio", "log")

    @property
    def base(self):
        """The first level of each factor."""
        return {name: levels[0] for name, levels in self.factors.items()}

    @property
    def base_label(self):
        """The base of the response as it is written: mark=none; empty without."""
        return " ".join("%s=%s" % pair for pair in self.to.items())

    def freedom(self, blocks):
        """Degrees of freedom of Student's t over a number of blocks.

        After the stop rule the pilot's count: experiments whose deviation is small
        by chance stop early, and their intervals would hold the truth too rarely.
        """
        return min(blocks, self.pilot or blocks) - 1

    @property
    def pilot(self):
        """Number of blocks of the stop rule's pilot; None if the number of blocks was fixed."""
        return self.stop.get("pilot")

    def crossed(self):
        """Factors with more than one level, which can have an effect."""
        return [name for name, levels in self.factors.items() if len(levels) > 1]

    def where(self, condition):
        """The levels that a condition allows, a text such as 'mark=both every=1' or a dict."""
        return parse_where(condition, self.factors)


def level(value):
    """A level's name: YAML and JSON have numbers and booleans where rows have texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def where_label(where):
    """A condition as it is written: mark=both,loss every=1."""
    return " ".join("%s=%s" % (name, ",".join(levels)) for name, levels in where.items())


def fits(where, levels):
    """Whether a cell's levels fulfil a condition."""
    return all(levels[name] in allowed for name, allowed in where.items())


def parse_where(condition, factors):
    """The levels that a condition allows, by factor, as tuples.

    A condition is a text such as 'mark=both,loss every=1' or an object. Names and levels
    that the design lacks are refused.
    """
    if condition is None:
        return {}
    if isinstance(condition, str):
        pairs = {}
        for word in condition.split():
            name, equals, value = word.partition("=")
            if not equals or name in pairs:
                raise DesignError("read condition %r: %r is not FACTOR=LEVEL, or the factor is named twice" % (condition, word))
            pairs[name] = value.split(",")
    elif isinstance(condition, dict):
        pairs = condition
    else:
        raise DesignError("read condition %r: neither a text nor an object" % (condition,))
    found = {}
    for name, values in pairs.items():
        if name not in factors:
            raise DesignError("read condition %r: no factor %r; there are %s" % (condition, name, ", ".join(factors)))
        allowed = tuple(level(value) for value in (values if isinstance(values, (list, tuple)) else [values]))
        for one in allowed:
            if one not in factors[name]:
                raise DesignError(
                    "read condition %r: factor %s has no level %r; there are %s" % (condition, name, one, ", ".join(factors[name]))
                )
        found[name] = allowed
    return found


def parse_levels(value, factors, what):
    """One level of each factor that an object names."""
    found = parse_where(_object(value, what), factors)
    several = [name for name, levels in found.items() if len(levels) != 1]
    if several:
        raise DesignError("read %s: factor %s has %d levels" % (what, several[0], len(found[several[0]])))
    return {name: levels[0] for name, levels in found.items()}


def _object(value, what):
    if not isinstance(value, dict):
        raise DesignError("read %s: %r is not an object" % (what, value))
    return value


def _list(value, what):
    if not isinstance(value, list):
        raise DesignError("read %s: %r is not a list" % (what, value))
    return value


def _number(value, what):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise DesignError("read %s: %r is not a finite number" % (what, value))
    return float(value)


def _factors(value):
    factors = {}
    for one in _list(value, "factors"):
        one = _object(one, "a factor")
        name = one.get("name")
        if not isinstance(name, str) or not name or name in factors:
            raise DesignError("read factors: %r is no new name" % (name,))
        levels = tuple(level(item) for item in _list(one.get("levels"), "levels of " + name))
        if not levels or len(set(levels)) != len(levels):
            raise DesignError("read levels of %s: none, or one twice" % name)
        factors[name] = levels
    return factors


def parse_response(value, measures, factors):
    """The fields of Design that a response sets."""
    value = _object(value or {}, "response")
    kinds = [kind for kind in RESPONSES if kind in value]
    if len(kinds) > 1:
        raise DesignError("read response: both %s and %s" % (kinds[0], kinds[1]))
    kind = kinds[0] if kinds else "value"
    measure = value.get(kind, next(iter(measures)))
    if measure not in measures:
        raise DesignError("read response: no measure %r; there are %s" % (measure, ", ".join(measures)))
    to = parse_levels(value.get("to") or {}, factors, "to of response")
    if kind in ("log_ratio", "difference") and not to:
        raise DesignError("read response: %s needs the base it refers to, in to" % kind)
    return {"response": kind, "response_measure": measure, "to": to}


def _target(value, factors, measures, response):
    value = _object(value, "a target")
    measure = value.get("measure") or response
    if measure not in measures:
        raise DesignError("read targets: no measure %r" % (measure,))
    of = value.get("of") or "ratio"
    if of not in ("ratio", "mean"):
        raise DesignError("read targets: of is ratio or mean, not %r" % (of,))
    bounds = {name: _number(value[name], "target " + name) for name in BOUNDS if value.get(name) is not None}
    if not bounds:
        raise DesignError("read targets: none of %s in %r" % (", ".join(BOUNDS), value))
    return Target(parse_where(value.get("where"), factors), measure, of, **bounds)


def _stop(value):
    value = _object(value or {}, "stop")
    pilot = value.get("pilot")
    if pilot is not None and (isinstance(pilot, bool) or not isinstance(pilot, int) or pilot < 2):
        raise DesignError("read stop: pilot %r is no number of blocks" % (pilot,))
    return value


def _cell(value, factors):
    levels = parse_levels(value, factors, "a cell")
    if len(levels) != len(factors):
        raise DesignError("read a cell: %r has no level of each factor" % (value,))
    return levels


def read_design(text):
    """The design in the text of experiment.json."""
    try:
        value = _object(json.loads(text), "design")
    except (ValueError, RecursionError) as error:
        if isinstance(error, DesignError):
            raise
        raise DesignError("read design: no JSON: %s" % error) from None
    factors = _factors(value.get("factors"))
    measures = {}
    for name, one in _object(value.get("measures"), "measures").items():
        one = _object(one, "measure " + name)
        measures[name] = Measure(name, *(str(one.get(key) or "") for key in ("field", "unit", "better")))
    if not measures:
        raise DesignError("read measures: there are none")
    for name in factors:
        if name in measures:
            raise DesignError("read design: %r is both a factor and a measure" % name)
    response = parse_response(value.get("response"), measures, factors)
    return Design(
        name=str(value.get("experiment") or ""),
        hash=str(value.get("hash") or ""),
        seed=value.get("seed") or 0,
        factors=factors,
        cells=tuple(_cell(one, factors) for one in _list(value.get("cells") or [], "cells")),
        measures=measures,
        **response,
        targets=tuple(_target(one, factors, measures, response["response_measure"]) for one in _list(value.get("targets") or [], "targets")),
        stop=_stop(value.get("stop")),
        order=_object(value.get("design") or {}, "design"),
        environment=_object(value.get("environment") or {}, "environment"),
        started=str(value.get("started") or ""),
        question=str(value.get("description") or ""),
        quick=value.get("quick") is True,
    )
