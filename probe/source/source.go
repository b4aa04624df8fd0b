// Package source marks the packets that leave a device, so that a destination
// can measure their one-way delay, loss and reordering.
//
// A BPF program at TC egress writes the marks; this package loads it, configures what
// it marks and reads its counters. It sends nothing and measures nothing
// itself. Package wire describes the format of marks.
package source

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"pillion.dev/internal/clock"
	"pillion.dev/measure/module"
	"pillion.dev/probe/block"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// Defaults of Settings.Flows, Settings.Paths (both in entries) and of the time after which an idle flow ends.
const (
	DefaultFlows = 65536
	DefaultPaths = 16384
	DefaultIdle  = time.Minute
)

// ProbeMark is the firewall mark (SO_MARK) of packets that the program never marks: the probes
// with which Pillion traces a path, many of which expire at a router on purpose.
const ProbeMark = 0x50696c6c

// PathProbeMark is the firewall mark (SO_MARK) of path probes that the program marks in the given
// encoding, regardless of rules and validations.
func PathProbeMark(e wire.Encoding) uint32 { return ProbeMark + 1 + uint32(e) }

// Settings say what to mark. They hold for the life of a Source.
type Settings struct {
	// Policy is how the packets of all rules are marked until SetPolicies.
	Policy
	// Port is the destination port of the udp encoding; 0 means wire.Port.
	Port uint16
	// Rules select the packets to mark: a packet has to match one of them. Without rules every
	// packet is marked, and SetRules cannot change that.
	Rules []fivetuple.Filter
	// StartEmpty marks no packet until SetRules.
	StartEmpty bool
	// Flows is the size of the flow table, in entries; 0 means DefaultFlows. A new flow replaces
	// the least recently used entry if the table is full.
	Flows int
	// Paths is the size of the table of validated paths, one entry for each destination and encoding;
	// 0 means DefaultPaths. An entry takes about 100 bytes, which are allocated when the source opens.
	Paths int
	// ValidatePaths uses an encoding towards a destination only after SetValidation says
	// that packets marked in it arrive there.
	ValidatePaths bool
	// Keys authenticate the marks of packets to a destination prefix (Policy.Tagged).
	Keys map[netip.Prefix]wire.Key
	// Clsact attaches the programs as clsact filters even if the kernel has tcx.
	Clsact bool
}

// Source is a program that marks packets on one device.
type Source struct {
	device  hook.Device
	objects objects
	// settings are the arguments of Open.
	settings    Settings
	everyPacket bool
	// variants are the programs of each policy, by its index; places lists the indexes in use.
	variants   [PoliciesMax]*variant
	places     []int
	samplings  [PoliciesMax]wire.Sampling
	dispatcher dispatcher
	// entry and returning are the programs at egress and at ingress.
	entry, returning *ebpf.Program
	egress           *hook.Attachment
	ingress          *hook.Attachment
	expired          uint64
	present          uint64
	evicted          uint64
	choice           uint32
	state            uint32
	cleared          cleared
	// loaded marks the indexes at which a policy was ever loaded; since has the counters of each
	// index at the time when its present policy took effect.
	loaded [PoliciesMax]bool
	since  [PoliciesMax]PolicyTally
	// validated counts the changes of validations.
	validated atomic.Uint32
	requests  *ringbuf.Reader
	filters   []fivetuple.Filter // of the rules, in their order
	targets   map[sourceRuleTarget]bool
	tagged    bool
	probing   atomic.Pointer[probing]
	keys      map[netip.Prefix]wire.Key
	// tables guards the flow tables while flows are read or removed.
	tables   sync.Mutex
	sent     map[flow.Raw]sentFlow // as last read by Sent
	blocks   block.Reader
	clock    clock.Follower
	readings uint64 // calls of Sent
}

// objects are the programs and maps of the compiled object file that every source needs. The type
// connections has the programs that mark TCP connections.
type objects struct {
	SourceTc      *ebpf.Program `ebpf:"source_tc"`
	SourceGeneral *ebpf.Program `ebpf:"source_general"`
	SourceReturn  *ebpf.Program `ebpf:"source_return"`
	SourceRenew   *ebpf.Program `ebpf:"source_renew"`
	SourceSweep   *ebpf.Program `ebpf:"source_sweep"`

	sourceMaps
	sourceVariables
	// The maps in which the kernel keeps the global variables.
	Constants *ebpf.Map `ebpf:".rodata"`
	Zeroed    *ebpf.Map `ebpf:".bss"`
	Data      *ebpf.Map `ebpf:".data"`
}

