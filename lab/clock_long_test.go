//go:build long

package lab_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/clock"
)

// drifting has a and b, whose clock the test gives a drift, with 2 ms and 3 ms of delay.
const drifting = `
hosts: {a: {}, b: {}, noc: {}}
links:
  - ends: [a, b]
    emulate: {seed: 7, queue: 4000, from: {a: {delay: 2ms}, b: {delay: 3ms}}}
  - {ends: [a, noc]}
  - {ends: [b, noc]}
service: {server: noc, agents: [a]}
`

// skewFigures are how far corrected delays of single packets vary beyond the delays on the host's own clock, and the
// largest bound on the offset, both in ns, of a direction in which packets went both ways.
type skewFigures func(t testing.TB, direction string, residual, bound float64)

// TestLongSkewIsRemoved states no figures: they depend on how busy the machine is.
func TestLongSkewIsRemoved(t *testing.T) {
	skewIsRemoved(t, func(testing.TB, string, float64, float64) {})
}

// skewIsRemoved gives the probes of one host a clock that drifts and is set. The true offset is always inside the
// bound; with one direction, inside the bound on the rate.
func skewIsRemoved(t *testing.T, figures skewFigures) {
	const length, half = 120 * time.Second, 60 * time.Second
	for _, row := range []struct {
		name   string
		skew   int64
		step   time.Duration
		silent bool
		oneWay bool
	}{
		{name: "plus 50 ppm, a step that the clock reports", skew: 50_000, step: 3 * time.Millisecond},
		{name: "minus 50 ppm, a step that nobody reports", skew: -50_000, step: -3 * time.Millisecond, silent: true},
		{name: "one direction", skew: 50_000, oneWay: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := service(t, drifting)
			now := time.Now()
			own := &clock.Injection{From: now, SkewPPB: row.skew, Step: row.step, StepAt: now.Add(half), Silent: row.silent}
			b.join("b", "--no-split", "--interval", "2s", "--test-clock-from", fmt.Sprint(now.UnixNano()), "--test-clock-skew="+fmt.Sprint(row.skew),
				"--test-clock-step="+row.step.String(), "--test-clock-step-at", fmt.Sprint(own.StepAt.UnixNano()), fmt.Sprintf("--test-clock-silent=%v", row.silent))
			sessions := [][]string{{"out", "a", "b"}, {"back", "b", "a"}}
			if row.oneWay {
				sessions = sessions[:1]
			}
			eventually(t, "two agents", func() bool { return b.number("SELECT count(DISTINCT agent) FROM agent") == 2 })
			for _, s := range sessions {
				b.running(s[0], "--from", s[1], "--to", s[2], "--trace=-1s", "--records", "--stamp-every", "1", "--filter", "proto=udp dport=9000")
				b.beat(s[1], s[2])
			}
			select {
			case <-time.After(time.Until(now.Add(length))):
			case <-t.Context().Done():
			}
			b.atLeast(4, "SELECT count(*) FROM clock_pairs") // as many as there are in this time unless the machine stalls
			if row.step != 0 {
				eventually(t, "delays across the step to be left out", func() bool { return b.task("out", "b", "destination")["delays_left_out"] > 0 })
			}
			if row.step != 0 && !row.silent {
				b.reaches(1, "SELECT count(*) FROM events WHERE kind = 'clock-stepped' AND about = 'b'")
			}
			said := b.pillion("session", "watch", "out", "--clock", "corrected", "--count", "2", "-o", "json")
			var shown struct {
				Count uint64  `json:"corrected_count"`
				P50   float64 `json:"corrected_p50_ns"`
				Raw   float64 `json:"delay_p50_ns"`
			}
			if err := json.NewDecoder(strings.NewReader(said)).Decode(&shown); err != nil || shown.Count == 0 || math.Abs(shown.Raw-shown.P50) < 1e6 {
				t.Errorf("session watch says %s (%v)", said, err)
			}
			b.checkOffsets(own, "a", "b", 1, row.oneWay, figures)
			if !row.oneWay {
				b.checkOffsets(own, "b", "a", -1, false, figures)
			}
		})
	}
}

// beat sends a datagram each 10 ms until the test ends.
func (b *serviceBed) beat(from, to string) {
	b.t.Helper()
	address := map[string]string{"a": "[fd77:0:0:1::1]:9000", "b": "[fd77:0:0:1::2]:9000"}
	s := b.open(from, to, netip.MustParseAddrPort(address[to]))
	ended := make(chan struct{})
	ticks := time.NewTicker(10 * time.Millisecond)
	go func() {
		defer close(ended)
		for range ticks.C {
			if _, err := s.out.Write(make([]byte, 64)); err != nil {
				return // closed
			}
		}
	}()
	b.t.Cleanup(func() {
		s.out.Close()
		<-ended
		ticks.Stop()
	})
}

