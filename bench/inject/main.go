// Command inject measures what reporting with libpillion costs a program: the time
// of each omlc_inject at a rate, and what is lost, against a collector in this
// process that counts tuples, and against one that stops reading.
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

// result is one run; the program fills all but the first two and Stored.
type result struct {
	Name         string  `json:"name"`
	Rate         float64 `json:"rate"`
	Stored       int64   `json:"stored"`
	Samples      int64   `json:"samples"`
	Dropped      int64   `json:"dropped"`
	Seconds      float64 `json:"seconds"`
	ClockNs      int64   `json:"clock_ns"`
	MedianNs     int64   `json:"median_ns"`
	P99Ns        int64   `json:"p99_ns"`
	P999Ns       int64   `json:"p999_ns"`
	WorstNs      int64   `json:"worst_ns"`
	CloseSeconds float64 `json:"close_seconds"`
	Close        int     `json:"close"`
}

func main() {
	clib := flag.String("clib", "clib", "folder of the library")
	rate := flag.Float64("rate", 1e6, "samples a second")
	seconds := flag.Float64("seconds", 10, "length of a run, s")
	out := flag.String("out", "-", "file of the results, JSON")
	flag.Parse()
	if err := run(*clib, *rate, *seconds, *out); err != nil {
		fmt.Fprintln(os.Stderr, "inject:", err)
		os.Exit(1)
	}
}

func run(clib string, rate, seconds float64, out string) error {
	folder, err := os.MkdirTemp("", "inject")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "pace")
	for _, words := range [][]string{
		{"make", "-s", "-C", clib, "BUILD=" + folder},
		{"gcc", "-O2", "-std=c11", "-D_GNU_SOURCE", "-I" + filepath.Join(clib, "include"), "-o", program, "bench/inject/pace/pace.c",
			filepath.Join(folder, "libpillion.a"), "-pthread", "-lm"},
	} {
		if text, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("build: %w: %s", err, text)
		}
	}
	var results []result
	for _, test := range []struct {
		name    string
		rate    float64
		deaf    bool
		options []string
	}{
		{"binary", rate, false, []string{"--oml-binary"}},
		{"text", rate, false, []string{"--oml-text"}},
		{"collector stopped", rate, true, []string{"--oml-binary", "--oml-close", "1"}},
	} {
		r := result{Name: test.name, Rate: test.rate}
		if err := r.measure(program, seconds, test.deaf, test.options); err != nil {
			return fmt.Errorf("run %s: %w", test.name, err)
		}
		fmt.Fprintf(os.Stderr, "%-18s median %d ns (clock %d), p99.9 %d, worst %d, dropped %d, stored %d of %d, close %d in %.2f s\n",
			r.Name, r.MedianNs, r.ClockNs, r.P999Ns, r.WorstNs, r.Dropped, r.Stored, r.Samples, r.Close, r.CloseSeconds)
		results = append(results, r)
	}
	text, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	if out == "-" {
		_, err = os.Stdout.Write(append(text, '\n'))
		return err
	}
	return os.WriteFile(out, append(text, '\n'), 0o644)
}

// measure runs the program against a collector.
func (r *result) measure(program string, seconds float64, deaf bool, options []string) error {
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
		if deaf {
			<-done
			counted <- 0
			return
		}
		counted <- count(conn)
	}()
	words := append([]string{strconv.FormatFloat(r.Rate, 'f', -1, 64), strconv.FormatFloat(seconds, 'f', -1, 64),
		"--oml-id", "bench", "--oml-domain", "bench", "--oml-collect", l.Addr().String()}, options...)
	cmd := exec.Command(program, words...)
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

// count answers as Pillion's server does, and counts the tuples of the point.
func count(conn net.Conn) (n int64) {
	r := omsp.NewReader(conn, omsp.Limits{})
	if _, err := r.Header(); err != nil {
		return 0
	}
	io.WriteString(conn, "pillion 1\ngo\n")
	var t omsp.Tuple
	var last [2]int64 // of the notes and of the point
	for {
		err := r.Next(&t)
		if err != nil && !errors.Is(err, omsp.ErrTuple) {
			return n
		}
		if err == nil && t.Schema.Index < len(last) {
			last[t.Schema.Index] = t.Seq
			n += int64(t.Schema.Index)
		}
		if n%10000 == 0 || r.Idle() {
			fmt.Fprintf(conn, "stored 0 %d\nstored 1 %d\n", last[0], last[1])
		}
	}
}
