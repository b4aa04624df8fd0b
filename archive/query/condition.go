package query

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// Condition is the WHERE of a scope, a range of time and of equalities. A zero end is open.
func (d *Dialect) Condition(s *measure.Schema, scope *archive.Scope, where map[string]string, from, to time.Time) (string, error) {
	terms := append([]string{"1 = 1"}, d.Scoped(s, scope)...)
	if !from.IsZero() {
		terms = append(terms, d.Since(from)...)
	}
	if !to.IsZero() {
		terms = append(terms, d.Until(to)...)
	}
	for _, column := range slices.Sorted(maps.Keys(where)) {
		t, err := answer.ColumnType(s, column)
		if err != nil {
			return "", err
		}
		value, err := d.valueOf(t, where[column])
		if err != nil {
			return "", fmt.Errorf("%w: %s of %q: %w", archive.ErrQuery, column, s.Name, err)
		}
		terms = append(terms, d.Quoted(column)+" = "+value)
		if column == "source" && t == measure.String && d.Source != d.Quoted(column) { // as the order of the rows has it
			terms = append(terms, d.Source+" = "+value)
		}
	}
	return strings.Join(terms, " AND "), nil
}

// timeLayouts are the layouts of times in conditions, in UTC.
var timeLayouts = []string{"2006-01-02 15:04:05", "2006-01-02", "2006-01-02T15:04:05", time.RFC3339}

// valueOf is the value of a type that a text states.
func (d *Dialect) valueOf(t measure.Type, text string) (string, error) {
	switch t {
	case measure.String, measure.Binary:
		return d.Literal(text), nil
	case measure.Bool:
		yes, err := strconv.ParseBool(strings.ToLower(text))
		if yes {
			return "1", err
		}
		return "0", err
	case measure.Int32, measure.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		return d.Int(n), err
	case measure.Uint32, measure.Uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		return d.Uint(n), err
	case measure.Float64:
		f, err := strconv.ParseFloat(text, 64)
		return d.Float(f), err
	case measure.Time:
		for _, layout := range timeLayouts {
			if at, err := time.Parse(layout, text); err == nil {
				return d.Instant(at), nil
			}
		}
		return "", fmt.Errorf("time %q: use YYYY-MM-DD HH:MM:SS", text)
	}
	return "", errors.New("a list cannot be compared")
}
