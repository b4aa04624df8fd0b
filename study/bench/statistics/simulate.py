"""Simulates how often intervals of pillion.stats cover the true value, and how often its tests
find an effect where there is none (A/A), with normal noise and with noise resampled from a
recorded experiment (noise.json). Each figure has its Monte-Carlo error, two standard errors.
Seeded: the same figures each time. Exits with 1 if a bar is missed.

    python3 study/bench/statistics/simulate.py [--share 0.25] [--out FILE]
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time
import zlib
from datetime import datetime, timezone

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "python"))

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

from scipy.stats import t as student  # noqa: E402

from pillion.analysis.design import read_design  # noqa: E402
from pillion.analysis.effects import t_interval as t_interval_of  # noqa: E402
from pillion.analysis.result import Experiment  # noqa: E402
from pillion.analysis.verdicts import decide  # noqa: E402
from pillion.stats import (  # noqa: E402
    anova, bca, breusch_pagan, permanova, shapiro, t_interval, tost, tukey, turning_points,
)

RECORDED = np.array(json.loads(pathlib.Path(__file__).with_name("noise.json").read_text())["values"])
RECORDED -= RECORDED.mean()
MARKS = ["none", "delay", "loss"]
BLOCKS = 12
STUDENT = student.ppf(0.975, BLOCKS - 1)


def experiment(rows, levels, **stop):
    """Runs as an experiment whose stop rule had a pilot, or a number of blocks."""
    marks = MARKS[:levels]
    design = {
        "factors": [{"name": "mark", "levels": marks}], "cells": [{"mark": m} for m in marks], "measures": {"y": {}},
        "response": {"difference": "y", "to": {"mark": marks[0]}}, "stop": stop,
    }  # fmt: skip
    return Experiment(read_design(json.dumps(design)), rows.assign(null=False, valid=True, kept=True, why=""))


NO_ROWS = pd.DataFrame({"block": [], "position": [], "mark": [], "y": []})
STOPPED, FIXED = experiment(NO_ROWS, 2, pilot=BLOCKS), experiment(NO_ROWS, 2, blocks=BLOCKS)


class Noise:
    """Independent values of mean 0 and standard deviation 1."""

    def __init__(self, kind, seed):
        self.kind, self.random = kind, np.random.default_rng(seed)

    def draw(self, *size):
        return self.random.normal(size=size) if self.kind == "normal" else self.random.choice(RECORDED, size)


# Coverage: each function draws one experiment and says whether the interval holds the truth.


def t_covers(noise, n):
    found = t_interval(3 + noise.draw(n))
    return found["low"] <= 3 <= found["high"]


def stopped(noise, half_width, effects=1, most=200, base=None):
    """Runs of the base and of each effect in each block, by the rule that experiments stop by: a
    pilot, the number of Stein's formula, at most one top-up. The effects' standard deviation is 1.
    One effect has the noise as it is, unless the base has noise, too; several share a base."""
    base = effects > 1 if base is None else base

    def more(blocks):
        return np.hstack([noise.draw(blocks, 1) * base, noise.draw(blocks, effects)]) / np.sqrt(1 + base)

    runs = more(BLOCKS)
    for _ in range(2):
        deviation = (runs[:, 1:] - runs[:, :1]).std(axis=0, ddof=1).max()
        wanted = int(np.ceil((STUDENT * deviation / half_width) ** 2))
        runs = np.vstack([runs, more(max(0, min(wanted, most) - len(runs)))])
    return runs


def stein_interval(values):
    """Stein's own: the deviation of the pilot alone."""
    mean = values.mean()
    half = STUDENT * values[:BLOCKS].std(ddof=1) / np.sqrt(len(values))
    return mean, mean - half, mean + half


INTERVALS = {"pilot": lambda values: t_interval_of(STOPPED, values), "own": lambda values: t_interval_of(FIXED, values), "stein": stein_interval}


def stopped_covers(noise, arguments):
    """Share of the effects whose interval holds the truth, and the mean half-width; without
    another choice the interval that experiments have."""
    arguments = dict(arguments)
    interval = INTERVALS[arguments.pop("interval", "pilot")]
    runs = stopped(noise, **arguments)
    found = np.array([interval(values) for values in (runs[:, 1:] - runs[:, :1]).T])
    return np.mean((found[:, 1] <= 0) & (found[:, 2] >= 0)), (found[:, 2] - found[:, 1]).mean() / 2


