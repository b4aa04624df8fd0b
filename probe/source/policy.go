package source

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"reflect"
	"slices"

	"github.com/cilium/ebpf"

	"pillion.dev/measure/module"
	"pillion.dev/probe/block"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// PoliciesMax is the maximum number of policies of a source.
const PoliciesMax = wire.PoliciesMax

// ErrPolicies marks policies that a source cannot have.
var ErrPolicies = errors.New("bad policies")

// Rule has a policy mark packets.
type Rule = wire.Rule

// A Policy is how the packets of a rule are marked.
type Policy struct {
	Modules wire.Module
	// Extra are the names of modules with their own options, which marks carry in encodings with
	// wire.CarriesModules.
	Extra []string
	// Encodings of marks: a packet is marked in the first encoding that applies to it. A packet to
	// which none applies stays unmarked.
	Encodings wire.EncodingList
	// Tagged marks carry a tag, so that no other host can forge them. They carry both
	// modules, whatever Modules says. Only packets to destinations in Settings.Keys, or in SetKeys later, are marked.
	Tagged bool
	// Ingress is the number of this agent that marks carry, at most wire.IngressMax. If it is not 0, only
	// packets that this host forwards are marked. If it is 0, the source address identifies the marking host.
	Ingress uint32
	// Marking: 0 in HopsGap lets routers write into no packet, and in other settings means their defaults. Sparse marks
	// require both modules and all flow fields, without sampling and HopsGap; encodings that carry a block
	// (wire.CarriesBlock) require all flow fields, without sampling.
	wire.Marking
}

// Used returns the encodings in which packets may be marked: the list, and the encoding in which
// routers write their times.
func (p Policy) Used() wire.EncodingList {
	p = p.complete()
	if p.HopsGap <= 0 || slices.Contains(p.Encodings, wire.IOAMTrace) {
		return p.Encodings
	}
	return append(slices.Clone(p.Encodings), wire.IOAMTrace)
}

func (p Policy) complete() Policy {
	p.Flow, p.Idle = p.Fields(), cmp.Or(p.Idle, wire.Duration(DefaultIdle))
	p.Block = cmp.Or(p.Block, wire.Duration(block.Default))
	p.StampEvery = min(cmp.Or(p.StampEvery, wire.StampEveryDefault), wire.StampEveryMax)
	if p.Tagged {
		p.Modules = wire.Delay | wire.Loss // the destination needs both to detect a replayed mark
	}
	if p.Ingress != 0 {
		p.Encodings = Forwarded(p.Encodings)
	}
	p.Encodings = serving(p.Encodings, p.Modules)
	return p
}

// Forwarded returns the encodings of a list for packets that a host forwards. Transport options only
// apply to packets that the host itself sends.
func Forwarded(list wire.EncodingList) wire.EncodingList {
	return slices.DeleteFunc(slices.Clone(list), func(e wire.Encoding) bool {
		return !e.Applies(wire.ClassIPv4|wire.ClassForwarded) && !e.Applies(wire.ClassIPv6|wire.ClassForwarded)
	})
}

// serving returns the encodings of a list whose marks carry something that one of the modules needs.
func serving(list wire.EncodingList, modules wire.Module) wire.EncodingList {
	return slices.DeleteFunc(slices.Clone(list), func(e wire.Encoding) bool { return !e.Carries().Serves(modules) })
}

// same reports whether the same program can mark by both policies: sampling and the removal of idle
// flows do not depend on the program's constants.
func (p Policy) same(o Policy) bool {
	p.Sampling, p.Idle = o.Sampling, o.Idle
	return reflect.DeepEqual(p, o)
}

// variant has the programs and maps that are loaded for one policy.
type variant struct {
	policy   Policy
	programs variantPrograms
	// connections is nil unless local TCP is marked by the tcp-option encoding.
	connections *connections
	// unfollowed is the reason why connections is nil although the list of encodings has tcp-option.
	unfollowed error
	families   wire.Class // whose local TCP has the tcp-option encoding first
	first      bool       // loaded together with the tables
}

