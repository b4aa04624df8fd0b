// Package archivetest is the conformance suite of archives: what every implementation of
// archive.Archive has to do, whatever it stores rows in. An implementation runs it in a
// test of its own and adds tests of what is special to it.
package archivetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/measuretest"
)

// Open opens the archive in a folder, or makes it.
type Open func(t testing.TB, folder string) archive.Archive

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*bed){
		"store once": storeOnce, "reject": reject, "widen": widen, "all types": allTypes, "query": query, "series": series,
		"export": export, "retention": retention, "eviction": eviction, "windows": windows, "sessions": sessions, "windows before": windowsBefore, "flows": byFlow, "volumes": volumes,
		"figures": figures, "hostile rows": hostileRows, "traces": traces, "scope": scope, "router": routerDelays, "unknown streams": unknown,
	} {
		t.Run(name, func(t *testing.T) { test(newBed(t, open)) })
	}
}

// bed is an archive under test.
type bed struct {
	*testing.T
	archive.Archive
	open   Open
	folder string
}

func newBed(t *testing.T, open Open) *bed {
	b := &bed{T: t, open: open, folder: t.TempDir()}
	b.Archive = open(t, b.folder)
	t.Cleanup(func() { _ = b.Archive.Close() })
	return b
}

// reopen closes the archive and opens it again.
func (b *bed) reopen() {
	b.Helper()
	if err := b.Archive.Close(); err != nil {
		b.Fatal(err)
	}
	b.Archive = b.open(b.T, b.folder)
}

func (b *bed) store(batches ...archive.Batch) (stored []bool, rejected map[int]error) {
	b.Helper()
	stored, rejected, err := b.Store(b.Context(), batches)
	if err != nil {
		b.Fatal(err)
	}
	return stored, rejected
}

// rows of a stream.
func (b *bed) rows(stream string) (n int64) {
	b.Helper()
	streams, err := b.Streams(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range streams {
		if s.Schema.Name == stream {
			n = s.Rows
		}
	}
	return n
}

var epoch = time.Unix(1_700_000_000, 0).UTC()

// at is a number of seconds after epoch.
func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * 1e9)) }

type fields = measuretest.Fields

func (b *bed) batch(agent string, schema *measure.Schema, sequence uint64, rows ...fields) archive.Batch {
	b.Helper()
	return archive.Batch{
		Agent: agent, Key: measure.Key{Stream: schema.Name, Epoch: 1, Sequence: sequence}, Schema: schema, Record: measuretest.Record(b.T, schema, rows...),
	}
}

func schemaOf(name string, more ...measure.Field) *measure.Schema {
	return &measure.Schema{Name: name, Fields: append([]measure.Field{measure.TimeField}, more...)}
}

// lines has row i at i milliseconds.
var lines = schemaOf("lines", measure.Field{Name: "line", Type: measure.String}, measure.Field{Name: "v", Type: measure.Int64})

func (b *bed) lines(sequence uint64, from, to int) archive.Batch {
	b.Helper()
	var rows []fields
	for i := from; i < to; i++ {
		rows = append(rows, fields{"time": epoch.Add(time.Duration(i) * time.Millisecond), "line": []string{"a line", "b"}[i%2], "v": i})
	}
	return b.batch("x", lines, sequence, rows...)
}

// storeOnce: a batch is stored once, within a call, between calls and after reopening,
// and what will not come is counted.
func storeOnce(b *bed) {
	for _, s := range []struct {
		name             string
		sequence, oldest uint64
		stored           bool
		batches, missing int64
	}{
		{"first", 0, 0, true, 1, 0},
		{"again", 0, 0, false, 1, 0},
		{"after a gap", 5, 1, true, 2, 0},
		{"in the gap", 2, 1, true, 3, 0},
		{"gap closed below 4", 7, 4, true, 4, 2},
		{"given up, yet comes", 3, 3, false, 4, 2},
		{"gap closed below 9", 9, 9, true, 5, 5},
		{"wrong about the oldest", 10, 1 << 60, true, 6, 5},
	} {
		one := b.lines(s.sequence, 0, 10)
		one.Oldest = s.oldest
		stored, rejected := b.store(one, one)
		d, err := b.Delivered(b.Context(), "x")
		want := archive.Delivered{Batches: s.batches, Rows: 10 * s.batches, Missing: s.missing}
		if stored[0] != s.stored || stored[1] || len(rejected) != 0 || err != nil || d["lines"] != want {
			b.Errorf("%s: stored %v, rejected %v, delivered %+v, %v; want %+v", s.name, stored, rejected, d, err, want)
		}
		if s.sequence%2 == 1 {
			b.reopen()
		}
	}
	if n := b.rows("lines"); n != 60 {
		b.Errorf("%d rows, want 60", n)
	}
	if other, err := b.Delivered(b.Context(), "y"); err != nil || len(other) != 0 {
		b.Errorf("of another agent: %v, %v", other, err)
	}
	for where, want := range map[string]int64{"a line": 8, "b": 9, "none": 0} {
		if n, err := b.Highest(b.Context(), "lines", "v", map[string]string{"line": where}); err != nil || n != want {
			b.Errorf("highest of %q: %d, %v, want %d", where, n, err, want)
		}
	}
	if err := b.Check(b.Context()); err != nil {
		b.Errorf("check: %v", err)
	}
	if size, err := b.Size(); err != nil || size <= 0 {
		b.Errorf("size %d, %v", size, err)
	}
}

