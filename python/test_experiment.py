"""An experiment's statistics find the truth that a simulation put in."""

import dataclasses
import json
import math
import os
import tempfile
import unittest

import numpy as np
import pandas as pd
from scipy import stats

import pillion
from pillion.analysis import effects, model, result
from pillion.analysis.design import DesignError
from pillion.analysis.simulate import simulate

MARKS, LOADS = ["none", "empty", "both"], ["udp6-56", "tcp6"]


def simulated(test, name="r", **options):
    folder = os.path.join(test.enterContext(tempfile.TemporaryDirectory()), name)
    options = {"factors": {"mark": MARKS, "load": LOADS}, "effects": [("mark=both", 0.95), ("load=tcp6", 0.6)], **options}
    simulate(folder, **options)
    return folder


def held(test, experiments):
    """How many experiments have an interval that holds the truth."""
    random, found = np.random.default_rng(8), 0
    x = pillion.experiment(simulated(test, blocks=12, seed=1))
    shape = x.runs
    for _ in range(experiments):
        values = np.exp(np.where(shape["mark"] == "both", math.log(0.95), 0) + 0.02 * random.standard_normal(len(shape)))
        y = result.Experiment(x.design, shape.assign(rate=values))
        row = y.effects("mark", resamples=0).set_index("mark").loc["both"]
        found += row["low"] < 0.95 < row["high"]
    return found