// rows are what a query yields, as JSON.
func rows[R any](b *serviceBed, sql string) (list []R) {
	b.t.Helper()
	decoder := json.NewDecoder(strings.NewReader(b.pillion("query", "-o", "json", "--limit", "100000", sql)))
	for decoder.More() {
		var r R
		if err := decoder.Decode(&r); err != nil {
			b.t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// estimate is a row of clock_pairs; times are ns since 1970.
type estimate struct {
	Until, Segment, Since   int64
	Offset, Skew, SkewBound float64
	Bound                   *float64
}

// at is the offset at a time and its bound, of which that of the rate stands in if the offset is unknown.
func (e *estimate) at(t int64) (offset, bound float64) {
	outside := float64(max(0, t-e.Until, e.Since-t)) / 1e9
	offset = e.Offset + e.Skew*float64(t-e.Until)/1e9
	if e.Bound == nil {
		return offset, e.SkewBound
	}
	return offset, *e.Bound + e.SkewBound*outside
}

// bestAt chooses as the manual says: of the latest segment that had begun, or else of the first, the smallest bound,
// and an unknown one only if no other is.
func bestAt(list []estimate, t int64) *estimate {
	const same = int64(2 * time.Second)
	var best *estimate
	for i := range list {
		e := &list[i]
		if best == nil {
			best = e
			continue
		}
		apart := e.Segment - best.Segment
		_, bound := e.at(t)
		_, least := best.at(t)
		switch begun := e.Segment <= t; {
		case apart > -same && apart < same:
			if known, before := e.Bound != nil, best.Bound != nil; known && !before || known == before && bound <= least {
				best = e
			}
		case begun && (apart > 0 || best.Segment > t), !begun && apart < 0:
			best = e
		}
	}
	return best
}

// checkOffsets compares the estimates with the injected offset at the time of each packet.
func (b *serviceBed) checkOffsets(own *clock.Injection, source, destination string, sign float64, oneWay bool, figures skewFigures) {
	b.t.Helper()
	pair := fmt.Sprintf("source = '%s' AND ", source)
	list := rows[estimate](b, `SELECT epoch_ns(time) AS until, epoch_ns(segment) AS segment, epoch_ns(since) AS since, offset_ns AS "offset",
		skew_ppb AS skew, skew_bound_ppb AS skewbound, offset_bound_ns AS bound FROM clock_pairs WHERE `+pair+`destination = '`+destination+`' ORDER BY time`)
	type record struct{ At, Delay int64 }
	packets := rows[record](b, `SELECT epoch_ns(time) AS at, delay_ns AS delay FROM packets WHERE `+pair+`agent = '`+destination+`' AND delay_ns IS NOT NULL ORDER BY time`)
	if len(packets) < 5000 || len(list) < 4 {
		b.t.Fatalf("%s > %s: %d packets, %d estimates", source, destination, len(packets), len(list))
	}
	// The residual is by how much a corrected delay is not that by the host's own clock.
	low, high, widest, last := math.Inf(1), math.Inf(-1), 0.0, list[len(list)-1].Until
	var raw, corrected []float64
	var first float64 // error, at the time begun
	var begun int64
	for _, p := range packets {
		at := time.Unix(0, p.At)
		if own.Step != 0 && at.Sub(own.StepAt).Abs() < 1500*time.Millisecond {
			continue // an interval in which the clock was set has two offsets
		}
		offset, bound := bestAt(list, p.At).at(p.At)
		wrong := sign*float64(own.Offset(at)) - offset
		if !oneWay && !(math.Abs(wrong) <= bound) {
			b.t.Fatalf("%s > %s at %v: offset %.0f ns is wrong by %.0f ns, bound %.0f ns", source, destination, at, offset, wrong, bound)
		}
		// With one direction only the rate is known: a change of the path's shortest delay, as on a
		// busy machine, counts as one of the clock, within the bound on the rate.
		if raw == nil {
			first, begun = wrong, p.At
		}
		if most := bound * float64(p.At-begun) / 1e9; oneWay && math.Abs(wrong-first) > most+1 {
			b.t.Fatalf("%s > %s at %v: offset has changed by %.0f ns more than estimated, bound %.0f ns", source, destination, at, wrong-first, most)
		}
		low, high = min(low, wrong), max(high, wrong)
		if p.At <= last { // after the last estimate the bound grows with time
			widest = max(widest, bound)
		}
		raw, corrected = append(raw, float64(p.Delay)), append(corrected, float64(p.Delay)-offset)
	}
	slices.Sort(raw)
	slices.Sort(corrected)
	spread := func(list []float64) float64 { return list[len(list)*9/10] - list[len(list)/100] }
	b.t.Logf("%s > %s: %d packets, %d estimates: residual %.0f ns, largest bound %.0f ns; delays spread from p1 to p90 %.0f ns, raw %.0f ns",
		source, destination, len(packets), len(list), high-low, widest, spread(corrected), spread(raw))
	if !oneWay {
		figures(b.t, source+" > "+destination, high-low, widest)
	}
	if spread(raw) < 2e6 || spread(corrected) > 0.2*spread(raw) {
		b.t.Errorf("%s > %s: delays spread by %.0f ns, raw by %.0f ns", source, destination, spread(corrected), spread(raw))
	}
	for _, e := range list {
		if since := func(t int64) float64 { return time.Unix(0, t).Sub(own.From).Seconds() }; b.t.Failed() {
			b.t.Logf("%s > %s: segment from %.3f s: %.3f to %.3f s: offset %.0f ns, truly %.0f, skew %.0f ppb, bound %.0f", source, destination,
				since(e.Segment), since(e.Since), since(e.Until), e.Offset, sign*float64(own.Offset(time.Unix(0, e.Until))), e.Skew, e.SkewBound)
		}
	}
}
