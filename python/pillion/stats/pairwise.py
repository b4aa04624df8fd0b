"""Comparison of all pairs of levels."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
from scipy import stats

from .design import Design, Factor, level_name, read_numbers
from .formula import parse_formula, parse_terms, term_name
from .interval import check_confidence


def tukey(data, formula, term, confidence=0.95, error_df=None):
    """Differences between all pairs of levels of a term, with simultaneous intervals (Tukey's
    honest significant differences).

    data: a DataFrame, one row a run. formula: "y ~ a * b", the model whose residual is the error.
    term: a factor of the model, "b", or an interaction in it, "a:b", whose levels are then its
    cells.

    Returns a DataFrame with one row a pair, named "M-L" as what is subtracted from what: the
    difference, the interval's ends low and high (unit of the response), and p. The probability
    that all intervals hold their difference is at least the confidence, and p is adjusted for
    the number of pairs. Cells are written "B:M".

    Means are the model's: adjusted for the other terms, all of whose levels count alike (least
    squares means; plain means in a balanced design), covariates at their mean. For unequal
    numbers of rows the interval is Tukey and Kramer's. It assumes independent normal errors of
    one variance. error_df: degrees of freedom of the error, if fewer than the model's: after a stop
    rule, the degrees of freedom of the pilot's model.

    Sources: Kramer, Extension of multiple range tests to group means with unequal numbers of
    replications, Biometrics 12 (1956) 307-310; Searle, Speed and Milliken, Population marginal
    means in the linear model, American Statistician 34 (1980) 216-221."""
    check_confidence(confidence)
    response, terms = parse_formula(formula)
    compared = _compared(term, terms, formula)
    design = Design(data, terms)
    covariates = [str(v) for v in compared if not isinstance(design.variables[v], Factor)]
    if covariates:
        raise ValueError(
            f"{covariates[0]} is a covariate: it has no levels to compare; C({covariates[0]}) makes a factor of it"
        )
    y = read_numbers(data, response)
    design.bases("sequential")  # refuses empty cells and confounded terms
    names, rows = _means(design, compared)
    x = np.hstack([np.ones((design.rows, 1)), *(design.columns(t) for t in terms)])
    inverse = np.linalg.pinv(x, rcond=1e-11)
    estimate = inverse @ y
    df = design.rows - np.linalg.matrix_rank(x)
    if df < 1:
        raise ValueError(
            f"{formula}: no degrees of freedom are left for the residual: repeat runs, or leave out an interaction"
        )
    error = float(((y - x @ estimate) ** 2).sum()) / df
    if error_df is not None:
        if not 1 <= error_df <= df:
            raise ValueError(f"error_df={error_df!r}: want degrees of freedom between 1 and {df}, as {formula} has")
        df = error_df
    if error <= 1e-26 * float((y**2).mean()):
        raise ValueError(f"{formula}: the model fits exactly, there is no error to compare with")
    first, second = np.triu_indices(len(names))
    first, second = first[first != second], second[first != second]
    contrast = rows[second] - rows[first]
    if np.abs(contrast @ inverse @ x - contrast).max() > 1e-7:
        raise ValueError(f"{term} cannot be compared: its means cannot be estimated from these rows")
    difference = contrast @ estimate
    deviation = np.sqrt(error * ((contrast @ inverse) ** 2).sum(axis=1))
    width = _quantile(confidence, len(names), df) / np.sqrt(2) * deviation
    p = stats.studentized_range.sf(np.sqrt(2) * np.abs(difference) / deviation, len(names), df)
    return pd.DataFrame(
        {
            "difference": difference,
            "low": difference - width,
            "high": difference + width,
            "p": np.clip(p, 0, 1),
        },
        index=pd.Index([f"{names[j]}-{names[i]}" for i, j in zip(first, second)], name="pair"),
    )


@functools.lru_cache(maxsize=256)
def _quantile(confidence, groups, df):
    """Of the studentized range, whose inverse takes long."""
    return float(stats.studentized_range.ppf(confidence, groups, df))


def _compared(term, terms, formula):
    wanted = parse_terms(term)
    if len(wanted) != 1:
        raise ValueError(f"term {term!r}: want one factor, 'b', or one interaction, 'a:b'")
    if frozenset(wanted[0]) not in {frozenset(t) for t in terms}:
        raise ValueError(f"{formula}: has no term {term!r}; it has {', '.join(map(term_name, terms))}")
    return wanted[0]


def _means(design, compared):
    """Names of the levels, the first factor's changing fastest, and for each the linear
    combination of the model's columns that is its mean."""
    factors = [design.variables[v] for v in compared]
    shape = tuple(len(f.levels) for f in factors)
    cells = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape, order="F"), axis=1)
    names = [":".join(level_name(f.levels[i]) for f, i in zip(factors, cell)) for cell in cells]
    rows = []
    for cell in cells:
        at = dict(zip(compared, cell))
        row = [np.ones(1)]
        for term in design.terms:
            part = np.ones(1)
            for variable in term:
                read = design.variables[variable]
                if variable in at:
                    weights = np.eye(len(read.levels))[at[variable]]
                else:
                    weights = (
                        read.columns().mean(axis=0)
                        if not isinstance(read, Factor)
                        else np.full(len(read.levels), 1 / len(read.levels))
                    )
                part = np.outer(part, weights).reshape(-1)
            row.append(part)
        rows.append(np.concatenate(row))
    return names, np.array(rows)
