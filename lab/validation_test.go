package lab_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// fallback is the encoding of UDP where options do not arrive.
var fallback = map[string]string{"ipv6": "native", "ipv4": "udp"}

// surplusBox is a middlebox that treats datagrams with something behind the end that the
// UDP length states (RFC 9868): it has no IP options or extension headers to deal with. act
// treats them; R7 is the length of all behind the IP header, R8 the UDP length.
type surplusBox struct {
	act func(surplusLayout) asm.Instructions
}

// surplusLayout is where fields lie in a frame. headers is how much of the length is the
// IP header.
type surplusLayout struct {
	length, headers, udp int32
	six                  bool
}

var (
	surplusIPv4 = surplusLayout{length: 16, headers: 20, udp: 34}
	surplusIPv6 = surplusLayout{length: 18, udp: 54, six: true}
)

const (
	protocolAt = 23
	nextAt6    = 20
	checksumAt = 24    // of the IPv4 header
	probePort  = 25253 // of path probes
)

var (
	dropping   = surplusBox{func(surplusLayout) asm.Instructions { return asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()} }}
	stripping  = surplusBox{stripSurplus}
	corrupting = surplusBox{corruptSurplus}
)

// stripSurplus removes what is behind the datagram, as a device that rebuilds packets does.
func stripSurplus(at surplusLayout) asm.Instructions {
	const length, skbLength = -8, 0
	strip := asm.Instructions{
		asm.Mov.Reg(asm.R9, asm.R8), asm.Add.Imm(asm.R9, at.headers), asm.HostTo(asm.BE, asm.R9, asm.Half),
		asm.StoreMem(asm.RFP, length, asm.R9, asm.Half),
	}
	if !at.six {
		strip = append(strip,
			asm.Mov.Reg(asm.R3, asm.R7), asm.Add.Imm(asm.R3, at.headers), asm.HostTo(asm.BE, asm.R3, asm.Half),
			asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, checksumAt), asm.Mov.Reg(asm.R4, asm.R9), asm.Mov.Imm(asm.R5, 2),
			asm.FnL3CsumReplace.Call())
	}
	return append(strip,
		asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, at.length), asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, length),
		asm.Mov.Imm(asm.R4, 2), asm.Mov.Imm(asm.R5, 0),
		asm.FnSkbStoreBytes.Call(),
		asm.LoadMem(asm.R2, asm.R6, skbLength, asm.Word), asm.Sub.Reg(asm.R2, asm.R7), asm.Add.Reg(asm.R2, asm.R8),
		asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R3, 0),
		asm.FnSkbChangeTail.Call(),
		asm.Ja.Label("pass"))
}

// corruptSurplus inverts a byte in it.
func corruptSurplus(at surplusLayout) asm.Instructions {
	const inside, changed = 8, -8
	return asm.Instructions{
		asm.LoadInd(asm.R0, asm.R8, at.udp+inside, asm.Byte),
		asm.Xor.Imm(asm.R0, 0xff),
		asm.StoreMem(asm.RFP, changed, asm.R0, asm.Byte),
		asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Reg(asm.R2, asm.R8), asm.Add.Imm(asm.R2, at.udp+inside),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, changed), asm.Mov.Imm(asm.R4, 1), asm.Mov.Imm(asm.R5, 0),
		asm.FnSkbStoreBytes.Call(),
		asm.Ja.Label("pass"),
	}
}

func (m surplusBox) program() asm.Instructions {
	branch := func(at surplusLayout) asm.Instructions {
		return append(asm.Instructions{
			asm.LoadAbs(at.length, asm.Half), asm.Sub.Imm(asm.R0, at.headers), asm.Mov.Reg(asm.R7, asm.R0),
			asm.LoadAbs(at.udp+4, asm.Half), asm.Mov.Reg(asm.R8, asm.R0),
			asm.JEq.Reg(asm.R8, asm.R7, "pass"),
		}, m.act(at)...)
	}
	return slices.Concat(asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadAbs(ethertypeAt, asm.Half),
		asm.JEq.Imm(asm.R0, unix.ETH_P_IPV6, "six"),
		asm.JNE.Imm(asm.R0, unix.ETH_P_IP, "pass"),
		asm.LoadAbs(protocolAt, asm.Byte),
		asm.JNE.Imm(asm.R0, unix.IPPROTO_UDP, "pass"),
	}, branch(surplusIPv4), asm.Instructions{
		asm.LoadAbs(nextAt6, asm.Byte).WithSymbol("six"),
		asm.JNE.Imm(asm.R0, unix.IPPROTO_UDP, "pass"),
	}, branch(surplusIPv6), pass)
}

