package spool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"pillion.dev/measure"
)

// Pauses between attempts double from pauseMin to pauseMax, each with a jitter of half
// its length.
const (
	pauseMin = 100 * time.Millisecond
	pauseMax = 5 * time.Second
)

// Send delivers one batch: nil means that it is stored.
type Send func(ctx context.Context, envelope measure.Envelope) error

// flight is one batch being sent.
type flight struct {
	entry   *entry
	segment *segment // that held it when it was taken
	offset  int64
	payload []byte // nil if it is in the segment's file
	ctx     context.Context
}

// delivery is one Run.
type delivery struct {
	spool *Spool
	send  Send
	// file is that of segment; only loop reads it.
	file    *os.File
	segment *segment
	flights sync.WaitGroup

	mu      sync.Mutex
	success chan struct{} // closed at the first success after failures
}

// Run delivers batches until the context ends or the spool is closed; then it returns
// nil. Several batches are in flight at once. First attempts start in the order of
// writing; after failures batches may overtake each other.
func (s *Spool) Run(ctx context.Context, send func(context.Context, measure.Envelope) error) error {
	s.mu.Lock()
	if s.closed || s.running {
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return fmt.Errorf("run spool: %w", ErrClosed)
		}
		return errors.New("run spool: already running")
	}
	s.running = true
	s.stopped.Add(1)
	s.mu.Unlock()
	defer s.stopped.Done()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	d := &delivery{spool: s, send: send, success: make(chan struct{})}
	d.loop(ctx)
	d.flights.Wait()
	if d.file != nil {
		d.file.Close()
	}
	s.mu.Lock()
	s.running = false
	s.mu.Unlock()
	return nil
}

func (d *delivery) loop(ctx context.Context) {
	for ctx.Err() == nil {
		f := d.spool.take(ctx)
		if f == nil {
			select {
			case <-ctx.Done():
			case <-d.spool.stirred:
			}
			continue
		}
		payload, err := d.read(f)
		if err != nil {
			d.spool.unreadable(f.entry, err)
			continue
		}
		begun := make(chan struct{})
		d.flights.Go(func() { d.deliver(f, payload, begun) })
		<-begun
	}
}

// read reads the payload and verifies its checksum again: it may have been damaged
// since Open.
func (d *delivery) read(f *flight) ([]byte, error) {
	if f.payload != nil {
		return f.payload, nil
	}
	if d.segment != f.segment {
		if d.file != nil {
			d.file.Close()
		}
		d.file, d.segment = nil, nil
		file, err := os.Open(d.spool.path(f.segment.name))
		if err != nil {
			return nil, err
		}
		d.file, d.segment = file, f.segment
	}
	e := f.entry
	body := int64(headerSize + len(e.line.stream))
	payload := make([]byte, e.size-body)
	if _, err := d.file.ReadAt(payload, f.offset+body); err != nil {
		return nil, err
	}
	if sum := measure.Checksum(payload); sum != e.checksum {
		return nil, fmt.Errorf("checksum %08x, want %08x", sum, e.checksum)
	}
	return payload, nil
}

// unreadable ends a batch that cannot be read back, or whose segment was dropped
// meanwhile.
func (s *Spool) unreadable(e *entry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.evicted {
		s.end(e, dropped)
		return
	}
	s.log.Warn("read batch from spool", "stream", e.line.stream, "sequence", e.sequence, "error", err)
	s.end(e, damaged)
}

// deliver retries until the batch is done or the context ends. begun is closed when the
// first attempt starts, so that the next batch does not overtake this one.
func (d *delivery) deliver(f *flight, payload []byte, begun chan struct{}) {
	s, e := d.spool, f.entry
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		envelope := s.envelope(e, payload)
		if begun != nil {
			close(begun)
			begun = nil
		}
		err := d.attempt(f.ctx, envelope)
		switch {
		case err == nil:
			d.succeeded()
			s.settle(e, sent)
			return
		case s.options.Permanent(err):
			s.keepRejected(envelope, err)
			s.settle(e, rejected)
			return
		case f.ctx.Err() != nil:
			s.giveBack(e)
			return
		}
		if !d.wait(f.ctx, pause, d.failed(err)) {
			s.giveBack(e)
			return
		}
	}
}

func (d *delivery) attempt(ctx context.Context, envelope measure.Envelope) error {
	ctx, cancel := context.WithTimeout(ctx, d.spool.options.Timeout)
	defer cancel()
	return d.send(ctx, envelope)
}

// failed logs the first failure. The channel is closed when a batch is delivered again.
func (d *delivery) failed(err error) <-chan struct{} {
	d.spool.mu.Lock()
	first := !d.spool.failing
	d.spool.failing = true
	d.spool.mu.Unlock()
	if first {
		d.spool.log.Warn("delivery fails, batches wait in the spool", "error", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.success
}

// succeeded wakes batches that wait after a failure.
func (d *delivery) succeeded() {
	d.spool.mu.Lock()
	again := d.spool.failing
	d.spool.failing = false
	d.spool.mu.Unlock()
	if !again {
		return
	}
	d.spool.log.Info("delivery works again")
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.success)
	d.success = make(chan struct{})
}

// wait waits for the pause with its jitter, or until another batch is delivered, but at
// least for the shortest pause: a single failing batch would otherwise be resent in a
// tight loop. It reports false when the context ends.
func (d *delivery) wait(ctx context.Context, pause time.Duration, success <-chan struct{}) bool {
	least := time.NewTimer(pauseMin/2 + rand.N(pauseMin))
	defer least.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-least.C:
	}
	if pause <= pauseMin {
		return true
	}
	rest := time.NewTimer((pause-pauseMin)/2 + rand.N(pause-pauseMin))
	defer rest.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-success:
	case <-rest.C:
	}
	return true
}

// Drain waits until the spool is empty.
func (s *Spool) Drain(ctx context.Context) error {
	s.mu.Lock()
	held, drained := s.stats.Batches, s.drained
	s.mu.Unlock()
	if held == 0 {
		return nil
	}
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain spool: %d batches left: %w", s.Stats().Batches, ctx.Err())
	}
}
