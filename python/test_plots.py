"""Figures by what they draw: the data of their artists, not pixels."""

import os
import tempfile
import unittest

import matplotlib
import numpy as np
from matplotlib.container import ErrorbarContainer

import pillion
from pillion.analysis import figures, theme
from pillion.analysis.simulate import simulate


def texts(figure):
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text)]


class Experiment(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        simulate(
            cls.folder, {"mark": ["none", "empty", "both"], "load": ["udp6-56", "tcp$6"]}, effects=[("mark=both", 0.95)], blocks=20,
            invalid=0.05, targets=[{"where": "mark=both load=udp6-56", "at_least": 0.9}, {"where": "mark=empty load=udp6-56", "within": 0.02}], seed=1,
        )  # fmt: skip
        cls.x = pillion.experiment(cls.folder)

    def test_effects(self):
        figure = self.x.plot.effects()
        axes, table = figure.axes[0], self.x.effects(resamples=2000)
        drawn = [bars for bars in axes.containers if isinstance(bars, ErrorbarContainer)]
        points = np.concatenate([bars[0].get_xdata() for bars in drawn])
        np.testing.assert_allclose(points, table["ratio"])
        ends = np.concatenate([segment[:, 0] for bars in drawn for segment in bars[2][0].get_segments()]).reshape(-1, 2)
        np.testing.assert_allclose(ends, table[["low", "high"]])
        self.assertEqual([t.get_text() for t in axes.get_yticklabels()], list(table["mark"].astype(str) + " · " + table["load"].astype(str)))
        self.assertIn("target", texts(figure))
        target = next(line for line in axes.lines if line.get_label() == "target")
        np.testing.assert_allclose(target.get_xdata(), [0.9, 1 / 1.02, 1.02])
        self.assertEqual(list(target.get_ydata()), [2, 0, 0])

    def test_means_and_interaction(self):
        for draw in (self.x.plot.means, self.x.plot.interaction):
            axes = draw(by="mark", line="load").axes[0]
            table = self.x.means()
            for bars, load in zip(axes.containers, self.x.design.factors["load"]):
                np.testing.assert_allclose(bars[0].get_ydata(), table.loc[table["load"] == load, "mean"])
                self.assertEqual(bars.get_label(), load)
        styles = {(bars[0].get_color(), bars[0].get_marker(), bars[0].get_linestyle()) for bars in axes.containers}
        self.assertEqual([len(set(kind)) for kind in zip(*styles)], [2, 2, 2], "colour, marker and line tell series apart")

    def test_axes_are_factors_of_numbers(self):
        with tempfile.TemporaryDirectory() as folder:
            simulate(folder, {"mark": ["none", "both"], "size": ["1400", "512", "56"], "load": ["idle", "busy"]}, blocks=3, seed=1)
            x = pillion.experiment(folder)
        self.assertEqual(x.plot.axes(), ("size", "mark", "load"))
        figure = x.plot.interaction()
        self.assertEqual([axes.get_title(loc="left") for axes in figure.axes], ["load = idle", "load = busy"])
        np.testing.assert_allclose(np.mean([bars[0].get_xdata() for bars in figure.axes[0].containers], axis=0), [56, 512, 1400], atol=3)
        table = x.effects("size:load", resamples=0)
        axes = x.plot.interaction("size", "load", value="effect").axes[0]
        np.testing.assert_allclose(axes.containers[0][0].get_ydata(), table.loc[table["load"] == "idle", "ratio"][::-1])
        self.assertFalse(x.plot.is_dominated("load", "mark", None))

    def test_heat_map(self):
        axes = self.x.plot.heat_map("mark", "load").axes[0]
        table = self.x.effects("mark:load", resamples=0)
        self.assertEqual([t.get_text() for t in axes.texts], ["%.3f" % v for v in table["ratio"]])
        low, high = axes.collections[0].get_clim()
        self.assertAlmostEqual(low, -high, msg="no effect is the middle of the colours, which follow the logarithm")
        noise = self.x.where("mark=none,empty").plot.heat_map("mark", "load").axes[0].collections[0].get_clim()
        self.assertAlmostEqual(noise[1] - noise[0], 2 * np.log(1.02), msg="noise is not drawn as an effect")

    def test_distributions(self):
        responses = np.exp(self.x.responses()["value"])
        axes = self.x.plot.ecdf("mark").axes[0]
        line = axes.lines[-1]
        np.testing.assert_allclose(line.get_xdata()[1:], np.sort(responses[self.x.responses()["mark"] == "both"]))
        self.assertEqual(line.get_ydata()[-1], 1)
        raw = self.x.plot.ecdf("mark", value="measure").axes[0]
        self.assertEqual(len(raw.lines), 3, "the base has values of its own")
        for axes in self.x.plot.histogram("mark").axes:
            self.assertAlmostEqual(axes.patches[0].get_data().values.sum(), 1, msg="no value is outside")
        box = self.x.plot.box("mark").axes[0]
        medians = [line.get_ydata()[0] for line in box.lines if len(set(line.get_ydata())) == 1 and line.get_linewidth() == 1.6]
        want = [np.median(responses[self.x.responses()["mark"] == m]) for m in ("empty", "both")]
        np.testing.assert_allclose(medians, want)
        self.assertEqual(len(self.x.plot.violin("mark").axes[0].collections), 4, "a body and the quartiles of each")

    def test_residuals(self):
        from pillion.analysis.checks import residuals

        table = residuals(self.x)
        np.testing.assert_allclose(self.x.plot.qq().axes[0].lines[0].get_ydata(), np.sort(table["residual"]))
        np.testing.assert_allclose(self.x.plot.residuals().axes[0].lines[0].get_xdata(), np.exp(table["fitted"]))
        lines = {line.get_label(): line for line in self.x.plot.run_order().axes[0].lines}
        self.assertEqual(len(lines["runs"].get_xdata()), len(self.x.runs))
        self.assertEqual(list(lines["not counted"].get_xdata()), list(self.x.excluded["run_order"]))

    def test_runs_are_numbered_by_whole_numbers(self):
        axes = self.x.where("load=udp6-56").plot.run_order().axes[0]
        axes.set_xlim(-1, 21)
        self.assertTrue(all(float(at).is_integer() for at in axes.get_xticks()), axes.get_xticks())

    def test_coefficients(self):
        from pillion.analysis.model import coefficients

        axes = self.x.plot.coefficients(["mark"]).axes[0]
        np.testing.assert_allclose(axes.containers[0][0].get_xdata(), coefficients(self.x, ["mark"])["estimate"])

    def test_a_name_is_no_formula(self):
        """A dollar sign in a level is drawn as it is, and the drawing does not fail."""
        with theme.settings():
            figure = self.x.plot.effects()
            figure.savefig(os.devnull, format="svg")
        self.assertTrue(any("tcp$6" in text for text in texts(figure)))

    def test_unknown_names(self):
        for draw in (self.x.plot.box, self.x.plot.means):
            with self.assertRaises(KeyError):
                draw(by="speed")
        with self.assertRaises(KeyError):
            self.x.plot.box(measure="speed")


class Plain(unittest.TestCase):
    def test_histogram_keeps_both_peaks_apart(self):
        random = np.random.default_rng(1)
        values = np.concatenate([random.normal(10, 0.2, 300), random.normal(30, 0.2, 300)])
        shares = np.histogram(values, figures.edges(values))[0]
        self.assertGreater((shares == 0).sum(), 10)

    def test_a_given_range_says_what_lies_outside(self):
        figure = figures.histogram({"a": [1, 2, 3, 99]}, bins=np.linspace(0, 5, 6))
        self.assertIn("1 outside the axis", texts(figure))

    def test_plain_values_are_not_called_runs(self):
        for of in ("values", "packets"):
            said = texts(figures.histogram({"IPv4": [1, 2, 3, 4, 5]}, of=of))
            self.assertLessEqual({"IPv4: median 3, 5 %s" % of, "share of %s" % of}, set(said))
        self.assertEqual(figures.ecdf({"a": [1, 2]}).axes[0].get_ylabel(), "share of values at or below")

    def test_labels_of_ticks_do_not_touch(self):
        """Long numbers have fewer ticks, whether they are large or close to each other."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        near = 1.967e7 + np.linspace(-400, 600, 9)
        estimates = np.linspace(-2e-4, 3e-4, 50)
        for figure in (
            figures.scatter(near, estimates[:9], "fitted"), figures.ecdf({"a": near, "b": near}), figures.ecdf({"a": 1 + estimates}),
            figures.intervals(["mark:load · %d" % i for i in range(50)], estimates, estimates - 1e-4, estimates + 1e-4, "deviation"),
        ):  # fmt: skip
            with theme.settings():
                canvas = FigureCanvasAgg(figure)
                canvas.draw()
                for axes in figure.axes:
                    boxes = [t.label1.get_window_extent(canvas.get_renderer()) for t in axes.xaxis.get_major_ticks() if t.label1.get_text()]
                    inside = [b for b in boxes if axes.bbox.x0 - 1 <= (b.x0 + b.x1) / 2 <= axes.bbox.x1 + 1]
                    self.assertGreaterEqual(len(inside), 2)
                    for left, right in zip(inside, inside[1:]):
                        self.assertLess(left.x1 + 2, right.x0, [t.get_text() for t in axes.get_xticklabels()])

    def test_ticks_of_close_values_differ(self):
        figure = figures.heat_map([[0.99995, 1.00002], [0.99998, 1.00001]], ["a", "b"], ["x", "y"], middle=1.0, is_ratio=True)
        with theme.settings():
            figure.savefig(os.devnull, format="svg")
        said = [t.get_text() for t in figure.axes[1].get_yticklabels()]
        self.assertEqual(len(set(said)), len(said), said)

    def test_large_values_are_written_with_a_prefix(self):
        figure = figures.series({"a": ([2e7, 2.1e7], [1.9e7, 2e7], [2.1e7, 2.2e7])}, ["x", "y"], "rate (bit/s)")
        with theme.settings():
            figure.savefig(os.devnull, format="svg")
        self.assertTrue(any(t.get_text().endswith("M") for t in figure.axes[0].get_yticklabels()))
        self.assertEqual(figure.axes[0].yaxis.get_offset_text().get_text(), "")

    def test_constant_and_missing_values(self):
        figures.histogram({"a": [1.0, 1.0]})
        figures.violin({"a": [1.0, 1.0], "b": [2.0]})
        figures.box({"a": [1.0], "b": [np.nan, 2.0]})
        figures.heat_map([[1.0, np.nan]], ["r"], ["x", "y"], middle=1.0)
        for draw in (figures.ecdf, figures.box, figures.violin):
            with self.assertRaises(ValueError):
                draw({"a": [np.nan]})
        with self.assertRaises(ValueError):
            figures.heat_map([[np.nan]], ["r"], ["x"])


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


# What the eye sees without one kind of cones (Viénot, Brettel and Mollon 1999), of linear RGB.
BLINDNESS = {
    "protanopia": [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
    "deuteranopia": [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
}


class Colours(unittest.TestCase):
    def test_contrast(self):
        """Lines have a contrast of 3 and texts of 4.5 on the page, in both themes (WCAG 2.1)."""
        from pillion.report.vector import VARIABLES

        for name, day, night in VARIABLES.values():
            if name in ("grid", "paper"):
                continue
            least = 4.5 if name in ("ink", "faint") else 3
            self.assertGreaterEqual(contrast(day, "#ffffff"), least, name)
            self.assertGreaterEqual(contrast(night, "#15181c"), least, name)

    def test_the_first_five_differ_to_colour_blind_readers(self):
        from pillion.report.vector import VARIABLES

        for theme_at in (1, 2):
            colours = [VARIABLES[c][theme_at] for c in theme.COLOURS[:5]]
            linear = np.array([[(int(c[i : i + 2], 16) / 255) ** 2.2 for i in (1, 3, 5)] for c in colours])
            for kind, matrix in BLINDNESS.items():
                seen = np.clip(linear @ np.array(matrix).T, 0, 1) ** (1 / 2.2)
                for i in range(5):
                    for j in range(i):
                        self.assertGreater(np.abs(seen[i] - seen[j]).max(), 0.08, (kind, colours[i], colours[j]))


if __name__ == "__main__":
    unittest.main()
