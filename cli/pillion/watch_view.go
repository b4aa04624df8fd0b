package pillion

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"pillion.dev/cli/terminal"
	"pillion.dev/internal/csvfile"
)

// frame is the live table in lines that fit.
func (w *watching) frame(width, height int) []string {
	title := fmt.Sprintf("%s  %s  %d lines  %s  delays %s", w.name, w.session.GetState(), len(w.lines.all), time.Now().Format(time.TimeOnly), w.clockWords())
	out := []string{fit(title, width)}
	if w.color {
		out[0] = terminal.Bold + out[0] + terminal.Plain
	}
	for i, why := range w.why() {
		if i == 4 {
			break
		}
		why = fit(why, width)
		if w.color {
			why = terminal.Yellow + why + terminal.Plain
		}
		out = append(out, why)
	}
	if len(w.lines.all) == 0 {
		return out[:min(len(out), height)]
	}
	out = append(out, "")
	body := w.body(width)
	if room := height - len(out); len(body) > room {
		hidden := len(body) - max(room-1, 0)
		body = append(body[:max(room-1, 0)], fit(fmt.Sprintf("%d more lines: enlarge the terminal", hidden), width))
	}
	out = append(out, body...)
	return out[:min(len(out), height)]
}

var watchColumns = liveColumns{
	{"source", 9, 0}, {"destination", 9, 0}, {"flow", 8, 0}, {">rate=PKT/S", 4, 8}, {">loss", 7, 7}, {">p50", 8, 7}, {">p90", 3, 7},
	{">p99", 5, 7}, {"clock=±", 6, 8}, {">ipdv", 2, 7},
}

func (w *watching) body(width int) []string {
	rows := make([][]liveCell, 0, len(w.lines.all))
	all := w.lines.sorted()
	for _, to := range all {
		shown := to.now
		if shown == nil || w.lines.stale(shown, 3) {
			shown = &window{}
		}
		row := []liveCell{{text: fit(to.source, nameMax)}, {text: fit(to.destination, nameMax)}, {text: clean(to.flow)}}
		rate, loss, p50, p90, p99, clock, ipdv := shown.cells()
		for _, c := range []cell{rate, loss, p50, p90, p99, clock, ipdv} {
			row = append(row, liveCell{text: c.shown})
		}
		rows = append(rows, row)
	}
	head := watchColumns.titles()
	widths, spark := watchColumns.fitted(width, head, rows, func(key string) bool { return key == "flow" && !w.lines.byFlow })
	out := []string{fit(watchColumns.line(head, widths)+sparkTitle(spark), width)}
	for i, to := range all {
		history := to.history
		if to.now != nil {
			delay, _ := to.now.shown()
			history = append(slices.Clone(history), delay.Quantile(0.5))
		}
		out = append(out, fit(strings.TrimRight(watchColumns.line(rows[i], widths)+sparkline(history, spark), " "), width))
	}
	return out
}

func sparkTitle(width int) string {
	if width == 0 {
		return ""
	}
	return "P50 OVER TIME"
}

// fit cuts a line to a width.
func fit(s string, width int) string {
	s = clean(s)
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return string(runes[:max(0, width-1)]) + "…"
}

// countOnly closes windows on a terminal, where they are already drawn.
func (w *watching) countOnly(*line, *window) error {
	w.closed++
	if w.count > 0 && w.closed >= w.count {
		return errEnough
	}
	return nil
}

// clockWords say which delays are shown.
func (w *watching) clockWords() string {
	if w.corrected {
		return "corrected by the estimated clock offset"
	}
	return "as measured"
}

// print writes a window that is over.
func (w *watching) print(to *line, past *window) error {
	rate, loss, p50, p90, p99, clock, ipdv := past.cells()
	var err error
	switch w.format {
	case "json":
		err = writeJSONLine(w.out, past.object(w.name, to))
	case "csv":
		err = w.printCSV(text(nanoTime(past.end).Format(time.RFC3339Nano)), text(to.source), text(to.destination), text(to.flow),
			rate, loss, p50, p90, p99, clock, ipdv)
	default:
		flow, corrected := "", ""
		if w.corrected {
			corrected = "corrected "
		}
		if to.flow != "" {
			flow = " (" + to.flow + ")"
		}
		_, err = fmt.Fprintf(w.out, "%s  %s > %s%s  %s pkt/s  loss %s  %sp50 %s  p90 %s  p99 %s  %s  ipdv %s\n",
			nanoTime(past.end).Local().Format("15:04:05.0"), clean(to.source), clean(to.destination), clean(flow),
			rate.shown, loss.shown, corrected, p50.shown, p90.shown, p99.shown, clock.shown, ipdv.shown)
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return w.countOnly(to, past)
}

func (w *watching) printCSV(row ...cell) error {
	if w.csv == nil {
		w.csv = csvfile.NewWriter(w.out)
		delay, bound := "delay", "clock_error_ns"
		if w.corrected {
			delay, bound = "corrected", "corrected_error_ns"
		}
		w.csv.Texts("time", "source", "destination", "flow", "packets_per_s", "loss_percent",
			delay+"_p50_ns", delay+"_p90_ns", delay+"_p99_ns", bound, "ipdv_p90_ns")
		w.csv.End()
	}
	csvLine(w.csv, row)
	return w.csv.Flush()
}
