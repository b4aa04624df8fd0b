"""Statistics of designed experiments on plain data: pandas in, pandas out, no server.

    anova          do factors have an effect, in a model with several of them?
    variation      how much of the variation does each explain?
    permanova      the same by permutation, for several responses at once or for distances
    tukey          which levels differ, by how much?
    t_interval     mean with its confidence interval
    bca            any statistic with its bootstrap confidence interval
    tost           is a difference too small to matter?
    turning_points are runs in random order, without drift?
    breusch_pagan  do errors have one variance?
    shapiro, ks    do values have a distribution?

Each function's help says what it assumes and its source; docs/howto/statistics.md shows which
answers what. It needs the package's extra analysis. Samples are runs: values within a run, such
as delays of packets, are not independent and are summarised per run first.
"""

from pillion import INSTALL

try:
    import numpy  # noqa: F401
    import pandas  # noqa: F401
    import scipy  # noqa: F401
    import statsmodels  # noqa: F401
except ImportError as missing:
    raise ImportError(
        f"pillion.stats: {missing}; {INSTALL}", name=missing.name
    ) from missing

from .assumptions import breusch_pagan, ks, shapiro, turning_points
from .equivalence import tost
from .interval import bca, t_interval
from .pairwise import tukey
from .permanova import permanova
from .variance import anova, variation

__all__ = [
    "anova",
    "bca",
    "breusch_pagan",
    "ks",
    "permanova",
    "shapiro",
    "t_interval",
    "tost",
    "tukey",
    "turning_points",
    "variation",
]
