package pillion

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
)

// column of a table. In CSV it has its key, in a table its title.
type column struct {
	key, title string
	right      bool
}

// cell is a value as people read it and as programs do.
type cell struct{ shown, plain string }

// table is a list that is printed for people, or as CSV.
type table struct {
	columns []column
	rows    [][]cell
}

// newTable reads columns as "key" or "key=TITLE"; ">" before it puts values to
// the right.
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

// text is a cell that reads the same for all.
func text(s string) cell { return cell{first(s, "-"), s} }

// number is a cell with a number.
func number[N int | int32 | int64 | uint32 | uint64](n N) cell {
	s := fmt.Sprint(n)
	return cell{s, s}
}

// show prints a list as the user wants it: a table, CSV, or the messages of the
// API as a JSON array.
func show[M proto.Message](a *app, t *table, messages []M) error {
	switch a.format {
	case "json":
		return writeJSON(a.out, messageList(messages))
	case "csv":
		return t.writeCSV(a.out)
	}
	return t.write(a.out, a.color)
}

// showOne prints one message: as a JSON object, a table of one row in CSV, or by
// view.
func showOne(a *app, t *table, message proto.Message, view func(io.Writer) error) error {
	switch a.format {
	case "json":
		return writeJSON(a.out, messageValue(message.ProtoReflect()))
	case "csv":
		return t.writeCSV(a.out)
	}
	return view(a.out)
}

func (t *table) writeCSV(w io.Writer) error {
	writer := csv.NewWriter(w)
	writer.UseCRLF = true // RFC 4180
	record := make([]string, len(t.columns))
	for i, c := range t.columns {
		record[i] = c.key
	}
	if err := writer.Write(record); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	for _, row := range t.rows {
		for i, c := range row {
			record[i] = c.plain
		}
		if err := writer.Write(record); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	writer.Flush()
	return writer.Error()
}

// write aligns the columns with two spaces between them.
func (t *table) write(w io.Writer, color bool) error {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = utf8.RuneCountInString(c.title)
	}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(clean(c.shown)))
		}
	}
	var b strings.Builder
	line := make([]string, len(t.columns))
	for i, c := range t.columns {
		line[i] = c.title
	}
	head := t.align(line, widths, false)
	if color {
		head = bold + head + plain
	}
	b.WriteString(head + "\n")
	for _, row := range t.rows {
		for i, c := range row {
			line[i] = clean(c.shown)
		}
		b.WriteString(t.align(line, widths, color) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *table) align(line []string, widths []int, color bool) string {
	var b strings.Builder
	for i, text := range line {
		if i > 0 {
			b.WriteString("  ")
		}
		space := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(text)))
		if state := stateColors[text]; color && state != "" {
			text = state + text + plain
		}
		if t.columns[i].right {
			b.WriteString(space + text)
		} else {
			b.WriteString(text + space)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// Colours of a terminal.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	dim    = "\x1b[2m"
	plain  = "\x1b[0m"
)

// stateColors are the words that say how something is.
var stateColors = map[string]string{
	"connected": green, "running": green, "ok": green, "away": yellow, "revoked": dim, "ended": dim, "done": dim,
	"degraded": yellow, "paused": yellow, "warning": yellow, "starting": yellow, "stopping": yellow,
	"error": red, "failed": red, "failing": red, "missed": red,
}

// clean shows what would steer a terminal instead of sending it there: names and
// messages come from other hosts.
func clean(s string) string {
	steers := func(r rune) bool {
		return unicode.IsControl(r) || r == utf8.RuneError || unicode.Is(unicode.Bidi_Control, r)
	}
	if !strings.ContainsFunc(s, steers) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if steers(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
