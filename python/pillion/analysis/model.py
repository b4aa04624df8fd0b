"""Linear models of an experiment: blocks, and factors with their interactions.

Blocks are the first term, so that differences between blocks count neither as effects nor as
error. Ratios are analysed as differences of logarithms.
"""

import itertools

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from pillion import stats
from pillion.analysis import effects

# RANK counts blocks from 0, without gaps.
BLOCK, RANK, RESPONSE = "block", "block_rank", "y"


def data_of(x, measure=None):
    """Runs as a table for the model: response (y), block, block_rank and factors."""
    runs = effects.runs_of(x)
    table = _columns(x, runs).assign(**{RESPONSE: effects.scaled(x, measure, runs)})
    return table[table[RESPONSE].notna()].reset_index(drop=True)


def _columns(x, runs):
    rank = runs["block"].rank(method="dense").astype(int) - 1
    return pd.DataFrame({BLOCK: "b" + runs["block"].astype(str), RANK: rank, **{name: runs[name].astype(str) for name in x.design.factors}})


class _Model:
    """Runs and a formula, with factors renamed to identifiers that a formula accepts.

    Where cells were excluded, factors are not crossed and their interaction has no estimate.
    By default such factors are merged into one, such as mark/every, whose levels are their
    combinations, so that interactions do not add to the error. Terms of the caller are not changed.
    """

    def __init__(self, x, terms, table):
        for name in x.design.factors:
            if name in (RESPONSE, BLOCK, RANK):
                raise ValueError("factor %r has the name that the model gives to %s" % (name, "the response" if name == RESPONSE else "blocks"))
        self.blocks = table[BLOCK].nunique() > 1
        factors = list(x.design.factors)
        if terms is None:
            factors = x.design.crossed()
            if not factors:
                raise ValueError("no factor has two levels")
            for group in _uncrossed(table, factors):
                merged = "/".join(group)
                table = table.assign(**{merged: table[group].agg("/".join, axis=1)})
                factors = [merged if f == group[0] else f for f in factors if f not in group[1:]]
        self.safe = {name: name if name.isidentifier() else "f%d_" % i for i, name in enumerate(factors)}
        self.real = {safe: name for name, safe in self.safe.items()}
        self.terms = " * ".join(self.safe.values()) if terms is None else self._renamed(terms)
        self.table = table.rename(columns=self.safe).reset_index(drop=True)

    def _renamed(self, terms):
        for name, safe in sorted(self.safe.items(), key=lambda pair: -len(pair[0])):
            if name != safe:
                terms = terms.replace(name, safe)
        return terms

    @property
    def right(self):
        """The right side of the formula, blocks first."""
        return (BLOCK + " + " if self.blocks else "") + self.terms

    @property
    def formula(self):
        return "%s ~ %s" % (RESPONSE, self.right)

    def term(self, term):
        """A term of the experiment with the names of factors in the formula."""
        return ":".join(self.safe.get(part, part) for part in term.split(":"))

    def named(self, result):
        """The result with the names of factors in the experiment."""
        rename = {label: ":".join(self.real.get(part, part) for part in str(label).split(":")) for label in result.index}
        result = result.rename(index=rename)
        result.index.name = "term"
        return result

    @property
    def residual_df(self):
        return int(stats.anova(self.table, self.formula)["df"].iloc[-1])

    @property
    def within(self):
        """Arguments that restrict permutations to runs of the same block."""
        return {"blocks": BLOCK} if self.blocks else {}


def _complete(table, factors):
    """Whether each combination of the factors' levels was run."""
    return len(table[factors].drop_duplicates()) == np.prod([table[name].nunique() for name in factors])


def _uncrossed(table, factors):
    """Groups of factors that are not fully crossed with each other, in their order."""
    groups = [[name] for name in factors]
    for a, b in itertools.combinations(factors, 2):
        one, other = (next(g for g in groups if name in g) for name in (a, b))
        if one is not other and not _complete(table, [a, b]):
            one += other
            groups.remove(other)
    if len(groups) > 1 and not _complete(table, factors):
        merged = table.assign(**{"/".join(g): table[g].agg("/".join, axis=1) for g in groups})
        if not _complete(merged, ["/".join(g) for g in groups]):
            groups = [list(factors)]
    return [sorted(g, key=factors.index) for g in groups if len(g) > 1]


def _pilot_df(x, model, df):
    """Degrees of freedom of the error: the model's, or after the stop rule the pilot's."""
    later = model.table[RANK] >= (x.design.pilot or np.inf)
    return df - int(later.sum()) + model.table[BLOCK][later].nunique()


def variation(x, terms=None, measure=None):
    model = _Model(x, terms, data_of(x, measure))
    return model.named(stats.variation(model.table, model.formula))


def anova(x, terms=None, by="sequential", measure=None, permutations=0, seed=1):
    model = _Model(x, terms, data_of(x, measure))
    result = model.named(stats.anova(model.table, model.formula, by=by))
    df = result["df"].iloc[-1]
    result["p"] = scipy_stats.f.sf(result["f"], result["df"], _pilot_df(x, model, df))
    if permutations:
        permuted = stats.anova(model.table, model.formula, by=by, permutations=permutations, seed=seed, **model.within)
        result["p_permuted"] = model.named(permuted)["p"].reindex(result.index)
        if BLOCK in result.index:
            result.loc[BLOCK, "p_permuted"] = np.nan  # blocks are never permuted
    return result


