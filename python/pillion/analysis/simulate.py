"""Result folders of experiments that were not run, with effects that are known.

They show what a design can find out before any machine is used, and what the analysis makes
of drift, noise and effects of a known size.
"""

import datetime
import itertools
import json
import os

import numpy as np

from pillion.analysis.design import DESIGN_FILE, fits, level, parse_where
from pillion.analysis.journal import JOURNAL_FILE


def simulate(
    folder, factors, effects=(), name="simulated", blocks=24, measure="rate", mean=1000.0, noise=0.01, drift=0.0, period=0.0,
    exclude=(), targets=(), response=None, invalid=0.0, null_arm=True, intervals=0, seed=1, stop=None, heavy=False, description="",
):  # fmt: skip
    """Write a result folder as the runner does.

    factors is {name: levels}; effects is [(condition, ratio)], which multiply; noise is the
    standard deviation of the log of a run. drift is the log change over the experiment, and
    period the amplitude of a wave of eight runs. invalid is the share of invalid runs.
    A folder with results that were measured is refused, one that was simulated is replaced.
    """
    _check(folder)
    random = np.random.default_rng(seed)
    levels = {n: tuple(level(v) for v in values) for n, values in factors.items()}
    cells = [dict(zip(levels, c)) for c in itertools.product(*levels.values())]
    cells = [c for c in cells if not any(fits(parse_where(e, levels), c) for e in exclude)]
    response = response or {"log_ratio": measure, "to": {next(iter(levels)): next(iter(levels.values()))[0]}}
    design = {
        "experiment": name, "description": description, "hash": "simulated-%d" % seed, "seed": seed,
        "factors": [{"name": n, "levels": list(v)} for n, v in levels.items()], "cells": cells,
        "measures": {measure: {"field": measure, "unit": "packets/s", "better": "higher"}},
        "response": response, "targets": list(targets), "stop": stop or {"effect": next(iter(levels)), "half_width": 0.02},
        "design": {"order": "random", "blocks": "complete", "null_arm": null_arm},
        "environment": {"simulated": True}, "started": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    arms = [(i, c, False) for i, c in enumerate(cells)] + ([(0, cells[0], True)] if null_arm else [])
    total, lines, start = blocks * len(arms), [], datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    at = 0
    for block in range(blocks):
        for position, pick in enumerate(random.permutation(len(arms))):
            cell, chosen, null = arms[pick]
            value = np.log(mean) + sum(np.log(ratio) for where, ratio in effects if fits(parse_where(where, levels), chosen))
            attempt = 0
            while True:
                attempt += 1
                error = random.standard_t(3) / np.sqrt(3) if heavy else random.standard_normal()
                log = value + noise * error + drift * at / total + period * np.sin(2 * np.pi * at / 8)
                valid = bool(random.random() >= invalid)
                parts = [{measure: float(np.exp(log + noise * random.standard_normal()))} for _ in range(intervals)]
                started = start + datetime.timedelta(seconds=len(lines) * 2)
                lines.append({
                    "block": block, "position": position, "cell": cell, "factors": chosen, "null": null, "attempt": attempt,
                    "valid": valid, "why": "" if valid else "delivered < 0.999*packets", "kept": True,
                    "measures": {measure: float(np.exp(log))}, "intervals": parts, "load": round(float(random.uniform(0, 0.4)), 2),
                    "steal": 0.0, "started": started.isoformat(), "seconds": 1.5,
                })  # fmt: skip
                if valid:
                    break
            at += 1
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, DESIGN_FILE), "w", encoding="utf-8") as file:
        json.dump(design, file, indent=1)
    with open(os.path.join(folder, JOURNAL_FILE), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return folder


def _check(folder):
    """Refuse a folder with results of runs."""
    try:
        with open(os.path.join(folder, DESIGN_FILE), encoding="utf-8") as file:
            environment = json.load(file).get("environment")
        if isinstance(environment, dict) and environment.get("simulated"):
            return
    except FileNotFoundError:
        if not os.path.exists(os.path.join(folder, JOURNAL_FILE)):
            return
    except (OSError, ValueError, AttributeError):
        pass  # not what simulate wrote
    raise FileExistsError("simulate: %s has results of an experiment: name another folder" % folder)