// reject: only the batch that cannot be stored is returned.
func reject(b *bed) {
	value := func(name string, t measure.Type) *measure.Schema {
		return schemaOf("s", measure.Field{Name: name, Type: t})
	}
	b.store(b.batch("x", value("v", measure.Int64), 0, fields{"time": epoch}))
	other := b.lines(2, 0, 1)
	other.Stream = "s"
	for i, test := range []struct {
		name  string
		batch archive.Batch
		want  error
	}{
		{"lossy type", b.batch("x", value("v", measure.Float64), 1, fields{"time": epoch}), archive.ErrSchema},
		{"other type", b.batch("x", value("v", measure.String), 1, fields{"time": epoch}), archive.ErrSchema},
		{"the archive's column", b.batch("x", value(archive.AgentColumn, measure.String), 1, fields{"time": epoch}), archive.ErrSchema},
		{"schema of other stream", other, measure.ErrBatch},
		{"shape of our own stream", b.batch("x", &measure.Schema{Name: "clock", Fields: value("offset_ns", measure.String).Fields}, 0, fields{"time": epoch}), archive.ErrSchema},
	} {
		good := b.lines(uint64(i), 0, 10)
		stored, rejected := b.store(test.batch, good)
		if stored[0] || !stored[1] || !errors.Is(rejected[0], test.want) || rejected[1] != nil {
			b.Errorf("%s: stored %v, rejected %v", test.name, stored, rejected)
		}
	}
}

// widen: columns come and grow, and what was stored before stays.
func widen(b *bed) {
	for i, columns := range [][]measure.Field{
		{{Name: "v", Type: measure.Int32}}, {{Name: "v", Type: measure.Int32}, {Name: "text", Type: measure.String}}, {},
		{{Name: "v", Type: measure.Uint32}}, {{Name: "v", Type: measure.Int32}},
	} {
		if _, rejected := b.store(b.batch("x", schemaOf("s", columns...), uint64(i), fields{"time": at(float64(i))})); len(rejected) != 0 {
			b.Fatalf("batch %d: %v", i, rejected)
		}
	}
	b.reopen()
	streams, err := b.Streams(b.Context())
	if err != nil || len(streams) != 1 || streams[0].Rows != 5 || !streams[0].First.Equal(epoch) || !streams[0].Last.Equal(at(4)) {
		b.Fatalf("got %+v, %v", streams, err)
	}
	s := streams[0].Schema
	if i := s.Index("v"); i < 0 || s.Fields[i].Type != measure.Int64 || s.Index("text") < 0 {
		b.Errorf("got schema %+v", s)
	}
}

// allTypes: every type comes back as it went, after reopening.
func allTypes(b *bed) {
	everything := schemaOf("everything", measure.Field{Name: "b", Type: measure.Bool}, measure.Field{Name: "i32", Type: measure.Int32},
		measure.Field{Name: "u32", Type: measure.Uint32}, measure.Field{Name: "i64", Type: measure.Int64, Unit: "ns"}, measure.Field{Name: "u64", Type: measure.Uint64},
		measure.Field{Name: "f", Type: measure.Float64}, measure.Field{Name: "select", Type: measure.String}, measure.Field{Name: "t2", Type: measure.Time},
		measure.Field{Name: "il", Type: measure.Int64List}, measure.Field{Name: "ul", Type: measure.Uint64List})
	var rows []fields
	for i := range 3000 {
		row := fields{"time": epoch.Add(time.Duration(i))}
		if i%7 != 3 {
			row["b"], row["u32"], row["i64"], row["u64"] = i%2 == 0, i, math.MinInt64+int64(i), math.MaxUint64-uint64(i)
			row["f"], row["select"], row["t2"] = float64(i)/3, fmt.Sprintf("%0*d é", i%20, i), epoch.Add(time.Duration(i))
			row["il"], row["ul"] = []int64{-int64(i), 5}[:i%3], []uint64{uint64(i), math.MaxUint64}[:i%3]
		}
		rows = append(rows, row)
	}
	one := b.batch("agent", everything, 0, rows...)
	b.store(one)
	b.reopen()
	next := int64(0)
	err := b.Export(b.Context(), archive.Export{Stream: "everything"}, func(r arrow.RecordBatch) error {
		want := one.Record.NewSlice(next, next+r.NumRows())
		defer want.Release()
		for i, f := range everything.Fields {
			if !array.Equal(want.Column(i), r.Column(i+1)) {
				b.Errorf("column %s from row %d: %v, want %v", f.Name, next, r.Column(i+1), want.Column(i))
			}
		}
		next += r.NumRows()
		return nil
	})
	if err != nil || next != 3000 {
		b.Errorf("%d rows, %v", next, err)
	}
}

