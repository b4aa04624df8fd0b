package pillion

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	_ "pillion.dev/archive/duckdb" // registers duckdb:
	"pillion.dev/cli/commandtest"
	"pillion.dev/internal/test/hang"
	"pillion.dev/server"
)

// omlTablesOf returns rows of the stream oml_tables as Arrow: domain, table and stream of each.
func omlTablesOf(words ...string) []byte {
	text := func(name string) arrow.Field { return arrow.Field{Name: name, Type: arrow.BinaryTypes.String} }
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		text("domain"), text("table_name"), text("stream"), text("fields"), {Name: "start", Type: arrow.PrimitiveTypes.Int64},
	}, nil))
	defer b.Release()
	for ; len(words) > 0; words = words[3:] {
		for i, word := range append(words[:3:3], "0 t n:int32") {
			b.Field(i).(*array.StringBuilder).Append(word)
		}
		b.Field(4).(*array.Int64Builder).Append(1000)
	}
	record := b.NewRecordBatch()
	defer record.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(record.Schema()))
	if err := errors.Join(w.Write(record), w.Close()); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func TestOMLExportFails(t *testing.T) {
	for _, test := range []struct {
		name, line, said string
		code             int
	}{
		{"no such domain", "oml export none out.sq3", `no such domain: "none"`, 2},
		{"broken", "oml export bad out.sq3", "disk error", 1},
		{"there already", "oml export busy there.sq3", "--force", 2},
		{"no folder", "oml export busy nowhere/out.sq3", "no such file", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, server := newFake(t)
			p := newProgram(t, server)
			p.write("there.sq3", "precious", 0o600)
			_, stderr, code := p.run(strings.Fields(test.line)...)
			text, _ := os.ReadFile(filepath.Join(p.home, "there.sq3"))
			if code != test.code || !strings.Contains(stderr, test.said) || string(text) != "precious" || !slices.Equal(p.files(), []string{"there.sq3"}) {
				t.Errorf("exit %d, stderr %q, files %v, %q", code, stderr, p.files(), text)
			}
		})
	}
}

func TestOMLExportInterrupted(t *testing.T) {
	interrupted(t, "oml", "export", "busy", "out.sq3")
}

// tell reports to a collector and waits until it has received everything.
func tell(t *testing.T, address, text string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	conn.(*net.TCPConn).CloseWrite()
	conn.SetReadDeadline(time.Now().Add(hang.Limit))
	if rest, err := io.ReadAll(conn); err != nil || len(rest) != 0 {
		t.Fatalf("received %q, %v", rest, err)
	}
}

// rowsIn reads a database with SQL.
func rowsIn(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, _ := rows.Columns()
	var all []string
	for rows.Next() {
		values, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, v := range values {
			if b, ok := v.([]byte); ok {
				v = fmt.Sprintf("%x", b)
			}
			words = append(words, fmt.Sprint(v))
		}
		all = append(all, strings.Join(words, "|"))
	}
	return all
}

const omlHeader = "protocol: 4\ndomain: my domain\nstart-time: %d\nsender-id: %s\napp-name: app\n" +
	"schema: 1 app_All I32:int32 u32:uint32 i64:int64 u64:uint64 d:double s:string bl:blob g:guid b:bool vi:[int32] vu:[uint64] vd:[double] vb:[bool]\n" +
	"schema: 2 App_all n:int32 N:int32 oml_seq:int32 select:string\n%scontent: text\n\n"

