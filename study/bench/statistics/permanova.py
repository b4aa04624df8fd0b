"""Measures pillion.stats.permanova on designs of the size of the OML paper's: 4 x 2 treatments,
400 runs each, 999 permutations. Cases take turns, so that a disturbance meets all of them.
Results: study/bench/results/permanova.json, figures of one machine. Run by make bench-statistics.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import time
import tracemalloc
from datetime import datetime, timezone

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "python"))

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

from pillion.analysis.verdicts import decide  # noqa: E402
from pillion.stats import bca, permanova  # noqa: E402

ROWS, PERMUTATIONS, BAR_S = 3200, 999, 0.2
CASES = {
    "one response, crossed": {"responses": ["rate"], "terms": "oml * threads"},
    "one response, crossed, marginal": {"responses": ["rate"], "terms": "oml * threads", "by": "marginal"},
    "one response, crossed, within 400 blocks": {"responses": ["rate"], "terms": "oml * threads", "blocks": "block"},
    "one response, crossed, with a covariate": {"responses": ["rate"], "terms": "oml * threads + load"},
    "three responses, crossed": {"responses": ["rate", "jitter", "loss"], "terms": "oml * threads"},
}


def data(rows, seed=1):
    random = np.random.default_rng(seed)
    row = np.arange(rows)
    numbers = {name: random.normal(size=rows) for name in ("rate", "jitter", "loss", "load")}
    factors = {"oml": np.take(["none", "csv", "oml", "filtered"], row // 2 % 4), "threads": np.take(["yes", "no"], row % 2)}
    return pd.DataFrame({**factors, "block": row // 8, **numbers})


def measure(frame, arguments):
    wall, cpu = time.perf_counter(), time.process_time()
    permanova(frame, permutations=PERMUTATIONS, **arguments)
    return time.perf_counter() - wall, time.process_time() - cpu


def peak_bytes(frame, arguments):
    tracemalloc.start()
    permanova(frame, permutations=PERMUTATIONS, **arguments)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21, help="how often each case is measured (default 21)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "study/bench/results/permanova.json")
    flags = parser.parse_args()
    frame = data(ROWS)
    for arguments in CASES.values():  # loads code and fills caches
        measure(frame, arguments)
    load = os.getloadavg()[0]
    times = {name: [] for name in CASES}
    for turn in range(flags.rounds):
        for name in np.random.default_rng(turn).permutation(list(CASES)):
            times[str(name)].append(measure(frame, CASES[str(name)]))
    result = {
        "experiment": "permanova",
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip(),
        "cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version(), "numpy": np.__version__,
        "realtime": os.sched_getscheduler(0) != os.SCHED_OTHER,
        "load_begin": round(load, 2), "load_end": round(os.getloadavg()[0], 2),
        "rows": ROWS, "permutations": PERMUTATIONS, "rounds": flags.rounds, "bar_s": BAR_S,
        "bytes_of_a_matrix_of_distances": 8 * ROWS * ROWS, "cases": {},
    }
    for name, runs in times.items():
        wall, cpu = np.array(runs).T
        interval = bca(wall, "median")
        case = {
            "median_s": round(interval["estimate"], 4), "low_s": round(interval["low"], 4), "high_s": round(interval["high"], 4),
            "least_s": round(float(wall.min()), 4), "median_cpu_s": round(float(np.median(cpu)), 4),
            "peak_bytes": peak_bytes(frame, CASES[name]), "verdict": decide(interval["low"], interval["high"], most=BAR_S),
        }
        result["cases"][name] = case
        print(f"{name:42} {case['median_s']:.3f} s [{case['low_s']:.3f}, {case['high_s']:.3f}], processor {case['median_cpu_s']:.3f} s, "
              f"{case['peak_bytes'] / 2**20:.1f} MiB: below {BAR_S} s {case['verdict']}")
    partial = flags.out.with_suffix(".json.tmp")
    partial.write_text(json.dumps(result, indent=2) + "\n")
    partial.rename(flags.out)


if __name__ == "__main__":
    main()
