package skew

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHull(t *testing.T) {
	for _, row := range []struct {
		name         string
		points, hull []vertex
	}{
		{"nothing", nil, nil},
		{"one", []vertex{{1, 5}}, []vertex{{1, 5}}},
		{"same time", []vertex{{1, 5}, {1, 3}, {1, 4}}, []vertex{{1, 3}}},
		{"same time above a hull", []vertex{{0, 0}, {1, 5}, {1, 3}, {2, 0}}, []vertex{{0, 0}, {2, 0}}},
		{"on a line", []vertex{{0, 0}, {1, 1}, {2, 2}}, []vertex{{0, 0}, {2, 2}}},
		{"peak", []vertex{{0, 0}, {1, 9}, {2, 1}}, []vertex{{0, 0}, {2, 1}}},
		{"valley", []vertex{{0, 5}, {1, 0}, {2, 4}}, []vertex{{0, 5}, {1, 0}, {2, 4}}},
		{"later point removes several", []vertex{{0, 0}, {1, 1}, {2, 3}, {3, -9}}, []vertex{{0, 0}, {3, -9}}},
	} {
		if got := lowerHull(nil, row.points); !slices.Equal(got, row.hull) {
			t.Errorf("%s: hull %v, want %v", row.name, got, row.hull)
		}
	}
}

// path is a simulated pair of hosts.
type path struct {
	skew, offset       float64 // ppb; ns at the start
	forward, backward  float64 // minimum delays, ns
	queues             [2]float64
	reached            float64 // share of intervals whose minimum is that of the path
	every              time.Duration
	steps              []change
	random             *rand.Rand
	oneWay             bool
	continuousInterval bool    // minima lie anywhere in their intervals
	timing             float64 // standard deviation of what hosts add to the minima, ns
}

type change struct{ at, ns float64 }

var start = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// truth is the offset at x seconds of the source's clock.
func (p *path) truth(x float64) float64 {
	offset := p.offset + p.skew*x
	for _, s := range p.steps {
		if x >= s.at {
			offset += s.ns
		}
	}
	return offset
}

// at is the moment x by the destination's clock.
func (p *path) at(x float64) time.Time {
	return start.Add(time.Duration(x*1e9 + p.truth(x)))
}

func (p *path) minimum(d Direction, x float64) Point {
	least, sign := p.forward, 1.0
	if d == Backward {
		least, sign = p.backward, -1
	}
	if p.random.Float64() > p.reached {
		least += p.random.ExpFloat64() * p.queues[d]
	}
	least += p.random.NormFloat64() * p.timing
	point := Point{At: p.at(x)}
	if d == Backward {
		point.At = start.Add(time.Duration(x * 1e9))
	}
	if p.continuousInterval {
		point.Interval = p.every
		x += (p.random.Float64() - 0.5) * p.every.Seconds()
	}
	point.MinNs = int64(least + sign*p.truth(x))
	return point
}

func (p *path) feed(e *Estimator, from, to float64) {
	for x := from; x < to; x += p.every.Seconds() {
		e.Add(Forward, p.minimum(Forward, x))
		if !p.oneWay {
			e.Add(Backward, p.minimum(Backward, x+0.3*p.every.Seconds()))
		}
	}
}

func randomPath(r *rand.Rand) *path {
	return &path{
		skew: (2*r.Float64() - 1) * 100_000, offset: (2*r.Float64() - 1) * 1e9,
		forward: math.Pow(10, 3+4*r.Float64()), backward: math.Pow(10, 3+4*r.Float64()),
		queues:  [2]float64{math.Pow(10, 2+5*r.Float64()), math.Pow(10, 2+5*r.Float64())},
		reached: r.Float64(), every: time.Second, random: r, continuousInterval: r.IntN(2) == 0,
	}
}

