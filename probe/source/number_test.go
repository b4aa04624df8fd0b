package source

import (
	"math"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

func TestEveryOutcomeHasAName(t *testing.T) {
	if len(outcomeNames) != int(sourceOutcomeOUTCOMES) {
		t.Errorf("%d names for %d outcomes", len(outcomeNames), sourceOutcomeOUTCOMES)
	}
}

var plain4 = ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 2, []byte("x")))

func TestLease(t *testing.T) {
	s := open(t, all(wire.UDP, wire.Loss))
	rows := []struct {
		name  string
		until uint64 // kernel ticks
		want  string
	}{
		{"never renewed", 0, "no_lease"},
		{"forever", math.MaxUint64, "marked"},
		{"over", 1, "no_lease"},
		{"forever again", math.MaxUint64, "marked"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if err := s.objects.LeaseUntil.Set(row.until); err != nil {
				t.Fatal(err)
			}
			if got := s.outcome(t, plain4); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
	if err := s.Renew(time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := s.outcome(t, plain4); got != "marked" {
		t.Errorf("renewed for an hour: %s", got)
	}
}

func TestOutcomesOfSettings(t *testing.T) {
	plain6 := ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, []byte("x")))
	big := ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 2, make([]byte, 1500-28-51)))
	rows := []struct {
		name     string
		settings Settings
		packet   []byte
		want     string
	}{
		{"IPv6 off", Settings{Policy: Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.UDP}}}, plain6, "encoding"},
		{"IPv4 off", Settings{Policy: Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.Native}}}, plain4, "encoding"},
		{"just too large", all(wire.UDP, wire.Delay|wire.Loss), big, "mtu"},
		{"just fits", all(wire.UDP, wire.Delay|wire.Loss), seal4(big[:len(big)-1]), "marked"},
		{"to the port of marks", all(wire.UDP, wire.Loss), ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 50253, nil)), "existing_option"},
		{"to another port of marks", Settings{Policy: Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.UDP}}, Port: 4000}, ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 4000, nil)), "existing_option"},
		{"to everybody", all(wire.Shim, wire.Loss), ipv4("192.0.2.1", "255.255.255.255", 17, ported(1, 2, nil)), "multicast"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			packet := append([]byte(nil), row.packet...)
			if packet[0]>>4 == 4 {
				seal4(packet)
			}
			if got := open(t, row.settings).outcome(t, packet); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// TestFlowKeyWildcards: packets that differ only in wildcard fields are one flow.
func TestFlowKeyWildcards(t *testing.T) {
	packet := func(src, dst string, protocol uint8, sport, dport uint16) []byte {
		behind := ported(sport, dport, make([]byte, 12))
		behind[12] = 5 << 4
		return ipv4(src, dst, protocol, behind)
	}
	first := packet("192.0.2.1", "198.51.100.2", 17, 1, 2)
	others := map[flow.Fields][]byte{
		flow.Src:      packet("192.0.2.9", "198.51.100.2", 17, 1, 2),
		flow.Dst:      packet("192.0.2.1", "198.51.100.9", 17, 1, 2),
		flow.Protocol: packet("192.0.2.1", "198.51.100.2", 132, 1, 2),
		flow.Sport:    packet("192.0.2.1", "198.51.100.2", 17, 9, 2),
		flow.Dport:    packet("192.0.2.1", "198.51.100.2", 17, 1, 9),
	}
	for _, fields := range []flow.Fields{flow.All, flow.Src | flow.Dst, flow.Src | flow.Dst | flow.Dport, flow.Protocol, flow.Sport} {
		t.Run(fields.String(), func(t *testing.T) {
			settings := all(wire.UDP, wire.Loss)
			settings.Flow = fields
			s := open(t, settings)
			next := s.mark(t, first).Sequence + 1
			for field, other := range others {
				m := s.mark(t, other)
				if shared := m.Sequence == next; shared == (fields&field != 0) {
					t.Errorf("%v: number %d, the first flow is at %d", field, m.Sequence, next)
				} else if shared {
					next++
				}
			}
			if got := s.mark(t, first).Sequence; got != next {
				t.Errorf("number %d, want %d", got, next)
			}
		})
	}
}

// TestFlowTableIsBounded: the flow that was used longest ago makes room.
func TestFlowTableIsBounded(t *testing.T) {
	const size, flows = 64, 1000
	settings := all(wire.UDP, wire.Loss)
	settings.Flows = size
	s := open(t, settings)
	for i := range uint16(flows) {
		s.mark(t, ipv4("192.0.2.1", "198.51.100.2", 17, ported(1000+i, 2, nil)))
	}
	if err := s.Sweep(); err != nil {
		t.Fatal(err)
	}
	tally := s.mustTally(t)
	if tally.Flows > size || tally.Flows == 0 || tally.FlowsStarted != flows ||
		tally.FlowsStarted != tally.Flows+tally.FlowsEvicted+tally.FlowsExpired {
		t.Errorf("tally %+v", tally)
	}
	if tally.Marked != flows || tally.BytesAdded != flows*uint64(wire.UDP.Overhead(wire.Loss)) {
		t.Errorf("%d marked, %d bytes added", tally.Marked, tally.BytesAdded)
	}
}

// onOneCPU keeps the test where the sampler counts.
func onOneCPU(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	for cpu := range 1024 {
		if before.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.SchedSetaffinity(0, &before); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	})
}

