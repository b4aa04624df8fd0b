package spool

import (
	"context"
	"errors"
	"slices"
	"time"

	"pillion.dev/measure"
)

type state uint8

const (
	waiting state = iota
	flying        // being sent
	done
)

// entry is one batch in the spool.
type entry struct {
	line     *line
	sequence uint64
	file     *file  // nil while the batch is held only in memory
	offset   int64  // in the file
	payload  []byte // of a batch held only in memory
	size     int64  // of the record
	rows     uint32
	checksum uint32
	state    state
	// evicted: its file was dropped; it ends with the current attempt.
	evicted bool
	cancel  context.CancelFunc // of that attempt
	// durable: it is sent only once it is on the disk. Whoever put it learns that, or that
	// it is lost, from kept, which is called once.
	durable bool
	kept    func(measure.Key, error)
}

// errLost is the outcome of a batch that will not be delivered.
var errLost = errors.New("batch is lost")

func (e *entry) key() measure.Key {
	return measure.Key{Stream: e.line.stream, Epoch: e.line.epoch, Sequence: e.sequence}
}

// report reports that a batch is safe, or why it is lost.
func (e *entry) report(err error) {
	if kept := e.kept; kept != nil {
		e.kept = nil
		kept(e.key(), err)
	}
}

// line is the sequence of batches of one stream and epoch.
type line struct {
	stream string
	epoch  uint64
	next   uint64 // sequence of the next batch
	// after is when the server may know the format of the batches: it did not before.
	after time.Time
	// held are ascending; the first is never done.
	held []*entry
}

type lineKey struct {
	stream string
	epoch  uint64
}

// oldest is the lowest sequence number held, or the next one.
func (l *line) oldest() uint64 {
	if len(l.held) > 0 {
		return l.held[0].sequence
	}
	return l.next
}

func (s *Spool) line(stream string, epoch uint64) *line {
	key := lineKey{stream, epoch}
	l := s.lines[key]
	if l == nil {
		l = &line{stream: stream, epoch: epoch}
		s.lines[key] = l
	}
	return l
}

// newEntry describes a batch, and adds it to its line's numbers.
func (s *Spool) newEntry(e *measure.Envelope) *entry {
	l := s.line(e.Stream, e.Epoch)
	l.next = max(l.next, e.Sequence+1)
	return &entry{line: l, sequence: e.Sequence, size: recordSize(e), rows: uint32(e.Rows), checksum: e.Checksum}
}

// hold adds a batch to the queue.
func (s *Spool) hold(e *entry) {
	s.queue = append(s.queue, e)
	e.line.held = append(e.line.held, e)
	s.stats.Batches++
	s.stats.Bytes += e.size
	s.stats.WrittenRows += int64(e.rows)
	s.stats.HeldRows += int64(e.rows)
}

// flight is one batch being sent.
type flight struct {
	*entry
	payload []byte // nil if it is in its file
	ctx     context.Context
}

// take returns the next batch to send, in order of writing, or nil if the window is full
// or nothing waits.
func (s *Spool) take(parent context.Context) *flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flying >= s.options.Window {
		return nil
	}
	now := time.Now()
	for ; s.taken < len(s.queue); s.taken++ {
		e := s.queue[s.taken]
		if e.state != waiting || e.file == nil && e.durable || now.Before(e.line.after) {
			continue
		}
		if s.flying > 0 && s.flyingBytes+e.size > windowBytes {
			return nil
		}
		s.taken++
		e.state = flying
		s.flying++
		s.flyingBytes += e.size
		f := &flight{entry: e, payload: e.payload}
		f.ctx, e.cancel = context.WithCancel(parent)
		return f
	}
	return nil
}

// giveBack returns a batch whose delivery was aborted by the end of Run.
func (s *Spool) giveBack(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.evicted {
		s.end(e, dropped)
		return
	}
	s.land(e)
	e.state = waiting
	s.taken = 0
}

// postpone keeps a batch that the server does not support yet, and other batches of its
// stream, for a while; the others are delivered.
func (s *Spool) postpone(e *entry, reason error) {
	s.mu.Lock()
	if l := e.line; !time.Now().Before(l.after) {
		if l.after.IsZero() {
			s.log.Warn("the server does not support these batches; they are kept until it is updated", "stream", l.stream, "reason", reason)
		}
		l.after = time.Now().Add(s.options.unsupportedRetry)
		time.AfterFunc(s.options.unsupportedRetry, func() {
			s.mu.Lock()
			s.taken = 0
			s.mu.Unlock()
			s.stir()
		})
	}
	s.mu.Unlock()
	s.giveBack(e)
}

