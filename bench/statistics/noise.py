"""Extracts noise.json from the results of the overhead experiment: what the simulation
resamples. Values are logarithms of the ratio of a treatment's processor time per packet, transaction or bit to that of
no treatment in the same block, less their mean over blocks, in units of the standard deviation
of their kind of traffic.

    python3 bench/statistics/noise.py bench/results/overhead.json
"""

import json
import math
import pathlib
import statistics
import sys

OUT = pathlib.Path(__file__).with_name("noise.json")


def value(trial):
    """Processor time per packet, transaction or bit."""
    for kind in ("udp", "requests"):
        if trial.get(kind):
            return trial[kind]["cpu_ns"]
    return 1 / trial["tcp"]["bits_per_cpu_second"] if trial.get("tcp") else None


def residuals(results):
    noise = []
    for cell in results["cells"]:
        ratios = {}
        for block in cell["blocks"]:
            found = {t["arm"]: value(t) for t in block["trials"] if not t.get("invalid")}
            base = found.pop("none", None)
            for arm, taken in found.items():
                if base and taken:
                    ratios.setdefault(arm, []).append(math.log(taken / base))
        centred = {arm: [r - statistics.fmean(all_) for r in all_] for arm, all_ in ratios.items() if len(all_) > 3}
        squares = sum(r * r for all_ in centred.values() for r in all_)
        degrees = sum(len(all_) - 1 for all_ in centred.values())
        if degrees > 0 and squares > 0:
            scale = math.sqrt(squares / degrees)
            noise += [
                round(r / scale * math.sqrt(len(all_) / (len(all_) - 1)), 4) for all_ in centred.values() for r in all_
            ]
    return noise


def main():
    results = json.loads(pathlib.Path(sys.argv[1]).read_text())
    noise = residuals(results)
    out = {
        "from": results["experiment"],
        "commit": results["commit"],
        "date": results["date"],
        "machine": results["machine"],
        "values": noise,
    }
    OUT.write_text(json.dumps(out) + "\n")
    print(f"{len(noise)} values")


if __name__ == "__main__":
    main()
