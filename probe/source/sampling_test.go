package source

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// chosen sends a packet through the egress program and says whether it was marked.
func (s *Source) chosen(t *testing.T, packet []byte) bool {
	t.Helper()
	return !bytes.Equal(run(t, s.objects.SourceTc, packet), packet)
}

// TestSamplingIgnoresRefused: of every two packets one is too big; of the others every second
// is chosen, whichever they are.
func TestSamplingIgnoresRefused(t *testing.T) {
	const n = 200
	for _, row := range []struct {
		name     string
		settings Settings
		protocol uint8
	}{
		{"fast path", all(wire.UDPOption, wire.Delay|wire.Loss), 17},
		{"general path", all(wire.UDP, wire.Delay|wire.Loss), 17},
		{"general path, delay alone", all(wire.UDP, wire.Delay), 136},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.settings.Sampling = wire.Sampling{Every: 2}
			s := open(t, row.settings)
			fits := ipv4("192.0.2.1", "198.51.100.2", row.protocol, ported(1, 2, []byte("x")))
			big := ipv4("192.0.2.1", "198.51.100.2", row.protocol, ported(1, 2, make([]byte, 1472)))
			for range n / 2 {
				for _, packet := range [][]byte{fits, big} {
					run(t, s.objects.SourceTc, packet)
				}
			}
			tally := s.mustTally(t)
			if tally.Marked != n/4 || tally.Skipped["not_sampled"] != n/4 || tally.Skipped["mtu"] != n/2 {
				t.Errorf("of %d packets, half of them too big, %d marked, %v", n, tally.Marked, tally.Skipped)
			}
		})
	}
}

// twoCPUs runs what it is given on each of two processors, where there are two.
func twoCPUs(t *testing.T) (on [2]chan func()) {
	t.Helper()
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	cpu := -1
	for i := range on {
		for next := cpu + 1; next < 1024; next++ {
			if allowed.IsSet(next) {
				cpu = next
				break
			}
		}
		var one unix.CPUSet
		one.Set(cpu)
		on[i] = make(chan func())
		started := make(chan error)
		go func() { // the thread ends with it
			runtime.LockOSThread()
			started <- unix.SchedSetaffinity(0, &one)
			for f := range on[i] {
				f()
			}
		}()
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { close(on[i]) })
	}
	return on
}

// TestSamplingPerFlow: of ten packets of a flow one is chosen, each as often as the others,
// whatever processors they come from. The oracle is Pearson's chi-square test of a uniform
// distribution: 41.4 is its 4e-6 quantile for nine degrees of freedom.
func TestSamplingPerFlow(t *testing.T) {
	const flows, every, quantile = 1000, 10, 41.4
	settings := all(wire.UDPOption, wire.Delay|wire.Loss)
	settings.Flows, settings.Sampling = 4*flows, wire.Sampling{Every: every}
	s := open(t, settings)
	cpus := twoCPUs(t)
	var positions [every]int
	for f := range uint16(flows) {
		packet := ipv4("192.0.2.1", "198.51.100.2", 17, ported(1000+f, 2, []byte("x")))
		times := 0
		for i := range every {
			done := make(chan struct{})
			cpus[i%2] <- func() {
				defer close(done)
				if options, err := tryRun(t, s.objects.SourceTc, packet); err != nil {
					t.Error(err)
				} else if !bytes.Equal(options, packet) {
					positions[i]++
					times++
				}
			}
			<-done
		}
		if times != 1 {
			t.Errorf("flow %d: %d of %d packets chosen", f, times, every)
		}
	}
	var square float64
	for _, n := range positions {
		square += math.Pow(float64(n)-flows/every, 2) / (flows / every)
	}
	if square > quantile {
		t.Errorf("places of the chosen packet: %v, chi-square %.1f", positions, square)
	}
}

// transported is a whole packet of some transport, with content of its own.
func (v variety) transported() []byte {
	v.onePort = uint16(1 + v.IntN(5000)) // none that a mark could have
	content := v.bytes(8 + v.IntN(64))
	protocol, behind := uint8(17), ported(v.port(), v.port(), content)
	switch v.IntN(5) {
	case 0:
		protocol, behind = 6, tcp(v.port(), v.port(), 0x10, nil, content)
		binary.BigEndian.PutUint64(behind[4:], v.Uint64()) // sequence and acknowledgement
	case 1:
		protocol, behind = 58, append([]byte{128, 0}, content...)
	case 2:
		protocol, behind = 132, ported(v.port(), v.port(), content)
	}
	if v.IntN(2) == 0 {
		return ipv6(v.pick(hosts6), v.pick(hosts6), protocol, behind)
	}
	return ipv4(v.pick(hosts4), v.pick(hosts4), protocol, behind)
}

