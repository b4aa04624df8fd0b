package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pillion.dev/agent/host"
	"pillion.dev/agent/validation"
	"pillion.dev/internal/clock"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/source"
	"pillion.dev/session"
	"pillion.dev/wire"
)

// checkIs fails on another level or if a word is in neither finding nor advice. Only
// checks that are not ok have advice.
func checkIs(t *testing.T, got session.Check, level string, words ...string) {
	t.Helper()
	if got.Level != level {
		t.Errorf("%+v: level %s, want %s", got, got.Level, level)
	}
	for _, word := range words {
		if !strings.Contains(got.Found+"\n"+got.Advice, word) {
			t.Errorf("%+v: lacks %q", got, word)
		}
	}
	if got.Name == "" || got.Found == "" || (got.Advice == "") != (level == OK) {
		t.Errorf("%+v: name, finding or advice is missing, or advice is unnecessary", got)
	}
}

func TestJudgements(t *testing.T) {
	odd := errors.New("odd")
	needed, replaced := feature{Feature: hook.Feature{Name: "bpf_loop", Since: "5.17"}}, feature{hook.Feature{Name: "tcx", Since: "6.6"}, "clsact is used"}
	synchronised := func(bound time.Duration) *host.Clock {
		return &host.Clock{By: "chrony", Reference: "ntp1", State: clock.State{Synchronised: true, MaxError: bound}}
	}
	eth0 := func(d device) device {
		d.name = "eth0"
		return d
	}
	destination, foreign := program{"tcx ingress", "destination_tc", 4, "root"}, program{"xdp", "balancer", 9, "lb"}
	for _, row := range []struct {
		name  string
		got   session.Check
		level string
		words []string
	}{
		{"feature is there", needed.judge(nil), OK, []string{"5.17"}},
		{"needed feature is missing", needed.judge(ebpf.ErrNotSupported), Error, []string{"5.17", "kernel"}},
		{"feature has a replacement", replaced.judge(ebpf.ErrNotSupported), OK, []string{"6.6", "clsact"}},
		{"feature cannot be probed", needed.judge(odd), Warning, []string{"unknown", "odd"}},
		{"program loads", judgeProgram("program source", nil), OK, []string{"loads"}},
		{"program is refused", judgeProgram("program source", fmt.Errorf("load source: %w: invalid zero-sized read", hook.ErrRefused)), Error,
			[]string{"invalid zero-sized read", "6.1", "uname -r"}},
		{"program on an old kernel", judgeProgram("program source", fmt.Errorf("load source: %w: bpf_loop needs Linux 5.17", hook.ErrOldKernel)), Error,
			[]string{"5.17", "install Linux 6.1"}},
		{"program without privileges", judgeProgram("program source", fmt.Errorf("load source: %w", unix.EPERM)), Warning, []string{"unknown", "as root"}},
		{"no IOAM in the kernel", judgeIOAM(host.IOAM{}, true), OK, []string{"not available", "5.15"}},
		{"IOAM off", judgeIOAM(host.IOAM{Available: true}, true), OK, []string{"off"}},
		{"IOAM on", judgeIOAM(host.IOAM{Available: true, ID: 0x101, Devices: []string{"eth0", "eth1"}, Namespaces: []uint16{7, 0}}, true),
			OK, []string{"0x000101 on eth0, eth1"}},
		{"IOAM without privileges", judgeIOAM(host.IOAM{Available: true, ID: 0x101, Devices: []string{"eth0"}}, false), OK, []string{"0x000101"}},
		{"IOAM without a namespace", judgeIOAM(host.IOAM{Available: true, ID: 0x101, Devices: []string{"eth0"}}, true),
			Warning, []string{"no namespace 0", "ip ioam namespace add 0"}},
		{"IOAM without an identifier", judgeIOAM(host.IOAM{Available: true, Devices: []string{"eth0"}, Namespaces: []uint16{0}}, true),
			Warning, []string{"no identifier", "net.ipv6.ioam6_id"}},
		{"IOAM on no device", judgeIOAM(host.IOAM{Available: true, ID: 0x101, Namespaces: []uint16{0}}, true),
			Warning, []string{"0x000101", "no device", "conf.DEVICE.ioam6_enabled"}},
		{"JIT on", judgeJIT(true, nil), OK, []string{"enabled"}},
		{"JIT off", judgeJIT(false, nil), Warning, []string{"sysctl -w net.core.bpf_jit_enable=1"}},
		{"JIT unknown", judgeJIT(false, odd), Warning, []string{"unknown"}},
		{"capabilities of root", judgeCapabilities(privileges{raw: true})[0], OK, []string{"root"}},
		{"capabilities of a user", judgeCapabilities(privileges{user: 7, lacking: []string{"CAP_BPF"}})[0], Error, []string{"user 7", "CAP_BPF", "setcap"}},
		{"no raw sockets", judgeCapabilities(privileges{user: 7})[1], Warning, []string{"CAP_NET_RAW"}},
		{"clock is good", judgeClock(synchronised(time.Millisecond)), OK, []string{"chrony", "1ms", "ntp1"}},
		{"clock is loose", judgeClock(synchronised(time.Second)), Warning, []string{"1s", "one-way delay"}},
		{"clock runs free", judgeClock(&host.Clock{By: "kernel"}), Warning, []string{"not synchronised", "apt install chrony"}},
		{"disk has room", judgeDisk("/x", 5<<30, nil), OK, []string{"5120 MiB", "/x"}},
		{"disk is small", judgeDisk("/x", 500<<20, nil), Warning, []string{"500 MiB", "spool"}},
		{"disk is full", judgeDisk("/x", 0, nil), Error, []string{"0 MiB"}},
		{"disk cannot be read", judgeDisk("/x", 0, odd), Warning, []string{"unknown"}},
		{"memory is enough", judgeMemory(1<<30, nil), OK, []string{"1024 MiB"}},
		{"memory is short", judgeMemory(1<<20, nil), Warning, []string{"1 MiB"}},
		{"memory cannot be read", judgeMemory(0, odd), Warning, []string{"unknown"}},
		{"device", judgeDevice(eth0(device{mtu: 1500, offloads: offloads{"gro": offloadOn, "tso": offloadOff}}))[0], OK, []string{"MTU 1500 bytes", "GRO on, TSO off"}},
		{"device too narrow for IPv6", judgeDevice(eth0(device{mtu: 1000}))[0], Warning, []string{"1000 bytes", "offloads unknown", "ip link set dev eth0 mtu"}},
		{"device with LRO", judgeDevice(eth0(device{mtu: 1500, offloads: offloads{"lro": offloadOn}}))[0], Warning, []string{"ethtool -K eth0 lro off"}},
		{"no programs", judgePrograms(eth0(device{})), OK, []string{"none"}},
		{"own programs", judgePrograms(eth0(device{programs: []program{destination}})), OK, []string{"tcx ingress destination_tc (id 4", "part of Pillion"}},
		{"foreign programs", judgePrograms(eth0(device{programs: []program{destination, foreign}})), Warning, []string{"xdp balancer", "loaded by lb", "bpftool net show dev eth0"}},
		{"a program that may hide ours", judgePrograms(eth0(device{programs: []program{foreign, destination}})), Warning,
			[]string{"balancer before Pillion's destination_tc can hide packets from it", "let Pillion's program run first"}},
		{"a program of the other direction", judgePrograms(eth0(device{programs: []program{{"tcx egress", "limiter", 9, "lb"}, destination}})), Warning, []string{"may drop or rewrite"}},
		{"the program that dispatches", judgePrograms(eth0(device{programs: []program{{"tcx egress", "source_dispatch", 5, "root"}}})), OK, []string{"part of Pillion"}},
		{"programs unread", judgePrograms(eth0(device{programs: []program{foreign}, unread: odd})), Warning, []string{"unknown: odd", "balancer"}},
	} {
		t.Run(row.name, func(t *testing.T) { checkIs(t, row.got, row.level, row.words...) })
	}
}

