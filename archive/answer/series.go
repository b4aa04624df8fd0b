package answer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

const linesDefault = 100

// functions of archive.Aggregate.
var functions = []string{"avg", "min", "max", "sum", "count", "first", "last", "p50", "p90", "p99"}

// Series builds the answer to archive.Series.
type Series struct {
	Question archive.Series
	Step     time.Duration
	// Functions aggregate the question's columns, one each, in the same order. Only averages have a weight.
	Functions []string
	Lines     []archive.Line
}

// NewSeries checks a question about a stream, and fills in what it leaves open.
func NewSeries(s *measure.Schema, question archive.Series) (*Series, error) {
	if question.To.IsZero() {
		question.To = time.Now()
	}
	if question.Lines <= 0 {
		question.Lines = linesDefault
	}
	span := question.To.Sub(question.From)
	if question.From.IsZero() || span <= 0 || question.Points < 1 || question.Points > pointsMax || len(question.Columns) == 0 {
		return nil, fmt.Errorf("%w: a series requires columns, a time range and 1 to %d points", archive.ErrQuery, pointsMax)
	}
	step := (span + time.Duration(question.Points) - 1) / time.Duration(question.Points)
	out := &Series{Question: question, Step: (step + time.Millisecond - 1) / time.Millisecond * time.Millisecond}
	for _, column := range question.By {
		if _, err := ColumnType(s, column); err != nil {
			return nil, err
		}
	}
	for _, aggregate := range question.Columns {
		function, err := functionOf(s, aggregate)
		if err != nil {
			return nil, err
		}
		out.Functions = append(out.Functions, function)
	}
	return out, nil
}

// ColumnType is the type of a column of a stream as the archive has it.
func ColumnType(s *measure.Schema, column string) (measure.Type, error) {
	if column == archive.AgentColumn {
		return measure.String, nil
	}
	if i := s.Index(column); i >= 0 {
		return s.Fields[i].Type, nil
	}
	return 0, fmt.Errorf("%w: stream %q has no column %q", archive.ErrQuery, s.Name, column)
}

// suited is the default function for a column: the maximum for counters, the sum for
// counts per interval.
func suited(f measure.Field) string {
	switch {
	case !numeric(f.Type):
		return "count"
	case strings.Contains(f.Name, "_min_"):
		return "min"
	case strings.Contains(f.Name, "_max_"), strings.Contains(f.Doc, "since the "):
		return "max"
	case f.Unit == "packets", f.Name == "bytes":
		return "sum"
	}
	return "avg"
}

func numeric(t measure.Type) bool {
	switch t {
	case measure.Int32, measure.Uint32, measure.Int64, measure.Uint64, measure.Float64, measure.Bool:
		return true
	}
	return false
}

// functionOf is the function of one aggregate.
func functionOf(s *measure.Schema, a archive.Aggregate) (string, error) {
	t, err := ColumnType(s, a.Column)
	if err != nil {
		return "", err
	}
	name := a.Function
	if name == "" {
		name = "count"
		if i := s.Index(a.Column); i >= 0 {
			name = suited(s.Fields[i])
		}
	}
	if !slices.Contains(functions, name) {
		return "", fmt.Errorf("%w: unknown function %q", archive.ErrQuery, a.Function)
	}
	if name == "count" {
		return name, nil
	}
	if !numeric(t) {
		return "", fmt.Errorf("%w: %s of %q, which is %v", archive.ErrQuery, name, a.Column, t)
	}
	if a.Weight == "" {
		return name, nil
	}
	weight, err := ColumnType(s, a.Weight)
	if err != nil {
		return "", err
	}
	if name != "avg" || !numeric(weight) {
		return "", fmt.Errorf("%w: %s of %q weighted by %q: only averages can be weighted, by a numeric column", archive.ErrQuery, name, a.Column, a.Weight)
	}
	return name, nil
}

// Begin adds a line with these values of the columns that distinguish lines.
func (s *Series) Begin(values []string) {
	labels := map[string]string{}
	for k, column := range s.Question.By {
		labels[column] = values[k]
	}
	s.Lines = append(s.Lines, archive.Line{Labels: labels})
}

// ReadPoint reads a row of a line: the number of a step, the labels and the values. Steps of a line are in order.
func (s *Series) ReadPoint(number int, r Row) {
	values := 1 + len(s.Question.By)
	line := &s.Lines[number]
	line.Times = append(line.Times, s.Question.From.Add(time.Duration(r.Int(0))*s.Step).UTC())
	of := make([]float64, len(s.Question.Columns))
	for k := range of {
		if of[k] = math.NaN(); !r.IsNull(values + k) {
			of[k] = r.Float(values + k)
		}
	}
	line.Values = append(line.Values, of)
}
