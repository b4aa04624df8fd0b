package dispatch

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"syscall"
	"time"
)

// flight is one schedule on its way: the calling goroutine hands packets over and reports
// them, a thread of its own runs the program.
type flight struct {
	*kernel
	ctx    context.Context
	delay  time.Duration
	start  int64 // CLOCK_MONOTONIC, ns; set before started is closed
	report func(Record)

	names   []name    // by slot
	reaped  uint64    // slots reported
	refused []invalid // not reported before the start is known
	spare   *name     // taken from the schedule but not handed over

	ready   chan struct{} // closed: the thread has its priority
	started chan struct{} // closed: the thread may send
	filled  chan struct{} // closed: nothing more is handed over
	landed  chan struct{} // closed: the thread has ended
	failure error         // of the thread; read after landed

	data []byte        // input of the program
	busy time.Duration // of the thread, less what it has slept since
}

// name is what a report says of a packet that the ring does not hold.
type name struct {
	train, number uint32
	bytes         int
	due           time.Duration
}

// begin sets the start, once, and lets the thread send.
func (f *flight) begin() {
	if !isClosed(f.started) {
		f.start = now() + int64(f.delay)
		f.ring.control.Start = uint64(f.start)
		close(f.started)
	}
}

// fillAll hands packets over, on the fly from a real-time thread: one that is handed over
// too late leaves too late.
func (f *flight) fillAll(packets iter.Seq2[Packet, error]) error {
	if f.options.Lead == 0 {
		return f.fill(packets)
	}
	return onThread(nil, func() error {
		f.prioritise()
		f.begin()
		return f.fill(packets)
	})
}

// fill hands packets over as early as the options say. Sending begins when the ring is
// full, or at once if packets are handed over on the fly.
func (f *flight) fill(packets iter.Seq2[Packet, error]) error {
	for p, err := range packets {
		if err != nil {
			return err
		}
		n := name{p.Train, p.Number, p.Bytes(), p.Due}
		if p.Invalid != nil {
			f.refuse(invalid{n, p.Invalid})
			continue
		}
		if err := f.hand(&p, n); err != nil {
			f.spare = &n
			if f.ctx.Err() != nil || errors.Is(err, errLanded) {
				return nil // reported by the caller
			}
			return err
		}
	}
	return nil
}

// invalid is a packet that cannot be built.
type invalid struct {
	name
	cause error
}

// refuse reports an invalid packet once the start is known.
func (f *flight) refuse(more ...invalid) {
	f.refused = append(f.refused, more...)
	if !isClosed(f.started) {
		return
	}
	for _, i := range f.refused {
		f.report(f.record(&i.name, Failed, i.cause))
	}
	f.refused = nil
}

// record of a packet that was not sent.
func (f *flight) record(n *name, fate Fate, cause error) Record {
	return Record{Train: n.train, Number: n.number, Bytes: n.bytes, Intended: f.start + int64(n.due), Fate: fate, Error: cause}
}

// errLanded is a thread that has ended before its time.
var errLanded = errors.New("sender ended")

func (f *flight) hand(p *Packet, n name) error {
	if f.options.Lead > 0 {
		for early := f.start + int64(n.due-f.options.Lead); early > now(); {
			f.reap(false)
			if err := sleepUntil(f.ctx, min(early, now()+int64(sleepSlice))); err != nil {
				return err
			}
		}
	}
	for {
		at := f.ring.filled()
		err := f.ring.put(p, f.reaped)
		if err == nil {
			f.names[at&slotMask] = n
		}
		if !errors.Is(err, errFull) {
			return err
		}
		f.begin()
		if isClosed(f.landed) {
			return errLanded
		}
		if err := f.ctx.Err(); err != nil {
			return err
		}
		if !f.reap(true) {
			time.Sleep(idle)
		}
	}
}

// reap reports the packets that have left and says whether there were any. It waits for
// driver times only if the ring has room.
func (f *flight) reap(full bool) bool {
	began, next, late := f.reaped, f.ring.next(), now()-int64(stampWait)
	for ; f.reaped < next; f.reaped++ {
		o := &f.ring.outcomes[f.reaped&slotMask]
		fate := atomic.LoadUint32(&o.Fate)
		if fate == 0 {
			break
		}
		driver := int64(atomic.LoadUint64(&o.Driver))
		if Fate(fate) == Sent && driver == 0 && f.driver != nil && !full && int64(o.Handed) > late {
			break
		}
		n := &f.names[f.reaped&slotMask]
		r := f.record(n, Fate(fate), nil)
		r.Handed, r.Driver = int64(o.Handed), driver
		if r.Fate == Failed {
			r.Error = refusal(o.Error)
		}
		if driver != 0 {
			r.Source = Observer
			r.Fate, r.Error = Sent, nil // it was counted as congestion, and left
		}
		f.report(r)
	}
	return f.reaped > began
}

// reapAll reports what is left, each packet when its fate is known.
func (f *flight) reapAll() {
	f.refuse()
	for !isClosed(f.landed) {
		f.reap(false)
		time.Sleep(time.Millisecond)
	}
	for f.reaped < f.ring.next() {
		f.reap(false)
		time.Sleep(time.Millisecond)
	}
	report := func(n *name) {
		if f.failure != nil {
			f.report(f.record(n, Failed, f.failure))
		} else {
			f.report(f.record(n, Cancelled, nil))
		}
	}
	for ; f.reaped < f.ring.filled(); f.reaped++ {
		report(&f.names[f.reaped&slotMask])
	}
	atomic.StoreUint64(&f.ring.control.Next, f.reaped)
	if f.spare != nil {
		report(f.spare)
	}
}

// refusal is the cause of a packet that the device did not take: a negative errno value,
// or a verdict of the queueing discipline (NET_XMIT_*).
func refusal(code int32) error {
	switch {
	case code < 0:
		return syscall.Errno(-code)
	case code == 1:
		return errDropped
	default: // NET_XMIT_CN, also of a device without a carrier
		return errCongested
	}
}

var (
	errDropped   = errors.New("queueing discipline dropped the packet")
	errCongested = errors.New("interface is down or has no carrier, or its queueing discipline dropped the packet or another one (congestion)")
)
