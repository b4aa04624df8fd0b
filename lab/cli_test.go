package lab_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/parquet/file"
)

// lines splits a text into lines.
func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// TestCommandLine: the commands of a user, against a server that measures.
func TestCommandLine(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, perfect)
	b.firstHint()
	app := b.steady(secondIPv4, 2)
	b.running("s", "--from", "a", "--to", "b", "--trace=-1s", "--interval", "200ms")
	app.marks()

	t.Run("watch", func(t *testing.T) { b.watches(t) })
	t.Run("tail", func(t *testing.T) { b.tails(t) })
	b.stopped("s")
	b.reaches(came(app.end()), "SELECT sum(packets) FROM flows")
	t.Run("export", func(t *testing.T) { b.exports(t) })
	t.Run("query", func(t *testing.T) { b.onlyReads(t) })
	t.Run("roles", func(t *testing.T) { b.knowsRoles(t) })
}

// firstHint runs the command that the server suggests first.
func (b *serviceBed) firstHint() {
	b.t.Helper()
	said, err := os.ReadFile(filepath.Join(filepath.Dir(b.path("server")), "server.log"))
	if err != nil {
		b.t.Fatal(err)
	}
	hints := regexp.MustCompile(`(?m)^ +pillion (--server .*)$`).FindAllSubmatch(said, -1)
	if len(hints) < 2 {
		b.t.Fatalf("the server prints %d hints", len(hints))
	}
	for _, hint := range hints {
		text := string(hint[1])
		if strings.Contains(text, "create") {
			text += " --dry-run"
		}
		if output, err := b.Exec(b.t.Context(), b.server, "sh", "-c", cliPath+" "+text); err != nil {
			b.t.Errorf("pillion %s: %v\n%s", text, err, output)
		}
	}
}

func (b *serviceBed) watches(t *testing.T) {
	for _, by := range []string{"pair", "flow"} {
		output := b.pillion("session", "watch", "s", "--count", "3", "--by", by, "-o", "json")
		got := lines(output)
		if len(got) != 3 {
			t.Errorf("watch of 3 windows by %s has %d lines:\n%s", by, len(got), output)
		}
		for _, line := range got {
			if !json.Valid([]byte(line)) {
				t.Errorf("line of a watch is no JSON: %s", line)
			}
		}
	}
	if output := b.pillion("session", "watch", "s", "--count", "2"); !strings.Contains(output, "a") {
		t.Errorf("watch shows\n%s", output)
	}
}

func (b *serviceBed) tails(t *testing.T) {
	output := b.pillion("tail", "flows", "--count", "7", "--where", "session=s", "--columns", "session,agent,source,packets", "-o", "json")
	if got := lines(output); len(got) != 7 {
		t.Errorf("tail of 7 rows has %d lines:\n%s", len(got), output)
	}
	for _, line := range lines(output) {
		var row struct {
			Stream, Session, Agent, Source string
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil || row != (struct{ Stream, Session, Agent, Source string }{"flows", "s", "b", "a"}) {
			t.Errorf("row %s: %v", line, err)
		}
	}
	records, err := csv.NewReader(strings.NewReader(b.pillion("tail", "flows", "-n", "3", "-o", "csv"))).ReadAll()
	if err != nil || len(records) != 4 {
		t.Errorf("tail of 3 rows as CSV has %d lines: %v", len(records), err)
	}
}

// exports writes each format and counts the rows in it.
func (b *serviceBed) exports(t *testing.T) {
	counts := map[string]func(*testing.T, []byte) int64{"csv": csvRows, "parquet": parquetRows, "arrow": arrowRows}
	want := b.number("SELECT count(*) FROM flows WHERE session = 's' AND dport = 9001")
	for format, count := range counts {
		path := filepath.Join(t.TempDir(), "flows."+format)
		output := b.pillion("export", "flows", "--where", "session=s", "--where", "dport=9001", "-f", path)
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := count(t, content); got != want || want == 0 {
			t.Errorf("%s has %d rows, the archive %d: %s", format, got, want, output)
		}
	}
}

func csvRows(t *testing.T, content []byte) int64 {
	records, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
	if err != nil {
		t.Error(err)
	}
	return int64(len(records)) - 1
}

func parquetRows(t *testing.T, content []byte) int64 {
	reader, err := file.NewParquetReader(bytes.NewReader(content))
	if err != nil {
		t.Error(err)
		return 0
	}
	defer reader.Close()
	return reader.NumRows()
}

func arrowRows(t *testing.T, content []byte) (rows int64) {
	reader, err := ipc.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Error(err)
		return 0
	}
	defer reader.Release()
	for reader.Next() {
		rows += reader.RecordBatch().NumRows()
	}
	if err := reader.Err(); err != nil {
		t.Error(err)
	}
	return rows
}

