package lab_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// A path that drops segments with the option costs a connection one timeout.
func TestTCPOptionIsDroppedOnTheWay(t *testing.T) {
	t.Parallel() // it mostly waits
	droppedOnTheWay(t, false)
}

// droppedOnTheWay tries half of the rows, or, long, the others.
func droppedOnTheWay(t *testing.T, long bool) {
	for _, row := range []struct {
		name     string
		box      middlebox
		from, to string
		late     bool // the path changes while data flows
		long     bool
		check    func(sourceSummary) bool
	}{
		{"every segment, ipv6", middlebox{v6: true}, "a", "b", false, false, func(s sourceSummary) bool {
			return s.Connections.Stopped == 1 && s.Marked == 1
		}},
		{"acknowledgements, ipv6", middlebox{v6: true, handshake: true, data: true}, "b", "a", false, true, func(s sourceSummary) bool {
			return s.Connections.WithoutAcks == 1 && s.Skipped["timeout"] != 0
		}},
		{"every segment", middlebox{}, "a", "b", false, true, func(s sourceSummary) bool {
			return s.Connections.Stopped == 1 && s.Marked == 1
		}},
		{"all but the first", middlebox{handshake: true}, "a", "b", false, true, func(s sourceSummary) bool {
			return s.Connections.Stopped == 1 && s.Skipped["timeout"] != 0
		}},
		{"acknowledgements", middlebox{handshake: true, data: true}, "b", "a", false, false, func(s sourceSummary) bool {
			return s.Connections.WithoutAcks == 1 && s.Skipped["timeout"] != 0
		}},
		{"from some time on", middlebox{}, "a", "b", true, false, func(s sourceSummary) bool {
			return s.Connections.Paused > 0 && s.Connections.Stopped == 1
		}},
	} {
		if row.long != long {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := up(t, slowPair)
			s := b.probe("a", "source", "b", tcpOption)
			if !row.late {
				b.insert("b", "a", row.box)
			}
			addresses := map[string]netip.Addr{"a": firstIPv4, "b": secondIPv4}
			if row.box.v6 {
				addresses = map[string]netip.Addr{"a": firstIPv6, "b": secondIPv6}
			}
			x := b.carry(row.from, row.to, addresses[row.to], 20<<20)
			if row.late {
				x.midway()
				b.insert("b", "a", row.box)
			}
			x.finish()
			var marked sourceSummary
			s.finish(&marked)
			if !row.check(marked) {
				t.Errorf("%+v", marked)
			}
		})
	}
}

// After three connections in a row the path to a destination is known to drop marks: later
// connections carry none, and wait for no timeout.
func TestTCPOptionAvoidsBlackHoles(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := up(t, pair)
			s := b.probe("a", "source", "b", tcpOption)
			b.insert("b", "a", middlebox{v6: address.Is6()})
			for range 5 {
				b.carry("a", "b", address, 1<<16).finish()
			}
			var marked sourceSummary
			s.finish(&marked)
			if marked.Connections.Stopped != 3 || marked.Connections.Avoided != 2 || marked.Marked != 3 {
				t.Errorf("%+v", marked)
			}
		})
	}
}

// A middlebox that removes the option hides the marks from the destination, and nothing
// else: no timeout, no byte.
func TestTCPOptionIsStripped(t *testing.T) {
	t.Parallel() // it mostly waits
	strippedOnTheWay(t, false)
}

// strippedOnTheWay tries half of the combinations, or, long, the others.
func strippedOnTheWay(t *testing.T, long bool) {
	for name, address := range toB {
		for features, offload := range map[string]string{"as it comes": "", "checksums computed by the sender": "tx off"} {
			if long == (address.Is6() == (offload == "")) {
				continue
			}
			t.Run(name+", "+features, func(t *testing.T) {
				t.Parallel() // it mostly waits
				b := up(t, pair)
				b.offload("a", "b", offload)
				d := b.probe("b", "destination", "a")
				b.insert("b", "a", middlebox{v6: address.Is6(), action: strip}) // before it
				s := b.probe("a", "source", "b", tcpOption)
				b.carry("a", "b", address, 8<<20).finish()
				marked, read := both(s, d)
				if marked.Connections.Marked != 1 || marked.Connections.Stopped+marked.Connections.Paused != 0 || marked.Marked == 0 {
					t.Errorf("%+v", marked)
				}
				if read.Packets != 0 || read.Unmarked < marked.Marked {
					t.Errorf("%+v, marked %d", read, marked.Marked)
				}
			})
		}
	}
}

