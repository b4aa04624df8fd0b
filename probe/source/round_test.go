package source

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// answering is a datagram of the flow, or of the one that returns.
func answering(back bool) []byte {
	packet := append([]byte{0x60, 0, 0, 0, 0, 10, 17, 64}, make([]byte, 32)...)
	from, to, ports := byte(1), byte(2), []byte{0xc0, 0, 0, 9}
	if back {
		from, to, ports = to, from, []byte{0, 9, 0xc0, 0}
	}
	packet[8], packet[23], packet[24], packet[39] = 0x20, from, 0x20, to
	return append(packet, append(ports, 0, 10, 0, 0, 'h', 'i')...)
}

// roundBed marks the packets of one flow, and hears those that return.
type roundBed struct {
	*testing.T
	s *Source
}

// send returns the mark of the next packet.
func (b roundBed) send() codec.Mark {
	b.Helper()
	packet := answering(false)
	return checkMarked(b.T, run(b.T, b.s.objects.SourceTc, packet), packet, wire.PDM)
}

// hear lets a packet return, with a mark.
func (b roundBed) hear(m codec.Mark) {
	b.Helper()
	marked, err := codec.Insert(answering(true), wire.PDM, m, wire.Port)
	if err != nil {
		b.Fatal(err)
	}
	if out := run(b.T, b.s.objects.SourceReturn, marked); !slices.Equal(out, marked) {
		b.Fatalf("a packet that returned was changed:\n%x\n%x", marked, out)
	}
}

// answer is the mark of a packet that answers another one.
func answer(number uint16, to codec.Mark, host time.Duration) codec.Mark {
	echo := codec.Echo{Last: uint16(to.Sequence), LastReceived: codec.DeltaOf(host)}
	return codec.Mark{Modules: wire.Loss, Sequence: uint32(number), Single: true, Echo: echo}
}

func (b roundBed) rounds() []Round {
	b.Helper()
	rounds, err := b.s.Rounds()
	if err != nil {
		b.Fatal(err)
	}
	return rounds
}

func pdm(encodings ...wire.Encoding) Settings {
	return Settings{Policy: Policy{Modules: wire.Loss, Encodings: append(wire.EncodingList{wire.PDM}, encodings...)}}
}

// TestRoundTrip: what a source says of the packets that return, and what it learns from them.
func TestRoundTrip(t *testing.T) {
	b := roundBed{t, open(t, pdm())}
	first := b.send()
	if first.Echo != (codec.Echo{}) {
		t.Errorf("the first packet echoes %+v", first.Echo)
	}
	const host = 3 * time.Microsecond
	before := time.Now()
	b.hear(answer(65535, first, host))
	second := b.send()
	most := time.Since(before)
	if e := second.Echo; e.Last != 65535 || e.LastReceived.Duration() <= 0 || e.LastReceived.Duration() > most || e.LastSent.Duration() <= 0 {
		t.Errorf("the second packet echoes %+v within %v", e, most)
	}
	b.hear(answer(65535, first, host)) // again: no other answer
	b.hear(answer(0, second, 2*host))
	rounds := b.rounds()
	if len(rounds) != 1 || rounds[0].Count != 2 || rounds[0].Strange != 0 || rounds[0].Key != keyOf(answering(false)) {
		t.Fatalf("round trips: %+v", rounds)
	}
	r := rounds[0]
	if r.Host.Min != codec.DeltaOf(host).Duration() || r.Host.Max != codec.DeltaOf(2*host).Duration() || r.Host.Sum != r.Host.Min+r.Host.Max {
		t.Errorf("the host's part: %+v", r.Host)
	}
	if r.Round.Sum != r.Host.Sum+r.Network.Sum || r.Round.Min < host || r.Round.Max > time.Second || r.Uncertainty <= 0 || r.Uncertainty > time.Microsecond {
		t.Errorf("round trips: %+v", r)
	}
	if again := b.rounds(); len(again) != 0 {
		t.Errorf("read again: %+v", again)
	}
	third := b.send()
	b.hear(answer(1, third, time.Hour))
	if rounds = b.rounds(); len(rounds) != 1 || rounds[0].Strange != 1 || rounds[0].Count != 0 {
		t.Errorf("an answer that was kept for an hour: %+v", rounds)
	}
}

// TestRoundTripOfFastFlow: where not every packet is remembered, those that are still count.
func TestRoundTripOfFastFlow(t *testing.T) {
	b := roundBed{t, open(t, pdm())}
	const packets = 1000
	var sent []codec.Mark
	for range packets {
		sent = append(sent, b.send())
	}
	for i, m := range sent {
		b.hear(answer(uint16(i), m, 0))
	}
	rounds := b.rounds()
	if len(rounds) != 1 || rounds[0].Count < ECHO_SENT/2 || rounds[0].Count > ECHO_SENT {
		t.Errorf("round trips of %d packets at once: %+v", packets, rounds)
	}
}

// ECHO_SENT is that of echo.h.
const ECHO_SENT = 64

