// Command oml is the workload of the experiments on the ingest of application reports (study/bench/oml*.yaml): a call
// is one run, which sends rows of int64, double, string(12) and uint32 over four connections to a server with an
// empty archive, and prints one JSON object. Its subcommands:
//
//	ingest  to a pillion-server, which is queried meanwhile if there is a reader
//	peer    to OML's server
//
// Clients and server share the processors.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"pillion.dev/api"
	"pillion.dev/oml/omsp"
	"pillion.dev/study/bench/fleet"
	"pillion.dev/study/bench/result"
)

const (
	connections = 4
	// block is the number of encoded rows, which are sent repeatedly.
	block = 100_000
	// patience with a server that has not stored everything.
	patience = 2 * time.Minute
)

var commands = map[string]result.Command{"ingest": ingestCommand, "peer": peerCommand}

func main() { result.Main("oml", commands) }

// load is what a run sends.
type load struct {
	program string
	content omsp.Content
	rows    int64
	times   int // that each connection sends a block
	folder  string
	address string
}

// loadCommand prepares a load, and measures with it.
func loadCommand(f *flag.FlagSet, program, about string, measure func(load, context.Context) (result.Result, error)) func(ctx context.Context) (result.Result, error) {
	l := load{content: omsp.Text}
	f.StringVar(&l.program, "server", program, about)
	content := f.String("content", "text", "encoding: text or binary")
	f.Int64Var(&l.rows, "rows", 12_000_000, "rows to send, in multiples of 400000")
	return func(ctx context.Context) (r result.Result, err error) {
		switch *content {
		case "text":
		case "binary":
			l.content = omsp.Binary
		default:
			return nil, fmt.Errorf("invalid -content %q: want text or binary", *content)
		}
		if l.times = int(l.rows / (connections * block)); l.times < 1 {
			return nil, fmt.Errorf("invalid -rows %d: want at least %d", l.rows, connections*block)
		}
		l.rows = int64(l.times) * connections * block
		if l.folder, err = os.MkdirTemp("", "pillion-oml-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(l.folder)
		if l.address, err = fleet.FreeAddress(); err != nil {
			return nil, err
		}
		return measure(l, ctx)
	}
}

// report is the result of a run: seconds from the first byte until the last row can be queried.
func (l load) report(stored int64, seconds float64) result.Result {
	return result.Result{"rows": l.rows, "stored": stored, "lost": l.rows - stored, "seconds": seconds, "rows_per_s": float64(stored) / seconds}
}

func ingestCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	reader := f.Bool("reader", false, "query the table continuously")
	return loadCommand(f, "bin/pillion-server", "pillion-server", func(l load, ctx context.Context) (result.Result, error) { return l.ingest(ctx, *reader) })
}

// ingest sends everything to a pillion-server. A sum that is wrong although all rows are stored is an error.
func (l load) ingest(ctx context.Context, reader bool) (result.Result, error) {
	server, err := fleet.StartServer(l.program, filepath.Join(l.folder, "server"), "", "--oml", l.address)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	client, err := server.Client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var answered atomic.Int64
	if reader {
		go ask(ctx, client, &answered)
	}
	begun, err := l.send(ctx)
	if err != nil {
		return nil, err
	}
	var stored int64
	for stored < l.rows && time.Since(begun) < patience && ctx.Err() == nil {
		if n, err := fleet.Number(ctx, client, "SELECT count(*) FROM oml_bench_app_lin"); err == nil {
			stored = n // before the first rows there is no table
		}
	}
	r := l.report(stored, time.Since(begun).Seconds())
	r["reader"], r["queries_per_s"] = reader, float64(answered.Load())/time.Since(begun).Seconds()
	sum, err := fleet.Number(ctx, client, "SELECT sum(a)::BIGINT FROM oml_bench_app_lin")
	if want := l.rows / block * (block * (block - 1) / 2); err == nil && stored == l.rows && sum != want {
		err = fmt.Errorf("all %d rows are stored, but the sum of a column is %d, not %d", stored, sum, want)
	}
	return r, err
}

// encode returns the header and a block of rows.
func encode(content omsp.Content) (head, rows []byte, err error) {
	schema, err := omsp.ParseSchema("1 app_lin a:int64 b:double c:string d:uint32")
	if err != nil {
		return nil, nil, err
	}
	head = fmt.Appendf(nil, "protocol: 4\ndomain: bench\nstart-time: %d\nsender-id: bench\napp-name: app\nschema: %s\ncontent: %s\n\n", time.Now().Unix(), schema, content)
	t := &omsp.Tuple{Schema: &schema, Values: make([]omsp.Value, 4)}
	for i := range block {
		t.Time, t.Seq = float64(i)/1e5, int64(i+1)
		t.Values[0].SetInt(omsp.Int64, int64(i))
		t.Values[1].SetDouble(math.Sin(float64(i)))
		t.Values[2].SetString("sample " + strconv.Itoa(10000+i%90000))
		t.Values[3].SetUint(omsp.Uint32, uint64(i)*40_000)
		if rows, err = omsp.Append(rows, content, t); err != nil {
			return nil, nil, err
		}
	}
	return head, rows, nil
}

// send sends everything over all connections, and returns when it began.
func (l load) send(ctx context.Context) (begun time.Time, err error) {
	head, rows, err := encode(l.content)
	if err != nil {
		return begun, err
	}
	begun = time.Now()
	faults := make(chan error)
	for range connections {
		go func() { faults <- l.connection(ctx, head, rows) }()
	}
	for range connections {
		err = errors.Join(err, <-faults)
	}
	if err != nil {
		return begun, fmt.Errorf("send rows: %w", err)
	}
	return begun, nil
}

// connection sends the header, and the rows a number of times.
func (l load) connection(ctx context.Context, head, rows []byte) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, err = conn.Write(head)
	for n := 0; n < l.times && err == nil; n++ {
		_, err = conn.Write(rows)
	}
	return err
}

// ask queries the table continuously.
func ask(ctx context.Context, client *api.Client, answered *atomic.Int64) {
	for ctx.Err() == nil {
		if _, err := fleet.Number(ctx, client, "SELECT count(*) FROM oml_bench_app_lin WHERE d > 1000000"); err == nil {
			answered.Add(1)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
