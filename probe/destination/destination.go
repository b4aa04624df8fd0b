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
	// Ingresses are the agents whose marks of packets that they forward count.
	Ingresses Ingresses
	// FlowsPerPeer is how many flows of one peer are in the table at most; 0 means as many
	// as there is room for. Marks of more are counted, but in no flow.
	FlowsPerPeer int
	// StartEmpty reads no mark until Accept.
	StartEmpty bool
	// Port is the destination port of the udp encoding; 0 means wire.Port.
	Port uint16
	// Flow are the fields that tell flows apart; they must be the same as the
	// source's. 0 means flow.All.
	Flow flow.Fields
	// FlowsDiffer: flows are told apart by the fields of the rule (Peer.Rules) that their packets
	// fit, which have both addresses among them. Flow is not used.
	FlowsDiffer bool
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
	// Traces asks for what routers wrote into packets (ReadTraces).
	Traces bool
	// Block is the length of the blocks of marks without numbers (Alternate Marking), the same
	// as their sources use. 0 means block.Default.
	Block      time.Duration
	traceBytes uint32 // size of the ring buffer of traces, of a test; 0: the usual one
	// Amend leaves marks in and writes the time of arrival into them, unless another waypoint has. With
	// Peer.Amends this is done for packets to other hosts only, which are not counted here.
	Amend bool
	// Strip says when a mark that sockets do not see is removed.
	Strip Strip
	// IOAMTime is the format of times in options of IOAM that others wrote.
	IOAMTime IOAMTime
	// DeliveredOnly reads only the marks of packets that the kernel delivers to this host, or
	// that go to a prefix of Own; it leaves the marks of packets that this host forwards to
	// others. Otherwise all marks of peers are read. Bridged packets do not count as forwarded.
	DeliveredOnly bool
	// Own are prefixes behind this host whose marks are read with DeliveredOnly, too.
	Own []netip.Prefix
	// Clsact uses the older hook although the kernel has tcx.
	Clsact bool

	slots int // a power of two; 0 means as many as flows, up to maxSlots
}

// Strip says when a mark is removed that sockets do not see: in an option of the transport, and
// in PDM, which the source on the same host reads.
type Strip uint32

// The choices, as in mark.h. XDP takes StripForwarded for StripNever where the mark is an option of the
// transport: a frame does not say whether its checksum is complete.
const (
	StripForwarded Strip = iota // where this host forwards the packet
	StripAlways
	StripNever
)

// IOAMTime is a format of times in IOAM data (RFC 9197, section 5). Pillion writes NTP timestamps.
type IOAMTime uint32

// The formats, as in ioam.h.
const (
	IOAMTimeNTP   IOAMTime = iota // seconds since 1900 and 2^-32 s, UTC
	IOAMTimePTP                   // seconds since 1970 and ns, TAI
	IOAMTimePOSIX                 // seconds since 1970 and µs, UTC
)

// Destination is a program that reads marks on one device.
type Destination struct {
	settings   Settings
	device     hook.Device
	objects    destinationObjects
	carried    *ebpf.Map // variables that a program which replaces this one shares with it
	attachment *hook.Attachment
	records    *ringbuf.Reader
	traces     *ringbuf.Reader
	// malformedTraces are those that could not be read.
	malformedTraces uint64
	pass            uint32            // grows, also from one program to the next on the same flows
	origins         map[origin]Peer   // peers
	positions       map[origin]uint32 // of peers in the tables of peer.h
	pages           map[pageName]*ebpf.Map
	pagesLent       bool   // another Destination closes them
	rules           places // of peers in the table of rules
	peersState      uint32 // grows likewise
	flows           map[flow.Raw]*state
	total           change
	expired         uint64
	evicted         uint64
	// Reports of sources, and what they are compared with: see settle.go.
	reports   []Report
	absent    map[flow.Raw]*state // flows that are not in the table
	forgot    time.Time           // when some were forgotten
	strays    uint64              // marks in no flow
	strayed   time.Time           // when the last such mark came
	unsettled uint64
	blocks    *blocks
	clock     *clock.Follower
	// stepped: the clock was stepped since the last reading.
	stepped       bool
	delaysLeftOut uint64
}

// Open attaches to the device; marks are read from then on.
func Open(device hook.Device, settings Settings) (*Destination, error) {
	settings.Flows, settings.Idle = cmp.Or(settings.Flows, DefaultFlows), cmp.Or(settings.Idle, DefaultIdle)
	d := &Destination{settings: settings, device: device, flows: map[flow.Raw]*state{}, absent: map[flow.Raw]*state{}, blocks: newBlocks(settings), clock: &clock.Follower{}}
	return d.open(nil)
}

