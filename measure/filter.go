package measure

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrFilter marks an invalid filter or pipeline.
var ErrFilter = errors.New("bad filter")

// Function is what a filter does with the values of a window.
type Function string

// The functions. Null, and a float64 that is not a number, count as no value; of
// a window without values all but count, sum and histogram are null. What is said
// of a window says nothing of the samples that the point did not see.
const (
	// First and Last are the values that came first and last, of any type.
	First Function = "first"
	Last  Function = "last"
	// Count is the number of values; without a column, of samples.
	Count Function = "count"
	// Sum of whole numbers is exact, as int64 or, of unsigned ones and bool, as
	// uint64; what does not fit is the nearest that does, and is counted. Sum of
	// float64 is compensated (Neumaier).
	Sum Function = "sum"
	// Avg is the arithmetic mean, as float64, from the exact sum.
	Avg Function = "avg"
	// Min and Max keep the type.
	Min Function = "min"
	Max Function = "max"
	// Variance is the sample's, divided by n-1, and StdDev its root (Welford 1962,
	// on exact differences from the window's first value). Of one value both are
	// null: it does not tell.
	Variance Function = "variance"
	StdDev   Function = "stddev"
	// Delta is, as in OML, the last value minus the last one of the previous window of the same
	// key that has a value, or minus 0 in the first one, so that deltas add up; negative
	// for a counter that began again. It is int64 (saturated and counted as in Sum) or
	// float64.
	Delta Function = "delta"
	// Quantiles are from a DDSketch (Masson et al., VLDB 2019): within 1 % of the
	// value of rank q(n-1), rounded down. Of a window whose absolute values span
	// more than a factor of 1e17, the least ones are less exact.
	Quantiles Function = "quantiles"
	// Histogram is two lists: lower bounds of the buckets that hold something,
	// ascending, and how many values are in each. Values below the first of given
	// bounds are under the least int64; without bounds, the layout of package histogram
	// applies. The integer part of a float64 counts.
	Histogram Function = "histogram"
)

// Limits of one filter's text and of its numbers.
const (
	filterTextMax = 32 << 10
	quantilesMax  = 32
	boundsMax     = 1024
)

// Filter makes one or more columns of a window's samples.
type Filter struct {
	Function Function
	// Column of the point; empty only for Count.
	Column string
	// Quantiles are from 0 to 1, at most 32 of them.
	Quantiles []float64
	// Bounds ascend, at most 1024 of them; none for log-linear buckets.
	Bounds []int64
	// Numbers are of registered functions, at most 32 of them.
	Numbers []float64
}

var (
	filterPattern  = regexp.MustCompile(`^ *([a-z]+) *\( *([a-z0-9_]*) *(?:;([^;()]*))?\) *$`)
	decimalPattern = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)
)

// ParseFilter reads a filter such as avg(delay_ns), quantiles(delay_ns; 0.5, 0.9),
// histogram(delay_ns), histogram(delay_ns; 0, 1000, 1000000), or a registered
// function. Blanks may be put between the parts.
func ParseFilter(text string) (Filter, error) {
	fail := func(format string, values ...any) (Filter, error) {
		return Filter{}, fmt.Errorf("parse filter %.80q: %w: %w", text, ErrFilter, fmt.Errorf(format, values...))
	}
	parts := filterPattern.FindStringSubmatch(text)
	if parts == nil || len(text) > filterTextMax {
		return fail("want function(column) or function(column; number, ...)")
	}
	f := Filter{Function: Function(parts[1]), Column: parts[2]}
	if !strings.Contains(text, ";") {
		return f, wrapFilter(text, f.Validate())
	}
	for word := range strings.SplitSeq(parts[3], ",") {
		word = strings.Trim(word, " ")
		if !decimalPattern.MatchString(word) {
			return fail("%q is not a decimal number", word)
		}
		if f.Function != Histogram {
			q, err := strconv.ParseFloat(word, 64)
			if err != nil {
				return fail("%w", err)
			}
			if _, ok := f.Function.definition(); ok {
				f.Numbers = append(f.Numbers, q)
			} else {
				f.Quantiles = append(f.Quantiles, q)
			}
			continue
		}
		bound, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return fail("%w", err)
		}
		f.Bounds = append(f.Bounds, bound)
	}
	return f, wrapFilter(text, f.Validate())
}

func wrapFilter(text string, err error) error {
	if err != nil {
		return fmt.Errorf("parse filter %.80q: %w", text, err)
	}
	return nil
}

// String is the text that ParseFilter reads.
func (f Filter) String() string {
	var numbers []string
	for _, q := range f.Quantiles {
		numbers = append(numbers, strconv.FormatFloat(q, 'f', -1, 64))
	}
	for _, b := range f.Bounds {
		numbers = append(numbers, strconv.FormatInt(b, 10))
	}
	for _, n := range f.Numbers {
		numbers = append(numbers, strconv.FormatFloat(n, 'f', -1, 64))
	}
	if numbers == nil {
		return fmt.Sprintf("%s(%s)", f.Function, f.Column)
	}
	return fmt.Sprintf("%s(%s; %s)", f.Function, f.Column, strings.Join(numbers, ", "))
}

