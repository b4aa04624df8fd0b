// Command oml measures how many tuples of instrumented applications a pillion-server
// ingests: rows of int64, double, string(12) and uint32 over four
// connections, as text and in binary, and the same with a client that queries continuously.
// Clients and server share the processors. With --peer OML's server gets the same bytes,
// alternately.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"pillion.dev/api"
	"pillion.dev/bench/fleet"
	"pillion.dev/omsp"
)

const (
	connections = 4
	// block is the number of encoded rows, which are sent repeatedly.
	block = 100_000
)

type settings struct {
	server string
	peer   string
	rows   int64
	rounds int
	out    string
}

// figure is one run: rows per second from the first byte until the last row can be queried.
type figure struct {
	Server     string  `json:"server"`
	Content    string  `json:"content"`
	Reader     bool    `json:"concurrent_reader"`
	Rows       int64   `json:"rows"`
	Stored     int64   `json:"rows_stored"`
	SumRight   bool    `json:"sum_right"`
	Seconds    float64 `json:"seconds"`
	RowsSecond float64 `json:"rows_a_second"`
	Questions  int64   `json:"questions_answered"`
}

type result struct {
	Processors int                `json:"processors"`
	Runs       []figure           `json:"runs"`
	Median     map[string]float64 `json:"median_rows_a_second"`
}

func main() {
	var s settings
	flag.StringVar(&s.server, "server", "bin/pillion-server", "the program")
	flag.StringVar(&s.peer, "peer", "", "oml2-server, to run beside")
	flag.Int64Var(&s.rows, "rows", 12_000_000, "rows of a run")
	flag.IntVar(&s.rounds, "rounds", 5, "runs of each kind, one after the other in turns")
	flag.StringVar(&s.out, "out", "bench/results/oml.json", "where the figures go")
	flag.Parse()
	if err := run(context.Background(), s); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, s settings) error {
	r := result{Processors: runtime.NumCPU(), Median: map[string]float64{}}
	rates := map[string][]float64{}
	for range s.rounds {
		for _, k := range s.kinds() {
			f, err := k.measure(ctx, s, k.content, k.reader)
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "%+v\n", f)
			r.Runs = append(r.Runs, f)
			name := f.Server + " " + f.Content
			if f.Reader {
				name += " with a reader"
			}
			rates[name] = append(rates[name], f.RowsSecond)
		}
	}
	for name, all := range rates {
		slices.Sort(all)
		r.Median[name] = all[len(all)/2]
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	fmt.Println(string(text))
	return os.WriteFile(s.out, append(text, '\n'), 0o644)
}

type kind struct {
	content omsp.Content
	reader  bool
	measure func(context.Context, settings, omsp.Content, bool) (figure, error)
}

func (s settings) kinds() []kind {
	all := []kind{{omsp.Text, false, measure}, {omsp.Binary, false, measure}, {omsp.Text, true, measure}, {omsp.Binary, true, measure}}
	if s.peer != "" {
		all = append(all, kind{omsp.Text, false, measurePeer}, kind{omsp.Binary, false, measurePeer})
	}
	return all
}

// measure starts a server with an empty archive and sends all rows.
func measure(ctx context.Context, s settings, content omsp.Content, reader bool) (figure, error) {
	f := s.figure("pillion-server", content, reader, 1)
	folder, err := os.MkdirTemp("", "pillion-oml-")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(folder)
	address, err := fleet.FreeAddress()
	if err != nil {
		return f, err
	}
	server, err := fleet.StartServer(s.server, filepath.Join(folder, "server"), "", "--oml", address)
	if err != nil {
		return f, err
	}
	defer server.Stop()
	client, err := server.Client()
	if err != nil {
		return f, err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var questions atomic.Int64
	if reader {
		go ask(ctx, client, &questions)
	}
	head, rows, err := encode(content)
	if err != nil {
		return f, err
	}
	begun := time.Now()
	if err := flood(address, head, rows, int(f.Rows/connections/block)); err != nil {
		return f, err
	}
	for f.Stored < f.Rows && time.Since(begun) < 2*time.Minute {
		if f.Stored, err = fleet.Number(ctx, client, "SELECT count(*) FROM oml_bench_app_lin"); err != nil {
			f.Stored = 0 // no rows yet
		}
	}
	f.Seconds = time.Since(begun).Seconds()
	f.RowsSecond = float64(f.Rows) / f.Seconds
	f.Questions = questions.Load()
	sum, err := fleet.Number(ctx, client, "SELECT sum(a)::BIGINT FROM oml_bench_app_lin")
	f.SumRight = err == nil && sum == f.Rows/block*(block*(block-1)/2)
	if err == nil && (f.Stored != f.Rows || !f.SumRight) {
		err = fmt.Errorf("%d rows sent, %d stored, sum right: %v", f.Rows, f.Stored, f.SumRight)
	}
	return f, err
}

// figure runs once with a part of the requested rows.
func (s settings) figure(server string, content omsp.Content, reader bool, part int64) figure {
	return figure{Server: server, Content: content.String(), Reader: reader, Rows: s.rows / part / (connections * block) * connections * block}
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

// flood sends the rows a number of times over each connection.
func flood(address string, head, rows []byte, times int) error {
	var sending sync.WaitGroup
	faults := make(chan error, connections)
	for range connections {
		sending.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				_, err = conn.Write(head)
				for n := 0; n < times && err == nil; n++ {
					_, err = conn.Write(rows)
				}
				conn.Close()
			}
			faults <- err
		})
	}
	sending.Wait()
	for range connections {
		if err := <-faults; err != nil {
			return fmt.Errorf("send rows: %w", err)
		}
	}
	return nil
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
