package measure

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

var delays = Schema{Name: "delays", Fields: []Field{
	TimeField, {"device", String, "", "interface"}, {"delay_ns", Int64, "ns", "one-way delay"}, {"load", Float64, "", ""},
}}

func delayAt(at int64, device string, delay int64) Sample {
	return Sample{{kind: Time, number: uint64(at)}, StringValue(device), Int64Value(delay), {}}
}

// rows is a sink that writes rows as text.
type rows struct {
	mu    sync.Mutex
	lines []string
}

func (r *rows) sink(_ *Schema, row Sample) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var words []string
	for _, v := range row {
		switch {
		case v.IsNull():
			words = append(words, "-")
		case v.Type() == String:
			words = append(words, v.Text())
		case v.Type() == Float64:
			words = append(words, fmt.Sprint(v.Float64()))
		default:
			words = append(words, fmt.Sprint(v.Int64()))
		}
	}
	r.lines = append(r.lines, strings.Join(words, " "))
	return nil
}

func (r *rows) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

func newPoint(t testing.TB, schema *Schema) *Point {
	t.Helper()
	p, err := NewPoint(schema)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func subscribe(t testing.TB, p *Point, pipeline Pipeline, sink RowSink) *Subscription {
	t.Helper()
	s, err := p.Subscribe(pipeline, sink)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Cancel() })
	return s
}

func filters(t testing.TB, texts ...string) (list []Filter) {
	t.Helper()
	for _, text := range texts {
		f, err := ParseFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, f)
	}
	return list
}

func TestWindows(t *testing.T) {
	type in struct {
		at     int64
		device string
		delay  int64
	}
	keyed := []string{"device"}
	for name, c := range map[string]struct {
		pipeline Pipeline
		in       []in
		rows     []string // before Cancel
		last     []string // by Cancel
		counts   SubscriptionCounts
	}{
		"samples": {Pipeline{Samples: 2}, []in{{1, "a", 1}, {2, "b", 3}, {5, "a", 7}},
			[]string{"2 2 4"}, []string{"5 1 7"}, SubscriptionCounts{Samples: 3, Rows: 2}},
		"samples by key": {Pipeline{Samples: 2, Keys: keyed}, []in{{1, "a", 1}, {2, "b", 3}, {5, "a", 7}},
			[]string{"5 a 2 8"}, []string{"2 b 1 3"}, SubscriptionCounts{Samples: 3, Rows: 2}},
		"samples out of order": {Pipeline{Samples: 2}, []in{{9, "a", 1}, {2, "a", 3}},
			[]string{"9 2 4"}, nil, SubscriptionCounts{Samples: 2, Rows: 1}},
		"time": {Pipeline{Every: 10}, []in{{3, "a", 1}, {9, "a", 1}, {10, "a", 5}, {35, "a", 6}},
			[]string{"10 2 2", "20 1 5"}, []string{"35 1 6"}, SubscriptionCounts{Samples: 4, Rows: 3}},
		"time by key": {Pipeline{Every: 10, Keys: keyed}, []in{{3, "a", 1}, {9, "b", 1}, {10, "b", 5}},
			[]string{"10 a 1 1", "10 b 1 1"}, []string{"10 b 1 5"}, SubscriptionCounts{Samples: 3, Rows: 3}},
		"late": {Pipeline{Every: 10}, []in{{11, "a", 1}, {9, "a", 2}, {1, "a", 3}, {21, "a", 4}},
			[]string{"20 3 6"}, []string{"21 1 4"}, SubscriptionCounts{Samples: 4, Rows: 2, Late: 2}},
		"clock set back": {Pipeline{Every: 10}, []in{{101, "a", 1}, {55, "a", 2}, {57, "a", 3}},
			[]string{"110 1 1"}, []string{"57 2 5"}, SubscriptionCounts{Samples: 3, Rows: 2}},
		"before 1970": {Pipeline{Every: 10}, []in{{-11, "a", 1}, {-10, "a", 2}, {-1, "a", 3}, {0, "a", 4}},
			[]string{"-10 1 1", "0 2 5"}, []string{"0 1 4"}, SubscriptionCounts{Samples: 4, Rows: 3}},
		"ends of time": {Pipeline{Every: 10}, []in{{math.MinInt64, "a", 1}, {math.MaxInt64, "a", 2}, {math.MinInt64, "a", 3}},
			[]string{"-9223372036854775800 1 1", "9223372036854775807 1 2"}, []string{"-9223372036854775808 1 3"}, SubscriptionCounts{Samples: 3, Rows: 3}},
		"too many groups": {Pipeline{Every: 10, Keys: keyed, Groups: 1}, []in{{1, "a", 1}, {2, "b", 1}, {3, "a", 1}, {12, "b", 1}},
			[]string{"10 a 2 2"}, []string{"12 b 1 1"}, SubscriptionCounts{Samples: 4, Rows: 2, Overflowed: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			// The wall clock of a bubble does not advance, so there are no ticks.
			synctest.Test(t, func(t *testing.T) {
				p := newPoint(t, &delays)
				var r rows
				c.pipeline.Filters = filters(t, "count()", "sum(delay_ns)")
				s := subscribe(t, p, c.pipeline, r.sink)
				for _, in := range c.in {
					if err := p.Inject(delayAt(in.at, in.device, in.delay)); err != nil {
						t.Fatal(err)
					}
				}
				if got := r.take(); !slices.Equal(got, c.rows) {
					t.Errorf("rows %q, want %q", got, c.rows)
				}
				if err := s.Cancel(); err != nil {
					t.Fatal(err)
				}
				if got := r.take(); !slices.Equal(got, c.last) {
					t.Errorf("last rows %q, want %q", got, c.last)
				}
				if got := s.Counts(); got != c.counts {
					t.Errorf("counts %+v, want %+v", got, c.counts)
				}
				if err := p.Inject(delayAt(1, "a", 1)); err != nil || r.take() != nil || len(*p.subscriptions.Load()) > 0 {
					t.Errorf("a sample was accepted after Cancel, error %v", err)
				}
			})
		})
	}
}

