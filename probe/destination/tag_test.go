package destination

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

var pairKey = wire.Key{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// keyed accepts marks with the key of the pair only.
func keyed(t *testing.T) *Destination {
	t.Helper()
	return openTC(t, Settings{Peers: Peers{{}: {Keys: []wire.Key{pairKey}}}})
}

// tagger writes marks with tags into one packet.
type tagger struct {
	packet   []byte
	encoding wire.Encoding
	key      wire.Key
}

// taggers returns one for each encoding and IP version.
func taggers(t *testing.T) map[string]tagger {
	t.Helper()
	all := map[string]tagger{}
	for _, v := range golden(t) {
		for _, name := range []string{"ipv4 udp", "ipv6 udp", "ipv4 tcp", "ipv6 tcp"} {
			if v.Name == v.Encoding.String()+" delay,loss "+name {
				all[v.Encoding.String()+" "+name] = tagger{v.Original, v.Encoding, pairKey}
			}
		}
	}
	return all
}

// sentAt puts a time into a mark, as its encoding has it.
func (w tagger) sentAt(m codec.Mark, at time.Time) codec.Mark {
	m.Modules |= wire.Delay
	if codec.HasTicks(w.encoding) {
		m.Ticks = codec.TicksOf(at)
	} else {
		m.Sent = codec.TimestampOf(at)
	}
	return m
}

// write returns the frame of a mark. at: when it was sent; timed: the mark says so
func (w tagger) write(t *testing.T, number uint32, timed bool, at time.Time, changes ...func(*codec.Mark)) []byte {
	t.Helper()
	m := codec.Mark{Modules: wire.Loss, Sequence: number, Single: true}
	if timed {
		m = w.sentAt(m, at)
	}
	m, err := codec.Tag(w.packet, w.encoding, m, codec.Key(w.key), at)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(&m)
	}
	marked, err := codec.Insert(w.packet, w.encoding, m, wire.Port)
	if err != nil {
		t.Fatal(err)
	}
	return frame(marked)
}

// verdict sends a frame through a program and says what became of it. A rejected frame must
// be as it was.
func (d *Destination) verdict(t *testing.T, hook int, in []byte) string {
	t.Helper()
	before := d.mustTally(t)
	out := run(t, hooks[hook].program(d), in, 0)
	after := d.mustTally(t)
	if after.Packets != before.Packets {
		return "marked"
	}
	if string(out) != string(in) {
		t.Errorf("a frame that was not accepted was changed:\nin  %x\nout %x", in, out)
	}
	for name, n := range after.Reasons {
		if n != before.Reasons[name] {
			return name
		}
	}
	return "unmarked"
}