def stopped_experiment(noise, levels):
    runs = stopped(noise, 0.4, effects=levels - 1, base=True)
    blocks, _ = runs.shape
    rows = pd.DataFrame({"block": np.repeat(np.arange(blocks), levels), "mark": MARKS[:levels] * blocks, "y": runs.ravel()})
    return experiment(rows.assign(position=rows.index % levels), levels, pilot=BLOCKS)


def bca_covers(noise, n):
    found = bca(3 + noise.draw(n), "mean", resamples=1000, seed=noise.random)
    return found["low"] <= 3 <= found["high"]


def blocks(noise, drift=0.0):
    """A run of each mark in each block; slower and faster from block to block."""
    data = pd.DataFrame({"block": np.repeat(np.arange(BLOCKS), len(MARKS)), "mark": MARKS * BLOCKS})
    data["y"] = drift * data["block"] + noise.draw(len(data))
    return data


def tukey_covers(noise, _):
    """All intervals of a family at once."""
    found = tukey(blocks(noise, drift=1), "y ~ block + mark", "mark")
    return bool(((found["low"] <= 0) & (found["high"] >= 0)).all())


# False positives: each function draws one experiment without effect and gives p.


def anova_p(noise, _):
    return anova(blocks(noise, drift=1), "y ~ block + mark").loc["mark", "p"]


def stopped_anova_p(noise, levels):
    return stopped_experiment(noise, levels).anova().loc["mark", "p"]


def permuted_p(noise, _):
    return anova(blocks(noise, drift=1), "y ~ mark", blocks="block", permutations=199, seed=noise.random).loc["mark", "p"]


def crossed_p(noise, term):
    data = pd.DataFrame({"mark": np.repeat(MARKS, 8), "load": ["udp", "tcp"] * 12, "y": noise.draw(24)})
    return anova(data, "y ~ mark * load", by="marginal").loc[term, "p"]


def permanova_p(noise, _):
    data = blocks(noise).assign(z=noise.draw(BLOCKS * len(MARKS)))
    return permanova(data, ["y", "z"], "mark", permutations=199, seed=noise.random).loc["mark", "p"]


def tost_p(noise, n):
    """The true mean is the margin itself: not equivalent."""
    return tost(1 + noise.draw(n), low=-1, high=1)["p"]


def turning_p(noise, n):
    return turning_points(noise.draw(n))["p"]


def breusch_pagan_p(noise, _):
    return breusch_pagan(blocks(noise), "y ~ mark")["p"]


def shapiro_p(noise, n):
    return shapiro(noise.draw(n))["p"]