// Try loads the programs for a device, without attaching them: the kernel accepts them, or the error says why not.
func Try() error {
	spec, err := specification(hook.Device{Name: "none", MTU: 1500, LinkLength: 14}, Settings{Flows: 64, RecordBytes: 4096, FlowsDiffer: true})
	if err != nil {
		return err
	}
	var objects destinationObjects
	if err := hook.Load(spec, &objects, nil); err != nil {
		return fmt.Errorf("load destination: %w", err)
	}
	return objects.Close()
}

// Replace opens a program with other settings that replaces this one. It takes over
// the flows and all counts: no packet is missed or counted twice, and flows continue.
// After that the old program may only be read for records and closed.
func (d *Destination) Replace(settings Settings) (*Destination, error) {
	settings.Flows, settings.slots = d.settings.Flows, d.settings.slots // the tables stay as they are
	next := *d
	next.pagesLent = true // until it takes the place of this one
	next.settings, next.objects, next.carried, next.attachment, next.records, next.traces = settings, destinationObjects{}, nil, nil, nil, nil
	shared := map[string]*ebpf.Map{
		destinationMapFlows: d.objects.Flows, destinationMapPages: d.objects.Pages, destinationMapTraceTallies: d.objects.TraceTallies,
		destinationMapSlots: d.objects.Slots, destinationMapTallies: d.objects.Tallies, destinationMapPeers: d.objects.Peers,
		destinationMapModuleStates: d.objects.ModuleStates,
		destinationMapPositions:    d.objects.Positions, destinationMapIngresses: d.objects.Ingresses, destinationMapPeerFlows: d.objects.PeerFlows,
		carriedSection: d.carried,
	}
	if settings.Traces == d.settings.Traces { // otherwise it has another size
		shared[destinationMapTraces] = d.objects.Traces
	}
	replacing, err := next.open(shared)
	if err == nil {
		replacing.pagesLent, d.pagesLent = false, true
	}
	return replacing, err
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
	if err := d.SetBlock(d.settings.Block); err != nil {
		return err
	}
	if err := d.setOwn(d.settings.Own); err != nil {
		return err
	}
	if err := d.Accept(d.settings.Peers, d.settings.Ingresses); err != nil {
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
	if d.settings.Traces {
		reader, err := ringbuf.NewReader(d.objects.Traces)
		if err != nil {
			return fmt.Errorf("open traces: %w", err)
		}
		d.traces = reader
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
	spec.Maps[destinationMapModuleStates].MaxEntries = uint32(settings.Flows) * statesPerFlow
	spec.Maps[destinationMapRecords].MaxEntries = 4096
	if settings.Records {
		spec.Maps[destinationMapRecords].MaxEntries = uint32(size)
	}
	spec.Maps[destinationMapTraces].MaxEntries = 4096
	if settings.Traces {
		spec.Maps[destinationMapTraces].MaxEntries = cmp.Or(settings.traceBytes, traceBytes)
	}
	slots := uint32(cmp.Or(settings.slots, min(maxSlots, 1<<bits.Len(uint(settings.Flows-1)))))
	spec.Maps[destinationMapSlots].MaxEntries = slots
	if settings.FlowsDiffer {
		settings.Flow = flow.All
	}
	err = hook.SetConstants(spec, map[string]any{
		destinationVarLinkLength:    uint32(device.LinkLength),
		destinationVarFlowFields:    uint32(cmp.Or(settings.Flow, flow.All)),
		destinationVarFieldsDiffer:  settings.FlowsDiffer,
		destinationVarUdpPort:       cmp.Or(settings.Port, wire.Port),
		destinationVarAnyPeer:       !settings.StartEmpty && len(settings.Peers.Prefixes())+len(settings.Ingresses) == 0,
		destinationVarFlowsPerPeer:  cmp.Or(uint32(settings.FlowsPerPeer), math.MaxUint32),
		destinationVarRecordsWanted: settings.Records,
		destinationVarDeliverOnly:   settings.DeliveredOnly,
		destinationVarTracesWanted:  settings.Traces,
		destinationVarAmendMarks:    settings.Amend,
		destinationVarStripOptions:  uint32(settings.Strip),
		destinationVarIoamTime:      uint32(settings.IOAMTime),
		destinationVarSlotMask:      slots - 1,
	})
	if err != nil {
		return nil, fmt.Errorf("open destination: %w", err)
	}
	return spec, nil
}

// FollowClock brings the distance between UTC and the kernel's monotonic clock up to date: the
// program goes by the earlier one until then.
func (d *Destination) FollowClock() error {
	offset, err := d.clock.Follow()
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

// Hidden is hook.Attachment.Hidden.
func (d *Destination) Hidden(now time.Duration) (text string, changed bool, err error) {
	return d.attachment.Hidden(now, func() (uint64, error) { t, err := d.Tally(); return t.Seen, err })
}

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
	if d.traces != nil {
		err = errors.Join(err, d.traces.Close())
	}
	if !d.pagesLent {
		for _, page := range d.pages {
			err = errors.Join(err, page.Close())
		}
		clear(d.pages)
	}
	return errors.Join(err, d.carried.Close(), d.objects.Close())
}
