package main

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// trial is the traffic of one run on the bed: what its ends say, what the collector has, and what
// the host used meanwhile.
type trial struct {
	bed      *bed
	reports  *store
	snd, rcv traffic
	used     map[string]any
}

// reporting says whether something in a run reports to the collector.
func (s settings) reporting() bool { return s.flavour != original || s.trace == "yes" }

// try runs the traffic once beside the captures of both ends. With host, the processor time and
// memory of the named processes are sampled. When it returns, the captures have ended, and the
// collector has everything that reports send.
func (s settings) try(ctx context.Context, processes []string, captures func(b *bed, end string) ([]*program, error)) (t trial, err error) {
	if t.bed, err = newBed(); err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, t.bed.close()) }()
	t.reports = newStore()
	closed, err := t.reports.serve(t.bed)
	if err != nil {
		return t, err
	}
	defer closed()
	meter, err := s.meter(ctx, processes...)
	if err != nil {
		return t, err
	}
	var capturing []*program
	for _, end := range []string{t.bed.snd, t.bed.rcv} {
		started, err := captures(t.bed, end)
		capturing = append(capturing, started...)
		if err != nil {
			return t, errors.Join(err, stopAll(append(capturing, meter.program)))
		}
	}
	meter.begin()
	t.snd, t.rcv, err = s.transmit(ctx, t.bed)
	used, failed := meter.end()
	t.used = used
	time.Sleep(200 * time.Millisecond) // a capture is to have the last packet
	if err := errors.Join(err, failed, stopAll(capturing)); err != nil {
		return t, err
	}
	if s.reporting() {
		t.reports.await(2)
	}
	return t, nil
}

// stopAll interrupts programs, except nil, and waits for all of them.
func stopAll(programs []*program) (err error) {
	for _, p := range programs {
		if p != nil {
			err = errors.Join(err, p.stop(syscall.SIGINT))
		}
	}
	return err
}