func (o *objects) Close() error {
	return errors.Join(o.SourceTc.Close(), o.SourceGeneral.Close(), o.SourceReturn.Close(), o.SourceRenew.Close(), o.SourceSweep.Close(),
		o.sourceMaps.Close(), o.Constants.Close(), o.Zeroed.Close(), o.Data.Close())
}

// shared returns the maps that the programs of all policies have in common, by name.
func (o *objects) shared() map[string]*ebpf.Map {
	maps := map[string]*ebpf.Map{".bss": o.Zeroed, ".data": o.Data}
	fields := reflect.ValueOf(o.sourceMaps)
	for i := range fields.NumField() {
		maps[fields.Type().Field(i).Tag.Get("ebpf")] = fields.Field(i).Interface().(*ebpf.Map)
	}
	delete(maps, sourceMapStages)
	delete(maps, sourceMapConnections)
	return maps
}

// Try loads the programs without attaching them, and returns the kernel's error if it rejects them.
func Try() error {
	all := Settings{
		Policy: Policy{Modules: wire.Delay | wire.Loss, Encodings: wire.Encodings(), Tagged: true},
		Rules:  []fivetuple.Filter{{}}, Flows: 1024, Paths: 16, ValidatePaths: true,
	}
	s, spec, err := newSource(hook.Device{Name: "none", MTU: 1500, LinkLength: 14}, all)
	if err != nil {
		return err
	}
	if err := hook.Load(spec, &s.objects, nil); err != nil {
		return fmt.Errorf("load source: %w", err)
	}
	return s.objects.Close()
}

