package destination

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pillion.dev/measure/histogram"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// delivered sends one mark for each delay and returns the exact delays.
func delivered(t *testing.T, d *Destination, delays []time.Duration) []int64 {
	t.Helper()
	return deliveredFrom(t, d, 0, delays)
}

func deliveredFrom(t *testing.T, d *Destination, first int, delays []time.Duration) []int64 {
	t.Helper()
	original := golden(t)[0].Original
	exact := make([]int64, 0, len(delays))
	records := make([]Record, 64)
	for i, delay := range delays {
		mark := codec.Mark{
			Modules: wire.Delay | wire.Loss, Sequence: uint32(first + i), Single: true,
			Sent: codec.TimestampOf(time.Now().Add(-delay)),
		}
		marked, err := codec.Insert(original, wire.Native, mark, wire.Port)
		if err != nil {
			t.Fatal(err)
		}
		run(t, d.objects.DestinationTc, frame(marked), 0)
		n, err := d.ReadRecords(records, time.Now().Add(time.Minute))
		if err != nil || n != 1 {
			t.Fatalf("got %d records, %v", n, err)
		}
		received := records[0].Received.Sub(mark.Sent.Near(records[0].Received))
		if away := received - records[0].Delay; away.Abs() > time.Nanosecond {
			t.Fatalf("delay %v of a packet that took %v", records[0].Delay, received)
		}
		exact = append(exact, int64(records[0].Delay))
	}
	return exact
}

func randomDelays(n int) []time.Duration {
	random := rand.New(rand.NewPCG(5, 5))
	delays := []time.Duration{
		0, time.Second, 59 * time.Second, 68 * time.Second, 69 * time.Second, 137 * time.Second,
		time.Hour, 24 * 365 * time.Hour, 60 * 8766 * time.Hour,
		-time.Millisecond, -time.Second, -70 * time.Second, -time.Hour, -60 * 8766 * time.Hour,
	}
	for len(delays) < n {
		delay := time.Duration(math.Exp(random.Float64()*math.Log(120e9) + 1))
		if random.IntN(6) == 0 {
			delay = -delay
		}
		delays = append(delays, delay)
	}
	random.Shuffle(n, func(i, j int) { delays[i], delays[j] = delays[j], delays[i] })
	return delays
}

// TestHistogramInKernel: delays and variations of every size and both signs, in
// more pages than a flow holds, are in the buckets that package histogram has them in,
// and the kernel keeps none of them once they are read.
func TestHistogramInKernel(t *testing.T) {
	d := openTC(t, Settings{Records: true})
	var delays, variations histogram.Histogram
	var last int64
	var sum Counts
	for i := range 4 {
		for j, v := range deliveredFrom(t, d, 800*i, randomDelays(800)) {
			delays.Add(v)
			if i+j > 0 {
				variations.Add(v - last)
			}
			last = v
		}
		if d.pagesOutside(t) == 0 {
			t.Error("no pages outside of the flow")
		}
		rows := d.mustRead(t, ByFlow)
		sum.add(rows[0].Counts)
		if n := d.pagesOutside(t); n > 0 {
			t.Errorf("%d pages are left", n)
		}
	}
	variations.Offsets = nil
	if got := &d.total.delay.Histogram; !reflect.DeepEqual(got, &delays) {
		t.Errorf("delays: %d in %d buckets, want %d in %d", got.Total(), len(got.Bounds), delays.Total(), len(delays.Bounds))
	}
	if got := &d.total.variation.Histogram; !reflect.DeepEqual(got, &variations) {
		t.Errorf("variations: %d in %d buckets, want %d in %d", got.Total(), len(got.Bounds), variations.Total(), len(variations.Bounds))
	}
	if sum.Packets != 3200 || d.total.delay.count != 3200 || d.total.variation.count != 3199 {
		t.Errorf("%d delays and %d variations of %d packets", d.total.delay.count, d.total.variation.count, sum.Packets)
	}
}

