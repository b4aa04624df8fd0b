package duckdb

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// lines has rows of known values: row i at i milliseconds, of line i%3.
var lines = schemaOf("lines", measure.Field{Name: "line", Type: measure.String}, measure.Field{Name: "v", Type: measure.Int64},
	measure.Field{Name: "w", Type: measure.Uint64})

var epoch = time.Unix(1_700_000_000, 0).UTC()

func lineBatch(t testing.TB, sequence uint64, from, to int) archive.Batch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, lines.Arrow())
	defer b.Release()
	for i := from; i < to; i++ {
		b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(epoch.Add(time.Duration(i) * time.Millisecond).UnixNano()))
		b.Field(1).(*array.StringBuilder).Append(lineOf(i))
		b.Field(2).(*array.Int64Builder).Append(valueOfRow(i))
		b.Field(3).(*array.Uint64Builder).Append(uint64(i % 5))
	}
	r := b.NewRecordBatch()
	t.Cleanup(r.Release)
	return archive.Batch{Agent: "x", Key: measure.Key{Stream: "lines", Sequence: sequence}, Schema: lines, Record: r}
}

func lineOf(i int) string    { return []string{"a line", "b", "a line", "c"}[i%4] }
func valueOfRow(i int) int64 { return int64(i*7919%1000) - 300 }
func lineArchive(t testing.TB, rows int) *Archive {
	t.Helper()
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	store(t, a, lineBatch(t, 0, 0, rows))
	return a
}

// TestAttack: no query writes, reads a file or changes a setting.
func TestAttack(t *testing.T) {
	a := lineArchive(t, 10)
	file := filepath.Join(t.TempDir(), "out")
	for _, sql := range []string{
		"", ";", "COPY lines TO '" + file + "'", "COPY lines FROM '/etc/passwd'", "ATTACH '" + file + "'", "INSTALL httpfs", "LOAD httpfs",
		"PRAGMA database_list", "PRAGMA table_info('lines')", "SET memory_limit='1TB'", "RESET memory_limit", "SELECT * FROM read_csv('/etc/passwd')",
		"SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM read_blob('/etc/passwd')", "SELECT * FROM glob('/etc/*')",
		"SELECT getenv('HOME')", "SELECT 1; SELECT 2", "SELECT 1; DROP TABLE lines", "INSERT INTO lines (agent) VALUES ('x')",
		"UPDATE lines SET v = 0", "DELETE FROM lines", "DELETE FROM pillion.delivery", "DROP TABLE lines", "DROP TABLE pillion.streams",
		"CREATE TABLE mine (i INT)", "CREATE TEMP TABLE mine (i INT)", "CREATE TABLE mine AS SELECT 1", "ALTER TABLE lines DROP v",
		"SELECT * FROM '/etc/passwd'", "SELECT * FROM '" + a.path + "'", "EXPORT DATABASE '" + file + "'", "IMPORT DATABASE '/tmp'",
		"CALL pragma_version()", "EXPLAIN ANALYZE DELETE FROM lines", "EXPLAIN ANALYZE COPY lines TO '" + file + "'", "/* SELECT */ DROP TABLE lines",
		"-- SELECT\nDROP TABLE lines", "WITH x AS (SELECT 1) INSERT INTO lines (agent) SELECT 'x' FROM x", "BEGIN", "COMMIT",
		"CHECKPOINT", "VACUUM", "PREPARE p AS SELECT 1", "EXECUTE p", "USE pillion", "DETACH a", "MERGE INTO lines USING lines AS o ON false WHEN NOT MATCHED THEN INSERT",
		"SELECT * FROM query('DROP TABLE lines')", "SELECT nothing FROM lines", "SELECT error('x')", "SELECT ?", "SELECT 1\x00; DROP TABLE lines",
	} {
		err := a.Query(t.Context(), sql, nil, archive.Limits{Rows: 10}, func(arrow.RecordBatch) error { return nil })
		if !errors.Is(err, archive.ErrQuery) {
			t.Errorf("%q: %v, want ErrQuery", sql, err)
		}
	}
	if files, _ := filepath.Glob(file + "*"); len(files) != 0 {
		t.Errorf("files were written: %v", files)
	}
	if n := count(t, a, "SELECT count(*) FROM lines WHERE v IS NOT NULL"); n != 10 {
		t.Errorf("%d rows of 10 remain", n)
	}
}

