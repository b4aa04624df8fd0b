package model_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"pillion.dev/send/model"
)

func TestFitAgreesWithScipy(t *testing.T) {
	g := readGolden(t)
	for _, row := range g.Kolmogorov {
		if got := model.Kolmogorov(row[0]); !near(got, row[1], 1e-9, 1e-14) {
			t.Errorf("Kolmogorov distribution at %g: got %.12g, want %.12g", row[0], got, row[1])
		}
	}
	for _, row := range g.Fits {
		f := law(t, row.Text).Fit(row.Values, model.Options{})
		if f.Test != row.Test || f.N != len(row.Values) || f.Freedom != row.Freedom ||
			!near(f.Statistic, row.Statistic, 1e-9, 0) || !near(f.P, row.P, 1e-6, 1e-14) {
			t.Errorf("%s: got %+v, want statistic %.12g, p %.12g, freedom %d", row.Text, f, row.Statistic, row.P, row.Freedom)
		}
		// The exact distribution of D shows how good the approximation is.
		if row.Exact != nil && !near(f.P, *row.Exact, 0.02, 0.005) {
			t.Errorf("%s: p is %g, the exact one %g", row.Text, f.P, *row.Exact)
		}
	}
}

// seeds and draws are those of the project's bar for goodness of fit.
const (
	seeds = 20
	draws = 100_000
)

// laws are all distributions, plain and truncated, of times and of whole bytes.
var laws = []string{
	"uniform(1ms,2ms)", "exponential(1ms)", "normal(1ms,1ms)", "normal(10ms,1ms)", "poisson(5ms)", "poisson(1s,unit=1us)",
	"pareto(1.5,1ms)", "pareto(0.8,1ms,max=1s)", "cauchy(1ms,1ms)", "gamma(0.1,1ms)", "gamma(2,1ms)", "weibull(0.7,1ms)",
	"weibull(2,1ms,min=500us,max=3ms)", "file(testdata/sizes.txt)",
	"uniform(64,1500)", "exponential(500,min=64,max=1500)", "normal(500,200,min=64,max=1500)", "poisson(500)",
	"pareto(1.5,100B,max=1500)", "cauchy(500,100,min=64,max=1500)", "gamma(2,200,max=1500)", "weibull(2,500,max=1500)",
}

// drawn returns n values of the law, whole ones if they are sizes. Laws that are drawn by
// inversion make the same use of the same random numbers: independent tests need flows of
// their own.
func drawn(l *model.Law, seed, flow uint64, n int) []float64 {
	if l.Quantity() == model.Size {
		l = l.Rounded()
	}
	stream, values := l.Stream(model.Source(seed, flow, 0)), make([]float64, n)
	for i := range values {
		values[i] = stream.Draw()
	}
	return values
}

func fit(l *model.Law, values []float64) model.Fit {
	if l.Quantity() == model.Size {
		l = l.Rounded()
	}
	return l.Fit(values, model.Options{})
}

// rarely is the largest number of rejections at the level that n tests of right
// distributions exceed with a probability under 0.1 %.
func rarely(n int, level float64) int {
	d, most := distuv.Binomial{N: float64(n), P: level}, 0
	for d.Survival(float64(most)) >= 0.001 {
		most++
	}
	return most
}

func TestDrawsFitAtTheLevelExpectedByChance(t *testing.T) {
	const level = 0.01
	total := 0
	var ps []float64
	for number, text := range laws {
		l := law(t, text)
		rejected := 0
		for seed := range uint64(seeds) {
			f := fit(l, drawn(l, seed, uint64(number), draws))
			if f.N != draws || f.Level != level || f.Impossible > 0 || (f.Verdict == model.Inconsistent) != (f.P < level) {
				t.Fatalf("%s, seed %d: %+v", text, seed, f)
			}
			if f.Verdict != model.Consistent {
				rejected++
				t.Logf("%s, seed %d: %s, statistic %.3g, p %.2g", text, seed, f.Test, f.Statistic, f.P)
			}
			ps = append(ps, f.P)
		}
		if most := rarely(seeds, level); rejected > most {
			t.Errorf("%s: %d of %d seeds rejected, chance explains %d", text, rejected, seeds, most)
		}
		total += rejected
	}
	if most := rarely(len(ps), level); total > most {
		t.Errorf("%d of %d tests rejected, chance explains %d", total, len(ps), most)
	}
	// The p values of right distributions are uniform; those of a faulty test are not.
	for i := range ps {
		ps[i] *= 1e9
	}
	uniform := law(t, "uniform(0s,1s)")
	if f := uniform.Fit(ps, model.Options{}); f.Verdict != model.Consistent {
		t.Errorf("the p values are not uniform: %+v", f)
	}
	t.Logf("%d of %d tests rejected at %g", total, len(ps), level)
}