// variantPrograms are the programs with the constants of a policy, and the maps that they do
// not share with other policies' programs.
type variantPrograms struct {
	SourceTc      *ebpf.Program `ebpf:"source_tc"`
	SourceGeneral *ebpf.Program `ebpf:"source_general"`
	SourceReturn  *ebpf.Program `ebpf:"source_return"`
	Stages        *ebpf.Map     `ebpf:"stages"`
	Connections   *ebpf.Map     `ebpf:"connections"`
	Constants     *ebpf.Map     `ebpf:".rodata"`
}

// dispatcher is the program that tail-calls the program of a packet's policy.
type dispatcher struct {
	Program   *ebpf.Program `ebpf:"source_dispatch"`
	Constants *ebpf.Map     `ebpf:".rodata"`
}

func (p *variantPrograms) Close() error {
	return errors.Join(p.SourceTc.Close(), p.SourceGeneral.Close(), p.SourceReturn.Close(),
		p.Stages.Close(), p.Connections.Close(), p.Constants.Close())
}

func (v *variant) close() error {
	err := v.connections.Close()
	v.connections = nil
	if v.first { // Source.objects owns the others
		return err
	}
	return errors.Join(err, v.programs.Close())
}

// loadVariant loads the programs of a policy and makes the kernel reserve room for options in the TCP
// connections that it marks.
func (s *Source) loadVariant(index int, p Policy) (*variant, error) {
	settings := s.settings
	settings.Policy = p
	spec, err := specification(s.device, settings, index)
	if err != nil {
		return nil, err
	}
	v := &variant{policy: p}
	if err := hook.Load(spec, &v.programs, s.objects.shared()); err != nil {
		return nil, fmt.Errorf("load source: %w", err)
	}
	if err := s.follow(v, spec); err != nil {
		return nil, errors.Join(err, v.close())
	}
	return v, nil
}

// SetPolicies replaces the policies and the rules while traffic flows; no packet sees half of
// a change. The sequence numbers of flows by five-tuple continue, and so do the numbers of other flows
// whose policy stays. With targets, a packet must also be addressed to one of them. The policy of a
// source without rules, which marks every packet, cannot change.
func (s *Source) SetPolicies(policies []Policy, rules []Rule, targets []netip.Addr) error {
	if err := s.setPolicies(policies, rules, targets); err != nil {
		return fmt.Errorf("set policies: %w", err)
	}
	return nil
}

func (s *Source) setPolicies(policies []Policy, rules []Rule, targets []netip.Addr) error {
	wanted := make([]Policy, len(policies))
	for i, p := range policies {
		wanted[i] = p.complete()
	}
	if err := s.checkPolicies(wanted, rules); err != nil {
		return err
	}
	places, replaced, err := s.place(wanted, !s.hasRules(rules, targets))
	if err != nil {
		return err
	}
	placed := make([]Rule, len(rules))
	for i, rule := range rules {
		placed[i] = Rule{Filter: rule.Filter, Policy: places[rule.Policy]}
	}
	samplings := s.samplings
	for i, p := range wanted {
		samplings[places[i]], s.variants[places[i]].policy = p.Sampling, p
	}
	s.tagged = slices.ContainsFunc(wanted, func(p Policy) bool { return p.Tagged })
	// While the rules change, the tables have the policies of the old rules and of the new rules.
	err = errors.Join(s.setSamplings(samplings), s.setFamilies(), s.steer(slices.Concat(s.places, places)))
	if err == nil {
		err = s.choose(placed, targets)
	}
	if err == nil {
		s.places, s.filters = places, filtersOf(rules)
		err = s.steer(places)
	}
	for _, v := range replaced {
		err = errors.Join(err, v.close())
	}
	err = errors.Join(err, s.dropVariants())
	s.announceProbing()
	return err
}

func filtersOf(rules []Rule) (filters []fivetuple.Filter) {
	for _, rule := range rules {
		filters = append(filters, rule.Filter)
	}
	return filters
}

// hasRules reports whether the source has these filters and targets already, with whichever policies.
func (s *Source) hasRules(rules []Rule, targets []netip.Addr) bool {
	wanted := map[sourceRuleTarget]bool{}
	for _, address := range targets {
		wanted[rawTarget(address)] = true
	}
	return slices.Equal(filtersOf(rules), s.filters) && maps.Equal(wanted, s.targets)
}

