package source

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
	"pillion.dev/wire/test/codec"
)

// toPort is a rule for datagrams to a port.
func toPort(port uint16, policy int) Rule {
	return Rule{Filter: fivetuple.Filter{Protocol: 17, HasProtocol: true, Dport: port}, Policy: policy}
}

// leave sends a packet through what is on the device, and returns what leaves.
func (s *Source) leave(t *testing.T, packet []byte) []byte {
	t.Helper()
	return run(t, s.entry, packet)
}

// markOf returns the mark of a packet that leaves; its encoding is empty if it has none.
func (s *Source) markOf(t *testing.T, packet []byte) (codec.Mark, string) {
	t.Helper()
	out := s.leave(t, packet)
	if bytes.Equal(out, packet) {
		return codec.Mark{}, ""
	}
	original, m, encoding, err := codec.Extract(out, wire.Port)
	if err != nil || !bytes.Equal(original, packet) {
		t.Fatalf("%x became %x: %v", packet, out, err)
	}
	return m, encoding.String()
}

func (s *Source) setPoliciesOf(t *testing.T, policies []Policy, rules []Rule) {
	t.Helper()
	if err := s.SetPolicies(policies, rules, nil); err != nil {
		t.Fatal(err)
	}
}

var both = wire.Delay | wire.Loss

// TestPoliciesOfRules: the packets of each rule get exactly the mark of its policy.
func TestPoliciesOfRules(t *testing.T) {
	settings := Settings{Policy: Policy{Modules: both, Encodings: wire.EncodingList{wire.Native}}, StartEmpty: true, Flows: 4096}
	s := open(t, settings)
	policies := []Policy{
		{Modules: both, Encodings: wire.EncodingList{wire.Native}, Marking: wire.Marking{StampEvery: 1}},
		{Modules: wire.Loss, Encodings: wire.EncodingList{wire.UDPOption}, Marking: wire.Marking{Sampling: wire.Sampling{Every: 10}}},
		{Modules: both, Encodings: wire.EncodingList{wire.Shim}, Tagged: true, Marking: wire.Marking{StampEvery: 1, Sampling: wire.Sampling{Random: 2}}},
		{Modules: both, Encodings: wire.EncodingList{wire.Native, wire.UDP}, Marking: wire.Marking{StampEvery: 1, Flow: flow.Src | flow.Dst}},
	}
	// The last rule is wider than the others: the first that fits counts.
	rules := []Rule{toPort(1001, 0), toPort(1002, 1), toPort(1003, 2), toPort(1004, 3), {Filter: fivetuple.Filter{Protocol: 58, HasProtocol: true}, Policy: 3}}
	s.setPoliciesOf(t, policies, rules)
	keys := map[netip.Prefix]wire.Key{everywhere[0]: pairKey}
	if err := s.SetKeys(keys); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time with the first policy elsewhere in the list
		s.checkPoliciesOfRules(t)
		policies = append(policies[1:], policies[0])
		for i := range rules {
			rules[i].Policy = (rules[i].Policy + 3) % 4
		}
		if !s.fits(policies) {
			t.Error("the same policies in another order do not fit")
		}
		s.setPoliciesOf(t, policies, rules)
	}
	tally := s.mustTally(t)
	if tally.Skipped["no_room"] != 0 || tally.Skipped["no_match"] != 2 {
		t.Errorf("tally %+v", tally)
	}
}

// fits reports whether SetPolicies needs to load no program for these.
func (s *Source) fits(policies []Policy) bool {
	complete := make([]Policy, len(policies))
	for i, p := range policies {
		complete[i] = p.complete()
	}
	places, _ := s.keep(complete, false)
	return !slices.Contains(places, -1)
}