// hashOf is what Sampling.Hash computes of a packet, by the reference implementation of
// SipHash: of 72 bytes, the addresses in 16 each, ports, protocol, version of IP, two zeros,
// and 32 bytes of content.
func hashOf(packet []byte, seed string) uint32 {
	key := keyOf(packet)
	var b [72]byte
	at := 40
	if packet[0]>>4 == 4 {
		at = 20
	}
	put := func(to []byte, a netip.Addr) { copy(to, a.AsSlice()) }
	put(b[:16], key.Src)
	put(b[16:32], key.Dst)
	binary.BigEndian.PutUint16(b[32:], key.Sport)
	binary.BigEndian.PutUint16(b[34:], key.Dport)
	b[36], b[37] = key.Protocol, packet[0]>>4
	content := packet[at:]
	switch key.Protocol {
	case 6:
		content = content[4:12]
	case 17, 33, 136:
		content = content[8:]
	case 132:
		content = content[12:]
	}
	copy(b[40:], content)

	return uint32(codec.Key(hashKey(seed)).SipHash(b[:]))
}

// TestHashSamplingAgrees: sources with one seed choose the same packets, which the reference
// implementation names, by whatever path and encoding; one with another seed chooses
// independently of them.
func TestHashSamplingAgrees(t *testing.T) {
	const n = 10000
	sampled := func(settings Settings, every uint32, seed string) *Source {
		settings.Sampling = wire.Sampling{Hash: every, HashSeed: seed}
		return open(t, settings)
	}
	fast := Settings{Policy: Policy{Modules: wire.Delay | wire.Loss, Encodings: wire.EncodingList{wire.UDPOption, wire.Native, wire.UDP}}}
	for _, every := range []uint32{2, 10} {
		sources := []*Source{sampled(fast, every, "a"), sampled(all(wire.Shim, wire.Loss), every, "a"), sampled(fast, every, "b")}
		v := variety{Rand: rand.New(rand.NewPCG(5, uint64(every)))}
		var counts [3]float64
		var common float64
		for range n {
			packet := v.transported()
			var marked [3]bool
			for i, s := range sources {
				if marked[i] = s.chosen(t, packet); marked[i] {
					counts[i]++
				}
			}
			if want := hashOf(packet, "a") < threshold(every); marked[0] != want || marked[1] != want {
				t.Fatalf("%x: chosen %v, want %v", packet, marked[:2], want)
			}
			if marked[0] && marked[2] {
				common++
			}
		}
		p, q := counts[0]/n, counts[2]/n
		if expected := 1 / float64(every); math.Abs(p-expected) > 5*math.Sqrt(expected*(1-expected)/n) {
			t.Errorf("%g of %d packets chosen, one in %d wanted", counts[0], n, every)
		}
		if r := (common/n - p*q) / math.Sqrt(p*(1-p)*q*(1-q)); math.Abs(r) > 0.05 {
			t.Errorf("one in %d: correlation %.3f between two seeds", every, r)
		}
	}
}

// TestFlowsEvictedExact: flows count as evicted once they are missing, and only then.
func TestFlowsEvictedExact(t *testing.T) {
	const size, flows = 64, 200
	settings := all(wire.UDP, wire.Loss)
	settings.Flows = size
	s := open(t, settings)
	begin := func(first, n uint16) {
		for i := range n {
			s.mark(t, ipv4("192.0.2.1", "198.51.100.2", 17, ported(1000+first+i, 2, nil)))
		}
	}
	sweep := func(most uint64) Tally {
		t.Helper()
		if err := s.Sweep(); err != nil {
			t.Fatal(err)
		}
		tally := s.mustTally(t)
		if tally.FlowsEvicted != tally.FlowsStarted-tally.Flows-tally.FlowsExpired || tally.FlowsEvicted > most {
			t.Errorf("evicted %d of %d, %d there, %d expired; at most %d can be missing",
				tally.FlowsEvicted, tally.FlowsStarted, tally.Flows, tally.FlowsExpired, most)
		}
		return tally
	}
	begin(0, 8)
	if tally := s.mustTally(t); tally.FlowsEvicted != 0 {
		t.Errorf("evicted %d before anything was counted", tally.FlowsEvicted)
	}
	few := sweep(0)
	begin(8, flows-8)
	if tally := s.mustTally(t); tally.FlowsEvicted != few.FlowsEvicted {
		t.Errorf("evicted %d since the flows were counted", tally.FlowsEvicted-few.FlowsEvicted)
	}
	full := sweep(flows)
	if full.FlowsEvicted < flows-size {
		t.Errorf("evicted %d, of %d flows in %d places", full.FlowsEvicted, flows, size)
	}
	if again := sweep(full.FlowsEvicted); again.FlowsEvicted != full.FlowsEvicted {
		t.Errorf("evicted %d, at once after it %d", full.FlowsEvicted, again.FlowsEvicted)
	}
}
