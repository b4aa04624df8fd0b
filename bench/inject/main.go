// Command inject measures what reporting with libpillion costs a program: the time
// of each omlc_inject at a rate, and what is lost, against a collector in this
// process that counts tuples, against one that stops reading, and against a server
// that is killed and restarted. With --peer the same program also runs with OML's library.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"pillion.dev/omsp"
)

// result is one run; the program fills all but the first five.
type result struct {
	Library      string  `json:"library"`
	Name         string  `json:"name"`
	Rate         float64 `json:"rate"`
	Stored       int64   `json:"stored"`
	Twice        int64   `json:"twice"`
	Samples      int64   `json:"samples"`
	Dropped      int64   `json:"dropped"`
	Seconds      float64 `json:"seconds"`
	ClockNs      int64   `json:"clock_ns"`
	MedianNs     int64   `json:"median_ns"`
	P99Ns        int64   `json:"p99_ns"`
	P999Ns       int64   `json:"p999_ns"`
	WorstNs      int64   `json:"worst_ns"`
	IdleNs       int64   `json:"worst_idle_ns"` // of as many pairs of consecutive clock readings
	CloseSeconds float64 `json:"close_seconds"`
	Close        int     `json:"close"`
}

type settings struct {
	clib, peer, out string
	server          string
	rate, seconds   float64
	rounds          int
}

func main() {
	var s settings
	flag.StringVar(&s.clib, "clib", "clib", "folder of the library")
	flag.StringVar(&s.peer, "peer", "", "folder with include/ and lib/ of liboml2, to run beside")
	flag.StringVar(&s.server, "server", "bin/pillion-server", "the program that is killed and comes back; empty: leave that out")
	flag.Float64Var(&s.rate, "rate", 1e6, "samples a second")
	flag.Float64Var(&s.seconds, "seconds", 10, "length of a run, s")
	flag.IntVar(&s.rounds, "rounds", 5, "runs of each kind, in turns")
	flag.StringVar(&s.out, "out", "bench/results/inject.json", "file of the results, JSON")
	flag.Parse()
	if err := run(s); err != nil {
		fmt.Fprintln(os.Stderr, "inject:", err)
		os.Exit(1)
	}
}

// kind is a run of one library.
type kind struct {
	library, name, program string
	deaf                   bool
	options                []string
}

func run(s settings) error {
	folder, err := os.MkdirTemp("", "inject")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	ours, theirs := filepath.Join(folder, "pace"), ""
	if err := command("make", "-s", "-C", s.clib, "BUILD="+folder); err != nil {
		return err
	}
	if err := compile(ours, filepath.Join(s.clib, "include"), filepath.Join(folder, "libpillion.a"), "-pthread", "-lm"); err != nil {
		return err
	}
	kinds := []kind{
		{"libpillion", "binary", ours, false, []string{"--oml-binary"}},
		{"libpillion", "text", ours, false, []string{"--oml-text"}},
		{"libpillion", "collector stopped", ours, true, []string{"--oml-binary", "--oml-close", "1"}},
	}
	if s.peer != "" {
		theirs = filepath.Join(folder, "peer")
		lib := filepath.Join(s.peer, "lib")
		if err := compile(theirs, filepath.Join(s.peer, "include"), "-DPEER", "-L"+lib, "-Wl,-rpath,"+lib, "-loml2", "-locomm"); err != nil {
			return err
		}
		kinds = append(kinds, kind{"liboml2", "binary", theirs, false, []string{"--oml-binary", "--oml-log-file", "/dev/null"}},
			kind{"liboml2", "text", theirs, false, []string{"--oml-text", "--oml-log-file", "/dev/null"}})
	}
	results, err := s.measureAll(kinds)
	if err != nil {
		return err
	}
	if s.server != "" {
		r := result{Library: "libpillion", Name: "server killed", Rate: killRate}
		if err := r.measureKilled(ours, s.server); err != nil {
			return fmt.Errorf("run with a server that is killed: %w", err)
		}
		fmt.Fprintf(os.Stderr, "server killed: %d of %d stored, %d twice, %d dropped\n", r.Stored, r.Samples, r.Twice, r.Dropped)
		results = append(results, r)
	}
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.out, append(text, '\n'), 0o644)
}

func (s settings) measureAll(kinds []kind) (results []result, err error) {
	for range s.rounds {
		for _, k := range kinds {
			r := result{Library: k.library, Name: k.name, Rate: s.rate}
			if err := r.measure(k, s.seconds); err != nil {
				return nil, fmt.Errorf("run %s, %s: %w", k.library, k.name, err)
			}
			fmt.Fprintf(os.Stderr, "%-10s %-18s median %d ns (clock %d), p99.9 %d, worst %d (of nothing %d), dropped %d, stored %d of %d, close %d in %.2f s\n",
				r.Library, r.Name, r.MedianNs, r.ClockNs, r.P999Ns, r.WorstNs, r.IdleNs, r.Dropped, r.Stored, r.Samples, r.Close, r.CloseSeconds)
			results = append(results, r)
		}
	}
	return results, nil
}

// compile builds the injecting program with either library.
func compile(program, include string, more ...string) error {
	return command(append([]string{"gcc", "-O2", "-std=c11", "-D_GNU_SOURCE", "-I" + include, "-o", program, "bench/inject/pace/pace.c"}, more...)...)
}

func command(words ...string) error {
	if text, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w: %s", err, text)
	}
	return nil
}

// measure runs the program against a collector.
func (r *result) measure(k kind, seconds float64) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	counted := make(chan int64, 1)
	done := make(chan struct{})
	go func() {
		conn, err := l.Accept()
		if err != nil {
			counted <- 0
			return
		}
		defer conn.Close()
		if k.deaf {
			<-done
			counted <- 0
			return
		}
		counted <- count(conn)
	}()
	words := append([]string{strconv.FormatFloat(r.Rate, 'f', -1, 64), strconv.FormatFloat(seconds, 'f', -1, 64),
		"--oml-id", "bench", "--oml-domain", "bench", "--oml-collect", "tcp:" + l.Addr().String()}, k.options...)
	cmd := exec.Command(k.program, words...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	close(done)
	l.Close()
	r.Stored = <-counted
	if err != nil {
		return err
	}
	return json.Unmarshal(text, r)
}

// count answers like Pillion's server, and counts the tuples of the point.
func count(conn net.Conn) (n int64) {
	r := omsp.NewReader(conn, omsp.Limits{})
	header, err := r.Header()
	if err != nil {
		return 0
	}
	_, answers := header.Extra["pillion-session"]
	if answers {
		io.WriteString(conn, "pillion 1\ngo\n")
	}
	var t omsp.Tuple
	last := map[int]int64{}
	for {
		err := r.Next(&t)
		if err != nil && !errors.Is(err, omsp.ErrTuple) {
			return n
		}
		if err == nil {
			last[t.Schema.Index] = t.Seq
			if t.Schema.Name == "pace_load" {
				n++
			}
		}
		if answers && (n%10000 == 0 || r.Idle()) {
			for index, seq := range last {
				fmt.Fprintf(conn, "stored %d %d\n", index, seq)
			}
		}
	}
}
