package router

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"
)

// DefaultBreak is the least length of a coffee break.
const DefaultBreak = 100 * time.Microsecond

// CauseNotRecorded is the cause of breaks while causes are not recorded.
const CauseNotRecorded = "not_recorded"

// causeNames as in break.h.
var causeNames = []string{"unknown", "scheduled", "softirq", "irq", CauseNotRecorded}

// Break is a coffee break (seed 3): packets wait in an input queue, nothing waits in an
// output queue, and no packet begins or ends its processing.
//
// It is detected when it is over, by the next packet whose processing begins: the break
// lasted since that packet arrived, since the processor last began or ended one, or since
// a packet last waited at an output, whichever was latest. What that does not prove:
//
//   - It is a break of one processor, the one on which processing began. Others may have
//     been busy throughout, and the packet may have waited elsewhere before (RPS, a NAPI
//     thread that migrated).
//   - Outputs are checked on all processors, once, when the break is over, and as of the
//     departure of the last packet that had waited for more than 20 us. Packets that pass
//     an output faster do not count as waiting, nor do those that others have overtaken
//     for a second: they are taken for lost. Where several processors keep an output from
//     ever being empty, breaks may be missed.
//   - Only packets that the profile follows count. With a filter or sampling, or with
//     traffic in other namespaces, a break may be work on packets that do not match.
//   - If another packet than the first one waiting begins first, the break was longer than
//     reported.
//   - A break is not reported if no packet begins after it, and packets that wait before
//     t1 (in the ring of a network card) are not seen.
//   - The cause is what the processor is known to have done for more than half of the
//     time, no proof that the packet waited for it. A hypervisor that takes the
//     processor away shows as the process that was running, or as unknown; so does the
//     network softirq where it works on packets that are not followed.
type Break struct {
	Start  time.Time `json:"start"` // CLOCK_REALTIME, of the same host
	MonoNs uint64    `json:"mono_ns"`
	LastNs uint64    `json:"length_ns"`
	CPU    int       `json:"cpu"`
	Depth  uint64    `json:"depth"`   // packets that wait at its end, at all inputs
	Since  uint64    `json:"packets"` // that began on the processor since its last one
	// What the processor did meanwhile, according to tracepoints; see RecordCauses.
	SoftirqNs uint64 `json:"softirq_ns"` // softirqs other than the network's
	IRQNs     uint64 `json:"irq_ns"`
	TaskNs    uint64 `json:"task_ns"`   // a process ran
	Task      string `json:"task"`      // name of the one that ran longest
	Cause     string `json:"cause"`     // softirq, irq, scheduled, unknown, not_recorded
	Truncated bool   `json:"truncated"` // the processor did more than was remembered
}

// Breaks adds up coffee breaks.
type Breaks struct {
	Count   uint64            `json:"count"`
	TotalNs uint64            `json:"total_ns"`
	LongNs  uint64            `json:"longest_ns"`
	Unsent  uint64            `json:"unsent"` // not reported singly: the buffer was full
	Causes  map[string]uint64 `json:"causes"`
	Lengths Distribution      `json:"lengths"`
	Between []uint64          `json:"-"` // packets between two: 0 to 4095, the last is all above
}

// Sub is what was counted between before and b. The longest is as exact as its bucket is
// wide.
func (b Breaks) Sub(before Breaks) Breaks {
	b.Lengths = b.Lengths.Sub(&before.Lengths)
	b.Unsent -= before.Unsent
	b.Causes = subCounts(b.Causes, before.Causes)
	b.Between = subtract(b.Between, before.Between)
	b.total()
	return b
}

func (b *Breaks) total() {
	b.Count, b.TotalNs, b.LongNs = b.Lengths.Count, b.Lengths.SumNs, b.Lengths.MaxNs
}

func (r *Router) readBreaks() (Breaks, error) {
	b := Breaks{Causes: map[string]uint64{}}
	for shard := range uint32(r.shards) {
		raw := new(routerPauseSum)
		// As bytes: the kernel writes right into it, nothing is decoded.
		buffer := unsafe.Slice((*byte)(unsafe.Pointer(raw)), unsafe.Sizeof(*raw))
		if err := r.collection.Maps[routerMapBreakSums].Lookup(&shard, buffer); err != nil {
			return b, err
		}
		b.Unsent += raw.Unsent
		b.Between = add(b.Between, raw.Between[:])
		b.Lengths.read(raw.Extremes, &raw.Lengths)
		for i, n := range raw.Causes {
			if n > 0 {
				b.Causes[causeNames[i]] += n
			}
		}
	}
	b.total()
	return b, nil
}

// Breaks calls f for each coffee break from now on, and for as many before as there was
// room for. It returns when the context ends, or with f's error.
func (r *Router) Breaks(ctx context.Context, f func(Break) error) error {
	var raw ringbuf.Record
	for {
		r.breaks.SetDeadline(time.Now().Add(recordPoll))
		err := r.breaks.ReadInto(&raw)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if ctx.Err() != nil {
				return nil
			}
			continue
		}
		if errors.Is(err, ringbuf.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read breaks: %w", err)
		}
		b, err := decodeBreak(raw.RawSample)
		if err == nil {
			err = f(b)
		}
		if err != nil {
			return fmt.Errorf("read breaks: %w", err)
		}
	}
}

func decodeBreak(sample []byte) (Break, error) {
	var raw routerPause
	if len(sample) < int(unsafe.Sizeof(raw)) {
		return Break{}, fmt.Errorf("%d bytes, not %d", len(sample), unsafe.Sizeof(raw))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&raw)), unsafe.Sizeof(raw)), sample)
	now, err := monotonic()
	if err != nil {
		return Break{}, err
	}
	task := make([]byte, 0, len(raw.Task))
	for _, c := range raw.Task {
		task = append(task, byte(c))
	}
	name, _, _ := strings.Cut(string(task), "\x00")
	return Break{
		Start:  time.Now().Round(0).Add(-time.Duration(now - raw.Start)),
		MonoNs: raw.Start, LastNs: raw.Length, CPU: int(raw.Cpu), Depth: raw.Depth, Since: raw.Since,
		TaskNs: raw.Kinds[1], SoftirqNs: raw.Kinds[2], IRQNs: raw.Kinds[3], Task: name,
		Cause: causeNames[raw.Cause%uint32(len(causeNames))], Truncated: raw.Truncated != 0,
	}, nil
}