func TestPathJudgements(t *testing.T) {
	near := path{peer: "b", address: "fd00::b", device: "eth0", mtu: 1500, echo: time.Millisecond, six: true, marked: 2 * time.Millisecond, probe: validation.Answered}
	with := func(change func(*path)) path {
		p := near
		change(&p)
		return p
	}
	odd := errors.New("odd")
	for _, row := range []struct {
		name           string
		path           path
		level, options string
		words          []string
	}{
		{"answers", near, OK, OK, []string{"via eth0", "RTT 1ms", "path MTU 1500 bytes", "options in 2ms", "path probes answered"}},
		{"has no destination", with(func(p *path) { p.probe = validation.Unreachable }), OK, OK, []string{"path probes answered by ICMP port unreachable"}},
		{"path probes are not answered", with(func(p *path) { p.probe = validation.NoReply }), Warning, OK, []string{"not reachable: path probes to UDP port 25253 are not answered", "permit UDP port 25253"}},
		{"path probes are not permitted", with(func(p *path) { p.probe, p.probeErr = validation.NoReply, odd }), OK, OK, []string{"path probes unknown: odd"}},
		{"IPv4", with(func(p *path) { p.six, p.marked = false, 0 }), OK, OK, []string{"RTT 1ms"}},
		{"options are dropped", with(func(p *path) { p.marked, p.markedErr = 0, errNoReply }), Warning, Warning, []string{"destination options", "--family ipv4"}},
		{"options are not permitted", with(func(p *path) { p.marked, p.markedErr = 0, odd }), OK, OK, []string{"destination options unknown"}},
		{"is silent", with(func(p *path) { p.echoErr, p.markedErr = errNoReply, errNoReply }), Warning, OK, []string{"no reply to ICMP echo", "ping -c 3 fd00::b"}},
		{"echo is not permitted", with(func(p *path) { p.echoErr, p.markedErr = odd, odd }), Warning, OK, []string{"RTT unknown: odd"}},
		{"no route to one of many", with(func(p *path) { p.route = odd }), Warning, OK, []string{"no route: odd", "ip route get fd00::b"}},
		{"no route to the only one", with(func(p *path) { p.route, p.alone = odd, true }), Error, OK, []string{"no route"}},
		{"is this host", with(func(p *path) { p.own = true }), Error, OK, []string{"this host"}},
		{"MTU is unknown", with(func(p *path) { p.mtu = 0 }), OK, OK, []string{"path MTU unknown"}},
		{"was not looked at", path{address: "x", fault: odd}, Warning, OK, []string{"unknown: odd"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			checkIs(t, judgePath(row.path), row.level, row.words...)
			checkIs(t, judgeOptions([]*path{&row.path}), row.options, "destination options")
		})
	}
}

