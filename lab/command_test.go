package lab_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

func TestChangeSamplingWhileTrafficFlows(t *testing.T) {
	b := up(t, pair)
	d := b.probe("b", "destination", "a")
	s := b.probe("a", "source", "b")
	flow := b.open("a", "b", netip.AddrPortFrom(secondIPv6, 9000))
	for _, every := range []string{"10", "1", "3"} {
		flow.send(320, 100000)
		b.exec("a", agentPath, "source", "change", "--dev", "b", "--every", every)
	}
	flow.send(320, 100000)
	flow.receive(4 * 320)
	marked, read := both(s, d)
	if marked.Marked < 700 || marked.Skipped["not_sampled"] < 400 {
		t.Errorf("sampling did not change: %+v", marked)
	}
	if read.Packets != marked.Marked || read.Expected != marked.Marked || read.Lost != 0 {
		t.Errorf("numbers were lost: marked %d, read %+v", marked.Marked, read)
	}
}

// Every record is a line or counted as dropped.
func TestRecords(t *testing.T) {
	t.Parallel() // it mostly waits
	tests := map[string]string{"room for all": "4194304", "one page": "4096"}
	for name, bytes := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := up(t, pair)
			file, sentFile := filepath.Join(t.TempDir(), "records.csv"), filepath.Join(t.TempDir(), "sent.ndjson")
			d := b.probe("b", "destination", "a", "--records", file, "--record-bytes", bytes)
			s := b.probe("a", "source", "b", "--records", sentFile)
			b.open("a", "b", netip.AddrPortFrom(secondIPv6, 9000)).send(3200, 1000000)
			marked, read := both(s, d)
			if sent := sentPackets(t, sentFile); sent != marked.Marked {
				t.Errorf("the source's records have %d packets, want %d", sent, marked.Marked)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := uint64(strings.Count(string(text), "\n") - 1)
			if read.Packets != marked.Marked || read.Records+read.RecordsDropped != read.Packets || lines != read.Records {
				t.Errorf("%d lines, %d marked, %+v", lines, marked.Marked, read)
			}
			if bytes == "4194304" && read.RecordsDropped != 0 {
				t.Errorf("%d records were dropped", read.RecordsDropped)
			}
		})
	}
}

// sentPackets sums the packets in the records of a source.
func sentPackets(t *testing.T, path string) (sum uint64) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var row struct{ Packets uint64 }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		sum += row.Packets
	}
	return sum
}

func TestProbeErrors(t *testing.T) {
	t.Parallel() // it mostly waits
	b := up(t, pair)
	tests := map[string]struct{ args, want string }{
		"no device":       {"source --dev nodev", `find device "nodev": no such device`},
		"bad filter":      {"source --dev b --filter color=red", "color"},
		"bad prefix":      {"source --dev b --to 10.0.0.300", "10.0.0.300"},
		"bad modules":     {"source --dev b --modules speed", "speed"},
		"bad encoding":    {"source --dev b --encoding gre", "gre"},
		"bad interval":    {"source --dev b --interval 0s", "interval"},
		"bad lease":       {"source --dev b --lease soon", "soon"},
		"bad flows":       {"source --dev b --flows 0", "flow table size"},
		"bad gap":         {"source --dev b --min-gap -1s", "gap"},
		"change of none":  {"source change --dev b --every 2", "none is running"},
		"bad change":      {"source change --dev b --filter color=red", "color"},
		"bad from":        {"destination --dev b --from x", "prefix"},
		"bad granularity": {"destination --dev b --by port", "port"},
		"bad ring":        {"destination --dev b --records /dev/null --record-bytes 5000", "5000"},
		"bad hook":        {"destination --dev b --hook ebpf", "hook"},
		"no xdp":          {"destination --dev lo --hook xdp", "native XDP"},
		"no folder":       {"destination --dev b --records /nonexistent/x", "record file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			stderr, code := b.failing("a", strings.Fields(test.args)...)
			checkErrorOutput(t, stderr, code, test.want)
		})
	}
}

// A foreign program sees every packet, and stays attached.
func TestBesideForeignPrograms(t *testing.T) {
	b := up(t, pair)
	attach := func(host, device string, at ebpf.AttachType) {
		b.attach(host, device, at, nil, "other", asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()})
	}
	attach("a", "b", ebpf.AttachTCXEgress)
	attach("b", "a", ebpf.AttachTCXIngress)
	d := b.probe("b", "destination", "a")
	s := b.probe("a", "source", "b")
	b.expectAttached("a", "b", ebpf.AttachTCXEgress, "other source_tc")
	b.expectAttached("b", "a", ebpf.AttachTCXIngress, "destination_tc other")
	b.tryTraffic(s, d, secondIPv6, 1<<20)
	b.expectAttached("a", "b", ebpf.AttachTCXEgress, "other")
	b.expectAttached("b", "a", ebpf.AttachTCXIngress, "other")
}

// Datagrams of one UDP_SEGMENT call are as many packets. On IPv4 they are left
// alone: the receiver would lose a buffer that is marked, passed on whole and restored.
func TestUDPSegments(t *testing.T) {
	t.Parallel() // it mostly waits
	for family, to := range toB {
		t.Run(family, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := up(t, pair)
			d := b.probe("b", "destination", "a")
			s := b.probe("a", "source", "b")
			flow := b.open("a", "b", netip.AddrPortFrom(to, 9000))
			raw, err := flow.out.SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			if e := raw.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, 500)
			}); e != nil || err != nil {
				t.Fatal(e, err)
			}
			const calls = 50
			for range calls {
				if _, err := flow.out.Write(make([]byte, 10*500)); err != nil {
					t.Fatal(err)
				}
			}
			flow.receive(calls * 10)
			marked, read := both(s, d)
			done := marked.Marked
			if family == "ipv4" {
				done = marked.Skipped["gso"]
			}
			if done < calls*10 || read.Packets != marked.Marked || read.Expected != marked.Marked || read.Lost != 0 {
				t.Errorf("marked %+v, read %+v", marked, read)
			}
		})
	}
}
