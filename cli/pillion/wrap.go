package pillion

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"pillion.dev/cli/terminal"
)

// wrapLeast is the smallest width that a column is wrapped to.
const wrapLeast = 16

// onTerminal writes the table within the width of the terminal, if there is one; nil: there is none.
func (a *app) onTerminal(t *table, keys ...string) func(io.Writer) error {
	if !terminal.Is(a.out) {
		return nil
	}
	return func(w io.Writer) error { return t.wrapped(terminal.Width(), keys...).write(w, a.color) }
}

// wrapped is the table within a width, if possible: the texts of some columns continue on the lines below.
func (t *table) wrapped(width int, keys ...string) *table {
	limits := t.limits(width, keys)
	narrow := &table{columns: t.columns}
	for _, row := range t.rows {
		var lines [][]cell
		for i, c := range row {
			parts := []string{c.shown}
			if limits[i] > 0 {
				parts = wrapText(clean(c.shown), limits[i])
			}
			for n, part := range parts {
				if n == len(lines) {
					lines = append(lines, make([]cell, len(row)))
				}
				lines[n][i].shown = part
			}
		}
		narrow.rows = append(narrow.rows, lines...)
	}
	return narrow
}

// limits are the widths to which columns are wrapped; 0: not wrapped. Columns that need less than
// an equal share leave the rest to the others.
func (t *table) limits(width int, keys []string) []int {
	widths, limits := t.widths(nil), make([]int, len(t.columns))
	left := width - 2*(len(t.columns)-1)
	var wide []int
	for i, c := range t.columns {
		if slices.Contains(keys, c.key) {
			wide = append(wide, i)
		} else {
			left -= widths[i]
		}
	}
	slices.SortStableFunc(wide, func(a, b int) int { return widths[a] - widths[b] })
	for n, i := range wide {
		share := left / (len(wide) - n)
		if widths[i] > share {
			limits[i] = max(share, wrapLeast)
		}
		left -= min(widths[i], max(share, wrapLeast))
	}
	return limits
}

// wrapText divides a text into lines at spaces, and within words that are longer than a line.
func wrapText(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		runes := []rune(word)
		for ; len(runes) > width; runes = runes[width:] {
			lines = append(lines, string(runes[:width]))
		}
		line = string(runes)
	}
	return append(lines, line)
}
