package routerreport

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"

	"pillion.dev/agent/routerreport/chart"
)

// Sizes of charts, in SVG user units.
const (
	panelWidth, panelHeight = 360, 230 // three in a row
	wideWidth, wideHeight   = 550, 230 // two
	lowHeight               = 180      // stacked
)

// Limits of a histogram: bars of a chart of counts, bars of a chart of times, which are
// about as wide as buckets, and rows of its table.
const (
	barLimit  = 400
	timeLimit = 200
	binLimit  = 400
)

// drawer draws charts and records the first error.
type drawer struct {
	over  *series
	count int
	err   error
}

func (d *drawer) chart(title, description string, width, height float64) chart.Chart {
	d.count++
	return chart.Chart{
		ID: fmt.Sprintf("c%d", d.count), Title: title, Description: description, Width: width, Height: height,
	}
}

func (d *drawer) draw(c chart.Chart) template.HTML {
	drawn, err := c.Draw()
	if d.err == nil {
		d.err = err
	}
	return drawn
}

// pairSection is the section of a pair in the page.
type pairSection struct {
	Number     int
	Pair       PairSummary
	Rows       []stageTimes
	Histograms []figure
	LogFirst   bool
	Over       []figure
	Bins       []binRow
}

// binRow is a row of the histograms' table: counts of the three stages.
type binRow struct {
	From   int64 // ns
	Counts [3]uint64
}

// A linear axis hides the other bars if one of them has this fraction of all packets, or
// this multiple of their mean height.
const (
	steepPart  = .4
	steepTimes = 25
)

// pair draws a pair: seed 3's histograms, and its stages over time.
func (d *drawer) pair(number int, p PairSummary) pairSection {
	s := pairSection{Number: number, Pair: p, Rows: p.Stages.rows()}
	for i, times := range p.Stages.consecutive() {
		if times.Count == 0 {
			continue
		}
		h := newBars(times)
		s.LogFirst = s.LogFirst || h.steep()
		s.Histograms = append(s.Histograms, d.histogram(string(rune('a'+i)), p.Name(), i, times, h))
	}
	s.Bins = binRows(p.Stages.consecutive())
	s.Over = []figure{
		d.overTime(p.Name(), "median", func(each pairPoint) [3]uint64 { return each.median }),
		d.overTime(p.Name(), "99th percentile", func(each pairPoint) [3]uint64 { return each.p99 }),
	}
	return s
}

func (d *drawer) histogram(key, pair string, stage int, times Times, h bars) figure {
	name := stageNames[stage].name
	f := figure{Key: key, Name: name, Class: stageNames[stage].class}
	description := fmt.Sprintf("Relative frequency of %s delay from %s in bins of %.4g µs up to %.4g µs; median %s, 99 %% within %s.",
		name, pair, h.width, h.bound, micro(span(float64(times.P50))), micro(span(float64(times.P99))))
	for _, log := range []bool{false, true} {
		c := d.chart(name+", "+pair, description, panelWidth, panelHeight)
		c.XName, c.YName = name+" delay "+h.unit(), "relative frequency"
		c.SetX(0, h.bound, h.label)
		if log {
			c.SetY(max(1/float64(times.Count), 1e-7), 1, true, chart.Power)
		} else {
			c.SetY(0, min(h.peak*1.03, 1), false, chart.Number)
		}
		c.Steps("area "+f.Class, h.width, h.parts)
		c.Rule("rule median", "median", float64(times.P50)/1e3)
		c.Rule("rule p99", "99th percentile", float64(times.P99)/1e3)
		if log {
			f.Log = d.draw(c)
		} else {
			f.Chart = d.draw(c)
		}
	}
	f.Caption = fmt.Sprintf("bins of %.4g µs", h.width)
	if h.beyond > 0 {
		f.Caption += fmt.Sprintf("; %s (%s) beyond, the longest %s",
			packets(h.beyond), share(h.beyond, times.Count), micro(span(float64(times.Max))))
	}
	return f
}

