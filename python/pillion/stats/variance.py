"""Analysis of variance and allocation of variation."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import stats

from .design import Design, read_blocks, read_numbers
from .formula import parse_formula
from .permutation import Responses, check_permutations, decompose, p_value

RESIDUAL = "Residual"
TOTAL = "Total"


def anova(data, formula, by="sequential", permutations=None, blocks=None, seed=1):
    """Analysis of variance of a linear model with fixed effects.

    data: a DataFrame, one row a run. formula: "y ~ a * b". by: "sequential", each term after
    those before it in the formula (type I), or "marginal", each term after all others that do
    not contain it (type II). In a balanced design both are the same.

    Returns a DataFrame with one row a term, then "Residual": df (degrees of freedom), ss (sum of
    squares, unit of the response squared), ms (ss / df), f and p.

    p comes from the F distribution: it assumes independent errors, normal and of one variance.
    With permutations, p = (b + 1) / (n + 1), where b of n random permutations of the response
    reach f: it assumes exchangeable rows. With blocks, the name of a column, rows are exchanged
    only within their block (999 times if permutations are not given), so that rows need be
    exchangeable only there: a drift from block to block does no harm. blocks changes p alone; a
    term for the blocks ("y ~ block + a * b") also takes their variation out of the residual. A term
    that does not vary within blocks, such as the blocks themselves, cannot be tested so: NaN.
    Permutations are of raw rows (Manly, Randomization, 2nd ed. 1997), drawn from seed.

    Sources: Jain, The Art of Computer Systems Performance Analysis (1991), chapters 18-23;
    Searle, Linear Models (1971), for unbalanced data."""
    model = _Model(data, formula)
    if permutations is None and blocks is not None:
        permutations = 999
    permuted = 0 if permutations is None else check_permutations(permutations)
    block = read_blocks(data, blocks)
    found = model.decompose(by, permuted, block, seed)
    if found.residual_df == 0:
        raise ValueError(
            f"{formula}: no degrees of freedom are left for the residual: repeat runs, or leave out an interaction"
        )
    df = np.append(found.df, found.residual_df)
    ss = np.append(found.ss, found.residual)
    if permuted:
        p = np.where(model.design.within(block), p_value(found.reached, permuted), np.nan)
    else:
        p = stats.f.sf(found.f, found.df, found.residual_df)
    return pd.DataFrame(
        {"df": df, "ss": ss, "ms": ss / df, "f": np.append(found.f, np.nan), "p": np.append(p, np.nan)},
        index=pd.Index([*model.design.names, RESIDUAL], name="term"),
    )


def variation(data, formula):
    """Allocation of variation: which share of the response's variation about its mean each term
    explains.

    Returns a DataFrame with one row a term, then "Residual" (the variation that the model does
    not explain), and the column share in percent; the shares add up to 100. It needs no
    assumption about the errors, and says how much a factor matters, not whether that is beyond
    chance. In an unbalanced design a share depends on the order of the terms.

    Source: Jain, The Art of Computer Systems Performance Analysis (1991), section 17.4."""
    model = _Model(data, formula)
    found = model.decompose("sequential", 0, None, None)
    return pd.DataFrame(
        {"share": 100 * np.append(found.ss, found.residual) / found.total},
        index=pd.Index([*model.design.names, RESIDUAL], name="term"),
    )


class _Model:
    def __init__(self, data, formula):
        response, terms = parse_formula(formula)
        self.design = Design(data, terms)
        self.y = read_numbers(data, response)
        if np.ptp(self.y) <= 1e-14 * np.abs(self.y).max():
            raise ValueError(f"{response} is constant ({self.y[0]:g}): there is no variation to explain")

    def decompose(self, by, permutations, blocks, seed):
        bases, full = self.design.bases(by)
        return decompose(
            Responses,
            len(self.y),
            bases,
            full,
            permutations,
            responses=self.y[:, None],
            cells=self.design.cells(),
            blocks=blocks,
            seed=seed,
        )
