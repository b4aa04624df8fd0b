"""Extracts noise.json from the result folder of the overhead experiment: what the simulation
resamples. Values are logarithms of the ratio of a treatment's rate to the rate without treatment in
the same block, less their mean over blocks, in units of the standard deviation of their load.

    python3 study/bench/statistics/noise.py study/bench/results/overhead
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "python"))

import numpy as np  # noqa: E402

import pillion  # noqa: E402
from pillion.analysis import effects  # noqa: E402

OUT = pathlib.Path(__file__).with_name("noise.json")


def residuals(x):
    values = effects.block_values(x)
    values = values - values.mean()
    loads = [dict(zip(x.design.factors, cell))["load"] for cell in values]
    noise = []
    for load in dict.fromkeys(loads):
        same = values.loc[:, [its == load for its in loads]]
        # A mean for each cell was taken out of its values.
        free = same.count().sum() - same.shape[1]
        scale = np.sqrt((same**2).sum().sum() / free)
        rest = same / scale * np.sqrt(same.count() / (same.count() - 1))
        noise += rest.to_numpy().T[rest.notna().to_numpy().T].tolist()
    return noise


def main():
    x = pillion.experiment(sys.argv[1])
    noise = residuals(x)
    out = {
        "from": x.design.name,
        "hash": x.design.hash,
        "version": x.design.environment.get("version"),
        "date": x.design.started,
        "machine": "%(processor)s, %(processors)s processors, Linux %(kernel)s" % x.design.environment,
        "values": [round(value, 4) for value in noise],
    }
    OUT.write_text(json.dumps(out) + "\n")
    centred = np.array(noise)
    print("%d values, standard deviation %.3f, kurtosis %.1f" % (len(noise), centred.std(), (centred**4).mean() / centred.var() ** 2))


if __name__ == "__main__":
    main()