// binRows lists the buckets that are not empty, within the range drawn.
func binRows(stages []Times) []binRow {
	rows := map[int64]binRow{}
	for stage, times := range stages {
		last := newBars(times).bound * 1e3
		for i, bound := range times.all.Bounds {
			if float64(bound) < last {
				row := rows[bound]
				row.From, row.Counts[stage] = bound, times.all.Counts[i]
				rows[bound] = row
			}
		}
	}
	sorted := slices.SortedFunc(maps.Values(rows), func(a, b binRow) int { return cmp.Compare(a.From, b.From) })
	return sorted[:min(len(sorted), binLimit)]
}

// clock returns the times of the series' points, in seconds, or in minutes if it is long.
func (d *drawer) clock() (at []float64, last float64, name string) {
	unit, name := 1.0, "seconds since the start"
	if n := len(d.over.points); n > 0 && d.over.points[n-1].at.Minutes() > 10 {
		unit, name = 60, "minutes since the start"
	}
	for _, p := range d.over.points {
		last = p.at.Seconds() / unit
		at = append(at, last)
	}
	return at, max(last, .1), name
}

// spread is the largest ratio of values for a linear axis.
const spread = 50

func (d *drawer) overTime(pair, name string, of func(pairPoint) [3]uint64) figure {
	at, last, axis := d.clock()
	var lines [3][]float64
	least, most := math.Inf(1), 0.0
	for _, p := range d.over.points {
		values := [3]float64{-1, -1, -1}
		for _, each := range p.pairs {
			if each.name != pair || each.packets == 0 {
				continue
			}
			for i, ns := range of(each) {
				values[i] = float64(ns) / 1e3
				least, most = min(least, max(values[i], .1)), max(most, values[i])
			}
		}
		for i := range lines {
			lines[i] = append(lines[i], values[i])
		}
	}
	f := figure{Name: name}
	if most == 0 {
		return f
	}
	c := d.chart(name+" over time, "+pair, fmt.Sprintf("The %s of each stage's delay in each interval, up to %.3g µs.", name, most), wideWidth, wideHeight)
	c.XName, c.YName = axis, name+" (µs)"
	c.SetX(0, last, chart.Number)
	switch {
	case most > spread*least:
		c.SetY(least, most, true, chart.Number)
	case most > manyMicros:
		c.YName = name + " (ms)"
		c.SetY(0, most*1.03, false, millis)
	default:
		c.SetY(0, most*1.03, false, chart.Number)
	}
	for i, line := range lines {
		c.Line("line "+stageNames[i].class, stageNames[i].name, at, line)
	}
	f.Chart = d.draw(c)
	return f
}

// queues draws the distribution of queue sizes, and the sizes over time.
func (d *drawer) queues(queues []QueueReport) (sizes, depths []figure) {
	for _, q := range queues {
		if q.Arrivals == 0 || len(sizes) >= 2*sections {
			continue
		}
		if f, ok := d.counts(wideWidth, lowHeight, q.Name()+", size", q.Side, "packets found when one left, itself included", q.sizes); ok {
			sizes = append(sizes, f)
		}
		if f, ok := d.counts(wideWidth, lowHeight, q.Name()+", by seed 3's method", q.Side, "packets that came between two that left", q.came); ok {
			sizes = append(sizes, f)
		}
		if f, ok := d.depth(q); ok {
			depths = append(depths, f)
		}
	}
	return sizes, depths
}

// counts draws how often each of 0, 1, 2 and so on occurred.
func (d *drawer) counts(size, height float64, name, class, axis string, counts []uint64) (figure, bool) {
	all, last, below := uint64(0), 0, uint64(0)
	for _, n := range counts {
		all += n
	}
	if all == 0 {
		return figure{}, false
	}
	for i, n := range counts {
		if below += n; n > 0 && float64(below-n) < .999*float64(all) {
			last = i
		}
	}
	bound := chart.Ceiling(max(float64(last+1), 10))
	width := 1.0
	if bound > barLimit {
		width = chart.Nice(bound / barLimit)
		bound = width * math.Ceil(bound/width)
	}
	parts := make([]float64, int(bound/width))
	beyond, peak := uint64(0), 0.0
	for i, n := range counts {
		if at := int(float64(i) / width); at < len(parts) {
			parts[at] += float64(n) / float64(all)
			peak = max(peak, parts[at])
		} else {
			beyond += n
		}
	}
	c := d.chart(name, fmt.Sprintf("Relative frequency of %s, %s.", axis, name), size, height)
	c.XName, c.YName = axis, "relative frequency"
	if width == 1 {
		c.Middle = true
	}
	c.SetX(0, bound, chart.Number)
	c.SetY(0, min(peak*1.03, 1), false, chart.Number)
	c.Steps("area "+class, width, parts)
	f := figure{Name: name, Class: class, Chart: d.draw(c)}
	if width > 1 {
		f.Caption = fmt.Sprintf("bins of %g", width)
	}
	if beyond > 0 {
		f.Caption = strings.TrimPrefix(f.Caption+fmt.Sprintf("; %s (%s) beyond", grouped(beyond), share(beyond, all)), "; ")
	}
	return f, true
}

