package destination

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// TestLayoutCoversEveryValue: buckets follow each other without a gap, and are
// as narrow as Summary says.
func TestLayoutCoversEveryValue(t *testing.T) {
	rows := []struct {
		name      string
		edges     layout
		total     int
		from, to  float64 // where width bounds the relative width
		width     float64
		unlimited bool // the last bucket is for all the rest
	}{
		{"fine", fine, fineTotal, 1e3, 60e9, 0.06, false},
		{"coarse", coarse, coarseTotal, 1e3, 60e9, 0.125, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			end := 0.0
			for i := range row.total {
				low, high := row.edges.bounds(i)
				if low != end {
					t.Fatalf("bucket %d begins at %g, the one before ended at %g", i, low, end)
				}
				end = high
				if high > row.from && low < row.to && (high-low)/max(low, row.from) > row.width {
					t.Errorf("bucket %d from %g to %g is wider than %g", i, low, high, row.width)
				}
			}
			if !row.unlimited && end != math.Ldexp(1, 64) {
				t.Errorf("the last bucket ends at %g", end)
			}
		})
	}
}

// delivered sends one mark for each delay and returns the exact delays and the
// flow that the program made of them.
func delivered(t *testing.T, d *Destination, delays []time.Duration) []int64 {
	t.Helper()
	original := golden(t)[0].Original
	exact := make([]int64, 0, len(delays))
	records := make([]Record, 64)
	for i, delay := range delays {
		mark := codec.Mark{
			Modules: wire.Delay | wire.Loss, Sequence: uint32(i), Single: true,
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

// tallyBuckets counts values by the bounds of the Go layout.
func tallyBuckets(edges layout, total int, values []int64) []uint32 {
	buckets := make([]uint32, total)
	for _, v := range values {
		at := total - 1
		for i := range total - 1 {
			if _, high := edges.bounds(i); float64(v) < high {
				at = i
				break
			}
		}
		buckets[at]++
	}
	return buckets
}

func fineCounts(f *destinationFlow) []uint32 {
	counts := make([]uint32, fineTotal)
	for i := range counts {
		counts[i] = f.DelayFine[i].Count
	}
	return counts
}

func TestHistogramOfTheProgram(t *testing.T) {
	d := open(t, Settings{Records: true})
	exact := delivered(t, d, randomDelays(3000))
	var positive, negative, up, down []int64
	for i, v := range exact {
		if v < 0 {
			negative = append(negative, -v)
		} else {
			positive = append(positive, v)
		}
		if i == 0 {
			continue
		}
		if change := v - exact[i-1]; change < 0 {
			down = append(down, -change)
		} else {
			up = append(up, change)
		}
	}
	f := d.takeFlow(t)
	rows := []struct {
		name      string
		got, want []uint32
	}{
		{"delay", fineCounts(&f), tallyBuckets(fine, fineTotal, positive)},
		{"negative delay", f.DelayNegative[:], tallyBuckets(coarse, coarseTotal, negative)},
		{"variation", f.VariationPositive[:], tallyBuckets(coarse, coarseTotal, up)},
		{"negative variation", f.VariationNegative[:], tallyBuckets(coarse, coarseTotal, down)},
	}
	for _, row := range rows {
		if !slices.Equal(row.got, row.want) {
			t.Errorf("%s: got  %v\nwant %v", row.name, row.got, row.want)
		}
	}
	if f.Delays != uint64(len(exact)) || f.Variations != uint64(len(exact)-1) {
		t.Errorf("%d delays and %d variations of %d packets", f.Delays, f.Variations, len(exact))
	}
}

// TestSummaryAgainstSorted has sorting as its oracle.
func TestSummaryAgainstSorted(t *testing.T) {
	d := open(t, Settings{Records: true})
	random := rand.New(rand.NewPCG(6, 6))
	rows := []struct {
		name  string
		delay func() time.Duration
		width float64 // of a quantile, relative
	}{
		// Far closer than the bucket's width: its centroid says where they lie.
		{"all the same", func() time.Duration { return 20 * time.Millisecond }, 0.002},
		{"from 10 us to 60 s", func() time.Duration {
			return time.Duration(1e4 * math.Exp(random.Float64()*math.Log(6e6)))
		}, 0.032},
		{"two paths", func() time.Duration {
			return time.Duration(1+99*random.IntN(2)) * time.Millisecond
		}, 0.032},
		{"clock behind", func() time.Duration {
			return time.Duration(random.IntN(1e9)) - 2*time.Second
		}, 0.125},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			delays := make([]time.Duration, 400)
			for i := range delays {
				delays[i] = row.delay()
			}
			exact := delivered(t, d, delays)
			rows, err := d.Read(ByFlow)
			if err != nil || len(rows) != 1 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
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
				if off := math.Abs(float64(value-want)) / math.Abs(float64(want)); off > row.width {
					t.Errorf("quantile %g is %d, sorted %d: %.1f %% off", q, value, want, 100*off)
				}
			}
			d.forget(t)
		})
	}
}

// forget begins anew, as if no packet had come.
func (d *Destination) forget(t *testing.T) {
	t.Helper()
	d.takeFlows(t)
	clear(d.flows)
}

func TestRowsAddUpToTotals(t *testing.T) {
	d := open(t, Settings{Records: true})
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

// TestWindowsAddUp puts the same readings into two windows: both give what was
// read, each in its granularity, and their histograms hold every delay.
func TestWindowsAddUp(t *testing.T) {
	d := open(t, Settings{Records: true})
	var sum Counts
	var delays uint64
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	windows := []*Window{NewWindow(ByHost), NewWindow(ByFlow)}
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
		for _, w := range windows {
			w.Add(read)
		}
	}
	for _, w := range windows {
		var got Counts
		var count, inBuckets uint64
		least, most := int64(math.MaxInt64), int64(math.MinInt64)
		for _, row := range w.Take() {
			got.add(row.Counts)
			count += row.Delay.Count
			least, most = min(least, row.Delay.Min), max(most, row.Delay.Max)
			bounds, counts := row.Buckets()
			if !slices.IsSorted(bounds) {
				t.Errorf("bounds %v are not ascending", bounds)
			}
			for _, n := range counts {
				inBuckets += n
			}
		}
		if got != sum || count != delays || least != low || most != high || inBuckets != delays || delays == 0 {
			t.Errorf("by %s: %+v, %d delays from %d to %d, %d in buckets; read %+v, %d from %d to %d",
				w.by, got, count, least, most, inBuckets, sum, delays, low, high)
		}
		if again := w.Take(); len(again) != 0 {
			t.Errorf("by %s: %d rows again", w.by, len(again))
		}
	}
}
