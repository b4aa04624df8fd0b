package destination

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// forge is one way to spoil a marked packet.
var forgeries = []struct {
	name  string
	forge func(*rand.Rand, []byte) []byte
}{
	{"one bit", func(r *rand.Rand, b []byte) []byte { return flip(r, b, 1) }},
	{"some bits", func(r *rand.Rand, b []byte) []byte { return flip(r, b, 2+r.IntN(8)) }},
	{"one byte of the headers", func(r *rand.Rand, b []byte) []byte {
		b[r.IntN(min(len(b), 96))] = byte(r.Uint32())
		return b
	}},
	{"cut short", func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b))] }},
	{"cut short, lengths right", func(r *rand.Rand, b []byte) []byte { return seal(b[:1+r.IntN(len(b)-1)]) }},
	{"one byte of the headers, checksum right", func(r *rand.Rand, b []byte) []byte {
		b[r.IntN(min(len(b), 96))] = byte(r.Uint32())
		return seal(b)
	}},
	{"a small number in the headers", func(r *rand.Rand, b []byte) []byte {
		b[r.IntN(min(len(b), 96))] = byte(r.IntN(64))
		return seal(b)
	}},
	{"bytes in between", func(r *rand.Rand, b []byte) []byte {
		at := r.IntN(len(b))
		return seal(append(b[:at:at], append(make([]byte, 1+r.IntN(32)), b[at:]...)...))
	}},
	{"bytes taken out", func(r *rand.Rand, b []byte) []byte {
		at := r.IntN(len(b))
		return seal(append(b[:at:at], b[min(len(b), at+1+r.IntN(32)):]...))
	}},
	{"another inner address", func(r *rand.Rand, b []byte) []byte {
		if at := 32 + r.IntN(20); at < len(b) {
			b[at] ^= 1 << r.IntN(8)
		}
		return b
	}},
}

func flip(r *rand.Rand, b []byte, bits int) []byte {
	for range bits {
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
	}
	return b
}

// seal puts length and checksum of the outermost header right.
func seal(b []byte) []byte {
	switch {
	case len(b) >= 40 && b[0]>>4 == 6:
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
	case len(b) >= 20 && b[0] == 0x45:
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		binary.BigEndian.PutUint16(b[10:], 0)
		var sum uint32
		for i := 0; i < 20; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(b[i:]))
		}
		sum = sum>>16 + sum&0xffff
		binary.BigEndian.PutUint16(b[10:], ^uint16(sum+sum>>16))
	}
	return b
}

// leftToTheKernel says that the programs need not see what is wrong with a packet
// that codec.Extract refuses. They do not sum IPv4 headers: a wrong sum is dropped
// by the device or by the IP layer right behind the hook. They take padding behind
// the IP packet for what it is (a short Ethernet frame has it).
func leftToTheKernel(packet []byte, err error, port uint16) bool {
	if errors.Is(err, codec.ErrChecksum) {
		return true
	}
	total := 0
	switch {
	case len(packet) >= 40 && packet[0]>>4 == 6:
		total = 40 + int(binary.BigEndian.Uint16(packet[4:]))
	case len(packet) >= 20 && packet[0]>>4 == 4:
		total = int(binary.BigEndian.Uint16(packet[2:]))
	}
	if total == 0 || total >= len(packet) || !errors.Is(err, codec.ErrLength) {
		return false
	}
	_, _, _, err = codec.Extract(packet[:total], port)
	return err == nil || errors.Is(err, codec.ErrChecksum) || errors.Is(err, codec.ErrForeign)
}

// forgedFrame keeps the ethertype of the vector, whatever the version says.
func forgedFrame(v codec.Vector, packet []byte) []byte {
	return append(frame(v.Marked)[:14:14], packet...)
}

