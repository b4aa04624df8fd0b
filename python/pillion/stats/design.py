"""What a model's terms span: factors, covariates and orthonormal bases of terms.

Terms are coded by indicator columns and reduced to what they add to other terms, so sums of
squares do not depend on a choice of contrasts. A column is a factor if it holds strings,
categories, booleans or integers, and a covariate if it holds floating-point numbers: the levels
of a designed experiment are often written as integers. C(x) makes a factor of any column, and
.astype(float) a covariate.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd

from .formula import Variable, term_name

# Singular values below this share of a column's length count as zero.
RANK_TOLERANCE = 1e-9


class Factor:
    """levels: in the order of the categories, otherwise sorted; codes: one integer a row."""

    def __init__(self, name, column: pd.Series):
        self.name = name
        if isinstance(column.dtype, pd.CategoricalDtype):
            column = column.cat.remove_unused_categories()
            self.levels = list(column.cat.categories)
            self.codes = column.cat.codes.to_numpy().astype(np.intp)
        else:
            values = column.to_numpy(dtype=object)
            unique = set(values)
            try:
                self.levels = sorted(unique)
            except TypeError:  # levels of several types
                self.levels = sorted(unique, key=str)
            position = {level: i for i, level in enumerate(self.levels)}
            self.codes = np.fromiter((position[v] for v in values), np.intp, len(values))
        if len(self.levels) < 2:
            raise ValueError(
                f"factor {name} has one level ({level_name(self.levels[0])}): nothing to compare"
            )

    def columns(self, rows=slice(None)) -> np.ndarray:
        """Indicators, rows by levels."""
        return np.eye(len(self.levels))[self.codes[rows]]


class Covariate:
    """values: scaled, and centred if that changes no term's span."""

    def __init__(self, name, values: np.ndarray, centre: bool):
        self.name = name
        spread = np.ptp(values)
        if spread <= 1e-12 * np.abs(values).max():
            raise ValueError(f"covariate {name} is constant ({values[0]:g})")
        self.values = (values - values.mean()) / spread if centre else values / np.abs(values).max()

    def columns(self, rows=slice(None)) -> np.ndarray:
        return self.values[rows, None]


def level_name(level) -> str:
    """How a level is written in the names of rows: 10, not 10.0."""
    if isinstance(level, (float, np.floating)):
        return f"{level:.15g}"
    return str(level)


class Design:
    """Rows of data and the terms of a model over them."""

    def __init__(self, data: pd.DataFrame, terms):
        check_frame(data)
        self.rows = len(data)
        self.terms = list(terms)
        self.names = [term_name(t) for t in self.terms]
        self.variables = {}
        for term in self.terms:
            for variable in term:
                if variable not in self.variables:
                    self.variables[variable] = self._read(data, variable)

    def _read(self, data, variable):
        if is_factor(data, variable):
            return Factor(str(variable), read_column(data, variable.column))
        present = {frozenset(t) for t in self.terms} | {frozenset()}
        centre = all(frozenset(t) - {variable} in present for t in self.terms if variable in t)
        return Covariate(str(variable), read_numbers(data, variable), centre)

    def columns(self, term, rows=slice(None)) -> np.ndarray:
        """Indicators of a term, rows by combinations of levels (times covariates)."""
        columns = np.ones((1, 1))
        for variable in term:
            more = self.variables[variable].columns(rows)
            columns = (columns[:, :, None] * more[:, None, :]).reshape(len(more), -1)
        return columns[:, columns.any(axis=0)]

    def cells(self) -> np.ndarray:
        """A number for each row, from 0; rows of one number are alike in all terms."""
        cells = np.zeros(self.rows, dtype=np.intp)
        for read in self.variables.values():
            codes = read.codes if isinstance(read, Factor) else np.unique(read.values, return_inverse=True)[1]
            cells = np.unique(cells * (codes.max() + 1) + codes, return_inverse=True)[1]
        return cells

    def within(self, blocks) -> np.ndarray:
        """Of each term, whether it varies within blocks: only then can permutation within blocks
        test it. None: all rows are one block."""
        if blocks is None:
            return np.full(len(self.terms), True)
        first = np.unique(blocks, return_index=True)[1][blocks]
        return np.array([(self.columns(t) != self.columns(t)[first]).any() for t in self.terms])

    def factors(self, term):
        return [self.variables[v] for v in term if isinstance(self.variables[v], Factor)]

    def nominal(self, term, before) -> int:
        """Degrees of freedom that a term adds to those before it if no cell is empty and nothing
        is confounded: the degrees of freedom of the effects it holds (itself and the interactions
        within it) that no earlier term holds."""

        def split(t):
            factors = frozenset(v for v in t if isinstance(self.variables[v], Factor))
            return frozenset(t) - factors, factors

        covariates, factors = split(term)
        held = [f for c, f in map(split, [(), *before]) if c == covariates]
        df = 0
        for size in range(len(factors) + 1):
            for effect in itertools.combinations(sorted(factors), size):
                if not any(f.issuperset(effect) for f in held):
                    df += math.prod(len(self.variables[v].levels) - 1 for v in effect)
        return df

    def empty_cells(self, term):
        """Combinations of levels without a row, as names."""
        factors = self.factors(term)
        if len(factors) < 2:
            return []
        shape = tuple(len(f.levels) for f in factors)
        count = np.bincount(
            np.ravel_multi_index([f.codes for f in factors], shape), minlength=int(np.prod(shape))
        )
        return [
            ", ".join(
                f"{f.name}={level_name(f.levels[i])}" for f, i in zip(factors, np.unravel_index(cell, shape))
            )
            for cell in np.flatnonzero(count == 0)
        ]

    def bases(self, by: str, empty_cells: bool = False):
        """An orthonormal basis of what each term adds, each rows by df, and one of all terms
        together. "sequential": to the terms before it; "marginal": to all others that do not
        contain it. A term that adds nothing is an error, one that adds less than it should too,
        unless empty_cells allows it."""
        if by not in ("sequential", "marginal"):
            raise ValueError(f"by={by!r}: want 'sequential' or 'marginal'")
        # Rows that are alike have one row in all bases: of length 1 for all of them together.
        cells = self.cells()
        _, first, count = np.unique(cells, return_index=True, return_counts=True)
        weight = np.sqrt(count)[:, None]
        columns = {term: self.columns(term, first) * weight for term in self.terms}

        def expanded(basis):
            return (basis / weight)[cells]

        ones = weight * self.rows**-0.5
        whole, sequential = ones, []
        for i, term in enumerate(self.terms):
            added = _beyond(columns[term], whole)
            self._check(term, added.shape[1], self.terms[:i], empty_cells)
            sequential.append(expanded(added))
            whole = np.hstack([whole, added])
        full = expanded(whole[:, 1:])
        if by == "sequential":
            return sequential, full
        marginal = []
        for i, term in enumerate(self.terms):
            others = ones
            for other in self.terms:
                if not set(term) <= set(other):
                    others = np.hstack([others, _beyond(columns[other], others)])
            marginal.append(expanded(_beyond(columns[term], others)))
            if marginal[-1].shape[1] == 0:
                raise ValueError(
                    f"{self.names[i]} is confounded with the other terms: it adds nothing to them"
                )
        return marginal, full

    def _check(self, term, df, before, empty_cells):
        nominal = self.nominal(term, before)
        if df == nominal:
            return
        name = term_name(term)
        empty = self.empty_cells(term)
        # A factor that is only there within another one has levels of its own in each of its.
        nested = any((v,) not in before for v in term)
        if empty and df and (empty_cells or nested):
            return
        if empty:
            shown = "; ".join(empty[:4]) + ("; …" if len(empty) > 4 else "")
            raise ValueError(
                f"{name} cannot be estimated: {len(empty)} of its cells have no rows ({shown}); "
                f"run them, or leave {name} out of the model"
            )
        raise ValueError(
            f"{name} is confounded with the terms before it: {df} of {nominal} degrees of freedom remain; "
            "leave one of them out"
        )


