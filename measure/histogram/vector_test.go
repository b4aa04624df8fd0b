package histogram

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden vectors")

// layoutVector is one of testdata/layout.json. Numbers of 64 bits are text, since
// JavaScript has no integers of that size in JSON.
type layoutVector struct {
	Value int64 `json:"value,string"`
	Index int   `json:"index"`
	Bound int64 `json:"bound,string"`
	Width int64 `json:"width,string"`
}

type lists struct {
	Bounds  []int64  `json:"bounds"`
	Counts  []uint64 `json:"counts"`
	Offsets []uint64 `json:"offsets"` // null: unknown
}

func (l lists) histogram() *Histogram { return &Histogram{l.Bounds, l.Counts, l.Offsets} }

// quantileVector is one of testdata/quantiles.json.
type quantileVector struct {
	Name string `json:"name"`
	lists
	Min       *float64        `json:"min"` // null: unknown
	Max       *float64        `json:"max"`
	Quantiles []quantileValue `json:"quantiles"`
}

type quantileValue struct {
	Q     float64  `json:"q"`
	Value *float64 `json:"value"` // null: no values
}

// mergeVector is one of testdata/merges.json.
type mergeVector struct {
	Name  string  `json:"name"`
	Parts []lists `json:"parts"`
	Whole lists   `json:"whole"`
}

func layoutOf(value int64) layoutVector {
	i := Index(value)
	return layoutVector{value, i, Bound(i), Width(i)}
}

func (v *quantileVector) compute() {
	least, most := math.Inf(-1), math.Inf(1)
	if v.Min != nil {
		least, most = *v.Min, *v.Max
	}
	for i := range v.Quantiles {
		v.Quantiles[i].Value = nil
		if x := v.histogram().Quantile(v.Quantiles[i].Q, least, most); !math.IsNaN(x) {
			v.Quantiles[i].Value = &x
		}
	}
}

func (v *mergeVector) compute() {
	var whole Histogram
	for _, part := range v.Parts {
		whole.Merge(part.histogram())
	}
	v.Whole = lists(whole)
}