// Open attaches to the device. Nothing is marked before the first Renew.
func Open(device hook.Device, settings Settings) (*Source, error) {
	if settings.Flows == 0 {
		settings.Flows = DefaultFlows
	}
	s, spec, err := newSource(device, settings)
	if err != nil {
		return nil, err
	}
	if err := hook.Load(spec, &s.objects, nil); err != nil {
		return nil, fmt.Errorf("load source: %w", err)
	}
	s.adopt()
	if err := s.follow(s.variants[0], spec); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.setFamilies(); err != nil {
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

// newSource returns a source whose objects are still to be loaded.
func newSource(device hook.Device, settings Settings) (*Source, *ebpf.CollectionSpec, error) {
	s := &Source{
		device: device, settings: settings, tagged: settings.Tagged,
		everyPacket: !settings.StartEmpty && len(settings.Rules) == 0,
	}
	spec, err := specification(device, settings, 0)
	return s, spec, err
}

// adopt assigns the programs that were loaded together with the tables to the first policy.
func (s *Source) adopt() {
	o := &s.objects
	s.variants[0] = &variant{policy: s.settings.Policy.complete(), first: true, programs: variantPrograms{
		SourceTc: o.SourceTc, SourceGeneral: o.SourceGeneral, SourceReturn: o.SourceReturn,
		Stages: o.Stages, Connections: o.sourceMaps.Connections, Constants: o.Constants,
	}}
	s.loaded[0] = true
	s.places, s.entry, s.returning = []int{0}, o.SourceTc, o.SourceReturn
	s.announceProbing()
}

func (s *Source) start(settings Settings) error {
	if err := s.prepare(settings); err != nil {
		return err
	}
	var err error
	s.egress, err = hook.Attach(s.entry, s.device,
		hook.Options{Point: hook.Egress, Order: hook.Last, Clsact: settings.Clsact})
	if err != nil {
		return err
	}
	s.ingress, err = hook.Attach(s.returning, s.device,
		hook.Options{Point: hook.Ingress, Order: hook.Last, Clsact: settings.Clsact})
	return err
}

// prepare configures the programs before they are attached.
func (s *Source) prepare(settings Settings) error {
	if err := s.Follow(s.device); err != nil {
		return err
	}
	if err := s.FollowClock(); err != nil { // Blocks may be called before Renew
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

// checkIngress rejects an ingress number that the marks of the policy cannot carry.
func (p *Policy) checkIngress() error {
	_, size, err := module.Options(p.Extra)
	switch {
	case err != nil || p.Ingress == 0:
		return err
	case p.Ingress > wire.IngressMax:
		return fmt.Errorf("ingress number %d: limit %d", p.Ingress, wire.IngressMax)
	case p.SparseMarks:
		return errors.New("sparse marks cannot name their ingress: packets without a mark do not show which agent they passed")
	case size+ingressBytes > module.MaxOptions:
		return fmt.Errorf("the options of modules have %d bytes: beside the number of the ingress a mark has room for %d", size, module.MaxOptions-ingressBytes)
	}
	return nil
}

// Lengths of the option with the ingress number, bytes: behind a mark, and padded in an IPv6 extension header.
const (
	ingressBytes  = 7
	ingressPadded = 8
)

// check rejects settings that contradict each other.
func (p *Policy) check() error {
	if p.Modules == 0 || p.Modules > wire.Delay|wire.Loss {
		return fmt.Errorf("no modules: %d", p.Modules)
	}
	if len(p.Encodings) > 0 && len(serving(p.Encodings, p.Modules)) == 0 {
		return fmt.Errorf("marks in %v carry nothing that the module %v needs: add native to the encodings", p.Encodings, p.Modules)
	}
	if p.Sampling.MinGap < 0 {
		return fmt.Errorf("%w: gap %v is negative", ErrSampling, p.Sampling.MinGap)
	}
	return cmp.Or(p.checkSparse(), p.checkAggregate(), p.checkBlocks(), p.checkIngress())
}

// specification returns the collection spec of the programs, with the constants of the policy of that index.
func specification(device hook.Device, settings Settings, policy int) (*ebpf.CollectionSpec, error) {
	if err := settings.check(); err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	if len(settings.Rules) > RulesMax {
		return nil, fmt.Errorf("open source: %w: %d rules, at most %d", fivetuple.ErrFilter, len(settings.Rules), RulesMax)
	}
	p := settings.Policy.complete()
	extra, extraBytes, err := module.Options(p.Extra)
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	spec, err := loadSource()
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	slots := slotsOf(settings.Flows)
	spec.Maps[sourceMapSlots].MaxEntries = slots
	spec.Maps[sourceMapFlowNumbers].MaxEntries = max(1, uint32(settings.Flows)-slots)
	spec.Maps[sourceMapValidations].MaxEntries = uint32(cmp.Or(settings.Paths, DefaultPaths))
	spec.Maps[sourceMapEchoes].MaxEntries = uint32(settings.Flows)
	spec.Maps[sourceMapModuleStates].MaxEntries = uint32(settings.Flows)
	one := !settings.StartEmpty && len(settings.Rules) == 0           // a single policy, which cannot change
	if one && p.Flow == flow.All && settings.Modules&wire.Loss != 0 { // the flow table has their numbers
		spec.Maps[sourceMapSendings].MaxEntries = 1
	}
	if one && !p.hasBlocks() {
		spec.Maps[sourceMapModuleStates].MaxEntries = 1
	}
	tick, err := clock.Tick()
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	cookie, err := networkCookie()
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	encodings, used := encodingTable(p.Encodings)
	for _, e := range p.Used() {
		used |= 1 << e
	}
	err = hook.SetConstants(spec, map[string]any{
		sourceVarModules:        uint32(p.Modules),
		sourceVarModulesWanted:  extra,
		sourceVarModuleBytes:    uint32(extraBytes),
		sourceVarIngressNumber:  p.Ingress,
		sourceVarLinkLength:     uint32(device.LinkLength),
		sourceVarFlowFields:     uint32(p.Flow),
		sourceVarEncodings:      encodings,
		sourceVarEncodingsUsed:  used,
		sourceVarEncodingsAfter: encodingsAfter(p.Encodings),
		sourceVarUdpOptionFirst: uint32(udpOptionFirst(p.Encodings)),
		sourceVarValidatePaths:  settings.ValidatePaths,
		sourceVarSlotMask:       slots - 1,
		sourceVarBlockNs:        uint64(p.Block),
		sourceVarStampEvery:     p.StampEvery,
		sourceVarStampShift:     stampShift(tick),
		sourceVarSparseMarks:    p.SparseMarks,
		sourceVarTaggedMarks:    p.Tagged,
		sourceVarHopGapNs:       uint64(max(0, p.HopsGap)),
		sourceVarUdpPort:        cmp.Or(settings.Port, wire.Port),
		sourceVarProbeMark:      uint32(ProbeMark),
		sourceVarEveryPacket:    !settings.StartEmpty && len(settings.Rules) == 0,
		sourceVarNetworkCookie:  cookie,
		sourceVarDeviceIndex:    uint32(device.Index),
		sourceVarPolicyIndex:    uint32(policy),
	})
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	return spec, nil
}

// udpOptionFirst returns the IP versions whose UDP datagrams are marked by udp-option rather than by
// another encoding of the list.
func udpOptionFirst(list wire.EncodingList) (families wire.Class) {
	for _, family := range []wire.Class{wire.ClassIPv4, wire.ClassIPv6} {
		if first, ok := list.Choose(family | wire.ClassUDP); !ok || first == wire.UDPOption {
			families |= family
		}
	}
	return families
}

// stampShift is STAMP_SECOND of stamp.h for a tick: 16 << stampShift ticks are about a second.
func stampShift(tick time.Duration) uint32 {
	return uint32(math.Round(math.Log2(float64(time.Second) / float64(16*tick))))
}

// slotsMax is the largest number of slots: entries of flows that have a cache line (64 bytes) of their own.
const slotsMax = 4096

// slotsOf returns the number of slots of a table of flows: a power of two, at most half of the flows.
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
const encodingsMax = 16

// encodingTable returns the encoding of each class of packets, by the index of the class, and used,
// which has a bit for each encoding in the list.
func encodingTable(list wire.EncodingList) (table [wire.Classes]uint8, used uint32) {
	for i := range table {
		table[i] = noEncoding
	}
	for class := range wire.EachClass {
		if e, ok := list.Choose(class); ok {
			table[class.Index()] = uint8(e)
		}
	}
	for _, e := range list {
		used |= 1 << e
	}
	return table, used
}

// encodingsAfter returns for each encoding of the list the encodingTable of the encodings that
// follow it in the list.
func encodingsAfter(list wire.EncodingList) (after [encodingsMax * wire.Classes]uint8) {
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

// Renew lets the program mark packets until the lease has passed, or Forever. It also updates
// the clock offset (FollowClock). The lease is rounded up to a whole number of kernel ticks.
func (s *Source) Renew(lease time.Duration) error {
	if err := s.renew(lease); err != nil {
		return fmt.Errorf("renew lease: %w", err)
	}
	return nil
}

// FollowClock updates the offset between UTC and the kernel's monotonic clock. The program uses
// the previous offset until then.
func (s *Source) FollowClock() error {
	offset, err := s.clock.Follow()
	if err != nil {
		return err
	}
	if err := s.objects.MonotonicOffsetNs.Set(uint64(offset)); err != nil {
		return fmt.Errorf("set offset of the monotonic clock: %w", err)
	}
	return nil
}

func (s *Source) renew(lease time.Duration) error {
	if err := s.FollowClock(); err != nil {
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
	_, err := s.objects.SourceRenew.Run(&ebpf.RunOptions{})
	return err
}

// Follow gives the program the MTU of the device, and whether segmentation (GSO) buffers of UDP
// tunnels leave the device unsegmented.
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

// changed makes the program check its flows again after rules or paths have changed.
func (s *Source) changed() error {
	s.state++
	if err := s.objects.RulesState.Set(s.state); err != nil {
		return fmt.Errorf("announce change: %w", err)
	}
	return nil
}

// Present reports whether the programs are still on the device.
func (s *Source) Present() (bool, error) { return s.egress.Present() }

// Cost returns the processor time of the programs on the device since they were loaded, and whether
// the kernel counts it. The time of a program includes the programs that it tail-calls.
func (s *Source) Cost() (cost hook.Cost, counted bool, err error) {
	programs := []*ebpf.Program{s.returning}
	if s.dispatcher.Program != nil {
		programs = append(programs, s.dispatcher.Program)
	}
	for _, v := range s.variants {
		if v != nil {
			programs = append(programs, v.programs.SourceTc)
		}
	}
	return hook.CostOf(programs...)
}

// Clear removes the programs that an ended process left on the device: clsact filters outlive it.
func Clear(device hook.Device) error {
	return errors.Join(hook.Clear(device, hook.Egress, "source_tc"), hook.Clear(device, hook.Ingress, "source_return"))
}

// Detach removes the programs from the device. Their counters can still be read.
func (s *Source) Detach() error {
	var err error
	for _, v := range s.variants {
		if v != nil {
			err = errors.Join(err, v.connections.Close())
			v.connections = nil
		}
	}
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
	err = errors.Join(err, s.Detach())
	for _, v := range s.variants {
		if v != nil {
			err = errors.Join(err, v.close())
		}
	}
	return errors.Join(err, s.dispatcher.Program.Close(), s.dispatcher.Constants.Close(), s.objects.Close())
}
