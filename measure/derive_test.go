package measure

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDerive: sums over a second, averaged over a minute. A row of the first carries the
// end of its second, and counts in the minute that the second belongs to.
func TestDerive(t *testing.T) {
	p := newPoint(t, &delays)
	sums, first, err := p.Derive(Pipeline{Name: "sums", Filters: filters(t, "sum(delay_ns)", "count()"), Every: time.Second, Keys: []string{"device"}})
	if err != nil {
		t.Fatal(err)
	}
	seconds, minutes := &rows{}, &rows{}
	raw := subscribe(t, sums, Pipeline{}, seconds.sink)
	last := subscribe(t, sums, Pipeline{Name: "minutes", Filters: filters(t, "avg(delay_ns_sum)", "sum(count)", "count()"), Every: time.Minute, Keys: []string{"device"}}, minutes.sink)
	// In second s of two minutes, one packet of 1 and one of s.
	for s := range int64(120) {
		for _, delay := range []int64{1, s} {
			if err := p.Inject(delayAt(s*1e9+5, "a", delay)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range []*Subscription{first, raw, last} {
		if err := s.Cancel(); err != nil {
			t.Fatal(err)
		}
	}
	if got := seconds.take(); len(got) != 120 || got[3] != "4000000000 a 4 2" {
		t.Errorf("%d rows of seconds, fourth %q", len(got), got[3])
	}
	// The mean of 1+s over s = 0..59 is 30.5, over 60..119 it is 90.5.
	if got := minutes.take(); !slices.Equal(got[:1], []string{"60000000000 a 30.5 120 60"}) || len(got) != 2 || !strings.HasSuffix(got[1], " a 90.5 120 60") {
		t.Errorf("rows of minutes %q", got)
	}
	if c := last.Counts(); c.Samples != 120 || c.Late != 0 {
		t.Errorf("%+v", c)
	}
}

// ranger is the difference between the largest and the smallest value.
type ranger struct{ low, high, scale float64 }

func (s *ranger) Add(v Value) {
	x, _ := v.Number()
	s.low, s.high = min(s.low, x), max(s.high, x)
}

func (s *ranger) Emit(row Sample) Sample {
	return append(row, Float64Value((s.high-s.low)*s.scale), Uint64Value(7))
}

func (s *ranger) Reset() { s.low, s.high = math.Inf(1), math.Inf(-1) }

func init() {
	err := Register("span", Definition{
		Doc: "range of the values",
		Outputs: func(column Field, numbers []float64) ([]Field, error) {
			if column.Type != Int64 {
				return nil, errors.New("only of int64")
			}
			return []Field{{Type: Float64, Unit: column.Unit}, {Name: "seven", Type: Uint64}}, nil
		},
		New: func(_ Field, numbers []float64) Accumulator {
			s := &ranger{scale: 1}
			if len(numbers) > 0 {
				s.scale = numbers[0]
			}
			s.Reset()
			return s
		},
	})
	if err != nil {
		panic(err)
	}
	if err := Register("broken", Definition{
		Outputs: func(Field, []float64) ([]Field, error) {
			return []Field{{Type: Int64}, {Name: "two", Type: String}}, nil
		},
		New: func(Field, []float64) Accumulator { return &broken{} },
	}); err != nil {
		panic(err)
	}
}

type broken struct{ rows int }

func (b *broken) Add(Value) {}
func (b *broken) Emit(row Sample) Sample {
	b.rows++
	switch b.rows % 3 {
	case 0:
		return append(row, Float64Value(1), StringValue("x"))
	case 1:
		return append(row, Int64Value(1))
	}
	return append(row, Int64Value(1), StringValue("\xff"))
}
func (b *broken) Reset() {}

func TestRegisteredFunctions(t *testing.T) {
	got, schema, _ := run(t, "span(v; 2)", Int64, ints(5, 1, 4)...)
	if got[0].Float64() != 8 || got[1].Uint64() != 7 || schema.Fields[1].Name != "v_span" || schema.Fields[2].Name != "v_seven" || schema.Fields[1].Unit != "ns" {
		t.Errorf("got %v of %v", got, schema.Fields)
	}
	if got, _, _ := run(t, "ewma(v; 0.5)", Float64, floats(0, 4, 8)...); got[0].Float64() != 5 {
		t.Errorf("ewma %v", got)
	}
	// 16, then 16 + (32-16)/16 = 17 sixteenths: |D| is 16, 32, 0.
	if got, _, _ := run(t, "jitter(v)", Int64, ints(100, 116, 84, 84)...); math.Abs(got[0].Float64()-(1+31.0/16)*15/16) > 1e-12 {
		t.Errorf("jitter %v", got[0].Float64())
	}
	if got, _, _ := run(t, "ewma(v)", Int64, null); !got[0].IsNull() {
		t.Errorf("ewma of nothing: %v", got)
	}
	f, err := ParseFilter("span(delay_ns; 2, 0.5)")
	if err != nil || f.String() != "span(delay_ns; 2, 0.5)" {
		t.Errorf("%v, %v", f, err)
	}
	for name, want := range map[string]string{"span(load)": "only of int64", "ewma(delay_ns; 2)": "one weight", "sum(delay_ns; 1)": "quantiles"} {
		_, err := newPoint(t, &delays).Subscribe(Pipeline{Filters: parsed(name), Samples: 1}, (&rows{}).sink)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func parsed(text string) []Filter {
	f, err := ParseFilter(text)
	if err != nil {
		f = Filter{Function: Sum, Column: "delay_ns", Quantiles: []float64{1}}
	}
	return []Filter{f}
}

// TestBrokenFunction: values that do not have the promised types are null.
func TestBrokenFunction(t *testing.T) {
	p, out := newPoint(t, &delays), &rows{}
	s := subscribe(t, p, Pipeline{Filters: filters(t, "broken(delay_ns)", "last(delay_ns)"), Samples: 1}, out.sink)
	for n := range int64(3) {
		if err := p.Inject(delayAt(n, "a", n)); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.take(); !slices.Equal(got, []string{"0 - - 0", "1 - - 1", "2 - - 2"}) || s.Counts().Saturated != 3 {
		t.Errorf("%q, %+v", got, s.Counts())
	}
}

func TestInvalidFunctions(t *testing.T) {
	whole := Definition{Outputs: func(Field, []float64) ([]Field, error) { return nil, nil }, New: func(Field, []float64) Accumulator { return &ranger{} }}
	for name, d := range map[Function]Definition{"": whole, "Upper": whole, "two_words": whole, "sum": whole, "span": whole, "empty": {}} {
		if err := Register(name, d); !errors.Is(err, ErrFunction) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if all := fmt.Sprint(Functions()); !strings.Contains(all, "histogram broken ewma jitter span") {
		t.Errorf("functions %s", all)
	}
}
