package router

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"
)

// ErrNoRecords is returned where Options.Records was not set.
var ErrNoRecords = errors.New("records were not asked for")

// recordPoll bounds how long a record waits for its reader, and the reader for the end.
const recordPoll = 100 * time.Millisecond

// Records calls f for each forwarded packet, in the order in which drivers got them on
// one processor. When the context ends it returns once it has read the pending ones, but
// soon; or it returns with f's error.
func (r *Router) Records(ctx context.Context, f func(Record) error) error {
	if r.records == nil {
		return fmt.Errorf("read records: %w", ErrNoRecords)
	}
	var raw ringbuf.Record
	var end time.Time
	for {
		deadline := time.Now().Add(recordPoll)
		if ctx.Err() != nil {
			if end.IsZero() {
				end = deadline
			}
			deadline = end
		}
		r.records.SetDeadline(deadline)
		err := r.records.ReadInto(&raw)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if !end.IsZero() {
				return nil
			}
			continue
		}
		if errors.Is(err, ringbuf.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read records: %w", err)
		}
		record, err := decodeRecord(raw.RawSample)
		if err == nil {
			err = f(record)
		}
		if err != nil {
			return fmt.Errorf("read records: %w", err)
		}
	}
}

func decodeRecord(sample []byte) (Record, error) {
	var raw routerRecord
	if len(sample) < int(unsafe.Sizeof(raw)) {
		return Record{}, fmt.Errorf("%d bytes, not %d", len(sample), unsafe.Sizeof(raw))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&raw)), unsafe.Sizeof(raw)), sample)
	ports := (*[4]byte)(unsafe.Pointer(&raw.Tuple.Ports))
	return Record{
		T1: raw.T1, T2: raw.T2, T3: raw.T3, T4: raw.T4, In: int(raw.In), Out: int(raw.Out),
		Source:      addressPort(raw.Tuple.Family, &raw.Tuple.Src, ports[0:2]),
		Destination: addressPort(raw.Tuple.Family, &raw.Tuple.Dst, ports[2:4]),
		Protocol:    raw.Tuple.Protocol, Length: raw.Length,
		Merged: raw.Merged, Segments: raw.Segments, LastT1: raw.LastT1,
		Sent: raw.Tagged != 0, Train: network(raw.Train), Number: network(raw.Number),
	}, nil
}

// network reads a word in network byte order.
func network(word uint32) uint32 {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], word)
	return binary.BigEndian.Uint32(b[:])
}

func addressPort(family uint8, words *[4]uint32, port []byte) netip.AddrPort {
	bytes := *(*[16]byte)(unsafe.Pointer(words))
	address := netip.AddrFrom16(bytes)
	if family == 4 {
		address = netip.AddrFrom4([4]byte(bytes[:4]))
	}
	return netip.AddrPortFrom(address, uint16(port[0])<<8|uint16(port[1]))
}

// Lost counts the records dropped because the buffer was full.
func (r *Router) Lost() uint64 {
	sum, err := r.tally()
	if err != nil {
		return 0
	}
	return sum.RecordsLost
}
