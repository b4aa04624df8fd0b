package agent

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"pillion.dev/api/pillionv1"
	_ "pillion.dev/archive/duckdb" // registers duckdb:
	"pillion.dev/cli/commandtest"
	"pillion.dev/internal/free"
	"pillion.dev/server"
)

// TestMain runs the program itself in a process that a test starts as such.
func TestMain(m *testing.M) { commandtest.Main(m, Main) }

// noc is a whole server that can be stopped and restarted.
type noc struct {
	folder, http, bus string
	welcome           server.Welcome
	stop              func()
}

func (n *noc) begin(t *testing.T) {
	t.Helper()
	n.welcome, n.stop = commandtest.Serve(t, server.Config{Folder: n.folder, HTTP: n.http, NATSListen: n.bus, MemoryBytes: 256 << 20})
}

// number returns the first number of the answer, or -1.
func (n *noc) number(t *testing.T, sql string) int64 {
	t.Helper()
	client := n.client(t)
	stream, err := client.Data.Query(t.Context(), &pillionv1.QueryRequest{Sql: sql})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	found := int64(-1)
	for stream.Receive() {
		for _, row := range stream.Msg().Rows {
			found = row.Values[0].GetInt()
		}
	}
	return found
}

// host is an agent in a separate process.
type host struct {
	name, folder, oml string
	command           *exec.Cmd
	options           []string
}

func (h *host) begin(t *testing.T, n *noc) {
	t.Helper()
	h.command = exec.Command(os.Args[0], append([]string{"run", "--server", n.http, "--name", h.name, "--data", h.folder, "--oml", h.oml,
		"--token-file", filepath.Join(n.folder, "join.token")}, h.options...)...)
	h.command.Env = append(os.Environ(), commandtest.Environment)
	log, err := os.OpenFile(h.folder+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	h.command.Stderr = log
	if err := h.command.Start(); err != nil {
		t.Fatal(err)
	}
}

func (h *host) kill() {
	h.command.Process.Kill()
	h.command.Wait()
}

func newHost(t *testing.T, n *noc, name string, options ...string) *host {
	t.Helper()
	h := &host{name: name, folder: filepath.Join(t.TempDir(), name), oml: free.Address(t), options: options}
	h.begin(t, n)
	t.Cleanup(func() {
		h.kill()
		if t.Failed() {
			text, _ := os.ReadFile(h.folder + ".log")
			t.Logf("%s: %s", name, text[max(0, len(text)-6000):])
		}
	})
	return h
}

// reporter is an application with a session. After a reconnect it has no state: it
// continues after the last tuple that the agent acknowledges.
type reporter struct {
	address, sender string
	start           int64
	limit, stored   atomic.Int64
	thin            atomic.Int64
	welcome         atomic.Bool // the agent knows the connection's session
	pace            chan struct{}
}

// allow lets it send up to a sequence number.
func (r *reporter) allow(limit int64) {
	r.limit.Store(limit)
	select {
	case r.pace <- struct{}{}:
	default:
	}
}

// run reports until the context ends.
func (r *reporter) run(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := net.Dial("tcp", r.address)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond): // the agent is starting
			}
			continue
		}
		r.talk(ctx, conn)
		conn.Close()
	}
}

func (r *reporter) talk(ctx context.Context, conn net.Conn) {
	fmt.Fprintf(conn, "protocol: 4\ndomain: Lab\nstart-time: %d\nsender-id: %s\napp-name: test\npillion-session: %032x\n"+
		"schema: 1 load n:int64 text:string\ncontent: text\n\n", r.start, r.sender, 1<<40+r.start)
	said := bufio.NewScanner(conn)
	welcome, closed := make(chan int64, 1), make(chan bool)
	go func() {
		defer close(closed)
		last := int64(0)
		for said.Scan() {
			var index, seq int64
			if said.Text() == "go" {
				welcome <- last
			} else if n, _ := fmt.Sscanf(said.Text(), "stored %d %d", &index, &seq); n == 2 && index == 1 {
				last = seq
				r.stored.Store(max(seq, r.stored.Load()))
			} else if n, _ := fmt.Sscanf(said.Text(), "thin %d", &seq); n == 1 {
				r.thin.Store(seq)
			}
		}
	}()
	var seq int64
	select {
	case seq = <-welcome:
	case <-closed:
		return
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	r.welcome.Store(true)
	defer r.welcome.Store(false)
	for seq++; ; {
		for ; seq <= r.limit.Load(); seq++ {
			if _, err := fmt.Fprintf(conn, "%d.5\t1\t%d\t%d\tword %d\n", seq, seq, seq, seq); err != nil {
				conn.Close()
				<-closed
				return
			}
		}
		select {
		case <-r.pace:
		case <-closed:
			return
		}
	}
}

// TestRelay: two agents with a client each in one domain; the server is down for a while,
// and one agent is killed repeatedly. Every tuple is archived once.
func TestRelay(t *testing.T) {
	n := &noc{folder: filepath.Join(t.TempDir(), "noc"), http: free.Address(t), bus: free.Address(t)}
	n.begin(t)
	north, south := newHost(t, n, "north"), newHost(t, n, "south")
	ctx, cancel := context.WithCancel(t.Context())
	var reporters []*reporter
	for i, h := range []*host{north, south} {
		r := &reporter{address: h.oml, sender: h.name, start: 1_700_000_000 + 10*int64(i), pace: make(chan struct{}, 1)}
		reporters = append(reporters, r)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r.run(ctx)
		}()
		t.Cleanup(func() { cancel(); <-ended })
	}
	everybody := func(limit int64) {
		for _, r := range reporters {
			r.allow(limit)
		}
	}
	everybody(1000)
	until(t, "the first tuples are in the archive", func() bool { return n.number(t, "SELECT count(*) FROM oml_lab_load") == 2000 })
	for round := range int64(6) {
		everybody(1000 + 2000*(round+1))
		until(t, "the agent has some of them", func() bool { return reporters[0].stored.Load() > 1000+2000*round+500 })
		north.kill()
		switch round {
		case 1:
			n.stop()
		case 4:
			n.begin(t)
		}
		north.begin(t, n)
	}
	const all = 13_000
	until(t, "the agents have acknowledged all", func() bool { return reporters[0].stored.Load() == all && reporters[1].stored.Load() == all })
	until(t, "the archive has all", func() bool { return n.number(t, "SELECT count(*) FROM oml_lab_load") >= 2*all })
	until(t, "the killed agent is connected again", reporters[0].welcome.Load) // its tuples may have been stored before
	cancel()
	until(t, "ends are reported", func() bool {
		return n.number(t, "SELECT count(*) FROM oml_connections WHERE application = 'test'") >= 2
	})
	// The start of the domain is that of the agent whose tuples arrived first; the clocks differ by 10 s.
	for sql, want := range map[string]int64{
		"SELECT count(*) FROM oml_lab_load": 2 * all,
		"SELECT count(DISTINCT (oml_sender, oml_seq)) FROM oml_lab_load WHERE n = oml_seq AND text = 'word ' || n":     2 * all,
		"SELECT count(*) FROM oml_lab_load WHERE agent = oml_sender":                                                   2 * all,
		"SELECT CAST(max(epoch(time) - oml_ts_client) - min(epoch(time) - oml_ts_client) AS BIGINT) FROM oml_lab_load": 0,
		"SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 'oml%load%'":                             1,
	} {
		if got := n.number(t, sql); got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
}
