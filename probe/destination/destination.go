// Package destination reads the marks in packets that arrive at a device, keeps
// per flow what they say (one-way delay, its variation, loss, duplication,
// reordering) in the kernel, and removes the marks, so that no later reader
// sees that there were any.
//
// A BPF program at TC ingress, or native XDP, does the work; this package loads
// it and turns its maps into rows. The program stays on the device when the
// process is killed, so that marked packets are still restored; the next Open
// takes its place.
package destination

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"pillion.dev/internal/clock"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
)

// Defaults.
const (
	DefaultFlows       = 16384
	DefaultIdle        = 2 * time.Minute // longer than a source keeps a flow
	DefaultRecordBytes = 4 << 20
)

// pagesPerFlow is how many pages a flow may have outside of it in an interval, on average
// over a full table. Most flows have none.
const pagesPerFlow = 4

// maxSlots is the largest table of slots (run.h), of 64 bytes each. Flows that find no
// slot only cost more time.
const maxSlots = 4096

// ErrRecords marks an invalid ring buffer size.
var ErrRecords = errors.New("bad record buffer size")

// Settings say what to read. They hold for the life of a Destination.
type Settings struct {
	// XDP reads frames before there are socket buffers; the device's driver
	// must know native XDP. Otherwise TC ingress is used.
	XDP bool
	// Peers are the hosts whose marks count; without a valid prefix all hosts are, and
	// Accept cannot change that.
	Peers Peers
	// FlowsPerPeer is how many flows of one peer are in the table at most; 0 means as many
	// as there is room for. Marks of more are counted, but in no flow.
	FlowsPerPeer int
	// StartEmpty reads no mark until Accept.
	StartEmpty bool
	// Port is the destination port of the udp encoding; 0 means wire.Port.
	Port uint16
	// Flow are the fields that tell flows apart; they must be those of the
	// source. 0 means flow.All.
	Flow flow.Fields
	// Flows is the size of the flow table; 0 means DefaultFlows.
	Flows int
	// Idle is how long a flow stays in the table without a packet; 0 means
	// DefaultIdle.
	Idle time.Duration
	// Records asks for one record a packet.
	Records bool
	// RecordBytes is the size of their ring buffer, a power of two; 0 means
	// DefaultRecordBytes.
	RecordBytes int
	// Amend leaves marks in and writes the time of arrival into them.
	Amend bool
	// Strip says when a mark in an option of the transport is cut off.
	Strip Strip
	// Clsact uses the older hook although the kernel has tcx.
	Clsact bool

	slots int // a power of two; 0 means as many as flows, up to maxSlots
}

// Strip says when a mark in an option of the transport is cut off. A socket never sees
// it there.
type Strip uint32

// The choices, as in udp_option.h. XDP takes StripForwarded for StripNever: a frame does
// not say whether its checksum is complete.
const (
	StripForwarded Strip = iota // where this host forwards the packet
	StripAlways
	StripNever
)

// Destination is a program that reads marks on one device.
type Destination struct {
	settings   Settings
	device     hook.Device
	objects    destinationObjects
	carried    *ebpf.Map // variables that a program which replaces this one shares with it
	attachment *hook.Attachment
	records    *ringbuf.Reader
	pass       uint32 // grows, also from one program to the next on the same flows
	peers      Peers
	positions  map[netip.Prefix]uint32 // of peers in the tables of peer.h
	rules      filterRules             // of peers in the table of rules
	peersState uint32                  // grows likewise
	flows      map[flow.Raw]*state
	total      change
	expired    uint64
	evicted    uint64
}

// Open attaches to the device; marks are read from then on.
func Open(device hook.Device, settings Settings) (*Destination, error) {
	settings.Flows = cmp.Or(settings.Flows, DefaultFlows)
	d := &Destination{settings: settings, device: device, flows: map[flow.Raw]*state{}}
	return d.open(nil)
}

// Replace opens a program with other settings that replaces this one. It takes over
// the flows and all counts: no packet is missed or counted twice, and flows continue.
// After that the old program may only be read for records and closed.
func (d *Destination) Replace(settings Settings) (*Destination, error) {
	settings.Flows, settings.slots = d.settings.Flows, d.settings.slots // the tables stay as they are
	next := *d
	next.settings, next.objects, next.carried, next.attachment, next.records = settings, destinationObjects{}, nil, nil, nil
	return next.open(map[string]*ebpf.Map{
		destinationMapFlows: d.objects.Flows, destinationMapPages: d.objects.Pages,
		destinationMapSlots: d.objects.Slots, destinationMapTallies: d.objects.Tallies, destinationMapPeers: d.objects.Peers,
		destinationMapPositions: d.objects.Positions, destinationMapPeerFlows: d.objects.PeerFlows,
		carriedSection: d.carried,
	})
}

// carriedSection has the variables that grow from one program to the next (PER_PACKET).
const carriedSection = ".data"

