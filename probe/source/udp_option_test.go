package source

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"pillion.dev/probe/flow"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
	"pillion.dev/wire/test/codec"
)

// inOptions marks what the list allows, UDP in options first.
func inOptions(modules wire.Module, others ...wire.Encoding) Settings {
	return Settings{Policy: Policy{Modules: modules, Encodings: append(wire.EncodingList{wire.UDPOption}, others...), Marking: wire.Marking{StampEvery: 1}}}
}

func datagram(source string, sport uint16) []byte {
	return ipv4(source, "198.51.100.2", 17, ported(sport, 2, []byte("x")))
}

// TestUDPOptionApplies: to UDP right behind the IP header that this host sends; others get
// the next encoding of the list.
func TestUDPOptionApplies(t *testing.T) {
	plain6 := ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, []byte("odd")))
	surplus := datagram("192.0.2.1", 1)
	surplus = append(surplus, 1, 2, 3)
	rows := []struct {
		name   string
		packet []byte
		want   wire.Encoding
		left   string // unmarked for this reason
	}{
		{"IPv4", plain4, wire.UDPOption, ""},
		{"IPv6", plain6, wire.UDPOption, ""},
		{"TCP", ipv4("192.0.2.1", "198.51.100.2", 6, tcp(1, 2, 0x10, nil, nil)), wire.UDP, ""},
		{"IPv4 options", ipv4Options("192.0.2.1", "198.51.100.2", 17, make([]byte, 4), ported(1, 2, nil)), wire.UDP, ""},
		{"hop-by-hop", ipv6("2001:db8::1", "2001:db8::2", 0, append([]byte{17, 0, 1, 4, 0, 0, 0, 0}, ported(1, 2, nil)...)), wire.Native, ""},
		{"SIP, which NAT rewrites", ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 5060, nil)), wire.UDP, ""},
		{"padding of a short frame", append(bytes.Clone(plain4), 0, 0), wire.UDP, ""},
		{"a surplus area", seal4(surplus), 0, "existing_option"},
		{"UDP length above that of the packet", ipv4("192.0.2.1", "198.51.100.2", 17, []byte{0, 1, 0, 2, 0, 9, 0, 0}), wire.UDP, ""},
		{"multicast", ipv6("2001:db8::1", "ff02::1", 17, ported(1, 2, nil)), 0, "multicast"},
		{"broadcast", ipv4("192.0.2.1", "255.255.255.255", 17, ported(1, 2, nil)), 0, "multicast"},
		{"what looks like a mark in UDP", ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, wire.Port, nil)), 0, "existing_option"},
	}
	s := open(t, inOptions(wire.Delay|wire.Loss, wire.Native, wire.UDP))
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.left != "" {
				if got := s.outcome(t, row.packet); got != row.left {
					t.Errorf("got %s, want %s", got, row.left)
				}
				return
			}
			out := run(t, s.objects.SourceTc, row.packet)
			if row.name == "padding of a short frame" {
				out = out[:len(out)-2]
			}
			_, _, encoding, err := codec.Extract(out, wire.Port)
			if err != nil || encoding != row.want {
				t.Errorf("%x: %v, %v, want %v", out, encoding, err, row.want)
			}
		})
	}
}

// TestForwardedIsNotLocal: what came in by a device gets no option.
func TestForwardedIsNotLocal(t *testing.T) {
	const ingressOffset, contextSize = 36, 192 // in struct __sk_buff
	s := open(t, inOptions(wire.Delay, wire.UDP))
	context := make([]byte, contextSize)
	binary.NativeEndian.PutUint32(context[ingressOffset:], 1) // the loopback device
	in := frame(plain4)
	options := ebpf.RunOptions{Data: in, DataOut: make([]byte, len(in)+256), Context: context}
	if _, err := s.objects.SourceTc.Run(&options); err != nil {
		t.Fatal(err)
	}
	if _, _, encoding, err := codec.Extract(options.DataOut[14:], wire.Port); err != nil || encoding != wire.UDP {
		t.Errorf("got %v, %v", encoding, err)
	}
}

