package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/cli/commandtest"
	"pillion.dev/internal/free"
	"pillion.dev/internal/test/hang"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/client"
	"pillion.dev/server"
)

// TestMain runs the program itself in a process that a test starts as such.
func TestMain(m *testing.M) { commandtest.Main(m, Main) }

// process is a server in a separate process.
type process struct {
	t       *testing.T
	folder  string
	oml     string
	options []string
	command *exec.Cmd
}

// begin starts it and waits until it serves.
func (p *process) begin() {
	p.t.Helper()
	p.command = exec.Command(os.Args[0], append([]string{"run", "--data", p.folder, "--http", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--oml", p.oml}, p.options...)...)
	p.command.Env = append(os.Environ(), commandtest.Environment)
	var said strings.Builder
	p.command.Stderr = &said
	out, err := p.command.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		p.t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "ready" {
			go io.Copy(io.Discard, out)
			return
		}
	}
	p.command.Wait()
	p.t.Fatalf("the server is not ready: %s", said.String())
}

func (p *process) end(signal os.Signal) {
	p.t.Helper()
	p.command.Process.Signal(signal)
	if err := p.command.Wait(); err != nil && signal != syscall.SIGKILL {
		p.t.Errorf("server: %v", err)
	}
}

func serverProcess(t *testing.T, options ...string) *process {
	t.Helper()
	p := &process{t: t, folder: filepath.Join(t.TempDir(), "server"), oml: free.Address(t), options: options}
	p.begin()
	t.Cleanup(func() { p.command.Process.Kill(); p.command.Wait() })
	return p
}

// ask queries the archive of a server that has ended; each row is its values as text.
func ask(t *testing.T, folder, sql string) []string {
	t.Helper()
	a, err := archive.Open(server.DefaultArchive, archive.Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var rows []string
	err = a.Query(t.Context(), sql, nil, archive.Limits{Rows: 1e6, Time: time.Minute}, func(r arrow.RecordBatch) error {
		for i := range int(r.NumRows()) {
			var words []string
			for _, column := range r.Columns() {
				words = append(words, strings.Clone(column.ValueStr(i)))
			}
			rows = append(rows, strings.Join(words, "|"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

var allFields = []omsp.Field{
	{Name: "I32", Type: omsp.Int32}, {Name: "u32", Type: omsp.Uint32}, {Name: "i64", Type: omsp.Int64}, {Name: "u64", Type: omsp.Uint64},
	{Name: "d", Type: omsp.Double}, {Name: "s", Type: omsp.String}, {Name: "bl", Type: omsp.Blob}, {Name: "g", Type: omsp.GUID}, {Name: "b", Type: omsp.Bool},
	{Name: "vi32", Type: omsp.Int32 | omsp.Vector}, {Name: "vu32", Type: omsp.Uint32 | omsp.Vector}, {Name: "vi64", Type: omsp.Int64 | omsp.Vector},
	{Name: "vu64", Type: omsp.Uint64 | omsp.Vector}, {Name: "vd", Type: omsp.Double | omsp.Vector}, {Name: "vb", Type: omsp.Bool | omsp.Vector},
	{Name: "time", Type: omsp.String}, {Name: "oml_seq", Type: omsp.Int32}, {Name: "_select", Type: omsp.Int32},
}

// allValues has the largest value of each type.
func allValues(double float64) []omsp.Value {
	v := make([]omsp.Value, len(allFields))
	v[0].SetInt(omsp.Int32, math.MinInt32)
	v[1].SetUint(omsp.Uint32, math.MaxUint32)
	v[2].SetInt(omsp.Int64, math.MinInt64)
	v[3].SetUint(omsp.Uint64, math.MaxUint64)
	v[4].SetDouble(double)
	v[5].SetString("tab\there, line\nthere, back\\slash, 'quote', ü")
	v[6].SetBlob([]byte{0, 1, 0xff})
	v[7].SetUint(omsp.GUID, 1<<63+5)
	v[8].SetBool(true)
	minus := int64(-1)
	v[9].SetElements(omsp.Int32|omsp.Vector, []uint64{uint64(minus), 2})
	v[10].SetElements(omsp.Uint32|omsp.Vector, []uint64{math.MaxUint32})
	v[11].SetElements(omsp.Int64|omsp.Vector, []uint64{1 << 63, 0})
	v[12].SetElements(omsp.Uint64|omsp.Vector, []uint64{math.MaxUint64, 1})
	v[13].SetElements(omsp.Double|omsp.Vector, []uint64{math.Float64bits(1.5), math.Float64bits(-0.1), math.Float64bits(math.NaN())})
	v[14].SetElements(omsp.Bool|omsp.Vector, []uint64{1, 0})
	v[15].SetString("a field called time")
	v[16].SetInt(omsp.Int32, 7)
	v[17].SetInt(omsp.Int32, 8)
	return v
}

// report sends tuples as a client of OML does, and ends.
func report(t *testing.T, address string, content omsp.Content, start int64, doubles ...float64) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	schema := omsp.Schema{Index: 1, Name: "app_All", Fields: allFields}
	h := omsp.Header{Domain: "../x'; --", Start: start, Sender: content.String() + "' \"", App: "app", Schemas: []omsp.Schema{schema}, Content: content}
	if _, err := h.WriteTo(conn); err != nil {
		t.Fatal(err)
	}
	for i, double := range doubles {
		tuple := omsp.Tuple{Schema: &schema, Time: 0.25, Seq: int64(i + 1), Values: allValues(double)}
		packet, err := omsp.Append(nil, content, &tuple)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	conn.(*net.TCPConn).CloseWrite()
	conn.SetReadDeadline(time.Now().Add(hang.Limit))
	if received, err := io.ReadAll(conn); err != nil || len(received) != 0 {
		t.Errorf("an OML client received %q, %v", received, err)
	}
}

// TestTuplesArriveExactly: all types, as text and binary, of a domain with a hostile name.
func TestTuplesArriveExactly(t *testing.T) {
	p := serverProcess(t)
	report(t, p.oml, omsp.Text, 1000, 0.1, math.Pi*1e-300, math.NaN(), math.Inf(-1))
	report(t, p.oml, omsp.Binary, 1010, 0.5, math.NaN())
	p.end(syscall.SIGTERM)
	tables := ask(t, p.folder, `SELECT domain, table_name, stream, start FROM oml_tables`)
	if len(tables) != 1 || !strings.HasPrefix(tables[0], "../x'; --|app_All|oml_") || !strings.HasSuffix(tables[0], "|1000") {
		t.Fatalf("tables %q", tables)
	}
	stream := strings.Split(tables[0], "|")[2]
	got := ask(t, p.folder, fmt.Sprintf(`SELECT oml_sender, oml_session, oml_seq, oml_ts_client, epoch_ns(time), i32, u32, i64, u64, d, s, hex(bl), g, b,
		vi32::VARCHAR, vu32::VARCHAR, vi64::VARCHAR, vu64::VARCHAR, vd, vb::VARCHAR, time_2, oml_seq_2, "select" FROM %s ORDER BY oml_ts_client, oml_seq`, stream))
	row := func(sender, seq, ts, ns, double string) string {
		return sender + "' \"|0|" + seq + "|" + ts + "|" + ns + "|-2147483648|4294967295|-9223372036854775808|18446744073709551615|" + double +
			"|tab\there, line\nthere, back\\slash, 'quote', ü|0001FF|9223372036854775813|true|[-1, 2]|[4294967295]|[-9223372036854775808, 0]|" +
			"[18446744073709551615, 1]|[1.5, -0.1, NaN]|[1, 0]|a field called time|7|8"
	}
	want := []string{
		row("text", "1", "0.25", "1000250000000", "0.1"), row("text", "2", "0.25", "1000250000000", "3.141592653589793e-300"),
		row("text", "3", "0.25", "1000250000000", "NaN"), row("text", "4", "0.25", "1000250000000", "-Inf"),
		row("binary", "1", "10.25", "1010250000000", "0.5"), row("binary", "2", "10.25", "1010250000000", "NaN"),
	}
	if !slices.Equal(got, want) {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	ends := ask(t, p.folder, `SELECT domain, application, tuples, gaps, faults, refused, reason FROM oml_connections ORDER BY tuples`)
	if want := []string{"../x'; --|app|2|0|0|0|", "../x'; --|app|4|0|0|0|"}; !slices.Equal(ends, want) {
		t.Errorf("connections %q, want %q", ends, want)
	}
	if entries, err := os.ReadDir(filepath.Dir(p.folder)); err != nil || len(entries) != 1 {
		t.Errorf("files beside the data directory: %v, %v", entries, err)
	}
}

// TestServerKilled: while a client with a session sends, the server is killed and
// restarted. No tuple and no metadata is lost or stored twice.
func TestServerKilled(t *testing.T) {
	p := serverProcess(t)
	c, err := client.New(client.Options{Address: p.oml, Domain: "d", Sender: "s", App: "app", Pause: 10 * time.Millisecond, Buffer: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	point, err := c.Point("t", omsp.Field{Name: "n", Type: omsp.Int64})
	if err != nil {
		t.Fatal(err)
	}
	const kills, each = 3, 20_000
	values := make([]omsp.Value, 1)
	for round := range kills + 1 {
		c.Note("round", fmt.Sprint(round))
		for n := range each {
			values[0].SetInt(omsp.Int64, int64(round*each+n))
			if err := point.Inject(values); err != nil {
				t.Fatal(err)
			}
			if n == each/2 && round < kills {
				// Some tuples are on disk and some are not.
				ticks := time.NewTicker(time.Millisecond)
				for end := time.Now().Add(hang.Limit); c.Waiting() > each/2 && time.Now().Before(end); {
					<-ticks.C
				}
				ticks.Stop()
			}
			if n == each*3/4 && round < kills {
				p.end(syscall.SIGKILL)
				p.begin()
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang.Limit)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Fatal(err)
	}
	p.end(syscall.SIGTERM)
	total := (kills + 1) * each
	got := ask(t, p.folder, "SELECT count(*), count(DISTINCT oml_seq), min(oml_seq), max(oml_seq), sum(n)::BIGINT, bool_and(n = oml_seq - 1) FROM oml_d_app_t")
	if want := fmt.Sprintf("%d|%d|1|%d|%d|true", total, total, total, total*(total-1)/2); got[0] != want {
		t.Errorf("rows %s, want %s", got[0], want)
	}
	notes := ask(t, p.folder, "SELECT domain, oml_sender, subject, key, value FROM oml_metadata ORDER BY oml_seq")
	if want := []string{"d|s|.|round|0", "d|s|.|round|1", "d|s|.|round|2", "d|s|.|round|3"}; !slices.Equal(notes, want) {
		t.Errorf("notes %q, want %q", notes, want)
	}
}

// TestRemoteClientsNeedTokenAndTLS: on addresses other than loopback.
func TestRemoteClientsNeedTokenAndTLS(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Address(t))
	p := serverProcess(t, "--oml", "0.0.0.0:"+port, "--oml-tls", "--oml-token-file", secret)
	pem, err := os.ReadFile(filepath.Join(p.folder, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	for _, test := range []struct {
		name, token string
		config      *tls.Config
		want        int
	}{
		{"all", "s3cret", &tls.Config{RootCAs: roots, ServerName: "localhost"}, 1},
		{"wrong token", "other", &tls.Config{RootCAs: roots, ServerName: "localhost"}, 0},
		{"no TLS", "s3cret", nil, 0},
	} {
		name := strings.ReplaceAll(test.name, " ", "_")
		c, err := client.New(client.Options{Address: "127.0.0.1:" + port, Domain: name, Sender: "s", Token: test.token, TLS: test.config, Greeting: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		point, err := c.Point("t", omsp.Field{Name: "n", Type: omsp.Int32})
		if err != nil {
			t.Fatal(err)
		}
		values := make([]omsp.Value, 1)
		values[0].SetInt(omsp.Int32, 1)
		if err := point.Inject(values); err != nil {
			t.Fatal(err)
		}
		patience := hang.Limit
		if test.want == 0 {
			patience = 200 * time.Millisecond // it would wait forever
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := c.Close(ctx); (err == nil) != (test.want == 1) {
			t.Errorf("%s: %v", test.name, err)
		}
		cancel()
	}
	p.end(syscall.SIGTERM)
	if got := ask(t, p.folder, "SELECT domain, table_name FROM oml_tables"); !slices.Equal(got, []string{"all|t"}) {
		t.Errorf("tables %q", got)
	}
}