// TestForgedMarksPass sends 100,000 packets that are no marks, though they were
// made of marks, and says that not one is changed or believed. An option of a standard that is
// whole may be read beside one that is unknown here, as whoever wrote it; the packet stays as it is.
func TestForgedMarksPass(t *testing.T) {
	const want = 100_000
	d := open(t, Settings{})
	all := golden(t)
	random := rand.New(rand.NewPCG(7, 7))
	var sent, refused, left, real, foreign uint64
	reasons := map[string]int{}
	for sent < want {
		v := all[random.IntN(len(all))]
		f := forgeries[random.IntN(len(forgeries))]
		packet := f.forge(random, append([]byte(nil), v.Marked...))
		if v.Port != wire.Port {
			continue
		}
		_, _, _, err := codec.Extract(packet, v.Port)
		if err == nil || errors.Is(err, codec.ErrForeign) {
			real++
			continue
		}
		if leftToTheKernel(packet, err, v.Port) {
			left++
			continue
		}
		in := forgedFrame(v, packet)
		program := d.objects.DestinationTc
		if sent%2 == 1 {
			program = d.objects.DestinationXdp
		}
		out, code, err := tryRun(program, in, 0)
		if err != nil {
			refused++ // by the kernel, before the program
			reasons[err.Error()]++
			continue
		}
		sent++
		if kept := d.mustTally(t).Kept; kept != foreign {
			foreign = kept
			if option := standardOption(v); option == nil || !bytes.Contains(packet, option) {
				t.Errorf("%s of %q was read: %x", f.name, v.Name, packet)
			}
		}
		if code != 0 || string(out) != string(in) {
			t.Fatalf("%s of %q was changed, code %d:\nin  %x\nout %x", f.name, v.Name, int32(code), in, out)
		}
	}
	tally := d.mustTally(t)
	if tally.Packets != foreign || tally.Kept != foreign || tally.Seen != sent || tally.Unmarked+tally.Rejected+foreign != sent {
		t.Errorf("of %d forged packets: %+v", sent, tally)
	}
	if flows := d.takeFlows(t); uint64(len(flows)) > foreign {
		t.Errorf("%d flows of forged packets", len(flows))
	}
	t.Logf("%d sent, %d unmarked, rejected: %v; not sent: %d still marks, %d left to the kernel, %d by the kernel %v",
		sent, tally.Unmarked, tally.Reasons, real, left, refused, reasons)
}

// standardOption returns the option of a standard in a vector that says what was sent, or nil.
func standardOption(v codec.Vector) []byte {
	if v.Encoding.Carries()&wire.CarriesSparse != 0 || v.Marked[0]>>4 != 6 {
		return nil
	}
	for header := v.Marked[40:]; ; {
		for at := 2; at < 8*(1+int(header[1])); {
			length := 2 + int(header[at+1])
			switch header[at] {
			case 0: // Pad1
				length = 1
			case 1, codec.OptionIOAMHops:
			default:
				return header[at : at+length]
			}
			at += length
		}
		header = header[8*(1+int(header[1])):]
	}
}

// TestAggregatesOfNoFlow: an experiment identifier that names no field of flows, or all of them,
// is one of no mark.
func TestAggregatesOfNoFlow(t *testing.T) {
	d := open(t, Settings{})
	var sent uint64
	for _, v := range golden(t) {
		at := bytes.LastIndex(v.Marked, binary.BigEndian.AppendUint16(nil, codec.ExID))
		if v.Encoding != wire.TCPOption || v.Mark.Modules&wire.Loss == 0 || at < 0 {
			continue
		}
		for _, fields := range []uint16{0, uint16(flow.All)} {
			packet := bytes.Clone(v.Marked)
			binary.BigEndian.PutUint16(packet[at:], codec.ExIDAggregate|fields)
			in := forgedFrame(v, packet)
			for _, program := range []*ebpf.Program{d.objects.DestinationTc, d.objects.DestinationXdp} {
				if out, code, err := tryRun(program, in, 0); err != nil || code != 0 || !bytes.Equal(out, in) {
					t.Errorf("%s: code %d, %v", v.Name, int32(code), err)
				}
				sent++
			}
		}
	}
	if tally := d.mustTally(t); tally.Rejected != sent || sent == 0 {
		t.Errorf("of %d packets: %+v", sent, tally)
	}
}

// TestCorruptMarksDoNotCrash sends everything else that forgeries make, among it
// real marks with other contents, and says that every packet is accounted for.
func TestCorruptMarksDoNotCrash(t *testing.T) {
	d := open(t, Settings{Flows: 64})
	all := golden(t)
	random := rand.New(rand.NewPCG(8, 8))
	var sent uint64
	for sent < 20_000 {
		v := all[random.IntN(len(all))]
		packet := forgeries[random.IntN(len(forgeries))].forge(random, append([]byte(nil), v.Marked...))
		original, _, _, broken := codec.Extract(packet, wire.Port)
		in := forgedFrame(v, packet)
		program := d.objects.DestinationTc
		if sent%2 == 1 {
			program = d.objects.DestinationXdp
		}
		out, code, err := tryRun(program, in, 0)
		if err != nil {
			continue
		}
		sent++
		if code != 0 {
			t.Fatalf("%x: program returned %d", in, int32(code))
		}
		if broken == nil && string(out[14:]) != string(original) && string(out) != string(in) {
			t.Fatalf("%x\nbecame %x\nwant   %x", packet, out[14:], original)
		}
	}
	tally := d.mustTally(t)
	if tally.Seen != sent || tally.Packets+tally.Unmarked+tally.Rejected != sent || tally.Packets == 0 {
		t.Errorf("of %d packets: %+v", sent, tally)
	}
	if tally.Restored+tally.Unrestored+tally.Kept+tally.Counted != tally.Packets || tally.Unrestored != 0 {
		t.Errorf("not restored: %+v", tally)
	}
	var packets uint64
	for _, f := range d.takeFlows(t) {
		packets += f.Packets + f.Window.Pending
	}
	if packets+tally.FlowsFull+tally.Contended != tally.Packets {
		t.Errorf("flows have %d packets: %+v", packets, tally)
	}
}