func TestWrongDistributionIsInconsistent(t *testing.T) {
	for _, row := range []struct{ name, drawn, tested string }{
		{"gamma of shape 1.1 is not exponential", "gamma(1.1,1ms)", "exponential(1ms)"},
		{"gamma of shape 1.1 and the same mean is not exponential", "gamma(1.1,909091ns)", "exponential(1ms)"},
		{"mean wrong by 2 %", "exponential(1020us)", "exponential(1ms)"},
		{"normal wider by 3 %", "normal(10ms,1030us)", "normal(10ms,1ms)"},
		{"truncated normal is not the whole one", "normal(1ms,1ms,max=3ms)", "normal(1ms,1ms)"},
		{"Pareto of shape 1.52", "pareto(1.52,1ms)", "pareto(1.5,1ms)"},
		{"Weibull is not exponential", "weibull(1.02,1ms)", "exponential(1ms)"},
		{"Poisson mean wrong by 1 %", "poisson(505)", "poisson(500)"},
		{"normal of sd 23 is not Poisson of sd 22.4", "normal(500,23)", "poisson(500)"},
		{"uniform sizes over a shorter range", "uniform(64,1490)", "uniform(64,1500)"},
		{"uniform sizes beyond the range", "uniform(64,1501)", "uniform(64,1500)"},
		{"file with another weight", "file(testdata/sizes.txt,max=1400)", "file(testdata/sizes.txt)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			tested := law(t, row.tested)
			if f := fit(tested, drawn(law(t, row.drawn), 1, 0, draws)); f.Verdict != model.Inconsistent {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestFitOfDiscreteValues(t *testing.T) {
	repeated := func(n int, values ...float64) []float64 {
		var all []float64
		for range n {
			all = append(all, values...)
		}
		return all
	}
	for _, row := range []struct {
		name, law  string
		values     []float64
		tolerance  float64
		test       model.Test
		verdict    model.Verdict
		impossible int
	}{
		{"constant", "constant(1ms)", repeated(10, 1e6), 0, model.Equality, model.Consistent, 0},
		{"constant within tolerance", "constant(1ms)", []float64{1e6 - 900, 1e6 + 900}, 1000, model.Equality, model.Consistent, 0},
		{"constant beyond tolerance", "constant(1ms)", []float64{1e6, 1e6 + 1100}, 1000, model.Equality, model.Inconsistent, 0},
		{"constant without values", "constant(1ms)", nil, 0, model.Equality, model.Undecided, 0},
		{"file in order", "file(testdata/sizes.txt,order=sequential)", []float64{40, 40, 576, 1500, 1500, 1500, 300, 40}, 0, model.Equality, model.Consistent, 0},
		{"file out of order", "file(testdata/sizes.txt,order=sequential)", []float64{40, 576, 40}, 0, model.Equality, model.Inconsistent, 0},
		{"too few values for two cells", "poisson(10)", []float64{9, 10, 11}, 0, model.ChiSquare, model.Undecided, 0},
		{"too few values for a CDF", "exponential(1ms)", []float64{1e6}, 0, model.KolmogorovSmirnov, model.Undecided, 0},
		{"no value at all", "poisson(10)", nil, 0, model.ChiSquare, model.Undecided, 0},
		{"impossible value", "file(testdata/sizes.txt)", append(repeated(100, 40, 40, 576, 1500, 1500, 1500, 300), 41), 0, model.ChiSquare, model.Inconsistent, 1},
		{"value beyond a bound", "poisson(3,max=8)", []float64{3, 9}, 0, model.ChiSquare, model.Inconsistent, 1},
		{"counts of a unit within tolerance", "poisson(10ms)", []float64{9e6 + 900, 10e6 - 900, 12e6}, 1000, model.ChiSquare, model.Undecided, 0},
		{"counts of a unit beyond tolerance", "poisson(10ms)", []float64{9e6 + 1100, 10e6}, 1000, model.ChiSquare, model.Inconsistent, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := law(t, row.law).Fit(row.values, model.Options{Tolerance: row.tolerance})
			if f.Test != row.test || f.Verdict != row.verdict || f.Impossible != row.impossible {
				t.Errorf("got %+v", f)
			}
			if _, err := json.Marshal(f); err != nil {
				t.Error(err)
			}
		})
	}
}

// Beyond 2^53 not every whole number is a float64.
func TestFitOfHugeWholeValues(t *testing.T) {
	for _, text := range []string{"pareto(0.05,1ns,max=2000000h)", "weibull(0.01,1ns)"} {
		l := law(t, text).Rounded()
		stream, values := l.Stream(model.Source(1, 0, 0)), make([]float64, 10_000)
		for i := range values {
			values[i] = stream.Draw()
		}
		if f := l.Fit(values, model.Options{}); f.Test != model.ChiSquare || f.Verdict != model.Consistent {
			t.Errorf("%+v", f)
		}
	}
}

func TestFitOfModel(t *testing.T) {
	for _, row := range []struct{ name, text, whats, tests string }{
		{"Poisson stream", "interval=exponential(1ms) size=uniform(64,1500)", "[interval size]", "[kolmogorov-smirnov chi-square]"},
		{"intervals of a few nanoseconds", "interval=exponential(10ns) size=constant(100)", "[interval size]", "[chi-square equality]"},
		{"bursts", "interval=onoff(on=exponential(10ms),off=weibull(2,30ms),gap=gamma(2,100us)) size=poisson(500)",
			"[interval.gap interval.off interval.on size]", "[kolmogorov-smirnov kolmogorov-smirnov kolmogorov-smirnov chi-square]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := parseModel(t, row.text+" seed=3 count=50000")
			packets := flow(m, 0)
			var whats []string
			var tests []model.Test
			for _, f := range m.Fit(packets, model.Options{}) {
				whats, tests = append(whats, f.What), append(tests, f.Test)
				if f.Verdict != model.Consistent || math.IsNaN(f.P) {
					t.Errorf("%+v", f)
				}
			}
			if fmt.Sprint(whats) != row.whats || fmt.Sprint(tests) != row.tests {
				t.Errorf("got %v by %v, want %s by %s", whats, tests, row.whats, row.tests)
			}
			for i := range packets {
				packets[i].Interval += packets[i].Interval / 10
			}
			if f := m.Fit(packets, model.Options{})[0]; f.Verdict != model.Inconsistent {
				t.Errorf("intervals 10 %% too long: %+v", f)
			}
		})
	}
}
