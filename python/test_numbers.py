"""Levels that are numbers, and numbers as readers see them."""

import unittest

from pillion.analysis import figures, levels, numbers


class Levels(unittest.TestCase):
    def test_numbers(self):
        for names, want in [
            (["1400", "512", "56"], [1400, 512, 56]), (["us1000", "us500", "us0"], [1000, 500, 0]), (["mbit1", "mbit10", "mbit100"], [1, 10, 100]),
            (["100us", "10us", "1ms"], [1e-4, 1e-5, 1e-3]), (["0.5", "-1", "2"], [0.5, -1, 2]), (["1s", "2s", "3s"], [1, 2, 3]),
            (["4", "6"], None), (["none", "mbit10", "mbit30"], None), (["p20", "p550", "gaussian"], None), (["c600", "p550", "c20"], None),
            (["10kB", "1MB", "2MB"], None), (["1", "1.0", "2"], None), ([], None),
        ]:  # fmt: skip
            with self.subTest(names):
                found = levels.numbers(names)
                self.assertEqual(found if want is None else [round(v, 9) for v in found], want)

    def test_order(self):
        self.assertEqual(levels.ordered(("1400", "512", "56")), ("56", "512", "1400"))
        self.assertEqual(levels.ordered(("none", "empty", "both")), ("none", "empty", "both"))


class Numbers(unittest.TestCase):
    def test_number(self):
        for value, want in [
            (None, ""), (float("nan"), ""), (float("inf"), ""), (0, "0"), (-0.0, "0"), (3, "3"), (1036000, "1.036\u202fM"), (999950, "1\u202f000\u202f000"), (-28450000, "-28.45\u202fM"), (123456, "123\u202f500"), (10620.4, "10\u202f620"),
            (0.74601, "0.7460"), (2.915, "2.915"), (9999.7, "10\u202f000"), (-1234.5, "-1234"), (4.34e-5, "4.34 × 10⁻⁵"), (2.9e10, "29\u202fG"), (2.9e15, "2.90 × 10¹⁵"), (0.00012, "0.0001200"),
        ]:  # fmt: skip
            with self.subTest(value):
                self.assertEqual(numbers.number(value), want)

    def test_a_column_has_the_decimals_of_its_smallest_spread(self):
        write = numbers.column([966.8, 1012], [18.19, 2.915])
        self.assertEqual([write(966.83), write(640.4), write(float("nan"))], ["966.8", "640.4", ""])
        self.assertEqual(numbers.column([8, 24], [0.0])(8.0), "8")
        self.assertEqual(numbers.column([12000, 3], [500])(12000), "12\u202f000")
        self.assertEqual(numbers.column([0.0042, 9.87], [4], is_ratio=True)(0.0042), "0.0042")
        self.assertEqual(numbers.column([1e-6, 9.87], [4], is_ratio=True)(9.87), "9.870")
        self.assertEqual([numbers.count(n, "block") for n in (0, 1, 2)], ["0 blocks", "1 block", "2 blocks"])
        wide = numbers.column([1e7, 3], [0.001])
        self.assertEqual(wide(3.00049), "3")
        self.assertEqual(numbers.column([0.083333], [1e-17])(0.083333), "0.08333", "rounding errors are no spread")


class Limits(unittest.TestCase):
    def test_an_endless_interval_does_not_press_the_others_together(self):
        self.assertIsNone(figures.limits([1, 1.1], [0.9, 1], [1.1, 1.2], 1))
        low, high = figures.limits([1, 1.1, 1.2], [0.9, 1, 1e-6], [1.1, 1.2, 1e6], 1, is_log=True)
        self.assertTrue(0.3 < low < 0.9 and 1.3 < high < 3, (low, high))
        self.assertIsNone(figures.limits([1.0], [float("nan")], [float("nan")]))


if __name__ == "__main__":
    unittest.main()