// query: statements only read, within limits of rows and time.
func query(b *bed) {
	b.store(b.lines(0, 0, 5000))
	ask := func(sql string, limits archive.Limits, arguments ...any) (n int64, err error) {
		err = b.Query(b.Context(), sql, arguments, limits, func(r arrow.RecordBatch) error { n += r.NumRows(); return nil })
		return n, err
	}
	if n, err := ask("SELECT v FROM lines WHERE line = ?", archive.Limits{Rows: 1000}, "b"); n != 1000 || err != nil {
		b.Errorf("limited: %d rows, %v", n, err)
	}
	if n, err := ask("SELECT v FROM lines", archive.Limits{}); n != 5000 || err != nil {
		b.Errorf("all: %d rows, %v", n, err)
	}
	for _, sql := range []string{"", "DELETE FROM lines", "DROP TABLE lines", "INSERT INTO lines (v) VALUES (1)", "CREATE TABLE mine (i INT)", "SELECT nothing FROM lines", "SELECT 1; SELECT 2"} {
		if _, err := ask(sql, archive.Limits{Rows: 1}); !errors.Is(err, archive.ErrQuery) {
			b.Errorf("%q: %v, want ErrQuery", sql, err)
		}
	}
	own := errors.New("enough")
	if err := b.Query(b.Context(), "SELECT v FROM lines", nil, archive.Limits{}, func(arrow.RecordBatch) error { return own }); !errors.Is(err, own) {
		b.Errorf("receiver's error: %v", err)
	}
	if n := b.rows("lines"); n != 5000 {
		b.Errorf("%d rows are left", n)
	}
}

// series: lines by label, steps with rows alone, functions of each.
func series(b *bed) {
	b.store(b.lines(0, 0, 1000))
	question := archive.Series{
		Stream: "lines", By: []string{"line"}, From: epoch, To: at(2), Points: 4,
		Columns: []archive.Aggregate{{Column: "v", Function: "sum"}, {Column: "v", Function: "max"}, {Column: "v", Function: "count"}, {Column: "v", Function: "p50"}},
	}
	got, err := b.Series(b.Context(), question)
	if err != nil || len(got) != 2 {
		b.Fatalf("got %+v, %v", got, err)
	}
	// Of the first 500 rows the even ones are of "a line": 0, 2, ... 498.
	first := got[slices.IndexFunc(got, func(l archive.Line) bool { return l.Labels["line"] == "a line" })]
	if len(first.Times) != 2 || !first.Times[1].Equal(at(0.5)) || !slices.Equal(first.Values[0], []float64{62_250, 498, 250, 249}) {
		b.Errorf("got %+v", first)
	}
	question.Where, question.By = map[string]string{"line": "b"}, nil
	if got, err := b.Series(b.Context(), question); err != nil || len(got) != 1 || got[0].Values[0][0] != 62_500 {
		b.Errorf("got %+v, %v", got, err)
	}
	question.Where = map[string]string{"nothing": "b"}
	if _, err := b.Series(b.Context(), question); !errors.Is(err, archive.ErrQuery) {
		b.Errorf("unknown column: %v", err)
	}
}

// export: rows in the order of time, whatever their order in batches.
func export(b *bed) {
	b.store(b.lines(0, 3000, 6000), b.lines(1, 0, 3000))
	last, n := arrow.Timestamp(0), 0
	question := archive.Export{Stream: "lines", Columns: []string{"time", "v"}, Where: map[string]string{"line": "b"}, From: at(1), To: at(5), Limit: 900}
	err := b.Export(b.Context(), question, func(r arrow.RecordBatch) error {
		for i, when := range r.Column(0).(*array.Timestamp).Values() {
			if v := r.Column(1).(*array.Int64).Value(i); when <= last || v != int64(1001+2*n) {
				b.Fatalf("row %d is %d", n, v)
			}
			last = when
			n++
		}
		return nil
	})
	if err != nil || n != 900 {
		b.Errorf("%d rows, %v", n, err)
	}
}

