//go:build long

package lab_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"pillion.dev/internal/test/figure"
)

// queuedPath is tracedPath without a service, and without anything between its second and its
// third router but a queue inside the second.
const queuedPath = `
hosts:
  a: {}
  r1: {forward: true, ioam: 0x101}
  r: {forward: true, ioam: 0x102}
  r3: {forward: true, ioam: 0x103}
  b: {}
links:
  - {ends: [a, r1], emulate: {seed: 1, delay: 1ms}}
  - {ends: [r1, r], emulate: {seed: 2, delay: 3ms}}
  - {ends: [r, r3]}
  - {ends: [r3, b], emulate: {seed: 4, delay: 1ms}}
`

// TestLongHopsAgree: the delays of hops are those between captures at both ends of each, and agree with
// a profile of the router in which packets wait: the hop behind it takes as long as their transit.
func TestLongHopsAgree(t *testing.T) {
	b := up(t, queuedPath)
	b.exec("r", "tc", "qdisc", "replace", "dev", "r3", "root", "tbf", "rate", "20mbit", "burst", "1600", "latency", "1s")
	profile := b.profile(t, "--filter", "dst=fd77:0:0:4::2")
	d := b.probe("b", "destination", "r3", "--hops", "ioam", "--interval", "10m")
	s := b.probe("a", "source", "r1", "--hops", "ioam", "--hops-gap", "10ms", "--filter", "dport=9000")
	points := []func() map[uint64]time.Time{b.stamps("a", "r1"), b.stamps("r1", "a"), b.stamps("r", "r1"), b.stamps("r3", "r"), b.stamps("b", "r3")}
	const count = 600
	flow := b.open("a", "b", netip.MustParseAddrPort("[fd77:0:0:4::2]:9000"))
	before := b.open("a", "b", netip.MustParseAddrPort("10.77.4.2:9001"))
	for range count {
		time.Sleep(20 * time.Millisecond) // so that every packet is traced
		for range 3 {                     // for which the packet waits
			if _, err := before.out.Write(make([]byte, 1372)); err != nil {
				t.Fatal(err)
			}
		}
		flow.sendNext()
	}
	flow.receive(count)
	profile.until(func(seen, _ uint64) bool { return seen >= count })
	router := profile.end()
	marked, read := both(s, d)
	if marked.Marked != count || read.Packets != count || read.Traces.Read != count {
		t.Errorf("marked %+v, read %+v", marked, read)
	}
	d.hopsOf()
	if len(d.hops) != 5 {
		t.Fatalf("hops are %+v", d.hops)
	}
	var at []map[uint64]time.Time
	for _, stop := range points {
		at = append(at, stop())
	}
	var transit time.Duration
	for _, pair := range router.Pairs {
		if pair.Input == "r1" && pair.Output == "r3" {
			transit = time.Duration(pair.Stages.Transit.P50)
		}
	}
	if transit < 500*time.Microsecond {
		t.Errorf("packets wait %v in the router", transit)
	}
	for _, hop := range d.hops[1:] {
		took, uncertainty := time.Duration(hop.Delay.P50), time.Duration(hop.Uncertainty)
		agree := func(what string, want, bound time.Duration) {
			t.Logf("bar: hop %d takes %v, %s %v, difference %v of %v; packets %d", hop.Hop, took, what, want, took-want, bound, hop.Packets)
			figure.AtMost(t, fmt.Sprintf("hop %d less the time %s", hop.Hop, what), microseconds(took-want), microseconds(bound), "µs")
		}
		agree("between captures", medianBetween(at[hop.Hop-1], at[hop.Hop]), 20*time.Microsecond+uncertainty)
		if hop.Hop == 3 {
			agree("in the router", transit, 20*time.Microsecond)
		}
	}
}

func microseconds(d time.Duration) float64 { return float64(d) / 1e3 }

// stamps captures the packets of streams to port 9000 on a device, with the kernel's times. The function that it returns
// ends the capture and returns the times by sequence number.
func (b *bed) stamps(host, device string) func() map[uint64]time.Time {
	b.t.Helper()
	var handle *pcapgo.EthernetHandle
	b.do(host, func() (err error) {
		handle, err = pcapgo.NewEthernetHandle(device)
		return err
	})
	times, ended := map[uint64]time.Time{}, make(chan struct{})
	go func() {
		defer close(ended)
		for {
			data, info, err := handle.ReadPacketData()
			if err != nil {
				return // closed
			}
			packet := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.NoCopy)
			if udp, ok := packet.Layer(layers.LayerTypeUDP).(*layers.UDP); ok && udp.DstPort == 9000 && len(udp.Payload) >= 8 {
				times[binary.BigEndian.Uint64(udp.Payload)] = info.Timestamp
			}
		}
	}()
	stop := sync.OnceFunc(func() {
		handle.Close()
		<-ended
	})
	b.t.Cleanup(stop)
	return func() map[uint64]time.Time {
		stop()
		return times
	}
}

// medianBetween is the median time that packets took between two captures.
func medianBetween(from, to map[uint64]time.Time) time.Duration {
	var list []time.Duration
	for sequence, at := range to {
		if before, ok := from[sequence]; ok {
			list = append(list, at.Sub(before))
		}
	}
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}
