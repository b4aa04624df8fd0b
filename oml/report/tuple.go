package report

import (
	"math"
	"time"

	"pillion.dev/measure"
	"pillion.dev/oml/omsp"
)

var types = map[measure.Type]omsp.Type{
	measure.Bool: omsp.Bool, measure.Int32: omsp.Int32, measure.Uint32: omsp.Uint32, measure.Int64: omsp.Int64,
	measure.Uint64: omsp.Uint64, measure.Float64: omsp.Double, measure.String: omsp.String, measure.Binary: omsp.Blob,
	measure.Time: omsp.Int64, measure.Int64List: omsp.Int64 | omsp.Vector, measure.Uint64List: omsp.Uint64 | omsp.Vector,
}

// guid is the unit of identifier columns.
const guid = "guid"

func typeOf(f measure.Field) omsp.Type {
	if f.Type == measure.Uint64 && f.Unit == guid {
		return omsp.GUID
	}
	return types[f.Type]
}

// tableOf is the OMSP schema of a point. The first column becomes the tuples' time.
func tableOf(index int, schema *measure.Schema) omsp.Schema {
	s := omsp.Schema{Index: index, Name: schema.Name}
	for _, f := range schema.Fields[1:] {
		s.Fields = append(s.Fields, omsp.Field{Name: f.Name, Type: typeOf(f)})
	}
	return s
}

// fill sets the values of a tuple and returns its time. OMSP has no nulls: they become
// NaN for floats, otherwise zero or empty.
func fill(values *[]omsp.Value, schema *measure.Schema, sample measure.Sample) time.Time {
	if n := len(schema.Fields) - 1; cap(*values) < n {
		*values = make([]omsp.Value, n)
	} else {
		*values = (*values)[:n]
	}
	for i, f := range schema.Fields[1:] {
		v, from := &(*values)[i], sample[i+1]
		switch t := typeOf(f); {
		case t == omsp.String:
			v.SetString(from.Text())
		case t == omsp.Blob:
			v.SetBlob(from.Bytes())
		case t == omsp.Bool:
			v.SetBool(from.Bool())
		case t.IsVector():
			v.SetElements(t, from.List())
		case t == omsp.Double && from.IsNull():
			v.SetDouble(math.NaN())
		case t == omsp.Double:
			v.SetDouble(from.Float64())
		case t == omsp.Int32, t == omsp.Int64:
			v.SetInt(t, from.Int64())
		default:
			v.SetUint(t, from.Uint64())
		}
	}
	return sample[0].Time()
}