// TestOMLExport compares a file with that of OML's server for the same tuples.
func TestOMLExport(t *testing.T) {
	w, _ := commandtest.Serve(t, server.Config{Folder: filepath.Join(t.TempDir(), "server"), OML: []string{"127.0.0.1:0"}, MemoryBytes: 256 << 20})
	future := 1 << 32 // seconds; a clock may be wrong
	tell(t, w.OML[0], fmt.Sprintf(omlHeader, 1000, "one", "schema: 3 t n:int32\n")+
		"0.5\t1\t1\t-5\t4000000000\t-9223372036854775808\t18446744073709551615\t0.1\ta\\tb'\"\tAAH/\t9223372036854775808\tT\t2 -1 2\t1 18446744073709551615\t3 1.5 -0.1 nan\t2 T F\n"+
		"0.25\t1\t2\t5\t1\t1\t1\tnan\t\t\t0\tF\t0\t0\t0\t0\n"+"1\t2\t1\t1\t2\t3\tx\n"+"1\t3\t1\t7\n"+"2\t0\t1\t.\tkey\tvalue\n")
	tell(t, w.OML[0], fmt.Sprintf(omlHeader, 1010, "two", "schema: 3 t n:int64\n")+"1\t3\t1\t8\n"+fmt.Sprintf("%d\t3\t2\t9\n", future))
	token, err := os.ReadFile(w.AdminFile)
	if err != nil {
		t.Fatal(err)
	}
	p := newProgram(t, nil)
	p.environment = append(p.environment, "PILLION_SERVER="+w.HTTP, "PILLION_TOKEN="+strings.TrimSpace(string(token)),
		"PILLION_CA="+filepath.Join(filepath.Dir(w.AdminFile), "ca.crt"))
	var out, stderr string
	for end := time.Now().Add(hang.Limit); !strings.Contains(out, "app_All App_all t t_2") && time.Now().Before(end); {
		out, stderr, _ = p.run("oml", "domains", "-o", "csv") // tables are archived within 100 ms
	}
	if !strings.HasPrefix(out, "domain,tuples,start,last,tables\r\nmy domain,6,1970-01-01T00:16:40Z,") {
		t.Fatalf("domains %q %q", out, stderr)
	}
	p.write("out.sq3", "old", 0o600)
	out, stderr, code := p.run("oml", "export", "my domain", "out.sq3", "--force")
	if code != 0 || out != "6 tuples of 4 tables written to out.sq3\n" || !strings.Contains(stderr, "2 values of 2^63 or more") {
		t.Fatalf("exit %d, %q, %q", code, out, stderr)
	}
	if files := p.files(); !slices.Equal(files, []string{"out.sq3"}) {
		t.Errorf("files %v", files)
	}
	db, err := sql.Open("sqlite", filepath.Join(p.home, "out.sq3"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, test := range []struct {
		query string
		want  []string
	}{
		{"SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name", []string{
			`App_all_2|CREATE TABLE "App_all_2" (oml_tuple_id INTEGER PRIMARY KEY, oml_sender_id INTEGER, oml_seq INTEGER, oml_ts_client REAL, oml_ts_server REAL, "n" INTEGER, "N_2" INTEGER, "oml_seq_2" INTEGER, "select" TEXT)`,
			`_experiment_metadata|CREATE TABLE "_experiment_metadata" (oml_tuple_id INTEGER PRIMARY KEY, oml_sender_id INTEGER, oml_seq INTEGER, oml_ts_client REAL, oml_ts_server REAL, "subject" TEXT, "key" TEXT, "value" TEXT)`,
			"_senders|CREATE TABLE _senders (name TEXT PRIMARY KEY, id INTEGER UNIQUE)",
			`app_All|CREATE TABLE "app_All" (oml_tuple_id INTEGER PRIMARY KEY, oml_sender_id INTEGER, oml_seq INTEGER, oml_ts_client REAL, oml_ts_server REAL, "I32" INTEGER, "u32" UNSIGNED INTEGER, "i64" BIGINT, "u64" UNSIGNED BIGINT, "d" REAL, "s" TEXT, "bl" BLOB, "g" UNSIGNED BIGINT, "b" INTEGER, "vi" TEXT, "vu" TEXT, "vd" TEXT, "vb" TEXT)`,
			`t|CREATE TABLE "t" (oml_tuple_id INTEGER PRIMARY KEY, oml_sender_id INTEGER, oml_seq INTEGER, oml_ts_client REAL, oml_ts_server REAL, "n" INTEGER)`,
			`t_2|CREATE TABLE "t_2" (oml_tuple_id INTEGER PRIMARY KEY, oml_sender_id INTEGER, oml_seq INTEGER, oml_ts_client REAL, oml_ts_server REAL, "n" BIGINT)`,
		}},
		{"SELECT * FROM _senders ORDER BY id", []string{"one|1", "two|2"}},
		{"SELECT oml_tuple_id, oml_sender_id, oml_seq, oml_ts_client, i32, u32, i64, u64, d, s, hex(bl), g, b, vi, vu, vd, vb FROM app_all ORDER BY oml_tuple_id", []string{
			"1|1|2|0.25|5|1|1|1|<nil>|||<nil>|0|[ ]|[ ]|[ ]|[ ]",
			"2|1|1|0.5|-5|4000000000|-9223372036854775808|-1|0.1|a\tb'\"|0001FF|-9223372036854775808|1|[ -1, 2 ]|[ 18446744073709551615 ]|[ 1.5, -0.1, NaN ]|[ true, false ]",
		}},
		{"SELECT oml_seq, n, n_2, oml_seq_2, \"select\" FROM app_all_2", []string{"1|1|2|3|x"}},
		{"SELECT oml_sender_id, oml_ts_client, n FROM t_2 ORDER BY oml_seq", []string{"2|11|8", fmt.Sprintf("2|%v|9", float64(future+10))}},
		{"SELECT subject, key, value, oml_sender_id, oml_ts_client FROM _experiment_metadata ORDER BY oml_tuple_id", []string{
			"<nil>|table__experiment_metadata|0 _experiment_metadata subject:string key:string value:string|<nil>|<nil>",
			"<nil>|start_time|1000|<nil>|<nil>",
			"<nil>|table_app_All|1 app_All I32:int32 u32:uint32 i64:int64 u64:uint64 d:double s:string bl:blob g:guid b:bool vi:[int32] vu:[uint64] vd:[double] vb:[bool]|<nil>|<nil>",
			"<nil>|table_App_all_2|2 App_all_2 n:int32 N:int32 oml_seq:int32 select:string|<nil>|<nil>",
			"<nil>|table_t|3 t n:int32|<nil>|<nil>", "<nil>|table_t_2|4 t_2 n:int64|<nil>|<nil>", ".|key|value|1|2",
		}},
		{"PRAGMA integrity_check", []string{"ok"}},
	} {
		if got := rowsIn(t, db, test.query); !slices.Equal(got, test.want) {
			t.Errorf("%s\n%s\nwant\n%s", test.query, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
	server := rowsIn(t, db, "SELECT oml_ts_server FROM t")
	var seconds float64
	if fmt.Sscan(server[0], &seconds); math.Abs(seconds+1000-float64(time.Now().Unix())) > 600 {
		t.Errorf("the server's time is %v", server)
	}
}
