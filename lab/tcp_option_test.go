package lab_test

import (
	"net/netip"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pillion.dev/lab/test/packets"
)

const tcpOption = "--encoding=tcp-option"

// Marks of connections are exact on a link that loses some of them: numbered in the order
// in which they leave, also when they are sent again.
func TestTCPOptionTruth(t *testing.T) {
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			b := up(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {seed: 5, delay: 1ms, loss: 0.5%, queue: 100000}\n")
			d := b.probe("b", "destination", "a")
			s := b.probe("a", "source", "b", tcpOption, "--filter", "proto=tcp")
			b.carry("a", "b", address, 20<<20).finish()
			truth := b.settled("a-b", "a", 1)
			marked, read := both(s, d)
			if truth.Unread != 0 {
				t.Skipf("emulator did not read %d frames: this machine is too slow", truth.Unread)
			}
			sent := truth.Marked
			if marked.Marked != sent.Offered || read.Packets != sent.Delivered {
				t.Errorf("marked %d of %d on the link, read %d of %d", marked.Marked, sent.Offered, read.Packets, sent.Delivered)
			}
			// What was lost behind the last packet that arrived is not known yet.
			if sent.Lost == 0 || read.Lost > sent.Lost || read.Lost+3 < sent.Lost || read.Duplicated+read.Late+read.Restarts != 0 {
				t.Errorf("lost %d of %d: %+v", read.Lost, sent.Lost, read)
			}
			t.Logf("%+v %+v", marked, read)
		})
	}
}

// A host that does not know marks receives everything.
func TestTCPOptionWithoutDestination(t *testing.T) {
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			b := up(t, pair)
			s := b.probe("a", "source", "b", tcpOption)
			b.carry("a", "b", address, 20<<20).finish()
			b.datagrams("a", "b", address, 100, 1000)
			var marked sourceSummary
			s.finish(&marked)
			if marked.Marked < 1000 || marked.Connections.Marked != 1 || marked.Connections.Stopped != 0 || marked.MSSClamped != 0 {
				t.Errorf("%+v", marked)
			}
		})
	}
}

// The segment size leaves exactly the room that marks take: full segments fill a frame.
func TestTCPOptionSegmentSize(t *testing.T) {
	const frame = 14 + 1500
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			b := up(t, "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {delay: 1us, queue: 100000, packets: true}\n")
			s := b.probe("a", "source", "b", tcpOption, "--filter", "proto=tcp")
			b.carry("a", "b", address, 2<<20).finish()
			b.settled("a-b", "a", 1)
			var marked sourceSummary
			s.finish(&marked)
			if marked.Skipped["mtu"]+marked.Skipped["gso"]+marked.MSSClamped != 0 {
				t.Errorf("segments do not fit: %+v", marked)
			}
			file, err := os.Open(b.path("a-b.a.packets"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			full := 0
			for p, err := range packets.Read(file) {
				if err != nil || p.Size > frame {
					t.Fatalf("frame of %d bytes, %v", p.Size, err)
				}
				if p.Marked && p.Size == frame {
					full++
				}
			}
			if want := 1 << 20 / 1500; full < want {
				t.Errorf("%d full frames are marked, want %d at least", full, want)
			}
		})
	}
}

// A source takes up a connection that exists, and one that is killed leaves it alone.
func TestTCPOptionOfExistingConnection(t *testing.T) {
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			b := up(t, slowPair)
			d := b.probe("b", "destination", "a", "--interval", "50ms")
			x := b.carry("a", "b", address, 60<<20)
			x.midway()
			s := b.probe("a", "source", "b", tcpOption)
			eventually(t, "marks in a connection that began before", func() bool { return d.seen().Packets > 0 || x.carried.Load() == x.size })
			s.end(unix.SIGKILL)
			x.midway()
			before := b.truth("a-b", "a").Marked.Offered
			x.finish()
			truth := b.settled("a-b", "a", 1)
			if truth.Marked.Offered != before || truth.Total.Offered == truth.Marked.Offered {
				t.Errorf("%d marks when the source was gone, %d at the end", before, truth.Marked.Offered)
			}
			var read destinationSummary
			d.finish(&read)
			if read.Packets == 0 || read.Packets != truth.Marked.Delivered || read.Lost != 0 {
				t.Errorf("%+v, on the link %+v", read, truth.Marked)
			}
		})
	}
}

