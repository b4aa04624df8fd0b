package main

import (
	"errors"
	"math"
	"testing"
)

func TestPayloadsHaveThePapersMoments(t *testing.T) {
	for _, c := range []struct {
		text            string
		mean, deviation float64
	}{{"550", 550, 0}, {"gaussian:600:200", 600, 200}, {"pareto:12:550", 600, 600.0 / math.Sqrt(120)}} {
		t.Run(c.text, func(t *testing.T) {
			p, err := parsePayload(c.text)
			if err != nil {
				t.Fatal(err)
			}
			var sum, squares float64
			all := p.lengths(150_000, 1)
			for _, n := range all {
				sum += float64(n)
				squares += float64(n) * float64(n)
			}
			mean := sum / float64(len(all))
			deviation := math.Sqrt(squares/float64(len(all)) - mean*mean)
			if math.Abs(mean-c.mean) > 3 || math.Abs(deviation-c.deviation) > 3 || math.Abs(p.mean-c.mean) > 1e-9 {
				t.Errorf("mean %.1f, deviation %.1f; want %.1f, %.1f", mean, deviation, c.mean, c.deviation)
			}
		})
	}
}

func TestInvalidPayloads(t *testing.T) {
	for _, text := range []string{"", "19", "1453", "-3", "NaN", "Inf", "gaussian:600", "gaussian:600:-1", "pareto:1:550", "550:1", "uniform:1:2"} {
		if _, err := parsePayload(text); !errors.Is(err, errPayload) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPlan(t *testing.T) {
	p, err := parsePayload("100")
	if err != nil {
		t.Fatal(err)
	}
	lengths := p.lengths(10_000, 1)
	all := plan(lengths, 1000, 500, 550, 1)
	var tests, rivals int
	last := int64(0)
	for _, d := range all {
		if d.due < last {
			t.Fatalf("due at %d after %d", d.due, last)
		}
		if last = d.due; d.rival {
			rivals++
		} else {
			if want := int64(tests) * 1_000_000; d.due != want || d.length != 100 {
				t.Fatalf("packet %d: %+v, want due at %d", tests, d, want)
			}
			tests++
		}
	}
	// The number of arrivals in 10 s is a Poisson variable with mean 5000 and deviation 71.
	if tests != len(lengths) || math.Abs(float64(rivals)-5000) > 4*71 {
		t.Errorf("%d packets of the test, %d of its rival", tests, rivals)
	}
	if fast := plan(lengths, 0, 500, 550, 1); len(fast) != len(lengths) || fast[len(fast)-1].due != 0 {
		t.Errorf("as fast as possible: %d packets, the last due at %d", len(fast), fast[len(fast)-1].due)
	}
}
