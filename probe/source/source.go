// Package source marks the packets that leave a device, so that a destination
// elsewhere can say how long they were on the way and which of them are missing.
//
// A BPF program at TC egress does the work; this package loads it, tells it what
// to mark and reads what it counted. It sends nothing and measures nothing
// itself. What goes into a packet is described in package wire.
package source

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"pillion.dev/internal/clock"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// Defaults.
const (
	DefaultFlows = 65536
	DefaultIdle  = time.Minute
	// DefaultStampEvery leaves most packets of fast flows without a time.
	DefaultStampEvery = 16
)

// StampEveryMax is the largest Settings.StampEvery.
const StampEveryMax = 4096

// ProbeMark is the firewall mark (SO_MARK) of packets that are left alone: those
// that Pillion sends itself to find a path, of which many are to end on the way.
const ProbeMark = 0x50696c6c

// PathProbeMark is the firewall mark of probes that get a mark in an encoding, whatever
// the rules and validations say.
func PathProbeMark(e wire.Encoding) uint32 { return ProbeMark + 1 + uint32(e) }

// Settings say what to mark. They hold for the life of a Source.
type Settings struct {
	Modules wire.Module
	// Encodings of marks: a packet gets the first that applies to it. A packet to which
	// none applies stays unmarked.
	Encodings wire.EncodingList
	// Port is the destination port of the udp encoding; 0 means wire.Port.
	Port uint16
	// Rules choose packets; one that fits is enough. None: every packet, and
	// SetRules cannot change it.
	Rules []fivetuple.Filter
	// StartEmpty marks no packet until SetRules.
	StartEmpty bool
	// Flow are the fields that tell flows apart; 0 means flow.All.
	Flow flow.Fields
	// Flows is the size of the flow table; 0 means DefaultFlows. The entry that
	// was used longest ago makes room for a new one.
	Flows int
	// Idle is how long a flow stays in the table without a packet; 0 means
	// DefaultIdle.
	Idle time.Duration
	// StampEvery is how many packets of a fast flow share one time stamp, if both modules
	// are measured: each packet is numbered, and of a slow flow each has a time (stamp.h).
	// 1 stamps every packet; 0 means DefaultStampEvery; at most StampEveryMax.
	StampEvery uint32
	// Sparse marks only packets with a time stamp; sequence numbers count the others, so
	// that loss is exact from one mark to the next, but neither duplication nor
	// reordering is seen. Requires both modules, all flow fields, and no sampling.
	Sparse bool
	// ValidatePaths uses an encoding towards a destination only after SetValidation says
	// that packets marked in it arrive there.
	ValidatePaths bool
	// Tagged marks carry a tag, so that no other host can forge them. They carry both
	// modules, whatever Modules says. Only packets to destinations in Keys, or in SetKeys later, are marked.
	Tagged bool
	Keys   map[netip.Prefix]wire.Key
	// Sampling is what it begins with.
	Sampling Sampling
	// Clsact uses the older hook although the kernel has tcx.
	Clsact bool
}

// Source is a program that marks packets on one device.
type Source struct {
	device  hook.Device
	objects objects
	// connections is nil unless local TCP is marked by the tcp-option encoding.
	connections *connections
	// unfollowed is why it is nil although the list of encodings asks for them.
	unfollowed error
	egress     *hook.Attachment
	ingress    *hook.Attachment
	idle       time.Duration
	expired    uint64
	present    uint64
	choice     uint32
	state      uint32
	// validated counts the changes of validations.
	validated atomic.Uint32
	requests  *ringbuf.Reader
	sparse    bool
	targets   map[sourceRuleTarget]bool
	tagged    bool
	keys      map[netip.Prefix]wire.Key
}

// objects are what every source needs of the compiled file; connections are the rest.
type objects struct {
	SourceTc     *ebpf.Program `ebpf:"source_tc"`
	SourceReturn *ebpf.Program `ebpf:"source_return"`
	SourceRenew  *ebpf.Program `ebpf:"source_renew"`
	SourceSweep  *ebpf.Program `ebpf:"source_sweep"`

	sourceMaps
	sourceVariables
	// The maps behind the variables.
	Constants *ebpf.Map `ebpf:".rodata"`
	Zeroed    *ebpf.Map `ebpf:".bss"`
	Data      *ebpf.Map `ebpf:".data"`
}

func (o *objects) Close() error {
	return errors.Join(o.SourceTc.Close(), o.SourceReturn.Close(), o.SourceRenew.Close(), o.SourceSweep.Close(),
		o.sourceMaps.Close(), o.Constants.Close(), o.Zeroed.Close(), o.Data.Close())
}

// shared are the maps by name, for programs that are loaded later.
func (o *objects) shared() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{
		".rodata": o.Constants, ".bss": o.Zeroed, ".data": o.Data,
		sourceMapTargets: o.Targets, sourceMapTallies: o.Tallies, sourceMapConnections: o.Connections,
		sourceMapBlackholes: o.Blackholes, sourceMapPairKeys: o.PairKeys,
	}
}

