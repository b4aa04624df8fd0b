package emulator

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"time"

	"pillion.dev/internal/store"
)

// Truth is what an emulator did to the packets of its link: the reference for what
// Pillion measures on the same packets.
//
// It does not cover what happens before a frame is read or after it is written: see
// Direction.Unread.
type Truth struct {
	Lab        string      `json:"lab"`
	Link       string      `json:"link"`
	Seed       uint64      `json:"seed"`
	Written    time.Time   `json:"written"`
	Final      bool        `json:"final"` // the emulator has ended
	Directions []Direction `json:"directions"`
}

// Direction has the counters of one direction. Total and Marked are sums over the
// flows.
type Direction struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Faults Faults `json:"faults"` // in force when the truth was written
	Total  Tally  `json:"total"`
	Marked Tally  `json:"marked"`
	Flows  []Flow `json:"flows"`
	// Control counts frames that are only delayed: ARP, neighbour discovery, multicast
	// listener reports, anything but IP.
	Control Control `json:"control"`
	// Unread counts frames, including control frames, that the kernel dropped because the
	// emulator did not read fast enough. They are not in Offered: with Unread > 0 the
	// truth does not explain every loss.
	Unread uint64 `json:"unread"`
	// Late is how long after their due time frames were written: the emulator's error,
	// which the delays include.
	Late Times `json:"late_ns"`
	// Realtime reports whether the thread had real-time priority.
	Realtime bool `json:"realtime"`
}

// Flow has the counters of packets with the same header fields. Marked and unmarked
// packets with the same fields are two flows.
type Flow struct {
	ID              uint32     `json:"id"`
	Source          netip.Addr `json:"src"`
	Destination     netip.Addr `json:"dst"`
	Protocol        uint8      `json:"proto"`
	SourcePort      uint16     `json:"sport"`
	DestinationPort uint16     `json:"dport"`
	Marked          bool       `json:"marked"`
	// Other is the sum of all flows beyond the first 16384; its fields are empty.
	Other bool `json:"other,omitempty"`
	Tally
}

// Tally counts packets: Offered = Delivered + Lost + InFlight, always.
type Tally struct {
	Offered    uint64 `json:"offered"`
	Delivered  uint64 `json:"delivered"`   // packets of which a copy was written
	Lost       uint64 `json:"lost"`        // all reasons (RFC 7680)
	LostRandom uint64 `json:"lost_random"` // loss
	LostRate   uint64 `json:"lost_rate"`   // the queue of the rate was full
	LostFull   uint64 `json:"lost_full"`   // 256 MiB under way
	LostError  uint64 `json:"lost_error"`  // the far interface was down
	Duplicated uint64 `json:"duplicated"`  // copies beyond the first (RFC 5560)
	Reordered  uint64 `json:"reordered"`   // first copies after a later packet of the flow (RFC 4737)
	InFlight   uint64 `json:"in_flight"`
	Delay      Times  `json:"delay_ns"` // from read to write of the first copy (RFC 7679)
}

// Control is the account of control frames.
type Control struct {
	Offered   uint64 `json:"offered"`
	Delivered uint64 `json:"delivered"`
	Lost      uint64 `json:"lost"` // the far interface was down, as it is while the lab is being built
	InFlight  uint64 `json:"in_flight"`
}

// Times describes a distribution in ns. Count, Min, Max and Mean are exact;
// quantiles are by nearest rank and exact to 0.05 %.
type Times struct {
	Count uint64  `json:"count"`
	Min   int64   `json:"min"`
	Mean  float64 `json:"mean"`
	P50   int64   `json:"p50"`
	P90   int64   `json:"p90"`
	P99   int64   `json:"p99"`
	Max   int64   `json:"max"`
}

func (h *histogram) times() Times {
	t := Times{Count: h.count, Min: h.min, Max: h.max}
	if h.count > 0 {
		t.Mean = float64(h.sum) / float64(h.count)
		t.P50, t.P90, t.P99 = h.quantile(0.5), h.quantile(0.9), h.quantile(0.99)
	}
	return t
}

func (c *counts) tally(delay *histogram) Tally {
	t := Tally{
		Offered: c.offered, Delivered: c.delivered, InFlight: c.inFlight,
		LostRandom: c.lost[lostRandom], LostRate: c.lost[lostRate],
		LostFull: c.lost[lostFull], LostError: c.lost[lostError],
		Duplicated: c.duplicated, Reordered: c.reordered, Delay: delay.times(),
	}
	t.Lost = t.LostRandom + t.LostRate + t.LostFull + t.LostError
	return t
}

func (c *counts) add(other *counts) {
	c.offered += other.offered
	c.delivered += other.delivered
	c.inFlight += other.inFlight
	c.duplicated += other.duplicated
	c.reordered += other.reordered
	for why := range c.lost {
		c.lost[why] += other.lost[why]
	}
}

func (k *key) flow() Flow {
	f := Flow{
		Protocol: k.protocol, Marked: k.marked, SourcePort: k.sourcePort, DestinationPort: k.destinationPort,
		Source: netip.AddrFrom16(k.source), Destination: netip.AddrFrom16(k.destination),
	}
	if !k.ipv6 {
		f.Source = netip.AddrFrom4([4]byte(k.source[:4]))
		f.Destination = netip.AddrFrom4([4]byte(k.destination[:4]))
	}
	return f
}

// ReadTruth reads a truth file.
func ReadTruth(path string) (*Truth, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read truth: %w", err)
	}
	truth := new(Truth)
	if err := json.Unmarshal(text, truth); err != nil {
		return nil, fmt.Errorf("read truth %s: %w", path, err)
	}
	return truth, nil
}

// write replaces the file atomically.
func (t *Truth) write(path string) error {
	if err := store.Save(path, t, 0o644); err != nil {
		return fmt.Errorf("write truth: %w", err)
	}
	return nil
}