// retention bounds age and rows, and outlives the archive's closing. The age is that since
// arrival, whatever times the rows have.
func retention(b *bed) {
	for sequence, test := range []struct {
		retention archive.Retention
		later     time.Duration
		want      int64
	}{
		{archive.Retention{}, time.Hour, 5000}, {archive.Retention{Rows: 9999}, 0, 5000}, {archive.Retention{Age: time.Hour}, time.Minute, 5000},
		{archive.Retention{Age: time.Hour}, 2 * time.Hour, 0}, {archive.Retention{Rows: 1234}, 0, 1234}, {archive.Retention{Age: time.Hour, Rows: 1234}, time.Minute, 1234},
	} {
		schema := schemaOf(fmt.Sprintf("kept%d", sequence))
		var rows []fields
		for i := range 5000 {
			rows = append(rows, fields{"time": epoch.Add(time.Duration(i) * time.Millisecond)})
		}
		rows[7]["time"], rows[8]["time"] = epoch.AddDate(150, 0, 0), time.Unix(0, 1)
		b.store(b.batch("x", schema, 0, rows...))
		b.SetRetention(schema.Name, test.retention)
		b.reopen()
		streams, err := b.Streams(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range streams {
			if s.Schema.Name == schema.Name && s.Retention != test.retention {
				b.Errorf("%+v is listed as %+v", test.retention, s.Retention)
			}
		}
		removed, err := b.Retain(b.Context(), time.Now().Add(test.later))
		b.SetRetention(schema.Name, archive.Retention{})
		if n := b.rows(schema.Name); err != nil || n != test.want || removed[schema.Name] != 5000-test.want {
			b.Errorf("%+v: %d rows, removed %v, %v", test.retention, n, removed, err)
		}
	}
}

// eviction: an agent that sends more rows than its share, with times of its choice, evicts
// its own.
func eviction(b *bed) {
	schema := schemaOf("shared")
	b.SetRetention(schema.Name, archive.Retention{Rows: 3000})
	for sequence := range uint64(5) {
		for agent, most := range map[string]int{"flood": 10_000, "honest": 100, "busy": 280} {
			var rows []fields
			for i := range most {
				one := fields{"time": at(float64(sequence)).Add(time.Duration(i) * time.Microsecond)}
				if agent == "flood" {
					one["time"] = epoch.AddDate(100, 0, i%7)
				}
				rows = append(rows, one)
			}
			b.store(b.batch(agent, schema, sequence, rows...))
		}
	}
	if _, err := b.Retain(b.Context(), time.Now()); err != nil {
		b.Fatal(err)
	}
	counts := map[string]int64{}
	for _, agent := range []string{"flood", "honest", "busy"} {
		err := b.Export(b.Context(), archive.Export{Stream: schema.Name, Where: map[string]string{"agent": agent}}, func(r arrow.RecordBatch) error {
			counts[agent] += r.NumRows()
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if counts["honest"] != 500 || counts["busy"] != 1250 || counts["flood"] != 1250 {
		b.Errorf("left: %v", counts)
	}
}

// unknown: questions about streams that were never stored.
func unknown(b *bed) {
	drop := func(arrow.RecordBatch) error { b.Error("a row of no stream"); return nil }
	if err := b.Export(b.Context(), archive.Export{Stream: "none"}, drop); !errors.Is(err, archive.ErrUnknown) {
		b.Errorf("export: %v", err)
	}
	if _, err := b.Highest(b.Context(), "none", "v", nil); !errors.Is(err, archive.ErrUnknown) {
		b.Errorf("highest: %v", err)
	}
	if _, err := b.Series(b.Context(), archive.Series{Stream: "none"}); !errors.Is(err, archive.ErrUnknown) {
		b.Errorf("series: %v", err)
	}
	if answer, err := b.Windows(b.Context(), archive.Windows{From: epoch, To: at(900), Points: 300}); err != nil || len(answer.Windows) != 0 || answer.Step != 5*time.Second {
		b.Errorf("windows: %+v, %v", answer, err)
	}
	if err := b.Traces(b.Context(), archive.Traces{Source: "a", Most: 1}, drop); err != nil {
		b.Errorf("traces: %v", err)
	}
	if streams, err := b.Streams(b.Context()); err != nil || len(streams) != 0 {
		b.Errorf("streams: %v, %v", streams, err)
	}
}