// TestEncodingsShareNumbers: the packets of a flow have one sequence, whichever encoding
// they get.
func TestEncodingsShareNumbers(t *testing.T) {
	s := open(t, inOptions(wire.Loss, wire.UDP))
	extended := ipv4Options("192.0.2.1", "198.51.100.2", 17, make([]byte, 4), ported(1, 2, nil))
	first := s.mark(t, plain4).Sequence
	for i, packet := range [][]byte{extended, plain4, extended, extended, plain4} {
		if got, want := s.mark(t, packet).Sequence, (first+1+uint32(i))&wire.SequenceMask; got != want {
			t.Errorf("packet %d has number %d, want %d", i, got, want)
		}
	}
}

// TestFlowsBeyondTheSlots: flows without a slot of their own keep their numbers, too.
func TestFlowsBeyondTheSlots(t *testing.T) {
	settings := inOptions(wire.Loss)
	settings.Flows = 4096
	s := open(t, settings)
	const flows = 3000
	next := map[int]uint32{}
	for range 3 {
		for i := range flows {
			m := s.mark(t, datagram("192.0.2.1", uint16(1000+i)))
			if want, known := next[i]; known && m.Sequence != want {
				t.Fatalf("flow %d: number %d, want %d", i, m.Sequence, want)
			}
			next[i] = (m.Sequence + 1) & wire.SequenceMask
		}
	}
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
	if tally := s.mustTally(t); tally.FlowsStarted != flows || tally.Flows != flows {
		t.Errorf("%d flows started, %d present, want %d", tally.FlowsStarted, tally.Flows, flows)
	}
}

// TestSweepFreesSlots: an idle flow leaves its slot and begins again.
func TestSweepFreesSlots(t *testing.T) {
	settings := inOptions(wire.Loss)
	settings.Idle = 1
	s := open(t, settings)
	s.mark(t, plain4)
	for s.expired == 0 { // until the kernel's tick has come
		if err := s.Renew(Forever); err != nil {
			t.Fatal(err)
		}
		if err := s.Sweep(); err != nil {
			t.Fatal(err)
		}
	}
	if m := s.mark(t, plain4); m.Sequence%codec.FlowStride != 0 {
		t.Errorf("number %d after the flow was removed", m.Sequence)
	}
	if tally := s.mustTally(t); tally.FlowsStarted != 2 || tally.FlowsExpired != 1 {
		t.Errorf("%+v", tally)
	}
}

// TestVerdictsFollowChanges: what a flow remembers ends with the rules, the MTU and the
// paths that it was decided by.
func TestVerdictsFollowChanges(t *testing.T) {
	packet := ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 2, make([]byte, 1300)))
	for _, fields := range []flow.Fields{flow.All, flow.Src | flow.Dst} {
		t.Run(fields.String(), func(t *testing.T) {
			settings := inOptions(wire.Loss)
			settings.Rules, settings.Flow = []fivetuple.Filter{{}}, fields
			s := open(t, settings)
			expect := func(what, want string) {
				t.Helper()
				for range 2 {
					if got := s.outcome(t, packet); got != want {
						t.Errorf("%s: %s, want %s", what, got, want)
					}
				}
			}
			change := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			other := []netip.Addr{netip.MustParseAddr("198.51.100.9")}
			expect("at first", "marked")
			change(s.SetRules(nil, nil))
			expect("no rule", "no_match")
			change(s.SetRules([]fivetuple.Filter{{}}, other))
			expect("another target", "no_match")
			change(s.SetRules([]fivetuple.Filter{{}}, append(other, netip.MustParseAddr("198.51.100.2"))))
			expect("this target", "marked")
			change(s.Follow(hook.Device{MTU: 1300}))
			expect("small MTU", "mtu")
			change(s.Follow(hook.Device{MTU: 1500}))
			expect("large MTU", "marked")
			run(t, s.objects.SourceReturn, tooBig(run(t, s.objects.SourceTc, packet)[:28], 1340))
			expect("path MTU", "mtu")
		})
	}
}
