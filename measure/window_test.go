package measure

import (
	"math"
	"slices"
	"testing"
)

// The vectors of the C library's filter_test.c: delta is the last value minus the last one of the
// previous window, as in OML's delta_filter.c.
func TestDeltaOverWindows(t *testing.T) {
	for _, c := range []struct {
		name      string
		column    Type
		samples   int
		values    []Value
		want      []Value
		saturated uint64
	}{
		{"quarters", Float64, 2, floats(0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75), floats(0.25, 0.5, 0.5, 0.5), 0},
		{"by sample", Float64, 1, floats(3, 7, 7, 6.5), floats(3, 4, 0, -0.5), 0},
		{"not complete", Int64, 3, ints(10, 3, 14, 2), ints(14, -12), 0},
		{"counter", Uint64, 2, uints(1<<62, 1<<62+5, 1<<62+6, 1<<62+7), ints(1<<62+5, 2), 0},
		{"counter that began again", Uint64, 1, uints(9, 2), ints(9, -7), 0},
		{"window without a value", Int64, 1, []Value{Int64Value(4), null, Int64Value(9)}, []Value{Int64Value(4), null, Int64Value(5)}, 0},
		{"down to the least", Uint64, 1, uints(1<<63, 0), ints(math.MaxInt64, math.MinInt64), 1},
		{"beyond the least", Int64, 1, ints(1, math.MinInt64), ints(1, math.MinInt64), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPoint(t, &Schema{Name: "p", Fields: []Field{TimeField, {Name: "v", Type: c.column}}})
			var got []Value
			s := subscribe(t, p, Pipeline{Filters: filters(t, "delta(v)"), Samples: c.samples}, func(_ *Schema, row Sample) error {
				got = append(got, row[1])
				return nil
			})
			for i, v := range c.values {
				if err := p.Inject(Sample{{kind: Time, number: uint64(i)}, v}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(got, c.want, sameValue) || s.Counts().Saturated != c.saturated {
				t.Errorf("%+v, want %+v; %d saturated", got, c.want, s.Counts().Saturated)
			}
		})
	}
}

// TestContinuedByKey: a function that continues over windows does so for each key, however
// the windows of the keys are opened and closed.
func TestContinuedByKey(t *testing.T) {
	p := newPoint(t, &delays)
	out := &rows{}
	s := subscribe(t, p, Pipeline{Filters: filters(t, "delta(delay_ns)", "jitter(delay_ns)"), Keys: []string{"device"}, Every: 10, Groups: 2}, out.sink)
	inject := func(at int64, device string, delay int64) {
		t.Helper()
		if err := p.Inject(delayAt(at, device, delay)); err != nil {
			t.Fatal(err)
		}
	}
	inject(1, "a", 100)
	inject(1, "b", 7000)
	inject(11, "a", 116)
	inject(11, "b", 7000)
	inject(21, "b", 7032)
	inject(21, "a", 116)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	want := []string{"10 a 100 0", "10 b 7000 0", "20 a 16 1", "20 b 0 0", "21 b 32 2", "21 a 0 0.9375"}
	if got := out.take(); !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	// Two keys are remembered: a third one takes the place of b, whose window ended first.
	inject(31, "c", 5)
	inject(41, "a", 120)
	inject(51, "b", 7040)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	want = []string{"40 c 5 0", "50 a 4 1.12890625", "51 b 7040 0"}
	if got := out.take(); !slices.Equal(got, want) || s.Counts().Overflowed != 0 {
		t.Errorf("rows %q, want %q; %+v", got, want, s.Counts())
	}
}
