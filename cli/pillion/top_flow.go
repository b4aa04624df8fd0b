package pillion

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/cli/terminal"
	"pillion.dev/measure/flows"
)

// topFlow is the level of one flow: its figures over time.
type topFlow struct {
	*top
	name      string
	selection *pillionv1.Selection
	windows   map[int64]*pillionv1.Window // by start, ms
	step      int64                       // ms
	// pair is known once the server has told it.
	pair string
}

// windowsMost are the windows that are kept, enough for a wide terminal.
const windowsMost = 300

func newTopFlow(t *top, name string, selection *pillionv1.Selection) *topFlow {
	return &topFlow{top: t, name: name, selection: selection, windows: map[int64]*pillionv1.Window{}, pair: pairOf(selection)}
}

func pairOf(s *pillionv1.Selection) string {
	if s.GetSource() == "" || s.GetDestination() == "" {
		return ""
	}
	return s.GetSource() + " > " + s.GetDestination()
}

func (f *topFlow) title() string { return "flow " + clean(f.name) }

func (f *topFlow) feed() feedFunc { return f.follow }

// errNoPair is that no pair of agents has a flow any more.
var errNoPair = errors.New("no agents have measured this flow in the last minute")

func (f *topFlow) follow(ctx context.Context, send func(topNews)) error {
	selection := f.selection
	return follow(ctx, func(ctx context.Context) (*followed[pillionv1.WatchWindowsResponse], error) {
		var err error
		if selection, err = f.locate(ctx, selection); err != nil {
			return nil, err
		}
		past, err := f.client.Flows.Windows(ctx, &pillionv1.WindowsRequest{Selection: selection, Points: 2 * historyMax})
		if err != nil {
			return nil, err
		}
		send(topNews{apply: func() { f.pair = pairOf(selection) }})
		if past.GetStepMs() > 0 {
			send(topNews{apply: func() { f.take(past.GetStepMs(), past.GetWindows()) }})
		}
		return f.client.Flows.WatchWindows(ctx, &pillionv1.WatchWindowsRequest{Selection: selection})
	}, func(m *pillionv1.WatchWindowsResponse) error {
		send(topNews{apply: func() { f.take(m.GetStepMs(), m.GetWindows()) }})
		return nil
	}, func(err error) { send(topNews{lost: err}) })
}

// locate adds the agents to the selection of a flow: those that measure most of its packets.
func (f *topFlow) locate(ctx context.Context, s *pillionv1.Selection) (*pillionv1.Selection, error) {
	if s.Source != "" && s.Destination != "" {
		return s, nil
	}
	answer, err := (&topList{top: f.top, granularity: "pair", selection: s}).question()(ctx)
	if err != nil {
		return nil, err
	}
	if len(answer.GetFlows()) == 0 {
		return nil, connect.NewError(connect.CodeUnavailable, errNoPair) // it may continue
	}
	pair := answer.Flows[0]
	return &pillionv1.Selection{Session: s.Session, Source: pair.Src, Destination: pair.Dst,
		Src: s.Src, Dst: s.Dst, Proto: s.Proto, Sport: s.Sport, Dport: s.Dport}, nil
}

// take replaces windows by later versions of them.
func (f *topFlow) take(step int64, windows []*pillionv1.Window) {
	if step > 0 && step != f.step {
		f.step = step
		clear(f.windows)
	}
	for _, w := range windows {
		f.windows[w.GetStartMs()] = w
	}
	starts := slices.Sorted(maps.Keys(f.windows))
	for _, start := range starts[:max(0, len(starts)-windowsMost)] {
		delete(f.windows, start)
	}
}

// series are the last windows; nil where there is none.
func (f *topFlow) series(count int) []*pillionv1.Window {
	if len(f.windows) == 0 || f.step <= 0 {
		return nil
	}
	starts := slices.Sorted(maps.Keys(f.windows))
	last := starts[len(starts)-1]
	var all []*pillionv1.Window
	for start := max(starts[0], last-int64(count-1)*f.step); start <= last; start += f.step {
		all = append(all, f.windows[start])
	}
	return all
}