// Only connections of the device's network namespace are marked, and only those whose
// route leads to the device.
func TestTCPOptionOfOthers(t *testing.T) {
	b := up(t, "hosts: {a: {}, b: {}, c: {}}\nlinks:\n  - ends: [a, b]\n    emulate: {delay: 1us}\n  - ends: [c, b]\n    emulate: {delay: 1us}\n")
	s := b.probe("a", "source", "b", tcpOption)
	other := b.probe("c", "source", "b", tcpOption, "--filter", "proto=udp")
	b.carry("a", "b", secondIPv4, 1<<20).finish()
	b.carry("c", "b", netip.MustParseAddr("10.77.2.2"), 1<<20).finish()
	var marked, unmarked sourceSummary
	s.finish(&marked)
	other.finish(&unmarked)
	if marked.Connections.Marked != 1 || marked.Marked == 0 {
		t.Errorf("own connection: %+v", marked)
	}
	if truth := b.settled("c-b", "c", 1); unmarked.Connections.Marked != 0 || truth.Marked.Offered != 0 {
		t.Errorf("another's connection: %+v, %+v", unmarked, truth.Marked)
	}
}

// A path that drops segments with the option costs a connection one timeout.
func TestTCPOptionIsDroppedOnTheWay(t *testing.T) {
	for _, row := range []struct {
		name     string
		box      middlebox
		from, to string
		late     bool // the path changes while data flows
		check    func(sourceSummary) bool
	}{
		{"every segment", middlebox{}, "a", "b", false, func(s sourceSummary) bool {
			return s.Connections.Stopped == 1 && s.Marked == 1
		}},
		{"all but the first", middlebox{handshake: true}, "a", "b", false, func(s sourceSummary) bool {
			return s.Connections.Stopped == 1 && s.Skipped["timeout"] != 0
		}},
		{"acknowledgements", middlebox{handshake: true, data: true}, "b", "a", false, func(s sourceSummary) bool {
			return s.Connections.WithoutAcks == 1 && s.Skipped["timeout"] != 0
		}},
		{"from some time on", middlebox{}, "a", "b", true, func(s sourceSummary) bool {
			return s.Connections.Paused > 0 && s.Connections.Stopped == 1
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := up(t, slowPair)
			s := b.probe("a", "source", "b", tcpOption)
			if !row.late {
				b.insert("b", "a", row.box)
			}
			address := secondIPv4
			if row.to == "a" {
				address = firstIPv4
			}
			x := b.carry(row.from, row.to, address, 20<<20)
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

// middlebox drops the segments of IPv4 that have one of the experimental options last,
// but for those that it lets through.
type middlebox struct{ handshake, data bool }

// Offsets in the frame of a segment, behind an IPv4 header without options.
const (
	ethertypeAt = 12
	lengthAt    = 16
	protocolAt  = 23
	tcpAt       = 34
)

func (m middlebox) program() asm.Instructions {
	program := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadAbs(ethertypeAt, asm.Half),
		asm.JNE.Imm(asm.R0, unix.ETH_P_IP, "pass"),
		asm.LoadAbs(protocolAt, asm.Byte),
		asm.JNE.Imm(asm.R0, unix.IPPROTO_TCP, "pass"),
		asm.LoadAbs(tcpAt+12, asm.Byte),
		asm.RSh.Imm(asm.R0, 4),
		asm.LSh.Imm(asm.R0, 2),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.JLT.Imm(asm.R7, 20+12, "pass"),
	}
	if m.handshake {
		const syn = 2
		program = append(program, asm.LoadAbs(tcpAt+13, asm.Byte), asm.And.Imm(asm.R0, syn), asm.JNE.Imm(asm.R0, 0, "pass"))
	}
	if m.data {
		program = append(program,
			asm.LoadAbs(lengthAt, asm.Half), asm.Sub.Imm(asm.R0, 20), asm.Sub.Reg(asm.R0, asm.R7), asm.JNE.Imm(asm.R0, 0, "pass"))
	}
	const pass, drop = -1, 2
	return append(program,
		asm.LoadInd(asm.R0, asm.R7, tcpAt-12, asm.Byte),
		asm.JEq.Imm(asm.R0, 253, "drop"),
		asm.JEq.Imm(asm.R0, 254, "drop"),
		asm.Mov.Imm(asm.R0, pass).WithSymbol("pass"),
		asm.Return(),
		asm.Mov.Imm(asm.R0, drop).WithSymbol("drop"),
		asm.Return(),
	)
}

// insert puts a middlebox before a device of a host.
func (b *bed) insert(host, device string, m middlebox) {
	b.t.Helper()
	b.do(host, func() error {
		index, err := indexOf(device)
		if err != nil {
			return err
		}
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "middlebox", Type: ebpf.SchedCLS, License: "GPL", Instructions: m.program()})
		if err != nil {
			return err
		}
		defer program.Close()
		attached, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: program, Attach: ebpf.AttachTCXIngress, Anchor: link.Head()})
		if err != nil {
			return err
		}
		b.t.Cleanup(func() { attached.Close() })
		return nil
	})
}
