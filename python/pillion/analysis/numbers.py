"""Numbers as texts for readers: as many digits as they deserve, and thousands apart."""

import math

import numpy as np

# Thousands are set apart by a narrow space that does not break.
GAP = "\u202f"
_raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def is_none(value):
    return value is None or (isinstance(value, (float, np.floating)) and not np.isfinite(value))


def fixed(value, decimals):
    """A number with so many decimals; of 10 000 and more thousands are apart."""
    text = "%.*f" % (decimals, value)
    if float(text) == 0:
        text = text.lstrip("-")  # no negative zero
    if abs(value) < 9999.5:
        return text
    return format(float(text), ",.%df" % decimals).replace(",", GAP)


def number(value, digits=4):
    """A number with so many significant digits, of millions with a prefix; nothing where there is none."""
    if is_none(value):
        return ""
    value = float(value)
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    for power, prefix in ((9, "G"), (6, "M")):
        if power <= size < power + 4 and size >= digits + 2:
            return "%s%s%s" % (number(value / 10**power, digits), GAP, prefix)
    if size >= 9 or size < -4:
        mantissa, exponent = ("%.*e" % (digits - 2, value)).split("e")
        return "%s × 10%s" % (mantissa, str(int(exponent)).translate(_raised))
    rounded = round(value, digits - 1 - size)
    if rounded == int(rounded) and size < digits:
        return fixed(rounded, 0)
    return fixed(rounded, max(0, digits - 1 - size))


def column(values, spreads, most=6, is_ratio=False):
    """How to write the values of a column: a function with the same decimals for all of them.

    The smallest spread that is not zero gets two digits, unless the largest value had more digits than most: then each
    value has its own. Of ratios the smallest value gets two digits too: 0.004 is not 0.
    """
    sizes = [abs(float(v)) for v in values if not is_none(v)]
    # What remains of a sum of equal numbers is no spread.
    spreads = [float(s) for s in spreads if not is_none(s) and s > 1e-12 * max(sizes, default=0)]
    largest = math.floor(math.log10(max(sizes))) + 1 if sizes and max(sizes) > 0 else 1
    if sizes and all(v == round(v) for v in sizes) and largest <= 9 and not spreads:
        return lambda value: "" if is_none(value) else fixed(value, 0)
    if not spreads:
        return number
    decimals = max(0, 1 - math.floor(math.log10(min(spreads))))
    if is_ratio and sizes and min(sizes) > 0:
        decimals = max(decimals, 1 - math.floor(math.log10(min(sizes))))
    if largest > 9 or max(largest, 0) + decimals > most:
        return number
    return lambda value: "" if is_none(value) else fixed(value, decimals)


def count(number, name):
    """A number of things, such as 1 block or 2 blocks."""
    return "%s %s%s" % (fixed(number, 0), name, "" if number == 1 else "s")


def interval(low, high, write=number):
    return "" if is_none(low) or is_none(high) else "%s to %s" % (write(low), write(high))


def share(value):
    """A number, or a text such as 2%, as a number; None without."""
    if value in (None, ""):
        return None
    if isinstance(value, str):
        text = value.strip()
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)
    return float(value)
