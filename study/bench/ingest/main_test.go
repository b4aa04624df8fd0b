package main

import (
	"strings"
	"testing"
	"time"

	"pillion.dev/measure"
	"pillion.dev/study/bench/result/calls"
)

func TestExperimentsCallWithKnownArguments(t *testing.T) {
	calls.Check(t, "bin/bench/ingest", commands, "../*.yaml")
}

func TestInvalidSettings(t *testing.T) {
	for want, change := range map[string]func(*settings){
		"-agents 0":   func(s *settings) { s.agents = 0 },
		"-rows 0":     func(s *settings) { s.rows = 0 },
		"-warm -1s":   func(s *settings) { s.warm = -time.Second },
		"-length 1ms": func(s *settings) { s.length = time.Millisecond },
	} {
		s := settings{server: "absent", agents: 1, rows: 1, length: time.Second}
		change(&s)
		if _, err := s.measure(t.Context()); err == nil || !strings.Contains(err.Error(), "invalid "+want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestBatch(t *testing.T) {
	last := time.Unix(1_760_000_000, 0)
	payload, err := batch(100, last)
	if err != nil {
		t.Fatal(err)
	}
	e := measure.Envelope{Key: measure.Key{Stream: columns.Name}, Rows: 100, Checksum: measure.Checksum(payload), Payload: payload}
	_, record, err := e.Decode()
	if err != nil {
		t.Fatal(err)
	}
	defer record.Release()
	if record.NumRows() != 100 {
		t.Errorf("%d rows", record.NumRows())
	}
	if _, err := batch(300_000, last); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a batch that is too large: %v", err)
	}
}
