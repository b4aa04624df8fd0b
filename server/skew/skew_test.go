package skew

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
	"pillion.dev/measure/measuretest"
	"pillion.dev/measure/skew"
)

var epoch = time.Unix(1_700_000_000, 0).UTC()

// feed is a live feed of two hosts a and b whose clocks differ.
type feed struct {
	*testing.T
	*Clocks
	now    time.Time
	stored []measure.Sample
	offset func(x float64) float64 // of b's clock, ns
	random *rand.Rand
}

func newFeed(t *testing.T, offset func(float64) float64) *feed {
	f := &feed{T: t, now: epoch, offset: offset, random: rand.New(rand.NewPCG(5, 6))}
	f.Clocks = New(func(s measure.Sample) { f.stored = append(f.stored, s) }, 10_000, func() time.Time { return f.now }, slog.New(slog.DiscardHandler))
	return f
}

const floor = 2e6 // minimum delay of either direction, ns

// row is what an agent delivers of one second, of a flow with so many packets.
func (f *feed) row(x float64, source, destination string, port uint32) flows.Row {
	offset, clock := f.offset(x), f.offset(x)
	if destination == "a" {
		offset, clock = -offset, 0
	}
	least := int64(floor + 20e3*f.random.ExpFloat64() + offset)
	return flows.Row{
		End: epoch.Add(time.Duration((x+0.5)*1e9 + clock)), Interval: time.Second, Session: "s", Source: source, Destination: destination,
		Flow:             flows.Flow{Src: "192.0.2.1", Dst: "192.0.2.2", Proto: "udp", Sport: port, Dport: 9},
		Sum:              flows.Sum{Counts: flows.Counts{Packets: 10}, Delay: flows.NewDistribution(10, least, least+100, least+5e6, histogram.Histogram{Bounds: []int64{histogram.Bound(histogram.Index(least))}, Counts: []uint64{10}})},
		DestinationClock: flows.BoundOf(1e9), SourceClock: flows.BoundOf(1e9),
	}
}

func (f *feed) batch(agent string, schema *measure.Schema, record arrow.RecordBatch) {
	f.Helper()
	if err := f.Add(archive.Batch{Agent: agent, Schema: schema, Record: record}); err != nil {
		f.Fatal(err)
	}
}

// second delivers the rows of both directions.
func (f *feed) second(x float64, oneWay bool) {
	f.now = epoch.Add(time.Duration((x + 1) * 1e9))
	f.batch("b", &measure.Flows, measuretest.Flows(f.T, f.row(x, "a", "b", 1), f.row(x, "a", "b", 2)))
	if !oneWay {
		f.batch("a", &measure.Flows, measuretest.Flows(f.T, f.row(x+0.2, "b", "a", 1)))
	}
	f.Tick()
}

func (f *feed) clock(agent string, at time.Time, step time.Duration) {
	f.batch(agent, &measure.Clock, measuretest.Record(f.T, &measure.Clock, measuretest.Fields{"time": at, "step_ns": int64(step), "frequency_ppm": 1.0}))
}

// Export answers from what was stored.
func (f *feed) Export(_ context.Context, question archive.Export, rows func(arrow.RecordBatch) error) error {
	var all []measuretest.Fields
	for _, sample := range f.stored {
		row := measuretest.Fields{}
		for i, field := range measure.ClockPairs.Fields {
			switch v := sample[i]; {
			case v.IsNull():
			case field.Type == measure.Float64:
				row[field.Name] = v.Float64()
			case field.Type == measure.String:
				row[field.Name] = v.Text()
			case field.Type == measure.Time:
				row[field.Name] = v.Time()
			default:
				row[field.Name] = int(v.Uint64())
			}
		}
		if at := sample[0].Time(); row["source"] == question.Where["source"] && row["destination"] == question.Where["destination"] &&
			!at.Before(question.From) && at.Before(question.To) {
			all = append(all, row)
		}
	}
	return rows(measuretest.Record(f.T, &measure.ClockPairs, all...))
}

// TestPairClocks runs pairs with drifting clocks through the live feed: the corrected delays vary by
// less than 10 µs, and the offset is inside its bound.
func TestPairClocks(t *testing.T) {
	for _, test := range []struct {
		name      string
		ppm       float64
		step      float64 // at 60 s
		announced bool
		oneWay    bool
	}{
		{name: "+50 ppm", ppm: 50}, {name: "-50 ppm", ppm: -50}, {name: "step", ppm: 50, step: 3e6},
		{name: "step that is announced", ppm: -50, step: 3e6, announced: true}, {name: "one direction", ppm: 50, oneWay: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			truth := func(x float64) float64 {
				offset := 1e9 + 1000*test.ppm*x
				if x >= 60 {
					offset += test.step
				}
				return offset
			}
			f := newFeed(t, truth)
			for x := 0.0; x < 120; x++ {
				f.second(x, test.oneWay)
				if int(x)%10 == 5 {
					step := time.Duration(0)
					if x == 65 && test.announced {
						step = time.Duration(test.step)
					}
					f.clock("b", epoch.Add(time.Duration(x*1e9+truth(x))), step)
				}
			}
			f.check(t, "a", "b", 1, test.oneWay)
			if !test.oneWay {
				f.check(t, "b", "a", -1, false)
			}
		})
	}
}

