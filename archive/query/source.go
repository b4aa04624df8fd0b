package query

import (
	"fmt"
	"strings"
)

// Source is where the rows are that a question adds up: rows of flows, and of roll-ups in
// their place. No row is in two segments.
type Source []Segment

// Segment is the part of a source in one table.
type Segment struct {
	Table string
	Representation
	// Prewhere, if set, is evaluated first; of all other columns, only the rows that meet it are read.
	Prewhere, Where string
	// Rest: they are the rows that are not rolled up.
	Rest bool
}

// expression is the SQL of a value, by how its table has the summands.
type expression func(Representation) string

// summed is the expression of a summand.
func summed(name string) expression { return func(r Representation) string { return r.Of(name) } }

// numbered is the number of a row's window.
func numbered(step int64) expression {
	return func(r Representation) string { return sql(r.Div, r.Of("time"), step) }
}

// from is the FROM and WHERE of a segment.
func (s *Segment) from() string {
	from := "FROM " + s.Table
	if s.Prewhere != "" {
		from += " PREWHERE " + s.Prewhere
	}
	return from + " WHERE " + s.Where
}

// and adds a condition.
func (s Source) and(condition expression) Source {
	list := make(Source, len(s))
	for i, one := range s {
		one.Where += " AND " + condition(one.Representation)
		list[i] = one
	}
	return list
}

// grouped prepares to sum the named summands by keys: the FROM, the representation of what
// it has, and the keys in it. Each of several segments is summed first, on its shards.
func (s Source) grouped(keys []expression, names ...string) (from string, r Representation, of []string) {
	if len(s) == 1 {
		return s[0].from(), s[0].Representation, keysOf(keys, s[0].Representation)
	}
	merged := Representation{Dialect: s[0].Dialect, Prefix: "s_"}
	var parts []string
	groups := numberedNames("g", len(keys))
	for _, one := range s {
		columns := keysOf(keys, one.Representation, groups...)
		for _, name := range names {
			columns = append(columns, one.Sum(name)+" AS "+merged.Of(name))
		}
		parts = append(parts, "SELECT "+strings.Join(columns, ", ")+" "+one.from()+" GROUP BY "+strings.Join(groups, ", "))
	}
	return "FROM (" + strings.Join(parts, " UNION ALL ") + ")", merged, groups
}

// keysOf are keys in a representation, each with its name if there are names.
func keysOf(keys []expression, r Representation, names ...string) []string {
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
func (r Representation) rowHash() string {
	return sql(r.Hash, strings.Join([]string{r.Of("ended"), r.Of("src"), r.Of("dst"), r.Of("sport"), r.Of("dport")}, ", "))
}

// measuring are the rows with a distribution, by keys. With every above 1, one row in so many is
// read, always the same ones, and at least one for each key.
func (s Source) measuring(of string, keys []expression, every int64) Source {
	with := s.and(func(r Representation) string { return r.Expand(strings.ReplaceAll(r.HasHistogram, "%s", of)) })
	if every <= 1 {
		return with
	}
	names := numberedNames("b", len(keys))
	var parts []string
	for _, one := range with {
		parts = append(parts, fmt.Sprintf("SELECT %s, %s AS hash %s", strings.Join(keysOf(keys, one.Representation, names...), ", "), one.rowHash(), one.from()))
	}
	list := strings.Join(names, ", ")
	least := fmt.Sprintf("FROM (%s) GROUP BY %s", strings.Join(parts, " UNION ALL "), list)
	return with.and(func(r Representation) string {
		hash := r.rowHash()
		return fmt.Sprintf("(%s %% %d = 0 OR %s)", hash, every, sql(r.Tuple, strings.Join(keysOf(keys, r), ", ")+", "+hash, list+", min(hash)", least))
	})
}

// histograms are the SQL of a distribution's buckets by keys: of rows of flows as of buckets,
// and of roll-ups packed; empty without such rows.
func (s Source) histograms(of string, keys []expression) (buckets, packed string) {
	names, offsets := numberedNames("b", len(keys)), of == "delay"
	var rows, rolled []string
	for _, one := range s {
		named := strings.Join(keysOf(keys, one.Representation, names...), ", ")
		if !one.Raw {
			rolled = append(rolled, fmt.Sprintf("SELECT %s, %s_packed %s", named, of, one.from()))
			continue
		}
		columns := fmt.Sprintf("%s AS h1, %s AS h2", one.Of(of+"_bounds_ns"), one.Of(of+"_counts"))
		if offsets {
			columns += fmt.Sprintf(", %s AS h3, %s AS h4", one.Of("delay_offsets_ns"), one.Of("delay_unknown"))
		}
		rows = append(rows, fmt.Sprintf("SELECT %s, %s %s", named, columns, one.from()))
	}
	if len(rows) > 0 {
		buckets = s[0].buckets(names, offsets, "FROM ("+strings.Join(rows, " UNION ALL ")+")")
	}
	return buckets, strings.Join(rolled, " UNION ALL ")
}

// buckets is the SQL of the buckets of histograms by named keys: the keys, bound, count and
// offsets, ordered. from is the FROM of a subquery with the keys and the histograms' bounds and
// counts, named h1 and h2, and with offsets their sums, and how many are unknown, h3 and h4.
func (d *Dialect) buckets(keys []string, offsets bool, from string) string {
	lists, sum := [][2]string{{"h1", "bound"}, {"h2", "c"}}, d.NoOffsets
	if offsets {
		lists, sum = append(lists, [2]string{"h3", "o"}, [2]string{"h4", "u"}), d.OffsetSum
	}
	return fmt.Sprintf("SELECT %[1]s, bound, %[2]s AS n, %[3]s AS offsets %[4]s WHERE c > 0 GROUP BY %[1]s, bound ORDER BY %[1]s, bound",
		strings.Join(keys, ", "), sql(d.Saturated, "c"), sum, d.Arrays(from, lists...))
}