// Validate says what is wrong with the filter, whatever the point.
func (f Filter) Validate() error {
	_, foreign := f.Function.definition()
	if !foreign && !slices.Contains(standardFunctions, f.Function) {
		return fmt.Errorf("%w: no function %q, only %s", ErrFilter, f.Function, functionNames())
	}
	if len(f.Numbers) > 0 && !foreign || len(f.Numbers) > numbersMax {
		return fmt.Errorf("%w: %d numbers for %s: registered functions take up to %d", ErrFilter, len(f.Numbers), f.Function, numbersMax)
	}
	if !ValidName(f.Column) && (f.Column != "" || f.Function != Count) {
		return fmt.Errorf("%w: %s of column %q", ErrFilter, f.Function, f.Column)
	}
	if (len(f.Quantiles) > 0) != (f.Function == Quantiles) || len(f.Quantiles) > quantilesMax {
		return fmt.Errorf("%w: %d quantiles for %s: quantiles takes 1 to %d, no other function takes any", ErrFilter, len(f.Quantiles), f.Function, quantilesMax)
	}
	for _, q := range f.Quantiles {
		if !(q >= 0 && q <= 1) {
			return fmt.Errorf("%w: quantile %v: use 0 to 1", ErrFilter, q)
		}
	}
	if len(f.Bounds) > 0 && f.Function != Histogram || len(f.Bounds) > boundsMax {
		return fmt.Errorf("%w: %d bounds for %s: histogram takes up to %d, no other function takes any", ErrFilter, len(f.Bounds), f.Function, boundsMax)
	}
	for i, b := range f.Bounds {
		if i > 0 && b <= f.Bounds[i-1] {
			return fmt.Errorf("%w: bound %d after %d", ErrFilter, b, f.Bounds[i-1])
		}
	}
	return nil
}

// continues reports whether a window needs the state of the one before.
func (f Function) continues() bool {
	_, registered := f.definition()
	return f == Delta || registered
}

// columns are what the filter makes of a column; column is nil for samples.
func (f Filter) columns(column *Field) ([]Field, error) {
	if d, ok := f.Function.definition(); ok {
		return d.outputs(f, *column)
	}
	name := string(f.Function)
	if column == nil {
		return []Field{{Name: name, Type: Uint64, Unit: "samples", Doc: "samples in the window"}}, nil
	}
	out := Field{Name: column.Name + "_" + name, Type: column.Type, Unit: column.Unit, Doc: describe(name, column)}
	number := column.Type == Bool || column.Type == Float64 || column.Type == Time || whole(column.Type)
	additive := number && column.Type != Time
	switch f.Function {
	case First, Last:
		return []Field{out}, nil
	case Count:
		out.Type, out.Unit = Uint64, "samples"
		return []Field{out}, nil
	case Min, Max:
		if number {
			return []Field{out}, nil
		}
	case Sum:
		out.Type = sumType(column.Type)
	case Avg, StdDev:
		out.Type = Float64
	case Variance:
		out.Type = Float64
		if out.Unit != "" {
			out.Unit += "^2"
		}
	case Delta:
		if out.Type != Float64 {
			out.Type = Int64
		}
		if column.Type == Time {
			out.Unit, additive = "ns", true
		}
	case Quantiles:
		if additive {
			return f.quantileColumns(column), nil
		}
	case Histogram:
		if additive {
			bounds := Field{column.Name + "_bounds", Int64List, column.Unit, describe("lower bounds of the buckets", column)}
			counts := Field{column.Name + "_counts", Uint64List, "samples", describe("samples in each bucket", column)}
			return []Field{bounds, counts}, nil
		}
	}
	if !additive || f.Function == Min || f.Function == Max {
		return nil, fmt.Errorf("%w: %v: column %q is %v", ErrFilter, f, column.Name, column.Type)
	}
	return []Field{out}, nil
}

// functionNames lists all functions for an error message.
func functionNames() string {
	var names []string
	for _, f := range Functions() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

func whole(t Type) bool { return t == Int32 || t == Int64 || t == Uint32 || t == Uint64 }

func sumType(t Type) Type {
	switch t {
	case Int32, Int64:
		return Int64
	case Float64:
		return Float64
	}
	return Uint64
}

func (f Filter) quantileColumns(column *Field) (fields []Field) {
	for _, q := range f.Quantiles {
		percent := strconv.FormatFloat(math.Round(q*1e8)/1e6, 'f', -1, 64)
		fields = append(fields, Field{
			Name: column.Name + "_p" + strings.ReplaceAll(percent, ".", "_"),
			Type: Float64, Unit: column.Unit, Doc: describe("quantile "+strconv.FormatFloat(q, 'f', -1, 64), column),
		})
	}
	return fields
}

// describe fits into a schema's limit, at the cost of the column's description.
func describe(what string, column *Field) string {
	text := what + " of " + column.Name
	if column.Doc != "" && len(text)+2+len(column.Doc) <= docMax {
		text += ": " + column.Doc
	}
	return text
}
