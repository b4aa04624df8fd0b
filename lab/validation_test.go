package lab_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// fallback is the encoding of UDP where options do not arrive.
var fallback = map[string]string{"ipv6": "native", "ipv4": "udp"}

// surplusBox is a middlebox that treats datagrams with something behind the end that the
// UDP length states (RFC 9868): it has no IP options or extension headers to deal with.
type surplusBox struct{ act asm.Instructions }

const (
	lengthAt   = 16
	protocolAt = 23
	payloadAt6 = 18 // length of the payload in an IPv6 header
	nextAt6    = 20
	udpAt6     = 54
	udpAt4     = 34
	probePort  = 25253 // of path probes
)

// dropping drops them.
var dropping = surplusBox{asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}}

// portBox is a firewall that lets no path probe of IPv4 pass.
var portBox = instructions{
	asm.Mov.Reg(asm.R6, asm.R1),
	asm.LoadAbs(ethertypeAt, asm.Half),
	asm.JNE.Imm(asm.R0, unix.ETH_P_IP, "pass"),
	asm.LoadAbs(protocolAt, asm.Byte),
	asm.JNE.Imm(asm.R0, unix.IPPROTO_UDP, "pass"),
	asm.LoadAbs(udpAt4+2, asm.Half),
	asm.JNE.Imm(asm.R0, probePort, "pass"),
	asm.Mov.Imm(asm.R0, 2),
	asm.Return(),
	asm.Mov.Imm(asm.R0, -1).WithSymbol("pass"),
	asm.Return(),
}

// instructions are a middlebox as it stands.
type instructions asm.Instructions

func (i instructions) program() asm.Instructions { return asm.Instructions(i) }

func (m surplusBox) program() asm.Instructions {
	program := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadAbs(ethertypeAt, asm.Half),
		asm.JEq.Imm(asm.R0, unix.ETH_P_IPV6, "six"),
		asm.JNE.Imm(asm.R0, unix.ETH_P_IP, "pass"),
		asm.LoadAbs(protocolAt, asm.Byte),
		asm.JNE.Imm(asm.R0, unix.IPPROTO_UDP, "pass"),
		asm.LoadAbs(lengthAt, asm.Half),
		asm.Sub.Imm(asm.R0, 20),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.LoadAbs(udpAt4+4, asm.Half),
		asm.Ja.Label("compare"),
		asm.LoadAbs(nextAt6, asm.Byte).WithSymbol("six"),
		asm.JNE.Imm(asm.R0, unix.IPPROTO_UDP, "pass"),
		asm.LoadAbs(payloadAt6, asm.Half),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.LoadAbs(udpAt6+4, asm.Half),
		asm.JEq.Reg(asm.R0, asm.R7, "pass").WithSymbol("compare"),
	}
	program = append(program, m.act...)
	const pass = -1
	return append(program, asm.Mov.Imm(asm.R0, pass).WithSymbol("pass"), asm.Return())
}

// used sends packets of the flow until the path that uses the encoding is in this state,
// and returns how many.
func (s *stream) used(p *runningProbe, encoding, state string) (sent uint64) {
	s.t.Helper()
	eventually(s.t, "path validation of "+encoding+" to be "+state, func() bool {
		s.send(1, 32000)
		sent++
		return p.path(encoding) == state
	})
	return sent
}

// Marks arrive, whether the host runs Pillion or not: the flow is marked in the first
// encoding.
func TestPathValidationPasses(t *testing.T) {
	for name, address := range toB {
		for _, pillion := range []bool{true, false} {
			t.Run(name+map[bool]string{true: " destination", false: " host without Pillion"}[pillion], func(t *testing.T) {
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

// A middlebox that drops datagrams with options takes nothing from applications: no packet
// is marked in the option, and the next encoding is used.
func TestPathValidationAgainstDrops(t *testing.T) {
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			b := up(t, pair)
			b.insert("b", "a", dropping)
			d := b.probe("b", "destination", "a", "--interval", "50ms")
			s := b.probe("a", "source", "b", validated)
			flow := b.open("a", "b", netip.AddrPortFrom(address, 9000))
			sent := flow.used(s, "udp-option", "failed")
			sent += flow.used(s, fallback[name], "passed")
			flow.send(100, 32000)
			flow.receive(sent + 100)
			marked, read := both(s, d)
			if read.Packets < 100 || read.Packets != marked.Marked || read.Lost != 0 {
				t.Errorf("marked %+v, read %+v", marked, read)
			}
		})
	}
}

// A path that begins to drop them while a flow is marked costs the flow what it sends
// until the next test, and is used again when it stops.
func TestPathValidationOfChangedPath(t *testing.T) {
	b := up(t, pair)
	s := b.probe("a", "source", "b", validated)
	flow := b.open("a", "b", netip.AddrPortFrom(secondIPv4, 9000))
	sent := flow.used(s, "udp-option", "passed")
	flow.receive(sent)
	box := b.insert("b", "a", dropping)
	eventually(t, "path validation of udp-option to fail", func() bool { return s.path("udp-option") == "failed" })
	flow.send(100, 32000)
	flow.receive(sent + 100)
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	sent += 100 + flow.used(s, "udp-option", "passed")
	flow.receive(sent)
	var marked sourceSummary
	if s.finish(&marked); marked.Marked == 0 || marked.Skipped["path_failed"]+marked.Skipped["unvalidated"] < 100 {
		t.Errorf("%+v", marked)
	}
}

// Nothing is marked where probes are not answered, marked or not.
func TestPathValidationWithoutAnswers(t *testing.T) {
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
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
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
		})
	}
}

// A path that begins to drop marks during a session makes it use another encoding, raises an
// event and shows in the state of the source, until the path passes them again.
func TestSessionAvoidsBlackHoles(t *testing.T) {
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := service(t, validatingHosts)
			b.running("s", "--from", "a", "--to", "b", "--trace=-1s", "--interval", "100ms")
			box := b.insert("b", "a", dropping)
			b.atLeast(1, "SELECT count(*) FROM events WHERE kind = 'path-validation-failed' AND about = 'a' AND session = 's'")
			if shown := b.pillion("session", "show", "s"); !containsAll(shown, "encoding udp-option: failed", "marked ones are not") {
				t.Errorf("%s", shown)
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
		})
	}
}