// A point without further samples still yields the row of its last window.
func TestWindowsByWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPoint(t, &delays)
		var r rows
		s := subscribe(t, p, Pipeline{Every: time.Second, Filters: filters(t, "count()")}, r.sink)
		time.Sleep(600 * time.Millisecond)
		if err := p.Inject(delayAt(123, "a", 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := r.take(); got != nil {
			t.Errorf("rows %q before the window is certainly over", got)
		}
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		if got := r.take(); !slices.Equal(got, []string{"1000000000 1"}) {
			t.Errorf("rows %q", got)
		}
		if err := s.Cancel(); err != nil || r.take() != nil {
			t.Errorf("a row too many, error %v", err)
		}
	})
}

func TestKeys(t *testing.T) {
	schema := Schema{Name: "p", Fields: []Field{TimeField, {Name: "a", Type: Binary}, {Name: "b", Type: Binary}, {Name: "n", Type: Int64}}}
	p := newPoint(t, &schema)
	var got []string
	s := subscribe(t, p, Pipeline{Samples: 100, Keys: []string{"a", "b"}, Filters: filters(t, "count()", "first(n)")}, func(_ *Schema, row Sample) error {
		got = append(got, fmt.Sprintf("%q %v %q %d %d", row[1].Bytes(), row[1].IsNull(), row[2].Bytes(), row[3].Uint64(), row[4].Int64()))
		return nil
	})
	room := []byte("ab")
	for i, pair := range [][2]Value{
		{BinaryValue(room), BinaryValue([]byte("c"))}, {BinaryValue([]byte("a")), BinaryValue([]byte("bc"))},
		{Value{}, BinaryValue([]byte("c"))}, {BinaryValue([]byte{}), BinaryValue([]byte("c"))}, {BinaryValue([]byte("ab")), BinaryValue([]byte("c"))},
	} {
		n := Int64Value(int64(i))
		if i == 0 {
			n = Value{} // the type of a column is not that of its first value
		}
		if err := p.Inject(Sample{TimeValue(time.Unix(1, 0)), pair[0], pair[1], n}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			copy(room, "xx") // a sample may be reused
			continue
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	want := []string{`"ab" false "c" 2 4`, `"a" false "bc" 1 1`, `"" true "c" 1 2`, `"" false "c" 1 3`}
	if !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
}

func TestPipelineSchema(t *testing.T) {
	p := Pipeline{Name: "delay_windows", Every: 1, Keys: []string{"device"}, Filters: filters(t,
		"count()", "avg(delay_ns)", "variance(delay_ns)", "quantiles(delay_ns; 0.5, 0.999, 0.07, 1)", "histogram(delay_ns)", "max(load)", "last(device)", "delta(time)")}
	plan, err := p.plan(&delays)
	if err != nil {
		t.Fatal(err)
	}
	s := plan.schema
	var got []string
	for _, f := range s.Fields {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %v %s", f.Name, f.Type, f.Unit)))
	}
	want := []string{"time time", "device string", "count uint64 samples", "delay_ns_avg float64 ns", "delay_ns_variance float64 ns^2",
		"delay_ns_p50 float64 ns", "delay_ns_p99_9 float64 ns", "delay_ns_p7 float64 ns", "delay_ns_p100 float64 ns",
		"delay_ns_bounds int64[] ns", "delay_ns_counts uint64[] samples", "load_max float64", "device_last string", "time_delta int64 ns"}
	if !slices.Equal(got, want) || s.Name != "delay_windows" {
		t.Errorf("%s: %q, want %q", s.Name, got, want)
	}
}

func TestInvalidPipelines(t *testing.T) {
	one := filters(t, "count()")
	for name, c := range map[string]struct {
		pipeline Pipeline
		want     string
	}{
		"no window":          {Pipeline{Filters: one}, "either a number"},
		"two windows":        {Pipeline{Filters: one, Samples: 1, Every: 1}, "either a number"},
		"negative":           {Pipeline{Filters: one, Samples: -1}, "-1 samples"},
		"keys alone":         {Pipeline{Keys: []string{"device"}}, "without filters"},
		"unknown key":        {Pipeline{Filters: one, Samples: 1, Keys: []string{"nic"}}, `no column "nic"`},
		"float as key":       {Pipeline{Filters: one, Samples: 1, Keys: []string{"load"}}, "is no key"},
		"time as key":        {Pipeline{Filters: one, Samples: 1, Keys: []string{"time"}}, "is no key"},
		"key twice":          {Pipeline{Filters: one, Samples: 1, Keys: []string{"device", "device"}}, "two fields"},
		"too many groups":    {Pipeline{Filters: one, Samples: 1, Groups: groupsMax + 1}, "groups"},
		"unknown column":     {Pipeline{Filters: filters(t, "avg(x)"), Samples: 1}, `no column "x"`},
		"avg of strings":     {Pipeline{Filters: filters(t, "avg(device)"), Samples: 1}, "is string"},
		"sum of times":       {Pipeline{Filters: filters(t, "sum(time)"), Samples: 1}, "is time"},
		"max of strings":     {Pipeline{Filters: filters(t, "max(device)"), Samples: 1}, "is string"},
		"quantiles of times": {Pipeline{Filters: filters(t, "quantiles(time; 0.5)"), Samples: 1}, "is time"},
		"filter twice":       {Pipeline{Filters: filters(t, "avg(load)", "avg(load)"), Samples: 1}, "two fields"},
		"unknown function":   {Pipeline{Filters: []Filter{{Function: "mode", Column: "load"}}, Samples: 1}, "no function"},
		"name":               {Pipeline{Name: "No"}, "stream name"},
	} {
		_, err := newPoint(t, &delays).Subscribe(c.pipeline, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestPointNames(t *testing.T) {
	p := newPoint(t, &delays)
	var names []string
	for _, pipeline := range []Pipeline{
		{}, {Samples: 1, Filters: filters(t, "count()")}, {Name: "mine", Samples: 1, Filters: filters(t, "count()")}, {Samples: 1, Filters: filters(t, "count()")},
	} {
		names = append(names, subscribe(t, p, pipeline, func(*Schema, Sample) error { return nil }).schema.Name)
	}
	if want := []string{"delays", "delays_1", "mine", "delays_2"}; !slices.Equal(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
}

func TestPointSinkFails(t *testing.T) {
	p := newPoint(t, &delays)
	full := errors.New("full")
	bad := subscribe(t, p, Pipeline{}, func(*Schema, Sample) error { return full })
	var r rows
	good := subscribe(t, p, Pipeline{}, r.sink)
	if err := p.Inject(delayAt(1, "a", 2)); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
	if err := p.Inject(delayAt(1, "a", 2)[:2]); !errors.Is(err, ErrSample) {
		t.Errorf("error %v, want ErrSample", err)
	}
	if got := r.take(); !slices.Equal(got, []string{"1 a 2 -"}) {
		t.Errorf("rows %q", got)
	}
	if bad.Counts().Failed != 1 || good.Counts().Failed != 0 || good.Counts().Samples != 1 {
		t.Errorf("counts %+v, %+v", bad.Counts(), good.Counts())
	}
}

// As in the agent: samples in, batches out; Cancel loses none.
func TestSubscribeStream(t *testing.T) {
	p := newPoint(t, &delays)
	var sizes []int64
	sink := func(schema *Schema, record arrow.RecordBatch) error {
		sizes = append(sizes, record.NumRows())
		e, err := Encode(Key{Stream: schema.Name}, record)
		if err != nil {
			return err
		}
		_, decoded, err := e.Decode()
		if err == nil {
			decoded.Release()
		}
		return err
	}
	s, err := p.SubscribeStream(Pipeline{Samples: 2, Filters: filters(t, "quantiles(delay_ns; 0.5)", "histogram(delay_ns)", "last(device)", "stddev(load)")}, StreamOptions{Rows: 3}, sink)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(9) {
		if err := p.Inject(delayAt(i, "a", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Cancel(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(sizes, []int64{3, 2}) || s.stream.Counts().Rows != 5 {
		t.Errorf("batches of %v rows, counts %+v", sizes, s.stream.Counts())
	}
	if err := s.Cancel(); err != nil {
		t.Error(err)
	}
}

func TestPointConcurrent(t *testing.T) {
	p := newPoint(t, &delays)
	var r rows
	all := subscribe(t, p, Pipeline{Every: time.Millisecond, Filters: filters(t, "count()")}, r.sink)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for i := range int64(300) {
				if err := p.Inject(delayAt(i, "a", i)); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for range 30 {
				s, err := p.Subscribe(Pipeline{}, func(*Schema, Sample) error { return nil })
				if err != nil {
					t.Error(err)
					return
				}
				_ = s.Cancel()
			}
		})
	}
	group.Wait()
	if err := all.Cancel(); err != nil || all.Counts().Samples != 900 {
		t.Errorf("counts %+v, error %v", all.Counts(), err)
	}
}

func TestInjectAllocations(t *testing.T) {
	sample := delayAt(1, "a", 5)
	p := newPoint(t, &delays)
	if n := testing.AllocsPerRun(1000, func() { _ = p.Inject(sample) }); n != 0 {
		t.Errorf("%v allocations without a subscriber", n)
	}
	subscribe(t, p, Pipeline{Samples: 1_000_000, Keys: []string{"device"}, Filters: filters(t,
		"count()", "sum(delay_ns)", "variance(delay_ns)", "quantiles(delay_ns; 0.5)", "histogram(delay_ns)", "last(device)")}, func(*Schema, Sample) error { return nil })
	if n := testing.AllocsPerRun(1000, func() { _ = p.Inject(sample) }); n != 0 {
		t.Errorf("%v allocations for each sample of a window", n)
	}
}

func BenchmarkInjectUnsubscribed(b *testing.B) {
	p, sample := newPoint(b, &delays), delayAt(1, "a", 5)
	for b.Loop() {
		_ = p.Inject(sample)
	}
}

func BenchmarkInjectFiltered(b *testing.B) {
	p, sample := newPoint(b, &delays), delayAt(1, "a", 5)
	subscribe(b, p, Pipeline{Samples: 10_000, Keys: []string{"device"}, Filters: filters(b,
		"avg(delay_ns)", "max(delay_ns)", "quantiles(delay_ns; 0.5, 0.99)")}, func(*Schema, Sample) error { return nil })
	b.ReportAllocs()
	for b.Loop() {
		_ = p.Inject(sample)
	}
}
