package duckdb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"golang.org/x/sys/unix"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/archive/ledger"
	"pillion.dev/measure"
)

func open(t testing.TB, path string, options Options) *Archive {
	t.Helper()
	a, err := Open(path, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// everything has a column of each type.
var everything = &measure.Schema{Name: "everything", Doc: "all types", Fields: []measure.Field{
	measure.TimeField, {Name: "b", Type: measure.Bool}, {Name: "i32", Type: measure.Int32}, {Name: "u32", Type: measure.Uint32},
	{Name: "i64", Type: measure.Int64, Unit: "ns"}, {Name: "u64", Type: measure.Uint64}, {Name: "f", Type: measure.Float64},
	{Name: "select", Type: measure.String}, {Name: "bin", Type: measure.Binary}, {Name: "t2", Type: measure.Time},
	{Name: "il", Type: measure.Int64List}, {Name: "ul", Type: measure.Uint64List},
}}

// fill appends row i of a known pattern to a builder of any of our types.
func fill(b array.Builder, i int) {
	if i%7 == 3 {
		if _, isTime := b.(*array.TimestampBuilder); !isTime {
			b.AppendNull()
			return
		}
	}
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(i%2 == 0)
	case *array.Int32Builder:
		b.Append(int32(-i))
	case *array.Uint32Builder:
		b.Append(math.MaxUint32 - uint32(i))
	case *array.Int64Builder:
		b.Append(math.MinInt64 + int64(i))
	case *array.Uint64Builder:
		b.Append(math.MaxUint64 - uint64(i))
	case *array.Float64Builder:
		b.Append(float64(i) / 3)
	case *array.StringBuilder:
		b.Append(strings.Repeat("é", i%9) + strconv.Itoa(i))
	case *array.BinaryBuilder:
		b.Append([]byte(strings.Repeat("\xff", i%20)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(1_700_000_000_000_000_001 + int64(i)))
	case *array.ListBuilder:
		b.Append(true)
		for k := range i % 5 {
			fill(b.ValueBuilder(), i+k)
		}
	}
}

func record(t testing.TB, s *measure.Schema, from, to int) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, s.Arrow())
	defer b.Release()
	for i := from; i < to; i++ {
		for k := range s.Fields {
			fill(b.Field(k), i)
		}
	}
	r := b.NewRecordBatch()
	t.Cleanup(r.Release)
	return r
}

func batch(t testing.TB, agent string, s *measure.Schema, sequence uint64, from, to int) archive.Batch {
	t.Helper()
	return archive.Batch{Agent: agent, Key: measure.Key{Stream: s.Name, Epoch: 1, Sequence: sequence}, Schema: s, Record: record(t, s, from, to)}
}

func store(t testing.TB, a *Archive, batches ...archive.Batch) ([]bool, map[int]error) {
	t.Helper()
	stored, rejected, err := a.Store(t.Context(), batches)
	if err != nil {
		t.Fatal(err)
	}
	return stored, rejected
}

