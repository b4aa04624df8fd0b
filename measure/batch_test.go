package measure

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// every has a column of each type.
var every = Schema{Name: "every", Doc: "one column of each type", Fields: []Field{
	TimeField,
	{"bool", Bool, "", "a bool"},
	{"int32", Int32, "s", "an int32"},
	{"uint32", Uint32, "", ""},
	{"int64", Int64, "ns", "an int64"},
	{"uint64", Uint64, "bytes", ""},
	{"float64", Float64, "%", ""},
	{"string", String, "", "a string with ü"},
	{"binary", Binary, "", ""},
	{"time2", Time, "", ""},
	{"int64s", Int64List, "ns", ""},
	{"uint64s", Uint64List, "", ""},
}}

func everyRows() []Sample {
	at := time.Unix(1_700_000_000, 123_456_789)
	nulls := make(Sample, len(every.Fields))
	nulls[0] = TimeValue(at)
	return []Sample{
		{TimeValue(at), BoolValue(true), Int32Value(-5), Uint32Value(math.MaxUint32), Int64Value(math.MinInt64),
			Uint64Value(math.MaxUint64), Float64Value(1.5), StringValue("hällo"), BinaryValue([]byte{0, 255}),
			TimeValue(at.Add(-time.Hour)), Int64ListValue([]int64{-1, 0, 1}), Uint64ListValue([]uint64{7})},
		nulls,
		{TimeValue(at), BoolValue(false), Int32Value(0), Uint32Value(0), Int64Value(0), Uint64Value(0), Float64Value(0),
			StringValue(""), BinaryValue([]byte{}), TimeValue(time.Unix(0, 0)), Int64ListValue(nil), Uint64ListValue([]uint64{})},
	}
}

// makeRecord returns a batch of a stream.
func makeRecord(t testing.TB, schema *Schema, rows []Sample) arrow.RecordBatch {
	t.Helper()
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema.Arrow())
	defer builder.Release()
	for _, row := range rows {
		if err := schema.Check(row); err != nil {
			t.Fatal(err)
		}
		for i, v := range row {
			appendValue(builder.Field(i), v)
		}
	}
	record := builder.NewRecordBatch()
	t.Cleanup(record.Release)
	return record
}

