package spool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"pillion.dev/bus"
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

// Run delivers batches until the context ends or the spool is closed; then it returns
// nil. Several batches are in flight at once. First attempts start in the order of
// writing; after failures batches may overtake each other.
func (s *Spool) Run(ctx context.Context, send Send) error {
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
	var flights sync.WaitGroup
	for ctx.Err() == nil {
		f := s.take(ctx)
		if f == nil {
			select {
			case <-ctx.Done():
			case <-s.stirred:
			}
			continue
		}
		if f.payload == nil {
			var err error
			if f.payload, err = s.read(f.entry); err != nil {
				s.unreadable(f.entry, err)
				continue
			}
		}
		begun := make(chan struct{})
		flights.Go(func() { s.deliver(f, send, begun) })
		<-begun
	}
	flights.Wait()
	s.mu.Lock()
	s.running = false
	s.mu.Unlock()
	return nil
}

// unreadable ends a batch that cannot be read back, or whose file has been dropped.
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
func (s *Spool) deliver(f *flight, send Send, begun chan struct{}) {
	e := f.entry
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		envelope := s.envelope(e, f.payload)
		if begun != nil {
			close(begun)
			begun = nil
		}
		ctx, cancel := context.WithTimeout(f.ctx, s.options.Timeout)
		err := send(ctx, envelope)
		cancel()
		switch {
		case err == nil:
			s.succeeded()
			s.settle(e, sent)
			return
		case s.options.Permanent(err):
			s.keepRejected(envelope, err)
			s.settle(e, rejected)
			return
		case errors.Is(err, bus.ErrUnsupported):
			s.postpone(e, err)
			return
		case f.ctx.Err() != nil:
			s.giveBack(e)
			return
		}
		if !wait(f.ctx, pause, s.failed(err)) {
			s.giveBack(e)
			return
		}
	}
}

// failed logs the first failure. The channel is closed when a batch is delivered again.
func (s *Spool) failed(err error) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.failing {
		s.failing = true
		s.log.Warn("delivery fails, batches wait in the spool", "error", err)
	}
	return s.success
}

// succeeded wakes batches that wait after a failure.
func (s *Spool) succeeded() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing {
		s.failing = false
		s.log.Info("delivery works again")
		close(s.success)
		s.success = make(chan struct{})
	}
}

// wait waits for the pause with its jitter, or until another batch is delivered, but at
// least for the shortest pause: a single failing batch would otherwise be resent in a
// tight loop. It reports false when the context ends.
func wait(ctx context.Context, pause time.Duration, success <-chan struct{}) bool {
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