def _beyond(columns: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """An orthonormal basis of what columns span beyond a basis."""
    scale = np.linalg.norm(columns, axis=0)
    columns = columns / scale
    rest = columns - basis @ (basis.T @ columns)
    rest -= basis @ (basis.T @ rest)  # twice is enough (Kahan and Parlett)
    if rest.shape[1] == 0:
        return rest
    u, s, _ = np.linalg.svd(rest, full_matrices=False)
    return u[:, s > RANK_TOLERANCE * np.sqrt(columns.shape[1])]


def check_frame(data):
    if not isinstance(data, pd.DataFrame):
        raise TypeError(f"data is {type(data).__name__}: want a pandas DataFrame")
    if len(data) == 0:
        raise ValueError("data has no rows")


def read_column(data: pd.DataFrame, name) -> pd.Series:
    if name not in data.columns:
        raise ValueError(f"no column {name!r}: data has {', '.join(map(repr, data.columns))}")
    column = data[name]
    if isinstance(column, pd.DataFrame):
        raise ValueError(f"column {name!r} is there {column.shape[1]} times")
    missing = np.flatnonzero(column.isna())
    if len(missing):
        raise ValueError(
            f"column {name!r} has {len(missing)} missing value(s), the first in row {data.index[missing[0]]!r}: "
            "leave these rows out, or say why they are missing"
        )
    return column


def read_numbers(data: pd.DataFrame, variable: Variable) -> np.ndarray:
    """A column as numbers, all finite, transformed."""
    column = read_column(data, variable.column)
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        raise ValueError(f"column {variable.column!r} holds {column.dtype}: want numbers")
    values = column.to_numpy(dtype=float)
    if not np.isfinite(values).all():
        raise ValueError(f"column {variable.column!r} has infinite values")
    if not variable.function:
        return values
    with np.errstate(all="ignore"):
        transformed = getattr(np, variable.function)(values)
    if not np.isfinite(transformed).all():
        raise ValueError(f"{variable}: not defined for {values[~np.isfinite(transformed)][0]:g}")
    return transformed


def is_factor(data: pd.DataFrame, variable: Variable) -> bool:
    column = read_column(data, variable.column)
    return variable.function == "C" or not variable.function and not pd.api.types.is_float_dtype(column)


def read_blocks(data: pd.DataFrame, blocks):
    """Block of each row as integers from 0; None: all rows are one block."""
    if blocks is None:
        return None
    column = read_column(data, blocks)
    return pd.factorize(column)[0].astype(np.intp)