// Open attaches to the device. Nothing is marked before the first Renew.
func Open(device hook.Device, settings Settings) (*Source, error) {
	if settings.Flows == 0 {
		settings.Flows = DefaultFlows
	}
	if settings.Idle == 0 {
		settings.Idle = DefaultIdle
	}
	s := &Source{device: device, idle: settings.Idle, sparse: settings.Sparse, tagged: settings.Tagged}
	spec, err := specification(device, settings)
	if err != nil {
		return nil, err
	}
	if err := hook.Load(spec, &s.objects, nil); err != nil {
		return nil, fmt.Errorf("load source: %w", err)
	}
	if err := s.follow(spec, settings.Encodings); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.requests, err = ringbuf.NewReader(s.objects.ValidationRequests); err != nil {
		return nil, errors.Join(fmt.Errorf("open ring buffer: %w", err), s.Close())
	}
	if err := s.start(settings); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Source) start(settings Settings) error {
	if err := s.prepare(settings); err != nil {
		return err
	}
	var err error
	s.egress, err = hook.Attach(s.objects.SourceTc, s.device,
		hook.Options{Point: hook.Egress, Order: hook.Last, Clsact: settings.Clsact})
	if err != nil {
		return err
	}
	s.ingress, err = hook.Attach(s.objects.SourceReturn, s.device,
		hook.Options{Point: hook.Ingress, Order: hook.Last, Clsact: settings.Clsact})
	return err
}

// prepare is all that comes before the first packet.
func (s *Source) prepare(settings Settings) error {
	if err := s.Follow(s.device); err != nil {
		return err
	}
	if len(settings.Keys) > 0 {
		if err := s.SetKeys(settings.Keys); err != nil {
			return err
		}
	}
	if err := s.SetRules(settings.Rules, nil); err != nil {
		return err
	}
	return s.Sample(settings.Sampling)
}

func specification(device hook.Device, settings Settings) (*ebpf.CollectionSpec, error) {
	if settings.Modules == 0 || settings.Modules > wire.Delay|wire.Loss {
		return nil, fmt.Errorf("open source: no modules: %d", settings.Modules)
	}
	if settings.Sparse {
		if err := checkSparse(settings); err != nil {
			return nil, fmt.Errorf("open source: %w", err)
		}
	}
	if len(settings.Rules) > RulesMax {
		return nil, fmt.Errorf("open source: %w: %d rules, at most %d", fivetuple.ErrFilter, len(settings.Rules), RulesMax)
	}
	if settings.Tagged {
		settings.Modules = wire.Delay | wire.Loss // by which the destination tells a replayed mark
	}
	spec, err := loadSource()
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	slots := slotsOf(settings.Flows)
	spec.Maps[sourceMapSlots].MaxEntries = slots
	spec.Maps[sourceMapFlowNumbers].MaxEntries = max(1, uint32(settings.Flows)-slots)
	tick, err := clock.Tick()
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	cookie, err := networkCookie()
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	encodings, used := encodingTable(settings.Encodings)
	err = hook.SetConstants(spec, map[string]any{
		sourceVarModules:        uint32(settings.Modules),
		sourceVarLinkLength:     uint32(device.LinkLength),
		sourceVarFlowFields:     uint32(cmp.Or(settings.Flow, flow.All)),
		sourceVarEncodings:      encodings,
		sourceVarEncodingsUsed:  used,
		sourceVarEncodingsAfter: encodingsAfter(settings.Encodings),
		sourceVarValidatePaths:  settings.ValidatePaths,
		sourceVarSlotMask:       slots - 1,
		sourceVarStampEvery:     min(cmp.Or(settings.StampEvery, DefaultStampEvery), StampEveryMax),
		sourceVarStampShift:     stampShift(tick),
		sourceVarSparseMarks:    settings.Sparse,
		sourceVarTaggedMarks:    settings.Tagged,
		sourceVarUdpPort:        cmp.Or(settings.Port, wire.Port),
		sourceVarProbeMark:      uint32(ProbeMark),
		sourceVarEveryPacket:    !settings.StartEmpty && len(settings.Rules) == 0,
		sourceVarNetworkCookie:  cookie,
		sourceVarDeviceIndex:    uint32(device.Index),
	})
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	return spec, nil
}

// ErrSparse refuses sparse marks together with other settings.
var ErrSparse = errors.New("sparse marks")

func checkSparse(settings Settings) error {
	switch {
	case settings.Modules != wire.Delay|wire.Loss:
		return fmt.Errorf("%w require the modules delay and loss", ErrSparse)
	case cmp.Or(settings.Flow, flow.All) != flow.All:
		return fmt.Errorf("%w require flows by address, protocol and port", ErrSparse)
	case !settings.Sampling.all():
		return fmt.Errorf("%w cannot be combined with sampling", ErrSparse)
	}
	return nil
}