func count(t testing.TB, a *Archive, sql string, arguments ...any) int64 {
	t.Helper()
	n := int64(-1)
	err := a.Query(t.Context(), sql, arguments, archive.Limits{}, func(r arrow.RecordBatch) error {
		n = r.Column(0).(*array.Int64).Value(0)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRoundTrip: every type is read as it was stored, across chunk borders, small parts,
// slices and reopening. The oracle is the stored record.
func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	a := open(t, path, Options{})
	whole := record(t, everything, 0, 5000)
	cuts := []int{0, 1, 3, 100, 2047, 2048, 2049, 4500, 5000}
	var batches []archive.Batch
	for i := 1; i < len(cuts); i++ {
		slice := whole.NewSlice(int64(cuts[i-1]), int64(cuts[i]))
		t.Cleanup(slice.Release)
		batches = append(batches, archive.Batch{Agent: "an-agent-with-a-long-name", Key: measure.Key{Stream: "everything", Sequence: uint64(i - 1)}, Schema: everything, Record: slice})
	}
	if stored, rejected := store(t, a, batches...); len(rejected) != 0 || !stored[0] || !stored[7] {
		t.Fatal(stored, rejected)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, path, Options{})
	at := int64(0)
	err := a.Export(t.Context(), archive.Export{Stream: "everything"}, func(r arrow.RecordBatch) error {
		want := whole.NewSlice(at, at+r.NumRows())
		defer want.Release()
		for i := range everything.Fields {
			if !array.Equal(want.Column(i), r.Column(i+1)) {
				t.Errorf("column %s from row %d: %v, want %v", everything.Fields[i].Name, at, r.Column(i+1), want.Column(i))
			}
		}
		at += r.NumRows()
		return nil
	})
	if err != nil || at != 5000 {
		t.Fatal(at, err)
	}
	streams, err := a.Streams(t.Context())
	if err != nil || len(streams) != 1 || streams[0].Rows != 5000 || streams[0].Schema.Fields[4].Unit != "ns" ||
		streams[0].First.UnixNano() != 1_700_000_000_000_000_001 || streams[0].Last.UnixNano() != 1_700_000_000_000_005_000 {
		t.Errorf("%+v, %v", streams, err)
	}
}

// TestDoubt: a transaction that is on disk although it was reported as failed is found
// there, and its rows are not stored twice.
func TestDoubt(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	one := []archive.Batch{batch(t, "x", &measure.Clock, 0, 0, 10)}
	store(t, a, one[0])
	forget := func() { a.book.Load(map[ledger.Sender]*ledger.Delivery{}) }
	forget()
	c := a.plan(one)
	if !c.Stored[0] || a.holds(c) {
		t.Fatalf("plan %+v without the state in memory", c)
	}
	if err := a.recall(t.Context()); err != nil || !a.holds(c) {
		t.Errorf("the transaction on disk was not found: %v", err)
	}
	forget()
	a.doubt = true
	if stored, rejected := store(t, a, one[0]); stored[0] || len(rejected) != 0 {
		t.Errorf("stored again: %v, %v", stored, rejected)
	}
	forget()
	a.doubt = true // also between two attempts at one commit
	if err := a.writeFirst(t.Context(), a.plan(one)); err != nil {
		t.Error(err)
	}
	if n := count(t, a, "SELECT count(*) FROM clock"); n != 10 {
		t.Errorf("%d rows, want 10", n)
	}
}

// TestDeliveryLog: the log of states is compacted without changing its content.
func TestDeliveryLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	a := open(t, path, Options{})
	a.logged = 20_000
	for i := range uint64(3) {
		store(t, a, batch(t, "x", &measure.Clock, i, 0, 1), batch(t, "y", &measure.Host, i, 0, 1))
		a.logged += 20_000
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open(t, path, Options{})
	if a.logged > 4 {
		t.Errorf("the log has %d rows", a.logged)
	}
	if stored, _ := store(t, a, batch(t, "x", &measure.Clock, 2, 0, 1)); stored[0] {
		t.Error("a batch is stored twice")
	}
}

func schemaOf(name string, fields ...measure.Field) *measure.Schema {
	return &measure.Schema{Name: name, Fields: append([]measure.Field{measure.TimeField}, fields...)}
}

func TestShapes(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	field := func(name string, t measure.Type) measure.Field { return measure.Field{Name: name, Type: t} }
	rows := []struct {
		name     string
		schema   *measure.Schema
		rejected bool
		column   string // type of v afterwards
	}{
		{"new", schemaOf("s", field("v", measure.Int32)), false, "INTEGER"},
		{"one column more", schemaOf("s", field("v", measure.Int32), field("table", measure.String)), false, "INTEGER"},
		{"one column less", schemaOf("s"), false, "INTEGER"},
		{"wider", schemaOf("s", field("v", measure.Uint32), field("w", measure.Bool)), false, "BIGINT"},
		{"narrower", schemaOf("s", field("v", measure.Int32)), false, "BIGINT"},
		{"lossy", schemaOf("s", field("v", measure.Float64)), true, "BIGINT"},
		{"text", schemaOf("s", field("v", measure.String)), true, "BIGINT"},
		{"the archive's own column", schemaOf("s", field("agent", measure.String)), true, "BIGINT"},
	}
	total := int64(0)
	for i, r := range rows {
		// Each has a valid batch too: only the invalid one is rejected.
		_, rejected := store(t, a, batch(t, "x", r.schema, uint64(i), 0, 10), batch(t, "x", &measure.Host, uint64(i), 0, 10))
		if (rejected[0] != nil) != r.rejected || rejected[1] != nil || rejected[0] != nil && !errors.Is(rejected[0], archive.ErrSchema) {
			t.Errorf("%s: rejected %v", r.name, rejected)
		}
		if !r.rejected {
			total += 10
		}
		got := ""
		if err := a.Query(t.Context(), "SELECT typeof(v) FROM s LIMIT 1", nil, archive.Limits{}, func(r arrow.RecordBatch) error {
			got = answer.RowOf(r, 0).Text(0)
			return nil
		}); err != nil || got != r.column {
			t.Errorf("%s: column is %s, %v", r.name, got, err)
		}
	}
	if n, hosts := count(t, a, "SELECT count(*) FROM s"), count(t, a, "SELECT count(*) FROM host"); n != total || hosts != int64(10*len(rows)) {
		t.Errorf("%d and %d rows", n, hosts)
	}
	if n := count(t, a, `SELECT count(v) FROM s WHERE v < 0`); n == 0 {
		t.Error("narrow values are missing in the wide column")
	}
}

func TestDamaged(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	text := schemaOf("s", measure.Field{Name: "v", Type: measure.String})
	make2 := func(times []int64, offsets []int32, bytes string) arrow.RecordBatch {
		t := array.NewData(measure.ArrowType(measure.Time), 2, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(times))}, nil, 0, 0)
		s := array.NewData(arrow.BinaryTypes.String, 2, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)), memory.NewBufferBytes([]byte(bytes))}, nil, 0, 0)
		return array.NewRecordBatch(text.Arrow(), []arrow.Array{array.MakeFromData(t), array.MakeFromData(s)}, 2)
	}
	rows := []struct {
		name   string
		record arrow.RecordBatch
	}{
		{"not UTF-8", make2([]int64{1, 2}, []int32{0, 1, 2}, "a\xff")},
		{"a character cut", make2([]int64{1, 2}, []int32{0, 1, 2}, "é")},
		{"offsets descend", make2([]int64{1, 2}, []int32{0, 2, 1}, "ab")},
		{"infinite time", make2([]int64{1, math.MaxInt64}, []int32{0, 1, 2}, "ab")},
		{"other columns", record(t, &measure.Clock, 0, 2)},
	}
	for i, r := range rows {
		bad := archive.Batch{Agent: "x", Key: measure.Key{Stream: "s", Sequence: uint64(i)}, Schema: text, Record: r.record}
		if _, rejected := store(t, a, bad, batch(t, "x", text, uint64(100+i), 0, 1)); !errors.Is(rejected[0], measure.ErrBatch) || rejected[1] != nil {
			t.Errorf("%s: rejected %v", r.name, rejected)
		}
	}
}

