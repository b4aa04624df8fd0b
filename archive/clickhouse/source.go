package clickhouse

import (
	"fmt"
	"strings"
)

// source is where the rows are that a question adds up: rows of flows, and of roll-ups in
// their place. No row is in two segments.
type source []segment

// segment is the part of a source in one table.
type segment struct {
	table string
	representation
	// prewhere is read before all other columns, of which only those of its rows are read.
	prewhere, where string
	// rest: they are the rows that are not rolled up.
	rest bool
}

// expression is the SQL of a value, by how its table has the summands.
type expression func(representation) string

// summed is the expression of a summand.
func summed(name string) expression { return func(r representation) string { return r.of(name) } }

// numbered is the number of a row's window.
func numbered(step int64) expression {
	return func(r representation) string { return fmt.Sprintf("intDiv(%s, %d)", r.of("time"), step) }
}

// from is the FROM and WHERE of a segment.
func (s *segment) from() string {
	return "FROM " + s.table + " PREWHERE " + s.prewhere + " WHERE " + s.where
}

// and adds a condition.
func (s source) and(condition expression) source {
	list := make(source, len(s))
	for i, one := range s {
		one.where += " AND " + condition(one.representation)
		list[i] = one
	}
	return list
}

// grouped prepares to sum the named summands by keys: the FROM, the representation of what
// it has, and the keys in it. Each of several segments is summed first, on its shards.
func (s source) grouped(keys []expression, names ...string) (from string, r representation, of []string) {
	if len(s) == 1 {
		return s[0].from(), s[0].representation, keysOf(keys, s[0].representation)
	}
	var parts []string
	groups := numberedNames("g", len(keys))
	for _, one := range s {
		columns := keysOf(keys, one.representation, groups...)
		for _, name := range names {
			columns = append(columns, one.sum(name)+" AS "+mergedRows.of(name))
		}
		parts = append(parts, "SELECT "+strings.Join(columns, ", ")+" "+one.from()+" GROUP BY "+strings.Join(groups, ", "))
	}
	return "FROM (" + strings.Join(parts, " UNION ALL ") + ")", mergedRows, groups
}

// keysOf are keys in a representation, each with its name if there are names.
func keysOf(keys []expression, r representation, names ...string) []string {
	all := make([]string, len(keys))
	for i, key := range keys {
		if all[i] = key(r); len(names) > 0 {
			all[i] += " AS " + names[i]
		}
	}
	return all
}

// numberedNames are a letter with numbers from 0.
func numberedNames(letter string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(letter, i)
	}
	return names
}

// rowHash selects rows: always the same ones.
func (r representation) rowHash() string {
	return fmt.Sprintf("cityHash64(%s, %s, %s, %s, %s)", r.of("ended"), r.of("src"), r.of("dst"), r.of("sport"), r.of("dport"))
}

// measuring are the rows with a distribution, by keys. With every above 1, one row in so many is
// read, always the same ones, and at least one for each key.
func (s source) measuring(of string, keys []expression, every int64) source {
	with := s.and(func(r representation) string { return r.of(of+"_count") + " > 0" })
	if every <= 1 {
		return with
	}
	names := numberedNames("b", len(keys))
	var parts []string
	for _, one := range with {
		parts = append(parts, fmt.Sprintf("SELECT %s, %s AS hash %s", strings.Join(keysOf(keys, one.representation, names...), ", "), one.rowHash(), one.from()))
	}
	least := fmt.Sprintf("SELECT %[1]s, min(hash) FROM (%[2]s) GROUP BY %[1]s", strings.Join(names, ", "), strings.Join(parts, " UNION ALL "))
	return with.and(func(r representation) string {
		return fmt.Sprintf("(%[1]s %% %[2]d = 0 OR (%[3]s, %[1]s) GLOBAL IN (%[4]s))", r.rowHash(), every, strings.Join(keysOf(keys, r), ", "), least)
	})
}

// histograms are the SQL of a distribution's buckets by keys: of rows of flows as of bucketsSQL,
// and of roll-ups packed; empty without such rows.
func (s source) histograms(of string, keys []expression) (buckets, packed string) {
	names, offsets := numberedNames("b", len(keys)), of == "delay"
	var rows, rolled []string
	for _, one := range s {
		named := strings.Join(keysOf(keys, one.representation, names...), ", ")
		if !one.raw {
			rolled = append(rolled, fmt.Sprintf("SELECT %s, %s %s", named, packedColumn(of), one.from()))
			continue
		}
		columns := fmt.Sprintf("%s AS h1, %s AS h2", one.of(of+"_bounds_ns"), one.of(of+"_counts"))
		if offsets {
			columns += fmt.Sprintf(", %s AS h3, %s AS h4", one.of("delay_offsets_ns"), one.of("delay_unknown"))
		}
		rows = append(rows, fmt.Sprintf("SELECT %s, %s %s", named, columns, one.from()))
	}
	if len(rows) > 0 {
		buckets = bucketsSQL(names, offsets, "FROM ("+strings.Join(rows, " UNION ALL ")+")")
	}
	return buckets, strings.Join(rolled, " UNION ALL ")
}