// A middlebox that changes the option and leaves the checksum as it was drops it in effect.
func TestTCPOptionIsCorrupted(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := up(t, pair)
			b.offload("a", "b", "tx off")
			b.insert("b", "a", middlebox{v6: address.Is6(), action: corrupt})
			s := b.probe("a", "source", "b", tcpOption)
			b.carry("a", "b", address, 8<<20).finish()
			var marked sourceSummary
			s.finish(&marked)
			if marked.Connections.Stopped != 1 || marked.Marked != 1 {
				t.Errorf("%+v", marked)
			}
		})
	}
}

// middlebox acts on the segments of one IP version that have one of the experimental
// options last, but for those that it lets through.
type middlebox struct {
	v6              bool
	handshake, data bool // these pass
	action          action
}

type action int

const (
	drop action = iota
	strip
	corrupt
)

// Offsets in a frame without IPv4 options and IPv6 extension headers.
const ethertypeAt = 12

type layout struct{ ethertype, protocolAt, lengthAt, headers, tcpAt int32 }

// headers: how much of the length is not TCP.
func (m middlebox) layout() layout {
	if m.v6 {
		return layout{unix.ETH_P_IPV6, 20, 18, 0, 54}
	}
	return layout{unix.ETH_P_IP, 23, 16, 20, 34}
}

func (m middlebox) program() asm.Instructions {
	const syn, option, pass, shot = 2, 12, -1, 2
	const marked, room = 0xfd0c504c - 1<<32, 0xfe0c504c - 1<<32 // the first word of the option, of either kind
	at := m.layout()
	program := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadAbs(ethertypeAt, asm.Half),
		asm.JNE.Imm(asm.R0, at.ethertype, "pass"),
		asm.LoadAbs(at.protocolAt, asm.Byte),
		asm.JNE.Imm(asm.R0, unix.IPPROTO_TCP, "pass"),
		asm.LoadAbs(at.tcpAt+12, asm.Byte),
		asm.RSh.Imm(asm.R0, 4),
		asm.LSh.Imm(asm.R0, 2),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.JLT.Imm(asm.R7, 20+option, "pass"),
	}
	if m.handshake {
		program = append(program, asm.LoadAbs(at.tcpAt+13, asm.Byte), asm.And.Imm(asm.R0, syn), asm.JNE.Imm(asm.R0, 0, "pass"))
	}
	if m.data {
		program = append(program,
			asm.LoadAbs(at.lengthAt, asm.Half), asm.Sub.Imm(asm.R0, at.headers), asm.Sub.Reg(asm.R0, asm.R7), asm.JNE.Imm(asm.R0, 0, "pass"))
	}
	return append(slices.Concat(program, asm.Instructions{
		asm.LoadInd(asm.R0, asm.R7, at.tcpAt-option, asm.Word),
		asm.Add.Imm(asm.R7, at.tcpAt-option),
		asm.JEq.Imm32(asm.R0, marked, "act"),
		asm.JEq.Imm32(asm.R0, room, "act"),
		asm.Mov.Imm(asm.R0, pass).WithSymbol("pass"),
		asm.Return(),
	}, m.act(at)), asm.Mov.Imm(asm.R0, map[bool]int32{true: shot, false: pass}[m.action == drop]), asm.Return())
}

// act changes the option, of which R7 is the offset in the frame.
func (m middlebox) act(at layout) asm.Instructions {
	const option, was, becomes, nops = 12, -16, -32, 0x01010101
	act := asm.Instructions{asm.Mov.Reg(asm.R8, asm.R7).WithSymbol("act")}
	if m.action == drop {
		return act
	}
	for i := range int16(option / 4) {
		act = append(act, asm.StoreImm(asm.RFP, becomes+4*i, nops, asm.Word))
	}
	if m.action == strip { // as a device that computes the checksum again
		act = append(act,
			asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Reg(asm.R2, asm.R7), asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, was), asm.Mov.Imm(asm.R4, option),
			asm.FnSkbLoadBytes.Call(),
			asm.JNE.Imm(asm.R0, 0, "pass"),
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, was), asm.Mov.Imm(asm.R2, option),
			asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, becomes), asm.Mov.Imm(asm.R4, option), asm.Mov.Imm(asm.R5, 0),
			asm.FnCsumDiff.Call(),
			asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, at.tcpAt+16), asm.Mov.Imm(asm.R3, 0), asm.Mov.Reg(asm.R4, asm.R0), asm.Mov.Imm(asm.R5, 0),
			asm.FnL4CsumReplace.Call())
	}
	return append(act,
		asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Reg(asm.R2, asm.R8), asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, becomes), asm.Mov.Imm(asm.R4, option), asm.Mov.Imm(asm.R5, 0),
		asm.FnSkbStoreBytes.Call())
}

// insert puts a middlebox before a device of a host, until the link is closed.
func (b *bed) insert(host, device string, m interface{ program() asm.Instructions }) link.Link {
	b.t.Helper()
	return b.attach(host, device, ebpf.AttachTCXIngress, link.Head(), "middlebox", m.program())
}
