package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"pillion.dev/oml/omsp"
	"pillion.dev/study/bench/result"
)

// The libraries that the program pace is built with; OML's is compared with.
const (
	ours = "libpillion"
	peer = "liboml2"
)

// paces are the builds of the program, with the options that a library needs.
var paces = map[string]struct {
	program string
	options []string
}{
	ours: {"pace", nil},
	peer: {"pace-oml2", []string{"--oml-log-file", "/dev/null"}},
}

// reports are the options for what is reported.
var reports = map[string]string{"off": "--oml-noop", "text": "--oml-text", "binary": "--oml-binary"}

// injects is the command line of an application that injects at a rate, and reports to a collector.
func (s settings) injects(collector string) ([]string, error) {
	pace, known := paces[s.library]
	option, reported := reports[s.report]
	switch {
	case !known:
		return nil, fmt.Errorf("invalid --library %q: want %s or %s", s.library, ours, peer)
	case !reported:
		return nil, fmt.Errorf("invalid --report %q: want off, text or binary", s.report)
	case s.rate <= 0:
		return nil, fmt.Errorf("invalid --rate %g: want samples a second", s.rate)
	}
	line := []string{s.program(pace.program), strconv.FormatFloat(s.rate, 'f', -1, 64), strconv.FormatFloat(s.length.Seconds(), 'f', -1, 64),
		"--oml-id", "bench", "--oml-domain", "bench", "--oml-collect", "tcp:" + collector, option}
	return append(line, pace.options...), nil
}

// injected is what pace counts.
type injected struct {
	Samples int64 `json:"samples"`
	Dropped int64 `json:"dropped"`
}

// read takes over what pace has printed.
func (i *injected) read(text []byte) (result.Result, error) {
	var r result.Result
	if err := errors.Join(json.Unmarshal(text, &r), json.Unmarshal(text, i)); err != nil {
		return nil, fmt.Errorf("read what pace prints: %w", err)
	}
	return r, nil
}

// runInject measures the time of each omlc_inject at a rate, and what is lost on the way to a
// collector that counts tuples.
func runInject(ctx context.Context, s settings) (result.Result, error) {
	if s.collector != "reads" && s.collector != "stopped" {
		return nil, fmt.Errorf("invalid --collector %q: want reads or stopped", s.collector)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	line, err := s.injects(listener.Addr().String())
	if err != nil {
		return nil, err
	}
	if s.collector == "stopped" {
		line = append(line, "--oml-close", "1")
	}
	counted := make(chan int64, 1)
	go func() { counted <- s.collect(listener) }()
	pace, err := start(ctx, "", "", line...)
	if err != nil {
		return nil, err
	}
	err = pace.wait()
	listener.Close()
	stored := <-counted
	if err != nil {
		return nil, err
	}
	var i injected
	r, err := i.read(pace.out.Bytes())
	if err != nil {
		return nil, err
	}
	r["asked_s"], r["stored"], r["lost"] = s.length.Seconds(), stored, i.Dropped
	if s.collector == "reads" && s.report != "off" {
		r["lost"] = i.Samples - stored
	}
	return r, nil
}

// collect accepts connections until the listener is closed, and returns the number of tuples.
func (s settings) collect(listener net.Listener) (n int64) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return n
		}
		if s.collector == "reads" {
			n += count(conn)
		}
		defer conn.Close() // a stopped collector keeps the connection
	}
}

// count answers like Pillion's server, and counts the tuples of the point. It stores nothing,
// so that the library is measured rather than a collector.
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
