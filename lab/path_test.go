package lab_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// narrow is a path whose second link has a smaller MTU than the first.
const narrow = `
hosts: {a: {}, r: {forward: true}, b: {}}
links:
  - ends: [a, r]
  - ends: [r, b]
    mtu: 1400
`

// TestNarrowPath transfers data over a path with a smaller MTU than the device: a mark must
// not make a packet too large, or TCP would retransmit it forever.
func TestNarrowPath(t *testing.T) {
	t.Parallel() // it mostly waits
	tests := map[string]struct{ options, features string }{
		"native and udp":         {"", ""},
		"native and udp, no gso": {"", "tso off gso off"},
		"shim, no gso":           {"--encoding shim", "tso off gso off"},
		"ipip, no gso":           {"--encoding ipip", "tso off gso off"},
	}
	addresses := map[string]string{"ipv6": "fd77:0:0:2::2", "ipv4": "10.77.2.2"}
	for name, test := range tests {
		for family, address := range addresses {
			if test.options != "" && family == "ipv6" {
				continue
			}
			t.Run(name+", "+family, func(t *testing.T) {
				t.Parallel() // it mostly waits
				b := up(t, narrow)
				b.offload("a", "r", test.features)
				d := b.probe("b", "destination", "r")
				s := b.probe("a", "source", "r", strings.Fields(test.options)...)
				b.carry("a", "b", netip.MustParseAddr(address), 8<<20).finish()
				marked, read := both(s, d)
				if marked.Marked == 0 || read.Packets == 0 {
					t.Errorf("marked %d, read %d", marked.Marked, read.Packets)
				}
				t.Logf("marked %d, skipped mtu %d, gso %d; lost on the way %d", marked.Marked,
					marked.Skipped["mtu"], marked.Skipped["gso"], marked.Marked-read.Packets)
			})
		}
	}
}

// silent has a router say nothing about packets that are too big.
const silent = `table inet silent {
	chain out {
		type filter hook output priority 0
		icmpv6 type packet-too-big counter drop
		icmp type destination-unreachable icmp code frag-needed counter drop
	}
}`

// lossy has a router lose some of the segments that it forwards.
const lossy = `table inet lossy {
	chain through {
		type filter hook forward priority 0
		meta l4proto tcp numgen random mod 100 < 1 counter drop
		exthdr dst exists numgen random mod 100 < 1 counter drop
		udp dport 50253 numgen random mod 100 < 1 counter drop
	}
}`

// TestNarrowPathWithoutICMP: a path takes the segments of connections but not with a mark, and no
// router says so. No connection may stop, whether it begins before the source or after it.
func TestNarrowPathWithoutICMP(t *testing.T) {
	t.Parallel() // it mostly waits
	narrowPathWithoutICMP(t, false)
}

// narrowPathWithoutICMP tries one row of each encoding, or, long, all others.
func narrowPathWithoutICMP(t *testing.T, long bool) {
	const six, four = "fd77:0:0:2::2", "10.77.2.2"
	for _, row := range []struct {
		name, encoding, address, validation, loss string
		long                                      bool
	}{
		{"native", "native", six, "", "", true},
		{"native, validated", "native", six, validated, "", false},
		{"udp", "udp", four, "", "", true},
		{"udp, validated", "udp", four, validated, "", true},
		{"tcp-option", "tcp-option,native,udp", four, "", "", false},
		{"tcp-option, validated", "tcp-option,native,udp", six, validated, "", true},
		{"native, packets are lost", "native", six, "", lossy, true},
		{"udp, packets are lost", "udp", four, "", lossy, false},
	} {
		if row.long != long {
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			narrowPath(t, row.encoding, row.address, row.validation, row.loss, 3*time.Second)
		})
	}
}

// narrowPath carries data over two connections, one of which is there before the source.
func narrowPath(t *testing.T, encoding, address, validation, loss string, during time.Duration) {
	b := up(t, narrow)
	b.offload("a", "r", "tso off gso off") // a router misjudges the length of marked segments in a buffer
	b.exec("r", "nft", silent)
	if loss != "" {
		b.exec("r", "nft", loss)
	}
	d := b.probe("b", "destination", "r")
	to := netip.MustParseAddr(address)
	before := b.drip("a", "b", to)
	before.midway()
	args := []string{"--encoding", encoding}
	if validation != "" {
		args = append(args, validation)
	}
	s := b.probe("a", "source", "r", args...)
	after := b.drip("a", "b", to)
	time.Sleep(during)
	least := before.carried.Load()
	eventually(b.t, "both connections to go on", func() bool {
		return before.carried.Load() >= max(1<<20, least+1) && after.carried.Load() >= 1<<20
	})
	before.finish()
	after.finish()
	marked, read := both(s, d)
	for name, x := range map[string]*transfer{"before": before, "after": after} {
		t.Logf("%s: %d bytes, longest pause %v", name, x.carried.Load(), time.Duration(x.pause.Load()))
	}
	for reason, n := range marked.Skipped {
		if n == 0 {
			delete(marked.Skipped, reason)
		}
	}
	t.Logf("marked %d of %d, read %d, skipped %v, MSS clamped %d times", marked.Marked, marked.Seen, read.Packets, marked.Skipped, marked.MSSClamped)
	if marked.Marked < marked.Seen*8/10 || read.Packets < marked.Marked*9/10 {
		t.Errorf("marked %d of %d, read %d, skipped %v", marked.Marked, marked.Seen, read.Packets, marked.Skipped)
	}
}
