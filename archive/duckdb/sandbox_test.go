package duckdb

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/archive/ledger"
	"pillion.dev/measure"
)

// TestQueriesOnlyRead: access to files, settings or the archive itself is refused. DIR is
// the archive's folder, where DuckDB itself would permit it.
func TestQueriesOnlyRead(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "archive.duckdb")
	a := open(t, path, Options{})
	store(t, a, batch(t, "a", everything, 0, 0, 10))
	if err := os.Mkdir(path+".tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, sql := range map[string]string{
		"write beside":       "EXPLAIN ANALYZE COPY (SELECT 42) TO 'DIR/archive.duckdb.tmp/x.csv'",
		"overwrite archive":  "EXPLAIN ANALYZE COPY (SELECT 42) TO 'DIR/archive.duckdb' (USE_TMP_FILE false)",
		"overwrite log":      "EXPLAIN /**/ ANALYZE COPY (SELECT 42) TO 'DIR/archive.duckdb.wal' (USE_TMP_FILE false)",
		"temporary table":    "EXPLAIN ANALYZE CREATE TEMP TABLE x AS SELECT 1",
		"checkpoint":         "EXPLAIN ANALYZE CHECKPOINT",
		"read archive":       "SELECT * FROM read_blob('DIR/archive.duckdb')",
		"read in subquery":   "SELECT (SELECT content FROM read_text('DIR/archive.duckdb')), 1",
		"qualified":          "SELECT * FROM system.main.read_text('DIR/archive.duckdb')",
		"describe a file":    "DESCRIBE SELECT * FROM read_csv('DIR/archive.duckdb')",
		"log on":             "FROM enable_logging()",
		"log to a file":      "FROM enable_logging('QueryLog', storage='file', storage_path='DIR/logs')",
		"hidden SQL":         "FROM query('FROM enable_logging()')",
		"hidden in JSON":     "FROM json_execute_serialized_sql(json_serialize_sql('FROM enable_logging()'))",
		"profile":            "SELECT * FROM enable_profiling()",
		"log a line":         "SELECT write_log('x')",
		"checkpoint by name": "FROM checkpoint()",
		"settings":           "FROM duckdb_settings()",
		"gigabytes of text":  "SELECT repeat('x', 100000000) FROM range(1000)",
		"padded":             "SELECT LPAD('x', 2000000000, 'y')",
		"doubled":            "SELECT " + strings.Repeat("a||", 30) + "a FROM (SELECT 'x' AS a)",
		"long statement":     "SELECT '" + strings.Repeat("x", statementMost) + "'",
		"two statements":     "SELECT 1; SELECT 2",
	} {
		t.Run(name, func(t *testing.T) {
			err := a.Query(t.Context(), strings.ReplaceAll(sql, "DIR", folder), nil, archive.Limits{Rows: 10, Time: 10 * time.Second},
				func(arrow.RecordBatch) error { return nil })
			if !errors.Is(err, archive.ErrQuery) || a.broken.Load() {
				t.Errorf("got %v, broken %v", err, a.broken.Load())
			}
		})
	}
	if files, _ := filepath.Glob(filepath.Join(folder, "*", "*")); len(files) > 0 {
		t.Errorf("there are %v", files)
	}
	for _, sql := range []string{
		"EXPLAIN SELECT 1", "explain  analyze FROM everything", "DESCRIBE everything", "SHOW TABLES", "SUMMARIZE everything",
		"WITH x AS (SELECT agent || ' > ' || 'b' AS p FROM everything) SELECT p, count(*) FROM x GROUP BY ALL",
		"SELECT i, row_number() OVER (ORDER BY i) FROM range(3) t(i)", "TABLE everything", "VALUES (1)", "-- why\n(SELECT 1)",
	} {
		rows := int64(0)
		err := a.Query(t.Context(), sql, nil, archive.Limits{Rows: 10}, func(r arrow.RecordBatch) error { rows += r.NumRows(); return nil })
		if err != nil || rows == 0 {
			t.Errorf("%s: %d rows, %v", sql, rows, err)
		}
	}
}

// TestAgentsCannotDefineStandardStreams: the first batch of a standard stream cannot give
// its columns types that exclude other agents.
func TestAgentsCannotDefineStandardStreams(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	wrong := &measure.Schema{Name: "clock", Fields: []measure.Field{measure.TimeField, {Name: "offset_ns", Type: measure.String}}}
	if _, rejected := store(t, a, batch(t, "evil", wrong, 0, 0, 1)); !errors.Is(rejected[0], archive.ErrSchema) {
		t.Errorf("got %v", rejected)
	}
	if stored, rejected := store(t, a, batch(t, "good", &measure.Clock, 0, 0, 5)); !stored[0] || len(rejected) != 0 {
		t.Errorf("got %v, %v", stored, rejected)
	}
}

// TestStreamsAreBounded: the number of agents' tables is limited, and standard streams can
// be created at the limit.
func TestStreamsAreBounded(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	a.cache.Lock()
	for i := range ledger.StreamsMost {
		a.catalog.Schemas[fmt.Sprint("full", i)] = everything
	}
	a.cache.Unlock()
	if _, rejected := store(t, a, batch(t, "a", everything, 0, 0, 1)); !errors.Is(rejected[0], archive.ErrSchema) {
		t.Errorf("got %v", rejected)
	}
	if stored, rejected := store(t, a, batch(t, "a", &measure.Clock, 0, 0, 1)); !stored[0] {
		t.Errorf("got %v, %v", stored, rejected)
	}
}