// stampShift is STAMP_SECOND of stamp.h for a tick: 16 << stampShift ticks are about a second.
func stampShift(tick time.Duration) uint32 {
	return uint32(math.Round(math.Log2(float64(time.Second) / float64(16*tick))))
}

// slotsMax is how many flows have a cache line of their own, 64 bytes each.
const slotsMax = 4096

// slotsOf returns how many of the flows are in slots: a power of two, at most half.
func slotsOf(flows int) uint32 {
	slots := uint32(1)
	for slots < slotsMax && int(4*slots) <= flows {
		slots *= 2
	}
	return slots
}

// noEncoding is WIRE_ENCODING_NONE of wire.h.
const noEncoding = 0xff

// encodingsMax is WIRE_ENCODINGS_MAX of wire.h.
const encodingsMax = 8

// encodingTable returns the encoding of each class of packets, and the bits of those that
// occur in the list.
func encodingTable(list wire.EncodingList) (table [math.MaxUint8 + 1]uint8, used uint32) {
	for c := range table {
		table[c] = noEncoding
		if e, ok := list.Choose(wire.Class(c)); ok {
			table[c] = uint8(e)
		}
	}
	for _, e := range list {
		used |= 1 << e
	}
	return table, used
}

// encodingsAfter returns for each encoding of the list the table of those behind it.
func encodingsAfter(list wire.EncodingList) (after [encodingsMax * (math.MaxUint8 + 1)]uint8) {
	for i := range after {
		after[i] = noEncoding
	}
	for i, e := range list {
		table, _ := encodingTable(list[i+1:])
		copy(after[int(e)*len(table):], table[:])
	}
	return after
}

// Forever is a lease without an end.
const Forever = time.Duration(-1)

// Renew lets the program mark packets for so long from now on, or Forever. It also
// brings the distance between TAI and UTC up to date. A lease is a whole number of
// the kernel's ticks, rounded up.
func (s *Source) Renew(lease time.Duration) error {
	if err := s.renew(lease); err != nil {
		return fmt.Errorf("renew lease: %w", err)
	}
	return nil
}

func (s *Source) renew(lease time.Duration) error {
	state, err := clock.Read()
	if err != nil {
		return err
	}
	if err := s.objects.TaiOffsetNs.Set(uint64(state.TAIOffset)); err != nil {
		return err
	}
	offset, err := clock.MonotonicOffset()
	if err != nil {
		return err
	}
	if err := s.objects.MonotonicOffsetNs.Set(uint64(offset)); err != nil {
		return err
	}
	ticks := ^uint64(0)
	if lease != Forever {
		tick, err := clock.Tick()
		if err != nil {
			return err
		}
		ticks = uint64((lease + tick - 1) / tick)
	}
	if err := s.objects.LeaseTicks.Set(ticks); err != nil {
		return err
	}
	_, err = s.objects.SourceRenew.Run(&ebpf.RunOptions{})
	return err
}

// Follow sets what the program knows of the device: its MTU, and whether buffers of UDP
// tunnels leave it whole.
func (s *Source) Follow(device hook.Device) error {
	whole := uint32(0)
	if device.WholeTunnels {
		whole = 1
	}
	if err := errors.Join(s.objects.PathMtu.Set(uint32(device.MTU)), s.objects.TunnelsWhole.Set(whole)); err != nil {
		return fmt.Errorf("follow device %q: %w", device.Name, err)
	}
	return s.changed()
}

// changed makes the program check its flows again: rules or paths are others.
func (s *Source) changed() error {
	s.state++
	if err := s.objects.RulesState.Set(s.state); err != nil {
		return fmt.Errorf("announce change: %w", err)
	}
	return nil
}

// Present reports whether the programs are still on the device.
func (s *Source) Present() (bool, error) { return s.egress.Present() }

// Cost is what the programs cost since Open, where the kernel counts it.
func (s *Source) Cost() (cost hook.Cost, counted bool, err error) {
	return hook.CostOf(s.objects.SourceTc, s.objects.SourceReturn)
}

// Clear takes programs off the device that a process left there: clsact filters outlive it.
func Clear(device hook.Device) error {
	return errors.Join(hook.Clear(device, hook.Egress, "source_tc"), hook.Clear(device, hook.Ingress, "source_return"))
}

// Detach takes the programs off the device. What they counted can still be read.
func (s *Source) Detach() error {
	err := s.connections.Close()
	s.connections = nil
	for _, a := range []*hook.Attachment{s.egress, s.ingress} {
		if a != nil {
			err = errors.Join(err, a.Close())
		}
	}
	s.egress, s.ingress = nil, nil
	return err
}

// Close detaches and frees everything.
func (s *Source) Close() error {
	var err error
	if s.requests != nil {
		err = s.requests.Close()
	}
	return errors.Join(err, s.Detach(), s.objects.Close())
}