// pass is the end of a middlebox's program.
var pass = asm.Instructions{asm.Mov.Imm(asm.R0, -1).WithSymbol("pass"), asm.Return()}

// instructions is a middlebox that is its program.
type instructions asm.Instructions

func (i instructions) program() asm.Instructions { return asm.Instructions(i) }

// portBox is a firewall that drops path probes over IPv4.
var portBox = instructions(append(asm.Instructions{
	asm.Mov.Reg(asm.R6, asm.R1),
	asm.LoadAbs(ethertypeAt, asm.Half),
	asm.JNE.Imm(asm.R0, unix.ETH_P_IP, "pass"),
	asm.LoadAbs(protocolAt, asm.Byte),
	asm.JNE.Imm(asm.R0, unix.IPPROTO_UDP, "pass"),
	asm.LoadAbs(surplusIPv4.udp+2, asm.Half),
	asm.JNE.Imm(asm.R0, probePort, "pass"),
	asm.Mov.Imm(asm.R0, 2),
	asm.Return(),
}, pass...))

// used sends packets of the flow until the path that uses the encoding is in this state,
// and returns how many.
func (s *stream) used(p *runningProbe, encoding, state string) (sent uint64) {
	s.t.Helper()
	eventually(s.t, "path validation of "+encoding+" to be "+state, func() bool {
		s.send(1, 32000)
		sent++
		return p.path(encoding).State == state
	})
	return sent
}

// Marks arrive, whether the host runs Pillion or not: the flow is marked in the first
// encoding.
func TestPathValidationPasses(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, address := range toB {
		for _, pillion := range []bool{true, false} {
			t.Run(name+map[bool]string{true: " destination", false: " host without Pillion"}[pillion], func(t *testing.T) {
				t.Parallel() // it mostly waits
				b := up(t, pair)
				var d *runningProbe
				if pillion {
					d = b.probe("b", "destination", "a", "--interval", "50ms")
				}
				s := b.probe("a", "source", "b", validated)
				flow := b.open("a", "b", netip.AddrPortFrom(address, 9000))
				sent := flow.used(s, "udp-option", "passed")
				flow.send(100, 32000)
				flow.receive(sent + 100)
				var marked sourceSummary
				s.finish(&marked)
				if marked.Marked < 100 || marked.Marked+marked.Skipped["unvalidated"] < sent+100 {
					t.Errorf("sent %d: %+v", sent+100, marked)
				}
				if d == nil {
					return
				}
				var read destinationSummary
				if d.finish(&read); read.Packets != marked.Marked || read.Lost != 0 || read.Rejected != 0 {
					t.Errorf("marked %+v, read %+v", marked, read)
				}
			})
		}
	}
}

// A middlebox that drops, strips or corrupts what is behind a datagram takes nothing from
// applications: no packet is marked in the option, and the next encoding is used.
func TestPathValidationAgainstMiddleboxes(t *testing.T) {
	t.Parallel() // it mostly waits
	pathValidationAgainstMiddleboxes(t, false)
}

// pathValidationAgainstMiddleboxes tries each middlebox over one IP version, or, long, over the other.
func pathValidationAgainstMiddleboxes(t *testing.T, long bool) {
	for _, row := range []struct {
		name, state, family string
		box                 surplusBox
	}{{"drops", "failed", "ipv4", dropping}, {"strips", "altered", "ipv6", stripping}, {"corrupts", "altered", "ipv4", corrupting}} {
		for family, address := range toB {
			if long == (family == row.family) {
				continue
			}
			t.Run(row.name+" "+family, func(t *testing.T) {
				t.Parallel() // it mostly waits
				b := up(t, pair)
				b.offload("a", "b", "tx off") // what passes a middlebox has a checksum
				d := b.probe("b", "destination", "a", "--interval", "50ms")
				b.insert("b", "a", row.box) // before it
				s := b.probe("a", "source", "b", validated)
				flow := b.open("a", "b", netip.AddrPortFrom(address, 9000))
				sent := flow.used(s, "udp-option", row.state)
				sent += flow.used(s, fallback[family], "passed")
				flow.send(100, 32000)
				flow.receive(sent + 100)
				marked, read := both(s, d)
				if read.Packets < 100 || read.Packets != marked.Marked || read.Lost != 0 {
					t.Errorf("marked %+v, read %+v", marked, read)
				}
			})
		}
	}
}