// flowCharts are what is drawn over time, the first ones higher.
var flowCharts = []struct {
	title string
	// fromZero draws columns from 0, not from the minimum.
	fromZero bool
	value    func(*pillionv1.Window) float64
	shown    func(float64) string
}{
	{"P50", false, func(w *pillionv1.Window) float64 { return w.GetDelay().GetP50Ns() }, func(v float64) string { return delayCell(v).shown }},
	{"P99", false, func(w *pillionv1.Window) float64 { return w.GetDelay().GetP99Ns() }, func(v float64) string { return delayCell(v).shown }},
	{"LOSS", true, func(w *pillionv1.Window) float64 { return fraction(w.GetLost(), w.GetExpected()) }, func(v float64) string { return decimal(100*v, 2).shown + " %" }},
	{"PKT", true, func(w *pillionv1.Window) float64 { return float64(w.GetPackets()) }, func(v float64) string { return decimal(v, 0).shown }},
}

const labelWidth = 11

func (f *topFlow) body(width, height int) []string {
	var out []string
	if f.pair != "" {
		out = append(out, terminal.Fit(fmt.Sprintf("measured between %s, windows of %s", clean(f.pair), time.Duration(f.step)*time.Millisecond), width))
	}
	series := f.series(max(1, width-labelWidth-1))
	if len(series) == 0 {
		return append(out, f.waiting(width)...)
	}
	high := max(1, min(6, (height-12)/4))
	for i, chart := range flowCharts {
		values := make([]float64, len(series))
		for j, w := range series {
			if values[j] = math.NaN(); w != nil {
				values[j] = chart.value(w)
			}
		}
		rows := high
		if i > 1 {
			rows = max(1, high/2)
		}
		out = append(out, chartLines(chart.title, chart.fromZero, values, width, rows, chart.shown)...)
	}
	out = append(out, "")
	table := f.windowTable(series, max(0, height-len(out)-1))
	widths := table.widths(nil)
	out = append(out, terminal.Bold+fit(table.head(widths), width)+terminal.Plain)
	for _, row := range table.rows {
		line := make([]string, len(row))
		for i, c := range row {
			line[i] = c.shown
		}
		out = append(out, fit(table.align(line, widths, false), width))
	}
	return out
}

// chartLines draw values between their extremes, which are at the left.
func chartLines(title string, fromZero bool, values []float64, width, rows int, shown func(float64) string) []string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if !math.IsNaN(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	if fromZero {
		low = 0
	}
	lines := columnsChart(values, low, high, rows)
	for i := range lines {
		label := ""
		switch {
		case rows == 1:
			label = title + " " + shown(values[len(values)-1])
		case i == 0:
			label = title
		case i == rows-1 && !fromZero && rows > 2:
			label = "≥" + shown(low)
		case i == 1:
			label = "≤" + shown(high)
		}
		lines[i] = terminal.Fit(fmt.Sprintf("%-*s ", labelWidth, fit(label, labelWidth))+lines[i], width)
	}
	return lines
}

// windowTable has the latest windows, the newest first.
func (f *topFlow) windowTable(series []*pillionv1.Window, most int) *table {
	t := newTable("time", ">packets=PKT", ">loss", ">reord", ">dup", ">p50", ">p90", ">p99", "clock=±", ">ipdv")
	for _, w := range slices.Backward(series) {
		if len(t.rows) == most {
			break
		}
		if w == nil {
			continue
		}
		d := w.GetDelay()
		t.add(text(time.UnixMilli(w.GetStartMs()).Local().Format(time.TimeOnly)), number(w.GetPackets()), percent(w.GetLost(), w.GetExpected()),
			percent(w.GetReordered(), w.GetPackets()), percent(w.GetDuplicated(), w.GetPackets()), delayCell(d.GetP50Ns()), delayCell(d.GetP90Ns()),
			delayCell(d.GetP99Ns()), clockCell(d.GetCount(), w.GetClockErrorNs()), delayCell(w.GetIpdv().GetP90Ns()))
	}
	return t
}

// flowOf is the name of a flow.
func flowOf(f *pillionv1.Flow) string {
	return flowName(flows.Flow{Src: f.Src, Dst: f.Dst, Proto: f.Proto, Sport: f.Sport, Dport: f.Dport})
}