func TestInvalidPeers(t *testing.T) {
	checks := checkPeers(t.Context(), []session.Peer{{Agent: "b"}, {Agent: "c", Addresses: []string{"nonsense"}}})
	if len(checks) != 3 {
		t.Fatalf("%d checks, want 3: %+v", len(checks), checks)
	}
	checkIs(t, checks[0], Error, "no address of its own")
	checkIs(t, checks[1], Warning, "unknown", `"nonsense"`)
}

func TestExamineWithFailingParts(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	checks := examine(t.Context(), 50*time.Millisecond, []part{
		{name: "slow", run: func(context.Context) []session.Check { <-release; return nil }},
		{name: "broken", run: func(context.Context) []session.Check { panic("no such thing") }},
		{name: "good", run: func(context.Context) []session.Check { return []session.Check{ok("good", "%d", 7)} }},
	})
	if len(checks) != 3 {
		t.Fatalf("%d checks, want 3: %+v", len(checks), checks)
	}
	checkIs(t, checks[0], Warning, "unknown: timed out")
	checkIs(t, checks[1], Warning, "panic: no such thing")
	// On a busy host the last part may time out too, but is reported.
	if checks[2].Name != "good" {
		t.Errorf("last check is %+v", checks[2])
	}
}

func TestCheckCoversTheHost(t *testing.T) {
	names := map[string]bool{}
	for _, check := range Check(t.Context(), Options{Folder: t.TempDir() + "/not/there/yet"}) {
		names[check.Name] = true
		checkIs(t, check, check.Level)
	}
	for _, name := range []string{"kernel", "kernel tcx", "BPF JIT", "capabilities", "raw sockets", "clock", "disk", "memory", "IPv6 destination options"} {
		if !names[name] {
			t.Errorf("no check %q among %v", name, names)
		}
	}
}

func TestValidatedPaths(t *testing.T) {
	path := func(state validation.State) Path {
		return Path{"eth7", validation.Path{Path: source.Path{Address: netip.MustParseAddr("10.0.0.2"), Encoding: wire.UDPOption}, State: state}}
	}
	for _, row := range []struct {
		state validation.State
		level string
		words []string
	}{
		{validation.Passed, OK, []string{"1 path"}},
		{validation.Pending, OK, nil},
		{validation.Failed, Warning, []string{"10.0.0.2", "permit packets marked with udp-option"}},
		{validation.Altered, Warning, []string{"mark is missing"}},
		{validation.ChecksumFailed, Warning, []string{"network card", "ethtool -K eth7 tx off"}},
		{validation.Unanswered, Warning, []string{"UDP port 25253"}},
	} {
		checks := judgePaths([]Path{path(row.state)})
		if len(checks) != 1 {
			t.Fatalf("%s: %+v", row.state, checks)
		}
		checkIs(t, checks[0], row.level, row.words...)
	}
	tagged := path(validation.Failed)
	tagged.Tagged = true
	checkIs(t, judgePaths([]Path{tagged})[0], Warning, "hosts whose clocks differ by more than 17 s", "check that the clocks of both hosts agree")
	if checks := judgePaths(nil); len(checks) != 0 {
		t.Errorf("no paths: %+v", checks)
	}
	if checks := judgePaths(slices.Repeat([]Path{path(validation.Failed)}, 40)); len(checks) != pathsMax+1 {
		t.Errorf("40 paths: %d checks", len(checks))
	}
}

// TestHeavyPartsComeLast: loading programs does not delay what is known at once, and waits for no network.
func TestHeavyPartsComeLast(t *testing.T) {
	asked, known := make(chan struct{}), false
	examine(t.Context(), time.Minute, []part{
		{name: "kernel", run: func(context.Context) []session.Check {
			<-asked // a network part is under way
			known = true
			return nil
		}},
		{name: "program", heavy: true, run: func(context.Context) []session.Check {
			if !known {
				t.Error("the heavy part began first")
			}
			return nil
		}},
		{name: "peers", run: func(context.Context) []session.Check {
			close(asked)
			return nil
		}},
	})
}