// dropVariants closes the variants that no policy uses any more.
func (s *Source) dropVariants() (err error) {
	for index, v := range s.variants {
		if v != nil && !slices.Contains(s.places, index) {
			err = errors.Join(err, v.close())
			s.variants[index] = nil
		}
	}
	return errors.Join(err, s.setFamilies())
}

// setFamilies tells the programs, by policy and IP version, in which connections the kernel reserves room for marks.
func (s *Source) setFamilies() error {
	var families uint32
	for index, v := range s.variants {
		if v != nil {
			families |= uint32(v.families) << (2 * index)
		}
	}
	return s.objects.TcpOptionFamilies.Set(families)
}

// steer attaches the program of the policy to the device if there is only one, otherwise the dispatcher,
// which calls the program of each packet's policy.
func (s *Source) steer(places []int) error {
	places = slices.Compact(slices.Sorted(slices.Values(places)))
	first := s.variants[places[0]].programs
	if len(places) == 1 {
		if s.entry == first.SourceTc {
			return nil
		}
		return errors.Join(s.enter(first.SourceTc, first.SourceReturn), s.fill(nil))
	}
	if err := s.loadDispatcher(); err != nil {
		return err
	}
	if err := s.fill(places); err != nil {
		return err
	}
	return s.enter(s.dispatcher.Program, first.SourceReturn)
}

func (s *Source) loadDispatcher() error {
	if s.dispatcher.Program != nil {
		return nil
	}
	spec, err := specification(s.device, s.settings, 0)
	if err != nil {
		return err
	}
	if err := hook.Load(spec, &s.dispatcher, s.objects.shared()); err != nil {
		return fmt.Errorf("load dispatcher: %w", err)
	}
	return nil
}

// enter replaces the programs on the device, if it has any.
func (s *Source) enter(egress, ingress *ebpf.Program) error {
	s.entry, s.returning = egress, ingress
	if s.egress == nil || s.ingress == nil {
		return nil
	}
	return errors.Join(s.egress.Replace(egress), s.ingress.Replace(ingress))
}

// fill writes the program arrays for the tail calls of programs.
func (s *Source) fill(places []int) error {
	probes := s.probePolicies(places)
	var failed error
	set := func(table *ebpf.Map, index int, program *ebpf.Program) {
		var err error
		if program != nil {
			err = table.Put(uint32(index), program)
		} else if err = table.Delete(uint32(index)); errors.Is(err, ebpf.ErrKeyNotExist) {
			err = nil
		}
		failed = errors.Join(failed, err)
	}
	var next *ebpf.Program
	for index := PoliciesMax - 1; index >= 0; index-- {
		if !slices.Contains(places, index) {
			set(s.objects.PolicyMarks, index, nil)
			set(s.objects.PolicyReturns, index, next)
			continue
		}
		v := s.variants[index]
		set(s.objects.PolicyMarks, index, v.programs.SourceTc)
		next = v.programs.SourceReturn
		set(s.objects.PolicyReturns, index, next)
	}
	if len(places) > 0 {
		failed = errors.Join(failed, s.objects.ProbePolicies.Set(probes), s.objects.PolicyFirst.Set(uint32(places[0])))
	}
	return failed
}

// probePolicies returns the policy by which path probes are marked, by encoding: one whose marks
// have a tag, since destinations that want none take it, and among these the policy with the largest marks.
func (s *Source) probePolicies(places []int) (probes [encodingsMax]uint8) {
	var size [encodingsMax]int
	for _, index := range places {
		p := &s.variants[index].policy
		for _, e := range p.Used() {
			if n := p.probeSize(e); n > size[e] {
				probes[e], size[e] = uint8(index), n
			}
		}
	}
	return probes
}

// probeSize ranks policies for marking path probes: by whether marks have a tag, then by their size, bytes.
func (p *Policy) probeSize(e wire.Encoding) int {
	size := 1 + p.overhead(e)
	if p.Tagged {
		size += math.MaxUint16
	}
	return size
}

// overhead is the number of bytes that a mark of an encoding adds to a packet.
func (p *Policy) overhead(e wire.Encoding) int {
	_, options, _ := module.Options(p.Extra) // which have been loaded
	if p.Ingress != 0 {
		options += ingressBytes
	}
	size := e.Size(p.Modules, p.Tagged, p.SparseMarks || p.Flow != flow.All, options)
	if p.Ingress != 0 && e.Carries()&wire.CarriesModules == 0 { // a whole header
		size += ingressPadded
	}
	return size
}

