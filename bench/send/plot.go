package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"pillion.dev/bench/estimate"
)

// figure is a plot of rows: a point at one figure, and a line to another, on a logarithmic
// scale.
type figure struct {
	file, title, unit string
	rows              []plotRow
}

// plotRow is a labelled range; series gives it its colour.
type plotRow struct {
	label, series string
	at, to        float64
}

// colours of the series, distinguishable without colour vision (Okabe and Ito).
var colours = map[string]color.Color{
	"initial": color.RGBA{0, 114, 178, 255}, "on the fly": color.RGBA{86, 180, 233, 255}, "socket": color.RGBA{213, 94, 0, 255},
	"other": color.RGBA{110, 110, 110, 255},
}

// plots of all experiments that have values.
func (r *report) plots() (all []*figure) {
	add := func(f *figure) {
		if len(f.rows) > 0 {
			all = append(all, f)
		}
	}
	between := &figure{file: "clock", title: "E1, E2: time between two readings of the clock, and oversleep (p50 to p99)", unit: "us"}
	between.add("between two readings", "other", r.Clock.Between50, r.Clock.Between99, 1e-3)
	for _, s := range r.Clock.Sleeps {
		between.add(fmt.Sprintf("sleep %v, %s priority", s.Asked, s.priority()), "other", s.P50, s.P99, 1)
	}
	add(between)
	for _, gap := range []time.Duration{10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond} {
		add(r.trains(gap))
	}
	lead := &figure{file: "lead", title: "E6: error of the departure by pre-dispatch period (p50 to p99)", unit: "us"}
	pairs := &figure{file: "pairs", title: "Distance of the packets of a pair (p50 and mean)", unit: "us"}
	least := &figure{file: "least", title: "E3: distance in a train of 100,000 packets (p50 and mean)", unit: "us"}
	for _, c := range r.Cells {
		switch {
		case strings.HasPrefix(c.Arm, "lead"):
			lead.add(fmt.Sprintf("period %s, gap %v", strings.TrimPrefix(c.Arm, "lead "), c.AskGap), "on the fly", c.P50, c.P99, 1)
		case c.Kind == pair:
			pairs.add(c.Load+", "+c.Arm, c.Arm, c.Gap, c.MeanGap, 1)
		case c.Kind == flush:
			least.add(c.Load+", "+c.Arm, c.Arm, c.Gap, c.MeanGap, 1)
		}
	}
	add(lead)
	add(pairs)
	add(least)
	speed := &figure{file: "speed", title: "E12: rate of a train at maximum speed over a line of 100 Mbit/s", unit: "times the rate of the line"}
	for _, s := range r.Speeds {
		speed.add("tcpdump at the sender, "+s.Arm, s.Arm, s.Captured, s.Captured, 1)
		speed.add("returned times, "+s.Arm, s.Arm, s.Returned, s.Returned, 1)
		speed.add("far end, "+s.Arm, s.Arm, s.Line, s.Line, 1)
	}
	add(speed)
	others := &figure{file: "peers", title: "Programs that send at a constant rate: error of the distance (p50 to p99)", unit: "us"}
	for _, p := range r.Peers {
		series := map[string]string{"pillion": "initial", "plain socket": "socket"}[p.Tool]
		if series == "" {
			series = "other"
		}
		others.add(p.Name, series, p.P50, p.P99, 1)
	}
	add(others)
	drawn := &figure{file: "models", title: "Models: error of the inter-departure times as sent against those drawn (p50 to p95)", unit: "us"}
	for _, d := range r.Models {
		drawn.add(strings.TrimPrefix(d.Name, "model, "), "initial", d.P50, d.P95, 1)
	}
	add(drawn)
	return append(all, r.others...)
}

// trains of one gap.
func (r *report) trains(gap time.Duration) *figure {
	f := &figure{file: fmt.Sprintf("train-%dus", gap.Microseconds()), unit: "us",
		title: fmt.Sprintf("E4, E5, E11: error of the departure, trains with gaps of %v (p50 to p99)", gap)}
	for _, c := range r.Cells {
		if c.Kind == train && c.AskGap == gap && !strings.HasPrefix(c.Arm, "lead") {
			f.add(c.Load+", "+c.Arm, c.Arm, c.P50, c.P99, 1)
		}
	}
	return f
}

func (f *figure) add(label, series string, at, to estimate.Estimate, scale float64) {
	if at.Values > 0 {
		f.rows = append(f.rows, plotRow{label, series, at.Median * scale, to.Median * scale})
	}
}

// write draws the figure as SVG.
func (f *figure) write(folder string) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text = f.title, f.unit
	p.Title.TextStyle.Font.Variant, p.X.Label.TextStyle.Font.Variant = sans, sans
	p.X.Tick.Label.Font.Variant, p.Y.Tick.Label.Font.Variant = sans, sans
	p.Y.Tick.Label.XAlign = text.XRight
	p.Title.Padding = vg.Points(8)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	labels := make([]string, len(f.rows))
	low, high := math.Inf(1), 0.0
	for i, r := range f.rows {
		y := float64(len(f.rows) - 1 - i) // the first on top
		labels[int(y)] = r.label
		low, high = min(low, r.at, r.to), max(high, r.at, r.to)
		line, err := plotter.NewLine(plotter.XYs{{X: r.at, Y: y}, {X: r.to, Y: y}})
		if err != nil {
			return err
		}
		point, err := plotter.NewScatter(plotter.XYs{{X: r.at, Y: y}})
		if err != nil {
			return err
		}
		line.Color, line.Width = colours[r.series], vg.Points(2)
		point.GlyphStyle = draw.GlyphStyle{Color: colours[r.series], Radius: vg.Points(4), Shape: draw.CircleGlyph{}}
		p.Add(line, point)
	}
	p.NominalY(labels...)
	p.Y.Padding = vg.Points(20)
	p.X.Min, p.X.Max = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)))
	if p.X.Min == p.X.Max {
		p.X.Max *= 10
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Width = 0
	p.Add(grid)
	return f.save(p, folder)
}

const sans = "Sans"

// save leaves a margin for fonts that are wider than the one that the plot is computed for, and names
// those of the same width.
func (f *figure) save(p *plot.Plot, folder string) error {
	canvas := vgsvg.New(9*vg.Inch, vg.Length(len(f.rows)+5)*0.24*vg.Inch)
	p.Draw(draw.Crop(draw.New(canvas), 0.3*vg.Inch, -0.3*vg.Inch, 0.1*vg.Inch, -0.1*vg.Inch))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	named := strings.ReplaceAll(out.String(), "font-family:Liberation Sans", "font-family:Liberation Sans,Arial,Helvetica,sans-serif")
	return os.WriteFile(filepath.Join(folder, f.file+".svg"), []byte(named), 0o644)
}