func (f *feed) check(t *testing.T, source, destination string, sign float64, oneWay bool) {
	t.Helper()
	list, err := Stored(t.Context(), f, source, destination, epoch, epoch.Add(2*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(list); n < 4 || n > 20 {
		t.Errorf("%d estimates stored", n)
	}
	list = append(list, f.Recent(source, destination)...)
	low, high := math.Inf(1), math.Inf(-1)
	for x := 1.0; x < 118; x++ {
		if x > 58 && x < 62 {
			continue
		}
		at := epoch.Add(time.Duration(x * 1e9))
		if destination == "b" {
			at = epoch.Add(time.Duration(x*1e9 + f.offset(x)))
		}
		best, ok := skew.Best(list, at)
		if !ok {
			t.Fatalf("no estimate for %s > %s at %g s", source, destination, x)
		}
		offset, bound := best.Offset(at)
		wrong := offset - sign*f.offset(x)
		if !oneWay && !(math.Abs(wrong) <= bound) {
			t.Errorf("%s > %s at %g s: offset wrong by %.0f ns, bound %.0f", source, destination, x, wrong, bound)
		}
		if !oneWay && bound > 1.5*floor {
			t.Errorf("%s > %s at %g s: bound %.0f ns, the minimum round trip is %.0f", source, destination, x, bound, 2*floor)
		}
		low, high = min(low, wrong), max(high, wrong)
	}
	t.Logf("%s > %s: residual variation %.0f ns", source, destination, high-low)
	if high-low > 10e3 {
		t.Errorf("%s > %s: residual variation %.0f ns", source, destination, high-low)
	}
}

// TestCommonClock leaves out pairs whose agents share a clock, rows without delays and those of an unknown source.
func TestCommonClock(t *testing.T) {
	f := newFeed(t, func(float64) float64 { return 0 })
	for x := 0.0; x < 30; x++ {
		shared, unknown, none := f.row(x, "a", "b", 1), f.row(x, "", "b", 1), f.row(x, "c", "b", 1)
		shared.DestinationClock, shared.SourceClock = flows.BoundOf(0), flows.BoundOf(0)
		none.Delay = flows.Distribution{}
		f.now = epoch.Add(time.Duration(x * 1e9))
		f.batch("b", &measure.Flows, measuretest.Flows(t, shared, unknown, none))
		f.Tick()
	}
	if len(f.pairs) != 0 || len(f.stored) != 0 {
		t.Errorf("%d pairs, %d rows", len(f.pairs), len(f.stored))
	}
}

// TestIdlePairs are forgotten.
func TestIdlePairs(t *testing.T) {
	f := newFeed(t, func(x float64) float64 { return 10 * x })
	for x := 0.0; x < 20; x++ {
		f.second(x, false)
	}
	if list := f.Latest("a", ""); len(list) != 1 || list[0].Destination != "b" || !list[0].Both {
		t.Errorf("latest %+v", list)
	}
	if list := f.Latest("", ""); len(list) != 2 || list[1].Source != "b" {
		t.Errorf("latest %+v", list)
	}
	f.now = f.now.Add(idleTime + time.Second)
	f.Tick()
	if list := f.Latest("", ""); len(list) != 0 {
		t.Errorf("latest %+v", list)
	}
}

// TestLastOfASegmentIsStored: the estimate that knows most of a segment, whenever the segment ends.
func TestLastOfASegmentIsStored(t *testing.T) {
	for _, at := range []float64{47, 51, 54} {
		f := newFeed(t, func(x float64) float64 {
			if x >= at {
				return 3e6
			}
			return 0
		})
		var last skew.Estimate
		for x := 0.0; x < at+30; x++ {
			if x == at+2 {
				f.clock("b", epoch.Add(time.Duration((at-1)*1e9)), 0)
				f.clock("b", epoch.Add(time.Duration((at+1)*1e9)), 3*time.Millisecond)
			}
			f.second(x, false)
			if list := f.Recent("a", "b"); len(list) > 0 && (last.Segment.IsZero() || list[len(list)-1].SameSegment(last)) {
				last = list[len(list)-1]
			}
		}
		list, err := Stored(t.Context(), f, "a", "b", epoch, f.now)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(list, func(e skew.Estimate) bool { return e.SameSegment(last) && e.Until.Equal(last.Until) }) {
			t.Errorf("step at %g s: the estimate until %v is not among %d that are stored", at, last.Until, len(list))
		}
		if newest := list[len(list)-1]; newest.SameSegment(last) {
			t.Errorf("step at %g s: no segment begins", at)
		}
	}
}