// vectors reads a file of vectors; with -update it writes it first.
func vectors[V any](t *testing.T, file string, made func() []V) []V {
	t.Helper()
	path := "testdata/" + file
	if *update {
		lines := []string{}
		for _, v := range made() {
			line, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, string(line))
		}
		if err := os.WriteFile(path, []byte("[\n"+strings.Join(lines, ",\n")+"\n]\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var read []V
	if err := json.Unmarshal(text, &read); err != nil || len(read) == 0 {
		t.Fatalf("read %s: %d vectors, %v", path, len(read), err)
	}
	return read
}

func TestLayoutVectors(t *testing.T) {
	for _, want := range vectors(t, "layout.json", makeLayout) {
		if got := layoutOf(want.Value); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestQuantileVectors(t *testing.T) {
	for _, want := range vectors(t, "quantiles.json", makeQuantiles) {
		got := want
		got.Quantiles = slices.Clone(want.Quantiles)
		if got.compute(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %s, want %s", want.Name, text(got.Quantiles), text(want.Quantiles))
		}
	}
}

func TestMergeVectors(t *testing.T) {
	for _, want := range vectors(t, "merges.json", makeMerges) {
		got := want
		if got.compute(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %s, want %s", want.Name, text(got.Whole), text(want.Whole))
		}
	}
}

func text(v any) string {
	b, err := json.Marshal(v)
	return fmt.Sprint(string(b), err)
}

func makeLayout() (all []layoutVector) {
	values := []int64{math.MinInt64, math.MinInt64 + 1, math.MaxInt64 - 1, math.MaxInt64}
	for v := int64(-70); v <= 70; v++ {
		values = append(values, v)
	}
	for power := range 63 {
		for _, near := range []int64{-1, 0, 1} {
			v := int64(1)<<power + near
			values = append(values, v, -v)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		v := random.Int64() >> random.IntN(63)
		values = append(values, v, -v)
	}
	slices.Sort(values)
	for _, v := range slices.Compact(values) {
		all = append(all, layoutOf(v))
	}
	return all
}

// samples are values of shapes that delays have.
var samples = []struct {
	name  string
	value func(*rand.Rand) int64
}{
	{"sub-microsecond", func(r *rand.Rand) int64 { return 20 + int64(200*r.ExpFloat64()) }},
	{"milliseconds", func(r *rand.Rand) int64 { return int64(5e6 * math.Exp(r.NormFloat64()/3)) }},
	{"1 ns to 60 s", func(r *rand.Rand) int64 { return int64(math.Exp(r.Float64() * math.Log(60e9))) }},
	{"all the same", func(*rand.Rand) int64 { return 20_123_456 }},
	{"two paths", func(r *rand.Rand) int64 { return 1_000_000 + r.Int64N(2)*20_000_000 + r.Int64N(1000) }},
	{"both signs", func(r *rand.Rand) int64 { return int64(30_000 * r.NormFloat64()) }},
	{"clocks disagree", func(r *rand.Rand) int64 { return -2_000_000 + int64(500_000*r.NormFloat64()) }},
	{"minutes", func(r *rand.Rand) int64 { return int64(1e11 * r.Float64()) }},
}

func drawn(value func(*rand.Rand) int64, n int) (h Histogram, sorted []int64) {
	random := rand.New(rand.NewPCG(2, uint64(n)))
	for range n {
		v := value(random)
		h.Add(v)
		sorted = append(sorted, v)
	}
	slices.Sort(sorted)
	return h, sorted
}

func makeQuantiles() (all []quantileVector) {
	enter := func(name string, h Histogram, min, max *float64) {
		v := quantileVector{Name: name, lists: lists(h), Min: min, Max: max}
		for _, q := range []float64{0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1} {
			v.Quantiles = append(v.Quantiles, quantileValue{Q: q})
		}
		v.compute()
		all = append(all, v)
	}
	enter("empty", Histogram{Bounds: []int64{}, Counts: []uint64{}}, nil, nil)
	for _, sample := range samples {
		for _, n := range []int{1, 2, 7, 400} {
			h, sorted := drawn(sample.value, n)
			min, max := float64(sorted[0]), float64(sorted[n-1])
			name := fmt.Sprintf("%s, %d values", sample.name, n)
			enter(name, h, &min, &max)
			enter(name+", no extremes", h, nil, nil)
			h.Offsets = nil
			enter(name+", no offsets", h, &min, &max)
		}
	}
	var many Histogram
	many.AddSum(1<<20, 1<<40, 1<<50)
	many.AddSum(1<<21, 1<<41, 1<<49)
	enter("many values", many, nil, nil)
	return all
}

func makeMerges() (all []mergeVector) {
	enter := func(name string, parts ...Histogram) {
		v := mergeVector{Name: name}
		for _, part := range parts {
			v.Parts = append(v.Parts, lists(part))
		}
		v.compute()
		all = append(all, v)
	}
	none := Histogram{Bounds: []int64{}, Counts: []uint64{}}
	bare := func(h Histogram) Histogram { return Histogram{Bounds: h.Bounds, Counts: h.Counts} }
	for _, sample := range samples {
		few, _ := drawn(sample.value, 3)
		some, _ := drawn(sample.value, 40)
		more, _ := drawn(sample.value, 41)
		enter(sample.name, few, some, more)
		enter(sample.name+", one without offsets", some, bare(more), few)
	}
	small, _ := drawn(samples[0].value, 5)
	negative, _ := drawn(samples[6].value, 5)
	enter("empty first", none, small)
	enter("empty last", small, none)
	enter("apart", small, negative)
	enter("bounds of another layout", Histogram{Bounds: []int64{-100, 65, 1000}, Counts: []uint64{1, 2, 3}, Offsets: []uint64{1, 2, 3}}, small)
	return all
}
