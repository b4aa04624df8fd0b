"""The histogram of signed nanoseconds that rows of flows and router carry.

A histogram is three parallel lists, as in the columns <x>_bounds_ns, <x>_counts and
<x>_offsets_ns: lower bounds of the non-empty buckets, ascending; values in each; and the
sum of value minus lower bound over each, or None where that is unknown. The layout and
the quantile are the same as in Go's measure/histogram, with the same golden vectors.
"""

import math

FIRST_OCTAVE, WIDE_OCTAVE, OCTAVE_BITS = 6, 36, 5
EXACT_END = 1 << FIRST_OCTAVE
WIDE_INDEX = EXACT_END + ((WIDE_OCTAVE - FIRST_OCTAVE) << OCTAVE_BITS)


def index(value):
    """Number of the bucket that holds a value, negative for values below zero."""
    if value < 0:
        return -1 - index(~value)
    if value < EXACT_END:
        return value
    octave = value.bit_length() - 1
    if octave >= WIDE_OCTAVE:
        return WIDE_INDEX + octave - WIDE_OCTAVE
    place = (value >> (octave - OCTAVE_BITS)) & ((1 << OCTAVE_BITS) - 1)
    return EXACT_END + ((octave - FIRST_OCTAVE) << OCTAVE_BITS) + place


def bound(bucket):
    """Least value in the bucket of an index."""
    if bucket < 0:
        mirror = -1 - bucket
        return -(bound(mirror) + width(mirror))
    if bucket < EXACT_END:
        return bucket
    if bucket >= WIDE_INDEX:
        return 1 << (WIDE_OCTAVE + bucket - WIDE_INDEX)
    octave, place = divmod(bucket - EXACT_END, 1 << OCTAVE_BITS)
    return ((1 << OCTAVE_BITS) + place) << (octave + FIRST_OCTAVE - OCTAVE_BITS)


def width(bucket):
    """How many values the bucket of an index holds."""
    if bucket < 0:
        return width(-1 - bucket)
    if bucket < EXACT_END:
        return 1
    if bucket >= WIDE_INDEX:
        return 1 << (WIDE_OCTAVE + bucket - WIDE_INDEX)
    return 1 << (((bucket - EXACT_END) >> OCTAVE_BITS) + FIRST_OCTAVE - OCTAVE_BITS)


def merge(histograms):
    """The sum of histograms, each (bounds, counts, offsets or None), as one of them."""
    buckets, known = {}, True
    for bounds, counts, offsets in histograms:
        known = known and (offsets is not None or not any(counts))
        for i, low in enumerate(bounds):
            if counts[i]:
                floor = bound(index(low))
                known = known and floor == low
                n, total = buckets.get(floor, (0, 0))
                buckets[floor] = n + counts[i], total + (offsets[i] if offsets else 0)
    rows = sorted(buckets.items())
    offsets = [total for _, (_, total) in rows] if known and rows else None
    return [low for low, _ in rows], [n for _, (n, _) in rows], offsets


def quantile(q, bounds, counts, offsets=None, least=-math.inf, most=math.inf):
    """The value of rank ceil(q * total) between the extremes; NaN of no values.

    Values of a bucket count as evenly spread around their mean.
    """
    total, below = float(sum(counts)), 0.0
    if not total:
        return math.nan
    rank = max(1, math.ceil(q * total))
    for i, count in enumerate(counts):
        if below + count < rank:
            below += count
            continue
        low = max(bounds[i], least)
        high = min(bounds[i] + float(width(index(bounds[i]))), most + 1)
        mean = (low + high) / 2
        if offsets is not None:
            mean = max(low, min(high, bounds[i] + offsets[i] / count + 0.5))
        share = (rank - below - 0.5) / count
        value = math.floor(mean + (2 * share - 1) * min(mean - low, high - mean))
        return max(least, min(most, value))
    return most
