package destination

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
)

// recordSize is the size of struct record in record.h.
const recordSize = 32 + flow.RawSize

// ErrNoRecords marks a destination that was opened without records.
var ErrNoRecords = errors.New("records were not asked for")

// Record is one marked packet, or one buffer that the device merged out of
// several packets of a burst.
type Record struct {
	Received time.Time
	// Delay is how long the packet was on the way; it may be negative where the
	// clocks disagree. Zero without the delay module.
	Delay time.Duration
	// Sequence is the packet's number, or the first of its burst; Single says
	// which. Zero without the loss module.
	Sequence uint32
	Single   bool
	// Bytes is the length of the restored IP packet.
	Bytes    uint32
	Packets  uint16
	Modules  wire.Module
	Encoding wire.Encoding
	Key      flow.Key
}

// ReadRecords waits until there is a record or the time has come, and takes up to
// len(to) of them. It returns how many; none at the deadline.
func (d *Destination) ReadRecords(to []Record, deadline time.Time) (int, error) {
	if d.records == nil {
		return 0, fmt.Errorf("read records: %w", ErrNoRecords)
	}
	var raw ringbuf.Record
	d.records.SetDeadline(deadline)
	for i := range to {
		err := d.records.ReadInto(&raw)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ringbuf.ErrFlushed) {
			return i, nil
		}
		if err != nil {
			return i, fmt.Errorf("read records: %w", err)
		}
		if to[i], err = parseRecord(raw.RawSample); err != nil {
			return i, err
		}
		if i == 0 {
			d.records.SetDeadline(time.Unix(0, 1)) // the rest without waiting
		}
	}
	return len(to), nil
}

func parseRecord(b []byte) (Record, error) {
	if len(b) < recordSize {
		return Record{}, fmt.Errorf("read record: %d bytes, want %d", len(b), recordSize)
	}
	order := binary.NativeEndian
	sequence := order.Uint32(b[16:])
	return Record{
		Received: time.Unix(0, int64(order.Uint64(b))).UTC(),
		Delay:    time.Duration(order.Uint64(b[8:])),
		Sequence: sequence & wire.SequenceMask,
		Single:   sequence&wire.SingleBit != 0,
		Bytes:    order.Uint32(b[20:]),
		Packets:  order.Uint16(b[24:]),
		Modules:  wire.Module(b[26]),
		Encoding: wire.Encoding(b[27]),
		Key:      flow.ParseRaw(b[32:]).Marked(),
	}, nil
}
