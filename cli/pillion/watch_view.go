package pillion

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// screen is a terminal that is drawn in place.
type screen struct{ file *os.File }

// openScreen switches to the terminal's alternate screen.
func openScreen(file *os.File) *screen {
	fmt.Fprint(file, "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J")
	return &screen{file}
}

func (s *screen) size() (width, height int) {
	width, height, err := term.GetSize(int(s.file.Fd()))
	if err != nil || width < 1 || height < 1 {
		return 80, 24
	}
	return width, height
}

// draw overwrites the screen in one write, without clearing it first, so that it
// does not flicker.
func (s *screen) draw(frame func(width, height int) []string) {
	width, height := s.size()
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range frame(width, height) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	fmt.Fprint(s.file, b.String())
}

// close restores the terminal and leaves the last frame on it.
func (s *screen) close(frame func(width, height int) []string) {
	fmt.Fprint(s.file, "\x1b[?25h\x1b[?1049l")
	width, _ := s.size()
	for _, line := range frame(width, math.MaxInt32) {
		fmt.Fprintln(s.file, line)
	}
}

// frame is the live table in lines that fit.
func (w *watching) frame(width, height int) []string {
	title := fmt.Sprintf("%s  %s  %d lines  %s  delays %s", w.name, w.session.GetState(), len(w.lines.all), time.Now().Format(time.TimeOnly), w.clockWords())
	out := []string{fit(title, width)}
	if w.color {
		out[0] = bold + out[0] + plain
	}
	for i, why := range w.why() {
		if i == 4 {
			break
		}
		why = fit(why, width)
		if w.color {
			why = yellow + why + plain
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

// watchColumns are the columns of the live table with their importance: the least
// important are left out first if the terminal is narrow.
var watchColumns = []struct {
	key   string
	worth int
	least int
}{
	{"source", 9, 0}, {"destination", 9, 0}, {"flow", 8, 0}, {">rate=PKT/S", 4, 8}, {">loss", 7, 7}, {">p50", 8, 7}, {">p90", 3, 7},
	{">p99", 5, 7}, {"clock=±", 6, 8}, {">ipdv", 2, 7},
}

const (
	nameMax  = 28
	sparkMin = 10
)

func (w *watching) body(width int) []string {
	rows := make([][]string, 0, len(w.lines.all))
	all := w.lines.sorted()
	for _, to := range all {
		shown := to.now
		if shown == nil || w.lines.stale(shown, 3) {
			shown = &window{}
		}
		rate, loss, p50, p90, p99, clock, ipdv := shown.cells()
		rows = append(rows, []string{fit(clean(to.source), nameMax), fit(clean(to.destination), nameMax), clean(to.flow),
			rate.shown, loss.shown, p50.shown, p90.shown, p99.shown, clock.shown, ipdv.shown})
	}
	widths := make([]int, len(watchColumns))
	for i, c := range watchColumns {
		if c.key == "flow" && !w.lines.byFlow {
			continue
		}
		widths[i] = max(c.least, utf8.RuneCountInString(newTable(c.key).columns[0].title))
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	spark := narrow(widths, width)
	out := []string{fit(watchLine(nil, widths)+"  "+sparkTitle(spark), width)}
	for i, to := range all {
		history := to.history
		if to.now != nil {
			delay, _ := to.now.shown()
			history = append(slices.Clone(history), delay.Quantile(0.5))
		}
		out = append(out, fit(strings.TrimRight(watchLine(rows[i], widths)+"  "+sparkline(history, spark), " "), width))
	}
	return out
}

func sparkTitle(width int) string {
	if width == 0 {
		return ""
	}
	return "P50 OVER TIME"
}

// narrow leaves columns out, by setting their width to 0, until the rest and a
// sparkline fit; it returns the sparkline's width.
func narrow(widths []int, width int) int {
	for {
		total, least := 0, -1
		for i, c := range watchColumns {
			if widths[i] == 0 {
				continue
			}
			total += widths[i] + 2
			if least < 0 || c.worth < watchColumns[least].worth {
				least = i
			}
		}
		room := width - total
		if room >= sparkMin {
			return min(room, historyMax)
		}
		if least < 0 || watchColumns[least].worth > 6 {
			return 0
		}
		widths[least] = 0
	}
}

func watchLine(row []string, widths []int) string {
	t := &table{}
	var line []string
	var used []int
	for i, c := range watchColumns {
		if widths[i] == 0 {
			continue
		}
		t.columns = append(t.columns, newTable(c.key).columns[0])
		used = append(used, widths[i])
		if row == nil {
			line = append(line, t.columns[len(t.columns)-1].title)
		} else {
			line = append(line, row[i])
		}
	}
	text := t.align(line, used, false)
	total := -2
	for _, n := range used {
		total += n + 2
	}
	return text + strings.Repeat(" ", max(0, total-utf8.RuneCountInString(text)))
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
		err = w.printCSV([]string{nanoTime(past.end).Format(time.RFC3339Nano), to.source, to.destination, to.flow,
			rate.plain, loss.plain, p50.plain, p90.plain, p99.plain, clock.plain, ipdv.plain})
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

func (w *watching) printCSV(record []string) error {
	if w.csv == nil {
		w.csv = newCSV(w.out)
		delay, bound := "delay", "clock_error_ns"
		if w.corrected {
			delay, bound = "corrected", "corrected_error_ns"
		}
		if err := w.csv.Write([]string{"time", "source", "destination", "flow", "packets_per_s", "loss_percent",
			delay + "_p50_ns", delay + "_p90_ns", delay + "_p99_ns", bound, "ipdv_p90_ns"}); err != nil {
			return err
		}
	}
	if err := w.csv.Write(record); err != nil {
		return err
	}
	w.csv.Flush()
	return w.csv.Error()
}