// Retry sends again at once what the server did not support. To be called when a server has
// connected, which may be a later version.
func (s *Spool) Retry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		if !l.after.IsZero() {
			l.after = time.Now()
		}
	}
	s.taken = 0
	s.stir()
}

// land takes a batch out of the window.
func (s *Spool) land(e *entry) {
	if e.state != flying {
		return
	}
	e.cancel()
	e.cancel = nil
	s.flying--
	s.flyingBytes -= e.size
	s.stir()
}

type outcome uint8

const (
	sent outcome = iota
	dropped
	rejected
	damaged // could not be read back
)

// settle marks a batch as done and counts its outcome.
func (s *Spool) settle(e *entry, o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(e, o)
}

// end is settle with the lock held.
func (s *Spool) end(e *entry, o outcome) {
	if e.state == done {
		return
	}
	s.land(e)
	e.state = done
	if o != sent {
		e.report(errLost)
	}
	s.count(e, o)
	s.stats.Batches--
	s.stats.Bytes -= e.size
	s.stats.HeldRows -= int64(e.rows)
	if e.file == nil {
		s.leaveMemory(e)
	} else {
		s.release(e)
	}
	s.full = s.full && s.diskBytes > s.options.LimitBytes/2
	s.forget(e.line)
	s.shorten()
	if s.stats.Batches == 0 {
		close(s.drained)
		s.drained = make(chan struct{})
	}
}

func (s *Spool) count(e *entry, o outcome) {
	switch o {
	case sent:
		s.stats.SentBatches++
		s.stats.SentRows += int64(e.rows)
	case rejected:
		s.stats.Rejected++
		s.stats.RejectedRows += int64(e.rows)
	case damaged:
		s.stats.Damaged++
		s.lose(e.line.stream, amount{1, int64(e.rows)})
	case dropped:
		s.lose(e.line.stream, amount{1, int64(e.rows)})
	}
}

// lose counts batches that will not be delivered.
func (s *Spool) lose(stream string, a amount) {
	s.stats.DroppedBatches += a.batches
	s.stats.DroppedRows += a.rows
	loss := s.stats.Lost[stream]
	loss.Batches += a.batches
	loss.Rows += a.rows
	s.stats.Lost[stream] = loss
}

// finished counts the finished batches at the head of a list.
func finished(list []*entry) int {
	if n := slices.IndexFunc(list, func(e *entry) bool { return e.state != done }); n >= 0 {
		return n
	}
	return len(list)
}

// forget removes finished batches from the head of a line.
func (s *Spool) forget(l *line) {
	n := finished(l.held)
	l.held = l.held[n:]
	if len(l.held) == 0 {
		l.held = nil
		if l.epoch != s.epoch {
			delete(s.lines, lineKey{l.stream, l.epoch})
		}
	}
}

// shorten removes finished batches from the queue: at its head at once, elsewhere when
// they are the majority, so that one undeliverable batch does not let the queue grow.
func (s *Spool) shorten() {
	n := finished(s.queue)
	s.queue, s.taken = s.queue[n:], max(s.taken-n, 0)
	if int64(len(s.queue)) > 2*s.stats.Batches+int64(s.options.Window) {
		s.queue = slices.DeleteFunc(s.queue, func(e *entry) bool { return e.state == done })
		s.taken = 0
	}
	s.memory = s.memory[finished(s.memory):]
}

// drop drops a batch. One in flight is held until its attempt ends: it may still be
// acknowledged, and Oldest must not pass it before that is known.
func (s *Spool) drop(e *entry) {
	switch e.state {
	case waiting:
		s.end(e, dropped)
	case flying:
		e.evicted = true
		e.cancel()
	}
}

// envelope is the message of a batch now: Oldest rises between attempts.
func (s *Spool) envelope(e *entry, payload []byte) measure.Envelope {
	s.mu.Lock()
	defer s.mu.Unlock()
	return measure.Envelope{Key: e.key(), Rows: int(e.rows), Oldest: e.line.oldest(), Checksum: e.checksum, Payload: payload}
}

// stir wakes Run.
func (s *Spool) stir() {
	select {
	case s.stirred <- struct{}{}:
	default:
	}
}
