package clickhouse

import (
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/shopspring/decimal"
)

// batchRows is the most rows of a record batch of a result: columns of a few kilobytes each fit into the
// processor's cache.
const batchRows = 1024

// result turns rows of the driver into record batches.
type result struct {
	rows    driver.Rows
	builder *array.RecordBuilder
	columns []resultColumn
	targets []any
	// passed: a record batch has been passed on.
	passed bool
}

// resultColumn reads the values of one column.
type resultColumn struct {
	// builder is nil of a column that says whether the next one is null.
	builder array.Builder
	// target is a pointer to a pointer to a value, nil for null.
	target reflect.Value
	append func(value any) error
}

// newResult reads rows into columns of the types of want, if it is given. Then columns with
// nullPrefix say of the ones after them which values are null.
func newResult(rows driver.Rows, want *arrow.Schema) (*result, error) {
	types := rows.ColumnTypes()
	schema := want
	if schema == nil {
		fields := make([]arrow.Field, len(types))
		for i, t := range types {
			fields[i] = arrow.Field{Name: t.Name(), Type: arrowType(t.DatabaseTypeName()), Nullable: true}
		}
		schema = arrow.NewSchema(fields, nil)
	}
	r := &result{rows: rows, builder: array.NewRecordBuilder(memory.DefaultAllocator, schema)}
	field := 0
	for _, t := range types {
		kind := t.ScanType()
		for kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		c := resultColumn{target: reflect.New(kind)}
		if nullable(t.DatabaseTypeName()) {
			c.target = reflect.New(reflect.PointerTo(kind))
		}
		if want == nil || !strings.HasPrefix(t.Name(), nullPrefix) {
			c.builder = r.builder.Field(field)
			c.append = appender(c.builder)
			field++
		}
		r.columns, r.targets = append(r.columns, c), append(r.targets, c.target.Interface())
	}
	return r, nil
}

func (r *result) release() { r.builder.Release() }

// next returns the next rows, none at the end. The caller releases them.
func (r *result) next() (arrow.RecordBatch, error) {
	n := 0
	for n < batchRows && r.rows.Next() {
		if err := r.rows.Scan(r.targets...); err != nil {
			return nil, fmt.Errorf("read rows of result: %w", err)
		}
		null := false
		for i := range r.columns {
			if err := r.columns[i].read(&null); err != nil {
				return nil, fmt.Errorf("read column %q of result: %w", r.rows.Columns()[i], err)
			}
		}
		n++
	}
	if err := r.rows.Err(); err != nil {
		return nil, err
	}
	return r.builder.NewRecordBatch(), nil
}

// read appends the value of a row. null is what the column before said of it.
func (c *resultColumn) read(null *bool) error {
	value := c.target.Elem()
	if c.builder == nil {
		*null = value.Uint() != 0
		return nil
	}
	if *null || value.Kind() == reflect.Pointer && value.IsNil() {
		*null = false
		c.builder.AppendNull()
		return nil
	}
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	return c.append(value.Interface())
}

var (
	wrapped    = regexp.MustCompile(`^(?:LowCardinality|Nullable)\((.*)\)$`)
	listed     = regexp.MustCompile(`^Array\((.*)\)$`)
	decimals   = regexp.MustCompile(`^Decimal\((\d+), ?(\d+)\)$`)
	timestamps = regexp.MustCompile(`^DateTime(?:64)?(?:\(|$)`)
)

func nullable(name string) bool {
	return strings.HasPrefix(name, "Nullable(") || strings.HasPrefix(name, "LowCardinality(Nullable(")
}

var flatTypes = map[string]arrow.DataType{
	"Bool": arrow.FixedWidthTypes.Boolean,
	"Int8": arrow.PrimitiveTypes.Int8, "Int16": arrow.PrimitiveTypes.Int16, "Int32": arrow.PrimitiveTypes.Int32, "Int64": arrow.PrimitiveTypes.Int64,
	"UInt8": arrow.PrimitiveTypes.Uint8, "UInt16": arrow.PrimitiveTypes.Uint16, "UInt32": arrow.PrimitiveTypes.Uint32, "UInt64": arrow.PrimitiveTypes.Uint64,
	"Float32": arrow.PrimitiveTypes.Float32, "Float64": arrow.PrimitiveTypes.Float64, "Date": arrow.FixedWidthTypes.Date32, "Date32": arrow.FixedWidthTypes.Date32,
}

