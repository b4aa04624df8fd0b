package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/session"
)

// waitingMax bounds the batches that wait while the server is away.
const waitingMax = 300

// sending brings the rows of a host to the server: in order, each batch again until
// it is acknowledged, as a spool does, but in memory.
type sending struct {
	epoch   uint64
	streams map[string]*measure.Stream

	mu      sync.Mutex
	next    map[string]uint64
	waiting []measure.Envelope
	counts  session.Spool
	wake    chan struct{}
}

func newSending() (*sending, error) {
	s := &sending{
		epoch: rand.Uint64(), streams: map[string]*measure.Stream{}, next: map[string]uint64{}, wake: make(chan struct{}, 1),
	}
	for _, schema := range []*measure.Schema{&measure.Flows, &measure.Hops, &measure.Clock, &measure.Host, &measure.Interfaces, &measure.Agent} {
		stream, err := measure.NewStream(schema, measure.StreamOptions{Rows: measure.RowsMax, Bytes: measure.BatchBytesMax}, s.queue)
		if err != nil {
			return nil, err
		}
		s.streams[schema.Name] = stream
	}
	return s, nil
}

// put sends rows of one stream as one batch.
func (s *sending) put(schema *measure.Schema, rows ...measure.Sample) error {
	for _, row := range rows {
		if err := s.streams[schema.Name].Append(row); err != nil {
			return err
		}
	}
	return s.streams[schema.Name].Flush()
}

// queue takes a batch of a stream.
func (s *sending) queue(schema *measure.Schema, record arrow.RecordBatch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := measure.Encode(measure.Key{Stream: schema.Name, Epoch: s.epoch, Sequence: s.next[schema.Name]}, record)
	if err != nil {
		return err
	}
	s.next[schema.Name]++
	if len(s.waiting) == waitingMax {
		s.counts.DroppedBatches++
		s.counts.DroppedRows += int64(s.waiting[0].Rows)
		s.waiting = s.waiting[1:]
	}
	s.waiting = append(s.waiting, e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// first is the batch that has waited longest.
func (s *sending) first() (measure.Envelope, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return measure.Envelope{}, false
	}
	return s.waiting[0], true
}

// done forgets a batch, unless it was dropped meanwhile.
func (s *sending) done(e measure.Envelope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) > 0 && s.waiting[0].Key == e.Key {
		s.waiting = s.waiting[1:]
	}
	s.counts.SentRows += int64(e.Rows)
}

const retryAfter = 500 * time.Millisecond

// run delivers until the context ends.
func (s *sending) run(ctx context.Context, link *bus.Agent) {
	for ctx.Err() == nil {
		e, ok := s.first()
		if !ok {
			select {
			case <-ctx.Done():
			case <-s.wake:
			}
			continue
		}
		err := link.Send(ctx, e)
		if err == nil || errors.Is(err, bus.ErrRejected) {
			s.done(e)
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

func (s *sending) state() session.Spool {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.counts
	state.LimitBytes = 1 << 30
	state.Batches = int64(len(s.waiting))
	for _, e := range s.waiting {
		state.Bytes += int64(len(e.Payload))
	}
	return state
}
