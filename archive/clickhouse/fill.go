package clickhouse

import (
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/measure"
)

// filler appends Arrow columns to the columns of one block. Equal texts of a column of type
// LowCardinality share one string, which the driver looks up by its address.
type filler struct{ texts map[string]*string }

// fill appends a column of Arrow; nil stands for rows of nulls.
func (f *filler) fill(to column.Interface, from arrow.Array, rows int) error {
	var err error
	switch c := from.(type) {
	case nil:
		for range rows {
			if err := to.AppendRow(nil); err != nil {
				return err
			}
		}
	case *array.Boolean:
		_, err = to.Append(bits(c))
	case *array.Int32:
		_, err = to.Append(pointers(c.Values(), c))
	case *array.Uint32:
		_, err = to.Append(pointers(c.Values(), c))
	case *array.Int64:
		_, err = to.Append(pointers(c.Values(), c))
	case *array.Uint64:
		_, err = to.Append(pointers(c.Values(), c))
	case *array.Float64:
		_, err = to.Append(pointers(c.Values(), c))
	case *array.Timestamp:
		_, err = to.Append(pointers(arrow.Int64Traits.CastFromBytes(arrow.TimestampTraits.CastToBytes(c.Values())), c))
	case *array.String:
		_, err = to.Append(f.strings(c, to))
	case *array.Binary:
		values := make([]*string, c.Len())
		for i := range values {
			if c.IsValid(i) {
				text := string(c.Value(i))
				values[i] = &text
			}
		}
		_, err = to.Append(values)
	default:
		err = fmt.Errorf("%w: a column of %v", measure.ErrBatch, from.DataType())
	}
	return err
}

// pointers are the values of a column, nil for nulls.
func pointers[T any](values []T, column arrow.Array) []*T {
	all := make([]*T, len(values))
	if column.NullN() == 0 {
		for i := range values {
			all[i] = &values[i]
		}
		return all
	}
	for i := range values {
		if column.IsValid(i) {
			all[i] = &values[i]
		}
	}
	return all
}

func bits(c *array.Boolean) []*uint8 {
	no, yes := uint8(0), uint8(1)
	all := make([]*uint8, c.Len())
	for i := range all {
		if c.IsValid(i) {
			all[i] = &no
			if c.Value(i) {
				all[i] = &yes
			}
		}
	}
	return all
}

func (f *filler) strings(c *array.String, to column.Interface) []*string {
	all := make([]*string, c.Len())
	if _, dictionary := to.(*column.LowCardinality); !dictionary {
		texts := make([]string, c.Len())
		for i := range all {
			if c.IsValid(i) {
				texts[i] = c.Value(i)
				all[i] = &texts[i]
			}
		}
		return all
	}
	var last *string
	for i := range all {
		if c.IsNull(i) {
			continue
		}
		if text := c.Value(i); last == nil || text != *last {
			last = f.text(text)
		}
		all[i] = last
	}
	return all
}

// text is the one string that stands for a text.
func (f *filler) text(text string) *string {
	one := f.texts[text]
	if one == nil {
		one = &text
		f.texts[text] = one
	}
	return one
}

// lists appends a column of lists and the column that says which of them are null. A null
// in a list becomes 0.
func (f *filler) lists(to, nulls column.Interface, from arrow.Array, rows int) error {
	lists, present := from.(*array.List)
	for i := range rows {
		null := uint8(0)
		if !present || lists.IsNull(i) {
			null = 1
		}
		if err := nulls.AppendRow(null); err != nil {
			return err
		}
	}
	if !present {
		for range rows {
			if err := to.AppendRow([]int64{}); err != nil {
				return err
			}
		}
		return nil
	}
	signed, _ := lists.ListValues().(*array.Int64)
	unsigned, _ := lists.ListValues().(*array.Uint64)
	for i := range rows {
		start, end := lists.ValueOffsets(i)
		if lists.IsNull(i) {
			start, end = 0, 0
		}
		var err error
		switch {
		case signed != nil:
			err = to.AppendRow(signed.Values()[start:end])
		case unsigned != nil:
			err = to.AppendRow(unsigned.Values()[start:end])
		default:
			err = fmt.Errorf("%w: a list of %v", measure.ErrBatch, lists.ListValues().DataType())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// repeat appends one value to a column.
func repeat[T any](to column.Interface, value T, rows int) error {
	all := make([]T, rows)
	for i := range all {
		all[i] = value
	}
	_, err := to.Append(all)
	return err
}
