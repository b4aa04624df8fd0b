package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"time"
)

// meter samples processor time and memory of this host by pillion-agent nmetrics, as the
// paper does by oml2_nmetrics: idle first, then during the run.
type meter struct {
	program *program
	begun   time.Time
	names   []string
}

const (
	meterEvery = 250 * time.Millisecond
	idleTime   = time.Second
)

// meter starts sampling if the run wants it, and measures the idle host.
func (s settings) meter(ctx context.Context, processes ...string) (*meter, error) {
	m := &meter{names: processes}
	if !s.host {
		return m, nil
	}
	line := []string{filepath.Join(s.bin, "pillion-agent"), "nmetrics", "--json", "--interval", meterEvery.String()}
	for _, name := range processes {
		line = append(line, "--process", name)
	}
	var err error
	if m.program, err = start(ctx, "", "", line...); err != nil {
		return nil, err
	}
	select {
	case <-time.After(idleTime):
		return m, nil
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), m.program.stop(syscall.SIGINT))
	}
}

func (m *meter) begin() { m.begun = time.Now() }

// sample is a row of nmetrics, of which each point has some of the fields.
type sample struct {
	Point      string    `json:"point"`
	Time       time.Time `json:"time"`
	Total      float64   `json:"total"`
	Idle       float64   `json:"idle"`
	Wait       float64   `json:"wait"`
	ActualUsed float64   `json:"actual_used"`
	Resident   float64   `json:"resident"`
}

// end stops sampling, and returns means of the differences from sample to sample: non-idle
// processor time (ms) and memory in use (bytes), as the paper's, both idle and during the run.
func (m *meter) end() (map[string]any, error) {
	if m.program == nil {
		return nil, nil
	}
	if err := m.program.stop(syscall.SIGINT); err != nil {
		return nil, err
	}
	var before, during difference
	var resident float64
	for from := json.NewDecoder(bytes.NewReader(m.program.out.Bytes())); ; {
		var s sample
		if err := from.Decode(&s); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read nmetrics: %w", err)
		}
		d := &before
		if s.Time.After(m.begun) {
			d = &during
		}
		switch s.Point {
		case "nmetrics_cpu":
			d.cpu.add(s.Total - s.Idle - s.Wait)
		case "nmetrics_memory":
			d.memory.add(s.ActualUsed)
		case "nmetrics_process":
			resident = max(resident, s.Resident)
		}
	}
	if before.cpu.n < 2 || during.cpu.n < 2 {
		return nil, fmt.Errorf("read nmetrics: %d samples before the run and %d during it are too few", before.cpu.n, during.cpu.n)
	}
	return map[string]any{
		"cpu_delta_ms": during.cpu.mean(), "cpu_delta_idle_ms": before.cpu.mean(),
		"memory_delta_bytes": during.memory.mean(), "memory_delta_idle_bytes": before.memory.mean(), "resident_bytes": resident,
	}, nil
}

// difference is of samples of processor time and memory.
type difference struct{ cpu, memory steps }

// steps are the differences of consecutive values.
type steps struct {
	first, last float64
	n           int
}

func (s *steps) add(v float64) {
	if s.n++; s.n == 1 {
		s.first = v
	}
	s.last = v
}

func (s steps) mean() float64 { return (s.last - s.first) / float64(s.n-1) }
