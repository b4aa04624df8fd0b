package runner

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// TestFailingStop: what is left behind ends the experiment, by the name of the treatment.
func TestFailingStop(t *testing.T) {
	o, _ := options(t, `experiment: stops
factors: {mode: [none, slow]}
treatments: {mode: {slow: {stop: "echo cannot >&2; false"}}}
run: {command: "echo '{{\"rate\": 3}}'", settle: 0s}
measures: {rate: {field: rate}}
stop: {blocks: 1}
`)
	err := Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "undo treatment mode=slow: stop: run ") || !strings.Contains(err.Error(), "cannot") {
		t.Errorf("error is %v", err)
	}
}

// TestExpectedValue: the reason has the value that was not as expected.
func TestExpectedValue(t *testing.T) {
	o, _ := options(t, `experiment: expects
factors: {mode: [none]}
treatments: {mode: {none: {expect: "rate > 5"}}}
run: {command: "echo '{{\"rate\": 3}}'", settle: 0s, attempts: 1}
measures: {rate: {field: rate}}
stop: {blocks: 1}
`)
	if err := Run(t.Context(), o); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "expected rate > 5 (rate is 3)") {
		t.Errorf("error is %v", err)
	}
}

// TestAbsentCollector: its absence is said at the start, and at the end with its name; the
// results are complete.
func TestAbsentCollector(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	defer func(before time.Duration) { closeTimeout = before }(closeTimeout)
	closeTimeout = 100 * time.Millisecond
	o, log := options(t, "experiment: absent\nfactors: {mode: [none]}\nrun: {command: \"echo '{{\\\"rate\\\": 3}}'\", settle: 0s}\nmeasures: {rate: {field: rate}}\nstop: {blocks: 2}\n")
	o.Collector = address
	if err := Run(t.Context(), o); !errors.Is(err, ErrReport) || !strings.Contains(err.Error(), "report rows to "+address) {
		t.Errorf("error is %v", err)
	}
	if !strings.Contains(log.String(), "the collector cannot be reached yet") || len(rowsOf(t, o.Folder)) != 2 {
		t.Errorf("log is\n%s", log)
	}
}
