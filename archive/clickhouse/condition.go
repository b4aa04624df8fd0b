package clickhouse

import (
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

// condition is the WHERE of a scope, a range of time and of equalities. A zero end is open.
func condition(s *measure.Schema, scope *archive.Scope, where map[string]string, from, to time.Time) (string, error) {
	terms := []string{"1"}
	if term := scoped(s, scope); term != "" {
		terms = append(terms, term)
	}
	if !from.IsZero() {
		terms = append(terms, since(from)...)
	}
	if !to.IsZero() {
		terms = append(terms, until(to)...)
	}
	for _, column := range slices.Sorted(maps.Keys(where)) {
		t, err := answer.ColumnType(s, column)
		if err != nil {
			return "", err
		}
		value, err := valueOf(t, where[column])
		if err != nil {
			return "", fmt.Errorf("%w: %s of %q: %w", archive.ErrQuery, column, s.Name, err)
		}
		terms = append(terms, quoted(column)+" = "+value)
		if column == "source" && t == measure.String { // as the primary keys of flows and packets have it
			terms = append(terms, sourceText+" = "+value)
		}
	}
	return strings.Join(terms, " AND "), nil
}

// timeLayouts are those of times in conditions, in UTC.
var timeLayouts = []string{"2006-01-02 15:04:05", "2006-01-02", time.RFC3339}

// valueOf is the literal of a text that states a value of a type.
func valueOf(t measure.Type, text string) (string, error) {
	switch t {
	case measure.String, measure.Binary:
		return literal(text), nil
	case measure.Bool:
		yes, err := strconv.ParseBool(strings.ToLower(text))
		if yes {
			return "1", err
		}
		return "0", err
	case measure.Int32, measure.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		return integer(n), err
	case measure.Uint32, measure.Uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		return "toUInt64(" + strconv.FormatUint(n, 10) + ")", err
	case measure.Float64:
		f, err := strconv.ParseFloat(text, 64)
		return "toFloat64(" + literal(strconv.FormatFloat(f, 'g', -1, 64)) + ")", err
	case measure.Time:
		for _, layout := range timeLayouts {
			if at, err := time.Parse(layout, text); err == nil {
				return integer(at.UnixNano()), nil
			}
		}
		return "", fmt.Errorf("time %q: use YYYY-MM-DD HH:MM:SS", text)
	}
	return "", fmt.Errorf("a list cannot be compared")
}