// onlyReads runs queries that must be refused.
func (b *serviceBed) onlyReads(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.csv")
	before := b.number("SELECT count(*) FROM flows")
	for name, sql := range map[string]string{
		"delete":  "DELETE FROM flows",
		"drop":    "DROP TABLE flows",
		"create":  "CREATE TABLE mine AS SELECT 1",
		"insert":  "INSERT INTO flows SELECT * FROM flows",
		"two":     "SELECT 1; DELETE FROM flows",
		"with":    "WITH x AS (SELECT 1) DELETE FROM flows",
		"copy":    "COPY flows TO '" + out + "'",
		"attach":  "ATTACH '" + out + "' AS other",
		"read":    "SELECT * FROM read_text('/etc/passwd')",
		"setting": "SET memory_limit = '1MB'",
		"explain": "EXPLAIN ANALYZE DELETE FROM flows",
		"install": "INSTALL httpfs",
	} {
		if output, err := b.tryPillion("query", sql); err == nil {
			t.Errorf("%s: %s was executed:\n%s", name, sql, output)
		}
	}
	if after := b.number("SELECT count(*) FROM flows"); after != before {
		t.Errorf("%d rows before, %d after", before, after)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a query wrote a file")
	}
}

// as runs the command line with a new token of a role.
func (b *serviceBed) as(role string) func(arguments ...string) (string, error) {
	b.t.Helper()
	secret := lines(b.pillion("token", "create", "test-"+role, "--role", role))
	path := filepath.Join(b.t.TempDir(), role)
	if err := os.WriteFile(path, []byte(secret[len(secret)-1]), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return func(arguments ...string) (string, error) {
		command := exec.CommandContext(b.t.Context(), cliPath, append([]string{"--token-file", path}, arguments...)...)
		command.Env = append(os.Environ(), "HOME="+b.path("server"), "PILLION_DATA="+b.path("server"))
		var output strings.Builder
		command.Stdout, command.Stderr = &output, &output
		if err := b.Start(b.server, command); err != nil {
			return "", err
		}
		err := command.Wait()
		return output.String(), err
	}
}

func (b *serviceBed) knowsRoles(t *testing.T) {
	roles := map[string]func(...string) (string, error){"viewer": b.as("viewer"), "analyst": b.as("analyst"), "operator": b.as("operator"), "join": b.as("join")}
	tests := map[string]struct {
		arguments []string
		may       string
	}{
		"list sessions": {[]string{"session", "list"}, "viewer analyst operator"},
		"query":         {[]string{"query", "SELECT count(*) FROM flows"}, "analyst operator"},
		"label":         {[]string{"agents", "label", "a", "x=y"}, "operator"},
		"make token":    {[]string{"token", "create", "more", "--role", "admin"}, ""},
		"revoke agent":  {[]string{"agents", "revoke", "a"}, ""},
	}
	for what, test := range tests {
		for role, run := range roles {
			output, err := run(test.arguments...)
			if may := strings.Contains(test.may, role); (err == nil) != may {
				t.Errorf("%s: %s: %v: %s", role, what, err, output)
			}
		}
	}
	for role, run := range roles {
		output, err := run("session", "create", "--name", "by-"+role, "--from", "a", "--to", "b")
		if may := role == "operator"; (err == nil) != may || (b.sessionState("by-"+role) != "none") != may {
			t.Errorf("%s creates a session: %v: %s", role, err, output)
		}
	}
	b.atLeast(1, "SELECT count(*) FROM audit WHERE token = 'test-viewer' AND method LIKE '%%CreateSession' AND outcome <> 'ok'")
	b.atLeast(1, "SELECT count(*) FROM audit WHERE token = 'test-operator' AND method LIKE '%%CreateSession' AND outcome = 'ok'")
}
