"""Permutational multivariate analysis of variance."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.spatial.distance import pdist, squareform

from .design import Design, read_blocks, read_numbers
from .formula import Variable, parse_terms
from .permutation import Distances, Responses, check_permutations, decompose, p_value
from .variance import RESIDUAL, TOTAL

DISTANCES = ("euclidean", "braycurtis")


def permanova(
    data,
    responses=None,
    terms=None,
    by="sequential",
    permutations=999,
    distance="euclidean",
    distances=None,
    blocks=None,
    strata=None,
    seed=1,
):
    """Permutational multivariate analysis of variance: do rows that differ in a term lie further
    apart than chance explains?

    data: a DataFrame, one row a run. Either responses: the names of the columns that together
    are the response (one is enough, then f equals anova's), between whose rows distance
    ("euclidean" or "braycurtis") is taken; or distances: a symmetric matrix of distances between
    the rows of data, in their order. terms: "a * b", any number of factors and covariates. by:
    "sequential", each term after those before it, or "marginal", each after all others that do
    not contain it. blocks, the name of a column: rows are exchanged only within their block
    (strata, vegan's word, is the same); a term that does not vary within blocks, such as the
    blocks themselves, cannot be tested so, and its p is NaN.

    Returns a DataFrame with one row a term, then "Residual" and "Total": df, ss (sum of squared
    distances, unit of the distance squared), r2 (share of the total, 0 to 1), f (pseudo-F) and
    p = (b + 1) / (n + 1), where b of n random permutations of whole rows, drawn from seed, reach
    f. p assumes that rows are exchangeable if a term has no effect; groups of different
    dispersion can give a small p without a difference of location. An interaction with empty
    cells keeps the degrees of freedom that remain.

    Euclidean distances are never computed: sums of squares come from the responses themselves,
    in memory proportional to their number.

    Sources: Anderson, A new method for non-parametric multivariate analysis of variance, Austral
    Ecology 26 (2001) 32-46; McArdle and Anderson, Fitting multivariate models to community data,
    Ecology 82 (2001) 290-297; Phipson and Smyth, Permutation p-values should never be zero
    (2010)."""
    if terms is None:
        raise ValueError("terms are missing: want, for example, terms='a * b'")
    if blocks is not None and strata is not None and blocks != strata:
        raise ValueError(f"blocks={blocks!r} and strata={strata!r}: they are one, give one")
    if (responses is None) == (distances is None):
        raise ValueError("want either responses=[…], names of columns, or distances=matrix")
    design = Design(data, parse_terms(terms))
    permutations = check_permutations(permutations)
    arguments = {"blocks": read_blocks(data, strata if blocks is None else blocks), "seed": seed}
    if responses is not None:
        values = _read_responses(data, responses, distance)
        if distance == "braycurtis":
            distances = _bray_curtis(values)
    if distances is not None:
        kind, arguments["distances"] = Distances, _read_distances(distances, len(data))
    else:
        kind, arguments["responses"], arguments["cells"] = Responses, values, design.cells()
    bases, full = design.bases(by, empty_cells=True)
    if len(data) - 1 <= full.shape[1]:
        raise ValueError(
            f"terms {terms!r}: no degrees of freedom are left for the residual: repeat runs, or leave out a term"
        )
    found = decompose(kind, len(data), bases, full, permutations, **arguments)
    ss = np.concatenate([found.ss, [found.residual, found.total]])
    p = np.where(design.within(arguments["blocks"]), p_value(found.reached, permutations), np.nan)
    return pd.DataFrame(
        {
            "df": np.concatenate([found.df, [found.residual_df, len(data) - 1]]),
            "ss": ss,
            "r2": ss / found.total,
            "f": np.concatenate([found.f, [np.nan, np.nan]]),
            "p": np.concatenate([p, [np.nan, np.nan]]),
        },
        index=pd.Index([*design.names, RESIDUAL, TOTAL], name="term"),
    )


def _read_responses(data, responses, distance):
    if distance not in DISTANCES:
        raise ValueError(
            f"distance={distance!r}: want 'euclidean' or 'braycurtis'; for another give distances=matrix"
        )
    if isinstance(responses, str):
        responses = [responses]
    responses = list(responses)
    if not responses:
        raise ValueError("responses are empty: want names of columns")
    values = np.column_stack([read_numbers(data, Variable(r)) for r in responses])
    if not np.ptp(values, axis=0).any():
        raise ValueError(f"{', '.join(map(str, responses))}: constant, there is no variation to explain")
    return values


def _bray_curtis(values):
    if (values < 0).any():
        raise ValueError("braycurtis: responses must not be negative")
    empty = np.flatnonzero(values.sum(axis=1) == 0)
    if len(empty) > 1:
        raise ValueError(
            f"braycurtis: {len(empty)} rows hold only zeros, the distance between them is not defined"
        )
    return squareform(pdist(values, "braycurtis"))


def _read_distances(distances, rows):
    matrix = np.asarray(distances, dtype=float)
    if matrix.ndim == 1 and len(matrix) == rows * (rows - 1) // 2:
        matrix = squareform(matrix)
    if matrix.shape != (rows, rows):
        raise ValueError(
            f"distances have shape {matrix.shape}: want ({rows}, {rows}), one row and column for each row of data"
        )
    if not np.isfinite(matrix).all():
        raise ValueError("distances hold missing or infinite values")
    largest = np.abs(matrix).max()
    if np.abs(matrix - matrix.T).max() > 1e-9 * largest:
        raise ValueError("distances are not symmetric")
    if np.abs(np.diag(matrix)).max() > 1e-9 * largest:
        raise ValueError("distances of a row from itself are not 0")
    if (matrix < 0).any():
        raise ValueError("distances are negative")
    if largest == 0:
        raise ValueError("all distances are 0: there is no variation to explain")
    return matrix