// TestRoundTripRefusesStrangers: what is no answer to a packet of a flow that is measured counts nowhere.
func TestRoundTripRefusesStrangers(t *testing.T) {
	b := roundBed{t, open(t, pdm())}
	first := b.send()
	other := first
	other.Sequence = (first.Sequence + 1) & 0xffff
	b.hear(answer(1, other, 0))
	for name, change := range map[string]func([]byte) []byte{
		"another port":    func(p []byte) []byte { p[40+16+1]++; return p },
		"another address": func(p []byte) []byte { p[23]++; return p },
		"cut short":       func(p []byte) []byte { return p[:50] },
		"endless option":  func(p []byte) []byte { p[43] = 255; return p },
		"a long header":   func(p []byte) []byte { p[41] = 200; return p },
		"not the option":  func(p []byte) []byte { p[42] = 0x1f; return p },
	} {
		marked, err := codec.Insert(answering(true), wire.PDM, answer(2, first, 0), wire.Port)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tryRun(t, b.s.objects.SourceReturn, change(marked)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if rounds := b.rounds(); len(rounds) != 0 {
		t.Errorf("round trips: %+v", rounds)
	}
	b.hear(answer(3, first, 0))
	if rounds := b.rounds(); len(rounds) != 1 || rounds[0].Count != 1 {
		t.Errorf("the right answer: %+v", rounds)
	}

	b.s = open(t, tagged(pdm()))
	m := b.send()
	b.hear(answer(4, m, 0)) // no destination has accepted its tag
	if rounds := b.rounds(); len(rounds) != 0 {
		t.Errorf("round trips without a tag: %+v", rounds)
	}
	b.s = open(t, Settings{Policy: Policy{Modules: wire.Loss, Encodings: wire.EncodingList{wire.PDM}}, StartEmpty: true})
	b.hear(codec.Mark{Modules: wire.Loss, Sequence: 7, Single: true})
	var key [40]byte
	if err := b.s.objects.Echoes.NextKey(nil, &key); err == nil {
		t.Errorf("a flow that no rule wants is remembered: %x", key)
	}
}

// TestPDMScales compares the durations that the program writes and reads with the codec.
func TestPDMScales(t *testing.T) {
	b := roundBed{t, open(t, pdm())}
	const longest = 9_444_732_965_739 // ~0 / 5^9
	random := rand.New(rand.NewPCG(8250, 1))
	number := uint16(0)
	for range 1000 {
		host := time.Duration(random.Uint64N(longest) >> random.IntN(44))
		delta := codec.DeltaOf(host)
		if random.IntN(4) == 0 {
			delta = codec.Delta{Scale: uint8(random.Uint32()), Value: uint16(random.Uint32())}
		}
		m := b.send()
		// The packet left an hour before the largest of these, so that the answer counts.
		b.shift(longest)
		number++
		reply := answer(number, m, 0)
		reply.Echo.LastReceived = delta
		b.hear(reply)
		rounds := b.rounds()
		if delta == (codec.Delta{}) {
			continue
		}
		if len(rounds) != 1 || rounds[0].Count != 1 {
			t.Fatalf("%+v: %+v", delta, rounds)
		}
		if got, want := rounds[0].Host.Sum, min(delta.Duration(), longest); got != want {
			t.Errorf("%+v was read as %d ns, want %d", delta, got, want)
		}
		// And what is written of a packet that came so long ago.
		since := time.Duration(random.Uint64N(longest-uint64(time.Minute)) >> random.IntN(30))
		b.received(since)
		before := time.Now()
		echo := b.send().Echo.LastReceived
		if least, most := codec.DeltaOf(since), since+time.Since(before)+time.Second; echo.Duration() < least.Duration() || echo.Duration() > most {
			t.Errorf("%v came back as %v", since, echo.Duration())
		}
		if again := codec.DeltaOf(echo.Duration() + 1); echo.Value>>15 == 0 || again.Scale != echo.Scale {
			t.Errorf("%+v is not in the form of the codec, %+v", echo, again)
		}
	}
}

// change rewrites the state of the only flow.
func (b roundBed) change(f func(*sourceEcho)) {
	b.Helper()
	var key [40]byte
	var e sourceEcho
	if err := b.s.objects.Echoes.NextKey(nil, &key); err != nil {
		b.Fatal(err)
	}
	if err := b.s.objects.Echoes.Lookup(key, &e); err != nil {
		b.Fatal(err)
	}
	f(&e)
	if err := b.s.objects.Echoes.Update(key, &e, ebpf.UpdateExist); err != nil {
		b.Fatal(err)
	}
}

// shift lets packets have left earlier.
func (b roundBed) shift(by uint64) {
	b.change(func(e *sourceEcho) {
		for i, sent := range e.Sent {
			if sent != 0 {
				e.Sent[i] = (sent>>16-by)<<16 | sent&0xffff
			}
		}
		e.Shift = 0
	})
}

// monotonic is the clock of the programs, in nanoseconds.
func monotonic(t *testing.T) uint64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return uint64(now.Nano())
}

// received lets the newest packet have come so long ago.
func (b roundBed) received(ago time.Duration) {
	b.change(func(e *sourceEcho) { e.ReceivedNs = monotonic(b.T) - uint64(ago) })
}
