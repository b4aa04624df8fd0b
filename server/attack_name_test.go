package server_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pillion.dev/api/pillionv1"
)

var evilNames = []string{
	"../../etc/passwd", "/etc/passwd", "..", ".", "", "a\x00b", "CON", `a"b`, "a'b", "a/b", `a\b`, "ünï", "A", "-a", "a\nb", "%2e%2e",
	strings.Repeat("x", 10_000), "lock", "agents.json", "$(id)",
}

// files returns the paths below a folder.
func files(t *testing.T, folder string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed meanwhile
		}
		if info, err := entry.Info(); err == nil {
			want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[entry.IsDir()]
			if path != folder && info.Mode().Perm() != want {
				t.Errorf("%s has mode %o, want %o", path, info.Mode().Perm(), want)
			}
		}
		all[path] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestNamesDoNotBecomePaths: no name from a caller becomes a file name, and only the
// server's user can access its files, even in a folder that was open to all.
func TestNamesDoNotBecomePaths(t *testing.T) {
	outside := t.TempDir()
	folder := filepath.Join(outside, "deep", "data")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(folder, 0o755), os.Chmod(filepath.Dir(folder), 0o700)); err != nil {
		t.Fatal(err)
	}
	s := start(t, folder)
	feed(t, s.agent(t, "honest"), 0, 2)
	client := s.client(t, s.operator)
	ctx := t.Context()
	within(t, "all usual files exist", func() bool { return number(t, client, "SELECT count(*) FROM audit") > 0 })
	before := files(t, outside)
	for _, name := range evilNames {
		client.Server.CreateToken(ctx, &pillionv1.CreateTokenRequest{Name: name, Role: "viewer"})
		client.Agents.SetLabels(ctx, &pillionv1.SetLabelsRequest{Name: "honest", Labels: map[string]string{name: name}})
		client.Agents.SetLabels(ctx, &pillionv1.SetLabelsRequest{Name: name})
		client.Agents.DeleteAgent(ctx, &pillionv1.DeleteAgentRequest{Name: name})
		client.Sessions.CreateSession(ctx, &pillionv1.CreateSessionRequest{Spec: &pillionv1.SessionSpec{
			Name: name, Sources: []string{name}, Destinations: []string{"honest"}, TimeZone: name, Cron: "* * * * *",
		}})
		client.Sessions.GetSession(ctx, &pillionv1.GetSessionRequest{Name: name})
		client.Data.SetRetention(ctx, &pillionv1.SetRetentionRequest{Stream: name, Retention: &pillionv1.Retention{Rows: 1}})
		client.Data.Series(ctx, &pillionv1.SeriesRequest{Stream: name, Aggregates: []*pillionv1.Aggregate{{Column: name, Function: name}}})
		s.call(t, "/pillion.v1.EnrolService/Enrol", "", `{"token":"`+s.join+`","name":"x/../`+url.PathEscape(name)+`"}`)
		for _, where := range []string{"stream=" + url.QueryEscape(name), "stream=numbers&format=" + url.QueryEscape(name), "stream=numbers&columns=" + url.QueryEscape(name)} {
			request, _ := http.NewRequest("GET", "http://"+s.welcome.HTTP+"/export?"+where, nil)
			request.Header.Set("Authorization", "Bearer "+s.operator)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if strings.Contains(string(text), "root:") || response.StatusCode == http.StatusOK && !strings.Contains(where, "format=") && !strings.HasSuffix(where, "columns=") {
				t.Errorf("export %.80s: %d %.80s", where, response.StatusCode, text)
			}
		}
	}
	for path := range files(t, outside) {
		// Files are saved to a temporary one and renamed; the database has its log.
		if !before[path] && filepath.Dir(path) != folder && !strings.Contains(path, "archive.duckdb.tmp") {
			t.Errorf("%s is new", path)
		}
	}
	s.stop()
	for path := range files(t, outside) {
		if known := strings.TrimSuffix(strings.TrimSuffix(path, ".tmp"), ".previous"); !before[path] && !before[known] && filepath.Base(known) != "sessions.json" && filepath.Base(known) != "assignments.json" {
			t.Errorf("%s was left behind", path)
		}
	}
	if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
}