func encode(t testing.TB, schema *Schema, rows []Sample) Envelope {
	t.Helper()
	e, err := Encode(Key{Stream: schema.Name, Epoch: 1, Sequence: 2}, makeRecord(t, schema, rows))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// sameValue compares the contents of two values; the capacity of lists and bytes is ignored.
func sameValue(a, b Value) bool {
	return a.kind == b.kind && a.number == b.number && a.text == b.text && bytes.Equal(a.bytes, b.bytes) && slices.Equal(a.list, b.list)
}

func TestRoundTrip(t *testing.T) {
	rows := everyRows()
	many := []Sample{}
	for range 100 {
		many = append(many, rows...)
	}
	for name, rows := range map[string][]Sample{
		"every type": rows[:1], "nulls": rows[1:2], "empty values": rows[2:], "mixed": rows, "no rows": nil, "many": many,
	} {
		t.Run(name, func(t *testing.T) {
			e := encode(t, &every, rows)
			checked := memory.NewCheckedAllocator(memory.DefaultAllocator)
			schema, record, err := e.decode(checked)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(schema, &every) {
				t.Errorf("schema %+v, want %+v", schema, every)
			}
			if e.Rows != len(rows) || e.Oldest != 2 {
				t.Errorf("envelope of %d rows, oldest %d", e.Rows, e.Oldest)
			}
			checkRows(t, record, rows)
			record.Release()
			checked.AssertSize(t, 0)
		})
	}
}

func checkRows(t testing.TB, record arrow.RecordBatch, rows []Sample) {
	t.Helper()
	if int(record.NumRows()) != len(rows) {
		t.Fatalf("%d rows, want %d", record.NumRows(), len(rows))
	}
	got := make(Sample, record.NumCols())
	for i, want := range rows {
		if err := readRow(record, i, got); err != nil {
			t.Fatal(err)
		}
		for c := range want {
			if !sameValue(got[c], want[c]) {
				t.Errorf("row %d, column %s: %+v, want %+v", i, record.ColumnName(c), got[c], want[c])
			}
		}
	}
}

// A slice of a batch begins inside the buffers; its encoding must not.
func TestEncodeSlice(t *testing.T) {
	rows := slices.Repeat(everyRows(), 7)
	slice := makeRecord(t, &every, rows).NewSlice(5, 17)
	defer slice.Release()
	e, err := Encode(Key{Stream: "every"}, slice)
	if err != nil {
		t.Fatal(err)
	}
	_, record, err := e.Decode()
	if err != nil {
		t.Fatal(err)
	}
	defer record.Release()
	checkRows(t, record, rows[5:17])
}

func TestStandardRoundTrip(t *testing.T) {
	for _, s := range Standard() {
		e := encode(t, s, []Sample{slices.Concat(Sample{TimeValue(time.Unix(1, 0))}, make(Sample, len(s.Fields)-1))})
		got, record, err := e.Decode()
		if err != nil {
			t.Fatal(err)
		}
		record.Release()
		if !reflect.DeepEqual(got, s) {
			t.Errorf("%s: %+v", s.Name, got)
		}
	}
}

// Batches that Arrow can write but that are invalid here.
func TestDecodeRejectsOtherSchemas(t *testing.T) {
	stream := arrow.NewMetadata([]string{metaStream}, []string{"s"})
	at := arrow.Field{Name: "time", Type: arrowTypes[Time]}
	with := func(types ...arrow.DataType) *arrow.Schema {
		fields := []arrow.Field{at}
		for i, d := range types {
			fields = append(fields, arrow.Field{Name: fmt.Sprintf("c%d", i), Type: d, Nullable: true})
		}
		return arrow.NewSchema(fields, &stream)
	}
	field := func(f arrow.Field) *arrow.Schema { return arrow.NewSchema([]arrow.Field{at, f}, &stream) }
	note := func(key, value string) *arrow.Schema {
		return field(arrow.Field{Name: "c", Type: arrow.PrimitiveTypes.Int64, Metadata: arrow.NewMetadata([]string{key}, []string{value})})
	}
	named := func(name string) *arrow.Schema {
		meta := arrow.NewMetadata([]string{metaStream}, []string{name})
		return arrow.NewSchema([]arrow.Field{at}, &meta)
	}
	for name, c := range map[string]struct {
		schema  *arrow.Schema
		options []ipc.Option
		batches int
		want    string
	}{
		"int8":              {with(arrow.PrimitiveTypes.Int8), nil, 1, "not one of ours"},
		"float32":           {with(arrow.PrimitiveTypes.Float32), nil, 1, "not one of ours"},
		"large string":      {with(arrow.BinaryTypes.LargeString), nil, 1, "not one of ours"},
		"view":              {with(arrow.BinaryTypes.StringView), nil, 1, "not one of ours"},
		"dictionary":        {with(&arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}), nil, 1, "not one of ours"},
		"struct":            {with(arrow.StructOf(at)), nil, 1, ""},
		"list of strings":   {with(arrow.ListOf(arrow.BinaryTypes.String)), nil, 1, "not one of ours"},
		"list of int32":     {with(arrow.ListOf(arrow.PrimitiveTypes.Int32)), nil, 1, "not one of ours"},
		"list of lists":     {with(arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int64))), nil, 1, "not one of ours"},
		"microseconds":      {with(arrow.FixedWidthTypes.Timestamp_us), nil, 1, "not one of ours"},
		"time zone":         {with(&arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Europe/Paris"}), nil, 1, "not one of ours"},
		"null column":       {with(arrow.Null), nil, 1, "not one of ours"},
		"compressed":        {with(arrow.PrimitiveTypes.Int64), []ipc.Option{ipc.WithZstd()}, 1, "compressed"},
		"compressed by lz4": {with(arrow.PrimitiveTypes.Int64), []ipc.Option{ipc.WithLZ4()}, 1, "compressed"},
		"no batch":          {with(), nil, 0, "record batch message"},
		"two batches":       {with(), nil, 2, "after the record batch"},
		"no stream name":    {named(""), nil, 1, "stream name"},
		"path as name":      {named("../etc/passwd"), nil, 1, "stream name"},
		"upper case name":   {named("S"), nil, 1, "stream name"},
		"other stream":      {named("t"), nil, 1, `it holds "t"`},
		"column name":       {field(arrow.Field{Name: `x"; drop table y`, Type: arrow.PrimitiveTypes.Int64}), nil, 1, "field name"},
		"second time":       {field(at), nil, 1, "two fields"},
		"no time":           {arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrowTypes[Time]}}, &stream), nil, 1, "first field must be time"},
		"no column":         {arrow.NewSchema(nil, &stream), nil, 1, "first field must be time"},
		"escape in unit":    {note(metaUnit, "\x1b[2J"), nil, 1, "control character"},
		"long unit":         {note(metaUnit, strings.Repeat("x", 65)), nil, 1, "at most 64"},
		"long description":  {note(metaDoc, strings.Repeat("x", 1025)), nil, 1, "at most 1024"},
		"latin1 unit":       {note(metaUnit, "\xb5s"), nil, 1, "not UTF-8"},
		"257 columns":       {with(slices.Repeat([]arrow.DataType{arrow.PrimitiveTypes.Int64}, 256)...), nil, 1, "at most 256"},
	} {
		t.Run(name, func(t *testing.T) {
			var buffer bytes.Buffer
			writer := ipc.NewWriter(&buffer, append(c.options, ipc.WithSchema(c.schema))...)
			builder := array.NewRecordBuilder(memory.DefaultAllocator, c.schema)
			defer builder.Release()
			for _, f := range builder.Fields() {
				f.AppendEmptyValues(100)
			}
			record := builder.NewRecordBatch()
			defer record.Release()
			for range c.batches {
				if err := writer.Write(record); err != nil {
					t.Fatal(err)
				}
			}
			if err := writer.Close(); err != nil {
				t.Fatal(err)
			}
			e := Envelope{Key: Key{Stream: "s"}, Rows: 100, Checksum: Checksum(buffer.Bytes()), Payload: buffer.Bytes()}
			refused(t, &e, c.want)
		})
	}
}

