package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/session"
)

// waitingMax limits the batches that wait while the server is down.
const waitingMax = 300

// Sending delivers the rows of a simulated agent to the server: in order, each batch until
// it is acknowledged, like a spool, but in memory.
type Sending struct {
	epoch   uint64
	streams map[string]*measure.Stream

	mu      sync.Mutex
	next    map[string]uint64
	waiting []*held
	counts  session.Spool
	wake    chan struct{}
	// Acknowledged, if set, is called for each batch that the server has stored, with the time since it was made. It is set before
	// the first batch, and called from several goroutines.
	Acknowledged func(rows int, after time.Duration)
}

// held is a batch that is not acknowledged.
type held struct {
	measure.Envelope
	flying bool
	made   time.Time
}

// NewSending returns one for these streams.
func NewSending(schemas ...*measure.Schema) (*Sending, error) {
	s := &Sending{
		epoch: rand.Uint64(), streams: map[string]*measure.Stream{}, next: map[string]uint64{}, wake: make(chan struct{}, 1),
	}
	for _, schema := range schemas {
		stream, err := measure.NewStream(schema, measure.StreamOptions{Rows: measure.RowsMax, Bytes: measure.BatchBytesMax}, s.queue)
		if err != nil {
			return nil, err
		}
		s.streams[schema.Name] = stream
	}
	return s, nil
}

// Stream returns one of the streams; its rows are sent when it is flushed.
func (s *Sending) Stream(name string) *measure.Stream { return s.streams[name] }

// Put sends rows of one stream as one batch.
func (s *Sending) Put(schema *measure.Schema, rows ...measure.Sample) error {
	for _, row := range rows {
		if err := s.streams[schema.Name].Append(row); err != nil {
			return err
		}
	}
	return s.streams[schema.Name].Flush()
}

// queue adds a batch of a stream.
func (s *Sending) queue(schema *measure.Schema, record arrow.RecordBatch) error {
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
	s.waiting = append(s.waiting, &held{Envelope: e, made: time.Now()})
	s.stir()
	return nil
}

func (s *Sending) stir() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take returns the oldest batch that is not in flight, with the oldest sequence number of
// its stream that is still held.
func (s *Sending) take() *held {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := map[string]uint64{}
	for _, h := range s.waiting {
		if _, known := oldest[h.Stream]; !known {
			oldest[h.Stream] = h.Sequence
		}
		if !h.flying {
			h.flying, h.Oldest = true, oldest[h.Stream]
			return h
		}
	}
	return nil
}

// land removes an acknowledged batch, or lets it be retransmitted.
func (s *Sending) land(h *held, stored bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.flying = false
	if stored {
		s.waiting = slices.DeleteFunc(s.waiting, func(other *held) bool { return other == h })
		s.counts.SentRows += int64(h.Rows)
	}
}

const (
	retryAfter = 500 * time.Millisecond
	// sendAtATime is the number of batches of a host in flight.
	sendAtATime = 8
)

// Run delivers until the context ends.
func (s *Sending) Run(ctx context.Context, link *bus.Agent) {
	turns := make(chan struct{}, sendAtATime)
	var senders sync.WaitGroup
	defer senders.Wait()
	for ctx.Err() == nil {
		h := s.take()
		if h == nil {
			select {
			case <-ctx.Done():
			case <-s.wake:
			}
			continue
		}
		turns <- struct{}{}
		senders.Go(func() {
			defer func() { <-turns }()
			err := link.Send(ctx, h.Envelope)
			stored := err == nil || errors.Is(err, bus.ErrRejected)
			if !stored {
				select {
				case <-ctx.Done():
				case <-time.After(retryAfter):
				}
			}
			s.land(h, stored)
			if err == nil && s.Acknowledged != nil {
				s.Acknowledged(h.Rows, time.Since(h.made))
			}
			if !stored {
				s.stir()
			}
		})
	}
}

// State of the queue.
func (s *Sending) State() session.Spool {
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
