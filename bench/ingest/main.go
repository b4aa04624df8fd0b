// Command ingest measures how many rows a pillion-server ingests from agents, over
// the bus and into its archive, acknowledged; or, with --agents 500, how long rows
// of many agents take from sample to archive.
//
// The server runs in a separate process, as users run it. The agents are in this process:
// each has its own certificate and connection, sends batches and waits for the answers. At
// the end the number of rows in the archive is queried. What it does not prove: both share
// the processors, so a server on its own machine ingests more.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"time"
)

type settings struct {
	server  string
	agents  int
	rows    int
	window  int
	seconds int
	warm    int
	steady  bool
	out     string
}

func main() {
	var s settings
	flag.StringVar(&s.server, "server", "bin/pillion-server", "the server's program")
	flag.IntVar(&s.agents, "agents", 4, "agents")
	flag.IntVar(&s.rows, "rows", 0, "rows in a batch; default 32768, with --steady 100")
	flag.IntVar(&s.window, "window", 8, "batches of an agent that wait for their answer at once")
	flag.IntVar(&s.seconds, "seconds", 30, "how long rows flow after the warming up")
	flag.IntVar(&s.warm, "warm", 5, "seconds of warming up")
	flag.BoolVar(&s.steady, "steady", false, "each agent sends one batch a second, and rows are timed from sample to archive")
	flag.StringVar(&s.out, "out", "", "file of the results; default bench/results/ingest.json, with --steady steady.json")
	flag.Parse()
	if s.rows == 0 {
		s.rows = 32768
		if s.steady {
			s.rows = 100
		}
	}
	if s.out == "" {
		s.out = filepath.Join("bench", "results", map[bool]string{false: "ingest.json", true: "steady.json"}[s.steady])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s); err != nil {
		stop()
		log.Fatal(err)
	}
}

// result is the content of the results file.
type result struct {
	Time       time.Time `json:"time"`
	Processors int       `json:"processors"`
	Agents     int       `json:"agents"`
	BatchRows  int       `json:"rows_in_a_batch"`
	Columns    int       `json:"columns"`
	Seconds    float64   `json:"seconds"`
	// Rate of acknowledged rows: the median and minimum of windows of a second.
	RowsPerSecond      float64 `json:"rows_per_second_median"`
	RowsPerSecondLeast float64 `json:"rows_per_second_least"`
	RowsSent           int64   `json:"rows_sent"`
	RowsStored         int64   `json:"rows_stored"`
	Retries            int64   `json:"retries"`
	// Answer is the time from sending a batch to its acknowledgement, Queryable that
	// from a row's time to it.
	AnswerMS     percentiles  `json:"answer_ms"`
	QueryableMS  *percentiles `json:"sample_to_queryable_ms,omitempty"`
	ServerMiB    float64      `json:"server_memory_mib_largest"`
	ServerCPU    float64      `json:"server_cpu_seconds"`
	ArchiveMiB   float64      `json:"archive_mib"`
	BytesPerRow  float64      `json:"archive_bytes_per_row"`
	PayloadBytes int          `json:"batch_payload_bytes"`
}

type percentiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func run(ctx context.Context, s settings) (err error) {
	folder, err := os.MkdirTemp("", "pillion-ingest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	server, err := startServer(ctx, s.server, filepath.Join(folder, "server"))
	if err != nil {
		return err
	}
	defer server.stop()
	swarm, err := join(ctx, server, s, filepath.Join(folder, "agents"))
	if err != nil {
		return err
	}
	r := result{
		Time: time.Now().UTC(), Processors: runtime.NumCPU(), Agents: s.agents, BatchRows: s.rows,
		Columns: len(columns.Fields), Seconds: float64(s.seconds),
	}
	swarm.flow(ctx, s, &r)
	swarm.close()
	if err := server.account(ctx, &r); err != nil {
		return err
	}
	if err := write(s.out, r); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	fmt.Println(string(text))
	if err == nil && r.RowsSent != r.RowsStored {
		err = fmt.Errorf("%d rows were acknowledged, %d are stored", r.RowsSent, r.RowsStored)
	}
	return err
}

func write(path string, r result) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