// TestExactTypes: integers of 128 bits keep their digits on the way out of DuckDB, signed or not.
func TestExactTypes(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	const huge, signed = "340282366920938463463374607431768211455", "-170141183460469231731687303715884105728"
	var texts []string
	err := a.Query(t.Context(), "SELECT i, "+huge+"::UHUGEINT AS u, ("+signed+")::HUGEINT AS h, [NULL, "+huge+"::UHUGEINT] AS l, {'a': [i::UHUGEINT], 'b': 2} AS s "+
		"FROM range(3) r(i) ORDER BY i", nil, archive.Limits{}, func(r arrow.RecordBatch) error {
		for i := range int(r.NumRows()) {
			list := r.Column(3).(*array.List).ListValues().(*array.Decimal256)
			from, _ := r.Column(3).(*array.List).ValueOffsets(i)
			inner := r.Column(4).(*array.Struct).Field(0).(*array.List)
			at, _ := inner.ValueOffsets(i)
			texts = append(texts, r.Column(1).(*array.Decimal256).Value(i).BigInt().String(), r.Column(2).(*array.Decimal128).Value(i).BigInt().String(),
				list.Value(int(from)+1).BigInt().String(), inner.ListValues().(*array.Decimal256).Value(int(at)).BigInt().String())
			if !list.IsNull(int(from)) {
				t.Error("a null got a value")
			}
		}
		return nil
	})
	if want := []string{huge, signed, huge, "0", huge, signed, huge, "1", huge, signed, huge, "2"}; err != nil || !slices.Equal(texts, want) {
		t.Errorf("%q, %v", texts, err)
	}
	none := 0
	if err := a.Query(t.Context(), "SELECT 1::UHUGEINT AS u WHERE false", nil, archive.Limits{}, func(r arrow.RecordBatch) error {
		none += int(r.Column(0).(*array.Decimal256).Len())
		return nil
	}); err != nil || none != 0 {
		t.Errorf("%d rows, %v", none, err)
	}
}

func TestQuery(t *testing.T) {
	a := lineArchive(t, 5000)
	rows := []struct {
		name, sql string
		arguments []any
		limit     int64
		want      int64
	}{
		{"all", "SELECT * FROM lines", nil, 0, 5000},
		{"limited within a chunk", "SELECT * FROM lines", nil, 100, 100},
		{"limited after chunks", "FROM lines", nil, 4500, 4500},
		{"with a common table", " -- why\n(WITH x AS (SELECT 1) SELECT * FROM x)", nil, 0, 1},
		{"described", "DESCRIBE lines", nil, 0, 6},
		{"explained", "EXPLAIN SELECT 1", nil, 0, 1},
		{"values", "VALUES (1), (2)", nil, 0, 2},
		{"tables", "SHOW TABLES", nil, 0, 1},
		{"by text and number", "SELECT * FROM lines WHERE line = ? AND v < ?", []any{"b", int64(-1000)}, 0, 0},
		{"by time", "SELECT * FROM lines WHERE time < ?", []any{epoch.Add(time.Second)}, 0, 1000},
		{"by the time now", "SELECT * FROM lines WHERE time < now()::TIMESTAMP - INTERVAL 1 HOUR", nil, 0, 5000},
		{"odd types without a row", "SELECT v, 1.5::DECIMAL(4,2), DATE '2020-01-01', INTERVAL 1 DAY, {'a': 1}, [1], uuid(), true, 'x'::BLOB FROM lines WHERE v < -1000", nil, 0, 0},
		{"odd types", "SELECT sum(v), 1.5::DECIMAL(4,2), DATE '2020-01-01', INTERVAL 1 DAY, {'a': 1}, [1], uuid(), NULL FROM lines", nil, 0, 1},
	}
	for _, r := range rows {
		var n, columns int64
		err := a.Query(t.Context(), r.sql, r.arguments, archive.Limits{Rows: r.limit}, func(b arrow.RecordBatch) error {
			n += b.NumRows()
			columns = b.NumCols()
			return nil
		})
		if err != nil || n != r.want || columns == 0 {
			t.Errorf("%s: %d rows, want %d, of %d columns; %v", r.name, n, r.want, columns, err)
		}
	}
}