func refused(t *testing.T, e *Envelope, want string) {
	t.Helper()
	_, record, err := e.Decode()
	if err == nil {
		record.Release()
	}
	if errors.Is(err, ErrBatch) == errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want ErrBatch or ErrUnknown with %q", err, want)
	}
}

// TestLaterFormatIsNotDamage: an intact payload with a type of column, or a compression,
// that this version does not read may be read by a later one; a damaged payload never.
func TestLaterFormatIsNotDamage(t *testing.T) {
	stream := arrow.NewMetadata([]string{metaStream}, []string{"s"})
	payload := func(of arrow.DataType, options ...ipc.Option) Envelope {
		schema := arrow.NewSchema([]arrow.Field{{Name: "time", Type: ArrowType(Time)}, {Name: "x", Type: of}}, &stream)
		builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		defer builder.Release()
		builder.Field(0).AppendEmptyValue()
		builder.Field(1).AppendEmptyValue()
		record := builder.NewRecordBatch()
		defer record.Release()
		var buffer bytes.Buffer
		writer := ipc.NewWriter(&buffer, append(options, ipc.WithSchema(schema))...)
		if err := errors.Join(writer.Write(record), writer.Close()); err != nil {
			t.Fatal(err)
		}
		return Envelope{Key: Key{Stream: "s"}, Rows: 1, Checksum: Checksum(buffer.Bytes()), Payload: buffer.Bytes()}
	}
	for name, e := range map[string]Envelope{
		"type": payload(arrow.FixedWidthTypes.Date32), "width": payload(arrow.PrimitiveTypes.Int8),
		"compression": payload(arrow.PrimitiveTypes.Int64, ipc.WithZstd()),
	} {
		if _, _, err := e.Decode(); !errors.Is(err, ErrUnknown) || errors.Is(err, ErrBatch) {
			t.Errorf("%s: %v", name, err)
		}
		e.Checksum++
		if _, _, err := e.Decode(); !errors.Is(err, ErrBatch) || errors.Is(err, ErrUnknown) {
			t.Errorf("%s, damaged: %v", name, err)
		}
	}
}

