package lab_test

import (
	"net/netip"
	"strings"
)

const chain = `hosts: {a: {}, r1: {forward: true}, r2: {forward: true}, b: {}}
links:
  - ends: [a, r1]
  - ends: [r1, r2]
  - ends: [r2, b]
`

// offload sets features of a device, such as "tso off gso on".
func (b *bed) offload(host, device, features string) {
	b.t.Helper()
	if features != "" {
		b.exec(host, append([]string{"ethtool", "-K", device}, strings.Fields(features)...)...)
	}
}

// tryTraffic sends TCP and UDP through a source and a destination: applications must not
// notice them, and their counts must agree.
func (b *bed) tryTraffic(s, d *runningProbe, to netip.Addr, size int64) {
	b.t.Helper()
	b.carry("a", "b", to, size).finish()
	b.datagrams("a", "b", to, 100, 1000)
	marked, read := both(s, d)
	if marked.Marked < 100 || read.Packets != marked.Marked || read.Expected != marked.Marked {
		b.t.Errorf("marked %d, read %d of %d", marked.Marked, read.Packets, read.Expected)
	}
	// Not reordered: a veth pair queues on the CPU that sends, and the packets of
	// one flow that leave from two CPUs do overtake each other.
	if read.Lost+read.Duplicated+read.Rejected+read.Unrestored != 0 {
		b.t.Errorf("a link without faults: %+v", read)
	}
	b.t.Logf("marked %d, skipped mtu %d, gso %d; unmarked %d", marked.Marked,
		marked.Skipped["mtu"], marked.Skipped["gso"], read.Unmarked)
}
