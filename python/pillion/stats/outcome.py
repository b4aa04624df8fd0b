"""Results that are one row: a Series whose entries have names."""

from __future__ import annotations

import numpy as np
import pandas as pd


class Outcome(pd.Series):
    """A Series; its entry count is also an attribute, as the other entries are."""

    @property
    def _constructor(self):
        return pd.Series

    @property
    def count(self):
        return self["count"] if "count" in self.index else super().count


def outcome(note="", **entries) -> Outcome:
    """note, a word on what is unusual about a result, is an entry only if there is one."""
    if not note:
        return Outcome(entries)
    return Outcome({**entries, "note": note}, dtype=object)


def read_sample(values, what="values", least=2) -> np.ndarray:
    """A flat sample of finite numbers."""
    try:
        sample = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{what}: want numbers") from None
    if sample.ndim != 1:
        raise ValueError(f"{what} have {sample.ndim} dimensions: want one list of numbers")
    if len(sample) < least:
        raise ValueError(f"{what}: {len(sample)} given, want at least {least}")
    bad = np.flatnonzero(~np.isfinite(sample))
    if len(bad):
        raise ValueError(
            f"{what}: {len(bad)} of {len(sample)} are missing or infinite, the first at position {bad[0]}"
        )
    return sample


def is_constant(sample: np.ndarray) -> bool:
    """Equal up to rounding of the values themselves."""
    return bool(np.ptp(sample) <= 4 * np.finfo(float).eps * np.abs(sample).max())
