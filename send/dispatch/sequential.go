package dispatch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
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
	// socket by which the prepared packet leaves; -1 if it gives no time stamps.
	socket() int
	close() error
}

// sequential prepares, waits and sends, packet by packet.
type sequential struct {
	name    string
	options Options
	spin    bool // busy wait at real-time priority
	outlet  outlet
	journal *journal
	remarks []string
}

// sequentially turns the function that opens an outlet into one that opens a mechanism's
// sender. Remarks say what limits every result of it.
func sequentially(name string, spin bool, open func(o Options, spin bool) (outlet, error), remarks ...string) func(Options) (Sender, error) {
	return func(options Options) (Sender, error) {
		s := &sequential{name: name, options: options, spin: spin, remarks: slices.Clone(remarks)}
		err := onThread(options.Namespace, func() (err error) {
			s.outlet, err = open(options, spin)
			return err
		})
		if err != nil {
			return nil, err
		}
		if s.journal, err = newJournal(options); err != nil {
			return nil, errors.Join(err, s.outlet.close())
		}
		return s, nil
	}
}

func (s *sequential) Name() string                          { return s.name }
func (s *sequential) Remarks() []string                     { return append(slices.Clone(s.remarks), s.journal.remarks...) }
func (s *sequential) Uncertainty() map[Source]time.Duration { return s.journal.uncertainty() }
func (s *sequential) Close() error                          { return errors.Join(s.journal.close(), s.outlet.close()) }

// Send prepares, waits and sends, packet by packet. Records are reported, and time stamps
// collected, while packets wait for their time.
func (s *sequential) Send(ctx context.Context, delay time.Duration, packets iter.Seq2[Packet, error], report func(Record)) error {
	return onThread(s.options.Namespace, func() error {
		if s.spin {
			if err := errors.Join(blockSignals(), prioritise()); err != nil {
				s.remarks = append(s.remarks, fmt.Sprintf("ordinary priority: %v", err))
			}
		}
		s.journal.report = report
		start := now() + int64(delay)
		for p, err := range packets {
			if err != nil {
				s.journal.end()
				return err
			}
			r, from := s.send(ctx, start, p)
			s.journal.add(r, from)
		}
		s.journal.end()
		return ctx.Err()
	})
}

// send returns the packet's record, and the socket by which it left.
func (s *sequential) send(ctx context.Context, start int64, p Packet) (r Record, from int) {
	due := start + int64(p.Due)
	r = Record{Train: p.Train, Number: p.Number, Bytes: p.Bytes(), Intended: due}
	if p.Invalid != nil {
		r.Fate, r.Error = Failed, p.Invalid
		return r, -1
	}
	if ctx.Err() != nil {
		return r, -1
	}
	if err := s.outlet.prepare(&p); err != nil {
		r.Fate, r.Error = Failed, err
		return r, -1
	}
	from = s.journal.enable(s.outlet.socket())
	wake := due
	if s.spin {
		wake -= int64(spinAhead)
	}
	s.journal.collect(due)
	if sleepUntil(ctx, wake) != nil {
		return r, -1
	}
	r.Handed = now()
	for s.spin && r.Handed < due {
		r.Handed = now()
	}
	if s.options.DropLate > 0 && r.Handed > due+int64(s.options.DropLate) {
		r.Fate = DroppedLate
		return r, -1
	}
	if err := s.outlet.send(); err != nil {
		r.Fate, r.Error = Failed, err
		return r, from
	}
	r.Fate = Sent
	return r, from
}
