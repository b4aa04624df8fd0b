package duckdb

/*
#include <stdint.h>
#include <stdlib.h>

// Only the functions that duckdb-go-bindings hides behind a build tag, so that a plain
// `go build` works. They are in the library that it links.
struct ArrowSchema {
	const char *format, *name, *metadata;
	int64_t flags, n_children;
	struct ArrowSchema **children, *dictionary;
	void (*release)(struct ArrowSchema *);
	void *private_data;
};
struct ArrowArray {
	int64_t length, null_count, offset, n_buffers, n_children;
	const void **buffers;
	struct ArrowArray **children, *dictionary;
	void (*release)(struct ArrowArray *);
	void *private_data;
};
extern void *duckdb_to_arrow_schema(void *options, void **types, const char **names, uint64_t count, struct ArrowSchema *out);
extern void *duckdb_data_chunk_to_arrow(void *options, void *chunk, struct ArrowArray *out);
*/
import "C"

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/cdata"
	"github.com/apache/arrow-go/v18/arrow/memory"
	duckdb "github.com/duckdb/duckdb-go-bindings"
)

// schema converts the chunks of one result to record batches.
type schema struct {
	options duckdb.ArrowOptions
	arrow   *arrow.Schema
	// wide is set if columns have UHUGEINT, which DuckDB calls a signed decimal of 128 bits: it has
	// those as decimals of 256 bits.
	wide *arrow.Schema
}

func (s *schema) free() { duckdb.DestroyArrowOptions(&s.options) }

func resultSchema(result *duckdb.Result) (*schema, error) {
	count := int(duckdb.ColumnCount(result))
	types := (*[1 << 16]unsafe.Pointer)(C.calloc(C.size_t(count+1), C.size_t(unsafe.Sizeof(uintptr(0)))))
	names := (*[1 << 16]*C.char)(C.calloc(C.size_t(count+1), C.size_t(unsafe.Sizeof(uintptr(0)))))
	out := (*C.struct_ArrowSchema)(C.calloc(1, C.sizeof_struct_ArrowSchema))
	defer func() {
		for i := range count {
			logical := duckdb.LogicalType{Ptr: types[i]}
			duckdb.DestroyLogicalType(&logical)
			C.free(unsafe.Pointer(names[i]))
		}
		C.free(unsafe.Pointer(types))
		C.free(unsafe.Pointer(names))
		C.free(unsafe.Pointer(out))
	}()
	for i := range count {
		types[i] = duckdb.ColumnLogicalType(result, duckdb.IdxT(i)).Ptr
		names[i] = C.CString(duckdb.ColumnName(result, duckdb.IdxT(i)))
	}
	s := &schema{options: duckdb.ResultGetArrowOptions(result)}
	failed := C.duckdb_to_arrow_schema(s.options.Ptr, (*unsafe.Pointer)(unsafe.Pointer(types)), (**C.char)(unsafe.Pointer(names)), C.uint64_t(count), out)
	if err := errorOf(failed); err != nil {
		s.free()
		return nil, err
	}
	var err error
	if s.arrow, err = cdata.ImportCArrowSchema((*cdata.CArrowSchema)(unsafe.Pointer(out))); err != nil {
		s.free()
		return nil, fmt.Errorf("read columns of result: %w", err)
	}
	fields := s.arrow.Fields()
	for i := range min(count, len(fields)) {
		fields[i].Type = widened(duckdb.LogicalType{Ptr: types[i]}, fields[i].Type)
	}
	if wide := arrow.NewSchema(fields, nil); !wide.Equal(arrow.NewSchema(s.arrow.Fields(), nil)) {
		s.wide = wide
	}
	return s, nil
}

// hand passes one chunk to rows, as a record batch that is released afterwards.
func (s *schema) hand(chunk duckdb.DataChunk, rows func(arrow.RecordBatch) error) error {
	out := (*C.struct_ArrowArray)(C.calloc(1, C.sizeof_struct_ArrowArray))
	defer C.free(unsafe.Pointer(out))
	if err := errorOf(C.duckdb_data_chunk_to_arrow(s.options.Ptr, chunk.Ptr, out)); err != nil {
		return err
	}
	record, err := cdata.ImportCRecordBatchWithSchema((*cdata.CArrowArray)(unsafe.Pointer(out)), s.arrow)
	if err != nil {
		return fmt.Errorf("read rows of result: %w", err)
	}
	defer record.Release()
	if s.wide == nil {
		return rows(record)
	}
	columns := make([]arrow.Array, record.NumCols())
	for i, column := range record.Columns() {
		data := widen(column.Data(), s.wide.Field(i).Type)
		columns[i] = array.MakeFromData(data)
		data.Release()
		defer columns[i].Release()
	}
	wide := array.NewRecordBatch(s.wide, columns, record.NumRows())
	defer wide.Release()
	return rows(wide)
}

// widened is an Arrow type with decimals of 256 bits for UHUGEINT, also within lists and structs.
func widened(of duckdb.LogicalType, t arrow.DataType) arrow.DataType {
	child := func(of duckdb.LogicalType, f arrow.Field) arrow.Field {
		defer duckdb.DestroyLogicalType(&of)
		f.Type = widened(of, f.Type)
		return f
	}
	switch duckdb.GetTypeId(of) {
	case duckdb.TypeUHugeInt:
		return &arrow.Decimal256Type{Precision: 39}
	case duckdb.TypeList:
		if list, ok := t.(*arrow.ListType); ok {
			return arrow.ListOfField(child(duckdb.ListTypeChildType(of), list.ElemField()))
		}
	case duckdb.TypeStruct:
		fields := t.(*arrow.StructType).Fields()
		for i := range fields {
			fields[i] = child(duckdb.StructTypeChildType(of, duckdb.IdxT(i)), fields[i])
		}
		return arrow.StructOf(fields...)
	}
	return t
}

// widen is a column as that type. The caller releases it.
func widen(d arrow.ArrayData, t arrow.DataType) arrow.ArrayData {
	if arrow.TypeEqual(d.DataType(), t) {
		d.Retain()
		return d
	}
	buffers := slices.Clone(d.Buffers())
	if _, isNumber := t.(*arrow.Decimal256Type); isNumber {
		const narrow, wide = 16, 32 // bytes
		from, to := buffers[1].Bytes(), make([]byte, (d.Offset()+d.Len())*wide)
		for i := d.Offset(); i < d.Offset()+d.Len(); i++ {
			copy(to[i*wide:i*wide+narrow], from[i*narrow:])
		}
		buffers[1] = memory.NewBufferBytes(to)
		return array.NewData(t, d.Len(), buffers, nil, d.NullN(), d.Offset())
	}
	var children []arrow.ArrayData
	for i, field := range t.(arrow.NestedType).Fields() {
		child := widen(d.Children()[i], field.Type)
		defer child.Release()
		children = append(children, child)
	}
	return array.NewData(t, d.Len(), buffers, children, d.NullN(), d.Offset())
}

// handNone passes an empty record batch, so that the columns are known.
func (s *schema) handNone(rows func(arrow.RecordBatch) error) error {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, cmp.Or(s.wide, s.arrow))
	defer builder.Release()
	record := builder.NewRecordBatch()
	defer record.Release()
	return rows(record)
}

func errorOf(raw unsafe.Pointer) error {
	data := duckdb.ErrorData{Ptr: raw}
	defer duckdb.DestroyErrorData(&data)
	if raw == nil || !duckdb.ErrorDataHasError(data) {
		return nil
	}
	return &sqlError{duckdb.ErrorDataErrorType(data), duckdb.ErrorDataMessage(data)}
}