// sizeBox is a path with an MTU of 1400 bytes whose routers report nothing.
var sizeBox = instructions(slices.Concat(asm.Instructions{
	asm.Mov.Reg(asm.R6, asm.R1),
	asm.LoadAbs(ethertypeAt, asm.Half),
	asm.JEq.Imm(asm.R0, unix.ETH_P_IPV6, "six"),
	asm.JNE.Imm(asm.R0, unix.ETH_P_IP, "pass"),
	asm.LoadAbs(surplusIPv4.length, asm.Half),
	asm.Ja.Label("compare"),
	asm.LoadAbs(surplusIPv6.length, asm.Half).WithSymbol("six"),
	asm.Add.Imm(asm.R0, 40),
	asm.JLE.Imm(asm.R0, 1400, "pass").WithSymbol("compare"),
	asm.Mov.Imm(asm.R0, 2),
	asm.Return(),
}, pass))

// Packets that fit a path, but not once they are marked, are not marked, although no router
// reports its MTU.
func TestPathValidationFindsSize(t *testing.T) {
	t.Parallel() // it mostly waits
	pathValidationFindsSize(t, false)
}

// pathValidationFindsSize tries each kind of destination over one IP version, or, long, over the other.
func pathValidationFindsSize(t *testing.T, long bool) {
	headers := map[string]int{"ipv4": 28, "ipv6": 48}
	for family, address := range toB {
		for _, pillion := range []bool{true, false} {
			if long == (pillion == (family == "ipv4")) {
				continue
			}
			t.Run(family+map[bool]string{true: " destination", false: " host without Pillion"}[pillion], func(t *testing.T) {
				t.Parallel() // it mostly waits
				b := up(t, pair)
				b.insert("b", "a", sizeBox)
				if pillion {
					b.probe("b", "destination", "a")
				}
				s := b.probe("a", "source", "b", validated)
				flow := b.open("a", "b", netip.AddrPortFrom(address, 9000))
				sent := flow.used(s, "udp-option", "passed")
				eventually(t, "the path MTU to be found", func() bool { return s.path("udp-option").MTU == 1400 })
				for range 100 {
					if _, err := flow.out.Write(make([]byte, 1400-headers[family])); err != nil {
						t.Fatal(err)
					}
				}
				flow.send(100, 32000)
				flow.receive(sent + 200)
				var marked sourceSummary
				if s.finish(&marked); marked.Marked < 100 || marked.Skipped["mtu"] != 100 {
					t.Errorf("%+v", marked)
				}
			})
		}
	}
}

// Nothing is marked where probes are not answered, marked or not.
func TestPathValidationWithoutAnswers(t *testing.T) {
	t.Parallel() // it mostly waits
	b := up(t, pair)
	b.insert("b", "a", portBox)
	s := b.probe("a", "source", "b", validated)
	flow := b.open("a", "b", netip.AddrPortFrom(secondIPv4, 9000))
	sent := flow.used(s, "udp-option", "unanswered")
	flow.send(100, 32000)
	flow.receive(sent + 100)
	var marked sourceSummary
	if s.finish(&marked); marked.Marked != 0 || marked.Skipped["unvalidated"] < sent+100 {
		t.Errorf("%+v", marked)
	}
}

// validatingHosts is perfect with agents that validate paths.
var validatingHosts = strings.Replace(perfect, "agents: [a, b]", "agents: [a, b], agent_options: [--path-validation=auto]", 1)

// A session measures from the first packet on, since the paths between its hosts were
// tested before.
func TestSessionValidatesPathsFirst(t *testing.T) {
	t.Parallel() // it mostly waits
	sessionValidatesPathsFirst(t, secondIPv4)
}

func sessionValidatesPathsFirst(t *testing.T, address netip.Addr) {
	b := service(t, validatingHosts)
	b.running("s", "--from", "a", "--to", "b", "--trace=-1s", "--interval", "100ms")
	flow := b.open("a", "b", netip.AddrPortFrom(address, 9000))
	flow.send(200, 32000)
	flow.receive(200)
	b.reaches(200, "SELECT sum(packets) FROM flows WHERE dport = 9000")
	var counters map[string]uint64
	eventually(t, "the agent to report", func() bool {
		counters = b.task("s", "a", "source")
		return counters["marked"] >= 200
	})
	if counters["skipped_unvalidated"] != 0 || counters["paths_passed"] == 0 {
		t.Errorf("%v", counters)
	}
}

// A path that begins to drop marks during a session makes it use another encoding, raises an
// event and shows in the state of the source, until the path passes them again.
func TestSessionAvoidsBlackHoles(t *testing.T) {
	t.Parallel() // it mostly waits
	sessionAvoidsBlackHoles(t, secondIPv6)
}