// pagesOutside are those that are not in their flows.
func (d *Destination) pagesOutside(t *testing.T) int {
	t.Helper()
	n := 0
	if err := each(d.objects.Pages, func(destinationPageKey, *destinationPage) { n++ }); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPagesAreFreedWithTheirFlow: a flow that is removed takes its pages with it, and
// all that they counted is in a row.
func TestPagesAreFreedWithTheirFlow(t *testing.T) {
	d := openTC(t, Settings{Records: true})
	delivered(t, d, randomDelays(300))
	d.mustRead(t, ByFlow)
	deliveredFrom(t, d, 300, randomDelays(300))
	d.settings.Idle = time.Nanosecond
	row := d.mustRead(t, ByFlow)[0]
	delay, variation := row.Histograms()
	if delay.Total() != 300 || variation.Total() != 300 || delay.Offsets == nil {
		t.Errorf("%d delays and %d variations of the last 300 packets", delay.Total(), variation.Total())
	}
	if left, flows := d.pagesOutside(t), d.takeFlows(t); left > 0 || len(flows) > 0 || len(d.flows) > 0 {
		t.Errorf("%d pages and %d flows are left, %d known", left, len(flows), len(d.flows))
	}
}

// TestHistogramPagesExhausted: values without a page are counted, and the flow continues.
func TestHistogramPagesExhausted(t *testing.T) {
	d := openTC(t, Settings{Records: true, Flows: 1})
	delivered(t, d, randomDelays(400))
	row := d.mustRead(t, ByFlow)[0]
	delay, variation := row.Histograms()
	missing := 400 + 399 - delay.Total() - variation.Total()
	if got := d.mustTally(t).Uncounted; got == 0 || got != missing || row.Delay.Count != 400 {
		t.Errorf("%d values are said to be in no histogram, %d are; %d delays", got, missing, row.Delay.Count)
	}
}

// TestSummaryAgainstSorted has sorting as its oracle.
func TestSummaryAgainstSorted(t *testing.T) {
	d := openTC(t, Settings{Records: true})
	random := rand.New(rand.NewPCG(6, 6))
	rows := []struct {
		name  string
		delay func() time.Duration
		width float64 // of a quantile, relative
	}{
		// Far closer than the bucket's width: its centroid says where they lie, but for
		// packets that the scheduler delayed.
		{"all the same", func() time.Duration { return 20 * time.Millisecond }, 0.002},
		{"from 10 us to 60 s", func() time.Duration {
			return time.Duration(1e4 * math.Exp(random.Float64()*math.Log(6e6)))
		}, 0.032},
		{"two paths", func() time.Duration {
			return time.Duration(1+99*random.IntN(2)) * time.Millisecond
		}, 0.032},
		{"clock behind", func() time.Duration {
			return time.Duration(random.IntN(1e9)) - 2*time.Second
		}, 0.032},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			delays := make([]time.Duration, 400)
			for i := range delays {
				delays[i] = row.delay()
			}
			exact := delivered(t, d, delays)
			rows := d.mustRead(t, ByFlow)
			var sum int64
			for _, v := range exact {
				sum += v
			}
			slices.Sort(exact)
			got := rows[0].Delay
			if got.Count != uint64(len(exact)) || got.Min != exact[0] || got.Max != exact[len(exact)-1] ||
				got.Mean != sum/int64(len(exact)) {
				t.Errorf("got %+v; %d values from %d to %d, mean %d", got, len(exact), exact[0], exact[len(exact)-1], sum/int64(len(exact)))
			}
			for q, value := range map[float64]int64{0.5: got.P50, 0.9: got.P90, 0.99: got.P99} {
				want := exact[int(math.Ceil(q*float64(len(exact))))-1]
				allowed := row.width * math.Abs(float64(want))
				if row.name == "all the same" {
					allowed = max(allowed, min(float64(exact[len(exact)-1]-exact[0]), 0.032*float64(want)))
				}
				if off := math.Abs(float64(value - want)); off > allowed {
					t.Errorf("quantile %g is %d, sorted %d: more than %.0f off", q, value, want, allowed)
				}
			}
			d.forget(t)
		})
	}
}

// forget removes all flows, as if no packet had come.
func (d *Destination) forget(t *testing.T) {
	t.Helper()
	d.settings.Idle = time.Nanosecond
	d.mustRead(t, ByFlow)
	d.settings.Idle = DefaultIdle
}

// mustRead reads an interval of one flow.
func (d *Destination) mustRead(t *testing.T, by Granularity) []Row {
	t.Helper()
	rows, err := d.Read(by)
	if err != nil || len(rows) > 1 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	return rows
}

func TestRowsAddUpToTotals(t *testing.T) {
	d := openTC(t, Settings{Records: true})
	var sum Counts
	var delays uint64
	for range 5 {
		delivered(t, d, randomDelays(100))
		for _, by := range []Granularity{ByHost, ByFlow} { // the second finds nothing new
			rows, err := d.Read(by)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				sum.add(row.Counts)
				delays += row.Delay.Count
			}
		}
	}
	tally := d.mustTally(t)
	if tally.Counts != sum || tally.Delay.Count != delays || delays == 0 {
		t.Errorf("rows add up to %+v and %d delays, the tally says %+v", sum, delays, tally)
	}
	if sum.Packets != sum.Expected-sum.Lost+sum.Duplicated+sum.Late {
		t.Errorf("packets are not expected - lost + duplicated + late: %+v", sum)
	}
}

// TestAccumulatorsAddUp puts the same readings into two accumulators: both give what was
// read, each in its granularity, and their histograms hold every delay.
func TestAccumulatorsAddUp(t *testing.T) {
	d := openTC(t, Settings{Records: true})
	var sum Counts
	var delays uint64
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	accumulators := []*Accumulator{NewAccumulator(ByHost), NewAccumulator(ByFlow)}
	for range 4 {
		delivered(t, d, randomDelays(100))
		read, err := d.Read(ByFlow)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range read {
			sum.add(row.Counts)
			delays += row.Delay.Count
			low, high = min(low, row.Delay.Min), max(high, row.Delay.Max)
		}
		for _, a := range accumulators {
			a.Add(read)
		}
	}
	for _, a := range accumulators {
		var got Counts
		var count, inBuckets uint64
		least, most := int64(math.MaxInt64), int64(math.MinInt64)
		for _, row := range a.Take() {
			got.add(row.Counts)
			count += row.Delay.Count
			least, most = min(least, row.Delay.Min), max(most, row.Delay.Max)
			delay, _ := row.Histograms()
			if err := delay.Validate(); err != nil {
				t.Error(err)
			}
			inBuckets += delay.Total()
		}
		if got != sum || count != delays || least != low || most != high || inBuckets != delays || delays == 0 {
			t.Errorf("by %s: %+v, %d delays from %d to %d, %d in buckets; read %+v, %d from %d to %d",
				a.by, got, count, least, most, inBuckets, sum, delays, low, high)
		}
		if again := a.Take(); len(again) != 0 {
			t.Errorf("by %s: %d rows again", a.by, len(again))
		}
	}
}