class Truth(unittest.TestCase):
    def experiment(self, **options):
        return pillion.experiment(simulated(self, **options))

    def test_targets_of_values(self):
        targets = [{"where": "mark=none", "of": "mean", "at_least": 50}, {"where": "mark=empty", "of": "mean", "at_most": 50},
                   {"where": "mark=empty", "at_least": 0.5}]  # fmt: skip
        table = self.experiment(blocks=24, targets=targets, seed=9).verdicts()
        runs = self.experiment(blocks=24, targets=targets, seed=9).runs
        base = runs[(runs["mark"] == "none") & ~runs["null"]].groupby("block")["rate"].mean().mean()
        self.assertAlmostEqual(table["ratio"][0], base, places=6)
        self.assertEqual(list(table["verdict"]), ["met", "missed", "met"])
        self.assertIn("rate, mean", table["sentence"][0])

    def test_runs_and_what_was_left_out(self):
        x = self.experiment(blocks=20, invalid=0.1, seed=4)
        self.assertEqual(len(x.runs), 20 * 7)
        self.assertGreater(len(x.excluded), 0)
        self.assertIn("%d left out: %d invalid (delivered < 0.999*packets)" % (len(x.excluded), len(x.excluded)), x.left_out())
        self.assertEqual(list(x.runs["mark"].cat.categories), MARKS)
        self.assertIn(x.left_out(), x.check().loc["runs", "finding"])

    def test_each_run_left_out_has_its_reason(self):
        x = self.experiment(blocks=3, invalid=0.2, seed=4)
        rows = pd.concat([x.runs, x.excluded]).sort_values("run_order")
        begun = rows[rows["block"] == 2].assign(kept=False)
        cut = rows[(rows["block"] != 2)].iloc[:-1]
        out = result.Experiment(x.design, pd.concat([cut, begun])).excluded
        reasons = {"delivered < 0.999*packets": set(rows.loc[~rows["valid"], "block"]), "block begun again": {2}, "block not complete": {1}}
        self.assertEqual({why: set(own["block"]) for why, own in out.groupby("why")}, reasons)

    def test_a_sentence_has_the_decimals_of_its_interval(self):
        x = self.experiment(blocks=12, noise=0.001, seed=3, targets=[{"where": "mark=empty", "at_least": 0.99}])
        self.assertRegex(x.verdicts()["sentence"][0], r"ratio \d\.\d{5} \[\d\.\d{5}, \d\.\d{5}\] at 95\s% over 12 blocks")
        self.assertIn("in 1 block;", self.experiment(blocks=1).left_out())

    def test_effects_under_drift_and_a_wave(self):
        """Blocks keep drift of 40 % and a wave out; 95 % intervals hold the truth."""
        x = self.experiment(blocks=30, drift=0.4, period=0.02, seed=5)
        table = x.effects().set_index(["mark", "load"])
        for mark, truth in (("empty", 1.0), ("both", 0.95)):
            for load in LOADS:
                row = table.loc[(mark, load)]
                self.assertLess(abs(row["ratio"] / truth - 1), 0.02, (mark, load))
        main = x.effects("mark").set_index("mark")
        self.assertTrue(main.loc["both", "low"] < 0.95 < main.loc["both", "high"])
        self.assertTrue(main.loc["both", "bca_low"] < 0.95 < main.loc["both", "bca_high"])
        self.assertFalse(x.check().loc["drift", "ok"])
        self.assertIn("within blocks", x.check().loc["drift", "consequence"])

    def test_t_interval_by_hand(self):
        x = self.experiment(blocks=8, seed=6)
        wide = x.runs[~x.runs["null"]].pivot(index="block", columns=["mark", "load"], values="rate")
        logs = np.log(wide[("both", "tcp6")] / wide[("none", "tcp6")])
        row = x.effects().set_index(["mark", "load"]).loc[("both", "tcp6")]
        half = 2.364624 * logs.std() / math.sqrt(8)  # t of 7 degrees of freedom, from tables
        self.assertAlmostEqual(row["ratio"], math.exp(logs.mean()), 12)
        self.assertAlmostEqual(row["low"], math.exp(logs.mean() - half), 6)
        self.assertAlmostEqual(row["high"], math.exp(logs.mean() + half), 6)

    def test_t_after_the_stop_rule_is_that_of_the_pilot(self):
        """t of 7 degrees of freedom for a pilot of 8 blocks, the deviation of all 20."""
        pilot = {"effect": "mark", "half_width": 0.02, "pilot": 8}
        fixed = self.experiment(blocks=20, seed=6, stop={"blocks": 20}, targets=[{"where": "mark=both", "within": 0.1}])
        x = result.Experiment(dataclasses.replace(fixed.design, stop=pilot), fixed.runs)
        logs = effects.grouped(x, "mark")[1][("both",)]
        row = x.effects("mark").set_index("mark").loc["both"]
        self.assertAlmostEqual(row["high"], math.exp(logs.mean() + 2.364624 * logs.std() / math.sqrt(20)), 6)
        for one in (lambda e: e.effects("mark"), lambda e: e.means(), lambda e: e.verdicts(), lambda e: e.tukey("mark"), lambda e: e.equivalence(0.1),
                    lambda e: model.coefficients(e, resamples=0)):  # fmt: skip
            self.assertTrue((one(x)["high"] - one(x)["low"] > one(fixed)["high"] - one(fixed)["low"]).all())
        self.assertGreater(x.equivalence(0.1, "mark")["p"].max(), fixed.equivalence(0.1, "mark")["p"].max())
        self.assertGreater(x.check().loc["null arm", "p"], fixed.check().loc["null arm", "p"])
        # The model of 8 blocks has 48 runs, 8 means of blocks and 5 of cells.
        table = fixed.anova("mark*load")
        row = table.loc["mark"]
        self.assertAlmostEqual(x.anova("mark*load").loc["mark", "p"], stats.f.sf(row["f"], row["df"], 48 - 8 - 5), 12)
        self.assertAlmostEqual(row["p"], stats.f.sf(row["f"], row["df"], 120 - 20 - 5), 12)

    def test_a_last_block_that_is_incomplete_does_not_count(self):
        x = self.experiment(blocks=6)
        cut = result.Experiment(x.design, x.runs.iloc[:-1])
        self.assertEqual((cut.runs["block"].nunique(), len(cut.excluded)), (5, 6))
        self.assertIn("6 of unfinished blocks", cut.left_out())

    def test_bca_is_refused_below_twenty_blocks(self):
        x = self.experiment(blocks=19)
        self.assertTrue(x.effects()["bca_low"].isna().all())
        self.assertIn("19 blocks", x.effects()["word"][0])
        self.assertTrue(self.experiment(blocks=20).effects()["bca_low"].notna().all())

    def test_coverage(self):
        """Of 40 experiments at least 34 hold the truth (95 % less three standard errors)."""
        self.assertGreaterEqual(held(self, 40), 34)

    def test_verdicts(self):
        targets = [
            {"where": "mark=both load=udp6-56", "at_least": 0.90}, {"where": "mark=both", "at_least": 0.99},
            {"where": "mark=both", "at_least": 0.95}, {"where": "mark=empty", "within": 0.02}, {"where": "mark=both", "within": 0.02},
            {"where": "mark=empty", "within": 0.0001}, {"where": "mark=empty", "at_least": 0.98, "at_most": 1.02},
        ]  # fmt: skip
        x = self.experiment(blocks=24, targets=targets, seed=9)
        found = x.verdicts()
        self.assertEqual(list(found["verdict"]), ["met", "missed", "undecided", "met", "missed", "undecided", "met"])
        self.assertIn("by two one-sided tests", found["sentence"][3])
        self.assertIn("more blocks would narrow it", found["sentence"][2])
        self.assertTrue((x.verdicts(simultaneous=True)["low"] < found["low"]).all())

    def test_no_effect_is_never_shown_by_an_interval_that_holds_one(self):
        """Few noisy blocks: the interval holds 1, and the verdict is undecided nevertheless."""
        x = self.experiment(blocks=4, noise=0.2, targets=[{"where": "mark=empty", "within": 0.02}], seed=3)
        row = x.verdicts().iloc[0]
        self.assertTrue(row["low"] < 1 < row["high"])
        self.assertEqual(row["verdict"], "undecided")

    def test_a_measure_without_a_logarithm_is_undecided(self):
        x = self.experiment(blocks=4, targets=[{"where": "mark=both", "at_most": 2}])
        row = result.Experiment(x.design, x.runs.assign(rate=0.0)).verdicts().iloc[0]
        self.assertEqual(row["verdict"], "undecided")
        self.assertIn("cannot be judged", row["sentence"])

    def test_values_without_a_base_are_judged_as_they_are(self):
        x = self.experiment(blocks=20, response={"value": "rate"}, targets=[{"where": "mark=both load=tcp6", "at_most": 600}], seed=4)
        row = x.verdicts().iloc[0]
        self.assertEqual(row["verdict"], "met")
        self.assertIn("packets/s [", row["sentence"])

    def test_equivalence(self):
        x = self.experiment(blocks=24, seed=10)
        table = x.equivalence(0.02, "mark").set_index("mark")
        self.assertTrue(table.loc["empty", "equivalent"])
        self.assertFalse(table.loc["both", "equivalent"])
        self.assertTrue(x.equivalence("2%", "mark").set_index("mark").equals(table))
        for wrong in (0, -1, 1, "5x", "", None, []):
            with self.assertRaises(ValueError):
                x.equivalence(wrong)

    def test_null_arm(self):
        x = self.experiment(blocks=24, seed=11)
        self.assertTrue(x.check().loc["null arm", "ok"])
        shifted = x.runs.assign(rate=x.runs["rate"] * np.where(x.runs["null"], 1.05, 1))
        row = result.Experiment(x.design, shifted).check().loc["null arm"]
        self.assertFalse(row["ok"])
        self.assertIn("Two identical treatments differ", row["consequence"])

    def test_checks_find_what_is_wrong(self):
        x = self.experiment(blocks=24, seed=12)
        self.assertTrue(x.check().drop(["runs"])["ok"].all(), x.check()[["ok", "finding"]])
        runs = x.runs
        alternating = runs.assign(rate=runs["rate"] * np.exp(0.05 * (-1.0) ** runs["run_order"]))
        row = result.Experiment(x.design, alternating).check().loc["turning points"]
        self.assertFalse(row["ok"])
        self.assertIn("alternate", row["consequence"])
        positions = runs.assign(rate=runs["rate"] * np.exp(0.02 * runs["position"]))
        self.assertFalse(result.Experiment(x.design, positions).check().loc["position", "ok"])
        random = np.random.default_rng(1)
        loud = runs.assign(rate=runs["rate"] * np.exp(np.where(runs["mark"] == "both", 0.1, 0) * random.standard_normal(len(runs))))
        self.assertFalse(result.Experiment(x.design, loud).check().loc["Breusch-Pagan", "ok"])
        heavy = self.experiment(blocks=40, heavy=True, noise=0.05, seed=3)
        self.assertFalse(heavy.check().loc["Shapiro-Wilk", "ok"])

    def test_checks_do_not_claim_what_they_did_not_test(self):
        x = self.experiment(blocks=24, seed=12, null_arm=False)
        self.assertEqual(x.check().loc["null arm", ["ok", "tested", "finding"]].tolist(), [True, False, "There is no null arm."])
        one = self.experiment(blocks=1).check()
        self.assertEqual(set(one.index[~one["tested"]]), {"null arm", "drift", "position", "turning points", "Shapiro-Wilk", "Breusch-Pagan"})
        for loads, steals, tested, ok, words in (
            (np.nan, 0.0, False, True, "oad before runs was not measured"), (np.nan, 0.2, True, False, "20.0 %"), (np.nan, np.nan, False, True, "not recorded"), (0.1, np.nan, True, True, "median 0.10"),
        ):  # fmt: skip
            row = result.Experiment(x.design, x.runs.assign(machine_load=loads, machine_steal=steals)).check().loc["machine"]
            self.assertEqual((row["tested"], row["ok"]), (tested, ok))
            self.assertIn(words, row["finding"])
            self.assertEqual("No sign" in row["consequence"], tested and ok)

    def test_a_trend_is_the_slope_of_the_linear_model(self):
        """Drift and position as statsmodels fits them, with an interval in place of a claim that there is none."""
        import statsmodels.formula.api as smf

        x = self.experiment(blocks=6, seed=21, noise=0.05, drift=0.05)
        runs = x.runs.assign(y=np.log(x.runs["rate"]), cell=x.runs[["mark", "load", "null"]].astype(str).agg("|".join, axis=1))
        for name, along, formula in (("drift", "run_order", "y ~ C(cell) + run_order"), ("position", "position", "y ~ C(cell) + C(block) + position")):
            row, fit = x.check().loc[name], smf.ols(formula, runs).fit()
            self.assertAlmostEqual(row["p"], fit.pvalues[along], 8)
            self.assertAlmostEqual(row["statistic"], fit.params[along] * np.ptp(runs[along]), 8)
            self.assertIn("p = ", row["finding"])
            self.assertIn("[", row["finding"])
            self.assertNotIn("Nothing", row["consequence"])
            self.assertEqual("not excluded" in row["consequence"], row["p"] >= 0.05)

    def test_a_quick_run_is_not_judged(self):
        x = self.experiment(blocks=20, targets=[{"where": "mark=both", "at_least": 0.5}])
        self.assertEqual(list(x.verdicts()["verdict"]), ["met"])
        x = result.Experiment(dataclasses.replace(x.design, quick=True), x.runs)
        self.assertEqual(list(x.verdicts()["verdict"]), ["undecided"])
        self.assertIn("a quick run is no measurement", x.verdicts()["sentence"][0])

    def test_a_constant_measure_is_said(self):
        x = self.experiment(blocks=9, noise=0.0, targets=[{"where": "mark=both", "at_least": 0.9}])
        x = result.Experiment(x.design, x.runs.assign(rate=1.0))
        self.assertIn("met, the whole interval lies above the bound; every block has the same value, so that the interval is a point.", x.verdicts()["sentence"][0])

    def test_balance(self):
        x = self.experiment(blocks=5, seed=13)
        short = result.Experiment(x.design, x.runs.drop(index=x.runs.index[~x.runs["null"]][:2]))
        row = short.check().loc["balance"]
        self.assertFalse(row["ok"])
        self.assertIn("2 of 30 runs are missing", row["finding"])
        self.assertEqual(int(short.effects()["n"].min()), 4)

    def test_excluded_cells_have_their_base(self):
        """A level that the base lacks is compared with the base's own cell of the same load."""
        x = self.experiment(
            blocks=20, factors={"mark": ["none", "both"], "every": [1, 10], "load": LOADS}, exclude=["mark=none every=10"],
            effects=[("mark=both every=1", 0.95), ("load=tcp6", 0.6)], seed=14,
        )  # fmt: skip
        table = x.effects().set_index(["mark", "every", "load"])
        self.assertLess(abs(table.loc[("both", "10", "tcp6"), "ratio"] - 1), 0.02)
        self.assertLess(abs(table.loc[("both", "1", "tcp6"), "ratio"] - 0.95), 0.02)
        self.assertEqual(list(x.anova().index), ["block", "mark/every", "load", "mark/every:load", "Residual"])

    def test_model(self):
        x = self.experiment(blocks=20, seed=15)
        anova = x.anova(permutations=99)
        self.assertEqual(list(anova.index), ["block", "mark", "load", "mark:load", "Residual"])
        self.assertEqual(list(anova["df"]), [19, 2, 1, 2, 95])
        self.assertLess(anova.loc["mark", "p"], 1e-6)
        self.assertEqual(anova.loc["mark", "p_permuted"], 0.01)
        self.assertAlmostEqual(x.variation()["share"].sum(), 100, 6)
        self.assertLess(x.permanova(permutations=99).loc["mark", "p"], 0.02)
        pairs = x.tukey("mark")
        self.assertEqual(len(pairs), 3)
        self.assertLess(abs(pairs.loc["none-both", "ratio"] - 1 / 0.95), 0.02)
        self.assertEqual(len(x.tukey("mark:load")), 15)

    def test_coefficients(self):
        """Levels of a term sum to zero, and are half the effect for two levels."""
        from pillion.analysis.model import coefficients

        x = self.experiment(blocks=20, seed=16)
        table = coefficients(x).set_index(["term", "level"])
        self.assertAlmostEqual(table.loc["mark", "estimate"].sum(), 0, 9)
        self.assertAlmostEqual(table.loc[("load", "udp6-56"), "estimate"], -math.log(0.6) / 2, 2)
        self.assertAlmostEqual(table.loc[("mark", "both"), "estimate"], 2 / 3 * math.log(0.95), 2)

    def test_where(self):
        x = self.experiment(blocks=6)
        y = x.where("load=tcp6")
        self.assertEqual(set(y.effects()["load"]), {"tcp6"})
        self.assertEqual(len(y.design.cells), 3)
        with self.assertRaises(DesignError):
            x.where("mark=both")

    def test_intervals_are_summarised_per_run(self):
        x = self.experiment(blocks=6, intervals=5)
        y = x.summarise("rate", "median", unit="packets/s")
        self.assertEqual(len(y.runs), len(x.runs))
        run = y.runs.iloc[3]
        self.assertAlmostEqual(run["rate_median"], x.intervals.loc[x.intervals["run"] == run["run"], "rate"].median())
        self.assertEqual(y.effects(measure="rate_median")["n"].max(), 6)
        with self.assertRaises(KeyError):
            x.summarise("delay")

    def test_precision(self):
        x = self.experiment(blocks=20, stop={"effect": "mark", "half_width": 0.0001})
        self.assertIn("not reached: that an effect is not seen at this width does not mean that there is none", x.precision())
        self.assertNotIn("not reached", self.experiment(blocks=20, stop={"effect": "mark", "half_width": 0.05}).precision())

    def test_ratios_need_positive_values(self):
        x = self.experiment(blocks=3)
        with self.assertRaisesRegex(ValueError, "no logarithm"):
            result.Experiment(x.design, x.runs.assign(rate=0.0)).effects()

    def test_a_difference(self):
        x = self.experiment(blocks=20, response={"difference": "rate", "to": {"mark": "none"}}, seed=17)
        table = x.effects().set_index(["mark", "load"])
        self.assertLess(abs(table.loc[("both", "udp6-56"), "difference"] + 50), 10)
        self.assertEqual(x.equivalence(30).set_index(["mark", "load"]).loc[("empty", "tcp6"), "equivalent"], True)

    def test_values_without_a_base(self):
        x = self.experiment(blocks=20, response={"value": "rate"}, seed=17)
        table = x.effects().set_index(["mark", "load"])
        self.assertRegex(self.experiment(blocks=20, response={"value": "rate"}, stop={"blocks": 20}).precision(), "^Estimates are known to")
        self.assertLess(abs(table.loc[("none", "tcp6"), "mean"] - 600), 10)
        with self.assertRaisesRegex(ValueError, "no base"):
            x.equivalence(1)

    def test_one_block(self):
        x = self.experiment(blocks=1, targets=[{"where": "mark=both", "at_least": 0.9}])
        self.assertTrue(x.effects()["low"].isna().all())
        self.assertEqual(list(x.verdicts()["verdict"]), ["undecided"])
        self.assertIn("Too few blocks", x.precision())