// checkPoliciesOfRules sends packets to the ports of TestPoliciesOfRules.
func (s *Source) checkPoliciesOfRules(t *testing.T) {
	t.Helper()
	six := func(sport, dport uint16) []byte {
		return ipv6("2001:db8::1", "2001:db8::2", 17, ported(sport, dport, []byte("x")))
	}
	four := func(sport, dport uint16) []byte {
		return ipv4("192.0.2.1", "198.51.100.2", 17, ported(sport, dport, []byte("x")))
	}
	// (a) every packet, with a time, in native
	first, encoding := s.markOf(t, six(7, 1001))
	if encoding != "native" || first.Modules != both || first.Tagged {
		t.Errorf("policy 0: %v %+v", encoding, first)
	}
	if m, _ := s.markOf(t, six(7, 1001)); m.Sequence != (first.Sequence+1)&wire.SequenceMask {
		t.Errorf("policy 0: number %d after %d", m.Sequence, first.Sequence)
	}
	// (b) one in ten, numbers alone
	marked := 0
	for range 100 {
		if m, encoding := s.markOf(t, four(7, 1002)); encoding != "" {
			if encoding != "udp-option" || m.Modules != wire.Loss {
				t.Fatalf("policy 1: %v %+v", encoding, m)
			}
			marked++
		}
	}
	if marked != 10 {
		t.Errorf("policy 1: %d of 100 marked, want 10", marked)
	}
	// (c) with a tag, at random
	marked = 0
	for range 200 {
		if m, encoding := s.markOf(t, four(7, 1003)); encoding != "" {
			if encoding != "shim" || !m.Tagged || m.Modules != both {
				t.Fatalf("policy 2: %v %+v", encoding, m)
			}
			marked++
		}
	}
	if marked < 50 || marked > 150 {
		t.Errorf("policy 2: %d of 200 marked, want half", marked)
	}
	// (d) one flow of all ports, and of ICMP, which has none
	last, encoding := s.markOf(t, six(7, 1004))
	if encoding != "native" || last.Tagged {
		t.Errorf("policy 3: %v %+v", encoding, last)
	}
	for i, packet := range [][]byte{six(8, 1004), six(9, 1004), ipv6("2001:db8::1", "2001:db8::2", 58, []byte{128, 0, 0, 0, 1, 2, 0, 1})} {
		if m, _ := s.markOf(t, packet); m.Sequence != (last.Sequence+1+uint32(i))&wire.SequenceMask {
			t.Errorf("policy 3: number %d of another flow, the first was %d", m.Sequence, last.Sequence)
		}
	}
	// what no rule wants
	if _, encoding := s.markOf(t, six(7, 1005)); encoding != "" {
		t.Errorf("no rule: marked by %s", encoding)
	}
}

// TestAggregatesOfPolicies: two policies that aggregate by the same fields number their flows
// apart, and apart from the flow of five fields that looks like them.
func TestAggregatesOfPolicies(t *testing.T) {
	s := open(t, Settings{Policy: Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.Native}}, StartEmpty: true})
	one := Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.Native}, Marking: wire.Marking{Flow: flow.Src | flow.Dst | flow.Protocol}}
	other, whole := one, one
	other.Encodings, whole.Flow = wire.EncodingList{wire.UDPOption}, 0
	s.setPoliciesOf(t, []Policy{one, other, whole}, []Rule{toPort(1, 0), toPort(2, 1), {Filter: fivetuple.Filter{}, Policy: 2}})
	numbers := map[uint32]bool{}
	for port := range uint16(3) {
		m, encoding := s.markOf(t, ipv6("2001:db8::1", "2001:db8::2", 17, ported(0, (port+1)%3, []byte("x"))))
		if encoding == "" || numbers[m.Sequence>>16] {
			t.Errorf("port %d: %s, number %d is of another flow: %v", port, encoding, m.Sequence, numbers)
		}
		numbers[m.Sequence>>16] = true
	}
	if tally := s.mustTally(t); tally.FlowsStarted != 3 {
		t.Errorf("%d flows started, want 3", tally.FlowsStarted)
	}
}

func TestBadPolicies(t *testing.T) {
	good := Policy{Modules: both, Encodings: wire.EncodingList{wire.Native}}
	change := func(change func(*Policy)) []Policy {
		p := good
		change(&p)
		return []Policy{good, p}
	}
	for _, row := range []struct {
		name     string
		policies []Policy
		rules    []Rule
		want     error
	}{
		{"none", nil, nil, ErrPolicies},
		{"too many", slices.Repeat([]Policy{good}, PoliciesMax+1), nil, ErrPolicies},
		{"rule of no policy", []Policy{good}, []Rule{{Policy: 1}}, ErrPolicies},
		{"rule below all", []Policy{good}, []Rule{{Policy: -1}}, ErrPolicies},
		{"too many rules", []Policy{good}, make([]Rule, RulesMax+1), fivetuple.ErrFilter},
		{"sparse sample", change(func(p *Policy) { p.SparseMarks, p.Sampling.Every = true, 2 }), nil, ErrSparse},
		{"sparse aggregate", change(func(p *Policy) { p.SparseMarks, p.Flow = true, flow.Src }), nil, ErrSparse},
		{"negative gap", change(func(p *Policy) { p.Sampling.MinGap = -1 }), nil, ErrSampling},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := open(t, Settings{Policy: Policy{Modules: both, Encodings: good.Encodings}, StartEmpty: true})
			if err := s.SetPolicies(row.policies, row.rules, nil); !errors.Is(err, row.want) {
				t.Errorf("got %v, want %v", err, row.want)
			}
		})
	}
	if err := open(t, all(wire.Shim, both)).SetPolicies([]Policy{good}, nil, nil); !errors.Is(err, ErrPolicies) {
		t.Errorf("source of every packet: %v", err)
	}
}

