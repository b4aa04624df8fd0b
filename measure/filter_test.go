package measure

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// run passes values to one filter, as one window, and returns its columns.
func run(t *testing.T, filter string, column Type, values ...Value) (Sample, *Schema, SubscriptionCounts) {
	t.Helper()
	f, err := ParseFilter(filter)
	if err != nil {
		t.Fatal(err)
	}
	schema := Schema{Name: "p", Fields: []Field{TimeField, {Name: "v", Type: column, Unit: "ns", Doc: "a value"}}}
	point, err := NewPoint(&schema)
	if err != nil {
		t.Fatal(err)
	}
	var row Sample
	s, err := point.Subscribe(Pipeline{Filters: []Filter{f}, Samples: math.MaxInt}, func(_ *Schema, r Sample) error {
		row = slices.Clone(r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		if err := point.Inject(Sample{TimeValue(time.Unix(0, int64(i))), v}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.schema.Check(row); err != nil {
		t.Fatalf("row of %s: %v", filter, err)
	}
	// State is reused: lists of the row may change from here on.
	return row[1:], s.schema, s.Counts()
}

func ints(values ...int64) (list []Value) {
	for _, v := range values {
		list = append(list, Int64Value(v))
	}
	return list
}

func floats(values ...float64) (list []Value) {
	for _, v := range values {
		list = append(list, Float64Value(v))
	}
	return list
}

func uints(values ...uint64) (list []Value) {
	for _, v := range values {
		list = append(list, Uint64Value(v))
	}
	return list
}

var (
	null, nan = Value{}, Float64Value(math.NaN())
	inf       = math.Inf(1)
)

// Known values, computed by hand.
var knownValues = []struct {
	name, filter string
	column       Type
	values       []Value
	want         []Value
	saturated    uint64
}{
	{"first", "first(v)", Int64, append([]Value{null}, ints(3, 1, 2)...), ints(3), 0},
	{"last", "last(v)", Int64, append(ints(3, 1, 2), null), ints(2), 0},
	{"last of no value", "last(v)", Int64, []Value{null}, []Value{null}, 0},
	{"first string", "first(v)", String, []Value{StringValue("a"), StringValue("b")}, []Value{StringValue("a")}, 0},
	{"count of samples", "count()", Int64, append(ints(3, 1), null), uints(3), 0},
	{"count of values", "count(v)", Int64, append(ints(3, 1), null), uints(2), 0},
	{"count of floats", "count(v)", Float64, append(floats(3), nan), uints(1), 0},
	{"sum", "sum(v)", Int64, ints(3, -5, 1), ints(-1), 0},
	{"sum of int32", "sum(v)", Int32, []Value{Int32Value(math.MaxInt32), Int32Value(math.MaxInt32)}, ints(2 * math.MaxInt32), 0},
	{"sum of bools", "sum(v)", Bool, []Value{BoolValue(true), BoolValue(false), BoolValue(true)}, uints(2), 0},
	{"sum passes the limit and returns", "sum(v)", Int64, ints(math.MaxInt64, math.MaxInt64, -math.MaxInt64), ints(math.MaxInt64), 0},
	{"sum at the limit", "sum(v)", Int64, ints(math.MaxInt64-1, 1), ints(math.MaxInt64), 0},
	{"sum beyond the limit", "sum(v)", Int64, ints(math.MaxInt64, 1), ints(math.MaxInt64), 1},
	{"sum below the limit", "sum(v)", Int64, ints(math.MinInt64, -1), ints(math.MinInt64), 1},
	{"unsigned sum", "sum(v)", Uint64, uints(math.MaxUint64-1, 1), uints(math.MaxUint64), 0},
	{"unsigned sum beyond", "sum(v)", Uint64, uints(math.MaxUint64, 1), uints(math.MaxUint64), 1},
	{"sum of no value", "sum(v)", Int64, []Value{null}, ints(0), 0},
	{"compensated sum", "sum(v)", Float64, floats(1, 1e100, 1, -1e100), floats(2), 0},
	{"infinite sum", "sum(v)", Float64, floats(1, inf, 1), floats(inf), 0},
	{"avg", "avg(v)", Int64, ints(1, 2), floats(1.5), 0},
	{"avg of large values", "avg(v)", Int64, ints(math.MaxInt64, math.MaxInt64), floats(0x1p63), 0},
	{"avg near zero", "avg(v)", Int64, ints(-3, -3), floats(-3), 0},
	{"avg of no value", "avg(v)", Int64, []Value{null}, []Value{null}, 0},
	{"min", "min(v)", Int64, ints(3, -1, 2), ints(-1), 0},
	{"max", "max(v)", Int64, ints(-3, -1, -2), ints(-1), 0},
	{"max of uint64", "max(v)", Uint64, uints(1, math.MaxUint64), uints(math.MaxUint64), 0},
	{"min of int32", "min(v)", Int32, []Value{Int32Value(1), Int32Value(-1)}, []Value{Int32Value(-1)}, 0},
	{"min of floats", "min(v)", Float64, append(floats(2, -1.5), nan), floats(-1.5), 0},
	{"max of times", "max(v)", Time, []Value{TimeValue(time.Unix(2, 0)), TimeValue(time.Unix(1, 0))}, []Value{TimeValue(time.Unix(2, 0))}, 0},
	{"variance", "variance(v)", Int64, ints(2, 4, 4, 4, 5, 5, 7, 9), floats(32. / 7), 0},
	{"stddev", "stddev(v)", Int64, ints(1, 3), floats(math.Sqrt2), 0},
	{"variance of one", "variance(v)", Int64, ints(7), []Value{null}, 0},
	{"variance of nanoseconds since 1970", "variance(v)", Int64, ints(1_700_000_000_000_000_001, 1_700_000_000_000_000_003), floats(2), 0},
	{"variance at both ends", "variance(v)", Int64, ints(math.MinInt64, math.MaxInt64), floats(0x1p127), 0},
	{"delta of the first window", "delta(v)", Int64, ints(5, 100, 3), ints(3), 0},
	{"delta of one", "delta(v)", Int64, ints(5), ints(5), 0},
	{"delta of no value", "delta(v)", Int64, []Value{null}, []Value{null}, 0},
	{"delta too large", "delta(v)", Uint64, uints(0, 1<<63), ints(math.MaxInt64), 1},
	{"delta of the least", "delta(v)", Int64, ints(math.MinInt64), ints(math.MinInt64), 0},
	{"delta of floats", "delta(v)", Float64, floats(1.5, 4), floats(4), 0},
	{"delta of times", "delta(v)", Time, []Value{TimeValue(time.Unix(1, 0)), TimeValue(time.Unix(3, 0))}, ints(3e9), 0},
	{"quantiles of one", "quantiles(v; 0, 0.5, 1)", Int64, ints(1234), floats(1234, 1234, 1234), 0},
	{"quantiles of none", "quantiles(v; 0.5)", Int64, []Value{null}, []Value{null}, 0},
	{"histogram by bounds", "histogram(v; 0, 10, 100)", Int64, ints(-1, 0, 9, 10, 1000, 100),
		[]Value{Int64ListValue([]int64{math.MinInt64, 0, 10, 100}), Uint64ListValue([]uint64{1, 2, 1, 2})}, 0},
	{"histogram of floats", "histogram(v; -1, 0, 1)", Float64, floats(-0.5, 0.5, 1, 1e300, -1e300),
		[]Value{Int64ListValue([]int64{math.MinInt64, -1, 0, 1}), Uint64ListValue([]uint64{1, 1, 1, 2})}, 0},
	{"histogram, log-linear", "histogram(v)", Int64, ints(0, 63, 64, 65, 66, -1, -64, -65, 1000),
		[]Value{Int64ListValue([]int64{-66, -64, -1, 0, 63, 64, 66, 992}), Uint64ListValue([]uint64{1, 1, 1, 1, 1, 2, 1, 1})}, 0},
	{"histogram of none", "histogram(v)", Int64, []Value{null}, []Value{Int64ListValue(nil), Uint64ListValue(nil)}, 0},
}

func TestFilterKnownValues(t *testing.T) {
	for _, c := range knownValues {
		t.Run(c.name, func(t *testing.T) {
			got, _, counts := run(t, c.filter, c.column, c.values...)
			if len(got) != len(c.want) {
				t.Fatalf("%d columns, want %d", len(got), len(c.want))
			}
			for i := range got {
				same := got[i].kind == Float64 && c.want[i].kind == Float64 && near(got[i].Float64(), c.want[i].Float64(), 0)
				if !same && !sameValue(got[i], c.want[i]) {
					t.Errorf("column %d: %+v, want %+v", i, got[i], c.want[i])
				}
			}
			if counts.Saturated != c.saturated {
				t.Errorf("%d saturated, want %d", counts.Saturated, c.saturated)
			}
		})
	}
}

// near allows for the rounding of the last digits.
func near(a, b, relative float64) bool {
	return a == b || math.Abs(a-b) <= max(relative, 1e-14)*math.Abs(b)
}

// Oracle: exact rational arithmetic (math/big).
func TestFilterAgainstExact(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		make func() int64
	}{
		{"delays", func() int64 { return int64(random.ExpFloat64() * 1e6) }},
		{"around zero", func() int64 { return random.Int64N(2001) - 1000 }},
		{"large and close together", func() int64 { return 1_700_000_000_000_000_000 + random.Int64N(1000) }},
		{"all of int64", func() int64 { return int64(random.Uint64()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			const n = 5000
			var values []Value
			sum, squares := new(big.Int), new(big.Int)
			for range n {
				v := c.make()
				values = append(values, Int64Value(v))
				b := big.NewInt(v)
				sum.Add(sum, b)
				squares.Add(squares, new(big.Int).Mul(b, b))
			}
			mean := new(big.Rat).SetFrac(sum, big.NewInt(n))
			rest := new(big.Rat).Mul(mean, new(big.Rat).SetInt(sum))
			variance := new(big.Rat).Sub(new(big.Rat).SetInt(squares), rest)
			variance.Quo(variance, big.NewRat(n-1, 1))
			check := func(filter string, exact *big.Rat, relative float64) {
				t.Helper()
				got, _, _ := run(t, filter, Int64, values...)
				want, _ := exact.Float64()
				if !near(got[0].Float64(), want, relative) {
					t.Errorf("%s: %v, want %v", filter, got[0].Float64(), want)
				}
			}
			check("avg(v)", mean, 1e-15)
			check("variance(v)", variance, 1e-12)
			got, _, _ := run(t, "sum(v)", Int64, values...)
			if sum.IsInt64() && got[0].Int64() != sum.Int64() {
				t.Errorf("sum %d, want %v", got[0].Int64(), sum)
			}
		})
	}
}

// Oracle: the sorted values. DDSketch guarantees 1 % of the value at the rank.
func TestQuantilesAgainstSorted(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name string
		make func() float64
	}{
		{"exponential", func() float64 { return random.ExpFloat64() * 1e6 }},
		{"normal around zero", func() float64 { return random.NormFloat64() * 1e5 }},
		{"heavy tail", func() float64 { return 1e3 / (1 - random.Float64()) }},
		{"two modes and zero", func() float64 { return float64(random.IntN(3)) * 1e5 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var values []Value
			var sorted []float64
			for range 10_001 {
				x := c.make()
				sorted = append(sorted, x)
				values = append(values, Float64Value(x))
			}
			slices.Sort(sorted)
			at := []float64{0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1}
			got, schema, _ := run(t, Filter{Function: Quantiles, Column: "v", Quantiles: at}.String(), Float64, values...)
			for i, q := range at {
				want := sorted[int(math.Floor(q*10_000))]
				if x := got[i].Float64(); math.Abs(x-want) > 0.010001*math.Abs(want) {
					t.Errorf("%s: %v, want %v", schema.Fields[1+i].Name, x, want)
				}
			}
		})
	}
}

// An infinity has no bucket in a sketch, and must not affect other values.
func TestQuantilesOfInfinity(t *testing.T) {
	got, _, _ := run(t, "quantiles(v; 0, 0.25, 0.5, 0.75, 1)", Float64, floats(-inf, 3, 1, 2, inf)...)
	for i, want := range []float64{-inf, 1, 2, 3, inf} {
		if x := got[i].Float64(); !near(x, want, 0.010001) {
			t.Errorf("quantile %d: %v, want %v", i, x, want)
		}
	}
}

func TestParseFilter(t *testing.T) {
	for text, want := range map[string]string{
		"avg(delay_ns)":                       "avg(delay_ns)",
		"  avg ( delay_ns ) ":                 "avg(delay_ns)",
		"count()":                             "count()",
		"quantiles(delay_ns;0.5,0.90)":        "quantiles(delay_ns; 0.5, 0.9)",
		"histogram(delay_ns; -5, 0 ,  1000 )": "histogram(delay_ns; -5, 0, 1000)",
		"histogram(delay_ns)":                 "histogram(delay_ns)",
	} {
		f, err := ParseFilter(text)
		if err != nil || f.String() != want {
			t.Errorf("%q: %v, %v, want %s", text, f, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                   "want function(column)",
		"avg":                                "want function(column)",
		"avg(a":                              "want function(column)",
		"avg(a)b":                            "want function(column)",
		"avg(a, b)":                          "want function(column)",
		"avg(a b)":                           "want function(column)",
		"AVG(a)":                             "want function(column)",
		"avg(\ta)":                           "want function(column)",
		"median(a)":                          `no function "median"`,
		"avg()":                              `avg of column ""`,
		"avg(1a)":                            `avg of column "1a"`,
		"avg(a; 1)":                          "no other function takes any",
		"avg(a;)":                            "not a decimal number",
		"count(; 1)":                         "no other function takes any",
		"quantiles(a)":                       "0 quantiles",
		"quantiles(a; 1.1)":                  "use 0 to 1",
		"quantiles(a; -0.1)":                 "use 0 to 1",
		"quantiles(a; nan)":                  "not a decimal number",
		"quantiles(a; 1e-1)":                 "not a decimal number",
		"quantiles(a; 0x1p-1)":               "not a decimal number",
		"quantiles(a; 0.5,)":                 "not a decimal number",
		"quantiles(a; 0.5; 0.9)":             "want function(column)",
		"histogram(a; 1, 1)":                 "bound 1 after 1",
		"histogram(a; 1.5)":                  "invalid syntax",
		"histogram(a; 99999999999999999999)": "out of range",
		"quantiles(a; " + strings.Repeat("0.5,", 32) + "0.5)": "33 quantiles",
	} {
		if _, err := ParseFilter(text); !errors.Is(err, ErrFilter) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want ErrFilter with %q", text, err, want)
		}
	}
}

func FuzzParseFilter(f *testing.F) {
	f.Add("avg(delay_ns)")
	f.Add("quantiles(delay_ns; 0.5, 0.9)")
	f.Add("histogram(delay_ns; -10, 0, 1000)")
	f.Add("count()")
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := ParseFilter(text)
		if err != nil {
			return
		}
		again, err := ParseFilter(filter.String())
		if err != nil {
			t.Fatal(err)
		}
		if again.Function != filter.Function || again.Column != filter.Column ||
			!slices.Equal(again.Quantiles, filter.Quantiles) || !slices.Equal(again.Bounds, filter.Bounds) {
			t.Fatalf("%+v became %+v", filter, again)
		}
	})
}
