package source

import (
	"errors"
	"testing"
	"time"

	"pillion.dev/internal/clock"
	"pillion.dev/probe/block"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
	"pillion.dev/wire/test/codec"
)

// blockPacket is a packet that gets the colour of its block.
func blockPacket(t *testing.T) []byte {
	t.Helper()
	vectors, err := codec.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		if v.Name == "altmark ipv6 udp" {
			return v.Original
		}
	}
	t.Fatal("no such vector")
	return nil
}

// setClock sets the program's clock.
func (s *Source) setClock(t *testing.T, now time.Time) {
	t.Helper()
	offset, err := clock.MonotonicOffset()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.objects.MonotonicOffsetNs.Set(uint64(offset + time.Until(now))); err != nil {
		t.Fatal(err)
	}
}

// blocksAt returns what was sent in blocks that are over by then.
func (s *Source) blocksAt(t *testing.T, now time.Time, period time.Duration) []block.Count {
	t.Helper()
	counts, _, err := s.blocks.Read(s.objects.ModuleStates, now, period)
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

// TestBlocksAreCounted: the first packet of a block has D, the colour alternates, the flow keeps its
// identifier, and the counts are those of the marks.
func TestBlocksAreCounted(t *testing.T) {
	const first, blocks, each = 1_700_000_010, 3, 5
	packet := blockPacket(t)
	for name, settings := range map[string]Settings{
		"both": all(wire.AltMark, wire.Delay|wire.Loss), "loss": all(wire.AltMark, wire.Loss), "tagged": tagged(all(wire.AltMark, wire.Delay|wire.Loss)),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, settings)
			var id uint32
			var counts []block.Count
			for n := range uint64(blocks) {
				begin := time.Unix(int64(first+n), 100e6)
				for i := range each {
					s.setClock(t, begin.Add(time.Duration(i)*100*time.Millisecond))
					m := s.mark(t, packet)
					if n == 0 && i == 0 {
						id = m.Block.Flow
					}
					want := codec.AltMark{Flow: id, Loss: (first+n)&1 == 1, Delay: i == 0 && name != "loss"}
					if m.Block != want || m.Tagged != (name == "tagged") {
						t.Errorf("packet %d of block %d: %+v, want %+v", i, n, m.Block, want)
					}
				}
				counts = append(counts, s.blocksAt(t, begin.Add(time.Second), time.Second)...)
			}
			if len(counts) != blocks {
				t.Fatalf("%+v", counts)
			}
			for n, c := range counts {
				if c.Number != first+uint64(n) || c.Packets != each || c.Doubtful != 0 || c.Marked.IsZero() != (name == "loss") || c.Key != keyOf(packet) {
					t.Errorf("block %d: %+v", n, c)
				}
				if off := c.Marked.Sub(time.Unix(int64(c.Number), 100e6)); name != "loss" && (off < 0 || off > 90*time.Millisecond) {
					t.Errorf("block %d: D at %v", n, c.Marked)
				}
			}
		})
	}
}

// TestBlocksOfALength: another length has counts of its own; a clock that is set back does not
// keep packets from being marked.
func TestBlocksOfALength(t *testing.T) {
	packet := blockPacket(t)
	settings := all(wire.AltMark, wire.Delay|wire.Loss)
	settings.Rules = []fivetuple.Filter{{}}
	s := open(t, settings)
	now := time.Unix(1_700_000_010, 500e6)
	s.setClock(t, now)
	s.mark(t, packet)
	policy := s.settings.complete()
	short := 100 * time.Millisecond
	policy.Block = wire.Duration(short)
	if err := s.SetPolicies([]Policy{policy}, []Rule{{}}, nil); err != nil {
		t.Fatal(err)
	}
	s.setClock(t, now) // loading took a while
	run(t, s.variants[s.places[0]].programs.SourceTc, packet)
	counts := append(s.blocksAt(t, now.Add(200*time.Millisecond), short), s.blocksAt(t, now.Add(time.Second), short)...)
	if len(counts) != 2 || counts[0].Period != short || counts[1].Period != time.Second || counts[0].Packets != 1 || counts[1].Packets != 1 {
		t.Errorf("%+v", counts)
	}

	s = open(t, all(wire.AltMark, wire.Loss))
	s.setClock(t, now)
	s.mark(t, packet)
	s.blocksAt(t, now.Add(time.Second), time.Second)
	back := now.Add(-time.Hour)
	s.setClock(t, back)
	s.mark(t, packet)
	if counts := s.blocksAt(t, back.Add(time.Second), time.Second); len(counts) != 1 || counts[0].Number != uint64(back.Unix()) {
		t.Errorf("an hour back: %+v", counts)
	}
}

// TestBlocksRefuse: what a count of all packets does not go with, and packets that are not counted.
func TestBlocksRefuse(t *testing.T) {
	settings := all(wire.AltMark, wire.Delay|wire.Loss)
	sampled, long := settings, settings
	sampled.Sampling.Every = 2
	long.Block = wire.Duration(2 * time.Minute)
	if err := sampled.check(); !errors.Is(err, ErrBlocks) {
		t.Errorf("sampling: %v", err)
	}
	if err := long.check(); !errors.Is(err, block.ErrPeriod) {
		t.Errorf("blocks of two minutes: %v", err)
	}
	settings.Flows = 1
	s := open(t, settings)
	if err := s.Sample(wire.Sampling{Random: 2}); !errors.Is(err, ErrBlocks) {
		t.Errorf("change of the sampling: %v", err)
	}
	packet := blockPacket(t)
	s.mark(t, packet)
	other := append([]byte{}, packet...)
	other[40]++ // the source port
	if got := s.outcome(t, other); got != "no_room" {
		t.Errorf("a flow for which there is no state: %s", got)
	}
	probe := append([]byte{}, packet...)
	probe[42], probe[43] = byte(wire.ProbePort>>8), byte(wire.ProbePort&0xff)
	if m := s.mark(t, probe); m.Block.Flow != 0 || m.Block.Delay {
		t.Errorf("path probe: %+v", m)
	}
}

// TestBlocksBeforeMarking: a source that does not mark yet has missed no blocks since 1970.
func TestBlocksBeforeMarking(t *testing.T) {
	settings := all(wire.AltMark, wire.Loss)
	settings.Block = wire.Duration(time.Minute)
	s := open(t, settings)
	s.clock = clock.Follower{}
	if err := s.prepare(settings); err != nil {
		t.Fatal(err)
	}
	for _, renew := range []bool{false, true} {
		if renew {
			if err := s.Renew(Forever); err != nil {
				t.Fatal(err)
			}
		}
		if _, missed, err := s.Blocks(); err != nil || missed != 0 {
			t.Errorf("missed %d blocks: %v", missed, err)
		}
	}
}
