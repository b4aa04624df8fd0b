package query

import (
	"slices"
	"strings"

	"pillion.dev/measure/flows"
)

// Distributions of a row; package flows takes those that are measured.
var Distributions = [...]string{"delay", "ipdv"}

// Representation is how a table or a subquery has the summands.
type Representation struct {
	*Dialect
	// Raw: it has rows of flows.
	Raw bool
	// Prefix of the names of its columns.
	Prefix string
}

// parts is the number of rows, of flows or of roll-ups, of a sum. No table has the column.
const parts = "parts"

// Of is the SQL of a summand's value.
func (r Representation) Of(name string) string {
	switch {
	case name == parts && r.Prefix == "":
		return r.One
	case r.Raw:
		return r.find(name).Value
	}
	return r.Prefix + name
}

// Sum is the SQL of the sum of a summand's values.
func (r Representation) Sum(name string) string {
	if name == parts {
		return "sum(" + r.Of(parts) + ")"
	}
	return r.Expand(r.find(name).Merge)
}

// Expand replaces names in braces by the SQL of their values.
func (r Representation) Expand(template string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(template, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		b.WriteString(r.Of(name))
		template = after
	}
}

func (d *Dialect) find(name string) *Summand {
	for i := range d.Summands {
		if d.Summands[i].Name == name {
			return &d.Summands[i]
		}
	}
	panic("no summand " + name)
}

// sumNames are the summands of an answer.Sum.
var sumNames = func() []string {
	list := append([]string{}, flows.CountNames[:]...)
	for _, of := range Distributions {
		list = append(list, of+"_count", of+"_min_ns", of+"_max_ns", of+"_total_ns")
	}
	return append(list, "clock_error_ns", parts)
}()

// sums are the SQL of what rows add up to, without histograms, as answer.Row reads it.
func (r Representation) sums() string {
	var list []string
	for _, name := range sumNames {
		switch {
		case slices.Contains(flows.CountNames[:], name):
			list = append(list, sql(r.Saturated, r.Of(name)))
		case name == parts:
			list = append(list, sql(r.ToInt, r.Sum(name)))
		default:
			list = append(list, r.Sum(name))
		}
	}
	return strings.Join(list, ", ")
}