@unittest.skipUnless(os.environ.get("LONG"), "run by make test-long-python")
class LongTruth(unittest.TestCase):
    def test_coverage(self):
        """Of 400 experiments at least 367 hold the truth (95 % less three standard errors)."""
        self.assertGreaterEqual(held(self, 400), 367)


class Sources(unittest.TestCase):
    def test_no_folder(self):
        with self.assertRaisesRegex(FileNotFoundError, "no folder or file"):
            pillion.experiment("/nowhere/results")
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(FileNotFoundError, "not a result folder"):
            pillion.experiment(folder)

    def test_a_fault_has_its_file(self):
        folder = simulated(self, blocks=2)
        with open(folder + "/journal.jsonl", "a", encoding="utf-8") as file:
            file.write("{}\n")
        with self.assertRaisesRegex(DesignError, "journal.jsonl: read journal, line 15"):
            pillion.experiment(folder)

    def test_parquet_gives_the_same(self):
        """Rows of the stream, as `pillion export` writes them, with columns of another experiment."""
        folder = simulated(self, blocks=20, invalid=0.05, seed=20)
        x = pillion.experiment(folder)
        rows = pd.concat([x.runs, x.excluded]).sort_values("run_order")
        renamed = {"null": "null_arm", "machine_load": "load", "machine_steal": "steal", "run_seconds": "seconds", "mark": "factor_mark",
                   "load": "factor_load", "rate": "measure_rate"}  # fmt: skip
        rows = rows.rename(columns=renamed).drop(columns=["run", "run_order"]).assign(experiment="simulated", hash="simulated-20", factor_size="", measure_delay=np.nan)
        rows = rows.astype({"factor_mark": str, "factor_load": str})
        path = os.path.join(folder, "runs.parquet")
        rows.to_parquet(path)
        by_design = pillion.experiment(path, design=os.path.join(folder, "experiment.json"))
        pd.testing.assert_frame_equal(by_design.effects(), x.effects())
        bare = pillion.experiment(path, response={"log_ratio": "rate", "to": {"mark": "none"}})
        self.assertEqual(set(bare.design.factors), {"mark", "load"})
        pd.testing.assert_frame_equal(
            bare.effects("mark").sort_values("mark", key=lambda c: c.astype(str), ignore_index=True),
            x.effects("mark").sort_values("mark", key=lambda c: c.astype(str), ignore_index=True),
        )
        self.assertEqual(bare.left_out(), x.left_out())
        with self.assertRaises(LookupError):
            pillion.experiment(path, run="other")

    def test_partner_follows_the_runner(self):
        """Shared levels first, then the base's: as the runner's rule of what a cell refers to."""
        folder = simulated(self, blocks=2, factors={"mark": ["none", "both"], "every": [1, 10], "load": LOADS}, effects=[])
        x = pillion.experiment(folder)
        cells = [("none", "1", "udp6-56"), ("none", "1", "tcp6"), ("none", "10", "udp6-56")]
        self.assertEqual(effects.partner(x, ("both", "10", "tcp6"), cells), ("none", "1", "tcp6"))
        self.assertEqual(effects.partner(x, ("both", "10", "udp6-56"), cells), ("none", "10", "udp6-56"))

    def test_an_unfinished_line_is_said(self):
        folder = simulated(self, blocks=2)
        with open(folder + "/journal.jsonl", "a", encoding="utf-8") as file:
            file.write('{"block":')
        self.assertIn("incomplete", pillion.experiment(folder).notes[0])

    def test_names_of_columns_are_refused(self):
        folder = simulated(self, blocks=2)
        with open(folder + "/experiment.json", encoding="utf-8") as file:
            design = json.load(file)
        design["measures"]["valid"] = {}
        with open(folder + "/experiment.json", "w", encoding="utf-8") as file:
            json.dump(design, file)
        with self.assertRaisesRegex(DesignError, "'valid' is the name of a column"):
            pillion.experiment(folder)


if __name__ == "__main__":
    unittest.main()
