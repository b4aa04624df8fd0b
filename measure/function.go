package measure

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Definition is a filter function that a program adds to the functions of this package:
// Register makes it known to ParseFilter, and thus to the configuration of agents.
type Definition struct {
	// Doc is a short description for users.
	Doc string
	// Outputs are the columns that the function makes of a column, without the
	// column's name, which precedes each with an underscore; an empty name stands for
	// the function's. An error means that the function does not suit the column or the
	// numbers. It is called whenever a pipeline is planned, so it must not depend on
	// anything else.
	Outputs func(column Field, numbers []float64) ([]Field, error)
	// New returns the state of one group of samples, used for one window after another.
	New func(column Field, numbers []float64) Accumulator
}

// Accumulator is the state of a filter. Its methods are called by one goroutine at a
// time.
type Accumulator interface {
	// Add takes a value of the column's type, never null or NaN. It may not keep the
	// value's bytes or list.
	Add(v Value)
	// Emit appends a value, or null, for each output at the end of a window. A window
	// has at least one sample, but possibly no value.
	Emit(row Sample) Sample
	// Reset begins the next window.
	Reset()
}

// ErrFunction marks an invalid definition of a function.
var ErrFunction = errors.New("invalid filter function")

// numbersMax bounds the numbers of a registered function.
const numbersMax = 32

// standardFunctions are those that cannot be redefined.
var standardFunctions = []Function{First, Last, Count, Sum, Avg, Min, Max, Variance, StdDev, Delta, Quantiles, Histogram}

var functionPattern = regexp.MustCompile(`^[a-z]{1,32}$`)

var registered = struct {
	sync.RWMutex
	functions map[Function]Definition
}{functions: map[Function]Definition{}}

// Register adds a function, usually from an init function of the package that defines
// it. Its name consists of up to 32 lower-case letters.
func Register(name Function, d Definition) error {
	registered.Lock()
	defer registered.Unlock()
	_, known := registered.functions[name]
	switch {
	case !functionPattern.MatchString(string(name)):
		return fmt.Errorf("register filter function %q: %w: use 1 to 32 lower-case letters", name, ErrFunction)
	case known || slices.Contains(standardFunctions, name):
		return fmt.Errorf("register filter function %q: %w: the name is taken", name, ErrFunction)
	case d.Outputs == nil || d.New == nil:
		return fmt.Errorf("register filter function %q: %w: Outputs and New are required", name, ErrFunction)
	}
	registered.functions[name] = d
	return nil
}

// Functions are the names of all functions: first this package's, then the registered
// ones in alphabetical order.
func Functions() []Function {
	registered.RLock()
	defer registered.RUnlock()
	return append(slices.Clone(standardFunctions), slices.Sorted(maps.Keys(registered.functions))...)
}

// definition finds a registered function.
func (f Function) definition() (Definition, bool) {
	registered.RLock()
	defer registered.RUnlock()
	d, ok := registered.functions[f]
	return d, ok
}

// outputs are the columns that a registered function makes of a column.
func (d Definition) outputs(f Filter, column Field) ([]Field, error) {
	fields, err := d.Outputs(column, slices.Clone(f.Numbers))
	if err != nil {
		return nil, fmt.Errorf("%w: %v: %w", ErrFilter, f, err)
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("%w: %v has no outputs", ErrFilter, f)
	}
	fields = slices.Clone(fields)
	for i := range fields {
		name := fields[i].Name
		if name == "" {
			name = string(f.Function)
		}
		fields[i].Name = column.Name + "_" + name
		if fields[i].Doc == "" {
			fields[i].Doc = describe(strings.ReplaceAll(name, "_", " "), &column)
		}
	}
	return fields, nil
}

// foreign is the accumulator of a registered function. A row that does not have the
// types that the function promised would break the batch, so its values become null.
type foreign struct {
	state  Accumulator
	fields []Field
}

func (a *foreign) add(v Value) { a.state.Add(v) }

func (a *foreign) emit(row Sample) (Sample, bool) {
	before := len(row)
	row = a.state.Emit(row)
	fits := len(row) == before+len(a.fields)
	for i := 0; fits && i < len(a.fields); i++ {
		v := row[before+i]
		fits = v.kind == 0 || v.kind == a.fields[i].Type && (v.kind != String || utf8.ValidString(v.text))
	}
	if fits {
		return row, false
	}
	return append(row[:before], make(Sample, len(a.fields))...), true
}

func (a *foreign) reset() { a.state.Reset() }

// Smoothed is the registered function ewma: an exponentially weighted moving average,
// average += weight * (value - average), which continues over windows. RFC 3550 defines
// jitter with it, with a weight of 1/16.
const Smoothed Function = "ewma"

// Jitter is the registered function jitter of RFC 3550, of a column of transit times: the
// average, with a weight of 1/16, of the absolute differences of consecutive values. Like
// Smoothed it continues over windows. Clocks that differ by a constant do not matter.
const Jitter Function = "jitter"

// weightDefault is the gain of RFC 3550, 6.4.1.
const weightDefault = 1.0 / 16

func init() {
	err := Register(Jitter, Definition{
		Doc: "jitter of transit times as in RFC 3550",
		Outputs: func(column Field, numbers []float64) ([]Field, error) {
			if len(numbers) > 0 {
				return nil, errors.New("it takes no number")
			}
			return numeric(column)
		},
		New: func(Field, []float64) Accumulator {
			return &jitter{smoothed: smoothed{weight: weightDefault}}
		},
	})
	if err != nil {
		panic(err) // of constants alone
	}
	err = Register(Smoothed, Definition{
		Doc: "exponentially weighted moving average; the number is the weight of a new value, default 1/16",
		Outputs: func(column Field, numbers []float64) ([]Field, error) {
			if len(numbers) > 1 || len(numbers) == 1 && !(numbers[0] > 0 && numbers[0] <= 1) {
				return nil, errors.New("use one weight above 0, at most 1")
			}
			return numeric(column)
		},
		New: func(_ Field, numbers []float64) Accumulator {
			s := &smoothed{weight: weightDefault, average: math.NaN()}
			if len(numbers) == 1 {
				s.weight = numbers[0]
			}
			return s
		},
	})
	if err != nil {
		panic(err) // of constants alone
	}
}

// numeric is the output of a function that makes a number of numbers.
func numeric(column Field) ([]Field, error) {
	if column.Type != Float64 && !whole(column.Type) {
		return nil, fmt.Errorf("column %q is %v", column.Name, column.Type)
	}
	return []Field{{Type: Float64, Unit: column.Unit}}, nil
}

type jitter struct {
	smoothed
	before float64
	any    bool
}

func (j *jitter) Add(v Value) {
	x, _ := v.Number()
	if j.any { // the average begins at 0
		j.average += j.weight * (math.Abs(x-j.before) - j.average)
	}
	j.before, j.any = x, true
}

func (j *jitter) Emit(row Sample) Sample {
	if !j.any {
		return append(row, Value{})
	}
	return append(row, Float64Value(j.average))
}

type smoothed struct{ weight, average float64 }

func (s *smoothed) Add(v Value) {
	x, _ := v.Number()
	if math.IsNaN(s.average) {
		s.average = x
		return
	}
	s.average += s.weight * (x - s.average)
}

func (s *smoothed) Emit(row Sample) Sample {
	if math.IsNaN(s.average) {
		return append(row, Value{})
	}
	return append(row, Float64Value(s.average))
}

// Reset keeps the average, which continues in the next window.
func (s *smoothed) Reset() {}