func (d *Destination) open(shared map[string]*ebpf.Map) (*Destination, error) {
	d.settings.Idle = cmp.Or(d.settings.Idle, DefaultIdle)
	d.settings.RecordBytes = cmp.Or(d.settings.RecordBytes, DefaultRecordBytes)
	spec, err := specification(d.device, d.settings)
	if err != nil {
		return nil, err
	}
	assigned := struct {
		*destinationObjects
		Carried *ebpf.Map `ebpf:".data"`
	}{destinationObjects: &d.objects}
	if err := hook.Load(spec, &assigned, shared); err != nil {
		return nil, fmt.Errorf("load destination: %w", err)
	}
	d.carried = assigned.Carried
	if err := d.start(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Destination) start() error {
	if err := d.prepare(); err != nil {
		return err
	}
	program, options := d.objects.DestinationTc, hook.Options{
		Point: hook.Ingress, Order: hook.First, Stay: true, Clsact: d.settings.Clsact,
	}
	if d.settings.XDP {
		program, options.Point = d.objects.DestinationXdp, hook.XDP
	}
	var err error
	d.attachment, err = hook.Attach(program, d.device, options)
	return err
}

// prepare is all that comes before the first packet.
func (d *Destination) prepare() error {
	if err := d.FollowClock(); err != nil {
		return err
	}
	if err := d.Accept(d.settings.Peers); err != nil {
		return err
	}
	if err := d.writeRules(d.rules); err != nil { // Accept does not, if another program had the peers
		return err
	}
	if d.settings.Records {
		reader, err := ringbuf.NewReader(d.objects.Records)
		if err != nil {
			return fmt.Errorf("open records: %w", err)
		}
		d.records = reader
	}
	return nil
}

func specification(device hook.Device, settings Settings) (*ebpf.CollectionSpec, error) {
	spec, err := loadDestination()
	if err != nil {
		return nil, fmt.Errorf("open destination: %w", err)
	}
	size := settings.RecordBytes
	if size < 4096 || size&(size-1) != 0 || size > 1<<30 {
		return nil, fmt.Errorf("open destination: %w: %d bytes is not a power of two from 4096 to 2^30", ErrRecords, size)
	}
	spec.Maps[destinationMapFlows].MaxEntries = uint32(settings.Flows)
	spec.Maps[destinationMapPages].MaxEntries = uint32(settings.Flows) * pagesPerFlow
	spec.Maps[destinationMapRecords].MaxEntries = 4096
	if settings.Records {
		spec.Maps[destinationMapRecords].MaxEntries = uint32(size)
	}
	slots := uint32(cmp.Or(settings.slots, min(maxSlots, 1<<bits.Len(uint(settings.Flows-1)))))
	spec.Maps[destinationMapSlots].MaxEntries = slots
	strip := settings.Strip
	if settings.XDP && strip == StripForwarded {
		strip = StripNever
	}
	err = hook.SetConstants(spec, map[string]any{
		destinationVarLinkLength:    uint32(device.LinkLength),
		destinationVarFlowFields:    uint32(cmp.Or(settings.Flow, flow.All)),
		destinationVarUdpPort:       cmp.Or(settings.Port, wire.Port),
		destinationVarAnyPeer:       !settings.StartEmpty && len(settings.Peers.Prefixes()) == 0,
		destinationVarFlowsPerPeer:  cmp.Or(uint32(settings.FlowsPerPeer), math.MaxUint32),
		destinationVarRecordsWanted: settings.Records,
		destinationVarAmendMarks:    settings.Amend,
		destinationVarStripOptions:  uint32(strip),
		destinationVarSlotMask:      slots - 1,
	})
	if err != nil {
		return nil, fmt.Errorf("open destination: %w", err)
	}
	return spec, nil
}

// FollowClock brings the distances between UTC and the kernel's clocks up to date.
func (d *Destination) FollowClock() error {
	state, err := clock.Read()
	if err != nil {
		return err
	}
	if err := d.objects.TaiOffsetNs.Set(uint64(state.TAIOffset)); err != nil {
		return fmt.Errorf("set TAI offset: %w", err)
	}
	offset, err := clock.MonotonicOffset()
	if err != nil {
		return err
	}
	if err := d.objects.MonotonicOffsetNs.Set(uint64(offset)); err != nil {
		return fmt.Errorf("set offset of the monotonic clock: %w", err)
	}
	return nil
}

// Present reports whether the program is still on the device.
func (d *Destination) Present() (bool, error) { return d.attachment.Present() }

// Cost is what the program cost since Open, where the kernel counts it.
func (d *Destination) Cost() (cost hook.Cost, counted bool, err error) {
	return hook.CostOf(d.objects.DestinationTc, d.objects.DestinationXdp)
}

// Detach takes the program off the device. What it counted can still be read.
func (d *Destination) Detach() error {
	if d.attachment == nil {
		return nil
	}
	err := d.attachment.Close()
	d.attachment = nil
	return err
}

// Clear takes programs off the device that a process left there.
func Clear(device hook.Device) error {
	return hook.Clear(device, hook.Ingress, destinationProgram)
}

// destinationProgram is the name of the program at TC ingress.
const destinationProgram = "destination_tc"

// Leave frees everything but keeps the program attached, which restores packets.
func (d *Destination) Leave() error {
	d.attachment = nil
	return d.Close()
}

// Close detaches and frees everything.
func (d *Destination) Close() error {
	err := d.Detach()
	if d.records != nil {
		err = errors.Join(err, d.records.Close())
	}
	return errors.Join(err, d.carried.Close(), d.objects.Close())
}