// TestBoundHolds asks for the offset and the drift of random pairs: both must be inside their bounds.
func TestBoundHolds(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 9))
	estimates, restarts := 0, 0
	for n := range 10_000 {
		p, e := randomPath(r), &Estimator{}
		length := 15 + r.Float64()*45
		p.feed(e, 0, length)
		estimate, ok := e.Estimate()
		if !ok {
			continue
		}
		restarts += e.Restarts()
		estimates++
		if wrong := math.Abs(estimate.SkewPPB - p.skew); wrong > estimate.SkewBoundPPB+0.02*math.Abs(p.skew)/1000+1 {
			t.Errorf("case %d: skew is wrong by %g ppb, bound %g: %+v", n, wrong, estimate.SkewBoundPPB, p)
		}
		for _, x := range []float64{0, length / 2, length, length + 30} {
			offset, bound := estimate.Offset(p.at(x))
			if wrong := math.Abs(offset - p.truth(x)); !(wrong <= bound) {
				t.Errorf("case %d: offset at %g s is wrong by %g ns, bound %g: %+v %+v", n, x, wrong, bound, estimate, p)
			}
			back, bound := estimate.Reverse().Offset(start.Add(time.Duration(x * 1e9)))
			if wrong := math.Abs(back + p.truth(x)); !(wrong <= bound) {
				t.Errorf("case %d: reversed offset at %g s is wrong by %g ns, bound %g", n, x, wrong, bound)
			}
		}
	}
	if estimates < 9_900 {
		t.Errorf("%d of 10000 cases have an estimate", estimates)
	}
	if restarts > 20 { // queues may look like a change; the bound widens, and holds
		t.Errorf("%d restarts without a change in 10000 cases", restarts)
	}
}

// TestCorridor compares the line and its bounds with brute force over all pairs of points.
func TestCorridor(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 200 {
		var forward, backward []vertex
		for x := range 3 + r.IntN(10) {
			forward = append(forward, vertex{float64(x) + r.Float64(), 100 + r.Float64()*1000 + 50*float64(x)})
			backward = append(backward, vertex{float64(x) + r.Float64(), 100 + r.Float64()*1000 - 50*float64(x)})
		}
		c := newCorridor(lowerHull(nil, forward), lowerHull(nil, backward))
		best, width := c.widest()
		room := func(slope float64) float64 {
			ceiling, floor := math.Inf(1), math.Inf(-1)
			for _, p := range forward {
				ceiling = min(ceiling, p.y-slope*p.x)
			}
			for _, p := range backward {
				floor = max(floor, -p.y-slope*p.x)
			}
			return ceiling - floor
		}
		if got := room(best.slope); math.Abs(got-width) > 1e-6 {
			t.Fatalf("case %d: width %g, brute force %g", n, width, got)
		}
		least, most, ok := c.slopeRange(0)
		wide, low, high := math.Inf(-1), math.Inf(1), math.Inf(-1)
		for _, slope := range candidates(forward, backward) {
			w := room(slope)
			wide = max(wide, w)
			if w >= -1e-6 {
				low, high = min(low, slope), max(high, slope)
			}
		}
		if math.Abs(wide-width) > 1e-6 {
			t.Errorf("case %d: width %g, brute force %g", n, width, wide)
		}
		if ok != (wide >= 0) {
			t.Errorf("case %d: room %v, brute force %g", n, ok, wide)
		}
		if ok && (math.Abs(low-least) > 1e-3 || math.Abs(high-most) > 1e-3) {
			t.Errorf("case %d: slopes %g to %g, brute force %g to %g", n, least, most, low, high)
		}
	}
}

// candidates are the slopes of the lines through two points, of which those of an optimum are some.
func candidates(forward, backward []vertex) (slopes []float64) {
	all := slices.Clone(forward)
	for _, p := range backward {
		all = append(all, vertex{p.x, -p.y})
	}
	for i, a := range all {
		for _, b := range all[:i] {
			if a.x != b.x {
				slopes = append(slopes, (a.y-b.y)/(a.x-b.x))
			}
		}
	}
	return slopes
}

