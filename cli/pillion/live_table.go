package pillion

import (
	"strings"
	"unicode/utf8"

	"pillion.dev/cli/terminal"
)

// liveColumns are the columns of a table that is drawn in place. If the terminal is narrow,
// the columns of least worth are left out first.
type liveColumns []liveColumn

type liveColumn struct {
	// key as in newTable.
	key string
	// worth is how important a column is; those above keptWorth are never left out.
	worth int
	// least is the minimum width: columns whose values change do not move.
	least int
}

const (
	keptWorth = 6
	nameMax   = 28
	sparkMin  = 8
)

// liveCell is a text and the code of terminal that styles it; empty: none.
type liveCell struct{ text, code string }

// titles are the headers of the columns.
func (l liveColumns) titles() []liveCell {
	cells := make([]liveCell, len(l))
	for i, c := range l {
		cells[i].text = newTable(c.key).columns[0].title
	}
	return cells
}

// fitted returns the widths of the columns, 0 for one that is left out so that the rest and a
// sparkline fit, and the width of the sparkline.
func (l liveColumns) fitted(width int, head []liveCell, rows [][]liveCell) (widths []int, spark int) {
	widths = make([]int, len(l))
	for i, c := range l {
		widths[i] = max(c.least, utf8.RuneCountInString(head[i].text))
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i].text))
		}
	}
	return widths, l.narrow(widths, width)
}

// narrow leaves columns out, by setting their width to 0, until the rest and a
// sparkline fit; it returns the sparkline's width.
func (l liveColumns) narrow(widths []int, width int) int {
	for {
		total, least := 0, -1
		for i, c := range l {
			if widths[i] == 0 {
				continue
			}
			total += widths[i] + 2
			if least < 0 || c.worth < l[least].worth {
				least = i
			}
		}
		room := width - total
		if room >= sparkMin {
			return min(room, historyMax)
		}
		if least < 0 || l[least].worth > keptWorth {
			return 0
		}
		widths[least] = 0
	}
}

// line aligns a row, with two spaces behind each column.
func (l liveColumns) line(row []liveCell, widths []int) string {
	var b strings.Builder
	for i, c := range l {
		if widths[i] == 0 {
			continue
		}
		space := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(row[i].text)))
		text := row[i].text
		if row[i].code != "" {
			text = row[i].code + text + terminal.Plain
		}
		if strings.HasPrefix(c.key, ">") {
			text = space + text
		} else {
			text += space
		}
		b.WriteString(text + "  ")
	}
	return b.String()
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
