package main

import (
	"math/rand/v2"
	"testing"
)

// TestOrders is why the order is random: on a machine that slows down, and with a
// disturbance whose period is that of a block, treatments without any effect differ from the
// base in almost all experiments one after another or in a rotation, and in 5 % in random
// blocks.
func TestOrders(t *testing.T) {
	bounds := map[string][2]float64{
		"one after another, drift": {0.92, 1}, "fixed rotation, periodic": {0.99, 1},
		"random blocks, undisturbed": {0.02, 0.08}, "random blocks, drift": {0.02, 0.08}, "random blocks, periodic": {0.02, 0.08},
	}
	for _, c := range orders() {
		bound, ok := bounds[c.name]
		if !ok {
			continue
		}
		delete(bounds, c.name)
		random := rand.New(rand.NewPCG(3, 3))
		figures, err := c.figures(600, random.NormFloat64, random)
		if err != nil {
			t.Fatal(err)
		}
		if got := figures[0].Share; got < bound[0] || got > bound[1] {
			t.Errorf("%s: %.3f of the experiments find an effect, want %v", c.name, got, bound)
		}
	}
	if len(bounds) > 0 {
		t.Errorf("not simulated: %v", bounds)
	}
}

// TestRules: each stop rule ends by itself, holds the truth and reaches its width.
func TestRules(t *testing.T) {
	for _, c := range rules() {
		random := rand.New(rand.NewPCG(5, 5))
		figures, err := c.figures(200, random.NormFloat64, random)
		if err != nil {
			t.Fatal(err)
		}
		if f := figures[0]; f.Share < 0.90 || f.Blocks < 12 || f.HalfWidth <= 0 || f.HalfWidth > 0.6 {
			t.Errorf("%v, %.2f", f, f.HalfWidth)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		figure
		want string
	}{
		{figure{What: coverage, Share: 0.95, Error: 0.005, Bar: 0.94}, "met"},
		{figure{What: coverage, Share: 0.943, Error: 0.005, Bar: 0.94}, "undecided"},
		{figure{What: coverage, Share: 0.93, Error: 0.005, Bar: 0.94}, "missed"},
		{figure{What: falsePositives, Share: 0.05, Error: 0.005, Bar: 0.06}, "met"},
		{figure{What: falsePositives, Share: 0.07, Error: 0.005, Bar: 0.06}, "missed"},
	} {
		if c.judge(); string(c.Verdict) != c.want {
			t.Errorf("%v is %s, want %s", c.figure, c.Verdict, c.want)
		}
	}
}