func TestQueryEnds(t *testing.T) {
	a := lineArchive(t, 10)
	endless := "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
	drop := func(arrow.RecordBatch) error { return nil }
	if err := a.Query(t.Context(), endless, nil, archive.Limits{Time: 50 * time.Millisecond}, drop); !errors.Is(err, archive.ErrQuery) || !strings.Contains(err.Error(), "time limit") {
		t.Errorf("after its timeout: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := a.Query(ctx, endless, nil, archive.Limits{}, drop); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
	own := errors.New("enough for me")
	if err := a.Query(t.Context(), "FROM lines", nil, archive.Limits{}, func(arrow.RecordBatch) error { return own }); !errors.Is(err, own) {
		t.Errorf("receiver's error: %v", err)
	}
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	ended := make(chan error)
	go func() {
		ended <- a.Query(context.Background(), "SELECT * FROM range(10000000000)", nil, archive.Limits{}, func(arrow.RecordBatch) error {
			begin()
			return nil
		})
	}()
	<-begun
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("a query continues after the archive is closed")
	}
	if err := a.Query(t.Context(), "SELECT 1", nil, archive.Limits{}, drop); err == nil {
		t.Error("a closed archive answers")
	}
}

// quantile is quantile_cont: linear between the two nearest ranks.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (sorted[high]-sorted[low])*(at-float64(low))
}

// TestSeries compares with a plain computation.
func TestSeries(t *testing.T) {
	const rows, points = 5000, 7
	a := lineArchive(t, rows)
	functions := []string{"avg", "min", "max", "sum", "count", "first", "last", "p50", "p90", "p99"}
	q := archive.Series{Stream: "lines", By: []string{"line"}, From: epoch.Add(100 * time.Millisecond), To: epoch.Add(4900 * time.Millisecond), Points: points}
	for _, f := range functions {
		q.Columns = append(q.Columns, archive.Aggregate{Column: "v", Function: f})
	}
	q.Columns = append(q.Columns, archive.Aggregate{Column: "v", Function: "avg", Weight: "w"})
	got, err := a.Series(t.Context(), q)
	if err != nil || len(got) != 3 || got[0].Labels["line"] != "a line" || got[1].Labels["line"] != "b" {
		t.Fatal(got, err)
	}
	step := 686 * time.Millisecond // 4800 ms by 7, rounded up
	for _, line := range got {
		if len(line.Times) != points || len(line.Values) != points {
			t.Fatalf("%d points, want %d", len(line.Times), points)
		}
		for k, at := range line.Times {
			var values []float64
			var weighted, weight float64
			for i := range rows {
				moment := epoch.Add(time.Duration(i) * time.Millisecond)
				if lineOf(i) == line.Labels["line"] && !moment.Before(at) && moment.Before(at.Add(step)) && moment.Before(q.To) {
					values = append(values, float64(valueOfRow(i)))
					weighted += float64(valueOfRow(i)) * float64(i%5)
					weight += float64(i % 5)
				}
			}
			sorted := slices.Sorted(slices.Values(values))
			sum := 0.0
			for _, v := range values {
				sum += v
			}
			want := []float64{sum / float64(len(values)), sorted[0], sorted[len(sorted)-1], sum, float64(len(values)), values[0], values[len(values)-1],
				quantile(sorted, 0.5), quantile(sorted, 0.9), quantile(sorted, 0.99), weighted / weight}
			for n, w := range want {
				if math.Abs(line.Values[k][n]-w) > 1e-6 {
					t.Errorf("%v point %d column %d: %v, want %v", line.Labels, k, n, line.Values[k][n], w)
				}
			}
		}
	}
	faults := []struct {
		name   string
		change func(*archive.Series)
		want   error
	}{
		{"stream", func(q *archive.Series) { q.Stream = "none" }, archive.ErrUnknown},
		{"column", func(q *archive.Series) { q.Columns = []archive.Aggregate{{Column: `v"`}} }, archive.ErrQuery},
		{"function", func(q *archive.Series) { q.Columns = []archive.Aggregate{{Column: "v", Function: "sum) --"}} }, archive.ErrQuery},
		{"average of text", func(q *archive.Series) { q.Columns = []archive.Aggregate{{Column: "line", Function: "avg"}} }, archive.ErrQuery},
		{"label", func(q *archive.Series) { q.By = []string{"none"} }, archive.ErrQuery},
		{"where", func(q *archive.Series) { q.Where = map[string]string{"none": "1"} }, archive.ErrQuery},
		{"value of where", func(q *archive.Series) { q.Where = map[string]string{"v": "many"} }, archive.ErrQuery},
		{"points", func(q *archive.Series) { q.Points = 0 }, archive.ErrQuery},
		{"range", func(q *archive.Series) { q.To = q.From }, archive.ErrQuery},
	}
	for _, f := range faults {
		bad := q
		f.change(&bad)
		if _, err := a.Series(t.Context(), bad); !errors.Is(err, f.want) {
			t.Errorf("%s: %v, want %v", f.name, err, f.want)
		}
	}
	q.Lines, q.By = 1, []string{"line", "agent"}
	if got, err := a.Series(t.Context(), q); err != nil || len(got) != 1 || got[0].Labels["agent"] != "x" {
		t.Error(got, err)
	}
	q.Where, q.By = map[string]string{"line": "b", "agent": "x"}, nil
	if got, err := a.Series(t.Context(), q); err != nil || len(got) != 1 || got[0].Values[1][4] > 200 {
		t.Error(got, err)
	}
}

