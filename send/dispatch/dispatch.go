// Package dispatch hands packets to a network device at exact times and reports what
// became of each (seed 5).
//
// Two modes exist. Pre-dispatch hands packets over before their time, all of them
// (initial) or each a fixed period ahead (on the fly), to a mechanism that waits in the
// kernel. Sequential sending prepares a packet, waits and sends, as ordinary programs do;
// it is the baseline. A mechanism is named in every result, and what it promises is tested
// on the device before it is chosen.
//
// Times are of CLOCK_MONOTONIC: a step of the real-time clock moves no packet. The package
// knows neither schedules nor protocols: frames come complete, link-layer header and
// checksums included.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"
	"sync"
	"time"

	"pillion.dev/send/frame"
)

// Packet is one packet of a schedule.
type Packet struct {
	// Due is the intended departure, since the start of the schedule. The packets of a
	// schedule are in the order of their due times.
	Due time.Duration
	// Train and Number name the packet in reports.
	Train, Number uint32
	// Frame is the packet itself.
	Frame frame.Frame
	// Invalid, if not nil, is why the packet cannot be built: it fails.
	Invalid error
	// Together asks for the least distance to the next packet: both are prepared
	// before the first of them is sent, where the mechanism can.
	Together bool
}

// Bytes is the length of the frame; 0 of an invalid packet.
func (p *Packet) Bytes() int {
	if p.Invalid != nil {
		return 0
	}
	return p.Frame.Len()
}

// Fate is what became of a packet.
type Fate uint8

// Fates. Every packet of a schedule has exactly one.
const (
	Cancelled Fate = iota // the schedule ended before its turn
	Sent
	DroppedLate // not sent: later than the bound
	Failed      // refused: Error says why
)

var fates = [...]string{Cancelled: "cancelled", Sent: "sent", DroppedLate: "late-dropped", Failed: "failed"}

// String is the name of the fate in reports.
func (f Fate) String() string { return fates[f] }

// Record is what became of one packet. Times are of CLOCK_MONOTONIC in nanoseconds.
type Record struct {
	Train, Number uint32
	Bytes         int
	// Intended is the time asked for.
	Intended int64
	// Handed is read directly before the packet is handed to the device; 0 unless sent.
	Handed int64
	// Driver is the time at which the device's driver got the packet; 0 if unknown. Source
	// says who noted it.
	Driver int64
	Source Source
	// Hardware is the time at which the device sent the packet, by its own clock, converted;
	// 0 if unknown.
	Hardware int64
	Fate     Fate
	Error    error // of Failed
}

// Source is where a time comes from.
type Source uint8

// Sources.
const (
	Unknown  Source = iota
	Handover        // the sender's clock, directly before it handed the packet over
	Observer        // a program on the tracepoint net_dev_start_xmit
	Software        // a transmit time stamp of the driver (SO_TIMESTAMPING)
	Hardware        // a transmit time stamp of the device
)

var sources = [...]string{Handover: "handover", Observer: "observer", Software: "software", Hardware: "hardware"}

// String is the name of the source in reports; empty if it is unknown.
func (s Source) String() string { return sources[s] }

// Departure is the best known departure: the driver's time, or else when the packet
// was handed over.
func (r Record) Departure() int64 {
	if r.Driver != 0 {
		return r.Driver
	}
	return r.Handed
}

// Options of a sender.
type Options struct {
	// Device is the name of the interface; Namespace its network namespace, nil for
	// the caller's.
	Device    string
	Namespace *os.File
	// Mechanism forces a mechanism by name; empty chooses the first that works, or of
	// those for sequential sending if Sequential is set.
	Mechanism  string
	Sequential bool
	// Lead is the pre-dispatch period: packets are handed over that long before they
	// are due. 0: as early as there is room (initial pre-dispatch).
	Lead time.Duration
	// DropLate drops packets that would leave later than this behind their due time;
	// 0 sends them, however late.
	DropLate time.Duration
	// NoDriver leaves the driver's times out, which saves a hook on the device's path.
	NoDriver bool
}

// Sender sends by one mechanism on one device.
type Sender interface {
	// Name of the mechanism.
	Name() string
	// Remarks says what limits the accuracy here, if anything does.
	Remarks() []string
	// Send sends the packets and reports each, in order except for invalid ones, which are
	// reported at once. The start is delay after everything is ready to send; initial
	// pre-dispatch hands over first what there is room for. Send returns when all packets
	// are reported. A cancelled context ends it early: packets taken from the schedule
	// already are reported as cancelled.
	Send(ctx context.Context, delay time.Duration, packets iter.Seq2[Packet, error], report func(Record)) error
	// Uncertainty bounds, for each source of times in the records so far, the difference between a time and
	// the reading of CLOCK_MONOTONIC at its event: how long reading and converting clocks takes.
	Uncertainty() map[Source]time.Duration
	// Close frees what the sender holds.
	Close() error
}

// Mechanism is one way to send.
type Mechanism struct {
	Name string
	// Summary is a line for help texts.
	Summary string
	// Predispatch reports whether packets wait for their time in the kernel.
	Predispatch bool
	// Datagrams reports whether it sends only what an ordinary UDP socket can send.
	Datagrams bool
	open      func(Options) (Sender, error)
}

// coarse is the remark of UDP sockets.
const coarse = "coarse: a UDP socket, whose link-layer and IP headers the kernel builds when it sends"

// Mechanisms in the order of preference, best first.
var Mechanisms = []Mechanism{
	{"bpf", "BPF program that waits in the kernel, run once per train", true, false, openKernel},
	{"txtime", "packet socket with launch times (SO_TXTIME), where the queueing discipline is fq or etf", true, false, openLauncher},
	{"xdp", "AF_XDP socket in copy mode, busy wait at real-time priority", false, false, sequentially("xdp", true, openXDP, bypass)},
	{"packet-spin", "packet socket, busy wait at real-time priority", false, false, sequentially("packet-spin", true, openPacketSocket)},
	{"packet-sleep", "packet socket, clock_nanosleep at ordinary priority (the baseline of the literature)", false, false, sequentially("packet-sleep", false, openPacketSocket)},
	{"udp-spin", "UDP socket, busy wait at real-time priority; coarse", false, true, sequentially("udp-spin", true, openUDP, coarse)},
	{"udp-sleep", "UDP socket, clock_nanosleep at ordinary priority; coarse", false, true, sequentially("udp-sleep", false, openUDP, coarse)},
}

// ErrMechanism marks a mechanism that does not work or does not exist.
var ErrMechanism = errors.New("mechanism unavailable")

// spare processors of the Go scheduler: a real-time thread that returns from the kernel
// must not wait for an ordinary thread that holds one and does not run.
const spare = 4

var addSpare = sync.OnceFunc(func() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spare) })

// Open opens the mechanism that options name, or the best that works on the device.
func Open(options Options) (Sender, error) {
	addSpare()
	var failures []error
	for _, m := range Mechanisms {
		switch {
		case options.Mechanism != "" && m.Name != options.Mechanism:
			continue
		case options.Mechanism == "" && options.Sequential && m.Name != "packet-sleep":
			continue
		}
		sender, err := m.open(options)
		if err == nil {
			return sender, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", m.Name, err))
	}
	if len(failures) == 0 {
		return nil, fmt.Errorf("%w: no mechanism %q", ErrMechanism, options.Mechanism)
	}
	return nil, fmt.Errorf("%w: %w", ErrMechanism, errors.Join(failures...))
}
