package dispatch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// spinAhead is how long before its due time a packet's wait becomes a busy one.
const spinAhead = 300 * time.Microsecond

// outlet hands packets to the device, one after the other. It is used by one thread, in
// the device's network namespace.
type outlet interface {
	// prepare does what a packet needs before its time.
	prepare(p *Packet) error
	// send hands the prepared packet over. An error means that it will not leave.
	send() error
	close() error
}

// sequential prepares, waits and sends, packet by packet.
type sequential struct {
	name    string
	options Options
	spin    bool // busy wait at real-time priority
	outlet  outlet
	remarks []string
}

// sequentially makes the opening of an outlet that of a mechanism. Remarks say what
// limits every result of it.
func sequentially(name string, spin bool, open func(Options) (outlet, error), remarks ...string) func(Options) (Sender, error) {
	return func(options Options) (Sender, error) {
		s := &sequential{name: name, options: options, spin: spin, remarks: remarks}
		err := onThread(options.Namespace, func() (err error) {
			s.outlet, err = open(options)
			return err
		})
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

func (s *sequential) Name() string      { return s.name }
func (s *sequential) Remarks() []string { return s.remarks }
func (s *sequential) Close() error      { return s.outlet.close() }

// Send prepares, waits and sends, packet by packet. It reports each when the next one's
// wait allows it, so that reporting delays no packet.
func (s *sequential) Send(ctx context.Context, delay time.Duration, packets iter.Seq2[Packet, error], report func(Record)) error {
	return onThread(s.options.Namespace, func() error {
		if s.spin {
			if err := errors.Join(blockSignals(), prioritise()); err != nil {
				s.remarks = append(s.remarks[:len(s.remarks):len(s.remarks)], fmt.Sprintf("ordinary priority: %v", err))
			}
		}
		start := now() + int64(delay)
		for p, err := range packets {
			if err != nil {
				return err
			}
			report(s.send(ctx, start, p))
		}
		return ctx.Err()
	})
}

func (s *sequential) send(ctx context.Context, start int64, p Packet) Record {
	due := start + int64(p.Due)
	r := Record{Train: p.Train, Number: p.Number, Bytes: p.Bytes(), Intended: due}
	if p.Invalid != nil {
		r.Fate, r.Error = Failed, p.Invalid
		return r
	}
	if ctx.Err() != nil {
		return r
	}
	if err := s.outlet.prepare(&p); err != nil {
		r.Fate, r.Error = Failed, err
		return r
	}
	wake := due
	if s.spin {
		wake -= int64(spinAhead)
	}
	if sleepUntil(ctx, wake) != nil {
		return r
	}
	r.Handed = now()
	for s.spin && r.Handed < due {
		r.Handed = now()
	}
	if s.options.DropLate > 0 && r.Handed > due+int64(s.options.DropLate) {
		r.Fate = DroppedLate
		return r
	}
	if err := s.outlet.send(); err != nil {
		r.Fate, r.Error = Failed, err
		return r
	}
	r.Fate = Sent
	return r
}
