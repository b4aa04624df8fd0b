package duckdb

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	duckdb "github.com/duckdb/duckdb-go-bindings"

	"pillion.dev/measure"
)

// part is a series of rows for one table: an array for each column of the table, nil for
// a column of nulls.
type part struct {
	rows    int
	columns []arrow.Array
}

// stringBytes is the size of DuckDB's string_t: the length, then up to
// inlineBytes of text, or four bytes of it and a pointer.
const (
	stringBytes = 16
	inlineBytes = 12
)

// filler copies Arrow columns into chunks of DuckDB vectors, and these into a
// table. Small parts share a chunk.
//
// This takes unsafe copies; the experiment study/bench/fill.yaml shows what they are worth.
//
// Long strings are not copied into the chunk: it points into the Arrow buffers,
// which are pinned until the appender has made its own copy.
type filler struct {
	appender duckdb.Appender
	chunk    duckdb.DataChunk
	types    []measure.Type
	filled   int
	// listNulls: some list had a null, so the chunk's lists may hold stale marks.
	listNulls bool
	pins      runtime.Pinner
}

// appendParts appends parts to a table inside the running transaction.
func (c *connection) appendParts(schema, table string, types []measure.Type, parts []part) (err error) {
	f := &filler{types: types}
	defer f.pins.Unpin()
	defer duckdb.AppenderDestroy(&f.appender)
	if duckdb.AppenderCreate(c.raw, schema, table, &f.appender) == duckdb.StateError {
		return f.fault()
	}
	logical := make([]duckdb.LogicalType, len(types))
	for i, t := range types {
		logical[i] = logicalType(t)
	}
	f.chunk = duckdb.CreateDataChunk(logical)
	for i := range logical {
		duckdb.DestroyLogicalType(&logical[i])
	}
	defer duckdb.DestroyDataChunk(&f.chunk)
	size := int(duckdb.VectorSize())
	for i := range parts {
		for from := 0; from < parts[i].rows; {
			n := min(size-f.filled, parts[i].rows-from)
			if err := f.copy(&parts[i], from, n); err != nil {
				return err
			}
			from += n
			if f.filled += n; f.filled == size {
				if err := f.flush(); err != nil {
					return err
				}
			}
		}
	}
	if err := f.flush(); err != nil {
		return err
	}
	if duckdb.AppenderClose(f.appender) == duckdb.StateError {
		return f.fault()
	}
	return nil
}

func (f *filler) fault() error {
	data := duckdb.AppenderErrorData(f.appender)
	defer duckdb.DestroyErrorData(&data)
	return &sqlError{duckdb.ErrorDataErrorType(data), duckdb.ErrorDataMessage(data)}
}

func (f *filler) flush() error {
	if f.filled == 0 {
		return nil
	}
	duckdb.DataChunkSetSize(f.chunk, duckdb.IdxT(f.filled))
	if duckdb.AppendDataChunk(f.appender, f.chunk) == duckdb.StateError {
		return f.fault()
	}
	f.pins.Unpin()
	f.filled = 0
	duckdb.DataChunkReset(f.chunk)
	return nil
}

func (f *filler) copy(p *part, from, n int) error {
	for i, column := range p.columns {
		vector := duckdb.DataChunkGetVector(f.chunk, duckdb.IdxT(i))
		if column == nil {
			setNulls(vector, f.filled, n, func(int) bool { return true })
			continue
		}
		if t := f.types[i]; t == measure.Int64List || t == measure.Uint64List {
			if err := f.copyLists(vector, column.(*array.List), from, n); err != nil {
				return err
			}
		} else {
			f.copyFlat(vector, t, column, f.filled, from, n)
		}
		if column.NullN() > 0 {
			setNulls(vector, f.filled, n, func(k int) bool { return column.IsNull(from + k) })
		}
	}
	return nil
}

// copyFlat copies n values from position from of a column to position at.
func (f *filler) copyFlat(vector duckdb.Vector, t measure.Type, column arrow.Array, at, from, n int) {
	if n == 0 {
		return // a column without values may lack its buffers
	}
	data := duckdb.VectorGetData(vector)
	switch t {
	case measure.Bool:
		values, out := column.(*array.Boolean), unsafe.Slice((*bool)(data), at+n)
		for k := range n {
			out[at+k] = values.Value(from + k)
		}
	case measure.String:
		f.copyStrings(data, at, measure.TextOf(column), column.(*array.String).ValueOffsets()[from:from+n+1])
	case measure.Binary:
		f.copyStrings(data, at, measure.TextOf(column), column.(*array.Binary).ValueOffsets()[from:from+n+1])
	default:
		width := t.Width()
		out := unsafe.Slice((*byte)(data), (at+n)*width)
		start := (column.Data().Offset() + from) * width
		copy(out[at*width:], column.Data().Buffers()[1].Bytes()[start:start+n*width])
	}
}

func (f *filler) copyStrings(data unsafe.Pointer, at int, text []byte, offsets []int32) {
	out := unsafe.Slice((*byte)(data), (at+len(offsets)-1)*stringBytes)
	if len(text) > 0 {
		f.pins.Pin(&text[0])
	}
	for k := range len(offsets) - 1 {
		putString(out[(at+k)*stringBytes:], text[offsets[k]:offsets[k+1]])
	}
}

// putString writes one string_t, which points to the text if that is long.
func putString(out, text []byte) {
	out = out[:stringBytes]
	clear(out)
	binary.NativeEndian.PutUint32(out, uint32(len(text)))
	if len(text) <= inlineBytes {
		copy(out[4:], text)
		return
	}
	copy(out[4:8], text)
	binary.NativeEndian.PutUint64(out[8:], uint64(uintptr(unsafe.Pointer(&text[0]))))
}

func (f *filler) copyLists(vector duckdb.Vector, lists *array.List, from, n int) error {
	size := int(duckdb.ListVectorGetSize(vector))
	if f.filled == 0 {
		size = 0
	}
	first, _ := lists.ValueOffsets(from)
	_, last := lists.ValueOffsets(from + n - 1)
	grown := size + int(last-first)
	if duckdb.ListVectorReserve(vector, duckdb.IdxT(grown)) == duckdb.StateError ||
		duckdb.ListVectorSetSize(vector, duckdb.IdxT(grown)) == duckdb.StateError {
		return fmt.Errorf("append list of %d values: rejected by DuckDB", grown)
	}
	child, values := duckdb.ListVectorGetChild(vector), lists.ListValues()
	f.copyFlat(child, measure.Int64, values, size, int(first), int(last-first))
	// A chunk that is used again may have marks of nulls in its lists.
	f.listNulls = f.listNulls || values.NullN() > 0
	if f.listNulls {
		setNulls(child, size, int(last-first), func(k int) bool { return values.IsNull(int(first) + k) })
	}
	out := unsafe.Slice((*[2]uint64)(duckdb.VectorGetData(vector)), f.filled+n)
	for k := range n {
		start, end := lists.ValueOffsets(from + k)
		out[f.filled+k] = [2]uint64{uint64(size) + uint64(start-first), uint64(end - start)}
	}
	return nil
}

// setNulls marks values of a vector as null or not.
func setNulls(vector duckdb.Vector, at, n int, null func(int) bool) {
	if n == 0 {
		return
	}
	duckdb.VectorEnsureValidityWritable(vector)
	mask := unsafe.Slice((*byte)(duckdb.VectorGetValidity(vector)), (at+n+7)/8)
	for k := range n {
		bitutil.SetBitTo(mask, at+k, !null(k))
	}
}
