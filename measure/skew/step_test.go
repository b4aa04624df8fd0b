package skew

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// stepped is a path whose destination's clock is set by ns at 60.4 s, between two readings of the clock.
type stepped struct {
	path
	ns     float64
	phases [2]float64 // when the intervals of the directions begin, s
}

const steppedAt = 60.4

// low is the minimum of the packets of an interval, some of before and some of after the step.
func (p *stepped) low(d Direction, from float64) Point {
	least, sign := p.forward, 1.0
	if d == Backward {
		least, sign = p.backward, -1
	}
	if p.random.Float64() > p.reached {
		least += p.random.ExpFloat64() * p.queues[d]
	}
	low := math.Inf(1)
	for packet := range 50 {
		low = min(low, sign*p.truth(from+float64(packet)/50))
	}
	return Point{At: start.Add(time.Duration((from + 0.5) * 1e9)), Interval: time.Second, MinNs: int64(least + low)}
}

// TestStepWithinIntervals: however the intervals of the two directions lie to a step, before or after which its report
// arrives, or never, the corrected delays vary by less than 10 us but in the second around the step.
func TestStepWithinIntervals(t *testing.T) {
	for _, row := range []struct {
		name     string
		reported float64 // when the report arrives; 0: never
		queues   float64 // of the packets of seven in ten intervals
	}{
		{"not reported", 0, 3e3},
		{"not reported, queues", 0, 300e3},
		{"reported before it shows", 60.6, 3e3},
		{"reported when it has shown", 75, 3e3},
		{"reported, queues", 62, 300e3},
	} {
		t.Run(row.name, func(t *testing.T) {
			for n := range 16 {
				ns := 3e6
				if (n+n/4)%2 != 0 {
					ns = -3e6
				}
				phases := [2]float64{float64(n%4) / 4, float64(n/4) / 4}
				p := &stepped{ns: ns, phases: phases, path: path{random: rand.New(rand.NewPCG(7, uint64(n))), skew: 50e3, forward: 2e6, backward: 3e6, queues: [2]float64{row.queues, row.queues}, reached: 0.3, steps: []change{{steppedAt, ns}}}}
				if wrong, bound, note := p.run(row.reported); wrong > 10e3 || bound > 5e6 || note != "" {
					t.Errorf("step of %.0f ns, phases %v: residual variation %.0f ns, bound %.0f ns %s", ns, phases, wrong, bound, note)
				}
			}
		})
	}
}

// run estimates every two seconds, and compares the estimates of all with the truth.
func (p *stepped) run(reported float64) (variation, widest float64, note string) {
	e := &Estimator{}
	var list []Estimate
	told := reported == 0
	for x := 0.0; x < 120; x++ {
		if !told && x+1.5 > reported {
			told = true
			e.Step(start.Add(59200*time.Millisecond), start.Add(61200*time.Millisecond), p.ns)
		}
		e.Add(Forward, p.low(Forward, x+p.phases[Forward]))
		if x > 4 {
			e.Add(Backward, p.low(Backward, x+p.phases[Backward]))
		}
		if estimate, ok := e.Estimate(); ok && int(x)%2 == 0 {
			list = append(list, estimate)
		}
	}
	low, high := math.Inf(1), math.Inf(-1)
	for x := 6.0; x < 112; x += 0.1 {
		if math.Abs(x-steppedAt) < 1.5 {
			continue
		}
		at := start.Add(time.Duration(x * 1e9))
		best, ok := Best(list, at)
		if !ok || !best.Both {
			return 0, 0, fmt.Sprintf("no estimate for %g s", x)
		}
		offset, bound := best.Offset(at)
		wrong := offset - p.truth(x)
		if math.Abs(wrong) > bound {
			note = fmt.Sprintf("at %g s wrong by %.0f ns, bound %.0f ns", x, wrong, bound)
		}
		low, high, widest = min(low, wrong), max(high, wrong), max(widest, bound)
	}
	return high - low, widest, note
}

// TestUnknownOffset: of one segment, an estimate with an offset is preferred to one of a single direction.
func TestUnknownOffset(t *testing.T) {
	one := Estimate{Segment: start, Since: start, Until: start.Add(10 * time.Second), OffsetBoundNs: math.NaN(), SkewBoundPPB: 10}
	better := one
	better.SkewBoundPPB = 5
	both := Estimate{Segment: start, Since: start, Until: start.Add(20 * time.Second), OffsetBoundNs: 1e6, SkewBoundPPB: 100, Both: true}
	for _, list := range [][]Estimate{{one, better, both}, {both, better, one}} {
		if best, ok := Best(list, start.Add(5*time.Second)); !ok || !best.Both {
			t.Errorf("best of %+v is %+v", list, best)
		}
	}
	if best, ok := Best([]Estimate{better, one}, start.Add(5*time.Second)); !ok || best.SkewBoundPPB != 5 {
		t.Errorf("best of a single direction is %+v", best)
	}
}