def permanova(x, measures=None, terms=None, by="sequential", permutations=999, distance="euclidean", seed=1):
    measures = [measures] if isinstance(measures, str) else list(measures or x.design.measures)
    runs = effects.runs_of(x)
    runs = runs.dropna(subset=[effects.measure_of(x, m) for m in measures])
    table, responses = _columns(x, runs), []
    for i, measure in enumerate(measures):
        values = runs[measure] if distance != "euclidean" else effects.scaled(x, measure, runs)
        if distance == "euclidean" and len(measures) > 1:
            # Standardised, so that measures in different units have the same weight.
            values = (values - values.mean()) / (values.std() or 1)
        responses.append("r%d_" % i)
        table[responses[-1]] = values
    model = _Model(x, terms, table)
    result = model.named(stats.permanova(model.table, responses=responses, terms=model.right, by=by, permutations=permutations,
                                         distance=distance, seed=seed, **model.within))  # fmt: skip
    if BLOCK in result.index:
        result.loc[BLOCK, "p"] = np.nan  # blocks are never permuted
    return result


def tukey(x, term, measure=None, terms=None, confidence=0.95):
    table = data_of(x, measure)
    if terms is None:
        # All terms whose cells were all run: other terms lack means to compare.
        crossed = x.design.crossed()
        sets = [list(c) for n in range(1, len(crossed) + 1) for c in itertools.combinations(crossed, n)]
        terms = " + ".join(":".join(names) for names in sets if _complete(table, names))
    model = _Model(x, terms, table)
    result = stats.tukey(model.table, model.formula, model.term(term), confidence=confidence, error_df=_pilot_df(x, model, model.residual_df))
    result.index.name = "pair"
    if x.design.is_log:
        for column, source in (("ratio", "difference"), ("ratio_low", "low"), ("ratio_high", "high")):
            result[column] = np.exp(result[source])
    return result


def coefficients(x, terms=None, measure=None, confidence=0.95, resamples=2000, seed=1):
    """Coefficients of the model with levels that sum to zero, as deviations from the mean.

    terms is a list such as ["mark", "load", "mark:load"]; by default main effects and pairs.
    Each block gives one estimate of each coefficient; blocks are the sample of the intervals.
    """
    crossed = x.design.crossed()
    if terms is None:
        terms = [*crossed, *(":".join(pair) for pair in itertools.combinations(crossed, 2))]
    table = effects.wide(x, measure).dropna()
    names = list(x.design.factors)
    cells = effects.ordered_cells(x, table.columns)
    columns, labels, folded = _contrasts(x, terms, cells, names)
    matrix = np.column_stack([np.ones(len(cells)), *columns])
    if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        if any(":" in term for term in terms):
            return coefficients(x, [t for t in terms if ":" not in t], measure, confidence, resamples, seed)
        raise ValueError("coefficients: the cells do not determine them: name fewer terms")
    values = table[[c if table.columns.nlevels > 1 else c[0] for c in cells]].to_numpy()
    estimates = values @ np.linalg.pinv(matrix).T
    rows = []
    for (term, at), weights in zip(labels, folded):
        one = estimates[:, 1:] @ weights
        mean, low, high = effects.t_interval(x, one, confidence)
        bca_low, bca_high, word = effects.bca_interval(one, confidence, resamples, seed) if resamples else (np.nan, np.nan, "")
        rows.append((term, at, len(one), mean, low, high, bca_low, bca_high, word))
    return pd.DataFrame(rows, columns=["term", "level", "n", "estimate", "low", "high", "bca_low", "bca_high", "word"])


def _contrasts(x, terms, cells, names):
    """Columns of sum-to-zero contrasts, and for each level the weights of columns that give its coefficient."""
    columns, labels, weights = [], [], []
    for term in terms:
        parts = term.split(":")
        sizes = [len(x.design.factors[name]) for name in parts]
        codes = [np.vstack([np.eye(n - 1), -np.ones(n - 1)]) for n in sizes]
        places = [[x.design.factors[name].index(c[names.index(name)]) for c in cells] for name in parts]
        start = len(columns)
        for picks in itertools.product(*(range(n - 1) for n in sizes)):
            columns.append(np.prod([code[place, pick] for code, place, pick in zip(codes, places, picks)], axis=0))
        for levels in itertools.product(*(range(n) for n in sizes)):
            row = codes[0][levels[0]]
            for code, at in zip(codes[1:], levels[1:]):
                row = np.kron(row, code[at])
            labels.append((term, ":".join(x.design.factors[name][at] for name, at in zip(parts, levels))))
            weights.append((start, row))
    folded = []
    for start, row in weights:
        whole = np.zeros(len(columns))
        whole[start : start + len(row)] = row
        folded.append(whole)
    return columns, labels, folded
