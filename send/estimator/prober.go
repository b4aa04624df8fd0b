// Package estimator measures the capacity and the available bandwidth of a path, and the
// links of its hops, by hand and without a server: it sends trains of packets at exact times
// (package send), learns when they arrived, and leaves the arithmetic to package estimate.
//
// Arrival times come from an interface of this host, from a receiver on another host
// (Serve), or, without a cooperating far end, from the replies to the packets.
package estimator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/estimate"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// Layer is what the bytes of a rate count.
type Layer string

// Layers.
const (
	IPPackets Layer = "ip"    // IP packets
	Frames    Layer = "frame" // Ethernet frames without their frame check sequence
	Wire      Layer = "wire"  // and the 24 bytes of preamble, check sequence and gap
)

const (
	ethernet = 14
	wireGap  = 24
)

// Bytes of a frame at the layer.
func (l Layer) Bytes(frame int) int {
	switch l {
	case IPPackets:
		return frame - ethernet
	case Wire:
		return frame + wireGap
	}
	return frame
}

// String describes the layer.
func (l Layer) String() string {
	switch l {
	case IPPackets:
		return "IP packets"
	case Wire:
		return "Ethernet frames with preamble, check sequence and gap"
	}
	return "Ethernet frames without their check sequence"
}

// Path says how packets are sent and where they are received.
type Path struct {
	Device    string
	Namespace *os.File // nil: the caller's
	Header    *frame.Header
	Layer     Layer
	Mechanism string // empty: the best that works
	// Wait for packets after the last one that arrived.
	Wait time.Duration
	Far  Far
}

// Prober sends rounds of trains and returns when their packets left and arrived.
type Prober struct {
	path   Path
	sender dispatch.Sender
	far    receiver
	next   uint32 // number of the next train
	// sent and arrived packets.
	sent, arrived uint64
	// Unsent counts trains of which a packet could not be sent; they are not returned.
	Unsent int
}

// Open resolves the destination and opens sender and receiver.
func Open(ctx context.Context, path Path) (*Prober, error) {
	resolve := func() error { return send.Address(path.Header, path.Device) }
	var err error
	if path.Namespace != nil {
		err = netns.DoIn(path.Namespace, resolve)
	} else {
		err = resolve()
	}
	if err != nil {
		return nil, err
	}
	p := &Prober{path: path}
	p.sender, err = dispatch.Open(dispatch.Options{Device: path.Device, Namespace: path.Namespace, Mechanism: path.Mechanism})
	if err != nil {
		return nil, err
	}
	if p.far, err = path.open(ctx); err != nil {
		return nil, errors.Join(err, p.sender.Close())
	}
	return p, nil
}

// Close ends sending and receiving.
func (p *Prober) Close() error { return errors.Join(p.far.Close(), p.sender.Close()) }

// Round sends trains of packets each and returns those that were sent entirely, with the
// arrivals of their packets. The trains of the schedule are numbered from 0.
func (p *Prober) Round(ctx context.Context, s schedule.Schedule, trains, packets int) ([]estimate.Train, error) {
	first := p.next
	p.next += uint32(trains)
	if err := p.far.begin(first, trains, packets); err != nil {
		return nil, err
	}
	numbered := func(yield func(schedule.Entry, error) bool) {
		for e, err := range s {
			e.Train += first
			if !yield(e, err) {
				return
			}
		}
	}
	records := make([]dispatch.Record, trains*packets)
	sent := 0
	job := send.Job{Schedule: schedule.Until(ctx, numbered), Headers: map[string]*frame.Header{"": p.path.Header}, Prepare: p.far.prepare()}
	err := send.Run(ctx, p.sender, job, func(r dispatch.Record) {
		records[int(r.Train-first)*packets+int(r.Number)] = r
		if r.Fate == dispatch.Sent {
			sent++
		}
	})
	if err != nil {
		return nil, err
	}
	p.sent += uint64(sent)
	if sent == 0 {
		return nil, fmt.Errorf("%w: %w", errUnsent, records[0].Error)
	}
	arrivals, err := p.await(ctx, trains*packets, sent)
	if err != nil {
		return nil, err
	}
	for _, at := range arrivals {
		if at != 0 {
			p.arrived++
		}
	}
	return p.join(records, arrivals, packets), nil
}

// heard returns an error if no packet has arrived so far.
func (p *Prober) heard() error {
	if p.arrived > 0 {
		return nil
	}
	return fmt.Errorf("%w: %d packets were sent, arrivals expected from %s", errUnheard, p.sent, p.path.Far)
}

// errUnheard is an estimate without a single arrival.
var errUnheard = errors.New("no packet arrived")

// errUnsent is a round of which no packet could be sent.
var errUnsent = errors.New("no packet was sent")

// join makes trains of departures and arrivals.
func (p *Prober) join(records []dispatch.Record, arrivals []int64, packets int) (trains []estimate.Train) {
	for first := 0; first < len(records); first += packets {
		train := make(estimate.Train, 0, packets)
		for i, r := range records[first : first+packets] {
			if r.Fate != dispatch.Sent {
				break
			}
			at := arrivals[first+i]
			train = append(train, estimate.Packet{SentNS: r.Departure(), ReceivedNS: at, Size: p.path.Layer.Bytes(r.Bytes), Lost: at == 0})
		}
		if len(train) < packets {
			p.Unsent++
			continue
		}
		trains = append(trains, train)
	}
	return trains
}

// poll is how often arrivals are counted.
const poll = 5 * time.Millisecond

// await waits until as many packets have arrived as were sent, or none has for a while.
func (p *Prober) await(ctx context.Context, packets, sent int) ([]int64, error) {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for last, since := 0, time.Now(); ; {
		arrived, err := p.far.arrived(packets)
		if err != nil {
			return nil, err
		}
		if arrived > last {
			last, since = arrived, time.Now()
		}
		if arrived >= sent || time.Since(since) > p.path.Wait {
			return p.far.arrivals(packets)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}