# What, its function and argument, how many times, and which noises have a bar. Bootstrap
# intervals have none below 40 values: their figures say why those by t come first.
BOTH, NORMAL, NONE = ("normal", "recorded"), ("normal",), ()
COVERAGE = [
    ("t, 6 values", t_covers, 6, 8000, BOTH),
    ("t, 12 values", t_covers, 12, 8000, BOTH),
    ("t, 40 values", t_covers, 40, 8000, BOTH),
    ("stop rule, one effect", stopped_covers, {"half_width": 0.4}, 20000, BOTH),
    ("stop rule, one effect, wide", stopped_covers, {"half_width": 0.6}, 20000, BOTH),
    ("stop rule, one effect, narrow", stopped_covers, {"half_width": 0.3}, 20000, BOTH),
    ("stop rule, one effect, at most 20 blocks", stopped_covers, {"half_width": 0.3, "most": 20}, 20000, BOTH),
    ("stop rule, 4 effects", stopped_covers, {"half_width": 0.4, "effects": 4}, 10000, BOTH),
    ("stop rule, one effect, t of all blocks", stopped_covers, {"half_width": 0.4, "interval": "own"}, 20000, NONE),
    ("stop rule, 4 effects, t of all blocks", stopped_covers, {"half_width": 0.4, "effects": 4, "interval": "own"}, 10000, NONE),
    ("stop rule, one effect, Stein's interval", stopped_covers, {"half_width": 0.4, "interval": "stein"}, 20000, NONE),
    ("stop rule, 4 effects, Stein's interval", stopped_covers, {"half_width": 0.4, "effects": 4, "interval": "stein"}, 10000, NONE),
    ("BCa of the mean, 20 values", bca_covers, 20, 4000, NONE),
    ("BCa of the mean, 40 values", bca_covers, 40, 4000, NONE),
    ("BCa of the mean, 100 values", bca_covers, 100, 2000, NONE),
    ("Tukey, all of 3 pairs, 12 blocks", tukey_covers, None, 1600, BOTH),
]
FALSE_POSITIVES = [
    ("anova, 12 blocks with drift", anova_p, None, 4000, BOTH),
    ("stop rule, anova of 2 levels", stopped_anova_p, 2, 4000, BOTH),
    ("anova permuted within blocks with drift", permuted_p, None, 4000, BOTH),
    ("anova, marginal, crossed, mark", crossed_p, "mark", 4000, BOTH),
    ("anova, marginal, crossed, mark:load", crossed_p, "mark:load", 4000, BOTH),
    ("permanova, two responses", permanova_p, None, 4000, BOTH),
    ("tost at its margin, 20 values", tost_p, 20, 20000, BOTH),
    ("turning points, 40 values", turning_p, 40, 20000, BOTH),
    ("Breusch-Pagan", breusch_pagan_p, None, 4000, NORMAL),
    ("Shapiro-Wilk, 20 values", shapiro_p, 20, 6000, NORMAL),
]
BARS = {"coverage": {"normal": 0.94, "recorded": 0.93}, "false positives": {"normal": 0.06, "recorded": 0.07}}


def verdict(share, error, bar, above):
    return decide(share - error, share + error, **{"least" if above else "most": bar})


def simulate(what, name, function, argument, times, kind):
    seed = zlib.crc32(f"{what} {name} {kind}".encode())
    noise = Noise(kind, seed)
    found = np.array([function(noise, argument) for _ in range(times)], dtype=float)
    widths, found = (found[:, 1], found[:, 0]) if found.ndim == 2 else (None, found)
    share = float(found.mean() if what == "coverage" else (found < 0.05).mean())
    # Effects of one experiment share a base: the experiment is the unit.
    error = 2 * float((found if what == "coverage" else found < 0.05).std() / np.sqrt(times))
    return share, error, None if widths is None else float(widths.mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1, help="share of the simulated experiments (default 1)")
    parser.add_argument("--out", type=pathlib.Path, help="also write the figures as JSON")
    flags = parser.parse_args()
    begun, figures = time.monotonic(), []
    for what, rows in [("coverage", COVERAGE), ("false positives", FALSE_POSITIVES)]:
        for name, function, argument, times, barred in rows:
            for kind in BOTH:
                times_here = max(100, int(times * flags.share))
                share, error, width = simulate(what, name, function, argument, times_here, kind)
                figure = {"what": what, "name": name, "noise": kind, "experiments": times_here, "share": round(share, 4), "error": round(error, 4)}
                if width is not None:
                    figure["half_width"] = round(width, 4)
                bar = BARS[what][kind]
                if kind in barred:
                    figure |= {"bar": bar, "verdict": verdict(share, error, bar, what == "coverage")}
                figures.append(figure)
                sign = "≥" if what == "coverage" else "≤"
                said = f"half-width {width:.3f}  " if width is not None else ""
                said += f"{sign} {100 * bar:.0f} %: {figure['verdict']}" if kind in barred else ""
                print(f"{what:15}  {name:41} {kind:8}  {100 * share:5.2f} % ± {100 * error:.2f}  {said}", flush=True)
    print(f"{time.monotonic() - begun:.0f} s")
    if flags.out:
        commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
        result = {"experiment": "statistics", "date": datetime.now(timezone.utc).isoformat(timespec="seconds"), "commit": commit, "numpy": np.__version__, "figures": figures}
        partial = flags.out.with_suffix(".json.tmp")
        partial.write_text(json.dumps(result, indent=1) + "\n")
        partial.rename(flags.out)
    missed = [f for f in figures if f.get("verdict") == "missed"]
    for figure in missed:
        print(f"missed: {figure['what']}, {figure['name']}, {figure['noise']}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
