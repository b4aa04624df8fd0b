package emulator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// maxQueued is more frames than the kernel queues at a tap.
const maxQueued = 4096

// maxLineBytes limits the memory of frames in flight in one direction.
const maxLineBytes = 256 << 20

// direction forwards frames from one tap to the other. One thread owns it; mu guards the fields that reports of the
// ground truth read and that changes of the link set.
type direction struct {
	from, to End
	in, out  int
	stop     int // becomes readable when the emulator ends
	stopping *atomic.Bool
	log      *packetLog
	unread   func() uint64

	dice       dice
	bottleneck bottleneck
	line       line
	idle       []*frame
	frameSize  int
	frameLimit int
	frames     int // allocated, including idle ones
	lastDue    int64
	lead       int64 // wake-up latency of the kernel, ns

	mu       sync.Mutex
	faults   Faults
	index    uint64
	flows    *flows
	control  counts
	lateness histogram
	realtime bool
}

// run forwards until stop is readable or a tap fails.
func (d *direction) run() error {
	granted := takeThread()
	d.mu.Lock()
	d.realtime = granted
	d.mu.Unlock()
	for !d.stopping.Load() {
		delivered := d.deliverDue()
		read, err := d.readOne()
		if err != nil {
			return err
		}
		if delivered || read {
			continue
		}
		if err := d.sleep(); err != nil {
			return err
		}
	}
	return nil
}

// maxLead limits how long the thread polls for the due time of a frame, ns.
const maxLead = 50_000

// sleep waits until a frame can be read or the earliest passage is nearly due. It wakes
// up early by the kernel's average wake-up latency; run polls for the rest of the time.
func (d *direction) sleep() error {
	if d.line.empty() {
		_, err := wait(d.in, d.stop, -1)
		return err
	}
	mono, _ := now()
	timeout := d.line.next() - d.lead - mono
	if timeout <= 0 {
		return nil
	}
	timedOut, err := wait(d.in, d.stop, timeout)
	if timedOut {
		woken, _ := now()
		d.lead += (min(woken-mono-timeout, maxLead) - d.lead) / 16
	}
	return err
}

// readOne reads a frame from the tap, if available, and decides whether it is lost, delayed or duplicated.
func (d *direction) readOne() (bool, error) {
	f := d.takeFrame()
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := unix.Read(d.in, f.buffer) // does not block
	if err != nil {
		d.idle = append(d.idle, f)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			return false, nil
		}
		return false, fmt.Errorf("read tap %s of %s: %w", d.from.Interface, d.from.Host, err)
	}
	f.size = n
	f.read, f.readWall = now()
	d.accept(f)
	d.release(f)
	return true, nil
}

// drain waits until the frames that were queued at the tap have been read.
func (d *direction) drain(ctx context.Context) error {
	last := d.frameCount() + maxQueued
	for d.frameCount() < last && d.isQueued() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("read what %s has sent: %w", d.from.Host, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// frameCount is how many frames have been read.
func (d *direction) frameCount() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.index + d.control.offered
}

// isQueued reports whether a frame waits at the tap.
func (d *direction) isQueued() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	fds := []unix.PollFd{{Fd: int32(d.in), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err != nil || n == 1 && fds[0].Revents&unix.POLLIN != 0
}

// accept applies the faults of the link to a frame and puts its copies on the line.
func (d *direction) accept(f *frame) {
	k, data := classify(f.buffer[:f.size])
	if !data {
		d.control.offered++
		d.control.inFlight++
		d.line.push(f.read+int64(d.faults.Delay), f)
		return
	}
	f.flow, f.marked = d.flows.find(k), k.marked
	f.flowIndex = f.flow.offer()
	f.index = d.index
	d.index++
	fate := d.dice.throw(&d.faults)
	switch {
	case fate.lost:
		d.lose(f, lostRandom)
		return
	case d.frames-len(d.idle) > d.frameLimit:
		d.lose(f, lostFull)
		return
	}
	left, ok := d.bottleneck.admit(f.read, int64(f.size), &d.faults)
	if !ok {
		d.lose(f, lostRate)
		return
	}
	due := left + int64(d.faults.Delay) + fate.jitter
	switch {
	case fate.heldBack:
		due += int64(d.faults.ReorderGap)
	case d.faults.KeepOrder:
		due = max(due, d.lastDue)
		d.lastDue = due
	}
	f.flow.inFlight++
	d.line.push(due, f)
	if fate.duplicated {
		d.line.push(due, f)
	}
}

func (d *direction) lose(f *frame, why reason) {
	f.lost = true
	f.flow.lost[why]++
	d.log.write(f, 0, Lost(why))
}

// deliverDue writes the earliest frame if it is due.
func (d *direction) deliverDue() bool {
	if d.line.empty() {
		return false
	}
	mono, wall := now()
	if d.line.next() > mono {
		return false
	}
	p := d.line.pop()
	f := p.frame
	if !f.lost {
		d.write(p, mono, wall)
	}
	d.release(f)
	return true
}

// write writes a copy of a frame to the far tap and counts it.
func (d *direction) write(p passage, mono, wall int64) {
	f := p.frame
	_, err := unix.Write(d.out, f.buffer[:f.size])
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lateness.add(mono - p.due)
	if f.flow == nil {
		d.control.inFlight--
		if err != nil {
			d.control.lost[lostError]++
			return
		}
		d.control.delivered++
		return
	}
	switch {
	case err != nil && !f.delivered:
		f.flow.inFlight--
		d.lose(f, lostError)
	case err != nil:
	case !f.delivered:
		f.delivered = true
		f.flow.deliver(f.flowIndex, mono-f.read)
		d.log.write(f, wall, Delivered)
	default:
		f.flow.duplicated++
		d.log.write(f, wall, Duplicate)
	}
}

func (d *direction) takeFrame() *frame {
	if last := len(d.idle) - 1; last >= 0 {
		f := d.idle[last]
		d.idle = d.idle[:last]
		return f
	}
	d.frames++
	return &frame{buffer: make([]byte, d.frameSize)}
}

// release reuses a frame once no copy of it is on the line.
func (d *direction) release(f *frame) {
	if f.copies > 0 {
		return
	}
	*f = frame{buffer: f.buffer}
	d.idle = append(d.idle, f)
}
