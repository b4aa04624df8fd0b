package pillion

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"pillion.dev/cli/terminal"
	"pillion.dev/internal/csvfile"
)

// column of a table. In CSV it has its key, in a table its title.
type column struct {
	key, title string
	right      bool
}

// cell is a value in the form for people and in the form for programs.
type cell struct {
	shown, plain string
	// text is set unless the value is a number, a time or the like.
	text bool
}

// table is a list that is printed aligned or as CSV.
type table struct {
	columns []column
	rows    [][]cell
}

// newTable takes columns as "key" or "key=TITLE"; a leading ">" right-aligns the
// values.
func newTable(columns ...string) *table {
	t := &table{}
	for _, text := range columns {
		var c column
		text, c.right = strings.CutPrefix(text, ">")
		var titled bool
		if c.key, c.title, titled = strings.Cut(text, "="); !titled {
			c.title = strings.ToUpper(strings.ReplaceAll(c.key, "_", " "))
		}
		t.columns = append(t.columns, c)
	}
	return t
}

func (t *table) add(row ...cell) { t.rows = append(t.rows, row) }

// drop removes a column.
func (t *table) drop(key string) {
	at := slices.IndexFunc(t.columns, func(c column) bool { return c.key == key })
	t.columns = slices.Delete(t.columns, at, at+1)
	for i, row := range t.rows {
		t.rows[i] = slices.Delete(row, at, at+1)
	}
}

// text is a cell whose two forms are the same.
func text(s string) cell { return cell{cmp.Or(s, "-"), s, true} }

// number is a cell with a number.
func number[N int | int32 | int64 | uint32 | uint64](n N) cell {
	s := fmt.Sprint(n)
	return cell{shown: s, plain: s}
}

// show prints a result: value as JSON, t as CSV, and for people what view writes, or
// t if that is nil.
func (a *app) show(value any, t *table, view func(io.Writer) error) error {
	switch {
	case a.format == "json":
		return writeJSON(a.out, value)
	case a.format == "csv":
		return t.writeCSV(a.out)
	case view != nil:
		return view(a.out)
	}
	return t.write(a.out, a.color)
}

func (t *table) writeCSV(w io.Writer) error {
	writer := csvfile.NewWriter(w)
	for _, c := range t.columns {
		writer.Texts(c.key)
	}
	writer.End()
	for _, row := range t.rows {
		csvLine(writer, row)
	}
	return writer.Flush()
}

func csvLine(w *csvfile.Writer, row []cell) {
	for _, c := range row {
		w.Cell([]byte(c.plain), c.text)
	}
	w.End()
}

// write aligns the columns with two spaces between them.
func (t *table) write(w io.Writer, color bool) error {
	widths := t.widths(nil)
	head := t.head(widths)
	if color {
		head = terminal.Bold + head + terminal.Plain
	}
	_, err := io.WriteString(w, head+"\n"+t.body(widths, color))
	return err
}

// widths returns the widths of the columns, at least as wide as before.
func (t *table) widths(before []int) []int {
	widths := make([]int, len(t.columns))
	copy(widths, before)
	for i, c := range t.columns {
		widths[i] = max(widths[i], utf8.RuneCountInString(c.title))
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(clean(row[i].shown)))
		}
	}
	return widths
}

func (t *table) head(widths []int) string {
	var titles []string
	for _, c := range t.columns {
		titles = append(titles, c.title)
	}
	return t.align(titles, widths, false)
}

// body is the rows, a line each.
func (t *table) body(widths []int, color bool) string {
	var b strings.Builder
	for _, row := range t.rows {
		var line []string
		for _, c := range row {
			line = append(line, clean(c.shown))
		}
		b.WriteString(t.align(line, widths, color) + "\n")
	}
	return b.String()
}

func (t *table) align(line []string, widths []int, color bool) string {
	var b strings.Builder
	for i, text := range line {
		if i > 0 {
			b.WriteString("  ")
		}
		space := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(text)))
		if state := stateColors[text]; color && state != "" {
			text = state + text + terminal.Plain
		}
		if t.columns[i].right {
			b.WriteString(space + text)
		} else {
			b.WriteString(text + space)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// stateColors maps states to colours.
var stateColors = map[string]string{
	"connected": terminal.Green, "running": terminal.Green, "ok": terminal.Green, "away": terminal.Yellow, "revoked": terminal.Dim, "ended": terminal.Dim, "done": terminal.Dim,
	"degraded": terminal.Yellow, "paused": terminal.Yellow, "warning": terminal.Yellow, "starting": terminal.Yellow, "stopping": terminal.Yellow,
	"error": terminal.Red, "failed": terminal.Red, "failing": terminal.Red, "missed": terminal.Red,
}

// clean replaces control characters, which could control the terminal: names and
// messages come from other hosts.
func clean(s string) string {
	control := func(r rune) bool {
		return unicode.IsControl(r) || r == utf8.RuneError || unicode.Is(unicode.Bidi_Control, r)
	}
	if !strings.ContainsFunc(s, control) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if control(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
