package dispatch

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pillion.dev/send/frame"
)

const (
	slotCount  = 131072 // SLOTS of ring.h
	slotMask   = slotCount - 1
	frameBytes = 2032
	// frameCount is the number of different templates that are in the ring at a time.
	frameCount = 4096
)

// ring is the memory that is shared with the programs: slots, frames and outcomes.
type ring struct {
	slots    []dispatchSlot
	outcomes []dispatchOutcome
	frames   []dispatchFrame
	control  *dispatchControl
	mapped   [][]byte

	// Templates in the ring, each with the number of the last slot that uses it.
	index map[*frame.Template]uint32
	owner [frameCount]*frame.Template
	used  [frameCount]uint64
	hand  uint32 // where to look for a frame that is free
}

// errFull is a ring without room for the packet.
var errFull = errors.New("ring is full")

func openRing(o *dispatchMaps) (*ring, error) {
	r := &ring{index: map[*frame.Template]uint32{}}
	var err error
	if r.slots, err = mapped[dispatchSlot](r, o.Slots); err != nil {
		return nil, errors.Join(err, r.close())
	}
	if r.outcomes, err = mapped[dispatchOutcome](r, o.Outcomes); err != nil {
		return nil, errors.Join(err, r.close())
	}
	if r.frames, err = mapped[dispatchFrame](r, o.Frames); err != nil {
		return nil, errors.Join(err, r.close())
	}
	controls, err := mapped[dispatchControl](r, o.Controls)
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.control = &controls[0]
	return r, nil
}

// mapped maps the values of an array map into memory.
func mapped[T any](r *ring, m *ebpf.Map) ([]T, error) {
	var value T
	size := int(m.MaxEntries()) * int(unsafe.Sizeof(value))
	b, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map ring of %d bytes: %w", size, err)
	}
	r.mapped = append(r.mapped, b)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), m.MaxEntries()), nil
}

func (r *ring) close() error {
	var failures []error
	for _, b := range r.mapped {
		failures = append(failures, unix.Munmap(b))
	}
	r.mapped = nil
	return errors.Join(failures...)
}

func (r *ring) filled() uint64 { return atomic.LoadUint64(&r.control.Filled) }
func (r *ring) next() uint64   { return atomic.LoadUint64(&r.control.Next) }
func (r *ring) cancel()        { atomic.StoreUint64(&r.control.Cancelled, 1) }

// put hands the packet over. Everything before reaped is free.
func (r *ring) put(p *Packet, reaped uint64) error {
	at := r.control.Filled
	if at-reaped >= slotCount {
		return errFull
	}
	template, err := r.template(p.Frame.Template, at, reaped)
	if err != nil {
		return err
	}
	protocol := p.Frame.Protocol()
	s := &r.slots[at&slotMask]
	*s = dispatchSlot{
		Due: uint64(max(p.Due, 0)), Frame: template, Length: uint16(p.Frame.Len()),
		Protocol: uint16(protocol[0]) | uint16(protocol[1])<<8,
		PatchAt:  uint16(p.Frame.PatchAt), Patch: p.Frame.Patch,
	}
	if p.Frame.PatchAt > 0 {
		s.PatchSize = frame.PatchBytes
	}
	if p.Together {
		s.Together = 1
	}
	r.outcomes[at&slotMask] = dispatchOutcome{}
	atomic.StoreUint64(&r.control.Filled, at+1)
	return nil
}

// template finds the frame of the template, or copies the template into a free one.
func (r *ring) template(t *frame.Template, at, reaped uint64) (uint32, error) {
	if i, ok := r.index[t]; ok {
		r.used[i] = at
		return i, nil
	}
	if len(t.Bytes) > frameBytes || len(t.Bytes) > math.MaxUint16 {
		return 0, fmt.Errorf("frame of %d bytes: the limit is %d", len(t.Bytes), frameBytes)
	}
	for range frameCount {
		i := r.hand
		r.hand = (r.hand + 1) % frameCount
		if r.owner[i] != nil && r.used[i] >= reaped {
			continue
		}
		delete(r.index, r.owner[i])
		copy(r.frames[i].Bytes[:], t.Bytes)
		r.owner[i], r.used[i], r.index[t] = t, at, i
		return i, nil
	}
	return 0, errFull
}