// TestReplaceKeepsNumbers changes from one policy to several and back while packets leave a
// device: each is marked, the numbers of the flow that is in all of them have no gap, and the
// counters continue.
func TestReplaceKeepsNumbers(t *testing.T) {
	name := namespace.New(t)
	for _, clsact := range []bool{false, true} {
		t.Run(fmt.Sprintf("clsact %t", clsact), func(t *testing.T) {
			if err := netns.Do(name, func() error {
				replaceUnderTraffic(t, name, clsact)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// replaceStage is what a source is changed to, and how packets to port 9 travel then.
type replaceStage struct {
	policies []Policy
	rules    []Rule
	encoding wire.Encoding
}

func replaceStages() []replaceStage {
	udp := Policy{Modules: both, Encodings: wire.EncodingList{wire.UDP}, Marking: wire.Marking{StampEvery: 1}}
	shim := Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.Shim}}
	return []replaceStage{
		{[]Policy{udp}, []Rule{{Filter: fivetuple.Filter{}, Policy: 0}}, wire.UDP},
		{[]Policy{udp, shim}, []Rule{toPort(9, 0), {Filter: fivetuple.Filter{}, Policy: 1}}, wire.UDP},
		{[]Policy{shim, udp}, []Rule{toPort(9, 0), {Filter: fivetuple.Filter{}, Policy: 1}}, wire.Shim},
		{[]Policy{shim}, []Rule{{Filter: fivetuple.Filter{}, Policy: 0}}, wire.Shim},
		{[]Policy{udp}, []Rule{{Filter: fivetuple.Filter{}, Policy: 0}}, wire.UDP},
	}
}

func replaceUnderTraffic(t *testing.T, name string, clsact bool) {
	t.Helper()
	// Otherwise the kernel sends router solicitations of its own.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	link, file := tunnel(t, fmt.Sprintf("out-%t", clsact))
	send := sender(t, link)
	device, err := hook.Find(link.Name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(device, Settings{Policy: Policy{Modules: both, Encodings: wire.EncodingList{wire.UDP}, Marking: wire.Marking{StampEvery: 1}}, StartEmpty: true, Clsact: clsact})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := s.Renew(Forever); err != nil {
		t.Fatal(err)
	}
	stages := replaceStages()
	s.setPoliciesOf(t, stages[0].policies, stages[0].rules)
	change := func(stage int) chan error {
		done := make(chan error, 1)
		go func() { // this goroutine has the namespace, that one a lock on its thread
			done <- netns.Do(name, func() error { return s.SetPolicies(stages[stage].policies, stages[stage].rules, nil) })
		}()
		return done
	}
	packet := ipv4("192.0.2.1", "198.51.100.2", 17, ported(7, 9, []byte("x")))
	sent, next := uint64(0), uint32(0)
	one := func() wire.Encoding {
		if err := send(packet); err != nil {
			t.Fatal(err)
		}
		original, m, encoding, err := codec.Extract(receive(t, file), wire.Port)
		if err != nil || !bytes.Equal(original, packet) {
			t.Fatalf("packet %d: %x: %v", sent, original, err)
		}
		if sent > 0 && m.Sequence != next {
			t.Fatalf("packet %d: number %d, want %d", sent, m.Sequence, next)
		}
		sent, next = sent+1, (m.Sequence+1)&wire.SequenceMask
		return encoding
	}
	for round := range 2 * len(stages) {
		stage := round % len(stages)
		done := change(stage)
		for changed := false; !changed; one() {
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				changed = true
			default:
			}
		}
		for range 20 {
			if got := one(); got != stages[stage].encoding {
				t.Fatalf("stage %d: a packet in %v, want %v", stage, got, stages[stage].encoding)
			}
		}
	}
	if tally := s.mustTally(t); tally.Marked != sent || tally.Seen != sent || tally.FlowsStarted != 1 {
		t.Errorf("%d packets sent: %+v", sent, tally)
	}
	if present, err := s.Present(); !present || err != nil {
		t.Errorf("present %t, %v", present, err)
	}
}

// TestReturnOfPolicies: what comes back is heard by the policy of its flow: a SYN leaves room
// for that policy's marks, and an error about a packet is recognised by its mark.
func TestReturnOfPolicies(t *testing.T) {
	s := open(t, Settings{Policy: Policy{Modules: both, Encodings: wire.EncodingList{wire.Native}}, StartEmpty: true})
	policies := []Policy{
		{Modules: wire.Loss, Encodings: wire.EncodingList{wire.Native}},
		{Modules: both, Encodings: wire.EncodingList{wire.UDP}, Marking: wire.Marking{StampEvery: 1}},
		{Modules: both, Encodings: wire.EncodingList{wire.Native, wire.Shim}, Marking: wire.Marking{StampEvery: 1}},
	}
	from := func(prefix string, policy int) Rule {
		return Rule{Filter: fivetuple.Filter{Src: netip.MustParsePrefix(prefix)}, Policy: policy}
	}
	// The SYN below comes from 192.0.2.1 and 2001:db8::1; packets leave from there, too.
	rules := []Rule{
		{Filter: fivetuple.Filter{Protocol: 6, HasProtocol: true, Dst: netip.MustParsePrefix("2001:db8::1/128")}, Policy: 2},
		{Filter: fivetuple.Filter{Protocol: 6, HasProtocol: true, Dst: netip.MustParsePrefix("192.0.2.1/32")}, Policy: 1},
		from("2001:db8::1/128", 2), from("192.0.2.1/32", 1), {Filter: fivetuple.Filter{}, Policy: 0},
	}
	s.setPoliciesOf(t, policies, rules)
	for version, encoding := range map[int]wire.Encoding{4: wire.UDP, 6: wire.Native} {
		got := run(t, s.returning, synOf(version, 0x02, []byte{2, 4, 1460 >> 8, 1460 & 0xff}))
		mss := int(got[len(got)-2])<<8 | int(got[len(got)-1])
		if want := lowered(version, 1460, 1500, encoding.Overhead(both)); mss != want || tcpChecksum(got) != 0 {
			t.Errorf("IPv%d: MSS %d, want %d", version, mss, want)
		}
	}
	if clamped := s.mustTally(t).MSSClamped; clamped != 2 {
		t.Errorf("%d SYN clamped, want 2: one policy alone may change each", clamped)
	}
	for _, packet := range []func(int) []byte{sent4, sent6} {
		sent := s.leave(t, packet(1400))
		run(t, s.returning, tooBig(sent, 1300))
		if _, encoding := s.markOf(t, packet(1280)); encoding != "" {
			t.Errorf("%x: marked by %s beyond the MTU of the path", sent[:8], encoding)
		}
	}
	if skipped := s.mustTally(t).Skipped["mtu"]; skipped != 2 {
		t.Errorf("%d packets too big for the path, want 2", skipped)
	}
}

// TestProbesOfPolicies: a path probe gets the encoding that it names, whichever policy has it.
func TestProbesOfPolicies(t *testing.T) {
	s := open(t, Settings{Policy: Policy{Modules: both, Encodings: wire.EncodingList{wire.Native}}, StartEmpty: true})
	lists := []wire.EncodingList{{wire.Native}, {wire.UDPOption, wire.UDP}, {wire.Shim}}
	var policies []Policy
	for _, list := range lists {
		policies = append(policies, Policy{Modules: both, Encodings: list})
	}
	s.setPoliciesOf(t, policies, []Rule{{Filter: fivetuple.Filter{}, Policy: 0}})
	s.objects.SourceTc = s.entry // which runAs runs
	for _, e := range []wire.Encoding{wire.Native, wire.UDPOption, wire.UDP, wire.Shim} {
		packet := ipv4("192.0.2.1", "198.51.100.2", 17, ported(7, 9, []byte("probe")))
		if e == wire.Native {
			packet = ipv6("2001:db8::1", "2001:db8::2", 17, ported(7, 9, []byte("probe")))
		}
		out := s.runAs(t, packet, map[int]uint32{contextMark: PathProbeMark(e)})
		if _, _, encoding, err := codec.Extract(out, wire.Port); err != nil || encoding != e {
			t.Errorf("%v: %x: %v, %v", e, out, encoding, err)
		}
	}
	if tally := s.mustTally(t); tally.Skipped["probe"] != 4 || tally.Marked != 0 {
		t.Errorf("tally %+v", tally)
	}
}

// TestUniformIsUnchanged: where there is one policy the programs have no code of others. The
// ceilings are what the programs had when policies came to be, and a tenth more.
func TestUniformIsUnchanged(t *testing.T) {
	for _, row := range []struct {
		name          string
		settings      Settings
		fast, general int
	}{
		{"default", Settings{Policy: Policy{Modules: both, Encodings: wire.DefaultEncodings()}}, 3800, 5500},
		{"tagged and validated", Settings{Policy: Policy{Modules: both, Encodings: wire.DefaultEncodings(), Tagged: true}, ValidatePaths: true}, 5500, 7200},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := open(t, row.settings)
			for name, program := range map[string]struct {
				is      *ebpf.Program
				ceiling int
			}{"fast path": {s.variants[0].programs.SourceTc, row.fast}, "general path": {s.variants[0].programs.SourceGeneral, row.general}} {
				info, err := program.is.Info()
				if err != nil {
					t.Fatal(err)
				}
				size, err := info.TranslatedSize()
				if err != nil {
					t.Fatal(err)
				}
				if size/8 > program.ceiling {
					t.Errorf("%s: %d instructions, at most %d expected", name, size/8, program.ceiling)
				}
			}
			if s.dispatcher.Program != nil {
				t.Error("the dispatcher is loaded")
			}
		})
	}
}

// TestIdleOfPolicies: flows leave the table after the idle time of their policy, and what each
// policy did is counted since it began.
func TestIdleOfPolicies(t *testing.T) {
	s := open(t, Settings{Policy: Policy{Modules: both, Encodings: wire.EncodingList{wire.Native}}, StartEmpty: true})
	short := Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.UDPOption}, Marking: wire.Marking{Idle: 1}}
	long := Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.Shim}, Marking: wire.Marking{Sampling: wire.Sampling{Every: 2}}}
	aggregate := Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.Native}, Marking: wire.Marking{Idle: 1, Flow: flow.Src | flow.Dst}}
	rules := []Rule{toPort(1, 0), toPort(2, 1), toPort(3, 2)}
	s.setPoliciesOf(t, []Policy{short, long, aggregate}, rules)
	for port := range uint16(3) {
		for range 4 {
			s.markOf(t, ipv6("2001:db8::1", "2001:db8::2", 17, ported(7, port+1, []byte("x"))))
		}
	}
	// Shim is for IPv4 only.
	for range 4 {
		s.markOf(t, ipv4("192.0.2.1", "198.51.100.2", 17, ported(7, 2, []byte("x"))))
	}
	tallies, err := s.PolicyTallies()
	if err != nil || !slices.Equal(tallies, []PolicyTally{{4, 0}, {2, 2}, {4, 0}}) {
		t.Errorf("tallies %+v, %v", tallies, err)
	}
	for s.expired < 2 { // until the kernel's tick has come
		if err := errors.Join(s.Renew(Forever), s.Sweep()); err != nil {
			t.Fatal(err)
		}
	}
	if s.expired != 2 || s.present != 1 {
		t.Errorf("%d flows expired, %d are left; want those of two policies to expire", s.expired, s.present)
	}
	if native, shim := s.ProbeOverhead(wire.Native), s.ProbeOverhead(wire.Shim); native != wire.Native.Size(wire.Loss, false, true, 0) || shim != wire.Shim.Overhead(wire.Loss) {
		t.Errorf("probes get %d bytes in native, %d in shim", native, shim)
	}
	long.Sampling.Every, short.Encodings = 0, wire.EncodingList{wire.UDP}
	s.setPoliciesOf(t, []Policy{long, short}, []Rule{toPort(2, 0), toPort(1, 1)})
	if tallies, err = s.PolicyTallies(); err != nil || len(tallies) != 2 || tallies[1] != (PolicyTally{}) {
		t.Errorf("tallies after a change %+v, %v", tallies, err)
	}
	if tally := s.mustTally(t); tally.Marked != 10 {
		t.Errorf("%d marked, want 10", tally.Marked)
	}
}