func TestMarksAreAcceptedFromPeersOnly(t *testing.T) {
	rows := []struct {
		name     string
		peers    []string
		believed func(k flow.Key) bool
	}{
		{"unknown peers", []string{"203.0.113.0/24", "2001:db8:ffff::/48"}, func(flow.Key) bool { return false }},
		{"IPv4 only", []string{"192.0.2.1/32"}, func(k flow.Key) bool { return k.Src.Is4() }},
		{"IPv6 only", []string{"2001:db8::/32"}, func(k flow.Key) bool { return k.Src.Is6() }},
		{"every IPv4 host is no IPv6 host", []string{"0.0.0.0/0"}, func(k flow.Key) bool { return k.Src.Is4() }},
		{"the destination is not the peer", []string{"198.51.100.2/32", "2001:db8::2/128"}, func(flow.Key) bool { return false }},
		{"both", []string{"192.0.2.0/24", "2001:db8::1/128"}, func(flow.Key) bool { return true }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			peers := Peers{}
			for _, p := range row.peers {
				peers[netip.MustParsePrefix(p)] = Peer{}
			}
			d := open(t, Settings{Peers: Peers{netip.MustParsePrefix("192.0.2.1/32"): {}, netip.MustParsePrefix("::/0"): {}}})
			if err := d.Accept(peers, nil); err != nil {
				t.Fatal(err)
			}
			var believed, forged uint64
			for _, hook := range hooks[:2] {
				for _, v := range golden(t) {
					if v.Port != wire.Port {
						continue
					}
					want := frame(v.Marked)
					if row.believed(keyOf(v.Original)) {
						want = frame(restored(v))
						believed++
					} else {
						forged++
					}
					checkFrame(t, run(t, hook.program(d), frame(v.Marked), 0), want)
				}
			}
			tally := d.mustTally(t)
			if tally.Packets != believed || tally.Reasons["peer"] != forged || tally.Rejected != forged {
				t.Errorf("%d believed, %d forged: %+v", believed, forged, tally)
			}
			if flows := d.takeFlows(t); len(flows) == 0 != (believed == 0) {
				t.Errorf("%d flows", len(flows))
			}
		})
	}
}

func TestRejectionsAreNamed(t *testing.T) {
	d := open(t, Settings{})
	find := func(prefix string) []byte {
		for _, v := range golden(t) {
			if fmt.Sprint(v.Name) == prefix {
				return append([]byte(nil), v.Marked...)
			}
		}
		t.Fatalf("no vector %q", prefix)
		return nil
	}
	change := func(b []byte, at int, to byte) []byte { b[at] = to; return seal(b) }
	rows := []struct {
		name, reason string
		packet       []byte
	}{
		{"option of another length", "malformed", change(find("native loss ipv6 unknown"), 43, 5)},
		{"padding of another length", "malformed", change(find("native delay ipv6 unknown"), 61, 1)},
		{"header of another length", "malformed", change(find("native delay ipv6 unknown"), 41, 1)},
		{"Hop-by-Hop header behind", "malformed", change(find("native loss ipv6 unknown"), 40, 0)},
		{"version 4 in an IPv6 frame", "malformed", change(find("native loss ipv6 unknown"), 0, 0x40)},
		{"shim of another length", "malformed", change(find("shim loss ipv4 udp"), 22, 5)},
		{"shim of another type", "malformed", change(find("shim loss ipv4 udp"), 20, 4)},
		{"shim in a fragment", "malformed", change(find("shim loss ipv4 udp"), 6, 0x20)},
		{"inner source", "inner", change(find("ipip loss ipv4 udp"), 32, 1)},
		{"inner destination", "inner", change(find("udp loss ipv4 udp"), 53, 1)},
		{"inner length", "inner", change(find("ipip loss ipv4 udp"), 23, 30)},
		{"UDP length", "malformed", change(find("udp loss ipv4 udp"), 25, 9)},
		{"TCP option without number and time", "malformed", change(change(find("tcp-option burst, unstamped"), 47, 0), 44, 0)},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			in := frame(row.packet)
			if row.packet[0] == 0x40 {
				in[12], in[13] = 0x86, 0xdd
			}
			for _, hook := range hooks[:2] {
				before := d.mustTally(t)
				checkFrame(t, run(t, hook.program(d), in, 0), in)
				after := d.mustTally(t)
				if after.Reasons[row.reason]-before.Reasons[row.reason] != 1 || after.Rejected-before.Rejected != 1 {
					t.Errorf("%s: %v, then %v", hook.name, before.Reasons, after.Reasons)
				}
			}
		})
	}
}

func TestEveryRejectionHasAName(t *testing.T) {
	if got, want := len(rejectedNames), int(destinationVerdictVERDICTS-destinationVerdictVERDICT_MALFORMED); got != want {
		t.Errorf("%d names for %d verdicts", got, want)
	}
}
