package model_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"pillion.dev/send/model"
)

func parseModel(t testing.TB, text string) *model.Model {
	t.Helper()
	m, err := model.ParseModel(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// flow returns all packets of a flow.
func flow(m *model.Model, number uint64) []model.Packet {
	var packets []model.Packet
	f := m.Flow(number)
	for p, more := f.Next(); more; p, more = f.Next() {
		packets = append(packets, p)
	}
	return packets
}

func TestFlow(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		name, text string
		want       []model.Packet
	}{
		{"ends by count", "interval=constant(1ms) size=constant(100) count=2", []model.Packet{{Due: ms, Interval: ms, Size: 100}, {Due: 2 * ms, Interval: ms, Size: 100}}},
		{"ends by duration", "interval=constant(1ms) size=constant(100) duration=1ms", []model.Packet{{Due: ms, Interval: ms, Size: 100}}},
		{"ends by what comes first", "interval=constant(1ms) size=constant(100) count=5 duration=1500us", []model.Packet{{Due: ms, Interval: ms, Size: 100}}},
		{"ends before its first packet", "interval=constant(2ms) size=constant(100) duration=1ms", nil},
		{"ends where time does", "interval=constant(200000h) size=constant(1) count=1000", slices.Collect(func(yield func(model.Packet) bool) {
			for n := time.Duration(1); n <= 12; n++ {
				yield(model.Packet{Due: n * 200_000 * time.Hour, Interval: 200_000 * time.Hour, Size: 1})
			}
		})},
		{"plays bursts", "interval=onoff(on=constant(1500us),off=constant(1s),gap=constant(1ms)) size=file(testdata/sizes.txt,order=sequential,min=41) count=4", []model.Packet{
			{Due: ms, Interval: ms, Size: 576, On: 1500 * time.Microsecond},
			{Due: 2 * ms, Interval: ms, Size: 1500, On: 1500 * time.Microsecond},
			{Due: 1002 * ms, Interval: 1000 * ms, Size: 1500, Paused: true, On: 1500 * time.Microsecond, Burst: 1},
			{Due: 1003 * ms, Interval: ms, Size: 1500, On: 1500 * time.Microsecond, Burst: 1},
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := parseModel(t, row.text)
			if got := flow(m, 0); !slices.Equal(got, row.want) {
				t.Errorf("got %+v\nwant %+v", got, row.want)
			}
			f := m.Flow(0)
			for range row.want {
				f.Next()
			}
			for range 3 {
				if p, more := f.Next(); more {
					t.Errorf("%+v after the end", p)
				}
			}
		})
	}
}

func TestSizesAreLimited(t *testing.T) {
	m := parseModel(t, "interval=constant(1ms) size=pareto(0.5,1kB) seed=1 count=10000")
	largest := 0
	for _, p := range flow(m, 0) {
		largest = max(largest, p.Size)
	}
	if largest <= 1500 || largest > 65535 {
		t.Errorf("largest packet has %d bytes", largest)
	}
	if err := m.LimitSize(1200, 1500); err != nil {
		t.Fatal(err)
	}
	packets := flow(m, 0)
	for _, p := range packets {
		if p.Size < 1200 || p.Size > 1500 {
			t.Fatalf("a packet has %d bytes", p.Size)
		}
	}
	if f := m.Fit(packets, model.Options{})[1]; f.Verdict != model.Consistent {
		t.Errorf("%+v", f)
	}
	if want := "pareto(0.5,1000B,min=1200B,max=1500B)"; m.Size.String() != want {
		t.Errorf("got %s, want %s", m.Size, want)
	}
	if err := m.LimitSize(64, 999); err == nil {
		t.Error("sizes below the scale of a Pareto distribution: no error")
	}
	if err := m.LimitSize(1600, 1700); err == nil {
		t.Error("a lower limit above the upper one: no error")
	}
}

// The first values of each distribution in whole ns or bytes. They must never change: a
// seed in a published result has to draw the same traffic with any later version.
func TestDrawsOfASeedNeverChange(t *testing.T) {
	for _, row := range []struct {
		text string
		want []int64
	}{
		{"uniform(1ms,2ms)", []int64{1224625, 1236783, 1291092, 1153672, 1423129}},
		{"exponential(1ms)", []int64{3785, 1539788, 1417682, 3000144, 992872}},
		{"normal(1ms,1ms)", []int64{1013891, 302474, 317397, 966625, 673964}},
		{"poisson(5ms)", []int64{3000000, 4000000, 7000000, 3000000, 5000000}},
		{"poisson(500)", []int64{481, 486, 495, 500, 497}},
		{"pareto(1.5,100B)", []int64{100, 279, 257, 739, 194}},
		{"cauchy(1ms,200us)", []int64{765270, 782662, 845960, 618424, 950739}},
		{"gamma(0.1,1s)", []int64{128374673, 0, 8353968, 35516, 192208983}},
		{"gamma(2,1ms)", []int64{1684664, 918609, 1623949, 1919971, 1693614}},
		{"weibull(0.7,1ms)", []int64{347, 1852683, 1646422, 4804316, 989833}},
		{"file(testdata/sizes.txt)", []int64{300, 40, 1500, 1500, 300}},
		{"onoff(on=exponential(1ms),off=exponential(10ms),gap=exponential(1ms))", []int64{1539788, 30001439, 992872, 178638, 2878419}},
	} {
		d, err := model.Parse(row.text)
		if err != nil {
			t.Fatal(err)
		}
		stream := d.Stream(model.Source(14, 2, 1))
		var got []int64
		for range 5 {
			got = append(got, int64(math.Round(stream.Draw())))
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: got %#v, want %#v", row.text, got, row.want)
		}
	}
}

func TestFlowsAreRepeatableAndIndependent(t *testing.T) {
	const text = "interval=exponential(1ms) size=uniform(64,1500) count=20000 seed="
	one := parseModel(t, text+"1")
	if !slices.Equal(flow(one, 0), flow(parseModel(t, text+"1"), 0)) {
		t.Error("the same flow of the same seed differs")
	}
	column := func(packets []model.Packet) (intervals, sizes []float64) {
		for _, p := range packets {
			intervals, sizes = append(intervals, float64(p.Interval)), append(sizes, float64(p.Size))
		}
		return intervals, sizes
	}
	intervals, sizes := column(flow(one, 0))
	columns := map[string][]float64{"interval": intervals, "size": sizes}
	for name, packets := range map[string][]model.Packet{
		"flow 1": flow(one, 1), "flow 2": flow(one, 2), "flow 2^63": flow(one, 1<<63),
		"seed 2": flow(parseModel(t, text+"2"), 0), "seed 0, flow 1": flow(parseModel(t, text+"0"), 1),
	} {
		columns["interval of "+name], columns["size of "+name] = column(packets)
	}
	for a, x := range columns {
		for b, y := range columns {
			// The standard error of no correlation is 1/sqrt(n) = 0.007.
			if r := stat.Correlation(x, y, nil); a != b && math.Abs(r) > 0.035 {
				t.Errorf("%s and %s: correlation %.3f", a, b, r)
			}
		}
	}
}

func TestModelWithoutSeedGetsOne(t *testing.T) {
	const text = "interval=constant(1ms) size=constant(100)"
	a, b := parseModel(t, text), parseModel(t, text)
	if a.Seed == b.Seed {
		t.Errorf("both have seed %d", a.Seed)
	}
	if !strings.HasPrefix(a.String(), "interval=constant(1ms) size=constant(100B,max=65535B) seed=") {
		t.Errorf("got %s", a)
	}
}
