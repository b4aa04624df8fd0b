// Package query answers the questions of package archive in SQL. The statements are the same
// for every database; a Dialect has the expressions in which they differ.
//
// In the flow it stands between package answer, which checks questions and builds answers
// from rows, and the databases below archive, which run the statements.
package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive/answer"
	"pillion.dev/measure"
	"pillion.dev/measure/histogram"
)

// Engine is a database that is asked one question.
type Engine interface {
	Dialect() *Dialect
	// Table is the table of a stream, and Schema its schema; archive.ErrUnknown without one.
	Table(stream string) string
	Schema(ctx context.Context, stream string) (*measure.Schema, error)
	// Survey reads the sessions and intervals of a selection's rows of flows.
	Survey(ctx context.Context, s *answer.Survey) (Plan, error)
	// Read passes the rows of a statement, as the types of want if it is given.
	Read(ctx context.Context, sql string, want *arrow.Schema, rows func(arrow.RecordBatch) error) error
}

// RollUps is an Engine with roll-ups.
type RollUps interface {
	// ReadPacked adds the packed histograms of roll-ups to those that find returns, nil for none. The
	// statement has them after the keys. turn protects the histograms.
	ReadPacked(ctx context.Context, sql string, keys int, turn sync.Locker, find func(answer.Row) *histogram.Histogram) error
}

// Plan says where the rows of a survey are.
type Plan interface {
	// Source of windows of a step; 0: of any length.
	Source(s *answer.Survey, step time.Duration) Source
	// Kept is the shortest window of which sums are kept since a time; 0: rows are.
	Kept(from time.Time) time.Duration
}

// Dialect has what differs in the SQL of databases. Strings with verbs are formats of SQL.
type Dialect struct {
	// Concurrent is the number of statements of a question at once; -1: any.
	Concurrent int

	// Quoted quotes a name, and Literal a text.
	Quoted, Literal func(string) string
	// Int, Uint, Float and Instant are values of these types; an instant is as columns of type measure.Time.
	Int     func(int64) string
	Uint    func(uint64) string
	Float   func(float64) string
	Instant func(time.Time) string
	// Since (inclusive) and Until (exclusive) are terms of a range of time by which rows are pruned.
	Since, Until func(time.Time) []string
	// ToInt, ToUint and ToFloat convert to the types of 64 bits; ToText to plain text.
	ToInt, ToUint, ToFloat, ToText string
	// Number is an integer column, 0 for null. Div divides integers.
	Number, Div string
	// TimeNs is the column time in ns, and Source the column source, not null, by which rows are pruned.
	TimeNs, Source string
	// Constant is not mistaken for a column where rows of several nodes come together.
	Constant string
	// Hash of columns, an unsigned integer that ToInt converts without an error.
	Hash string
	// Tuple is a condition: a tuple of values is among the columns of a subquery, of which the rest is given.
	Tuple string
	// Arrays is a FROM with the elements of lists, given as pairs of list and name.
	Arrays func(from string, lists ...[2]string) string
	// Label is the SQL of a column of a type as text, empty for null, and LabelText what archives show of it.
	Label     func(t measure.Type, column string) string
	LabelText func(t measure.Type, text string) string
	// NullPrefix of columns that say which values of lists are null; empty: lists can be null.
	NullPrefix string

	// Saturated is the sum of unsigned integers, at most the largest; Floats is the sum of numbers, 0 for null.
	Saturated, Floats string
	// Measured is true of rows with a distribution whose count is a column.
	Measured func(count, of string) string
	// Total is the sum of all values of a row's distribution, by count, mean and Measured.
	Total string
	// Histogram are a distribution's bounds, counts, offsets and unknown offsets, named h1 to h4.
	Histogram func(of, measured string) string
	// OffsetSum adds up offsets o, of which u are unknown; NoOffsets is null, of the same type.
	OffsetSum, NoOffsets string

	// Summands are what rows of flows add up to.
	Summands []Summand
	// One is the number 1 of each row.
	One string
	// HasHistogram is a template that is true of rows with the histogram of a distribution.
	HasHistogram string
	// Matches is true if the text of the flow k0 to k4 contains a text, ignoring case.
	Matches string
	// Orders are templates of the orders of flows that need no histogram, null for flows without a value.
	Orders map[string]string
	// Aggregates are the functions of archive.Series but count: formats of a value as float64 and its column.
	Aggregates map[string]string
	// Weighted is the average of values as float64 by weights, given the column of the values too.
	Weighted string
}

// Summand is one of the values that a row of flows, or of a roll-up, adds to a sum.
type Summand struct {
	Name string
	// Kind is the type of a column with it.
	Kind string
	// Value is the SQL of the value in a row of flows.
	Value string
	// Merge is a template of the sum of values; empty for keys, by which sums are told apart, and
	// for histograms.
	Merge string
}

// sql fills in a format.
func sql(format string, values ...any) string { return fmt.Sprintf(format, values...) }

// Text is a column of text, empty for null.
func (d *Dialect) Text(column string) string { return sql(d.ToText, "ifNull("+column+", '')") }

// In is a condition: a text, not null, is in a list, which is not empty.
func (d *Dialect) In(text string, list []string) string {
	return text + " IN (" + d.Literals(list) + ")"
}

// All are terms that all hold.
func All(terms ...[]string) string { return strings.Join(slices.Concat(terms...), " AND ") }

// Literals are texts, separated by commas.
func (d *Dialect) Literals(texts []string) string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = d.Literal(text)
	}
	return strings.Join(list, ", ")
}
