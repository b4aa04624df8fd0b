package measure

import (
	"fmt"
	"slices"
	"time"
)

// Limits of a pipeline: the state of every group is kept in memory.
const (
	groupsDefault = 1024
	groupsMax     = 1 << 20
	filtersMax    = 64
)

// Pipeline is how a point's samples are processed for one subscriber. The zero
// Pipeline passes them unfiltered.
type Pipeline struct {
	// Name of the stream of rows. The default is the point's name; with filters, an
	// underscore and a number that is unique at the point follow.
	Name string
	// Filters that turn each window into one row; none to pass the samples.
	Filters []Filter
	// Keys are columns of the point: there is a window for each of their values,
	// which the row repeats. Null is a separate value. Floats and lists cannot be
	// keys.
	Keys []string
	// Samples is the length of a window in samples, or 0.
	Samples int
	// Every is the length of a window in the samples' time, or 0. Such windows are
	// common to all keys and begin at multiples of Every since 1970.
	Every time.Duration
	// Groups bounds the values of the keys at a time; default 1024. Samples beyond
	// are dropped and counted. Functions that continue over windows, as Delta does,
	// remember this many, and start over with a key whose last window is longer ago.
	Groups int
	// OfWindows says that a sample's time is the end of the window that it sums up, as
	// in the rows of another pipeline: it belongs to the window before that time.
	OfWindows bool
}

// plan is a pipeline that fits a point.
type plan struct {
	Pipeline
	schema    *Schema
	keys      []int
	continues bool // at least one filter
	// inputs are the columns of the filters; -1 for samples. columns are these, and
	// outputs what each filter makes of them.
	inputs  []int
	columns []Field
	outputs [][]Field
}

// plan checks a pipeline. Its rows consist of the time, the keys, and for each filter
// <column>_<function>, such as delay_ns_avg; delay_ns_p99 and delay_ns_p99_9 for
// quantiles; delay_ns_bounds and delay_ns_counts for a histogram; count for samples. A
// pipeline without filters has the point's own schema.
func (p Pipeline) plan(point *Schema) (*plan, error) {
	fail := func(err error) (*plan, error) {
		return nil, fmt.Errorf("plan pipeline %q of point %q: %w", p.Name, point.Name, err)
	}
	if err := p.validate(); err != nil {
		return fail(err)
	}
	result := &plan{Pipeline: p}
	if len(p.Filters) == 0 {
		result.schema = &Schema{Name: p.Name, Doc: point.Doc, Fields: slices.Clone(point.Fields)}
		return result, result.schema.Validate()
	}
	if result.Groups == 0 {
		result.Groups = groupsDefault
	}
	result.Keys, result.Filters = slices.Clone(p.Keys), slices.Clone(p.Filters)
	result.schema = &Schema{Name: p.Name, Doc: "windows of " + point.Name, Fields: []Field{TimeField}}
	for _, key := range p.Keys {
		i := point.Index(key)
		if i < 0 {
			return fail(fmt.Errorf("%w: no column %q", ErrFilter, key))
		}
		f := point.Fields[i]
		if i == 0 || f.Type == Float64 || f.Type == Int64List || f.Type == Uint64List {
			return fail(fmt.Errorf("%w: column %q, %v, is no key", ErrFilter, key, f.Type))
		}
		result.keys = append(result.keys, i)
		result.schema.Fields = append(result.schema.Fields, f)
	}
	for _, filter := range p.Filters {
		input, fields, err := filter.fit(point)
		if err != nil {
			return fail(err)
		}
		result.continues = result.continues || filter.Function.continues()
		result.inputs = append(result.inputs, input)
		result.columns = append(result.columns, point.Fields[max(input, 0)])
		result.outputs = append(result.outputs, fields)
		result.schema.Fields = append(result.schema.Fields, fields...)
	}
	if err := result.schema.Validate(); err != nil {
		return fail(err)
	}
	return result, nil
}

// fit finds the filter's column at the point.
func (f Filter) fit(point *Schema) (input int, fields []Field, err error) {
	if err := f.Validate(); err != nil {
		return 0, nil, err
	}
	if f.Column == "" {
		fields, err = f.columns(nil)
		return -1, fields, err
	}
	input = point.Index(f.Column)
	if input < 0 {
		return 0, nil, fmt.Errorf("%w: %v: no column %q", ErrFilter, f, f.Column)
	}
	fields, err = f.columns(&point.Fields[input])
	return input, fields, err
}

func (p Pipeline) validate() error {
	switch {
	case p.Samples < 0 || p.Every < 0:
		return fmt.Errorf("%w: window of %d samples or %v", ErrFilter, p.Samples, p.Every)
	case p.Groups < 0 || p.Groups > groupsMax:
		return fmt.Errorf("%w: %d groups, at most %d", ErrFilter, p.Groups, groupsMax)
	case len(p.Filters) > filtersMax:
		return fmt.Errorf("%w: %d filters, at most %d", ErrFilter, len(p.Filters), filtersMax)
	case len(p.Filters) == 0 && (len(p.Keys) != 0 || p.Samples != 0 || p.Every != 0 || p.Groups != 0):
		return fmt.Errorf("%w: keys or a window without filters", ErrFilter)
	case len(p.Filters) != 0 && (p.Samples == 0) == (p.Every == 0):
		return fmt.Errorf("%w: a window has either a number of samples or a time", ErrFilter)
	}
	return nil
}