// probing is how path probes are marked.
type probing struct {
	tagged   bool
	overhead [encodingsMax]int
}

// announceProbing publishes to other goroutines how path probes are marked.
func (s *Source) announceProbing() {
	by := &probing{tagged: s.tagged}
	for e, index := range s.probePolicies(s.places) {
		if v := s.variants[index]; v != nil {
			by.overhead[e] = v.policy.overhead(wire.Encoding(e))
		}
	}
	s.probing.Store(by)
}

// ProbeOverhead is the number of bytes that a mark adds to a path probe.
func (s *Source) ProbeOverhead(e wire.Encoding) int { return s.probing.Load().overhead[e] }

// Tagged reports whether any marks carry a tag.
func (s *Source) Tagged() bool { return s.probing.Load().tagged }

func (s *Source) checkPolicies(policies []Policy, rules []Rule) error {
	switch {
	case s.everyPacket:
		return fmt.Errorf("%w: this source marks every packet", ErrPolicies)
	case len(policies) == 0 || len(policies) > PoliciesMax:
		return fmt.Errorf("%w: %d policies, 1 to %d are possible", ErrPolicies, len(policies), PoliciesMax)
	case len(rules) > RulesMax:
		return fmt.Errorf("%w: %d rules, at most %d", fivetuple.ErrFilter, len(rules), RulesMax)
	}
	for i, p := range policies {
		if err := p.check(); err != nil {
			return fmt.Errorf("policy %d: %w", i, err)
		}
	}
	for i, rule := range rules {
		if rule.Policy < 0 || rule.Policy >= len(policies) {
			return fmt.Errorf("rule %d: %w: no policy %d of %d", i, ErrPolicies, rule.Policy, len(policies))
		}
	}
	return nil
}

// place assigns to each policy the index that identifies it in the programs: the index of its variant if
// one is loaded, so that its flows continue. It loads variants of the other policies. replaced are the
// variants of ended policies whose indices the new variants take.
//
// anew says that rules change as well. Then a policy with another sampling counts as a new one, so that no
// packet sees the new sampling with the old rules; the numbers of aggregates would not continue.
func (s *Source) place(policies []Policy, anew bool) (places []int, replaced []*variant, err error) {
	places, taken := s.keep(policies, anew)
	loaded := map[int]*variant{}
	for i, p := range policies {
		if places[i] >= 0 {
			continue
		}
		index := slices.IndexFunc(indices[:], func(k int) bool { return !taken[k] && s.variants[k] == nil })
		if index < 0 {
			index = slices.Index(taken[:], false)
		}
		v, err := s.loadVariant(index, p)
		if err != nil {
			for _, other := range loaded {
				err = errors.Join(err, other.close())
			}
			return nil, nil, fmt.Errorf("policy %d: %w", i, err)
		}
		taken[index], places[i], loaded[index] = true, index, v
	}
	for index, v := range loaded {
		if s.variants[index] != nil {
			replaced = append(replaced, s.variants[index])
		}
		s.variants[index], s.loaded[index] = v, true
		if s.since[index], err = s.policyTally(index); err != nil {
			return nil, nil, err
		}
	}
	return places, replaced, nil
}

// keep returns the indices of policies whose variants are loaded, -1 for the others, and which
// indices are kept.
func (s *Source) keep(policies []Policy, anew bool) (places []int, taken [PoliciesMax]bool) {
	places = make([]int, len(policies))
	for i, p := range policies {
		places[i] = slices.IndexFunc(indices[:], func(k int) bool {
			return !taken[k] && s.variants[k] != nil && s.variants[k].policy.same(p) &&
				(!anew || p.Flow != flow.All || s.variants[k].policy.Sampling == p.Sampling)
		})
		if places[i] >= 0 {
			taken[places[i]] = true
		}
	}
	return places, taken
}

// indices are the possible indices of policies.
var indices = func() (all [PoliciesMax]int) {
	for i := range all {
		all[i] = i
	}
	return all
}()
