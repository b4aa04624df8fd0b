"""Permutation of rows, within blocks, and sums of squares of permuted responses.

Rows that have the same levels of everything in the model are a cell. A permutation needs only
the sums of the responses over cells: time and memory grow with rows × responses, never with the
square of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Values that one batch of permutations holds: what fits into a core's cache.
BATCH = 1 << 17
# Statistics that differ by less than this share are equal: a permutation that only exchanges
# equal rows must count as one that reaches the observed value.
TIE = 1e-10
# A residual of at most this share of the total is rounding: the model fits exactly.
ROUNDING = 1e-13


def p_value(reached, permutations):
    """(b + 1) / (n + 1), of which b permutations reach the observed statistic (Phipson and
    Smyth, Permutation p-values should never be zero, 2010)."""
    return (reached + 1) / (permutations + 1)


def check_permutations(permutations) -> int:
    if isinstance(permutations, bool) or int(permutations) != permutations or permutations < 1:
        raise ValueError(f"permutations={permutations!r}: want a number of at least 1")
    return int(permutations)


class Shuffle:
    """Random permutations of rows, each within its block."""

    def __init__(self, rows: int, blocks, seed):
        self.rows = rows
        self.random = np.random.default_rng(seed)
        self.groups = None  # of blocks of one size: blocks by size
        if blocks is None:
            return
        order = np.argsort(blocks, kind="stable")
        sizes = np.bincount(blocks)
        starts = np.cumsum(sizes) - sizes
        if sizes.max() < 2:
            raise ValueError("every block has one row: nothing can be permuted within blocks")
        self.groups = [order[starts[sizes == size][:, None] + np.arange(size)] for size in np.unique(sizes)]

    def permute(self, values: np.ndarray, count: int) -> np.ndarray:
        """count permutations of values, one a row: count by rows."""
        if self.groups is None:
            drawn = np.empty((count, self.rows), dtype=values.dtype)
            drawn[:] = values
            return self.random.permuted(drawn, axis=1, out=drawn)
        result = np.empty((count, self.rows), dtype=values.dtype)
        for members in self.groups:
            drawn = np.empty((count, *members.shape), dtype=values.dtype)
            drawn[:] = values[members]
            result[:, members] = self.random.permuted(drawn, axis=2, out=drawn)
        return result


class Responses:
    """Squared Euclidean lengths of permuted responses along a basis. Rows of one cell, which the
    model treats alike, are neighbours."""

    def __init__(self, responses, basis, cells, blocks, seed):
        responses = responses - responses.mean(axis=0)
        order = np.argsort(cells, kind="stable")
        self.values = responses[order]
        self.starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
        self.basis = np.ascontiguousarray(basis[order[self.starts]].T)
        self.total = float(np.einsum("nq,nq->", responses, responses))
        self.shuffle = Shuffle(len(order), None if blocks is None else blocks[order], seed)
        self.batch = max(1, BATCH // responses.size)

    def squares(self, values: np.ndarray) -> np.ndarray:
        """(permutations, rows, responses) to (permutations, columns of the basis)."""
        if len(self.starts) < values.shape[1]:
            values = np.add.reduceat(values, self.starts, axis=1)
        return ((self.basis @ values) ** 2).sum(axis=2)

    def observed(self) -> np.ndarray:
        return self.squares(self.values[None])

    def permuted(self, count: int) -> np.ndarray:
        if self.values.shape[1] == 1:
            return self.squares(self.shuffle.permute(self.values[:, 0], count)[:, :, None])
        return self.squares(self.values[self.shuffle.permute(np.arange(len(self.values)), count)])


class Distances:
    """The same of a matrix of distances, centred as principal coordinates are (Gower 1966).
    Quadratic forms along the basis: negative where distances are not Euclidean."""

    def __init__(self, distances, basis, blocks, seed):
        gram = -0.5 * distances**2
        means = gram.mean(axis=0)
        self.gram = gram - means - means[:, None] + means.mean()
        self.basis = basis
        self.total = float(np.trace(self.gram))
        self.shuffle = Shuffle(len(basis), blocks, seed)
        self.batch = max(1, BATCH // max(1, basis.size))

    def squares(self, basis: np.ndarray) -> np.ndarray:
        """(permutations, rows, columns) to (permutations, columns)."""
        count, rows, columns = basis.shape
        flat = basis.transpose(1, 0, 2).reshape(rows, -1)
        return np.einsum("ij,ij->j", flat, self.gram @ flat).reshape(count, columns)

    def observed(self) -> np.ndarray:
        return self.squares(self.basis[None])

    def permuted(self, count: int) -> np.ndarray:
        return self.squares(self.basis[self.shuffle.permute(np.arange(len(self.basis)), count)])


@dataclass
class Decomposition:
    """Sums of squares and their F, and how many of the permutations reach F."""

    df: np.ndarray
    ss: np.ndarray
    f: np.ndarray
    residual_df: int
    residual: float
    total: float
    reached: np.ndarray


def decompose(kind, rows, bases, full, permutations, **arguments) -> Decomposition:
    """kind: Responses or Distances; bases: an orthonormal basis of each term, rows by df; full:
    one of all terms together."""
    df = np.array([b.shape[1] for b in bases])
    residual_df = rows - 1 - full.shape[1]
    # In sequence the terms' bases together are the model's.
    joined = df.sum() == full.shape[1] and np.array_equal(np.hstack(bases), full)
    source = kind(basis=full if joined else np.hstack([*bases, full]), **arguments)
    begins = np.append(0, np.cumsum(df))[: len(df) + (not joined)]

    def statistics(squares):
        ss = np.add.reduceat(squares, begins, axis=1)
        residual = source.total - (ss.sum(axis=1) if joined else ss[:, -1])
        residual[np.abs(residual) <= ROUNDING * source.total] = 0
        ss = ss[:, : len(df)]
        if residual_df == 0:
            return ss, residual, np.full_like(ss, np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            f = (ss / df) / (residual / residual_df)[:, None]
        return ss, residual, np.nan_to_num(f, nan=0, posinf=np.inf)  # 0 / 0: explains nothing

    ss, residual, f = (part[0] for part in statistics(source.observed()))
    least = np.where(np.isfinite(f), f - TIE * np.abs(np.nan_to_num(f)), f)
    reached = np.zeros(len(df), dtype=int)
    for begin in range(0, permutations, source.batch):
        drawn = source.permuted(min(source.batch, permutations - begin))
        reached += (statistics(drawn)[2] >= least).sum(axis=0)
    return Decomposition(df, ss, f, residual_df, float(residual), source.total, reached)