func (d *drawer) depth(q QueueReport) (figure, bool) {
	at, last, axis := d.clock()
	var mean, kernel, largest []float64
	most := 0.0
	for _, p := range d.over.points {
		m, k, h := -1.0, -1.0, -1.0
		for _, each := range p.queues {
			if each.Name() == q.Name() {
				m, k, h = each.Little.Depth, float64(each.KernelDepth), float64(each.RecentMax)
			}
		}
		mean, kernel, largest = append(mean, m), append(kernel, k), append(largest, h)
		most = max(most, m, k, h)
	}
	if most <= 0 {
		return figure{}, false
	}
	c := d.chart(q.Name()+" over time", fmt.Sprintf("Mean and largest size of the queue in each interval, up to %.3g packets.", most), wideWidth, wideHeight)
	c.XName, c.YName = axis, "packets"
	c.SetX(0, last, chart.Number)
	c.SetY(0, most*1.03, false, chart.Number)
	c.Line("line largest", "largest of the interval", at, largest)
	c.Line("line kernel", "kernel's own figure", at, kernel)
	c.Line("line mean "+q.Side, "mean, from arrivals and departures", at, mean)
	return figure{Name: q.Name(), Class: q.Side, Chart: d.draw(c)}, true
}

// breaks draws coffee breaks over time, the packets between them, and their lengths.
func (d *drawer) breaks(b BreakReport) []figure {
	if b.Count == 0 {
		return nil
	}
	var figures []figure
	at, last, axis := d.clock()
	var counts []float64
	most, width := 0.0, last/10
	for i, p := range d.over.points {
		counts = append(counts, float64(p.breaks))
		most = max(most, float64(p.breaks))
		if i > 0 {
			width = min(width, .8*(at[i]-at[i-1]))
		}
	}
	if most > 0 {
		c := d.chart("coffee breaks over time", fmt.Sprintf("How many began in each interval, up to %.0f.", most), panelWidth, panelHeight)
		c.XName, c.YName = axis, "breaks in an interval"
		c.SetX(0, last, chart.Number)
		c.SetY(0, most*1.03, false, chart.Number)
		c.Bars("area pause", width, at, counts)
		figures = append(figures, figure{Name: "over time", Class: "pause", Chart: d.draw(c)})
	}
	if f, ok := d.counts(panelWidth, panelHeight, "inter-occurrence", "pause", "packets from one break to the next", b.between); ok {
		figures = append(figures, f)
	}
	if b.Length.Count > 0 {
		h := newBars(b.Length)
		c := d.chart("length of coffee breaks", fmt.Sprintf("Relative frequency of lengths, up to %.4g µs.", h.bound), panelWidth, panelHeight)
		c.XName, c.YName = "length "+h.unit(), "relative frequency"
		c.SetX(0, h.bound, h.label)
		c.SetY(0, min(h.peak*1.03, 1), false, chart.Number)
		c.Steps("area pause", h.width, h.parts)
		f := figure{Name: "length", Class: "pause", Chart: d.draw(c), Caption: fmt.Sprintf("bins of %.4g µs", h.width)}
		if h.beyond > 0 {
			f.Caption += fmt.Sprintf("; %s beyond, the longest %s", grouped(h.beyond), micro(span(float64(b.LongestNs))))
		}
		figures = append(figures, f)
	}
	return figures
}
