package model_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"pillion.dev/send/model"
)

// golden is what testdata/golden.py computes with scipy.
type golden struct {
	Laws []struct {
		Text     string
		Quantity string
		Mean     float64
		CDF      [][2]float64
	}
	Kolmogorov [][2]float64
	Fits       []struct {
		Text      string
		Test      model.Test
		Values    []float64
		Statistic float64
		P         float64
		Exact     *float64
		Freedom   int
	}
}

func readGolden(t *testing.T) golden {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func law(t testing.TB, text string) *model.Law {
	t.Helper()
	d, err := model.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	l, ok := d.(*model.Law)
	if !ok {
		t.Fatalf("%s is a %T, want a law", text, d)
	}
	return l
}

func near(got, want, relative, absolute float64) bool {
	return math.Abs(got-want) <= math.Max(absolute, relative*math.Abs(want))
}

func TestMeanAndCDFAgreeWithScipy(t *testing.T) {
	for _, row := range readGolden(t).Laws {
		t.Run(row.Text, func(t *testing.T) {
			l := law(t, row.Text)
			if got := l.Quantity().String(); got != row.Quantity {
				t.Errorf("quantity: got %s, want %s", got, row.Quantity)
			}
			if got := l.Mean(); !near(got, row.Mean, 1e-7, 0) {
				t.Errorf("mean: got %.12g, want %.12g", got, row.Mean)
			}
			for _, point := range row.CDF {
				if got := l.CDF(point[0]); !near(got, point[1], 1e-9, 1e-11) {
					t.Errorf("CDF of %g: got %.14g, want %.14g", point[0], got, point[1])
				}
			}
		})
	}
}

func TestMeanIsInfinite(t *testing.T) {
	for _, text := range []string{"pareto(1,1ms)", "pareto(0.5,1ms)", "cauchy(1ms,1ms)", "onoff(on=pareto(1,1ms),off=pareto(1,1ms),gap=constant(1ms))"} {
		d, err := model.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Mean(); !math.IsInf(got, 1) {
			t.Errorf("%s: mean %g, want infinity", text, got)
		}
	}
}

func TestMeanOfDraws(t *testing.T) {
	const draws = 100_000
	for _, text := range []string{
		"constant(1ms)", "uniform(1ms,2ms)", "exponential(1ms)", "normal(1ms,1ms)", "poisson(10ms)",
		"pareto(3,1ms)", "gamma(0.1,1ms)", "gamma(0.5,1ms)", "gamma(3,1ms)", "weibull(0.8,1ms)", "weibull(3,1ms)",
		"cauchy(1ms,1ms,max=10ms)", "poisson(3,min=1,max=5)", "exponential(1ms,min=4ms)",
		"file(testdata/sizes.txt)", "file(testdata/sizes.txt,order=sequential)", "file(testdata/sizes.txt,min=100B,max=1000B)",
		"onoff(on=exponential(10ms),off=exponential(30ms),gap=exponential(1ms))",
	} {
		t.Run(text, func(t *testing.T) {
			d, err := model.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			stream, sum, squares := d.Stream(model.Source(7, 0, 0)), 0.0, 0.0
			for range draws {
				v := stream.Draw()
				sum, squares = sum+v, squares+v*v
			}
			mean := sum / draws
			deviation := math.Sqrt(math.Max(squares/draws-mean*mean, 0) / draws)
			// The intervals of an on/off distribution
			// are not quite independent.
			if got := d.Mean(); !near(mean, got, 1e-9, 5*deviation) {
				t.Errorf("mean of draws: got %g, want %g, standard error %g", mean, got, deviation)
			}
		})
	}
}

// The expected number of gaps in an on period of exponential length (mean L) with
// exponential gaps (mean g) is 1 + L/g: those of a Poisson process within it, and the one
// that crosses its end.
func TestMeanOfOnOffAgreesWithTheory(t *testing.T) {
	d, err := model.Parse("onoff(on=exponential(10ms),off=exponential(30ms),gap=exponential(1ms))")
	if err != nil {
		t.Fatal(err)
	}
	const gaps = 1 + 10.0/1
	if got, want := d.Mean(), (gaps*1e6+30e6)/(gaps+1); !near(got, want, 0.01, 0) {
		t.Errorf("got %g, want %g", got, want)
	}
}

func TestOnPeriodEndsWithThePacketAtItsEnd(t *testing.T) {
	d, err := model.Parse("onoff(on=constant(2500us),off=constant(10ms),gap=constant(1ms))")
	if err != nil {
		t.Fatal(err)
	}
	stream := d.Stream(model.Source(1, 0, 0)).(*model.Bursts)
	for i, want := range []float64{1e6, 1e6, 1e6, 10e6, 1e6, 1e6, 1e6, 10e6, 1e6} {
		paused, number := want == 10e6, (i+1)/4
		if got := stream.Draw(); got != want || stream.Paused() != paused || stream.Number() != number || stream.Length() != 2.5e6 {
			t.Errorf("interval %d: got %g, paused %t, on period %d of %g; want %g, %t, %d of 2.5e6",
				i, got, stream.Paused(), stream.Number(), stream.Length(), want, paused, number)
		}
	}
}

func TestDrawsStayWithinBounds(t *testing.T) {
	for _, text := range []string{
		"normal(1ms,10ms)", "cauchy(0,1ms)", "normal(1500,500,min=64,max=1500)", "poisson(3,min=1,max=5)",
		"pareto(0.5,1ms,min=2ms,max=3ms)", "gamma(2,1ms,min=1ms,max=1100us)", "weibull(2,1ms,max=1ms)",
	} {
		l := law(t, text)
		stream := l.Stream(model.Source(1, 0, 0))
		for range 10_000 {
			v := stream.Draw()
			if v < 0 || l.CDF(v) <= 0 || l.CDF(math.Nextafter(v, 0)) >= 1 {
				t.Fatalf("%s: drew %g", text, v)
			}
		}
	}
}

func TestDrawDoesNotAllocate(t *testing.T) {
	for _, text := range []string{
		"constant(1ms)", "uniform(1ms,2ms)", "exponential(1ms)", "normal(1ms,1ms)", "poisson(5ms)", "poisson(50ms)",
		"pareto(1.5,1ms)", "cauchy(1ms,1ms)", "gamma(0.1,1ms)", "gamma(2,1ms)", "weibull(2,1ms)",
		"file(testdata/sizes.txt)", "file(testdata/sizes.txt,order=sequential)",
		"onoff(on=exponential(1ms),off=pareto(1.5,1ms),gap=gamma(2,1us))",
	} {
		d, err := model.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		stream := d.Stream(model.Source(1, 0, 0))
		if n := testing.AllocsPerRun(1000, func() { stream.Draw() }); n != 0 {
			t.Errorf("%s: %g allocations a draw", text, n)
		}
	}
}

func BenchmarkDraw(b *testing.B) {
	for _, text := range []string{
		"constant(1ms)", "uniform(1ms,2ms)", "exponential(1ms)", "normal(1ms,1ms)", "poisson(5ms)", "poisson(50ms)",
		"pareto(1.5,1ms)", "cauchy(1ms,1ms)", "gamma(0.1,1ms)", "gamma(2,1ms)", "weibull(2,1ms)",
		"file(testdata/sizes.txt)", "onoff(on=exponential(1ms),off=pareto(1.5,1ms),gap=gamma(2,1us))",
	} {
		b.Run(text, func(b *testing.B) {
			d, err := model.Parse(text)
			if err != nil {
				b.Fatal(err)
			}
			stream := d.Stream(model.Source(1, 0, 0))
			for b.Loop() {
				stream.Draw()
			}
		})
	}
}