// place has the positions in a payload, found by parsing it like Decode.
type place struct {
	metadata int // of the record batch message, in the payload
	nodes    int // in the payload
	buffers  int // in the payload
	length   int // the number of rows, in the payload
	bodySize int // the body's length, in the payload
	body     int
	slots    int // of the record batch's table, in the payload
}

func placeOf(t *testing.T, payload []byte) place {
	t.Helper()
	_, _, rest, err := nextMessage(payload, headerSchema)
	if err != nil {
		t.Fatal(err)
	}
	p := place{metadata: len(payload) - len(rest) + 8}
	size := int(binary.LittleEndian.Uint32(rest[4:]))
	message := rootTable(rest[8 : 8+size])
	batch := message.tableOf(messageHeader)
	at := func(t flatTable, field int) int { return int(t.Pos) + int(t.Offset(slot(field))) }
	nodes, _ := batch.vectorOf(batchNodes, 16, 1000)
	buffers, _ := batch.vectorOf(batchBuffers, 16, 1000)
	p.nodes, p.buffers = p.metadata+nodes, p.metadata+buffers
	p.length = p.metadata + at(batch, batchLength)
	p.bodySize = p.metadata + at(message, messageBodyLength)
	p.body = p.metadata + size
	p.slots = p.metadata + int(batch.Pos) - int(batch.GetSOffsetT(batch.Pos))
	return p
}

