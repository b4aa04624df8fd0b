package measure

import (
	"math"
	"slices"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// accumulator is a filter's state in one window. It is used again for the next one of
// the same key, and of another key unless the function continues.
type accumulator interface {
	// add takes a value that is there, of the column's type.
	add(v Value)
	// emit appends the columns, and reports whether a number did not fit.
	emit(row Sample) (Sample, bool)
	reset()
}

// newAccumulator trusts that the filter suits the column, of which it makes the fields.
func newAccumulator(f Filter, column Field, fields []Field) accumulator {
	if d, ok := f.Function.definition(); ok {
		return &foreign{state: d.New(column, slices.Clone(f.Numbers)), fields: fields}
	}
	t := column.Type
	switch f.Function {
	case First, Last:
		return &held{last: f.Function == Last}
	case Min, Max:
		return &extreme{max: f.Function == Max}
	case Sum, Avg:
		return &summer{input: t, mean: f.Function == Avg}
	case Variance, StdDev:
		return &spread{root: f.Function == StdDev}
	case Delta:
		return &delta{}
	case Quantiles:
		return newQuantiles(f.Quantiles)
	case Histogram:
		if len(f.Bounds) > 0 {
			return newBounded(f.Bounds)
		}
		return &logLinear{}
	}
	return &counter{}
}

type counter struct{ n uint64 }

func (c *counter) add(Value)                      { c.n++ }
func (c *counter) emit(row Sample) (Sample, bool) { return append(row, Uint64Value(c.n)), false }
func (c *counter) reset()                         { c.n = 0 }

// held is first and last. It copies what the sample may change later.
type held struct {
	last  bool
	value Value
	bytes []byte
	list  []uint64
}

func (k *held) add(v Value) {
	if !k.last && !k.value.IsNull() {
		return
	}
	k.value = v.copyTo(&k.bytes, &k.list)
}

func (k *held) emit(row Sample) (Sample, bool) { return append(row, k.value), false }
func (k *held) reset()                         { k.value = Value{} }

// copyTo is the value with its bytes and list in room that is kept.
func (v Value) copyTo(bytes *[]byte, list *[]uint64) Value {
	*bytes = append((*bytes)[:0], v.bytes...)
	*list = append((*list)[:0], v.list...)
	v.bytes, v.list = *bytes, *list
	return v
}

// extreme is min and max.
type extreme struct {
	max   bool
	value Value
}

func (e *extreme) add(v Value) {
	if e.value.IsNull() || e.max && less(e.value, v) || !e.max && less(v, e.value) {
		e.value = v
	}
}

func (e *extreme) emit(row Sample) (Sample, bool) { return append(row, e.value), false }
func (e *extreme) reset()                         { e.value = Value{} }

// less compares two numbers of one type.
func less(a, b Value) bool {
	switch a.kind {
	case Float64:
		return a.Float64() < b.Float64()
	case Uint32, Uint64, Bool:
		return a.number < b.number
	}
	return int64(a.number) < int64(b.number)
}

// summer is sum and avg. Whole numbers are summed in 128 bits, which 2^63 values
// do not overflow; float64 with Neumaier's compensation.
type summer struct {
	input       Type
	mean        bool
	n           uint64
	exact       decimal128.Num
	float, rest float64
}

func (s *summer) add(v Value) {
	s.n++
	switch v.kind {
	case Float64:
		x := v.Float64()
		sum := s.float + x
		if math.Abs(s.float) >= math.Abs(x) {
			s.rest += (s.float - sum) + x
		} else {
			s.rest += (x - sum) + s.float
		}
		s.float = sum
	case Int32, Int64:
		s.exact = s.exact.Add(decimal128.FromI64(int64(v.number)))
	default:
		s.exact = s.exact.Add(decimal128.FromU64(v.number))
	}
}

func (s *summer) emit(row Sample) (Sample, bool) {
	if s.input == Float64 {
		sum := s.float
		if compensated := sum + s.rest; !math.IsInf(sum, 0) && !math.IsNaN(compensated) {
			sum = compensated
		}
		if s.mean {
			return append(row, quotient(sum, s.n)), false
		}
		return append(row, Float64Value(sum)), false
	}
	if s.mean {
		return append(row, quotient(s.exact.ToFloat64(0), s.n)), false
	}
	if sumType(s.input) == Int64 {
		sum := within(s.exact, decimal128.FromI64(math.MinInt64), decimal128.FromI64(math.MaxInt64))
		return append(row, Int64Value(int64(sum.LowBits()))), sum != s.exact
	}
	sum := within(s.exact, decimal128.Num{}, decimal128.FromU64(math.MaxUint64))
	return append(row, Uint64Value(sum.LowBits())), sum != s.exact
}

// within is the nearest number between two bounds.
func within(n, least, largest decimal128.Num) decimal128.Num {
	return decimal128.Max(least, decimal128.Min(n, largest))
}

func quotient(sum float64, n uint64) Value {
	if n == 0 {
		return Value{}
	}
	return Float64Value(sum / float64(n))
}

func (s *summer) reset() { *s = summer{input: s.input, mean: s.mean} }

// spread is variance and stddev. Values are taken relative to the first, exactly:
// times since 1970, as float64, would lose the nanoseconds that they differ by.
type spread struct {
	root       bool
	n          uint64
	first      Value
	mean, sums float64
}

func (s *spread) add(v Value) {
	if s.n == 0 {
		s.first = v
	}
	s.n++
	x := difference(v, s.first)
	before := x - s.mean
	s.mean += before / float64(s.n)
	s.sums += before * (x - s.mean)
}

// difference of two numbers of one type: exact but for the last rounding.
func difference(a, b Value) float64 {
	switch {
	case a.kind == Float64:
		return a.Float64() - b.Float64()
	case less(a, b):
		return -float64(b.number - a.number)
	}
	return float64(a.number - b.number)
}

func (s *spread) emit(row Sample) (Sample, bool) {
	if s.n < 2 {
		return append(row, Value{}), false
	}
	variance := s.sums / float64(s.n-1)
	if s.root {
		variance = math.Sqrt(variance)
	}
	return append(row, Float64Value(variance)), false
}

func (s *spread) reset() { *s = spread{root: s.root} }

// delta remembers the last value of the window before; 0 before the first.
type delta struct{ before, last Value }

func (d *delta) add(v Value) { d.last = v }

func (d *delta) emit(row Sample) (Sample, bool) {
	last, before := d.last, d.before
	if last.IsNull() {
		return append(row, Value{}), false
	}
	before.kind = last.kind
	if last.kind == Float64 {
		return append(row, Float64Value(last.Float64()-before.Float64())), false
	}
	size := last.number - before.number
	if less(last, before) {
		if size = -size; size > 1<<63 {
			return append(row, Int64Value(math.MinInt64)), true
		}
		return append(row, Int64Value(int64(-size))), false
	}
	if size > math.MaxInt64 {
		return append(row, Int64Value(math.MaxInt64)), true
	}
	return append(row, Int64Value(int64(size))), false
}

func (d *delta) reset() {
	if !d.last.IsNull() {
		d.before = d.last
	}
	d.last = Value{}
}

// What a sketch promises, and its bound: 2048 buckets of 2 % are a factor of 4e17.
const (
	sketchAccuracy = 0.01
	sketchBuckets  = 2048
)

type quantiles struct {
	at       []float64
	sketch   *ddsketch.DDSketch
	min, max float64
	// Infinities have no bucket, and the least values would be merged for them.
	below, above float64
}

func newQuantiles(at []float64) *quantiles {
	sketch, err := ddsketch.LogCollapsingLowestDenseDDSketch(sketchAccuracy, sketchBuckets)
	if err != nil {
		panic("make sketch: " + err.Error()) // of constants alone
	}
	q := &quantiles{at: slices.Clone(at), sketch: sketch}
	q.reset()
	return q
}

func (q *quantiles) add(v Value) {
	x, _ := v.Number()
	q.min, q.max = min(q.min, x), max(q.max, x)
	if err := q.sketch.Add(x); err != nil && x < 0 { // beyond the sketch's last bucket
		q.below++
	} else if err != nil {
		q.above++
	}
}

func (q *quantiles) emit(row Sample) (Sample, bool) {
	for _, at := range q.at {
		row = append(row, q.value(at))
	}
	return row, false
}

func (q *quantiles) value(at float64) Value {
	inside := q.sketch.GetCount()
	n := q.below + inside + q.above
	if n == 0 {
		return Value{}
	}
	rank := at*(n-1) - q.below
	switch {
	case rank < 0:
		return Float64Value(q.min)
	case rank >= inside:
		return Float64Value(q.max)
	case q.below+q.above > 0:
		at = min(rank/max(inside-1, 1), 1)
	}
	x, err := q.sketch.GetValueAtQuantile(at)
	if err != nil { // it is not empty, and at is from 0 to 1
		return Value{}
	}
	return Float64Value(min(max(x, q.min), q.max))
}

func (q *quantiles) reset() {
	q.below, q.above = 0, 0
	q.sketch.Clear()
	q.min, q.max = math.Inf(1), math.Inf(-1)
}