func sessionAvoidsBlackHoles(t *testing.T, address netip.Addr) {
	b := service(t, validatingHosts)
	b.running("s", "--from", "a", "--to", "b", "--trace=-1s", "--interval", "100ms")
	box := b.insert("b", "a", dropping)
	b.atLeast(1, "SELECT count(*) FROM events WHERE kind = 'path-validation-failed' AND about = 'a' AND session = 's'")
	if shown := b.pillion("session", "show", "s"); !containsAll(shown, "encoding udp-option: failed", "marked ones are not") {
		t.Errorf("%s", shown)
	}
	if found, _ := b.tryPillion("doctor", "a"); !containsAll(found, "path validation", "permit packets marked with udp-option") {
		t.Errorf("%s", found)
	}
	flow := b.open("a", "b", netip.AddrPortFrom(address, 9000))
	flow.send(200, 32000)
	flow.receive(200)
	b.reaches(200, "SELECT sum(packets) FROM flows WHERE dport = 9000")
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	b.atLeast(1, "SELECT count(*) FROM events WHERE kind = 'path-validation-passed' AND about = 'a' AND session = 's'")
	b.becomes("s", "running")
}

// debuggingHosts is validatingHosts with agents that log what makes them test paths.
var debuggingHosts = strings.Replace(validatingHosts, "--path-validation=auto", "--path-validation=auto, --debug", 1)

// A destination at which marked packets cease to arrive makes the source test their path at
// once; a regular test comes up to 10 s later. The application continues with other marks.
func TestMissingMarksMakeSourceTestPath(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, debuggingHosts)
	app := b.steady(secondIPv4, 2)
	b.running("s", "--from", "a", "--to", "b", "--trace=-1s", "--interval", "100ms")
	app.marks()
	b.atLeast(some, "SELECT sum(packets) FROM flows")
	b.insert("b", "a", dropping)
	b.says("agent-a", "marked packets are missing")
	b.atLeast(1, "SELECT count(*) FROM events WHERE kind = 'path-validation-failed' AND about = 'a' AND session = 's'")
	app.passes(some)
	app.marks()
}

// A path whose MTU falls while ICMP is filtered loses marked datagrams that would have fitted
// without a mark, until the source has found the size: the destination misses them, which is
// what makes it look. TCP adapts by itself, with marks as without.
func TestSmallerPathWithoutICMP(t *testing.T) {
	t.Parallel() // it mostly waits
	smallerPathWithoutICMP(t, secondIPv4, 28)
}

// smallerPathWithoutICMP: headers are those of a datagram, in bytes.
func smallerPathWithoutICMP(t *testing.T, address netip.Addr, headers int) {
	b := service(t, debuggingHosts)
	b.exec("a", "sysctl", "-qw", "net.ipv4.tcp_mtu_probing=1")
	b.running("s", "--from", "a", "--to", "b", "--trace=-1s", "--interval", "100ms")
	x := b.carry("a", "b", address, 1<<20)
	largest := make([]byte, 1400-headers)
	mixed := b.open("a", "b", netip.AddrPortFrom(address, 9000))
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() { stopped <- mixed.alternate(stop, largest, largest[:100]) }()
	b.atLeast(2000, "SELECT sum(packets) FROM flows WHERE dport = 9000")
	b.insert("b", "a", sizeBox)
	b.says("agent-a", "marked packets are missing")
	eventually(t, "the size of packets to be found", func() bool {
		return strings.Contains(b.log("agent-a"), "path to "+address.String()+", encoding udp-option: passed: marked packets arrive, up to 1400 bytes") &&
			strings.Contains(b.pillion("session", "show", "s"), "passed: marked packets arrive, up to 1400 bytes")
	})
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	x.finish()
	after := b.open("a", "b", netip.AddrPortFrom(address, 9001))
	for range 100 {
		if _, err := after.out.Write(largest); err != nil {
			t.Fatal(err)
		}
	}
	after.send(100, 32000)
	after.receive(200)
	b.reaches(100, "SELECT sum(packets) FROM flows WHERE dport = 9001")
}

// alternate sends packets of these sizes by turns, about a thousand each second, until it
// is stopped.
func (s *stream) alternate(stop <-chan struct{}, payloads ...[]byte) error {
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for {
		for _, payload := range payloads {
			select {
			case <-stop:
				return nil
			case <-ticks.C:
			}
			if _, err := s.out.Write(payload); err != nil {
				return err
			}
		}
	}
}