// TestVariation corrects the delays of pairs in an office network and over a long path.
func TestVariation(t *testing.T) {
	for _, row := range []struct {
		name string
		path path
		most float64 // residual variation, ns
	}{
		{"+50 ppm", path{skew: 50_000, offset: 3e6, forward: 5e6, backward: 5e6, queues: [2]float64{20e3, 20e3}, reached: 0.3}, 1},
		{"minima never reached", path{skew: 50_000, offset: 3e6, forward: 5e6, backward: 5e6, queues: [2]float64{20e3, 20e3}}, 10e3},
		{"-50 ppm", path{skew: -50_000, offset: -7e8, forward: 5e6, backward: 2e6, queues: [2]float64{10e3, 30e3}}, 10e3},
		{"minima anywhere in their intervals", path{skew: -50_000, forward: 5e6, backward: 2e6, queues: [2]float64{10e3, 10e3}, continuousInterval: true}, 10e3},
		{"short path", path{skew: 50_000, forward: 20e3, backward: 20e3, queues: [2]float64{5e3, 5e3}}, 10e3},
		{"step above the round trip", path{skew: 50_000, forward: 1e6, backward: 1e6, queues: [2]float64{10e3, 10e3}, steps: []change{{60, 3e6}}}, 10e3},
		{"step below the round trip", path{skew: 50_000, forward: 5e6, backward: 5e6, queues: [2]float64{10e3, 10e3}, steps: []change{{60, 3e6}}}, 10e3},
		{"step back", path{skew: -50_000, forward: 5e6, backward: 5e6, queues: [2]float64{10e3, 10e3}, steps: []change{{60, -3e6}}}, 10e3},
		{"timing of hosts", path{skew: 50_000, forward: 2e6, backward: 3e6, timing: 8e3}, 10e3},
		{"timing of hosts, one direction", path{skew: 50_000, forward: 2e6, timing: 8e3, oneWay: true}, 10e3},
		{"one direction", path{skew: 50_000, forward: 5e6, queues: [2]float64{20e3, 20e3}, oneWay: true}, 10e3},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, e := row.path, &Estimator{}
			p.every, p.random = time.Second, rand.New(rand.NewPCG(1, 2))
			var list []Estimate
			for x := 0.0; x < 120; x++ {
				p.feed(e, x, x+1)
				if estimate, ok := e.Estimate(); ok {
					list = append(list, estimate)
				}
			}
			if want := len(p.steps); e.Restarts() != want {
				t.Errorf("%d restarts, want %d", e.Restarts(), want)
			}
			least, most := math.Inf(1), math.Inf(-1)
			for x := 0.5; x < 115; x++ {
				if len(p.steps) > 0 && math.Abs(x-p.steps[0].at) < 1 {
					continue
				}
				best, ok := Best(list, p.at(x))
				if !ok {
					t.Fatalf("no estimate for %g s", x)
				}
				offset, bound := best.Offset(p.at(x))
				wrong := offset - p.truth(x)
				if !p.oneWay && !(math.Abs(wrong) <= bound) {
					t.Errorf("offset at %g s is wrong by %g ns, bound %g", x, wrong, bound)
				}
				least, most = min(least, wrong), max(most, wrong)
			}
			t.Logf("residual variation %.0f ns", most-least)
			if most-least > row.most {
				t.Errorf("residual variation %.0f ns, want at most %.0f", most-least, row.most)
			}
		})
	}
}

func TestEstimatorForgets(t *testing.T) {
	p := path{skew: 10_000, forward: 1e6, backward: 1e6, queues: [2]float64{1e5, 1e5}, reached: 0.2, every: time.Second, random: rand.New(rand.NewPCG(1, 2))}
	e := &Estimator{}
	for x := 0.0; x < 3600; x += 10 {
		p.feed(e, x, x+10)
		e.Estimate()
	}
	estimate, ok := e.Estimate()
	if length := estimate.Until.Sub(estimate.Since); !ok || length > windowTime*time.Second || length < (windowTime-30)*time.Second {
		t.Errorf("estimate %+v of %v, want one of %d s", estimate, length, windowTime)
	}
	if n := len(e.sides[Forward].confirmed); n > windowTime+1 {
		t.Errorf("%d points kept", n)
	}
	e.Step(p.at(3590), p.at(3600), 0)
	if _, ok := e.Estimate(); ok {
		t.Error("an estimate after a step, without points")
	}
	p.feed(e, 3601, 3630)
	if estimate, ok := e.Estimate(); !ok || estimate.Since.Before(p.at(3600)) {
		t.Errorf("estimate %+v (%v), want one since the step", estimate, ok)
	}
}