// A payload with false numbers. The batch has the columns time, text and list with
// nulls, so nodes are time, text, list, values; buffers are of time 0 and 1, of
// text 2 to 4, of list 5 and 6, of its values 7 and 8.
func TestDecodeRejectsFalseLengths(t *testing.T) {
	schema := Schema{Name: "s", Fields: []Field{TimeField, {Name: "text", Type: String}, {Name: "list", Type: Int64List}}}
	at := TimeValue(time.Unix(1, 0))
	e := encode(t, &schema, []Sample{
		{at, StringValue("abc"), Int64ListValue([]int64{1, 2})},
		{at, StringValue("dü"), Int64ListValue([]int64{3})},
		{at, Value{}, Value{}},
	})
	put := func(b []byte, at int, v uint64) { binary.LittleEndian.PutUint64(b[at:], v) }
	offset := func(b []byte, p place, buffer int) int {
		return p.body + int(binary.LittleEndian.Uint64(b[p.buffers+16*buffer:]))
	}
	for name, c := range map[string]struct {
		lie  func(b []byte, p place) []byte
		want string
	}{
		"rows":               {func(b []byte, p place) []byte { put(b, p.length, 4); return b }, "4 rows, want 3"},
		"many rows":          {func(b []byte, p place) []byte { put(b, p.length, RowsMax+1); return b }, "at most 1000000"},
		"negative rows":      {func(b []byte, p place) []byte { put(b, p.length, 1<<63); return b }, "rows"},
		"column length":      {func(b []byte, p place) []byte { put(b, p.nodes, 4); return b }, "buffer of 24 bytes, want 32"},
		"short column":       {func(b []byte, p place) []byte { put(b, p.nodes+16, 2); return b }, ""},
		"huge column":        {func(b []byte, p place) []byte { put(b, p.nodes, 1<<60); return b }, "values"},
		"negative column":    {func(b []byte, p place) []byte { put(b, p.nodes, 1<<63); return b }, "values"},
		"null time":          {func(b []byte, p place) []byte { put(b, p.nodes+8, 1); return b }, "validity"},
		"too few nulls":      {func(b []byte, p place) []byte { put(b, p.nodes+24, 2); return b }, "validity: 2 of 3"},
		"negative nulls":     {func(b []byte, p place) []byte { put(b, p.nodes+24, math.MaxUint64); return b }, "null"},
		"null list value":    {func(b []byte, p place) []byte { put(b, p.nodes+56, 1); return b }, "list"},
		"few list values":    {func(b []byte, p place) []byte { put(b, p.nodes+48, 2); return b }, "list: 2 values"},
		"buffer outside":     {func(b []byte, p place) []byte { put(b, p.buffers+16, 1<<40); return b }, "buffer of"},
		"buffer negative":    {func(b []byte, p place) []byte { put(b, p.buffers+16, 1<<63); return b }, "buffer of"},
		"buffer unaligned":   {func(b []byte, p place) []byte { put(b, p.buffers+16, 4); return b }, "buffer of"},
		"buffer too long":    {func(b []byte, p place) []byte { put(b, p.buffers+24, 1<<40); return b }, "buffer of"},
		"length overflows":   {func(b []byte, p place) []byte { put(b, p.buffers+24, math.MaxInt64); return b }, "buffer of"},
		"buffer too short":   {func(b []byte, p place) []byte { put(b, p.buffers+24, 16); return b }, "want 24"},
		"buffers overlap":    {func(b []byte, p place) []byte { put(b, p.buffers+32, 0); return b }, "buffer of"},
		"no offsets":         {func(b []byte, p place) []byte { put(b, p.buffers+56, 0); return b }, "offsets: buffer of 0"},
		"no text":            {func(b []byte, p place) []byte { put(b, p.buffers+72, 0); return b }, "buffer of 0 bytes, want 6"},
		"offset before":      {func(b []byte, p place) []byte { b[offset(b, p, 3)+3] = 0x80; return b }, "offsets: the first is -"},
		"offsets descend":    {func(b []byte, p place) []byte { b[offset(b, p, 3)+4] = 200; return b }, "offsets: 6 after 200"},
		"last offset beyond": {func(b []byte, p place) []byte { b[offset(b, p, 3)+12] = 255; return b }, "want 255"},
		"split rune":         {func(b []byte, p place) []byte { b[offset(b, p, 3)+4] = 5; return b }, "not UTF-8"},
		"not UTF-8":          {func(b []byte, p place) []byte { b[offset(b, p, 4)] = 0xff; return b }, "row 0 is not UTF-8"},
		"list beyond":        {func(b []byte, p place) []byte { b[offset(b, p, 6)+12] = 9; return b }, "list: 3 values"},
		"body beyond":        {func(b []byte, p place) []byte { put(b, p.bodySize, 1<<40); return b }, "body of"},
		"negative body":      {func(b []byte, p place) []byte { put(b, p.bodySize, 1<<63); return b }, "body of"},
		"huge metadata":      {func(b []byte, p place) []byte { b[7] = 0x7f; return b }, "metadata of"},
		"negative metadata":  {func(b []byte, p place) []byte { b[7] = 0xff; return b }, "metadata of"},
		"no end":             {func(b []byte, p place) []byte { return b[:len(b)-8] }, "after the record batch"},
		"more after the end": {func(b []byte, p place) []byte { return append(b, 0) }, "after the record batch"},
		"odd table":          {func(b []byte, p place) []byte { b[p.slots]++; return b }, "bytes of slots"},
		"long table":         {func(b []byte, p place) []byte { b[p.slots+1] = 0xf0; return b }, "bytes of slots"},
		"nothing":            {func(b []byte, p place) []byte { return nil }, "continuation"},
	} {
		t.Run(name, func(t *testing.T) {
			payload := bytes.Clone(e.Payload)
			bad := e
			bad.Payload = c.lie(payload, placeOf(t, payload))
			bad.Checksum = Checksum(bad.Payload)
			refused(t, &bad, c.want)
		})
	}
	t.Run("checksum", func(t *testing.T) {
		bad := e
		bad.Checksum++
		refused(t, &bad, "checksum")
	})
	t.Run("rows of the envelope", func(t *testing.T) {
		bad := e
		bad.Rows = 2
		refused(t, &bad, "3 rows, want 2")
	})
	t.Run("cut anywhere", func(t *testing.T) {
		for n := range e.Payload {
			bad := e
			bad.Payload = e.Payload[:n]
			bad.Checksum = Checksum(bad.Payload)
			refused(t, &bad, "")
		}
	})
}

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// allocationBound is what Decode may allocate: the body once, and what names,
// units and descriptions of all columns may need. Another goroutine of the test
// binary may allocate a little meanwhile.
func allocationBound(payload []byte) uint64 { return uint64(len(payload)) + 2<<20 }