// TestWhere: conditions on columns of each type.
func TestWhere(t *testing.T) {
	of := schemaOf("types", measure.Field{Name: "b", Type: measure.Bool}, measure.Field{Name: "i", Type: measure.Int64}, measure.Field{Name: "u", Type: measure.Uint64},
		measure.Field{Name: "f", Type: measure.Float64}, measure.Field{Name: "s", Type: measure.String}, measure.Field{Name: "t", Type: measure.Time}, measure.Field{Name: "l", Type: measure.Int64List})
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	store(t, a, rowBatch(t, of, "x", 0,
		flowRow{"time": at, "b": true, "i": int64(math.MinInt64), "u": uint64(math.MaxUint64), "f": 0.5, "s": "it's", "t": at, "l": []int64{1}},
		flowRow{"time": epoch, "b": false, "i": 1, "u": 1, "f": 1.0, "s": "", "t": epoch}, flowRow{"time": epoch}))
	for _, row := range []struct{ column, value string }{
		{"b", "TRUE"}, {"b", "0"}, {"i", "-9223372036854775808"}, {"u", "18446744073709551615"}, {"f", "5e-1"}, {"s", "it's"}, {"s", ""},
		{"t", "2026-01-02 03:04:05.000006"}, {"t", "2026-01-02T03:04:05.000006Z"}, {"time", "2026-01-02T03:04:05.000006"},
	} {
		var n int64
		err := a.Export(t.Context(), archive.Export{Stream: "types", Where: map[string]string{row.column: row.value}}, func(r arrow.RecordBatch) error {
			n += r.NumRows()
			return nil
		})
		if err != nil || n != 1 {
			t.Errorf("%s = %q: %d rows, %v", row.column, row.value, n, err)
		}
	}
	for column, value := range map[string]string{"b": "perhaps", "i": "x", "u": "-1", "f": "many", "t": "yesterday", "l": "[1]"} {
		err := a.Export(t.Context(), archive.Export{Stream: "types", Where: map[string]string{column: value}}, func(arrow.RecordBatch) error { return nil })
		if !errors.Is(err, archive.ErrQuery) {
			t.Errorf("%s = %q: %v", column, value, err)
		}
	}
}