// TestStep announces steps ten seconds late: the segment begins where the points show it.
func TestStep(t *testing.T) {
	for _, row := range []struct {
		name   string
		ns     float64
		oneWay bool
	}{
		{"ahead", 3e6, false}, {"back", -3e6, false}, {"too small to be seen otherwise", 2e4, false},
		{"intervals with both offsets", 3e6, false},
		{"one direction, longer", 3e6, true}, {"one direction, shorter", -3e6, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := path{skew: 20_000, forward: 5e6, backward: 5e6, queues: [2]float64{1e3, 1e3}, every: time.Second, oneWay: row.oneWay,
				random: rand.New(rand.NewPCG(1, 2)), steps: []change{{60, row.ns}}}
			e := &Estimator{}
			p.feed(e, 0, 62)
			if row.name == "intervals with both offsets" { // the minimum from before in the middle after
				e.Add(Forward, Point{At: p.at(60.4), Interval: time.Second, MinNs: int64(p.forward + p.truth(59.95))})
			}
			e.Estimate()
			e.Step(p.at(55), p.at(65), row.ns)
			p.feed(e, 62, 90)
			estimate, ok := e.Estimate()
			if began := estimate.Segment.Sub(p.at(60)); !ok || began < 0 || began > 2*time.Second {
				t.Errorf("estimate %+v (%v): the segment began %v after the step", estimate, ok, began)
			}
			for x := 61.0; x < 80; x++ {
				offset, bound := estimate.Offset(p.at(x))
				first, _ := estimate.Offset(p.at(61))
				if wrong := offset - p.truth(x); !row.oneWay && !(math.Abs(wrong) <= bound) {
					t.Errorf("offset at %g s is wrong by %g ns, bound %g", x, wrong, bound)
				}
				if wrong := offset - first - p.truth(x) + p.truth(61); math.Abs(wrong) > 10e3 {
					t.Errorf("drift at %g s is wrong by %g ns", x, wrong)
				}
			}
		})
	}
}

func FuzzEstimator(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Fuzz(func(t *testing.T, data []byte) {
		e := &Estimator{}
		for ; len(data) >= 18; data = data[18:] {
			at, ns := int64(0), int64(0)
			for i := range 8 {
				at, ns = at<<8|int64(data[1+i]), ns<<8|int64(data[9+i])
			}
			shift := data[0] >> 2 & 63
			when := time.Unix(at>>shift, 0)
			switch data[0] & 3 {
			case 3:
				e.Step(when.Add(-time.Duration(data[17])*time.Second), when, float64(ns))
			case 2:
				if estimate, ok := e.Estimate(); ok {
					checkEstimate(t, estimate)
				}
			default:
				e.Add(Direction(data[0]&1), Point{At: when, MinNs: ns >> shift, Interval: time.Duration(data[17]) * time.Second})
			}
		}
		if estimate, ok := e.Estimate(); ok {
			checkEstimate(t, estimate)
		}
	})
}

func checkEstimate(t *testing.T, e Estimate) {
	t.Helper()
	for _, v := range []float64{e.OffsetNs, e.SkewPPB, e.SkewBoundPPB, e.DriftNs} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			t.Fatalf("estimate %+v", e)
		}
	}
	if e.Until.Before(e.Since) || e.SkewBoundPPB < 0 || e.Both && !(e.OffsetBoundNs >= 0) || !e.Both && !math.IsNaN(e.OffsetBoundNs) {
		t.Fatalf("estimate %+v", e)
	}
}
