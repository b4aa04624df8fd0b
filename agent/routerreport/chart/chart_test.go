package chart

import (
	"encoding/xml"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestRoundedTicks(t *testing.T) {
	for value, want := range map[float64]float64{0: 1, .07: .1, 1: 1, 1.1: 2, 2: 2, 3: 5, 6: 10, 99: 100, 101: 200} {
		if got := Nice(value); math.Abs(got-want) > 1e-9*want {
			t.Errorf("%v becomes %v, want %v", value, got, want)
		}
	}
}

func TestCeiling(t *testing.T) {
	for value, want := range map[float64]float64{10: 10, 10.1: 15, 19: 20, 43: 50, 101: 150, .37: .4} {
		if got := Ceiling(value); math.Abs(got-want) > 1e-9*want {
			t.Errorf("%v becomes %v, want %v", value, got, want)
		}
	}
}

func labels(ticks []Tick) []string {
	var all []string
	for _, tick := range ticks {
		all = append(all, tick.Label)
	}
	return all
}

func TestAxes(t *testing.T) {
	rows := []struct {
		name      string
		low, high float64
		log       bool
		label     func(float64) string
		want      []string
	}{
		{"from zero", 0, 43, false, Number, []string{"0", "10", "20", "30", "40", "50"}},
		{"thousands", 0, 48000, false, Number, []string{"0", "10 k", "20 k", "30 k", "40 k", "50 k"}},
		{"parts", .0001, 1, true, Power, []string{"10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "1"}},
		{"many powers", 1e-7, 1, true, Power, []string{"10⁻⁷", "10⁻⁵", "10⁻³", "10⁻¹"}},
		{"one value", 3, 3, true, Number, []string{"1", "10"}},
		{"a power", 10, 10, true, Number, []string{"10", "100"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			c := Chart{Width: 360, Height: 230}
			c.SetY(row.low, row.high, row.log, row.label)
			if got := labels(c.YTicks); !slices.Equal(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// TestDrawing: the markup is XML, and the shapes are where the values say.
func TestDrawing(t *testing.T) {
	c := Chart{ID: "c", Title: "a < b & c", Width: marginLeft + marginRight + 100, Height: marginTop + marginBottom + 100}
	c.SetX(0, 10, Number)
	c.SetY(0, 1, false, Number)
	c.Steps("area", 1, []float64{0, 1, 1, 0, .5})
	c.Line("line", "x", []float64{0, 5, 10, 10}, []float64{0, .5, -1, 1})
	c.Rule("rule", "here", 5)
	c.Rule("rule", "outside", 11)
	for i, want := range []string{"M52 126H62V26H82V126H92V76H102V126Z", "M52 126L102 76M149 26h6", "M102 126V26"} {
		if got := c.Shapes[i].Path; got != want {
			t.Errorf("shape %d is %s, want %s", i, got, want)
		}
	}
	if len(c.Shapes) != 3 {
		t.Errorf("%d shapes: what is outside is drawn", len(c.Shapes))
	}
	drawn, err := c.Draw()
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		Title string `xml:"title"`
	}
	if err := xml.Unmarshal([]byte(drawn), &parsed); err != nil || parsed.Title != c.Title {
		t.Errorf("title %q, %v of %s", parsed.Title, err, drawn)
	}
	if strings.Contains(string(drawn), "NaN") {
		t.Error(drawn)
	}
}
