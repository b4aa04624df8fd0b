"""The golden vectors of Go's measure/histogram, read by pillion.histogram."""

import json
import math
import os
import unittest

from pillion import histogram

VECTORS = os.path.join(os.path.dirname(__file__), "..", "measure", "histogram", "testdata")


def vectors(name):
    with open(os.path.join(VECTORS, name), encoding="utf-8") as file:
        return json.load(file)


def lists(vector):
    return vector["bounds"] or [], vector["counts"] or [], vector["offsets"]


class Histogram(unittest.TestCase):
    def test_layout(self):
        for vector in vectors("layout.json"):
            bucket = histogram.index(int(vector["value"]))
            got = bucket, histogram.bound(bucket), histogram.width(bucket)
            self.assertEqual(got, (vector["index"], int(vector["bound"]), int(vector["width"])), vector["value"])

    def test_quantiles(self):
        for vector in vectors("quantiles.json"):
            extremes = (-math.inf, math.inf) if vector["min"] is None else (vector["min"], vector["max"])
            for want in vector["quantiles"]:
                got = histogram.quantile(want["q"], *lists(vector), *extremes)
                if want["value"] is None:
                    self.assertTrue(math.isnan(got), vector["name"])
                else:
                    self.assertEqual(got, want["value"], vector["name"])

    def test_merges(self):
        for vector in vectors("merges.json"):
            got = histogram.merge(lists(part) for part in vector["parts"])
            self.assertEqual(got, lists(vector["whole"]), vector["name"])


if __name__ == "__main__":
    unittest.main()