// arrowType is the type of a column of a result. What Arrow has no type for is text.
func arrowType(name string) arrow.DataType {
	for {
		inner := wrapped.FindStringSubmatch(name)
		if inner == nil {
			break
		}
		name = inner[1]
	}
	if t := flatTypes[name]; t != nil {
		return t
	}
	if inner := listed.FindStringSubmatch(name); inner != nil {
		return arrow.ListOf(arrowType(inner[1]))
	}
	if sizes := decimals.FindStringSubmatch(name); sizes != nil {
		precision, _ := strconv.Atoi(sizes[1])
		scale, _ := strconv.Atoi(sizes[2])
		if precision <= 38 {
			return &arrow.Decimal128Type{Precision: int32(precision), Scale: int32(scale)}
		}
	}
	if timestamps.MatchString(name) {
		return &arrow.TimestampType{Unit: arrow.Nanosecond}
	}
	return arrow.BinaryTypes.String
}

// appender returns how a value of the driver is appended, in the type of the builder.
func appender(to array.Builder) func(value any) error {
	switch b := to.(type) {
	case *array.BooleanBuilder:
		return appendTo(func(v bool) { b.Append(v) }, func(v any) (bool, bool) { n, is := v.(uint8); return n != 0, is })
	case *array.Int8Builder:
		return appendTo(b.Append, nil)
	case *array.Int16Builder:
		return appendTo(b.Append, nil)
	case *array.Int32Builder:
		return appendTo(b.Append, nil)
	case *array.Int64Builder:
		return appendTo(b.Append, nil)
	case *array.Uint8Builder:
		return appendTo(b.Append, nil)
	case *array.Uint16Builder:
		return appendTo(b.Append, nil)
	case *array.Uint32Builder:
		return appendTo(b.Append, nil)
	case *array.Uint64Builder:
		return appendTo(b.Append, nil)
	case *array.Float32Builder:
		return appendTo(b.Append, nil)
	case *array.Float64Builder:
		return appendTo(b.Append, nil)
	case *array.Date32Builder:
		return appendTo(func(v time.Time) { b.Append(arrow.Date32FromTime(v)) }, nil)
	case *array.TimestampBuilder:
		return appendTo(func(v time.Time) { b.Append(arrow.Timestamp(v.UnixNano())) }, func(v any) (time.Time, bool) { n, is := v.(int64); return time.Unix(0, n), is })
	case *array.Decimal128Builder:
		scale := b.Type().(*arrow.Decimal128Type).Scale
		return appendTo(func(v decimal.Decimal) { b.Append(decimal128.FromBigInt(unscaled(v, scale))) }, nil)
	case *array.BinaryBuilder:
		return appendTo(func(v string) { b.Append([]byte(v)) }, nil)
	case *array.ListBuilder:
		element := appender(b.ValueBuilder())
		return func(value any) error {
			b.Append(true)
			return appendList(b.ValueBuilder(), element, reflect.ValueOf(value))
		}
	case *array.StringBuilder:
		return func(value any) error {
			b.Append(textOf(value))
			return nil
		}
	}
	return func(any) error { return fmt.Errorf("no values of type %v", to.Type()) }
}

// appendTo appends values of type T, and those that convert turns into it.
func appendTo[T any](put func(T), convert func(any) (T, bool)) func(any) error {
	return func(value any) error {
		v, is := value.(T)
		if !is && convert != nil {
			v, is = convert(value)
		}
		if !is {
			return fmt.Errorf("value of type %T", value)
		}
		put(v)
		return nil
	}
}

func appendList(to array.Builder, put func(any) error, list reflect.Value) error {
	if list.Kind() != reflect.Slice {
		return fmt.Errorf("value of type %v", list.Type())
	}
	switch b := to.(type) {
	case *array.Int64Builder:
		if all, is := list.Interface().([]int64); is {
			b.AppendValues(all, nil)
			return nil
		}
	case *array.Uint64Builder:
		if all, is := list.Interface().([]uint64); is {
			b.AppendValues(all, nil)
			return nil
		}
	}
	for i := range list.Len() {
		value := list.Index(i)
		if value.Kind() == reflect.Pointer {
			if value.IsNil() {
				to.AppendNull()
				continue
			}
			value = value.Elem()
		}
		if err := put(value.Interface()); err != nil {
			return err
		}
	}
	return nil
}

// unscaled is the integer that a decimal is at a scale.
func unscaled(v decimal.Decimal, scale int32) *big.Int { return v.Shift(scale).BigInt() }

// textOf is a value as ClickHouse would print it, as far as Go's text is the same.
func textOf(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case fmt.Stringer:
		return v.String()
	}
	return fmt.Sprint(value)
}
