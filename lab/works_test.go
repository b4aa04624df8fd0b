package lab_test

import (
	"encoding/json"
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
// notice them, and their counts must agree. Nothing is lost unless the kernel says that devices
// dropped packets, as a veth pair does whose other end is not read in time.
func (b *bed) tryTraffic(s, d *runningProbe, to netip.Addr, size int64) {
	b.t.Helper()
	before := b.dropped()
	b.carry("a", "b", to, size).finish()
	b.datagrams("a", "b", to, 100, 1000)
	marked, read := b.agreed(s, d, before)
	if marked.Marked < 100 {
		b.t.Errorf("marked %d", marked.Marked)
	}
	b.t.Logf("marked %d, skipped mtu %d, gso %d; unmarked %d", marked.Marked, marked.Skipped["mtu"], marked.Skipped["gso"], read.Unmarked)
}

// agreed stops a source and a destination, and expects the one to have read what the other marked,
// but for what devices dropped since they had dropped before.
func (b *bed) agreed(s, d *runningProbe, before uint64) (marked sourceSummary, read destinationSummary) {
	b.t.Helper()
	s.finish(&marked)
	// No application waits for the last segments without data.
	eventually(b.t, "the last packets to be read", func() bool { return d.seen().Packets >= marked.Marked || b.dropped() > before })
	d.finish(&read)
	dropped := b.dropped() - before
	if read.Packets+read.Lost != marked.Marked || read.Expected != marked.Marked {
		b.t.Errorf("marked %d, read %d of %d, lost %d", marked.Marked, read.Packets, read.Expected, read.Lost)
	}
	if read.Lost > 0 && dropped == 0 {
		b.t.Errorf("lost %d, and the kernel dropped none", read.Lost)
	}
	// Not reordered: a veth pair queues on the CPU that sends, and the packets of
	// one flow that leave from two CPUs do overtake each other.
	if read.Duplicated+read.Rejected+read.Unrestored != 0 {
		b.t.Errorf("a link without faults: %+v", read)
	}
	return marked, read
}

// dropped is how many packets and segmentation buffers the devices of all hosts did not send, or the kernel had no time
// to receive.
func (b *bed) dropped() (sum uint64) {
	b.t.Helper()
	for host := range b.Spec.Hosts {
		var links []struct {
			Stats struct{ TX, RX struct{ Dropped uint64 } } `json:"stats64"`
		}
		if err := json.Unmarshal([]byte(b.exec(host, "ip", "-s", "-j", "link")), &links); err != nil {
			b.t.Fatal(err)
		}
		for _, link := range links {
			sum += link.Stats.TX.Dropped + link.Stats.RX.Dropped
		}
	}
	return sum
}