// Whatever eight bytes of the header contain, allocations stay proportional to the payload.
func TestDecodeAllocation(t *testing.T) {
	e := encode(t, &every, everyRows())
	for _, claim := range []uint64{math.MaxUint64, 1 << 62, 1<<31 - 1, 1 << 30, math.MaxUint32} {
		for at := 0; at+8 <= len(e.Payload); at += 4 {
			bad := e
			bad.Payload = bytes.Clone(e.Payload)
			binary.LittleEndian.PutUint64(bad.Payload[at:], claim)
			bad.Checksum = Checksum(bad.Payload)
			n := allocated(func() {
				if _, record, err := bad.Decode(); err == nil {
					record.Release()
				}
			})
			if limit := allocationBound(bad.Payload); n > limit {
				t.Fatalf("%x at %d: %d bytes allocated, limit %d", claim, at, n, limit)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(f, &every, everyRows()).Payload)
	f.Add(encode(f, &every, nil).Payload)
	f.Add(encode(f, &every, everyRows()[1:2]).Payload)
	f.Add(encode(f, &Clock, []Sample{slices.Concat(Sample{TimeValue(time.Unix(1, 0))}, make(Sample, len(Clock.Fields)-1))}).Payload)
	small := Schema{Name: "s", Fields: []Field{TimeField, {Name: "text", Type: String}, {Name: "list", Type: Uint64List}}}
	f.Add(encode(f, &small, []Sample{{TimeValue(time.Unix(1, 0)), StringValue("abc"), Uint64ListValue([]uint64{1, 2})}}).Payload)
	f.Fuzz(func(t *testing.T, payload []byte) { checkPayload(t, payload) })
}

// checkPayload decodes untrusted input, and reports whether it was accepted. If so, it must
// be complete.
func checkPayload(t *testing.T, payload []byte) bool {
	t.Helper()
	p, err := parsePayload(payload)
	if err != nil {
		return false
	}
	e := Envelope{Key: Key{Stream: p.schema.Name}, Rows: p.rows, Checksum: Checksum(payload), Payload: payload}
	schema, record, err := e.Decode()
	if err != nil {
		return false
	}
	defer record.Release()
	if err := schema.Validate(); err != nil {
		t.Fatal(err)
	}
	// An accepted batch can be read, row by row, and encoded again.
	row := make(Sample, len(schema.Fields))
	for i := range p.rows {
		if err := readRow(record, i, row); err != nil {
			t.Fatal(err)
		}
		if err := schema.Check(row); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Encode(e.Key, record)
	if err != nil {
		t.Fatal(err)
	}
	_, same, err := again.Decode()
	if err != nil {
		t.Fatal(err)
	}
	defer same.Release()
	if !array.RecordApproxEqual(record, same, array.WithNaNsEqual(true)) {
		t.Fatalf("%v became %v", record, same)
	}
	compareArrow(t, payload, record)
	return true
}

// What the fuzzer seldom hits on: words of a good payload replaced by others that
// are likely to hurt, a few at a time.
func TestDecodeMutations(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	small := Schema{Name: "s", Fields: []Field{TimeField, {Name: "text", Type: String}, {Name: "list", Type: Int64List}, {Name: "b", Type: Bool}}}
	at := TimeValue(time.Unix(1, 0))
	good := encode(t, &small, []Sample{
		{at, StringValue("abc"), Int64ListValue([]int64{1, 2}), BoolValue(true)}, {at, StringValue("dü"), Value{}, Value{}}, {at, Value{}, Int64ListValue(nil), Value{}},
	}).Payload
	accepted := 0
	for range 30_000 {
		bad := bytes.Clone(good)
		for range 1 + random.IntN(3) {
			at := random.IntN(len(bad)/4) * 4
			switch random.IntN(4) {
			case 0:
				bad[at+random.IntN(4)] ^= 1 << random.IntN(8)
			case 1:
				binary.LittleEndian.PutUint32(bad[at:], uint32(random.IntN(64)))
			case 2:
				binary.LittleEndian.PutUint32(bad[at:], -uint32(random.IntN(64)))
			case 3:
				copy(bad[at:], bad[random.IntN(len(bad)/4)*4:][:4])
			}
		}
		if checkPayload(t, bad) {
			accepted++
		}
	}
	if accepted == 0 || accepted == 30_000 {
		t.Errorf("%d of 30000 accepted: the mutations show nothing", accepted)
	}
}

// compareArrow is the oracle: Arrow's own reader finds the same values. It may reject what
// Decode ignores, such as metadata under an unknown name.
func compareArrow(t *testing.T, payload []byte, want arrow.RecordBatch) {
	t.Helper()
	reader, err := ipc.NewReader(bytes.NewReader(payload))
	if err != nil {
		return
	}
	defer reader.Release()
	got, err := reader.Read()
	if err != nil {
		return
	}
	// By values: the name of a list's elements belongs to Arrow's type, not to ours.
	rows := make([]Sample, want.NumRows())
	for i := range rows {
		rows[i] = make(Sample, want.NumCols())
		if err := readRow(want, i, rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	checkRows(t, got, rows)
}

func TestEncodeRejectsRows(t *testing.T) {
	schema := Schema{Name: "s", Fields: []Field{TimeField}}
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema.Arrow())
	defer builder.Release()
	builder.Field(0).AppendEmptyValues(RowsMax + 1)
	record := builder.NewRecordBatch()
	defer record.Release()
	if _, err := Encode(Key{Stream: "s"}, record); err == nil || !strings.Contains(err.Error(), "1000001 rows") {
		t.Errorf("error %v", err)
	}
}

// readRow puts one row of a record batch into a sample that has a value for each
// column. Texts, bytes and lists share the record's memory: they are valid until it is
// released. A column of an unknown type is an error.
func readRow(record arrow.RecordBatch, row int, into Sample) error {
	if row < 0 || int64(row) >= record.NumRows() {
		return fmt.Errorf("read row %d: the batch has %d", row, record.NumRows())
	}
	if int64(len(into)) != record.NumCols() {
		return fmt.Errorf("read row %d: space for %d values, the batch has %d columns", row, len(into), record.NumCols())
	}
	for i, column := range record.Columns() {
		value, ok := ValueAt(column, row)
		if !ok {
			return fmt.Errorf("read row %d: column %q is %v", row, record.ColumnName(i), column.DataType())
		}
		into[i] = value
	}
	return nil
}
