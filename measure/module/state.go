package module

import (
	"fmt"

	"pillion.dev/measure"
)

// Words is how many words of 64 bits the state of a flow has: MODULE_WORDS of
// probe/module/module.h.
const Words = 16

// Aggregate says what becomes of a word when the states of several flows, or of several
// intervals, are put together.
type Aggregate uint8

// The aggregates.
const (
	Sum  Aggregate = iota + 1 // of both
	Min                       // the lesser one
	Max                       // the greater one
	Last                      // the value of the flow with the later packet
	Mean                      // the quotient of two sums: Word by By
)

// Column is one figure of a module's rows. Words are signed.
type Column struct {
	measure.Field
	// Word of the state that it shows.
	Word int
	As   Aggregate
	// By is the word of a count: the divisor of a Mean, and what says whether there is any
	// value at all. Without values the column is null. Not for Sum and Last.
	By int
}

// Distribution are the columns of what module_sample enters at a word: how many values
// there were, and their minimum, mean and maximum.
func Distribution(name, unit, doc string, word int) []Column {
	count := func(suffix, what string, t measure.Type) measure.Field {
		return measure.Field{Name: name + suffix, Type: t, Unit: unit, Doc: what + " " + doc}
	}
	return []Column{
		{Field: measure.Field{Name: name + "_count", Type: measure.Uint64, Unit: "packets", Doc: "packets with a value of " + doc}, Word: word, As: Sum},
		{Field: count("_min", "minimum", measure.Int64), Word: word + 2, As: Min, By: word},
		{Field: count("_mean", "mean", measure.Float64), Word: word + 1, As: Mean, By: word},
		{Field: count("_max", "maximum", measure.Int64), Word: word + 3, As: Max, By: word},
	}
}

// State is what a module keeps of a flow in an interval: struct module_state of
// probe/module/module.h.
type State struct {
	Words  [Words]uint64
	LastNs uint64 // of the last packet, UTC; 0: there was none
}

// role is what becomes of a word, and the count by which it is valid.
type role struct {
	as Aggregate
	by int
}

// roles are the roles of the words that the columns show, by the index of the word.
func roles(columns []Column) map[int]role {
	all := map[int]role{}
	for _, c := range columns {
		switch c.As {
		case Mean:
			all[c.Word], all[c.By] = role{as: Sum}, role{as: Sum}
		case Min, Max:
			all[c.Word] = role{c.As, c.By}
		default:
			all[c.Word] = role{as: c.As}
		}
	}
	return all
}

func checkColumns(columns []Column) error {
	if len(columns) == 0 {
		return fmt.Errorf("no columns")
	}
	all := roles(columns)
	for _, c := range columns {
		own := c.As
		if own == Mean {
			own = Sum
		}
		switch {
		case c.Word < 0 || c.Word >= Words || c.By < 0 || c.By >= Words:
			return fmt.Errorf("column %s: a state has the words 0 to %d", c.Name, Words-1)
		case c.As < Sum || c.As > Mean:
			return fmt.Errorf("column %s: aggregate %d does not exist", c.Name, c.As)
		case all[c.Word].as != own:
			return fmt.Errorf("column %s: other columns aggregate word %d in another way", c.Name, c.Word)
		case c.As != Sum && c.As != Last && all[c.By].as != Sum:
			return fmt.Errorf("column %s: word %d is no sum", c.Name, c.By)
		case c.Type != measure.Uint64 && c.Type != measure.Int64 && c.Type != measure.Float64:
			return fmt.Errorf("column %s: use the type uint64, int64 or float64", c.Name)
		}
	}
	return nil
}

// Add puts another state into this one.
func (d *Descriptor) Add(to *State, other *State) {
	before := *to
	for word, r := range roles(d.Columns) {
		mine, theirs := before.Words[word], other.Words[word]
		switch {
		case r.as == Sum:
			to.Words[word] = mine + theirs
		case r.as == Last:
			if other.LastNs > before.LastNs {
				to.Words[word] = theirs
			}
		case other.Words[r.by] == 0:
		case before.Words[r.by] == 0,
			r.as == Min && int64(theirs) < int64(mine), r.as == Max && int64(theirs) > int64(mine):
			to.Words[word] = theirs
		}
	}
	to.LastNs = max(before.LastNs, other.LastNs)
}

// Values are the values of the columns, each of the column's type, or null.
func (d *Descriptor) Values(s *State) measure.Sample {
	values := make(measure.Sample, len(d.Columns))
	for i, c := range d.Columns {
		word := s.Words[c.Word]
		switch {
		case (c.As == Min || c.As == Max || c.As == Mean) && s.Words[c.By] == 0:
		case c.As == Mean:
			values[i] = typed(c.Type, float64(int64(word))/float64(s.Words[c.By]))
		case c.Type == measure.Float64:
			values[i] = measure.Float64Value(float64(int64(word)))
		case c.Type == measure.Uint64:
			values[i] = measure.Uint64Value(word)
		default:
			values[i] = measure.Int64Value(int64(word))
		}
	}
	return values
}

func typed(t measure.Type, value float64) measure.Value {
	switch t {
	case measure.Uint64:
		return measure.Uint64Value(uint64(value))
	case measure.Int64:
		return measure.Int64Value(int64(value))
	}
	return measure.Float64Value(value)
}

// Keys is how many columns precede the module's in its rows: time, session, flow
// and interval, as in flows.
var Keys = len(keys())
