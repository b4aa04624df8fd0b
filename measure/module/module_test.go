package module

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pillion.dev/measure"
	"pillion.dev/measure/point"
)

func hops() Descriptor {
	return Descriptor{Name: "test-hops", Doc: "routers passed", ID: LastID, Bytes: 1, Columns: Distribution("hops", "", "routers that a packet passed", 4)}
}

func TestRegister(t *testing.T) {
	d := Register(hops())
	t.Cleanup(func() {
		d.Unregister()
		if Find("test-hops") != nil {
			t.Error("still registered")
		}
	})
	if d.Stream() != "test_hops" || Find("test-hops") != d {
		t.Errorf("%+v", d)
	}
	var names []string
	for _, f := range d.Schema.Fields {
		names = append(names, f.Name)
	}
	want := []string{"time", "session", "source", "device", "src", "dst", "proto", "sport", "dport", "interval_ns", "hops_count", "hops_min", "hops_mean", "hops_max"}
	if !slices.Equal(names, want) {
		t.Errorf("columns %v, want %v", names, want)
	}
	if measure.FindStandard("test_hops") != d.Schema {
		t.Error("the archive does not know the stream")
	}
	if !slices.IsSorted(Names()) || !slices.Contains(Names(), "delay") || !slices.Contains(Names(), "loss") {
		t.Errorf("names %v", Names())
	}
}

func TestRegisterRefuses(t *testing.T) {
	t.Cleanup(Register(hops()).Unregister)
	for _, row := range []struct {
		name, want string
		change     func(*Descriptor)
	}{
		{"name", "lowercase", func(d *Descriptor) { d.Name = "Hops" }},
		{"name taken", "has the name", func(d *Descriptor) { d.ID-- }},
		{"id taken", "has the name or the id", func(d *Descriptor) { d.Name = "other" }},
		{"id of our own options", "use 0x40 to 0x7f", func(d *Descriptor) { d.ID = 2 }},
		{"no data", "use 1 to 8", func(d *Descriptor) { d.Bytes = 0 }},
		{"too much data", "use 1 to 8", func(d *Descriptor) { d.Bytes = 9 }},
		{"no columns", "no columns", func(d *Descriptor) { d.Columns = nil }},
		{"schema", "follow from the option", func(d *Descriptor) { d.Schema = &measure.Flows }},
		{"word", "has the words 0 to 15", func(d *Descriptor) { d.Columns = Distribution("x", "", "x", 13) }},
		{"two ways", "in another way", func(d *Descriptor) { d.Columns[1].Word = 4 }},
		{"count", "is no sum", func(d *Descriptor) { d.Columns[1].By = 6 }},
		{"type", "use the type", func(d *Descriptor) { d.Columns[0].Type = measure.String }},
		{"aggregate", "does not exist", func(d *Descriptor) { d.Columns[0].As = 0 }},
		{"column name", "field name", func(d *Descriptor) { d.Columns[0].Name = "Count" }},
		{"view of another stream", "is not", func(d *Descriptor) { d.Views = []point.View{{Stream: "flows"}} }},
		{"view of no column", "has no column", func(d *Descriptor) { d.Views = []point.View{{Stream: "test_hops", Columns: []string{"x"}}} }},
		{"built in without a schema", "no schema", func(d *Descriptor) { d.ID = 0 }},
		{"built in with data", "but no id", func(d *Descriptor) { d.ID, d.Schema = 0, &measure.Flows }},
		{"built in without the column", "has no column", func(d *Descriptor) { d.ID, d.Bytes, d.Schema = 0, 0, &measure.Flows }},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := hops()
			d.Columns = slices.Clone(d.Columns)
			row.change(&d)
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, row.want) {
					t.Errorf("%q, want %q", text, row.want)
				}
			}()
			Register(d)
		})
	}
}

func sample(count uint64, least int64, mean float64, most, last int64) measure.Sample {
	return measure.Sample{
		measure.Uint64Value(count), measure.Int64Value(least), measure.Float64Value(mean), measure.Int64Value(most), measure.Int64Value(last),
	}
}

func TestAdd(t *testing.T) {
	minus := func(n int64) uint64 { return uint64(n) }
	d := Descriptor{Columns: append(Distribution("a", "", "a", 0), Column{Field: measure.Field{Name: "l", Type: measure.Int64}, Word: 5, As: Last})}
	first := State{Words: [Words]uint64{2, 10, 4, 6, 99, 7}, LastNs: 20}
	second := State{Words: [Words]uint64{1, minus(-3), minus(-3), minus(-3), 99, 8}, LastNs: 10}
	for _, row := range []struct {
		name string
		a, b State
		want measure.Sample
	}{
		{"both", first, second, sample(3, -3, 7./3, 6, 7)},
		{"the other way round", second, first, sample(3, -3, 7./3, 6, 7)},
		{"into nothing", State{}, first, sample(2, 4, 5, 6, 7)},
		{"nothing into it", first, State{}, sample(2, 4, 5, 6, 7)},
		{"nothing", State{}, State{}, measure.Sample{measure.Uint64Value(0), {}, {}, {}, measure.Int64Value(0)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			d.Add(&row.a, &row.b)
			if got := d.Values(&row.a); !reflect.DeepEqual(got, row.want) {
				t.Errorf("%v, want %v", got, row.want)
			}
			if row.a.LastNs != max(row.a.LastNs, row.b.LastNs) {
				t.Errorf("last packet at %d", row.a.LastNs)
			}
		})
	}
}

// TestAddIsOrdered checks that the order in which states are put together does not matter.
func TestAddIsOrdered(t *testing.T) {
	d := hops()
	states := make([]State, 50)
	for i := range states {
		value := int64(math.MaxInt32) - int64(i*7919%1000)*1e9
		states[i].Words[4], states[i].Words[5], states[i].Words[6], states[i].Words[7] = uint64(i%3), uint64(value), uint64(value), uint64(value)
	}
	var up, down State
	for i := range states {
		d.Add(&up, &states[i])
		d.Add(&down, &states[len(states)-1-i])
	}
	if a, b := d.Values(&up), d.Values(&down); !reflect.DeepEqual(a, b) {
		t.Errorf("%v, and in the other order %v", a, b)
	}
}