// TestSampling changes the sampling while sequence numbers continue.
func TestSampling(t *testing.T) {
	const n = 2000
	// Of random ones six standard deviations of the binomial distribution.
	spread := func(p float64) float64 { return 6 * math.Sqrt(n*p*(1-p)) }
	rows := []struct {
		name         string
		sampling     wire.Sampling
		want, spread float64
	}{
		{"all", wire.Sampling{}, n, 0},
		{"one in ten", wire.Sampling{Every: 10}, n / 10, 0},
		{"one in one", wire.Sampling{Every: 1, Random: 1}, n, 0},
		{"at random one in two", wire.Sampling{Random: 2}, n / 2, spread(1. / 2)},
		{"at random one in twenty", wire.Sampling{Random: 20}, n / 20, spread(1. / 20)},
		{"one in five, of these one in two", wire.Sampling{Every: 5, Random: 2}, n / 10, 6 * math.Sqrt(n/5*0.25)},
		{"one an hour", wire.Sampling{MinGap: wire.Duration(time.Hour)}, 1, 0},
		{"one an hour again", wire.Sampling{MinGap: wire.Duration(time.Hour)}, 1, 0},
		{"all again", wire.Sampling{}, n, 0},
	}
	s := open(t, all(wire.UDP, wire.Loss))
	onOneCPU(t)
	next := s.mark(t, plain4).Sequence + 1
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if err := s.Sample(row.sampling); err != nil {
				t.Fatal(err)
			}
			onOneCPU(t)
			before := s.mustTally(t)
			for range n {
				out := run(t, s.objects.SourceTc, plain4)
				_, m, _, err := codec.Extract(out, wire.Port)
				if err != nil {
					continue
				}
				if m.Sequence != next&wire.SequenceMask {
					t.Fatalf("number %d, want %d", m.Sequence, next)
				}
				next++
			}
			after := s.mustTally(t)
			marked := after.Marked - before.Marked
			if math.Abs(float64(marked)-row.want) > row.spread {
				t.Errorf("%d of %d marked, want %g +- %g", marked, n, row.want, row.spread)
			}
			if skipped := after.Skipped["not_sampled"] - before.Skipped["not_sampled"]; marked+skipped != n {
				t.Errorf("%d marked and %d not sampled of %d", marked, skipped, n)
			}
		})
	}
	if err := s.Sample(wire.Sampling{MinGap: -1}); err == nil {
		t.Error("a negative gap was taken")
	}
}