// sandboxed are statements that reach beyond streams; all must be refused.
var sandboxed = []string{
	"COPY numbers TO '/tmp/x.csv'", "ATTACH '/tmp/x.db'", "INSTALL httpfs", "LOAD httpfs", "FROM read_csv('/etc/passwd')", "FROM glob('/etc/*')",
	"SELECT getenv('HOME')", "PRAGMA database_list", "SET threads = 1", "SELECT 1; DROP TABLE numbers", "CALL enable_logging()", "EXPORT DATABASE '/tmp/x'",
	"SELECT * FROM '/etc/passwd'", "FROM read_text('/etc/passwd')", "FROM sniff_csv('/etc/passwd')", "FROM parquet_scan('/etc/passwd')",
	"FROM query_table('/etc/passwd')", "FROM duckdb_secrets()", "FROM duckdb_settings()", "EXPLAIN ANALYZE COPY (SELECT 1) TO '/tmp/x'", "DELETE FROM numbers",
	"INSERT INTO numbers VALUES (1)", "CREATE TABLE x (y INT)", "DROP TABLE numbers", "CHECKPOINT", "VACUUM", "FROM force_checkpoint()", "BEGIN", "USE pillion",
	"SELECT repeat('x', 1000000000) FROM range(1000)", "SELECT lpad('x', 2000000000, 'y')", "FROM arrow_scan(1, 2, 3)",
}

// bombs use unlimited resources; they end at the memory limit, or with their caller.
var bombs = []string{
	"SELECT sum(a.i * b.i) FROM range(10000000) a(i), range(10000000) b(i)", "SELECT count(*) FROM range(1000000000000)",
	"WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
	"SELECT list(i) FROM range(10000000000) t(i)", "SELECT i FROM range(3000000000) t(i) ORDER BY hash(i)",
	"WITH RECURSIVE t(n) AS (SELECT 'x' UNION ALL SELECT n || n FROM t) SELECT max(length(n)) FROM t",
}

// TestQueriesAreBounded: an analyst's most expensive queries stop neither the ingest, nor
// the queries of other users, nor the server.
func TestQueriesAreBounded(t *testing.T) { queriesAreBounded(t, 12) }

// queriesAreBounded runs so many of them at once.
func queriesAreBounded(t *testing.T, count int) {
	s := start(t, t.TempDir()+"/data")
	honest := s.agent(t, "honest")
	viewer, other := s.client(t, s.token(t, "greedy", "analyst")), s.client(t, s.operator)
	feed(t, honest, 0, 5)
	for _, sql := range sandboxed {
		if rows, err := query(t.Context(), viewer, sql); err == nil {
			t.Errorf("%s: got %.200v", sql, rows)
		}
	}
	before := used(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	var begun, answered atomic.Int64
	for n := range count {
		running.Go(func() {
			begun.Add(1)
			if rows, err := query(ctx, viewer, bombs[n%len(bombs)]); err == nil {
				t.Errorf("%s: got %.100v", bombs[n%len(bombs)], rows)
			}
		})
		running.Go(func() {
			stream, err := viewer.Data.Tail(ctx, &pillionv1.TailRequest{Streams: []string{"numbers"}})
			if err != nil {
				return
			}
			defer stream.Close()
			for stream.Receive() {
				answered.Add(int64(len(stream.Msg().Rows)))
			}
		})
		running.Go(func() {
			stream, err := viewer.Data.Export(ctx, &pillionv1.ExportRequest{Stream: "numbers", Format: "parquet"})
			if err == nil {
				for stream.Receive() {
				}
				stream.Close()
			}
		})
	}
	within(t, "all have begun", func() bool { return begun.Load() == int64(count) })
	feed(t, honest, 5, 25)
	if n := number(t, other, "SELECT count(*) FROM numbers"); n != 250 {
		t.Errorf("%d rows of 250 during other queries", n)
	}
	within(t, "tails are served", func() bool { return answered.Load() > 0 })
	cancel()
	running.Wait()
	viewer.Close()
	feed(t, honest, 25, 30)
	if n := number(t, other, "SELECT count(*) FROM numbers"); n != 300 {
		t.Errorf("%d rows of 300", n)
	}
	settled(t, before)
}