func storeForEver(t *testing.T, path string) {
	a := open(t, path, Options{LogBytes: 1 << 20})
	d, err := a.Delivered(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	for i := int(d["clock"].Batches); ; i++ {
		store(t, a, batch(t, "x", &measure.Clock, uint64(i), i*500, (i+1)*500))
		fmt.Println(i)
	}
}

// TestFull: a full disk rejects complete batches, and the archive resumes when there is
// space again.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("mount tmpfs: %v; needs root", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "a")
	a := open(t, path, Options{LogBytes: 4 << 20})
	t.Cleanup(func() { _ = a.Close() })
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 12<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	sequence := uint64(0)
	next := func() archive.Batch {
		return batch(t, "x", everything, sequence, int(sequence)*20_000, int(sequence+1)*20_000)
	}
	var err error
	for err == nil {
		if _, _, err = a.Store(t.Context(), []archive.Batch{next()}); err == nil {
			sequence++
		}
	}
	if !errors.Is(err, archive.ErrFull) {
		t.Fatalf("after %d batches: %v, want ErrFull", sequence, err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if _, rejected := store(t, a, next()); len(rejected) != 0 {
		t.Fatal(rejected)
	}
	if n := count(t, a, "SELECT count(*) FROM everything"); n != int64(sequence+1)*20_000 {
		t.Errorf("%d rows, want those of %d batches", n, sequence+1)
	}
}

func BenchmarkStore(b *testing.B) {
	s := schemaOf("bench", measure.Field{Name: "a", Type: measure.Int64}, measure.Field{Name: "b", Type: measure.Uint64},
		measure.Field{Name: "c", Type: measure.Float64}, measure.Field{Name: "d", Type: measure.String}, measure.Field{Name: "e", Type: measure.Uint32})
	a := open(b, filepath.Join(b.TempDir(), "a"), Options{})
	const rows, together = 32 << 10, 8
	made := batch(b, "x", s, 0, 0, rows)
	start, sequence := time.Now(), uint64(0)
	for b.Loop() {
		var batches []archive.Batch
		for range together {
			made.Sequence = sequence
			batches = append(batches, made)
			sequence++
		}
		if _, _, err := a.Store(context.Background(), batches); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(sequence)*rows/time.Since(start).Seconds(), "rows/s")
}

// TestStoreAfterAFailedRollback: a transaction that could not be rolled back does not
// prevent later ones.
func TestStoreAfterAFailedRollback(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	for _, sql := range []string{"BEGIN", "SELECT error('no memory')"} {
		_ = a.writer.exec(t.Context(), sql)
	}
	if err := a.writer.exec(t.Context(), "SELECT 1"); err == nil {
		t.Fatal("the transaction has not failed")
	}
	a.writer.stuck = true // as if ROLLBACK had failed
	store(t, a, lineBatch(t, 0, 0, 100))
	if n := count(t, a, "SELECT count(*) FROM lines"); n != 100 {
		t.Errorf("%d rows of 100 are stored", n)
	}
}