func TestForgedTags(t *testing.T) {
	other := wire.Key{9}
	rows := []struct {
		name  string
		make  func(t *testing.T, w tagger, timed bool) []byte
		want  string
		timed string // only marks with a time, or without
	}{
		{"right", func(t *testing.T, w tagger, timed bool) []byte { return w.write(t, 7, timed, time.Now()) }, "marked", ""},
		{"clock 15 s ahead", func(t *testing.T, w tagger, timed bool) []byte {
			return w.write(t, 7, timed, time.Now().Add(15*time.Second))
		}, "marked", ""},
		{"clock 15 s behind", func(t *testing.T, w tagger, timed bool) []byte {
			return w.write(t, 7, timed, time.Now().Add(-15*time.Second))
		}, "marked", ""},
		{"no tag", func(t *testing.T, w tagger, timed bool) []byte {
			return w.write(t, 7, timed, time.Now(), func(m *codec.Mark) { m.Tagged, m.Tag = false, 0 })
		}, "forged", ""},
		{"key of another", func(t *testing.T, w tagger, timed bool) []byte {
			w.key = other
			return w.write(t, 7, timed, time.Now())
		}, "forged", ""},
		{"other number", func(t *testing.T, w tagger, timed bool) []byte {
			return w.write(t, 7, timed, time.Now(), func(m *codec.Mark) { m.Sequence++ })
		}, "forged", ""},
		{"not single", func(t *testing.T, w tagger, timed bool) []byte {
			return w.write(t, 7, timed, time.Now(), func(m *codec.Mark) { m.Single = false })
		}, "forged", ""},
		{"other time", func(t *testing.T, w tagger, timed bool) []byte {
			return w.write(t, 7, timed, time.Now(), func(m *codec.Mark) { *m = w.sentAt(*m, time.Now().Add(-time.Second)) })
		}, "forged", "timed"},
		{"no time", func(t *testing.T, w tagger, timed bool) []byte {
			return w.write(t, 7, timed, time.Now(), func(m *codec.Mark) { m.Modules, m.Ticks, m.Sent = wire.Loss, 0, 0 })
		}, "forged", "timed"},
		{"one bit of the tag", func(t *testing.T, w tagger, timed bool) []byte {
			return w.write(t, 7, timed, time.Now(), func(m *codec.Mark) { m.Tag ^= 1 << 31 })
		}, "forged", ""},
		{"of another flow", func(t *testing.T, w tagger, timed bool) []byte {
			packet := slices.Clone(w.packet)
			packet[sourceAddress(packet)]++
			theirs := w
			theirs.packet = fixChecksum(packet)
			m, err := codec.Tag(theirs.packet, theirs.encoding, codec.Mark{Modules: wire.Loss, Sequence: 7, Single: true}, codec.Key(w.key), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return w.write(t, 7, false, time.Now(), func(own *codec.Mark) { own.Tag = m.Tag })
		}, "forged", "untimed"},
		{"40 s ago", func(t *testing.T, w tagger, timed bool) []byte {
			return w.write(t, 7, timed, time.Now().Add(-40*time.Second))
		}, "forged", "timed"},
		{"as long ago as the time wraps", func(t *testing.T, w tagger, timed bool) []byte {
			return w.write(t, 7, timed, time.Now().Add(-1<<36))
		}, "forged", ""},
		{"from the future", func(t *testing.T, w tagger, timed bool) []byte { return w.write(t, 7, timed, time.Now().Add(1<<36)) }, "forged", ""},
	}
	d := open(t, Settings{Peers: Peers{{}: {Keys: []wire.Key{pairKey}}}}) // with the program of XDP
	for name, w := range taggers(t) {
		for _, row := range rows {
			for _, timed := range []bool{true, false} {
				if row.timed == "timed" && !timed || row.timed == "untimed" && timed || row.name == "not single" && !codec.HasBursts(w.encoding) {
					continue
				}
				hook := 0
				if timed {
					hook = 1
				}
				if got := d.verdict(t, hook, row.make(t, w, timed)); got != row.want {
					t.Errorf("%s, time %t, %s: %s, want %s", name, timed, row.name, got, row.want)
				}
				if flows := d.takeFlows(t); len(flows) != 0 == (row.want == "forged") {
					t.Errorf("%s, time %t, %s: %d flows", name, timed, row.name, len(flows))
				}
			}
		}
	}
}

// sourceAddress is the offset of a byte of the source address.
func sourceAddress(packet []byte) int {
	if packet[0]>>4 == 4 {
		return 15
	}
	return 23
}

// fixChecksum makes the checksum of an IPv4 header right.
func fixChecksum(packet []byte) []byte {
	if packet[0]>>4 == 4 {
		return seal(packet)
	}
	return packet
}

// TestReplayedMarks: whoever keeps marks with right tags and sends them again changes no
// figure, and nothing that was sent inside another packet is delivered.
func TestReplayedMarks(t *testing.T) {
	d := keyed(t)
	for name, w := range taggers(t) {
		for _, timed := range []bool{true, false} {
			if !timed && strings.HasPrefix(name, "tcp") {
				continue
			}
			const base = 5 << 16
			began := time.Now().Add(-3 * time.Second)
			first := w.write(t, base, true, began)
			early := w.write(t, base+1, timed, began.Add(time.Microsecond))
			send := func(in []byte, want string) {
				t.Helper()
				if got := d.verdict(t, 0, in); got != want {
					t.Errorf("%s, time %t: %s, want %s", name, timed, got, want)
				}
			}
			send(first, "marked")
			send(early, "marked")
			for number := uint32(base + 2); number < base+1100; number++ {
				run(t, d.objects.DestinationTc, w.write(t, number, number%16 == 0, time.Now()), 0)
			}
			send(first, "replayed") // behind the window
			send(early, "replayed")
			send(w.write(t, base+90_000, true, time.Now()), "marked") // as if many were lost
			send(first, "replayed")                                   // would begin the flow again
			send(early, "replayed")
			send(w.write(t, 9<<16, true, time.Now()), "marked") // the source has begun again
			counts := d.takeFlow(t).Window
			if counts.Expected != 90_002 || counts.Unique != 1102 || counts.Restarts != 1 || counts.Duplicated+counts.Late+counts.Reordered != 0 {
				t.Errorf("%s, time %t: %+v", name, timed, counts)
			}
		}
	}
}

// TestCopyInTheNextEpoch: a copy of a mark without a time does not look newer than its original when the epoch of its tag is
// over: the first half of the next one accepts the tag.
func TestCopyInTheNextEpoch(t *testing.T) {
	const epoch = 1 << 35 // ns
	d := keyed(t)
	for name, w := range taggers(t) {
		if strings.Contains(name, "tcp") {
			continue // marks of connections have a time each; the encoding matters, not what it carries
		}
		// The clock of the destination: 5 s before the end of an epoch, and then in the next one.
		end := time.Unix(0, (time.Now().UnixNano()/epoch+1)*epoch)
		clock := func(at time.Time) {
			t.Helper()
			if err := d.FollowClock(); err != nil {
				t.Fatal(err)
			}
			ahead := uint64(time.Until(at))
			var monotonic uint64
			err := d.objects.MonotonicOffsetNs.Get(&monotonic)
			if err := errors.Join(err, d.objects.MonotonicOffsetNs.Set(monotonic+ahead)); err != nil {
				t.Fatal(err)
			}
		}
		const base = 5 << 16
		clock(end.Add(-5 * time.Second))
		early := w.write(t, base+1, false, end.Add(-5*time.Second))
		for number := uint32(base); number < base+1100; number++ {
			run(t, d.objects.DestinationTc, w.write(t, number, number == base, end.Add(-5*time.Second)), 0)
		}
		if got := d.verdict(t, 0, early); got != "replayed" {
			t.Errorf("%s: %s in its epoch, want replayed", name, got)
		}
		clock(end.Add(5 * time.Second))
		if got := d.verdict(t, 0, early); got != "replayed" {
			t.Errorf("%s: %s in the next epoch, want replayed", name, got)
		}
		if got := d.verdict(t, 0, w.write(t, base+1100, false, end.Add(-time.Second))); got != "marked" {
			t.Errorf("%s: a packet that was under way is %s", name, got)
		}
		d.takeFlow(t)
	}
}

// TestLateCopies: a copy that comes with its original is a duplicate (RFC 5560); one that
// comes seconds later was sent by somebody else.
func TestLateCopies(t *testing.T) {
	d := keyed(t)
	for name, w := range taggers(t) {
		old := w.write(t, 1<<16, true, time.Now().Add(-3*time.Second))
		fresh := w.write(t, 1<<16+1, true, time.Now())
		for _, step := range []struct {
			in   []byte
			want string
		}{{old, "marked"}, {old, "marked"}, {fresh, "marked"}, {old, "replayed"}, {fresh, "marked"}} {
			if got := d.verdict(t, 0, step.in); got != step.want {
				t.Errorf("%s: %s, want %s", name, got, step.want)
			}
		}
		if counts := d.takeFlow(t); counts.Packets != 4 || counts.Window.Duplicated != 2 || counts.Window.Unique != 2 {
			t.Errorf("%s: %d packets, %+v", name, counts.Packets, counts.Window)
		}
	}
}

// TestForgedMarksInARun: of a fast flow most marks have no time and are counted in a short way.
func TestForgedMarksInARun(t *testing.T) {
	d := keyed(t)
	for name, w := range taggers(t) {
		liar := w
		liar.key = wire.Key{1}
		for number := uint32(1 << 16); number < 1<<16+200; number++ {
			timed := number%16 == 0
			if got := d.verdict(t, 0, liar.write(t, number, false, time.Now())); got != "forged" {
				t.Fatalf("%s: forged number %d is %s", name, number, got)
			}
			if got := d.verdict(t, 0, w.write(t, number, timed, time.Now())); got != "marked" {
				t.Fatalf("%s: number %d is %s", name, number, got)
			}
		}
		d.objects.CollectPass.Set(uint32(1))
		rows := d.mustRead(t, ByFlow)
		if len(rows) != 1 || rows[0].Packets != 200 || rows[0].Expected != 200 || rows[0].Lost+rows[0].Duplicated+rows[0].Restarts != 0 {
			t.Errorf("%s: %+v", name, rows)
		}
		d.takeFlow(t)
	}
}

// TestFlowsOfAPeerAreBounded: a peer that invents ports leaves room for the flows of others.
func TestFlowsOfAPeerAreBounded(t *testing.T) {
	var packet []byte
	for _, v := range golden(t) {
		if v.Name == "udp delay,loss ipv4 udp" {
			packet = v.Original
		}
	}
	from := keyOf(packet).Src
	peers := Peers{netip.PrefixFrom(from, 32): {}, netip.PrefixFrom(from.Next(), 32): {}}
	d := openTC(t, Settings{Flows: 64, FlowsPerPeer: 16, Peers: peers, Idle: time.Nanosecond})
	flood := func(offset byte, flows int) {
		t.Helper()
		for port := range flows {
			p := slices.Clone(packet)
			p[15] += offset
			p[20], p[21] = 0x40, byte(port)
			marked, err := codec.Insert(seal(p), wire.UDP, codec.Mark{Modules: wire.Loss, Sequence: 1 << 16, Single: true}, wire.Port)
			if err != nil {
				t.Fatal(err)
			}
			run(t, d.objects.DestinationTc, frame(marked), 0)
		}
	}
	flood(0, 60)
	if tally := d.mustTally(t); tally.Packets != 60 || tally.FlowsFull != 44 {
		t.Errorf("%d packets, %d in no flow, want 60 and 44", tally.Packets, tally.FlowsFull)
	}
	flood(1, 16)
	if tally := d.mustTally(t); tally.Packets != 76 || tally.FlowsFull != 44 {
		t.Errorf("another peer: %d packets, %d in no flow, want 76 and 44", tally.Packets, tally.FlowsFull)
	}
	for range 2 { // idle flows leave, and make room for others of the peer
		if _, err := d.Read(ByFlow); err != nil {
			t.Fatal(err)
		}
	}
	full := d.mustTally(t).FlowsFull
	flood(0, 16)
	if tally := d.mustTally(t); tally.FlowsFull != full {
		t.Errorf("%d flows refused after the others left", tally.FlowsFull-full)
	}
}
