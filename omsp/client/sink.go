package client

import (
	"fmt"
	"math"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/measure"
	"pillion.dev/omsp"
)

var types = map[measure.Type]omsp.Type{
	measure.Bool: omsp.Bool, measure.Int32: omsp.Int32, measure.Uint32: omsp.Uint32, measure.Int64: omsp.Int64,
	measure.Uint64: omsp.Uint64, measure.Float64: omsp.Double, measure.String: omsp.String, measure.Binary: omsp.Blob,
	measure.Time: omsp.Int64, measure.Int64List: omsp.Int64 | omsp.Vector, measure.Uint64List: omsp.Uint64 | omsp.Vector,
}

// Sink sends the rows of a stream of package measure as tuples of a point with the
// stream's name; the first column is the tuples' time. OML has no nulls: they become
// NaN for floats, zero or empty for others. Times are ns since 1970.
func (c *Client) Sink(schema *measure.Schema) (measure.BatchSink, error) {
	if err := schema.Validate(); err != nil {
		return nil, err
	}
	var fields []omsp.Field
	for _, f := range schema.Fields[1:] {
		fields = append(fields, omsp.Field{Name: f.Name, Type: types[f.Type]})
	}
	p, err := c.Point(schema.Name, fields...)
	if err != nil {
		return nil, err
	}
	values := make([]omsp.Value, len(fields))
	return func(_ *measure.Schema, record arrow.RecordBatch) error {
		if int(record.NumCols()) != len(fields)+1 {
			return fmt.Errorf("report %s: %w: %d columns, not %d", schema.Name, ErrValue, record.NumCols(), len(fields)+1)
		}
		dropped := 0
		for i := range int(record.NumRows()) {
			for j := range fields {
				set(&values[j], fields[j].Type, record.Column(j+1), i)
			}
			at := time.Unix(0, int64(record.Column(0).(*array.Timestamp).Value(i)))
			if err := p.InjectAt(at, values); err == ErrDropped {
				dropped++
			} else if err != nil {
				return fmt.Errorf("report %s: %w", schema.Name, err)
			}
		}
		if dropped > 0 {
			return fmt.Errorf("report %s: %d rows: %w", schema.Name, dropped, ErrDropped)
		}
		return nil
	}, nil
}

// set sets a value from a column.
func set(v *omsp.Value, t omsp.Type, column arrow.Array, i int) {
	null := column.IsNull(i)
	switch c := column.(type) {
	case *array.Boolean:
		v.SetBool(!null && c.Value(i))
	case *array.Float64:
		if v.SetDouble(math.NaN()); !null {
			v.SetDouble(c.Value(i))
		}
	case *array.String:
		v.SetString(c.Value(i))
	case *array.Binary:
		v.SetBlob(c.Value(i))
	case *array.List:
		v.SetElements(t, elements(c, i))
	default:
		setInteger(v, t, column, i, null)
	}
}

func setInteger(v *omsp.Value, t omsp.Type, column arrow.Array, i int, null bool) {
	var n uint64
	switch c := column.(type) {
	case *array.Int32:
		n = uint64(int64(c.Value(i)))
	case *array.Int64:
		n = uint64(c.Value(i))
	case *array.Timestamp:
		n = uint64(c.Value(i))
	case *array.Uint32:
		n = uint64(c.Value(i))
	case *array.Uint64:
		n = c.Value(i)
	}
	if null {
		n = 0
	}
	if t == omsp.Int32 || t == omsp.Int64 {
		v.SetInt(t, int64(n))
		return
	}
	v.SetUint(t, n)
}

func elements(list *array.List, i int) []uint64 {
	var all []uint64
	from, to := list.ValueOffsets(i)
	for k := int(from); k < int(to); k++ {
		switch c := list.ListValues().(type) {
		case *array.Int64:
			all = append(all, uint64(c.Value(k)))
		case *array.Uint64:
			all = append(all, c.Value(k))
		}
	}
	return all
}
