"""Levels of a factor that are numbers: their order, and their places on an axis."""

import re

SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
# Fewer levels are categories even if they are numbers: address families 4 and 6 are no quantities.
LEAST = 3
# From this ratio of the largest to the smallest an axis is logarithmic.
DECADES = 30

_parts = re.compile(r"([A-Za-z_]*?)([-+]?[0-9]+(?:\.[0-9]+)?)([A-Za-zµ%]*)")


def numbers(levels):
    """The levels as numbers, or None if one of them is not a number.

    A level is a number with a prefix or a unit that all levels share, such as 1400, mbit100 or 10ms;
    units of time may differ, and are in seconds then.
    """
    found = [_parts.fullmatch(str(level)) for level in levels]
    if len(found) < LEAST or not all(found):
        return None
    prefixes, units = ({match[k] for match in found} for k in (1, 3))
    if len(prefixes) > 1:
        return None
    if len(units) > 1 and not units <= set(SECONDS):
        return None
    scale = {unit: SECONDS[unit] if len(units) > 1 else 1.0 for unit in units}
    values = [float(match[2]) * scale[match[3]] for match in found]
    return values if len(set(values)) == len(values) else None


def ordered(levels):
    """The levels in the order of their numbers, or as they are."""
    values = numbers(levels)
    return tuple(levels) if values is None else tuple(level for _, level in sorted(zip(values, levels), key=lambda pair: pair[0]))


def is_wide(values, ratio=DECADES):
    """Whether positive values span so much that their axis should be logarithmic."""
    values = [value for value in values if value == value]
    return bool(values) and min(values) > 0 and max(values) / min(values) >= ratio
